package answer

import (
	"errors"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/edge/auth"
	coders "example.com/marketdata/edge/coding"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/lab/faultstore"
	"example.com/marketdata/internal/lab/fixture"
)

// TestLargeBodies: while as many requests as have memory for a large body wait for the
// store, one more is unavailable in its own time, and all places come back. One key never has
// all places. The same of those
// that wait to be coded, which have said before what they take. Small ones wait for neither.
func TestLargeBodies(t *testing.T) {
	store := faultstore.New(memstore.New(), nil)
	p := fixture.PublishHistory(t, store, fixture.Feed(1000, 1), fixture.Start, nil, 100)
	blocks := map[string]bool{} // but those that are asked before an answer has memory, whether there is one
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
	r := newRig(t, store, 64<<20, 1)
	r.cfg.Wait = time.Minute
	t.Cleanup(back) // before the rig is stopped
	r.await(t, fixture.Start)
	hurried := *r
	hurried.Engine = New(Config{Refresher: r.ref, Wait: time.Millisecond})
	large := func(r *rig, req *Request) error {
		return ask(t, r, req, query.History, "id=1,5,9,13,17,21,25,29,33,37,41,45,49,53,57,61,65,69,73,77&window=1y")
	}
	small := func() {
		t.Helper()
		req := newRequest()
		req.AcceptEncoding = []byte("br")
		if err := ask(t, &hurried, req, query.Quotes, "page=3"); err != nil || header(&req.Reply, "Content-Encoding") != "br" {
			t.Errorf("a small answer: %v", err)
		}
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
	of := func(key *auth.Key) *Request {
		req := newRequest()
		req.Bill.Key = key
		return req
	}
	wait := func(key *auth.Key, n int) {
		for range n {
			waiting.Go(func() {
				if req := of(key); large(r, req) != nil || len(req.Reply.Body) < coders.Large {
					t.Errorf("a large answer of %d bytes", len(req.Reply.Body))
				}
			})
		}
	}
	// One key comes to have its part of them, however much it asks, and another some.
	greedy, other := newKey(t, 1, 1), newKey(t, 1, 1)
	part := cap(greedy.Places.Of(limit.LargeBody))
	wait(greedy, part+10)
	until("the key's part", func() bool { return len(greedy.Places.Of(limit.LargeBody)) == part })
	if err := large(&hurried, of(greedy)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("one more of the key: %v", err)
	}
	wait(other, 1)
	until("another key's", func() bool { return len(shared[limit.LargeBody]) == part+1 })
	wait(nil, cap(shared[limit.LargeBody])-part-1)
	until("the last place", func() bool { return len(shared[limit.LargeBody]) == cap(shared[limit.LargeBody]) })
	if err := large(&hurried, newRequest()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("one more: %v", err)
	}
	small()
	back()
	waiting.Wait()
	if n := len(shared[limit.LargeBody]) + len(greedy.Places.Of(limit.LargeBody)) + len(other.Places.Of(limit.LargeBody)); n != 0 {
		t.Errorf("%d places are taken", n)
	}

	for range cap(largeCodings) {
		largeCodings <- struct{}{}
	}
	req := newRequest()
	req.AcceptEncoding = []byte("br")
	key := newKey(t, 1, 1000)
	req.Bill.Take(key, 0)
	spent := func() int { return 1000 - key.Charge(limit.Decision{}, 0, 0).Remaining }
	waiting.Go(func() {
		if err := large(r, req); err != nil || header(&req.Reply, "Content-Encoding") != "br" {
			t.Errorf("a large answer that waited: %v", err)
		}
	})
	const tokens = 2 * coders.Large / (8 << 10)
	until("its charge", func() bool { return spent() > tokens })
	late := newRequest()
	late.Bill.Take(key, 0)
	before := spent()
	late.AcceptEncoding = []byte("br")
	if err := large(&hurried, late); !errors.Is(err, ErrUnavailable) || spent()-before <= tokens {
		t.Errorf("one more, to be coded: %v", err)
	}
	small()
	for range cap(largeCodings) {
		<-largeCodings
	}
	waiting.Wait()
}
