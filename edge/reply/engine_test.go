package reply

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/lab/edgerig"
	"example.com/marketdata/internal/lab/memstore"
	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/internal/lab/teststore"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an engine over a store.
type rig struct {
	*Engine
	*edgerig.Rig
}

func newRig(tb testing.TB, store artifacts.Store, shardMemory, responseMemory int64) *rig {
	r := edgerig.New(tb, store, shardMemory, responseMemory)
	e := New(Config{Refresher: r.Refresher, WarmBytes: shardMemory / 4})
	r.Run(tb, e.Warm)
	return &rig{e, r}
}

// ask answers one request, without the server.
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

// header returns a header of the answer.
func header(p *Reply, name string) string { return string(value(p, name)) }

// value is header, and nil where there is none.
func value(p *Reply, name string) []byte {
	for line := range bytes.Lines(slices.Concat(p.Fixed, p.Lines)) {
		if n, value, _ := bytes.Cut(line, []byte(": ")); string(n) == name {
			return bytes.TrimSuffix(value, []byte("\r\n"))
		}
	}
	return nil
}

func newRequest() *Request { return &Request{Context: context.Background(), Reply: Reply{Status: 200}} }

// TestIgnored: X-Ignored is made for each request, from what that one was asked:
// on new and cached answers, 200 and 304, and in neither body nor tag.
func TestIgnored(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(100, 1), teststore.Start)
	for _, memory := range []int64{1, 1 << 20} { // nothing is cached, all is
		r := newRig(t, store, 64<<20, memory)
		r.Await(t, teststore.Start)
		for e, c := range map[query.Endpoint]struct{ raw, ignored string }{
			query.Quotes:   {"id=&id=&fields=x&limit=1&page=1", "fields,id,limit"},
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

func TestConditionsAndCodings(t *testing.T) {
	store := memstore.New()
	p := teststore.Publish(t, store, teststore.NewFeed(500, 1), teststore.Start)
	r := newRig(t, store, 64<<20, 1<<20)
	r.Await(t, teststore.Start)
	now := teststore.Start.Add(90 * time.Second)
	get := func(raw string, headers ...string) *Reply {
		t.Helper()
		req := newRequest()
		req.Now = now
		for i := 0; i < len(headers); i += 2 {
			*map[string]*[]byte{"Accept-Encoding": &req.AcceptEncoding, "If-None-Match": &req.IfNoneMatch,
				"If-Modified-Since": &req.IfModifiedSince}[headers[i]] = []byte(headers[i+1])
		}
		if got := ask(t, r, req, query.Quotes, raw); got != nil {
			t.Fatalf("%+v", got)
		}
		return &req.Reply
	}
	plain := get("size=50")
	tag := header(plain, "ETag")
	body := bytes.Clone(plain.Body)
	const fresh = "private, max-age=510, stale-while-revalidate=60, stale-if-error=86400"
	if len(tag) != 34 || header(plain, "Cache-Control") != fresh ||
		header(plain, "X-Snapshot-Time") != "2026-03-04T05:10:00Z" ||
		header(plain, "Last-Modified") != "Wed, 04 Mar 2026 05:10:00 GMT" {
		t.Fatalf("headers: %s", fmt.Sprintf("%+v", *plain))
	}
	if got := header(plain, "Cache-Status"); got != "edge; fwd=miss" {
		t.Errorf("Cache-Status %q at first", got)
	}
	get("size=50")
	if got := header(get("size=50&symbol="), "Cache-Status"); got != "edge; hit" {
		t.Errorf("Cache-Status %q at last", got)
	}
	for _, c := range []string{"gzip", "br", "zstd"} {
		for _, raw := range []string{"size=50", "size=49&page=2"} {
			ctx := get(raw, "Accept-Encoding", c)
			decoded, err := decode(ctx)
			if err != nil || !bytes.Equal(decoded, get(raw).Body) {
				t.Errorf("%s %s: decoded body differs: %v", c, raw, err)
			}
			want := strings.TrimSuffix(header(get(raw), "ETag"), `"`) + "-" + c + `"`
			if got := header(ctx, "ETag"); got != want {
				t.Errorf("%s: ETag %s, want %s", c, got, want)
			}
		}
	}
	hexes := strings.Trim(tag, `"`)
	for _, inm := range []string{tag, "W/" + tag, `"x", ` + tag, `"` + hexes + `-gzip"`, `W/"` + hexes + `-br" , "y"`,
		"*", ` * `} {
		ctx := get("size=50", "If-None-Match", inm, "Accept-Encoding", "gzip")
		if ctx.Status != 304 || len(ctx.Body) != 0 || len(header(ctx, "Cache-Status")) != 0 ||
			header(ctx, "ETag") != `"`+hexes+`-gzip"` || len(header(ctx, "Content-Encoding")) != 0 {
			t.Errorf("If-None-Match %s: %s", inm, fmt.Sprintf("%+v", *ctx))
		}
	}
	for _, inm := range []string{`"x"`, hexes, `"` + hexes, `"` + hexes + `-deflate"`, `"` + hexes[1:] + `"`, "", "W/",
		`x"` + hexes + `"`} {
		if ctx := get("size=50", "If-None-Match", inm); ctx.Status != 200 || !bytes.Equal(ctx.Body, body) {
			t.Errorf("If-None-Match %s: %d", inm, ctx.Status)
		}
	}
	since := "Wed, 04 Mar 2026 05:10:00 GMT"
	if got := get("size=50", "If-Modified-Since", since).Status; got != 304 {
		t.Errorf("If-Modified-Since: %d", got)
	}
	if got := get("size=50", "If-Modified-Since", since, "If-None-Match", `"x"`).Status; got != 200 {
		t.Errorf("If-None-Match takes precedence: %d", got)
	}
	if got := get("size=50", "If-Modified-Since", "Wed, 04 Mar 2026 05:10:01 GMT").Status; got != 200 {
		t.Errorf("later If-Modified-Since: %d", got)
	}
	_ = p
	// A page that did not change keeps its tag in the next snapshot.
	next := teststore.NewFeed(500, 1)
	teststore.Publish(t, store, next, teststore.Start.Add(artifacts.Step))
	r.Await(t, teststore.Start.Add(artifacts.Step))
	if got := header(get("size=50"), "ETag"); got != tag {
		t.Errorf("ETag of an unchanged page: %s, was %s", got, tag)
	}
}

func decode(p *Reply) ([]byte, error) {
	var res fasthttp.Response
	res.SetBodyRaw(p.Body)
	switch coding := header(p, "Content-Encoding"); coding {
	case "gzip":
		return res.BodyGunzip()
	case "br":
		return res.BodyUnbrotli()
	case "zstd":
		return res.BodyUnzstd()
	default:
		return nil, fmt.Errorf("coding %q", coding)
	}
}

// TestCacheLines: what a shared cache is told, by INTERFACE.md, "Headers": it may keep
// what is found by path and query alone, and for ever what is pinned there.
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
		for range 3 { // put together, admitted, held
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
