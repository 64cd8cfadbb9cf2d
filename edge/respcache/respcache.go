// Package respcache is the response cache of one snapshot: finished answers,
// ready to be sent, found by their normalised query.
//
// The snapshot owns its cache. There is nothing to close: once the snapshot
// lets go of it, the garbage collector takes cache and entries, as soon as no
// request reads them any more.
//
// # Structure
//
// A fixed number of buckets, one cache line each, four entries in a bucket. A hit
// reads its bucket and the entry, takes no lock, allocates nothing, and writes
// only when the entry was not used since the clock last passed it. Everything
// else (admitting, adding a coding, evicting) takes one mutex, for as long as some
// pointers take to move.
//
// # Budget
//
// Limit bounds the bytes of the table, of all entries and of the codings added to
// them, counted by what their allocations take. What does not fit evicts others
// in the order of CLOCK: the hand evicts the first entry that was not used since
// it last came by. A full bucket evicts one of its own, unused if there is one.
//
// # Keys
//
// Clients write the keys. So the hash has a seed of its own in each cache, since
// otherwise one could make up keys that all fall into one bucket; and a hash that
// is equal is never enough: the bytes of the keys are compared, since otherwise a
// collision would give one query the answer of another.
package respcache

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"example.com/marketdata/edge/query"
)

// Codings is how many content codings of its body an entry has room for, the
// plain one included, which is number 0. An entry has those that were asked for.
const Codings = 4

const (
	ways = 4
	// bytesPerBucket is how many bytes of the limit there are for one bucket of 64
	// bytes: one answer of a usual page, or four small ones.
	bytesPerBucket = 4 << 10
	maxBuckets     = 1 << 18
	// minLimit is the limit below which there is no cache.
	minLimit = 64 << 10
	// hitSample is how many hits there are to one that counts for Hottest: what all
	// cores ask for is then not written on every request.
	hitSample = 32
	// maxRawQuery bounds the query strings that are kept, in bytes.
	maxRawQuery = 1 << 10
)

// Response is an answer in one content coding. Its bytes never change.
type Response struct {
	// Body is coded; OK and NotModified are the header lines of 200 and of 304 that
	// do not depend on the request.
	Body, OK, NotModified []byte
	// The validators.
	ETag, LastModified []byte

	size int64
}

// NewResponse returns a Response of copies of what it is given, but for
// lastModified, which all of a snapshot share.
func NewResponse(body, ok, notModified, etag, lastModified []byte) *Response {
	b := slices.Grow([]byte(nil), len(body)+len(ok)+len(notModified)+len(etag))
	r := &Response{LastModified: lastModified, size: int64(unsafe.Sizeof(Response{})) + int64(cap(b))}
	r.Body, r.OK, r.NotModified, r.ETag = next(&b, body), next(&b, ok), next(&b, notModified), next(&b, etag)
	return r
}

// next appends a copy of part to b, which has room for it, and returns the copy.
func next(b *[]byte, part []byte) []byte {
	from := len(*b)
	*b = append(*b, part...)
	return (*b)[from:len(*b):len(*b)]
}

// Source is what of an answer does not depend on its coding, and how it is made again
// from the next snapshot.
type Source struct {
	Endpoint query.Endpoint
	// RawQuery is the query string; one over a KiB is not kept, and the answer is
	// then not among the hottest.
	RawQuery []byte
	// NotFound is the value of X-Not-Found, Digest that of the plain body, and Length
	// how long that is, in bytes.
	NotFound []byte
	Digest   [16]byte
	Length   int
}

// Entry is a finished answer. All but its codings never changes.
type Entry struct {
	key       []byte
	responses [Codings]atomic.Pointer[Response]
	used      atomic.Bool // since the clock last came by
	Source
	again bool          // RawQuery was kept
	hits  atomic.Uint32 // one in hitSample

	// Guarded by Cache.mu.
	size   int64
	cached bool
}

