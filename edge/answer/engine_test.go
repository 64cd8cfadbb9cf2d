package answer

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/internal/lab/fixture"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an engine over a store, refreshed by hand.
type rig struct {
	*Engine
	store artifacts.Store
	cache *shards.Cache
	ref   *snapshot.Refresher
	// freeze ends refreshing alone.
	freeze, stop func()
}

func newRig(tb testing.TB, store artifacts.Store, shardMemory, responseMemory int64) *rig {
	tb.Helper()
	cache, err := shards.New(shards.Config{Store: store, Memory: shardMemory, Dir: tb.TempDir(), Wait: time.Minute})
	if err != nil {
		tb.Fatal(err)
	}
	ref := snapshot.NewRefresher(snapshot.Config{Store: store, Cache: cache, Poll: 10 * time.Millisecond, ResponseMemory: responseMemory})
	e := New(Config{Refresher: ref, WarmBytes: shardMemory / 4})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { ref.Run(ctx, e.Warm); close(done) }()
	r := &rig{Engine: e, store: store, cache: cache, ref: ref}
	r.freeze = func() { cancel(); <-done }
	r.stop = func() { r.freeze(); cache.Close() }
	tb.Cleanup(r.stop)
	return r
}

// await waits until the snapshot of at is current and on this machine.
func (r *rig) await(tb testing.TB, at time.Time) {
	tb.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		if s := r.ref.State(); s != nil && s.Snapshot != nil && s.Snapshot.Time.Equal(at) && r.ref.Status().Missing == 0 {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("snapshot of %v is not current: %+v", at, r.ref.Status())
		}
		time.Sleep(time.Millisecond)
	}
}

