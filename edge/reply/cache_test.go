package reply

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/teststore"
)

// TestAdmission checks that an answer is cached when it is requested for the second time, or immediately if
// it is compressed. A cached answer is also cached in every other coding that is requested. A 304 does not
// cause a coding.
func TestAdmission(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(500, 1), teststore.Start)
	r := newRig(t, store, 64<<20, 1<<20)
	r.Await(t, teststore.Start)
	const miss, hit = "edge; fwd=miss", "edge; hit"
	req := newRequest()
	for i, c := range []struct {
		raw, accept, status string
		cached              int64
	}{
		{"size=50", "", miss, 0}, {"size=50", "", miss, 1}, {"size=50", "", hit, 1},
		{"size=60", "br", miss, 2}, {"size=60", "br", hit, 2},
		{"size=60", "", miss, 2}, {"size=60", "", hit, 2}, {"size=50", "zstd", miss, 2}, {"size=50", "zstd", hit, 2},
		{"size=1", "zstd", miss, 2}, // too short to be compressed
	} {
		req.AcceptEncoding = []byte(c.accept)
		if p := ask(t, r, req, query.Quotes, c.raw); p != nil {
			t.Fatalf("%+v", p)
		}
		got, n := header(&req.Reply, "Cache-Status"), r.finished.Load().cache.Len()
		if got != c.status || n != c.cached {
			t.Errorf("request %d, %+v: %s, %d answers cached", i, c, got, n)
		}
	}
	if p := ask(t, r, req, query.Quotes, "size=50"); p != nil {
		t.Fatalf("%+v", p)
	}
	req.AcceptEncoding, req.IfNoneMatch = []byte("gzip"), []byte(header(&req.Reply, "ETag"))
	var q query.Query
	if err := q.Parse(query.Quotes, []byte("size=50")); err != nil {
		t.Fatal(err)
	}
	entry := r.finished.Load().cache.Get(q.AppendKey(nil))
	if p := ask(t, r, req, query.Quotes, "size=50"); p != nil || req.Reply.Status != 304 ||
		entry.Response(int(gzipCoding)) != nil {
		t.Errorf("%+v, status %d", p, req.Reply.Status)
	}
}

// TestOldSnapshotsKeepNoAnswers checks that, after a swap, the cached answers of the old snapshot are
// garbage although requests can still pin it, and that its state, with the answer to /global, is garbage
// too.
func TestOldSnapshotsKeepNoAnswers(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(200, 1), teststore.Start)
	r := newRig(t, store, 64<<20, 1<<20)
	r.Await(t, teststore.Start)
	req := newRequest()
	get := func(e query.Endpoint) string {
		t.Helper()
		if p := ask(t, r, req, e, ""); p != nil {
			t.Fatalf("%s: %+v", e, p)
		}
		return header(&req.Reply, "Cache-Status")
	}
	for range 3 {
		get(query.Quotes)
		get(query.Global)
	}
	if got := get(query.Global); got != "edge; hit" {
		t.Errorf("/global: %s", got)
	}
	old := r.Refresher.State().Snapshot
	cache, state := weak.Make(r.finished.Load().cache), weak.Make(r.Refresher.State())
	teststore.Publish(t, store, teststore.NewFeed(200, 2), teststore.Start.Add(artifacts.Step))
	r.Await(t, teststore.Start.Add(artifacts.Step))
	if got := get(query.Global); got != "edge; fwd=miss" {
		t.Errorf("/global after a swap: %s", got)
	}
	for deadline := time.Now().Add(20 * time.Second); cache.Value() != nil || state.Value() != nil; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("kept: the cache %v, the state %v", cache.Value() != nil, state.Value() != nil)
		}
	}
	req.Pin, req.Pinned = teststore.Start, true
	for range 3 {
		if got := get(query.Quotes); got != "edge; fwd=miss" {
			t.Errorf("pinned: %s", got)
		}
	}
	if got := get(query.Global); got != "edge; fwd=miss" ||
		header(&req.Reply, "X-Snapshot-Time") != string(old.TimeText) {
		t.Errorf("/global, pinned: %s, of %s", got, header(&req.Reply, "X-Snapshot-Time"))
	}
	if pinned, err := r.Refresher.Pinned(t.Context(), teststore.Start); err != nil || pinned != old {
		t.Errorf("the pinned snapshot is another one: %v", err)
	}
}
