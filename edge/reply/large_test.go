package reply

import (
	"errors"
	"sync"
	"testing"
	"time"

	coders "example.com/marketdata/edge/coding"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/lab/edgerig"
	"example.com/marketdata/internal/lab/memstore"
	"example.com/marketdata/internal/lab/teststore"
)

// TestLargeCodings: while as many large bodies are encoded as may be at once, one more is
// unavailable in its own time, and is charged before it waits. Small bodies do not wait.
func TestLargeCodings(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(1000, 1).History(100), teststore.Start)
	r := newRig(t, store, 64<<20, 1)
	r.cfg.Wait = time.Minute
	r.Await(t, teststore.Start)
	hurried := rig{New(Config{Refresher: r.Refresher, Wait: 100 * time.Millisecond}), r.Rig}
	large := func(r *rig, req *Request) error {
		return ask(t, r, req, query.History, "id=1,5,9,13,17,21,25,29,33,37,41,45,49,53,57,61,65,69,73,77&window=1y")
	}
	var waiting sync.WaitGroup
	for range cap(largeCodings) {
		largeCodings <- struct{}{}
	}
	req := newRequest()
	req.AcceptEncoding = []byte("br")
	key := edgerig.Key(t, 1, 1000)
	req.Bill.Take(key, 0)
	spent := func() int { return 1000 - key.Charge(limit.Decision{}, 0, 0).Remaining }
	waiting.Go(func() {
		if err := large(r, req); err != nil || header(&req.Reply, "Content-Encoding") != "br" {
			t.Errorf("a large answer that waited: %v", err)
		}
	})
	const tokens = 2 * coders.Large / (8 << 10)
	for end := time.Now().Add(time.Minute); spent() <= tokens; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the charge does not come")
		}
	}
	late := newRequest()
	late.Bill.Take(key, 0)
	before := spent()
	late.AcceptEncoding = []byte("br")
	if err := large(&hurried, late); !errors.Is(err, ErrUnavailable) || spent()-before <= tokens {
		t.Errorf("one more, to be coded: %v", err)
	}
	page := newRequest()
	page.AcceptEncoding = []byte("br")
	page.Bill.Take(key, 0)
	before = spent()
	if err := ask(t, &hurried, page, query.Quotes, "size=100"); err != nil ||
		header(&page.Reply, "Content-Encoding") != "br" {
		t.Errorf("a small answer: %v", err)
	}
	if spent() != before {
		t.Error("a page of quotes is charged for its length")
	}
	for range cap(largeCodings) {
		<-largeCodings
	}
	waiting.Wait()
}
