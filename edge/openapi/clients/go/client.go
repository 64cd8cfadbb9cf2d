// Package marketdata is a client of the Market Data Service, version 1 of its
// interface. It needs the standard library alone.
//
//	client := &marketdata.Client{BaseURL: "https://host", Key: "mdk_live_…"}
//	answer, err := client.Quotes(ctx, marketdata.Query{Symbols: []string{"BTC"}})
//	for row, err := range marketdata.Rows(ctx, client.Assets, marketdata.Query{Size: 100}) { … }
package marketdata

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client asks one service. Its methods are safe for concurrent use; its fields
// must not change after the first call.
type Client struct {
	BaseURL string // "https://host", without /openapi/v1
	Key     string // mdk_live_…

	HTTP    *http.Client  // nil: http.DefaultClient. Redirects are not followed: they would carry the key elsewhere
	Timeout time.Duration // of one attempt, its body included; 0: 10 s
	Retries int           // attempts after the first; 0: 3; negative: none
	MaxWait time.Duration // a longer Retry-After is returned as the error it came with; 0: 30 s
	// Sleep waits between attempts; nil: by the clock.
	Sleep func(context.Context, time.Duration) error
}

// Query are an endpoint's parameters. A zero value is not sent; Answer.Ignored
// names what the endpoint did not use.
type Query struct {
	IDs            []int64
	Slugs, Symbols []string  // up to 100 values of each
	Categories     []string  // slugs, of Markets
	Chains         []string  // likewise
	Page, Size     int       // page mode; Size up to 100
	Limit, Offset  int       // offset mode
	Sort           string    // "rank", "market_cap:desc"
	Fields         []string  // of Assets: "links"; of Markets: "groups"
	By             string    // of Trending
	Window         string    // of History: "24h", "7d", "30d", "90d", "1y"
	At             time.Time // the snapshot to answer from: Answer.SnapshotTime of an earlier answer
}

func (q Query) values() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	number := func(name string, n int) {
		if n != 0 {
			v.Set(name, strconv.Itoa(n))
		}
	}
	var ids []string
	for _, id := range q.IDs {
		ids = append(ids, strconv.FormatInt(id, 10))
	}
	set("id", strings.Join(ids, ","))
	set("slug", strings.Join(q.Slugs, ","))
	set("symbol", strings.Join(q.Symbols, ","))
	set("category", strings.Join(q.Categories, ","))
	set("chain", strings.Join(q.Chains, ","))
	number("page", q.Page)
	number("size", q.Size)
	number("limit", q.Limit)
	number("offset", q.Offset)
	set("sort", q.Sort)
	set("fields", strings.Join(q.Fields, ","))
	set("by", q.By)
	set("window", q.Window)
	return v
}

// Answer is a result and what the headers say of it.
type Answer[T any] struct {
	Result       T
	SnapshotTime time.Time           // of the snapshot that answered; zero before the first one
	NotFound     map[string][]string // values of a filter ("id", "slug", "symbol") that match nothing
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
	Quota, Window    int // requests at once; seconds until all of them are available again
	Remaining, Reset int // requests left; seconds until the bucket is full
}

// MessageKey is the stable name of an error, for errors.Is.
type MessageKey string

func (k MessageKey) Error() string { return string(k) }

// The keys of errors.
const (
	BadRequest         = MessageKey("BAD_REQUEST")
	Unauthorized       = MessageKey("UNAUTHORIZED")
	NotFound           = MessageKey("NOT_FOUND") // Global before the first snapshot
	PathNotFound       = MessageKey("PATH_NOT_FOUND")
	MethodNotAllowed   = MessageKey("METHOD_NOT_ALLOWED")
	RequestTimeout     = MessageKey("REQUEST_TIMEOUT")
	SnapshotGone       = MessageKey("SNAPSHOT_GONE") // Query.At, Pages, Rows: begin again
	PayloadTooLarge    = MessageKey("PAYLOAD_TOO_LARGE")
	TooManyRequests    = MessageKey("TOO_MANY_REQUESTS")
	HeadersTooLarge    = MessageKey("HEADERS_TOO_LARGE")
	InternalError      = MessageKey("INTERNAL_ERROR")
	ServiceUnavailable = MessageKey("SERVICE_UNAVAILABLE")
)

