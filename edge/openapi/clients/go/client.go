// Package marketdata is a client for version 1 of the Market Data Service API. It needs only the
// standard library.
//
//	client, err := marketdata.New("https://host", "mdk_live_…")
//	answer, err := client.Quotes(ctx, marketdata.QuotesQuery{Symbol: []string{"BTC"}})
//	for row, err := range marketdata.Rows(ctx, client.Assets, marketdata.AssetsQuery{Size: 100}) { … }
package marketdata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Version is this client's version. The User-Agent header contains it.
const Version = "1.0.0"

// Client sends requests to one service. Its methods are safe for concurrent use. Use New to create a Client.
type Client struct {
	base, key, agent string
	http             http.Client
	timeout, maxWait time.Duration
	retries          int
	wait             func(context.Context, time.Duration) error
}

// New returns a client for the service at baseURL, such as "https://host", without /openapi/v1. The
// key may be empty if the service requires none. New returns an error if the base URL, the key or
// an option is invalid.
func New(baseURL, key string, options ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	var problem string
	switch { // No message repeats the URL, because it may be a misplaced key.
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		problem = "the base URL must be like https://host or http://127.0.0.1:8080"
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		problem = "the base URL must have no user, query or fragment"
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/openapi/v1"):
		problem = "the base URL must not end in /openapi/v1, which the client adds"
	case !visible(key, 0x21):
		problem = "the key must not have blanks, line breaks or characters outside ASCII"
	}
	if problem != "" {
		return nil, errors.New("marketdata: " + problem)
	}
	c := &Client{base: strings.TrimRight(baseURL, "/"), key: key, agent: "marketdata-go/" + Version,
		timeout: 10 * time.Second, maxWait: 30 * time.Second, retries: 3, wait: wait}
	for _, option := range options {
		if err := option(c); err != nil {
			return nil, fmt.Errorf("marketdata: %w", err)
		}
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// visible reports whether every character of text is an ASCII character between minChar and '~', inclusive.
func visible(text string, minChar byte) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < rune(minChar) || r > '~' }) < 0
}

// Option changes how a Client sends requests.
type Option func(*Client) error

// Timeout limits one attempt, including reading the body. The default is 10 s.
func Timeout(d time.Duration) Option {
	return func(c *Client) error {
		c.timeout = d
		return must(d > 0, "Timeout must be more than 0")
	}
}

// Retries sets how many times a failed request may be repeated. The default is 3.
func Retries(n int) Option {
	return func(c *Client) error {
		c.retries = n
		return must(n >= 0, "Retries must be at least 0")
	}
}

// MaxWait sets the longest wait between two attempts, not counting Retry-After. If an error's Retry-After
// is longer, the error is returned immediately. The default is 30 s.
func MaxWait(d time.Duration) Option {
	return func(c *Client) error {
		c.maxWait = d
		return must(d > 0, "MaxWait must be more than 0")
	}
}

// UserAgent puts the name of a program, such as "board/2.1", before this client's name in the User-Agent
// header.
func UserAgent(program string) Option {
	return func(c *Client) error {
		c.agent = program + " marketdata-go/" + Version
		return must(program != "" && visible(program, ' '), "UserAgent must be visible ASCII, such as board/2.1")
	}
}

// Sleep replaces the function that waits between attempts. Tests use it to avoid waiting.
func Sleep(wait func(context.Context, time.Duration) error) Option {
	return func(c *Client) error {
		c.wait = wait
		return must(wait != nil, "Sleep must not be nil")
	}
}

// HTTPClient sends requests with the Transport, Jar and Timeout of h, for example through your own proxy or
// with your own certificates. The client never follows redirects, because they could send the key to
// another server.
func HTTPClient(h *http.Client) Option {
	return func(c *Client) error {
		if h != nil {
			c.http = *h
		}
		return must(h != nil, "HTTPClient must not be nil")
	}
}

func must(ok bool, problem string) error {
	if ok {
		return nil
	}
	return errors.New(problem)
}

