package answer

import (
	"fmt"
	"testing"

	"example.com/marketdata/edge/query"
)

func offer(a *answers, i, size int) *held {
	return a.offer(fmt.Appendf(nil, "query %d", i), make([]byte, size), digest{}, nil, query.Quotes, nil)
}

func get(a *answers, i int) *held {
	key := fmt.Appendf(nil, "query %d", i)
	lo, _ := hash(key)
	return a.get(key, lo)
}

// inTable returns the answers that the table finds.
func inTable(a *answers) (all []*held) {
	t := a.table.Load()
	for i := range t.buckets {
		for j := range t.buckets[i].answers {
			if h := t.buckets[i].answers[j].Load(); h != nil {
				all = append(all, h)
			}
		}
	}
	return all
}

// TestTableKeepsNothingAlive: of four times as many answers as there is room
// for, the table finds those that ristretto holds and no other.
func TestTableKeepsNothingAlive(t *testing.T) {
	const limit, size = 1 << 20, 1000
	a, err := newAnswers(limit)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	cost := costOf(10, size, 0)
	for i := range int(limit/cost) * 4 {
		offer(a, i, size)
		if i%64 == 0 {
			a.cache.Load().Wait() // or Set drops what does not fit its queue
		}
	}
	a.cache.Load().Wait()
	var sum int64
	for _, h := range inTable(a) {
		sum += h.cost()
		if found, ok := a.cache.Load().Get(h.key); !ok || found != h {
			t.Errorf("%s is in the table and not in the cache", h.key)
		}
	}
	if sum > limit || sum < limit/2 {
		t.Errorf("the table holds %d bytes, the limit is %d", sum, limit)
	}
	held := 0
	for i := range int(limit/cost) * 4 {
		if h := get(a, i); h != nil {
			held++
			if string(h.key) != fmt.Sprint("query ", i) {
				t.Fatalf("asked for query %d, got %s", i, h.key)
			}
		}
	}
	if int64(held)*cost > limit || int64(held)*cost < limit/2 {
		t.Errorf("%d answers are found", held)
	}
}

// TestTableFull: an answer for which its bucket has no place is found all the
// same, and those that ristretto refuses leave nothing behind.
func TestTableFull(t *testing.T) {
	a, err := newAnswers(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	a.table.Load().mask = 0 // all in one bucket
	const n = 3 * ways
	for i := range n {
		offer(a, i, 100)
	}
	a.cache.Load().Wait()
	for i := range n {
		if get(a, i) == nil {
			t.Errorf("query %d is not found", i)
		}
	}
	if get(a, n) != nil {
		t.Error("something is found that was never offered")
	}
	if got := len(inTable(a)); got != ways {
		t.Errorf("%d answers in one bucket", got)
	}
	for i := range n {
		a.cache.Load().Del(fmt.Appendf(nil, "query %d", i))
	}
	a.cache.Load().Wait()
	if got := inTable(a); len(got) > 0 {
		t.Errorf("%d answers are left", len(got))
	}
	if h := offer(a, 0, 2<<20); h == nil {
		t.Error("an answer larger than the memory is not even made")
	}
	a.cache.Load().Wait()
	if get(a, 0) != nil || len(inTable(a)) > 0 {
		t.Error("an answer larger than the memory is held")
	}
}

// TestTableOfTheSameKey: two who make one answer at the same time leave one, and
// when that goes the table finds neither.
func TestTableOfTheSameKey(t *testing.T) {
	a, err := newAnswers(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	offer(a, 1, 100)
	offer(a, 1, 100)
	a.cache.Load().Wait()
	if get(a, 1) == nil && len(inTable(a)) > 0 {
		t.Error("in the table, and not found")
	}
	offer(a, 1, 100) // what asked.again does in the end
	a.cache.Load().Wait()
	if get(a, 1) == nil {
		t.Error("offered again, and not found")
	}
	a.cache.Load().Del([]byte("query 1"))
	a.cache.Load().Wait()
	if get(a, 1) != nil || len(inTable(a)) > 0 {
		t.Errorf("deleted, and %d are left", len(inTable(a)))
	}
}
