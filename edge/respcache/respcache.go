// Package respcache is the response cache of one snapshot: finished answers by their
// normalised query.
//
// Package reply owns it. There is nothing to close: the garbage collector frees cache
// and entries once they were dropped and no request reads them.
//
// # Structure
//
// The cache has a fixed number of buckets, one cache line each, with four entries. A hit
// reads its bucket and the entry, takes no lock, allocates nothing, and writes only if the
// entry was not used since the clock hand last passed it. Admission, adding a coding and
// eviction take one mutex for a few pointer writes.
//
// # Budget
//
// Limit bounds the allocated bytes of the table, of all entries and of the codings added to
// them. A new entry evicts others in the order of CLOCK: the hand evicts the first entry
// that was not used since it last passed. A full bucket evicts one of its own, an unused one
// if possible.
//
// # Keys
//
// Clients write the keys. So each cache seeds its hash, to prevent made-up keys that all
// fall into one bucket, and compares the bytes of keys, to prevent that a collision gives one
// query the answer of another.
package respcache

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Codings is how many content codings an entry has room for, with the plain one, which is
// number 0. An entry has those that clients requested.
const Codings = 4

const (
	ways = 4
	// bytesPerBucket is how much of the limit one bucket of 64 bytes stands for: an answer
	// of a usual page, or four small ones.
	bytesPerBucket = 4 << 10
	maxBuckets     = 1 << 18
	// minLimit is the limit below which there is no cache.
	minLimit = 64 << 10
)

// Response is an answer in one content coding. Its bytes never change.
type Response struct {
	// Body is coded. OK and NotModified are the header lines of 200 and of 304 that do not
	// depend on the request.
	Body, OK, NotModified []byte
	// The validators.
	ETag, LastModified []byte

	size int64
}

// NewResponse returns a Response that copies its arguments, except lastModified, which all
// responses of a snapshot share.
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

// Source is the part of an answer that does not depend on its coding.
type Source struct {
	// NotFound is the value of X-Not-Found. Digest and Length, in bytes, are those of the
	// plain body. Visited counts the rows that the answer has its price by. Total is the value of
	// X-Total, where the answer has one.
	NotFound               []byte
	Digest                 [16]byte
	Length, Visited, Total int
}

// Entry is a finished answer. All but its codings never changes.
type Entry struct {
	key       []byte
	responses [Codings]atomic.Pointer[Response]
	used      atomic.Bool // since the clock hand last passed
	Source

	// Guarded by Cache.mu.
	size   int64
	cached bool
}

// NewEntry returns an entry that copies key and source, with r in one coding.
func NewEntry(key []byte, source Source, coding int, r *Response) *Entry {
	b := slices.Grow([]byte(nil), len(key)+len(source.NotFound))
	e := &Entry{Source: source, size: int64(unsafe.Sizeof(Entry{})) + int64(cap(b)) + r.size}
	e.key, e.NotFound = next(&b, key), next(&b, source.NotFound)
	e.responses[coding].Store(r)
	return e
}

// Response returns the answer in a coding; nil: the entry does not have it.
func (e *Entry) Response(coding int) *Response { return e.responses[coding].Load() }

// Counters are running totals over all caches that share them.
type Counters struct {
	Admitted atomic.Int64 // entries admitted
	Evicted  atomic.Int64 // entries that made room for others
}

// Cache is safe for concurrent use. A nil Cache is empty and admits nothing.
type Cache struct {
	hash     func(key []byte) uint64
	mask     uint64
	buckets  []bucket
	limit    int64
	counters *Counters
	entries  atomic.Int64 // written under mu, as bytes
	bytes    atomic.Int64

	mu   sync.Mutex
	hand int // of the clock: the next way of a bucket
}

// bucket is one cache line. The writer holds Cache.mu. A reader may see an entry beside the
// tag of its predecessor, so it compares keys.
type bucket struct {
	tags    [ways]atomic.Uint32 // the upper half of the keys' hashes
	entries [ways]atomic.Pointer[Entry]
	// asked are hashes of recent keys that were not found.
	asked [2]atomic.Uint64
}

var _ [unsafe.Sizeof(bucket{})]byte = [64]byte{}

// New returns a cache of limit bytes that counts into counters; nil: limit is too small.
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

// table returns the size of the buckets in bytes.
func (c *Cache) table() int64 { return int64(len(c.buckets)) * int64(unsafe.Sizeof(bucket{})) }

// Limit returns the budget in bytes.
func (c *Cache) Limit() int64 {
	if c == nil {
		return 0
	}
	return c.limit
}

// Len returns the number of entries.
func (c *Cache) Len() int64 {
	if c == nil {
		return 0
	}
	return c.entries.Load()
}

// Bytes returns how much of the budget table and entries use.
func (c *Cache) Bytes() int64 {
	if c == nil {
		return 0
	}
	return c.bytes.Load()
}

// Get returns the entry of key; nil: there is none.
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

// AskedBefore notes that key was not found, and reports whether it was noted before. Only a
// second request is worth an entry, so that made-up queries evict nothing. A newer key
// replaces an older note.
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

// HasRoom reports whether an entry of n bytes fits under key without eviction. Expensive
// answers are then cached on first use.
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

// Put admits e, and evicts others if necessary. It returns the entry to use: an older one
// with the same key, or else e, which is not cached if it is larger than the limit.
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
	i := c.makeWay(b, h)
	b.tags[i].Store(uint32(h >> 32))
	b.entries[i].Store(e)
	e.cached = true
	c.entries.Add(1)
	c.bytes.Add(e.size)
	c.counters.Admitted.Add(1)
	return e
}

// Add adds a coding to e, and evicts others if necessary. It returns the response to use: an
// older one in that coding, or else r, which is not cached if e is not, or would be larger
// than the limit.
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

// makeRoom evicts entries other than keep until n bytes fit. The caller holds mu, and n fits
// beside the table and keep.
func (c *Cache) makeRoom(n int64, keep *Entry) {
	all := len(c.buckets) * ways
	for steps := 0; c.bytes.Load()+n > c.limit; steps++ {
		b, i := &c.buckets[c.hand/ways], c.hand%ways
		c.hand = (c.hand + 1) % all
		// After a full turn evict used entries, too: requests use them behind the hand.
		if e := b.entries[i].Load(); e != nil && e != keep && (!e.used.Swap(false) || steps > all) {
			c.evict(b, i)
		}
	}
}

// makeWay returns a free way of b for a key with that hash. It evicts an entry if there is
// none.
func (c *Cache) makeWay(b *bucket, hash uint64) int {
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