// Error is an answer that is no success: errors.As gives it, errors.Is compares
// its Key. Any other error means that no answer arrived.
type Error struct {
	Status     int
	Code       int        // of the envelope; 0 when something in between answered
	Key        MessageKey // likewise ""
	Message    string     // for people
	RetryAfter time.Duration
	Limit      *RateLimit
	RequestID  string
}

func (e *Error) Error() string {
	return fmt.Sprintf("market data service: %d %s: %s (request %s)", e.Status, e.Key, e.Message, e.RequestID)
}

// Unwrap returns the Key.
func (e *Error) Unwrap() error { return e.Key }

// Assets lists the directory of assets.
func (c *Client) Assets(ctx context.Context, q Query) (*Answer[List[Asset]], error) {
	return get[List[Asset]](ctx, c, "assets", q)
}

// Quotes lists the assets that have a price.
func (c *Client) Quotes(ctx context.Context, q Query) (*Answer[List[Quote]], error) {
	return get[List[Quote]](ctx, c, "quotes", q)
}

// Markets lists the quotes of Quotes with their ranks, in the order of any figure.
func (c *Client) Markets(ctx context.Context, q Query) (*Answer[List[Market]], error) {
	return get[List[Market]](ctx, c, "markets", q)
}

// Trending returns up to 20 assets by their 24-hour change.
func (c *Client) Trending(ctx context.Context, q Query) (*Answer[Items[Quote]], error) {
	return get[Items[Quote]](ctx, c, "trending", q)
}

// Exchanges lists exchanges.
func (c *Client) Exchanges(ctx context.Context, q Query) (*Answer[List[Exchange]], error) {
	return get[List[Exchange]](ctx, c, "exchanges", q)
}

// Global returns the market's totals; of q it takes At alone.
func (c *Client) Global(ctx context.Context, q Query) (*Answer[Global], error) {
	return get[Global](ctx, c, "global", q)
}

// Categories lists groups of assets.
func (c *Client) Categories(ctx context.Context, q Query) (*Answer[List[Category]], error) {
	return get[List[Category]](ctx, c, "categories", q)
}

// Chains lists blockchains.
func (c *Client) Chains(ctx context.Context, q Query) (*Answer[List[Chain]], error) {
	return get[List[Chain]](ctx, c, "chains", q)
}

// History lists prices over q.Window, of the assets that q names.
func (c *Client) History(ctx context.Context, q Query) (*Answer[List[History]], error) {
	return get[List[History]](ctx, c, "history", q)
}

// Search returns up to 20 assets whose name, symbol or slug has words that begin
// with those of words; of q it takes At alone.
func (c *Client) Search(ctx context.Context, words string, q Query) (*Answer[Items[Asset]], error) {
	return get[Items[Asset]](ctx, c, "search", q, "q", words)
}

// Pages reads a whole listing page by page from one snapshot, that of the first
// answer, whatever is published meanwhile:
//
//	for page, err := range marketdata.Pages(ctx, client.Quotes, marketdata.Query{Size: 100}) { … }
//
// It ends with the first error. SnapshotGone means that the listing took longer
// than snapshots are retained: begin again.
func Pages[T any](
	ctx context.Context, list func(context.Context, Query) (*Answer[List[T]], error), q Query,
) iter.Seq2[*Answer[List[T]], error] {
	return func(yield func(*Answer[List[T]], error) bool) {
		q.Limit, q.Offset = 0, 0
		for q.Page = max(q.Page, 1); ; q.Page++ {
			page, err := list(ctx, q)
			if !yield(page, err) || err != nil || int64(q.Page) >= page.Result.TotalPage {
				return
			}
			q.At = page.SnapshotTime
		}
	}
}

// Rows is Pages row by row.
func Rows[T any](
	ctx context.Context, list func(context.Context, Query) (*Answer[List[T]], error), q Query,
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

func get[T any](ctx context.Context, c *Client, endpoint string, q Query, more ...string) (*Answer[T], error) {
	values := q.values()
	if len(more) == 2 {
		values.Set(more[0], more[1])
	}
	target, header := "/openapi/v1/"+endpoint, http.Header{}
	if len(values) > 0 {
		target += "?" + values.Encode()
	}
	if !q.At.IsZero() {
		header.Set("X-Snapshot-Time", q.At.UTC().Format(time.RFC3339))
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
			return nil, fmt.Errorf("read the answer of %s: %w", endpoint, err)
		}
		return a, nil
	}
	return ask(ctx, nil)
}
