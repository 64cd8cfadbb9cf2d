package answer

import (
	"testing"

	"github.com/zeebo/xxh3"

	"example.com/marketdata/edge/query"
)

// TestClosedAnswers: answers that were let go keep nothing, since a snapshot
// stays for as long as it may be pinned; asking and offering do no harm.
func TestClosedAnswers(t *testing.T) {
	a, err := newAnswers(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("key")
	hash := xxh3.Hash128(key).Lo
	a.offer(key, []byte("body"), digest{}, nil, query.Quotes, []byte("page=3"))
	a.cache.Load().Wait()
	if h := a.get(key, hash); h == nil || string(h.body) != "body" {
		t.Fatalf("offered, and got %v", h)
	}
	for range 2 {
		a.close()
		if a.fits(&work{}) {
			t.Error("closed, and has room")
		}
		if a.cache.Load() != nil || a.table.Load() != nil || a.heats != nil {
			t.Error("closed, and something is kept")
		}
		if h := a.get(key, hash); h != nil {
			t.Errorf("closed, and got %v", h)
		}
		if h := a.offer(key, []byte("body"), digest{}, nil, query.Quotes, []byte("page=3")); string(h.body) != "body" {
			t.Errorf("offered %q", h.body)
		}
		if len(a.heats) > 0 {
			t.Error("closed, and follows what is offered")
		}
	}
}
