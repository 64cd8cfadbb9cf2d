package respcache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

func keyOf(i int) []byte { return fmt.Appendf(nil, "query %d", i) }

// bodyOf returns the only right body for a key in a coding.
func bodyOf(key []byte, coding int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%s in coding %d;", key, coding), 20+len(key)*int(key[len(key)-1]-'0'))
}

func responseOf(key []byte, coding int) *Response {
	return NewResponse(bodyOf(key, coding), []byte("ok"), []byte("not modified"), key, nil)
}

func entryOf(i int) *Entry {
	return NewEntry(keyOf(i), Source{NotFound: keyOf(i)}, 0, responseOf(keyOf(i), 0))
}

// check compares the cache's counters with its contents.
func check(t *testing.T, c *Cache) {
	t.Helper()
	var entries int64
	sum := c.table()
	for i := range c.buckets {
		for j := range c.buckets[i].entries {
			e := c.buckets[i].entries[j].Load()
			if e == nil {
				continue
			}
			entries++
			size := NewEntry(e.key, e.Source, 0, new(Response)).size
			for coding := range Codings {
				if r := e.Response(coding); r != nil {
					size += r.size
				}
			}
			if size != e.size || !e.cached {
				t.Errorf("%s: takes %d bytes, counted as %d; cached %v", e.key, size, e.size, e.cached)
			}
			sum += size
		}
	}
	if sum != c.Bytes() || entries != c.Len() || sum > c.Limit() {
		t.Errorf("%d entries of %d bytes, counted as %d of %d, limit %d", entries, sum, c.Len(), c.Bytes(), c.Limit())
	}
	if got := c.counters.Admitted.Load() - c.counters.Evicted.Load(); got != entries {
		t.Errorf("%d more admitted than evicted, %d are there", got, entries)
	}
}

// TestAnswersAreOfTheirKey gets and adds entries and codings concurrently, with hashes that distinguish all
// keys, few keys, or none. An entry found must always belong to its key, and the cache must always stay
// within its budget.
func TestAnswersAreOfTheirKey(t *testing.T) {
	for name, hash := range map[string]func([]byte) uint64{
		"hash": nil, "every key has the same": func([]byte) uint64 { return 7 },
		"a few": func(key []byte) uint64 { return uint64(key[len(key)-1]) * 0x100000001 },
	} {
		t.Run(name, func(t *testing.T) {
			c := New(256<<10, new(Counters))
			if hash != nil {
				c.hash = hash
			}
			var workers sync.WaitGroup
			var hits [8]int
			for worker := range hits {
				workers.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(worker), 1))
					popular := rand.NewZipf(rnd, 1.2, 1, 999)
					for range 2000 {
						i := int(popular.Uint64())
						key, coding := keyOf(i), rnd.IntN(Codings)
						e := c.Get(key)
						if e != nil {
							hits[worker]++
						} else {
							e = c.Put(NewEntry(key, Source{NotFound: key}, coding, responseOf(key, coding)))
						}
						r := e.Response(coding)
						if r == nil {
							r = c.Add(e, coding, responseOf(key, coding))
						}
						if !bytes.Equal(r.Body, bodyOf(key, coding)) || !bytes.Equal(r.ETag, key) ||
							!bytes.Equal(e.NotFound, key) {
							t.Errorf("asked for %s in coding %d, got %.40s…, tag %s, X-Not-Found %s", key, coding, r.Body,
								r.ETag, e.NotFound)
							return
						}
						if c.Bytes() > c.Limit() {
							t.Errorf("%d bytes, the limit is %d", c.Bytes(), c.Limit())
							return
						}
					}
				})
			}
			workers.Wait()
			for worker := range hits {
				if hits[worker] < 200 {
					t.Errorf("worker %d: %d hits", worker, hits[worker])
				}
			}
			if c.counters.Evicted.Load() == 0 {
				t.Error("nothing was evicted: the test is too small")
			}
			check(t, c)
		})
	}
}

// TestScan checks that entries that are requested repeatedly stay in the cache while ten times as many as fit
// are requested once.
func TestScan(t *testing.T) {
	c := New(1<<20, new(Counters))
	const hot = 100
	for i := range hot {
		c.Put(entryOf(i))
	}
	for i := hot; c.counters.Evicted.Load() < 10*c.Len() || i < 10*hot; i++ {
		c.Put(entryOf(i))
		c.Get(keyOf(i % hot))
	}
	left := 0
	for i := range hot {
		if c.Get(keyOf(i)) != nil {
			left++
		}
	}
	if left < hot*95/100 {
		t.Errorf("%d of %d are left, among %d", left, hot, c.Len())
	}
	check(t, c)
}

