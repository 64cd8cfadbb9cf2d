package reply

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/test/edgerig"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an Engine with a refresher and a store.
type rig struct {
	*Engine
	*edgerig.Rig
}

func newRig(tb testing.TB, store artifacts.Store, shardMemory, responseMemory int64) *rig {
	r := edgerig.New(tb, store, shardMemory)
	e := New(Config{Refresher: r.Refresher, WarmBytes: shardMemory / 4, ResponseMemory: responseMemory})
	r.Run(tb, e.Warm)
	return &rig{e, r}
}

// ask answers one request without a server.
func ask(tb testing.TB, r *rig, req *Request, e query.Endpoint, raw string) error {
	tb.Helper()
	if req.Now.IsZero() {
		req.Now = teststore.Start
	}
	req.RawQuery = []byte(raw)
	req.Reply.Clear()
	if err := req.Query.Parse(e, []byte(raw)); err != nil {
		tb.Fatalf("%s: %v", raw, err)
	}
	return r.Answer(req)
}

// header returns the value of a header of the answer.
func header(p *Reply, name string) string { return string(value(p, name)) }

// value is like header, but returns nil if there is no such header.
func value(p *Reply, name string) []byte {
	for line := range bytes.Lines(slices.Concat(p.Fixed, p.Lines)) {
		if n, value, _ := bytes.Cut(line, []byte(": ")); string(n) == name {
			return bytes.TrimSuffix(value, []byte("\r\n"))
		}
	}
	return nil
}

func newRequest() *Request { return &Request{Context: context.Background(), Reply: Reply{Status: 200}} }

// TestIgnored checks that X-Ignored depends on the request's own query, whether the answer is new or
// cached, 200 or 304, and that it affects neither the body nor the tag.
func TestIgnored(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(100, 1), teststore.Start)
	for _, memory := range []int64{1, 1 << 20} { // caches nothing, caches everything
		r := newRig(t, store, 64<<20, memory)
		r.Await(t, teststore.Start)
		for e, c := range map[query.Endpoint]struct{ raw, ignored string }{
			query.Quotes:   {"size=&size=&fields=x&limit=1&page=1", "fields,limit,size"},
			query.Assets:   {strings.Repeat("x", 300), ""},
			query.Trending: {"page=1&by=gainers&by=", "by,page"},
			query.Global:   {"a+b", "a%20b"},
		} {
			var tag []byte
			for i, raw := range []string{"", c.raw, "", "", c.raw, c.raw} {
				req := newRequest()
				status, ignored := 200, ""
				if raw != "" {
					ignored = c.ignored
				}
				if i == 5 {
					req.IfNoneMatch, status = tag, 304
				}
				if got := ask(t, r, req, e, raw); got != nil || req.Reply.Status != status {
					t.Fatalf("%v?%s: %+v, status %d, want %d", e, raw, got, req.Reply.Status, status)
				}
				if got := value(&req.Reply, "X-Ignored"); string(got) != ignored || (got == nil) != (ignored == "") {
					t.Errorf("%v?%s, request %d: X-Ignored %q, want %q", e, raw, i, got, ignored)
				}
				if i == 0 {
					tag = bytes.Clone(value(&req.Reply, "ETag"))
				} else if got := value(&req.Reply, "ETag"); !bytes.Equal(got, tag) {
					t.Errorf("%v?%s, request %d: ETag %s, want %s", e, raw, i, got, tag)
				}
			}
		}
	}
}