// Answer is a result together with the information in the response headers.
type Answer[T any] struct {
	Result       T
	SnapshotTime time.Time           // the time of the answer's snapshot; zero before the first snapshot
	NotFound     map[string][]string // values that match nothing, by filter ("id", "slug", …)
	Ignored      []string            // names of parameters that had no effect on the answer
	Limit        *RateLimit          // nil if the answer does not include it
	RequestID    string
	Unchanged    bool // set by Refresh if the service says that Result has not changed

	etag    string
	refresh func(context.Context, *Answer[T]) (*Answer[T], error)
}

// Refresh sends the request again. If nothing has changed, the service sends only headers, and the
// answer has the same Result.
func (a *Answer[T]) Refresh(ctx context.Context) (*Answer[T], error) { return a.refresh(ctx, a) }

// RateLimit is the state of the token bucket that the request was charged to.
type RateLimit struct {
	Quota, Window    int // requests in a full bucket; seconds until an empty bucket is full
	Remaining, Reset int // requests left; seconds until the bucket is full
}

// Assets lists the directory of assets.
func (c *Client) Assets(ctx context.Context, q AssetsQuery) (*Answer[Page[Asset]], error) {
	return get[Page[Asset]](ctx, c, "assets", q)
}

// Quotes lists the assets that have a price.
func (c *Client) Quotes(ctx context.Context, q QuotesQuery) (*Answer[Page[Quote]], error) {
	return get[Page[Quote]](ctx, c, "quotes", q)
}

// Markets lists the same quotes as Quotes with their ranks, and can sort by any figure.
func (c *Client) Markets(ctx context.Context, q MarketsQuery) (*Answer[Page[Market]], error) {
	return get[Page[Market]](ctx, c, "markets", q)
}

// Trending returns up to 20 assets, ordered by their 24-hour price change.
func (c *Client) Trending(ctx context.Context, q TrendingQuery) (*Answer[Items[Quote]], error) {
	return get[Items[Quote]](ctx, c, "trending", q)
}

// Exchanges lists exchanges.
func (c *Client) Exchanges(ctx context.Context, q ExchangesQuery) (*Answer[Page[Exchange]], error) {
	return get[Page[Exchange]](ctx, c, "exchanges", q)
}

// Global returns the market's totals. Before the first snapshot, it returns ErrNotFound.
func (c *Client) Global(ctx context.Context, q GlobalQuery) (*Answer[Global], error) {
	return get[Global](ctx, c, "global", q)
}

// Categories lists groups of assets.
func (c *Client) Categories(ctx context.Context, q CategoriesQuery) (*Answer[Page[Category]], error) {
	return get[Page[Category]](ctx, c, "categories", q)
}

// Chains lists blockchains.
func (c *Client) Chains(ctx context.Context, q ChainsQuery) (*Answer[Page[Chain]], error) {
	return get[Page[Chain]](ctx, c, "chains", q)
}

// History lists the prices over q.Window for the assets that q names. q must name at least one asset.
func (c *Client) History(ctx context.Context, q HistoryQuery) (*Answer[Page[History]], error) {
	return get[Page[History]](ctx, c, "history", q)
}

// Candles lists hourly or daily open, high, low and close prices for the assets that q names. q must name at least
// one asset.
func (c *Client) Candles(ctx context.Context, q CandlesQuery) (*Answer[Page[CandleSeries]], error) {
	return get[Page[CandleSeries]](ctx, c, "candles", q)
}

// Prices lists the prices, at the times in q.Time, of the assets that q names. q must contain at least one time and
// name at least one asset.
func (c *Client) Prices(ctx context.Context, q PricesQuery) (*Answer[Page[PriceSeries]], error) {
	return get[Page[PriceSeries]](ctx, c, "prices", q)
}

// Changes lists what changed in the directory, newest first. ErrSnapshotGone means that the service no longer
// has the changes since q.Since. In that case, read the listings again.
func (c *Client) Changes(ctx context.Context, q ChangesQuery) (*Answer[Page[Change]], error) {
	return get[Page[Change]](ctx, c, "changes", q)
}

// Search returns up to 20 assets. Each of the given words must begin a word of the name, the symbol or the
// slug.
func (c *Client) Search(ctx context.Context, words string, q SearchQuery) (*Answer[Items[Asset]], error) {
	return get[Items[Asset]](ctx, c, "search", q, "q", words)
}

