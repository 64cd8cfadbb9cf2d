package rows

import (
	"errors"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/teststore"
)

// TestLargeBodies checks that, while requests for large bodies occupy all slots and wait for the store, a
// further one fails within its own time limit. One key never occupies all slots, and small answers need
// none. In the end, all slots are free again.
func TestLargeBodies(t *testing.T) {
	store := faultstore.New(memstore.New(), nil)
	p := teststore.Publish(t, store, teststore.NewFeed(1000, 1).History(100), teststore.Start)
	blocks := map[artifacts.Key]bool{} // whether the object is read only after the answer has a slot
	latest, _ := p.Manifest.Latest()
	for i := range p.Manifest.Views {
		v := &p.Manifest.Views[i]
		for _, o := range v.Objects {
			blocks[artifacts.ObjectKey(o.Digest)] = v.Times != nil && v != latest
		}
	}
	away := make(chan struct{})
	back := sync.OnceFunc(func() { close(away) })
	store.SetHook(func(op faultstore.Op) faultstore.Decision {
		if blocks[op.Key] {
			<-away
		}
		return faultstore.Pass
	})
	s := current(t, store, 64<<20)
	t.Cleanup(back) // before the cache is closed
	find := func(places *limit.Places, e query.Endpoint, raw string, wait time.Duration) (bytes int, err error) {
		var q query.Query
		if err := q.Parse(e, []byte(raw)); err != nil {
			return 0, err
		}
		f := &Finder{Places: places, Buffers: new(Buffers)}
		f.Body = append(f.Buffers.Body(), '[')
		defer f.Buffers.Release()
		defer f.Release()
		err = f.Find(s, &q, wait)
		return len(f.Body), err
	}
	large := func(places *limit.Places, wait time.Duration) (int, error) {
		return find(places, query.History, "id=1,5,9,13,17,21,25,29,33,37,41,45,49,53,57,61,65,69,73,77&window=1y", wait)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what, "does not come")
			}
		}
	}
	var waiting sync.WaitGroup
	wait := func(places *limit.Places, n int) {
		for range n {
			waiting.Go(func() {
				if n, err := large(places, time.Minute); err != nil || n < 128<<10 {
					t.Errorf("a large answer of %d bytes: %v", n, err)
				}
			})
		}
	}
	all := shared[limit.LargeBody]
	// One key gets only its own slots, however many requests it sends, so another key gets some too.
	greedy, other := new(limit.Places), new(limit.Places)
	own := greedy.Of(limit.LargeBody)
	part := cap(own)
	wait(greedy, part+10)
	until("the key's part", func() bool { return len(own) == part })
	if _, err := large(greedy, time.Millisecond); !errors.Is(err, shards.ErrUnavailable) {
		t.Errorf("one more of the key: %v", err)
	}
	wait(other, 1)
	until("another key's", func() bool { return len(all) == part+1 })
	wait(nil, cap(all)-part-1)
	until("the last place", func() bool { return len(all) == cap(all) })
	if _, err := large(nil, time.Millisecond); !errors.Is(err, shards.ErrUnavailable) {
		t.Errorf("one more: %v", err)
	}
	if _, err := find(nil, query.Quotes, "page=3", time.Millisecond); err != nil {
		t.Errorf("a small answer: %v", err)
	}
	back()
	waiting.Wait()
	if n := len(all) + len(own) + len(other.Of(limit.LargeBody)); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}
