// Package marketdata is a client of the Market Data Service, version 1 of its
// interface. It needs the standard library alone.
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

// Version is this client's version, which its User-Agent names.
const Version = "1.0.0"

// Client asks one service. Its methods are safe for concurrent use. New makes one.
type Client struct {
	base, key, agent string
	http             http.Client
	timeout, maxWait time.Duration
	retries          int
	wait             func(context.Context, time.Duration) error
}

// New returns a client of the service at baseURL, "https://host" without
// /openapi/v1. The key may be empty if the service needs none. An invalid
// base URL, key or option is an error.
func New(baseURL, key string, options ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	var problem string
	switch { // No message repeats the URL: it may be a key in the wrong place.
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

// visible reports whether a text is ASCII without control characters and without any below from.
func visible(text string, from byte) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < rune(from) || r > '~' }) < 0
}

// Option changes how a Client asks.
type Option func(*Client) error

// Timeout limits one attempt, its body included; 10 s unless given.
func Timeout(d time.Duration) Option {
	return func(c *Client) error {
		c.timeout = d
		return must(d > 0, "Timeout must be more than 0")
	}
}

// Retries is how many attempts may follow the first one; 3 unless given.
func Retries(n int) Option {
	return func(c *Client) error {
		c.retries = n
		return must(n >= 0, "Retries must be at least 0")
	}
}

// MaxWait is the longest Retry-After that is waited for, and the longest wait without one; the error
// that came with a longer one is returned immediately. 30 s unless given.
func MaxWait(d time.Duration) Option {
	return func(c *Client) error {
		c.maxWait = d
		return must(d > 0, "MaxWait must be more than 0")
	}
}

// UserAgent puts the name of a program, "board/2.1", before this client's in the User-Agent.
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

// HTTPClient sends requests with the Transport, Jar and Timeout of h: for example
// through your own proxy or with your own certificates. Redirects are not followed: they would carry the key elsewhere.
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

// Answer is a result and what the headers say of it.
type Answer[T any] struct {
	Result       T
	SnapshotTime time.Time           // of the snapshot that answered; zero before the first one
	NotFound     map[string][]string // values of a filter ("id", "slug", …) that match nothing
	Ignored      []string            // names of parameters that had no part in the answer
	Limit        *RateLimit          // nil when the answer does not tell
	RequestID    string
	Unchanged    bool // Refresh: the service says that Result is still what it was

	etag    string
	refresh func(context.Context, *Answer[T]) (*Answer[T], error)
}

// Refresh asks again. When nothing has changed, only headers are transferred and
// the answer has the same Result.
func (a *Answer[T]) Refresh(ctx context.Context) (*Answer[T], error) { return a.refresh(ctx, a) }

// RateLimit is the state of the bucket that a request was counted under.
type RateLimit struct {
	Quota, Window    int // requests that a full bucket has; seconds until all of them are available again
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

// Markets lists the quotes of Quotes with their ranks, in the order of any figure.
func (c *Client) Markets(ctx context.Context, q MarketsQuery) (*Answer[Page[Market]], error) {
	return get[Page[Market]](ctx, c, "markets", q)
}

// Trending returns up to 20 assets by their 24-hour change.
func (c *Client) Trending(ctx context.Context, q TrendingQuery) (*Answer[Items[Quote]], error) {
	return get[Items[Quote]](ctx, c, "trending", q)
}

// Exchanges lists exchanges.
func (c *Client) Exchanges(ctx context.Context, q ExchangesQuery) (*Answer[Page[Exchange]], error) {
	return get[Page[Exchange]](ctx, c, "exchanges", q)
}

// Global returns the market's totals; ErrNotFound before the first snapshot.
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

// History lists prices over q.Window, of the assets that q names; it must name some.
func (c *Client) History(ctx context.Context, q HistoryQuery) (*Answer[Page[History]], error) {
	return get[Page[History]](ctx, c, "history", q)
}

// Candles lists open, high, low and close of hours or days, of the assets that q names; it must name some.
func (c *Client) Candles(ctx context.Context, q CandlesQuery) (*Answer[Page[CandleSeries]], error) {
	return get[Page[CandleSeries]](ctx, c, "candles", q)
}

// Prices lists what the assets that q names were worth at the times of q.Time; it must name some of both.
func (c *Client) Prices(ctx context.Context, q PricesQuery) (*Answer[Page[PriceSeries]], error) {
	return get[Page[PriceSeries]](ctx, c, "prices", q)
}

// Changes lists what changed in the directory, newest first. ErrSnapshotGone means that the service no longer
// holds the changes since q.Since: read the listings again.
func (c *Client) Changes(ctx context.Context, q ChangesQuery) (*Answer[Page[Change]], error) {
	return get[Page[Change]](ctx, c, "changes", q)
}

// Search returns up to 20 assets whose name, symbol or slug has words that begin
// with those of words.
func (c *Client) Search(ctx context.Context, words string, q SearchQuery) (*Answer[Items[Asset]], error) {
	return get[Items[Asset]](ctx, c, "search", q, "q", words)
}

// Pages reads a whole listing page by page. All pages are from the snapshot of the first
// answer, whatever is published meanwhile:
//
//	for page, err := range marketdata.Pages(ctx, client.Quotes, marketdata.QuotesQuery{Size: 100}) { … }
//
// It ends with the first error. ErrSnapshotGone means that the listing took longer
// than snapshots are retained: begin again.
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

// Rows is Pages row by row.
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

// parameters returns what a query sends: each field under its name in lower case, but At.
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
			text = "," // no value, or one that is empty, matches nothing; sent as "" it would match all
		}
		if text != "" {
			values.Set(strings.ToLower(name), text)
		}
	}
	return values, at
}

// rfc3339 returns a time as the service reads it, without its fraction of a second.
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
		// absent before the first snapshot
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