// TestNotModified checks that a 304 has the tag of the coding and no body, and that If-None-Match takes
// precedence over If-Modified-Since, which must be exactly the time of the answer.
func TestNotModified(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(500, 1), teststore.Start)
	r := newRig(t, store, 64<<20, 1<<20)
	r.Await(t, teststore.Start)
	get := func(ifNoneMatch, ifModifiedSince, accept string) *Reply {
		t.Helper()
		req := newRequest()
		for field, value := range map[*[]byte]string{&req.IfNoneMatch: ifNoneMatch,
			&req.IfModifiedSince: ifModifiedSince, &req.AcceptEncoding: accept} {
			if value != "" {
				*field = []byte(value)
			}
		}
		if p := ask(t, r, req, query.Quotes, "size=50"); p != nil {
			t.Fatalf("%+v", p)
		}
		return &req.Reply
	}
	tag, since := header(get("", "", ""), "ETag"), "Wed, 04 Mar 2026 05:10:00 GMT"
	coded := strings.TrimSuffix(tag, `"`) + `-gzip"`
	for _, c := range []struct {
		match, since string
		status       int
	}{
		{tag, "", 304}, {"W/" + tag, "", 304}, {`"x", ` + coded, "", 304}, {" * ", "", 304}, {`"x"`, "", 200},
		{"", since, 304}, {`"x"`, since, 200}, {"", "Wed, 04 Mar 2026 05:10:01 GMT", 200},
	} {
		p := get(c.match, c.since, "gzip")
		is := p.Status == 304
		if p.Status != c.status || header(p, "ETag") != coded || (len(p.Body) == 0) != is ||
			(header(p, "Cache-Status") == "") != is || (header(p, "Content-Encoding") == "") != is {
			t.Errorf("%+v: %+v", c, *p)
		}
	}
}

// TestDates checks that a two-digit year means the latest year that is at most 50 years in the future. The
// first case is the example of RFC 9110, 5.6.7.
func TestDates(t *testing.T) {
	for text, year := range map[string]int{"Sunday, 06-Nov-94 08:49:37 GMT": 1994, "Sun Nov  6 08:49:37 1994": 1994,
		"Thursday, 06-Nov-70 08:49:37 GMT": 2070, "Monday, 06-Nov-78 08:49:37 GMT": 1978} {
		if got, ok := parseDate([]byte(text), teststore.Start); !ok || got.Year() != year {
			t.Errorf("%s: %v, want %d", text, got, year)
		}
	}
}

// TestCacheLines checks the headers for shared caches (INTERFACE.md, "Headers"). A cache may keep answers
// that depend only on path and query, and may keep them forever if the pin is in the path.
func TestCacheLines(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(50, 1), teststore.Start)
	r := newRig(t, store, 64<<20, 1<<20)
	r.Await(t, teststore.Start)
	at := teststore.Start.Add(90 * time.Second)
	const fresh, forever = "max-age=510, stale-while-revalidate=60, stale-if-error=86400", "max-age=86400, immutable"
	for _, c := range []struct {
		scope, origin    string
		pinned, inPath   bool
		endpoint         query.Endpoint
		control, vary    string
		surrogate, ctags string
	}{
		{"private", "*", false, false, query.Quotes, "private, " + fresh, "Accept-Encoding, X-Snapshot-Time", "", ""},
		{"private", "https://a.example", true, false, query.Quotes, "private, " + fresh,
			"Accept-Encoding, X-Snapshot-Time, Origin", "", ""},
		{"private", "*", true, true, query.Quotes, "private, " + forever, "Accept-Encoding", "", ""},
		{"public", "*", false, false, query.Quotes, "public, " + fresh, "Accept-Encoding", "20260304T051000Z quotes",
			"20260304T051000Z,quotes"},
		{"public", "*", true, false, query.Quotes, "private, " + fresh, "Accept-Encoding", "20260304T051000Z quotes",
			"20260304T051000Z,quotes"},
		{"public", "https://a.example", true, true, query.Trending, "public, " + forever, "Accept-Encoding, Origin",
			"20260304T051000Z trending", "20260304T051000Z,trending"},
		{"public", "*", true, true, query.Global, "public, " + fresh, "Accept-Encoding", "20260304T051000Z global",
			"20260304T051000Z,global"},
	} {
		r.Engine = New(Config{Refresher: r.Refresher, CacheScope: c.scope, AllowOrigin: c.origin})
		for range 3 { // composed, admitted, cached
			req := newRequest()
			req.Now, req.Pin, req.Pinned, req.PinInPath = at, teststore.Start, c.pinned, c.inPath
			must.OK(t, ask(t, r, req, c.endpoint, ""))
			for name, want := range map[string]string{"Cache-Control": c.control, "Vary": c.vary,
				"Surrogate-Key": c.surrogate, "Cache-Tag": c.ctags} {
				if got := header(&req.Reply, name); got != want {
					t.Errorf("%+v: %s: %q, want %q", c, name, got, want)
				}
			}
		}
	}
}
