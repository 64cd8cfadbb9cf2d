package answer

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"
	"github.com/zeebo/xxh3"

	"example.com/marketdata/edge/query"
)

// held is a finished answer. Its bytes never change; codings are added as they
// are asked for.
type held struct {
	key      []byte // the normalised query, since keys in memory are hashes
	body     []byte
	digest   digest
	notFound []byte
	coded    [codings]atomic.Pointer[[]byte]
	// heads are the prepared headers of 200 and of 304, by coding.
	heads [codings][2]atomic.Pointer[head]
	heat  *heat
}

// heat is how often an answer is asked for, and how to make it again from the
// next snapshot.
type heat struct {
	endpoint query.Endpoint
	raw      []byte        // the query string
	hits     atomic.Uint32 // one in heatSample
	codings  [codings]atomic.Bool
}

const (
	// heatSample is how many hits count as one, so that a hot answer's counter
	// is not written on every request.
	heatSample = 32
	// maxHeats bounds how many answers are followed, and maxRaw the query
	// strings that are.
	maxHeats = 4096
	maxRaw   = 1 << 10
)

// newHeld makes an answer from a finished body.
func newHeld(key, body, notFound []byte, h *heat) *held {
	return &held{key: bytes.Clone(key), body: bytes.Clone(body), digest: digestOf(body), notFound: bytes.Clone(notFound), heat: h}
}

func (a *held) cost() int64 { return costOf(len(a.key), len(a.body), len(a.notFound)) }

// costOf is what an answer takes in memory, in bytes, codings to come included:
// each is a fraction of the body.
func costOf(key, body, notFound int) int64 {
	n := 2048 + key + body + notFound // with its prepared headers
	if body > minCoded {
		n += body
	}
	return int64(n)
}

// fits reports whether the answers have room for one that long at all; those
// that were let go have none.
func (a *answers) fits(w *work) bool {
	return a != nil && a.cache.Load() != nil && costOf(len(w.key), len(w.body), len(w.notFound)) <= a.limit
}

// code returns the body in coding c, made when it is first asked for.
func (a *held) code(c coding) []byte {
	if c == identity {
		return a.body
	}
	if b := a.coded[c].Load(); b != nil {
		return *b
	}
	b := encode(make([]byte, 0, len(a.body)/4), c, a.body)
	if !a.coded[c].CompareAndSwap(nil, &b) {
		return *a.coded[c].Load()
	}
	a.heat.codings[c].Store(true)
	return b
}

// hit counts a sample of the hits.
func (a *held) hit() {
	if rand.Uint32()%heatSample == 0 {
		a.heat.hits.Add(1)
	}
}

// answers are the finished answers of one snapshot.
type answers struct {
	cache atomic.Pointer[ristretto.Cache[[]byte, *held]]
	limit int64
	// fresh are the prepared headers of answers that are not held, of 200 and of
	// 304.
	fresh [2]*head
	// offered tells most of the keys that were never offered, so that a question
	// asked for the first time is not looked up: the cache would count it, too.
	// nil once the answers are let go: an edge keeps snapshots for as long as they
	// may be pinned.
	offered atomic.Pointer[filter]

	// mu lets nobody close the cache while something is offered to it, which
	// ristretto does not bear.
	mu    sync.RWMutex
	heats []*heat
}

// hash is the key in memory: 128 bits, and held.key tells collisions apart.
func hash(key []byte) (uint64, uint64) {
	h := xxh3.Hash128(key)
	return h.Lo, h.Hi
}

func newAnswers(limit int64) (*answers, error) {
	cache, err := ristretto.NewCache(&ristretto.Config[[]byte, *held]{
		// Ten counters an answer of 8 KiB; three bytes each.
		NumCounters:        min(max(limit/(8<<10)*10, 1<<10), 1<<20),
		MaxCost:            max(limit, 1),
		BufferItems:        64,
		IgnoreInternalCost: true,
		KeyToHash:          hash,
	})
	if err != nil {
		return nil, err
	}
	a := &answers{limit: limit}
	a.cache.Store(cache)
	a.offered.Store(new(filter))
	return a, nil
}

