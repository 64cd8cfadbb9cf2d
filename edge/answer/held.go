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
	hash     uint64 // of key
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
	// getSample is how many hits count as one for ristretto, which locks, and
	// heatSample for the heat: what all cores ask for is then not written on every
	// request.
	getSample  = 8
	heatSample = 32
	// maxHeats bounds how many answers are followed, and maxRaw the query
	// strings that are.
	maxHeats = 4096
	maxRaw   = 1 << 10
)

// newHeld makes an answer from a finished body.
func newHeld(key, body []byte, tag digest, notFound []byte, h *heat) *held {
	lo, _ := hash(key)
	return &held{key: bytes.Clone(key), hash: lo, body: bytes.Clone(body), digest: tag, notFound: bytes.Clone(notFound), heat: h}
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

// answers are the finished answers of one snapshot. Ristretto says which are
// held, the table finds them.
type answers struct {
	cache atomic.Pointer[ristretto.Cache[[]byte, *held]]
	limit int64
	// fresh are the prepared headers of answers that are not held, of 200 and of
	// 304.
	fresh [2]*head
	// nil once the answers are let go, as the cache is: an edge keeps snapshots for
	// as long as they may be pinned.
	table atomic.Pointer[table]

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
	t := newTable(limit)
	cache, err := ristretto.NewCache(&ristretto.Config[[]byte, *held]{
		// Ten counters an answer of 8 KiB; three bytes each.
		NumCounters:        min(max(limit/(8<<10)*10, 1<<10), 1<<20),
		MaxCost:            max(limit, 1),
		BufferItems:        64,
		IgnoreInternalCost: true,
		KeyToHash:          hash,
		OnExit:             t.remove,
	})
	if err != nil {
		return nil, err
	}
	a := &answers{limit: limit}
	a.cache.Store(cache)
	a.table.Store(t)
	return a, nil
}

// get returns the answer with the given key, and its hash, if it is held. A
// question that was never asked before costs a look at one cache line, and
// ristretto does not count it.
func (a *answers) get(key []byte, hash uint64) *held {
	if a == nil {
		return nil
	}
	t := a.table.Load()
	if t == nil {
		return nil
	}
	h, full := t.find(key, hash)
	if h == nil && !full {
		return nil
	}
	sample := rand.Uint32()
	if h != nil && sample%getSample != 0 {
		return h
	}
	cache := a.cache.Load()
	if cache == nil {
		return nil
	}
	found, ok := cache.Get(key)
	if h == nil {
		if !ok || !bytes.Equal(found.key, key) {
			return nil
		}
		h = found
	}
	if sample%heatSample == 0 {
		h.heat.hits.Add(1)
	}
	return h
}

// again reports whether the answer with that hash is to be offered.
func (a *answers) again(hash uint64) bool {
	t := a.table.Load()
	return t != nil && t.again(hash)
}

// offer makes an answer and holds it, if there is room.
func (a *answers) offer(key, body []byte, tag digest, notFound []byte, e query.Endpoint, raw []byte) *held {
	h := &heat{endpoint: e}
	answer := newHeld(key, body, tag, notFound, h)
	a.mu.RLock()
	if cache := a.cache.Load(); cache != nil {
		t := a.table.Load()
		t.add(answer)
		if !cache.Set(answer.key, answer, answer.cost()) {
			t.remove(answer)
		}
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
	a.table.Store(nil)
	a.heats = nil
}

// table finds the answers that are held, without a lock and without writing
// anything, and remembers which questions were asked for lately. All of a
// question is in one bucket, one cache line: of most that are new it tells at
// once that there is no such answer. What ristretto lets go of leaves the table;
// an answer that finds its bucket full is found in ristretto alone.
type table struct {
	mask    uint64
	buckets []bucket
}

const ways = 3

type bucket struct {
	hashes  [ways]atomic.Uint64
	answers [ways]atomic.Pointer[held]
	asked   [2]atomic.Uint64
}

// newTable makes a table of half a mebibyte, and of up to 4 where limit bytes
// hold more answers of 8 KiB than it has places for.
func newTable(limit int64) *table {
	n := 1 << 13
	for n < 1<<16 && int64(n)*ways*(8<<10) < limit {
		n *= 2
	}
	return &table{mask: uint64(n - 1), buckets: make([]bucket, n)}
}

// find returns the answer with the given key, nil if there is none, and whether
// its bucket is full.
func (t *table) find(key []byte, hash uint64) (h *held, full bool) {
	b := &t.buckets[hash&t.mask]
	full = true
	for i := range b.hashes {
		h := b.answers[i].Load()
		if h == nil {
			full = false
		} else if b.hashes[i].Load() == hash && bytes.Equal(h.key, key) {
			return h, full
		}
	}
	return nil, full
}

func (t *table) add(h *held) {
	b := &t.buckets[h.hash&t.mask]
	for i := range b.answers {
		if b.answers[i].CompareAndSwap(nil, h) {
			// Until it is there, whoever looks for h finds the hash of another answer,
			// or this hash beside another's key: either way he makes it himself.
			b.hashes[i].Store(h.hash)
			return
		}
	}
}

func (t *table) remove(h *held) {
	if h == nil {
		return
	}
	b := &t.buckets[h.hash&t.mask]
	for i := range b.answers {
		b.answers[i].CompareAndSwap(h, nil)
	}
}

// askedCount masks the last bits of an entry of asked, which count how often its
// question was asked for. The others are of the question's hash.
const askedCount = 7

// again reports whether an answer is to be offered to the cache: when it is
// asked for the second time, so that made-up parameters fill nothing, and every
// eighth time from there on, since ristretto may have refused it and would
// again. A newer question takes an older one's place.
func (t *table) again(hash uint64) bool {
	slot := &t.buckets[hash&t.mask].asked[hash>>63]
	was := slot.Load()
	if was&^askedCount != hash&^askedCount {
		slot.Store(hash &^ askedCount)
		return false
	}
	count := (was + 1) & askedCount
	slot.Store(hash&^askedCount | count)
	return count == 1
}