// ask answers one request, without the server.
func ask(tb testing.TB, r *rig, req *Request, e query.Endpoint, raw string) error {
	tb.Helper()
	if req.Now.IsZero() {
		req.Now = fixture.Start
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

// newKey returns a key that may be used rate times a second, and burst times at once.
func newKey(tb testing.TB, rate, burst int) *auth.Key {
	tb.Helper()
	text, err := artifacts.NewKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	var keys auth.Keys
	keys.Use(&artifacts.KeySet{Keys: []artifacts.KeyEntry{{
		ID: "key", Hash: artifacts.HashKey([]byte(text)), Rate: rate, Burst: burst,
	}}}, time.Now())
	key, _ := keys.Lookup([]byte(text), time.Now(), nil)
	return key
}

// TestIgnored: X-Ignored is made for each request, from what that one was asked:
// on new and cached answers, 200 and 304, and in neither body nor tag.
func TestIgnored(t *testing.T) {
	store := memstore.New()
	fixture.Publish(t, store, fixture.Feed(100, 1), fixture.Start, nil)
	for _, memory := range []int64{1, 1 << 20} { // nothing is cached, all is
		r := newRig(t, store, 64<<20, memory)
		r.await(t, fixture.Start)
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

// TestCostByRowsSent asks the same of a small directory and of one a hundred
// times its size: what composing touches is the same.
func TestCostByRowsSent(t *testing.T) {
	sizes := []int{2000, 200_000}
	if testing.Short() {
		sizes = []int{2000, 20_000}
	}
	type cost struct{ shards, rows int }
	var first map[string]cost
	for _, n := range sizes {
		store := memstore.New()
		f := fixture.Feed(n, 1)
		for i := range 25 {
			f.Assets[40+i].Name = "Quokka " + f.Assets[40+i].Name
		}
		fixture.PublishHistory(t, store, f, fixture.Start, nil, 200)
		r := newRig(t, store, 512<<20, 1)
		r.await(t, fixture.Start)
		s := r.ref.State().Snapshot
		costs := map[string]cost{}
		for _, raw := range []string{
			"", "page=3", "page=7&size=100", "sort=name:desc&page=2", "sort=rank", "sort=rank:desc&size=50", "sort=symbol:desc&size=100",
			"id=1", "id=1,3,5,7,9,1001", "slug=asset-9", "slug=asset-1,asset-2,nothing", "symbol=s5", "symbol=s5,s6&sort=name", "symbol=common&size=20", "symbol=common&limit=5&offset=50", "symbol=common&sort=id:desc&page=2",
			"id=1,21,41&symbol=common&sort=rank", "offset=1500&limit=30",
			"q=quok", "q=asset+quo+s", "q=Quokka+As", "q=s1+quokka", "q=none+asset", "q=q",
			"id=1,5,9&window=24h", "id=1,5,9,7&window=1y", "slug=asset-0,asset-19&window=7d", "symbol=s2,s4&window=30d", "id=21,1&symbol=common&window=90d",
		} {
			var q query.Query
			e, blocks := query.Assets, 0
			switch {
			case strings.Contains(raw, "window"):
				e = query.History
			case strings.HasPrefix(raw, "q="):
				e, blocks = query.Search, 40 // of what words begin and end with; and 20 assets, side by side
			}
			if err := q.Parse(e, []byte(raw)); err != nil {
				t.Fatal(err)
			}
			if e == query.History {
				blocks = 5*len(s.History(q.Window).Blocks) + 5 // of each item, and of the listing
			}
			var w work
			if err := w.compose(s, &q, time.Minute); err != nil {
				t.Fatal(err)
			}
			costs[raw] = cost{w.shards, w.visited}
			if limit := max(q.Size, 35) + 2*len(q.IDs) + 10; w.visited > limit || w.shards > 4+2*(len(q.IDs)+len(q.Slugs)+len(q.Symbols))+blocks {
				t.Errorf("%d assets, %q: %d rows and %d shards touched", n, raw, w.visited, w.shards)
			}
		}
		if first == nil {
			first = costs
			continue
		}
		for raw, c := range costs {
			// A page, or a run in it, may lie across the border of two shards in
			// one and not in the other.
			if d := c.shards - first[raw].shards; d > 4 || d < -4 || c.rows != first[raw].rows {
				t.Errorf("%q: %+v at %d assets, %+v at %d", raw, first[raw], sizes[0], c, n)
			}
		}
	}
}

func TestConditionsAndCodings(t *testing.T) {
	store := memstore.New()
	p := fixture.Publish(t, store, fixture.Feed(500, 1), fixture.Start, nil)
	r := newRig(t, store, 64<<20, 1<<20)
	r.await(t, fixture.Start)
	now := fixture.Start.Add(90 * time.Second)
	get := func(raw string, headers ...string) *Reply {
		t.Helper()
		req := newRequest()
		req.Now = now
		for i := 0; i < len(headers); i += 2 {
			*map[string]*[]byte{"Accept-Encoding": &req.AcceptEncoding, "If-None-Match": &req.IfNoneMatch, "If-Modified-Since": &req.IfModifiedSince}[headers[i]] = []byte(headers[i+1])
		}
		if got := ask(t, r, req, query.Quotes, raw); got != nil {
			t.Fatalf("%+v", got)
		}
		return &req.Reply
	}
	plain := get("size=50")
	tag := header(plain, "ETag")
	body := bytes.Clone(plain.Body)
	if len(tag) != 34 || header(plain, "Cache-Control") != "private, max-age=510, stale-while-revalidate=60, stale-if-error=86400" ||
		header(plain, "X-Snapshot-Time") != "2026-03-04T05:10:00Z" || header(plain, "Last-Modified") != "Wed, 04 Mar 2026 05:10:00 GMT" {
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
	for _, inm := range []string{tag, "W/" + tag, `"x", ` + tag, `"` + hexes + `-gzip"`, `W/"` + hexes + `-br" , "y"`, "*", ` * `} {
		ctx := get("size=50", "If-None-Match", inm, "Accept-Encoding", "gzip")
		if ctx.Status != 304 || len(ctx.Body) != 0 || len(header(ctx, "Cache-Status")) != 0 ||
			header(ctx, "ETag") != `"`+hexes+`-gzip"` || len(header(ctx, "Content-Encoding")) != 0 {
			t.Errorf("If-None-Match %s: %s", inm, fmt.Sprintf("%+v", *ctx))
		}
	}
	for _, inm := range []string{`"x"`, hexes, `"` + hexes, `"` + hexes + `-deflate"`, `"` + hexes[1:] + `"`, "", "W/", `x"` + hexes + `"`} {
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
	next := fixture.Feed(500, 1)
	fixture.Publish(t, store, next, fixture.Start.Add(artifacts.Step), p)
	r.await(t, fixture.Start.Add(artifacts.Step))
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
	fixture.Publish(t, store, fixture.Feed(50, 1), fixture.Start, nil)
	r := newRig(t, store, 64<<20, 1<<20)
	r.await(t, fixture.Start)
	at := fixture.Start.Add(90 * time.Second)
	const fresh, forever = "max-age=510, stale-while-revalidate=60, stale-if-error=86400", "max-age=86400, immutable"
	for _, c := range []struct {
		scope, origin    string
		pinned, inPath   bool
		endpoint         query.Endpoint
		control, vary    string
		surrogate, ctags string
	}{
		{"private", "*", false, false, query.Quotes, "private, " + fresh, "Accept-Encoding, X-Snapshot-Time", "", ""},
		{"private", "https://a.example", true, false, query.Quotes, "private, " + fresh, "Accept-Encoding, X-Snapshot-Time, Origin", "", ""},
		{"private", "*", true, true, query.Quotes, "private, " + forever, "Accept-Encoding", "", ""},
		{"public", "*", false, false, query.Quotes, "public, " + fresh, "Accept-Encoding", "20260304T051000Z quotes", "20260304T051000Z,quotes"},
		{"public", "*", true, false, query.Quotes, "private, " + fresh, "Accept-Encoding", "20260304T051000Z quotes", "20260304T051000Z,quotes"},
		{"public", "https://a.example", true, true, query.Trending, "public, " + forever, "Accept-Encoding, Origin", "20260304T051000Z trending", "20260304T051000Z,trending"},
		{"public", "*", true, true, query.Global, "public, " + fresh, "Accept-Encoding", "20260304T051000Z global", "20260304T051000Z,global"},
	} {
		r.Engine = New(Config{Refresher: r.refresher, CacheScope: c.scope, AllowOrigin: c.origin})
		for range 3 { // put together, admitted, held
			req := newRequest()
			req.Now, req.Pin, req.Pinned, req.PinInPath = at, fixture.Start, c.pinned, c.inPath
			if err := ask(t, r, req, c.endpoint, ""); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"Cache-Control": c.control, "Vary": c.vary, "Surrogate-Key": c.surrogate, "Cache-Tag": c.ctags} {
				if got := header(&req.Reply, name); got != want {
					t.Errorf("%+v: %s: %q, want %q", c, name, got, want)
				}
			}
		}
	}
}