// NewEntry returns an entry of copies of key and source, with its response in a
// coding.
func NewEntry(key []byte, source Source, coding int, r *Response) *Entry {
	again := len(source.RawQuery) <= maxRawQuery
	if !again {
		source.RawQuery = nil
	}
	b := slices.Grow([]byte(nil), len(key)+len(source.RawQuery)+len(source.NotFound))
	e := &Entry{Source: source, again: again, size: int64(unsafe.Sizeof(Entry{})) + int64(cap(b)) + r.size}
	e.key, e.RawQuery, e.NotFound = next(&b, key), next(&b, source.RawQuery), next(&b, source.NotFound)
	e.responses[coding].Store(r)
	return e
}

// Response returns the answer in a coding, nil when it does not have that one.
func (e *Entry) Response(coding int) *Response { return e.responses[coding].Load() }

// Counters are running totals over all caches that share them.
type Counters struct {
	Admitted atomic.Int64 // entries put in
	Evicted  atomic.Int64 // entries that made room for others
}

// Cache is safe for concurrent use. A nil Cache is empty and takes
// nothing.
type Cache struct {
	hash     func(key []byte) uint64
	mask     uint64
	buckets  []bucket
	limit    int64
	counters *Counters
	entries  atomic.Int64 // written under mu, as bytes
	bytes    atomic.Int64

	mu   sync.Mutex
	hand int // the place that the clock looks at next
}

// bucket is one cache line. The writer holds Cache.mu; a reader may see an entry
// beside the tag of the one before it, which the comparison of keys sorts out.
type bucket struct {
	tags    [ways]atomic.Uint32 // the upper half of the keys' hashes
	entries [ways]atomic.Pointer[Entry]
	// asked are hashes of keys that were asked for lately and not found.
	asked [2]atomic.Uint64
}

var _ [unsafe.Sizeof(bucket{})]byte = [64]byte{}

// New returns a cache of limit bytes, nil when that is too few for one. It counts
// into counters.
func New(limit int64, counters *Counters) *Cache {
	if limit < minLimit {
		return nil
	}
	n := int64(1)
	for n < maxBuckets && 2*n*bytesPerBucket <= limit {
		n *= 2
	}
	seed := maphash.MakeSeed()
	c := &Cache{
		hash: func(key []byte) uint64 { return maphash.Bytes(seed, key) },
		mask: uint64(n - 1), buckets: make([]bucket, n), limit: limit, counters: counters,
	}
	c.bytes.Store(c.table())
	return c
}

// table returns the bytes that the buckets take.
func (c *Cache) table() int64 { return int64(len(c.buckets)) * int64(unsafe.Sizeof(bucket{})) }

// Limit returns the budget in bytes.
func (c *Cache) Limit() int64 {
	if c == nil {
		return 0
	}
	return c.limit
}

// Len returns how many entries there are.
func (c *Cache) Len() int64 {
	if c == nil {
		return 0
	}
	return c.entries.Load()
}

// Bytes returns what of the budget is used, the table included.
func (c *Cache) Bytes() int64 {
	if c == nil {
		return 0
	}
	return c.bytes.Load()
}

// Get returns the entry with that key, nil when there is none.
func (c *Cache) Get(key []byte) *Entry {
	if c == nil {
		return nil
	}
	h := c.hash(key)
	e := c.buckets[h&c.mask].find(h, key)
	if e == nil {
		return nil
	}
	if !e.used.Load() {
		e.used.Store(true)
	}
	if rand.Uint32()%hitSample == 0 {
		e.hits.Add(1)
	}
	return e
}

func (b *bucket) find(hash uint64, key []byte) *Entry {
	for i := range b.tags {
		if b.tags[i].Load() != uint32(hash>>32) {
			continue
		}
		if e := b.entries[i].Load(); e != nil && bytes.Equal(e.key, key) {
			return e
		}
	}
	return nil
}

// AskedBefore notes that key was asked for and not found, and reports whether it
// was before: only what is asked for twice is worth an entry, so that made-up
// queries fill nothing. A newer key takes an older one's place.
func (c *Cache) AskedBefore(key []byte) bool {
	if c == nil {
		return false
	}
	h := c.hash(key)
	asked := &c.buckets[h&c.mask].asked[h>>63]
	if asked.Load() == h {
		return true
	}
	asked.Store(h)
	return false
}