// get returns the answer with the given key, and its hash, if it is held.
func (a *answers) get(key []byte, hash uint64) *held {
	if a == nil {
		return nil
	}
	if f := a.offered.Load(); f == nil || !f.has(hash) {
		return nil
	}
	cache := a.cache.Load()
	if cache == nil {
		return nil
	}
	h, ok := cache.Get(key)
	if !ok || !bytes.Equal(h.key, key) {
		return nil
	}
	return h
}

// offer makes an answer and holds it, if there is room.
func (a *answers) offer(key, body, notFound []byte, e query.Endpoint, raw []byte) *held {
	h := &heat{endpoint: e}
	answer := newHeld(key, body, notFound, h)
	a.mu.RLock()
	if cache := a.cache.Load(); cache != nil {
		lo, _ := hash(key)
		a.offered.Load().add(lo)
		cache.Set(answer.key, answer, answer.cost())
	}
	a.mu.RUnlock()
	if len(raw) <= maxRaw {
		h.raw = bytes.Clone(raw)
		a.mu.Lock()
		if a.cache.Load() != nil && len(a.heats) < maxHeats {
			a.heats = append(a.heats, h)
		}
		a.mu.Unlock()
	}
	return answer
}

// hottest returns up to n answers, those asked for most first.
func (a *answers) hottest(n int) []*heat {
	if a == nil {
		return nil
	}
	a.mu.RLock()
	heats := slices.Clone(a.heats)
	a.mu.RUnlock()
	hits := make(map[*heat]uint32, len(heats))
	for _, h := range heats {
		hits[h] = h.hits.Load()
	}
	slices.SortStableFunc(heats, func(x, y *heat) int { return int(hits[y]) - int(hits[x]) })
	return heats[:min(n, len(heats))]
}

// closeDelay is how long after a snapshot stopped being current its answers
// are let go. No request that still reads them takes that long: composing ends
// within the time a request may wait, and ristretto's Close does not bear a Get
// beside it.
const closeDelay = 15 * time.Second

// close lets go of all answers.
func (a *answers) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cache := a.cache.Swap(nil); cache != nil {
		cache.Close()
	}
	a.offered.Store(nil)
	a.heats = nil
}

// filter is a Bloom filter of a million bits and two hashes: 128 KiB, which a
// core's own cache holds, and after 100,000 additions it is still right about
// 97 in 100 keys that were never added. It takes no lock.
type filter [1 << 14]atomic.Uint64

func (f *filter) add(hash uint64) {
	f[hash>>6%(1<<14)].Or(1 << (hash & 63))
	f[hash>>26%(1<<14)].Or(1 << (hash >> 20 & 63))
}

// has reports whether a hash may have been added; false is certain.
func (f *filter) has(hash uint64) bool {
	return f[hash>>6%(1<<14)].Load()>>(hash&63)&1 == 1 && f[hash>>26%(1<<14)].Load()>>(hash>>20&63)&1 == 1
}

// asked remembers which queries were asked for lately, so that an answer is
// held when it is asked a second time: made-up parameters fill nothing. It is a
// table of hashes that newer ones overwrite, and takes no lock. The last bits
// of an entry count how often it was asked for.
type asked [1 << 14]atomic.Uint64

// askedCount masks the count.
const askedCount = 7

// again reports whether an answer is to be offered to the cache: when it is
// asked for the second time, and every eighth time from there on, since
// ristretto may have refused it and would again.
func (t *asked) again(hash uint64) bool {
	slot := &t[hash>>50]
	was := slot.Load()
	if was&^askedCount != hash&^askedCount {
		slot.Store(hash &^ askedCount)
		return false
	}
	count := (was + 1) & askedCount
	slot.Store(hash&^askedCount | count)
	return count == 1
}