// Pages reads a whole listing page by page. All pages are from the snapshot of the first
// answer, whatever is published meanwhile:
//
//	for page, err := range marketdata.Pages(ctx, client.Quotes, marketdata.QuotesQuery{Size: 100}) { … }
//
// It stops at the first error. ErrSnapshotGone means that reading took longer than the service
// keeps snapshots. In that case, start again.
func Pages[T any, Q PagesQuery](
	ctx context.Context, list func(context.Context, Q) (*Answer[Page[T]], error), q Q,
) iter.Seq2[*Answer[Page[T]], error] {
	return func(yield func(*Answer[Page[T]], error) bool) {
		q := q
		field := reflect.ValueOf(&q).Elem().FieldByName
		field("Limit").SetZero()
		field("Offset").SetZero()
		for number := max(field("Page").Int(), 1); ; number++ {
			field("Page").SetInt(number)
			page, err := list(ctx, q)
			if !yield(page, err) || err != nil || number >= page.Result.TotalPage {
				return
			}
			field("At").Set(reflect.ValueOf(page.SnapshotTime))
		}
	}
}

// Rows is like Pages, but yields row by row.
func Rows[T any, Q PagesQuery](
	ctx context.Context, list func(context.Context, Q) (*Answer[Page[T]], error), q Q,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, err := range Pages(ctx, list, q) {
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, row := range page.Result.Items {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// parameters returns the parameters of a query. Each field except At becomes a parameter with the field's
// name in lower case.
func parameters(query any) (values url.Values, at time.Time) {
	values = url.Values{}
	v := reflect.ValueOf(query)
	for i := range v.NumField() {
		text, name := "", v.Type().Field(i).Name
		switch value := v.Field(i).Interface().(type) {
		case time.Time:
			if name == "At" {
				at = value
			} else if !value.IsZero() {
				text = rfc3339(value)
			}
		case []time.Time:
			texts := make([]string, len(value))
			for i, t := range value {
				texts[i] = rfc3339(t)
			}
			text = strings.Join(texts, ",")
		case string:
			text = value
		case int:
			if value != 0 {
				text = strconv.Itoa(value)
			}
		case []string:
			text = strings.Join(value, ",")
		case []int64:
			text = strings.Trim(strings.ReplaceAll(fmt.Sprint(value), " ", ","), "[]")
		}
		if f := v.Field(i); f.Kind() == reflect.Slice && !f.IsNil() && text == "" {
			text = "," // an empty list, or one empty value, matches nothing, but "" would match everything
		}
		if text != "" {
			values.Set(strings.ToLower(name), text)
		}
	}
	return values, at
}

// rfc3339 formats a time as the service expects it, without fractional seconds.
func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func get[T any](ctx context.Context, c *Client, endpoint string, query any, more ...string) (*Answer[T], error) {
	values, at := parameters(query)
	if len(more) == 2 {
		values.Set(more[0], more[1])
	}
	target, header := "/openapi/v1/"+endpoint, http.Header{}
	if len(values) > 0 {
		target += "?" + values.Encode()
	}
	if !at.IsZero() {
		header.Set("X-Snapshot-Time", rfc3339(at))
	}
	var ask func(context.Context, *Answer[T]) (*Answer[T], error)
	ask = func(ctx context.Context, before *Answer[T]) (*Answer[T], error) {
		header := header.Clone()
		if before != nil {
			header.Set("If-None-Match", before.etag)
		}
		r, err := c.do(ctx, target, header)
		if err != nil {
			return nil, err
		}
		a := &Answer[T]{
			NotFound: notFound(r.header.Get("X-Not-Found")), Limit: limit(r.header),
			RequestID: r.header.Get("X-Request-Id"), etag: r.header.Get("ETag"), refresh: ask,
		}
		if names := r.header.Get("X-Ignored"); names != "" {
			a.Ignored = list(names)
		}
		// The header is absent before the first snapshot.
		a.SnapshotTime, _ = time.Parse(time.RFC3339, r.header.Get("X-Snapshot-Time"))
		if before != nil && r.status == http.StatusNotModified {
			a.Result, a.Unchanged = before.Result, true
		} else if err := json.Unmarshal(r.result, &a.Result); err != nil {
			return nil, &TransportError{fmt.Errorf("read the answer of %s: %w", endpoint, err)}
		}
		return a, nil
	}
	return ask(ctx, nil)
}
