package reply

import (
	"errors"
	"sync"
	"testing"
	"time"

	coders "example.com/marketdata/edge/coding"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/teststore"
)

// TestLargeCodings checks that, while as many large bodies are being compressed as is allowed, a further
// one fails within its own time limit, but has the price of its body. Small bodies do not wait.
func TestLargeCodings(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(1000, 1).History(100), teststore.Start)
	r := newRig(t, store, 64<<20, 1)
	r.cfg.Wait = time.Minute
	r.Await(t, teststore.Start)
	hurried := rig{New(Config{Refresher: r.Refresher, Wait: time.Second}), r.Rig}
	large := func(r *rig, req *Request) error {
		return ask(t, r, req, query.History, "id=1,5,9,13,17,21,25,29,33,37,41,45,49,53,57,61,65,69,73,77&window=1y")
	}
	var waiting sync.WaitGroup
	for range cap(largeCodings) {
		largeCodings <- struct{}{}
	}
	req := newRequest()
	req.AcceptEncoding = []byte("br")
	waiting.Go(func() {
		if err := large(r, req); err != nil || header(&req.Reply, "Content-Encoding") != "br" {
			t.Errorf("a large answer that waited: %v", err)
		}
	})
	late := newRequest()
	late.AcceptEncoding = []byte("br")
	if err := large(&hurried, late); !errors.Is(err, ErrUnavailable) || late.Length <= coders.Large {
		t.Errorf("one more, to be coded: %v", err)
	}
	page := newRequest()
	page.AcceptEncoding = []byte("br")
	if err := ask(t, &hurried, page, query.Quotes, "size=100"); err != nil ||
		header(&page.Reply, "Content-Encoding") != "br" {
		t.Errorf("a small answer: %v", err)
	}
	for range cap(largeCodings) {
		<-largeCodings
	}
	waiting.Wait()
}
