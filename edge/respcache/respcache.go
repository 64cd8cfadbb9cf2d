// Package respcache implements the response cache of a snapshot, which maps normalized queries to finished
// answers.
//
// Package reply owns the cache. A cache need not be closed. When it is dropped, the garbage collector frees
// it and its entries.
//
// # Structure
//
// The cache has a fixed number of buckets. A bucket is one cache line and has room for four entries. A hit
// reads the bucket and the entry, takes no lock and allocates nothing. It writes only if the entry was not
// used since the clock hand last passed it. Adding an entry or a coding, and eviction, lock one mutex for a
// few pointer writes.
//
// # Budget
//
// Limit bounds the allocated bytes of the table and of all entries with their codings. A new entry evicts
// others by the CLOCK algorithm: the hand evicts the first entry that was not used since it last passed. If a
// bucket is full, a new entry evicts one of the bucket's entries, preferably an unused one.
//
// # Keys
//
// Clients control the keys. So each cache seeds its hash, since crafted keys could otherwise all fall into
// one bucket. It also compares the keys byte by byte, since a collision could otherwise return another
// query's answer.
package respcache

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Codings is the number of content codings that an entry has room for, including the plain one, which is
// number 0. An entry contains the codings that clients have requested.
const Codings = 4

const (
	ways = 4
	// bytesPerBucket is the part of the limit, in bytes, for which New creates one bucket of 64 bytes. It is the
	// size of one answer with a typical page, or of four small answers.
	bytesPerBucket = 4 << 10
	maxBuckets     = 1 << 18
	// minLimit is the smallest limit for which New creates a cache.
	minLimit = 64 << 10
)

// Response is an answer in one content coding. Its bytes never change.
type Response struct {
	// Body is the encoded body. OK and NotModified are those header lines of a 200 and a 304 that do not depend
	// on the request.
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
	// NotFound is the value of X-Not-Found. Digest and Length, in bytes, belong to the plain body. Visited is
	// the number of visited rows, which determines the price of the answer. Total is the value of X-Total, if
	// the answer has one.
	NotFound               []byte
	Digest                 [16]byte
	Length, Visited, Total int
}

// Entry is a finished answer. It never changes, except that codings may be added.
type Entry struct {
	key       []byte
	responses [Codings]atomic.Pointer[Response]
	used      atomic.Bool // whether it was used since the clock hand last passed
	Source

	// Guarded by Cache.mu.
	size   int64
	cached bool
}

// NewEntry returns an entry with copies of key and source, and with the answer r in one coding.
func NewEntry(key []byte, source Source, coding int, r *Response) *Entry {
	b := slices.Grow([]byte(nil), len(key)+len(source.NotFound))
	e := &Entry{Source: source, size: int64(unsafe.Sizeof(Entry{})) + int64(cap(b)) + r.size}
	e.key, e.NotFound = next(&b, key), next(&b, source.NotFound)
	e.responses[coding].Store(r)
	return e
}

// Response returns the answer in a coding, or nil if the entry does not contain it.
func (e *Entry) Response(coding int) *Response { return e.responses[coding].Load() }

// Counters contains totals over all caches that share it.
type Counters struct {
	Admitted atomic.Int64 // entries added
	Evicted  atomic.Int64 // entries evicted to make room for others
}

// Cache is a response cache. It is safe for concurrent use. A nil Cache is empty and stays empty.
type Cache struct {
	hash     func(key []byte) uint64
	mask     uint64
	buckets  []bucket
	limit    int64
	counters *Counters
	entries  atomic.Int64 // written under mu, like bytes
	bytes    atomic.Int64

	mu   sync.Mutex
	hand int // the clock hand: the index of the next way, counted over all buckets
}

// bucket is one cache line. Writers must hold Cache.mu. A reader may see an entry together with the tag of
// its predecessor, so it must compare keys.
type bucket struct {
	tags    [ways]atomic.Uint32 // the upper half of the keys' hashes
	entries [ways]atomic.Pointer[Entry]
	// asked contains the hashes of recent keys that Get did not find.
	asked [2]atomic.Uint64
}

var _ [unsafe.Sizeof(bucket{})]byte = [64]byte{}

// New returns a cache that uses at most limit bytes and updates counters. It returns nil if limit is too
// small.
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

// Bytes returns the number of bytes that the table and the entries use.
func (c *Cache) Bytes() int64 {
	if c == nil {
		return 0
	}
	return c.bytes.Load()
}

// Get returns the entry for key, or nil if there is none.
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

// AskedBefore records that key was not found, and reports whether it had already been recorded. The caller
// adds an answer on its second request, so that random queries evict nothing. A newer key may replace an
// older record.
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

// HasRoom reports whether an entry of n bytes for key fits without eviction. If so, the caller adds expensive
// answers on their first request.
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

// Put adds e, and evicts others if necessary. It returns the entry to use: an older one with the same key, or
// else e. If e is larger than the limit, Put does not cache it.
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

// Add adds a coding to e, and evicts others if necessary. It returns the response to use: an older one in the
// same coding, or else r. If e is not cached, or would become larger than the limit, Add does not cache r.
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

// makeRoom evicts entries until n more bytes fit, but never the spared entry. The caller holds mu and has
// checked that n bytes fit together with the table and the spared entry.
func (c *Cache) makeRoom(n int64, spared *Entry) {
	all := len(c.buckets) * ways
	for steps := 0; c.bytes.Load()+n > c.limit; steps++ {
		b, i := &c.buckets[c.hand/ways], c.hand%ways
		c.hand = (c.hand + 1) % all
		// After a full turn, evict used entries too, because requests keep using entries that the hand has already
		// passed.
		if e := b.entries[i].Load(); e != nil && e != spared && (!e.used.Swap(false) || steps > all) {
			c.evict(b, i)
		}
	}
}

// makeWay returns a free way of b for a key with this hash. If there is none, it evicts an entry.
func (c *Cache) makeWay(b *bucket, hash uint64) int {
	for i := range b.entries {
		if b.entries[i].Load() == nil {
			return i
		}
	}
	victim := int(hash>>32) % ways // does not always choose the same way
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