// TestBytesAreReal compares the bytes that the cache counts with the heap's growth.
func TestBytesAreReal(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const limit = 32 << 20
	before := heap()
	c := New(limit, new(Counters))
	for i := 0; c.counters.Evicted.Load() < 100; i++ {
		e := c.Put(entryOf(i))
		c.Add(e, 1+i%3, responseOf(keyOf(i), 1+i%3))
	}
	grown := heap() - before
	if used := c.Bytes(); used < limit*95/100 || grown > used*105/100 || grown < used*90/100 {
		t.Errorf("the heap grew by %d bytes, the cache counts %d, limit %d", grown, used, limit)
	}
	check(t, c)
}

// TestTooLarge checks that an answer that does not fit can be used but is not cached, and evicts nothing.
func TestTooLarge(t *testing.T) {
	c := New(minLimit, new(Counters))
	large := NewResponse(make([]byte, minLimit), nil, nil, nil, nil)
	small := c.Put(entryOf(1))
	if e := NewEntry(keyOf(2), Source{}, 0, large); c.Put(e) != e || c.Get(keyOf(2)) != nil {
		t.Error("an answer larger than the limit is kept, or cannot be used")
	}
	if !c.HasRoom(keyOf(9), 100) || c.HasRoom(keyOf(9), minLimit) {
		t.Error("there is no room, or for what is larger than the limit")
	}
	if c.Add(small, 1, large) != large || small.Response(1) != nil {
		t.Error("a coding larger than the limit is kept, or cannot be used")
	}
	if c.Get(keyOf(1)) != small {
		t.Error("what fitted is gone")
	}
	alone := entryOf(3) // never added
	if r := responseOf(keyOf(3), 1); c.Add(alone, 1, r) != r || alone.Response(1) != nil {
		t.Error("a coding of an answer that is not in the cache is kept")
	}
	check(t, c)

	none := New(1, nil)
	if e := entryOf(1); none.Get(keyOf(1)) != nil || none.AskedBefore(keyOf(1)) || none.AskedBefore(keyOf(1)) ||
		none.HasRoom(keyOf(1), 0) || none.Put(e) != e || none.Get(keyOf(1)) != nil {
		t.Error("a cache of one byte keeps something")
	}
	if none.Add(small, 1, large) != large || none.Len()+none.Bytes()+none.Limit() != 0 {
		t.Error("a cache of one byte is not empty")
	}
}

// TestAddEvictsOthers checks that an entry stays when adding a coding to it evicts all others. If two entries
// have the same key, the first one stays.
func TestAddEvictsOthers(t *testing.T) {
	var c *Cache
	var e *Entry
	for kept := false; !kept; kept = c.Get(keyOf(0)) == e { // the eviction may happen to choose this entry
		c = New(1<<20, new(Counters))
		e = c.Put(entryOf(0))
		fill(t, c)
	}
	if c.Put(entryOf(0)) != e {
		t.Error("two answers under one key")
	}
	r := NewResponse(make([]byte, c.limit-c.table()-e.size-16<<10), nil, nil, nil, nil)
	if c.Add(e, 1, r) != r || c.Get(keyOf(0)) != e || e.Response(1) != r || c.Add(e, 1, responseOf(keyOf(0), 1)) != r {
		t.Error("the coding that was added is not there")
	}
	check(t, c)
}

// fill adds entries until one is evicted. In between, it gets the entry of key 0, so that this stays.
func fill(t *testing.T, c *Cache) {
	t.Helper()
	for i := 1; c.counters.Evicted.Load() == 0; i++ {
		free := c.HasRoom(keyOf(i), int(entryOf(i).size))
		if c.Put(entryOf(i)); free != (c.counters.Evicted.Load() == 0) {
			t.Fatalf("room for entry %d: %v, %d evicted", i, free, c.counters.Evicted.Load())
		}
		c.Get(keyOf(i))
		c.Get(keyOf(0))
	}
}

func TestAskedBefore(t *testing.T) {
	c := New(1<<20, new(Counters))
	if c.AskedBefore(keyOf(1)) || !c.AskedBefore(keyOf(1)) || c.AskedBefore(keyOf(2)) {
		t.Error("the second time is to count, and no other")
	}
	for i := range 100_000 { // other keys, each once
		c.AskedBefore(keyOf(i + 10))
	}
	if c.AskedBefore(keyOf(1)) {
		t.Error("asked for long ago, and still known")
	}
}

func TestNoAllocations(t *testing.T) {
	c := New(1<<20, new(Counters))
	c.Put(entryOf(1))
	there, not := keyOf(1), keyOf(2)
	if n := testing.AllocsPerRun(100, func() {
		if c.Get(there) == nil || c.Get(not) != nil {
			t.Fatal("wrong")
		}
		c.AskedBefore(not)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
