package rows

import (
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/internal/test/edgerig"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// current returns the snapshot of teststore.Start.
func current(tb testing.TB, store artifacts.Reader, shardMemory int64) *snapshot.Snapshot {
	tb.Helper()
	r := edgerig.New(tb, store, shardMemory)
	r.Run(tb, nil)
	return r.Await(tb, teststore.Start)
}

func newFinder() *Finder { return &Finder{Body: []byte{'['}} }

// TestCostByRowsSent sends the same queries to a small directory and to one twenty times its size, and
// checks that they read about the same number of rows and shards.
func TestCostByRowsSent(t *testing.T) {
	type cost struct{ shards, rows int }
	var first map[string]cost
	for _, n := range []int{2000, 40_000} {
		store := memstore.New()
		f := teststore.NewFeed(n, 1)
		for i := range 25 {
			f.Assets[40+i].Name = "Quokka " + f.Assets[40+i].Name
		}
		teststore.Publish(t, store, f.History(200), teststore.Start)
		s := current(t, store, 512<<20)
		costs := map[string]cost{}
		for _, raw := range []string{
			"", "page=3", "page=7&size=100", "sort=name:desc&page=2", "sort=rank", "sort=rank:desc&size=50",
			"sort=symbol:desc&size=100",
			"id=1", "id=1,3,5,7,9,1001", "slug=asset-9", "slug=asset-1,asset-2,nothing", "symbol=s5",
			"symbol=s5,s6&sort=name", "symbol=common&size=20", "symbol=common&limit=5&offset=50",
			"symbol=common&sort=id:desc&page=2",
			"id=1,21,41&symbol=common&sort=rank", "offset=1500&limit=30",
			"q=quok", "q=asset+quo+s", "q=Quokka+As", "q=s1+quokka", "q=none+asset", "q=q",
			"id=1,5,9&window=24h", "id=1,5,9,7&window=1y", "slug=asset-0,asset-19&window=7d", "symbol=s2,s4&window=30d",
			"id=21,1&symbol=common&window=90d",
		} {
			var q query.Query
			e, blocks := query.Assets, 0
			switch {
			case strings.Contains(raw, "window"):
				e = query.History
			case strings.HasPrefix(raw, "q="):
				e, blocks = query.Search, 40 // for the bounds of words, and for 20 assets
			}
			if err := q.Parse(e, []byte(raw)); err != nil {
				t.Fatal(err)
			}
			if e == query.History {
				blocks = 5*len(s.History(q.Window).Blocks) + 5 // for each item, and for the listing
			}
			w := newFinder()
			must.OK(t, w.Find(s, &q, time.Minute))
			costs[raw] = cost{w.Shards, w.Rows}
			if limit := max(q.Size, 35) + 2*len(q.IDs) + 10; w.Rows > limit ||
				w.Shards > 4+2*(len(q.IDs)+len(q.Slugs)+len(q.Symbols))+blocks {
				t.Errorf("%d assets, %q: %d rows and %d shards touched", n, raw, w.Rows, w.Shards)
			}
		}
		if first == nil {
			first = costs
			continue
		}
		for raw, c := range costs {
			// A page or a run may extend over two shards in one directory but not in the other.
			if d := c.shards - first[raw].shards; d > 4 || d < -4 || c.rows != first[raw].rows {
				t.Errorf("%q: %+v at %d assets, %+v at %d", raw, first[raw], 2000, c, n)
			}
		}
	}
}

// TestLargeSortWaits checks that a large sort waits for a slot only as long as its budget allows, and that
// a key whose own slots are occupied takes no shared slot.
func TestLargeSortWaits(t *testing.T) {
	large := func(places *limit.Places) error {
		w := newFinder()
		w.Places, w.Budget.Wait, w.filters.counts[ByID] = places, time.Millisecond, largeSort+1
		_, err := w.inOtherOrder(nil, nil, new(query.Query), ByID)
		return err
	}
	fill := func(places chan struct{}) (free func()) {
		for range cap(places) {
			places <- struct{}{}
		}
		return func() {
			for range cap(places) {
				<-places
			}
		}
	}
	var key limit.Places
	free := fill(key.Of(limit.LargeSort))
	if err := large(&key); !errors.Is(err, shards.ErrUnavailable) || len(shared[limit.LargeSort]) != 0 {
		t.Errorf("the key has its part: %v", err)
	}
	free()
	free = fill(shared[limit.LargeSort])
	for _, places := range []*limit.Places{nil, &key} {
		if err := large(places); !errors.Is(err, shards.ErrUnavailable) || len(key.Of(limit.LargeSort)) != 0 {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	}
	free()
}