// HasRoom reports whether an entry of so many bytes could be put under key without
// evicting another: what was dear to make is worth that one, although it is asked for the
// first time.
func (c *Cache) HasRoom(key []byte, n int) bool {
	if c == nil || c.bytes.Load()+int64(n) > c.limit {
		return false
	}
	b := &c.buckets[c.hash(key)&c.mask]
	for i := range b.entries {
		if b.entries[i].Load() == nil {
			return true
		}
	}
	return false
}

// Put admits e, and evicts what it takes. It returns the entry that is to be
// used: one with that key that was there already, or else e, which is not kept
// when it is larger than the limit.
func (c *Cache) Put(e *Entry) *Entry {
	if c == nil {
		return e
	}
	h := c.hash(e.key)
	b := &c.buckets[h&c.mask]
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := b.find(h, e.key); old != nil {
		return old
	}
	if c.table()+e.size > c.limit {
		return e
	}
	c.makeRoom(e.size, nil)
	i := c.place(b, h)
	b.tags[i].Store(uint32(h >> 32))
	b.entries[i].Store(e)
	e.cached = true
	c.entries.Add(1)
	c.bytes.Add(e.size)
	c.counters.Admitted.Add(1)
	return e
}

// Add adds a coding to e, evicts what it takes, and returns the response that is
// to be used: one in that coding that was there already, or else r, which is not
// kept when e is not, or would be larger than the limit with it.
func (c *Cache) Add(e *Entry, coding int, r *Response) *Response {
	if c == nil {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := e.responses[coding].Load(); was != nil {
		return was
	}
	if !e.cached || c.table()+e.size+r.size > c.limit {
		return r
	}
	c.makeRoom(r.size, e)
	e.responses[coding].Store(r)
	e.size += r.size
	c.bytes.Add(r.size)
	return r
}

// makeRoom evicts until n bytes fit. The caller holds mu; n fits beside the table
// and keep, which is not evicted.
func (c *Cache) makeRoom(n int64, keep *Entry) {
	places := len(c.buckets) * ways
	for steps := 0; c.bytes.Load()+n > c.limit; steps++ {
		b, i := &c.buckets[c.hand/ways], c.hand%ways
		c.hand = (c.hand + 1) % places
		// After a whole turn, requests must have used entries again behind the hand.
		if e := b.entries[i].Load(); e != nil && e != keep && (!e.used.Swap(false) || steps > places) {
			c.evict(b, i)
		}
	}
}

// place returns a free place of b for a key with that hash, which it makes if
// there is none.
func (c *Cache) place(b *bucket, hash uint64) int {
	for i := range b.entries {
		if b.entries[i].Load() == nil {
			return i
		}
	}
	victim := int(hash>>32) % ways // not always the same one
	for i := range b.entries {
		if !b.entries[i].Load().used.Load() {
			victim = i
		}
	}
	c.evict(b, victim)
	return victim
}

func (c *Cache) evict(b *bucket, i int) {
	e := b.entries[i].Swap(nil)
	e.cached = false
	c.entries.Add(-1)
	c.bytes.Add(-e.size)
	c.counters.Evicted.Add(1)
}

// Hottest returns up to n entries that were asked for often enough to be worth
// making again, the hottest first. It works in short pieces, each of which it
// gives to do.
func (c *Cache) Hottest(n int, do func(piece func())) []*Entry {
	if c == nil {
		return nil
	}
	type hot struct {
		*Entry
		hits uint32 // does not change while it is sorted by
	}
	var all []hot
	hottest := func() {
		slices.SortStableFunc(all, func(a, b hot) int { return cmp.Compare(b.hits, a.hits) })
		all = all[:min(n, len(all))]
	}
	for buckets := range slices.Chunk(c.buckets, 256) {
		do(func() {
			for i := range buckets {
				for j := range buckets[i].entries {
					if e := buckets[i].entries[j].Load(); e != nil && e.again {
						if hits := e.hits.Load(); hits > 0 {
							all = append(all, hot{e, hits})
						}
					}
				}
			}
			if len(all) > 4*n {
				hottest()
			}
		})
	}
	do(hottest)
	entries := make([]*Entry, len(all))
	for i := range all {
		entries[i] = all[i].Entry
	}
	return entries
}
