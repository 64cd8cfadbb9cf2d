package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
)

// ErrUnavailable means that a shard is not in memory, and neither disk nor store gave it
// in time.
var ErrUnavailable = errors.New("shard is unavailable")

// Config configures a Cache. Zero durations and counts take the defaults in their
// comments.
type Config struct {
	Store artifacts.Reader
	// Local means that the store is a folder: reading it costs time of the core.
	Local bool
	// Memory bounds the parsed shards in memory, in bytes; at least 1.
	Memory int64
	// Dir is the folder of the disk copy. New creates it.
	Dir string
	// DirSize bounds the disk copy, in bytes; 0: no bound.
	DirSize int64
	// Fetches bounds the concurrent fetches from the store (8): those of Fetch, and as many of
	// what requests need meanwhile. Chunks of files have half as many to themselves. So no
	// request delays a new snapshot.
	Fetches int
	// FetchTimeout bounds one attempt to fetch one object, and all that Chunk waits (20 s).
	FetchTimeout time.Duration
	// Wait bounds how long Shard waits for a load (2 s).
	Wait time.Duration
	// Pause is how long after a failed fetch Shard does not request the object again
	// (500 ms).
	Pause time.Duration
	Log   *slog.Logger
}

// Counters are running totals, for metrics and for tests.
type Counters struct {
	Fetches      atomic.Int64 // objects requested from the store
	FetchErrors  atomic.Int64 // fetches that failed
	FetchBytes   atomic.Int64 // bytes received from the store
	ChunkErrors  atomic.Int64 // of FetchErrors, those of Chunk
	Corrupt      atomic.Int64 // objects or shards that failed verification
	DiskReads    atomic.Int64 // shards read from disk
	DiskErrors   atomic.Int64 // objects that could not be written to disk
	DiskBytes    atomic.Int64 // bytes of the disk copy now, as far as known
	MemoryMisses atomic.Int64 // shards that were not in memory
	Loads        atomic.Int64 // shards that were expanded and parsed
}

// Cache reads shards from memory, disk or store. It is safe for concurrent use.
type Cache struct {
	cfg     Config
	mem     memory
	disk    *disk
	fetches *semaphore.Weighted // of Fetch,
	asked   *semaphore.Weighted // of what a request waits for,
	chunks  *semaphore.Weighted // of chunks of files
	loads   *semaphore.Weighted // shards expanded at once, which bounds memory
	flights flights
	// Pace slows work that no request waits for.
	Pace    Pace
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	chunkFault atomic.Pointer[chunkFault] // the last one; nil: there was none, or that chunk came since

	lastFetch atomic.Int64 // when the store last gave a whole object, Unix nanoseconds

	mu      sync.Mutex
	objects map[artifacts.Digest]*Object // in use
	serial  uint64                       // of the last object

	Counters Counters
}

// flights are the running calls that several callers share, by kind: their results have different
// types, and a key of one kind may equal a key of another.
type flights struct {
	objects singleflight.Group // *openedObject, by Object.flight
	shards  singleflight.Group // *artifacts.Shard, by Object.key
	chunks  singleflight.Group // []byte, by digest
}

// Object is an immutable object in use, from Acquire.
type Object struct {
	Ref    artifacts.Ref
	serial uint64 // unique in this process; part of the key in memory
	users  int    // guarded by Cache.mu
	spare  atomic.Bool

	opened  atomic.Pointer[opened]
	handles atomic.Pointer[[]Handle]
	used    atomic.Int64 // when it was last touched, for trimming
	blocked atomic.Int64 // until when Shard does not request it from the store
}

// opened describes a verified object.
type opened struct {
	base  int64 // offset of its first shard
	index *artifacts.Index
}

// maxShards bounds the shards of an object, so that object and shard share a
// key of 64 bits.
const maxShards = 1 << 12

// New returns a Cache over cfg.Store. Close ends it.
func New(cfg Config) (*Cache, error) {
	cfg.Fetches = cmp.Or(max(cfg.Fetches, 0), 8)
	cfg.FetchTimeout = cmp.Or(max(cfg.FetchTimeout, 0), 20*time.Second)
	cfg.Wait = cmp.Or(max(cfg.Wait, 0), 2*time.Second)
	cfg.Pause = cmp.Or(max(cfg.Pause, 0), 500*time.Millisecond)
	cfg.Memory = max(cfg.Memory, 1)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Cache{
		cfg:     cfg,
		fetches: semaphore.NewWeighted(int64(cfg.Fetches)),
		asked:   semaphore.NewWeighted(int64(cfg.Fetches)),
		chunks:  semaphore.NewWeighted(int64(cfg.Fetches+1) / 2),
		loads:   semaphore.NewWeighted(16),
		objects: map[artifacts.Digest]*Object{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	var err error
	if c.mem.Cache, err = newMemory(cfg.Memory); err != nil {
		return nil, fmt.Errorf("shard cache of %d bytes: %w", cfg.Memory, err)
	}
	if c.disk, err = openDisk(cfg.Dir, cfg.DirSize, &c.Counters, cfg.Log); err != nil {
		c.mem.close()
		return nil, err
	}
	return c, nil
}

// Close ends running loads and frees the memory. Requests that still run, because draining
// cut them off, get ErrUnavailable.
func (c *Cache) Close() {
	c.mu.Lock() // no load begins after this
	c.cancel()
	c.mu.Unlock()
	c.running.Wait()
	c.mem.close()
}

// Acquire returns the object with ref, for use until Release.
func (c *Cache) Acquire(ref artifacts.Ref) *Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[ref.Digest]
	if o == nil {
		c.serial++
		o = &Object{Ref: ref, serial: c.serial}
		c.objects[ref.Digest] = o
	}
	o.users++
	return o
}

// Spare marks the object for early eviction from the disk copy: before others in use, and
// at once if writing it exceeds the bound.
func (c *Cache) Spare(o *Object) { o.spare.Store(true) }

// Touch marks the object as used now. The disk copy evicts the least recently used objects
// of a kind first.
func (c *Cache) Touch(o *Object) { o.used.Store(time.Now().UnixNano()) }

// Release ends one Acquire. The last one drops the object's shards from memory to make room
// for a new snapshot's: ristretto prefers keys it knows, so an old snapshot's shards would
// keep the new ones out.
func (c *Cache) Release(o *Object) {
	c.mu.Lock()
	o.users--
	last := o.users == 0
	if last {
		delete(c.objects, o.Ref.Digest)
	}
	c.mu.Unlock()
	if last {
		c.Forget(o)
	}
}

// Forget drops the object's shards from memory.
func (c *Cache) Forget(o *Object) {
	if op := o.opened.Load(); op != nil {
		for i := range op.index.Shards {
			c.mem.drop(o.key(i))
		}
	}
}

// key returns the key of shard i in memory.
func (o *Object) key(i int) uint64 { return o.serial*maxShards + uint64(i) }

// flight returns the key of opening the object.
func (o *Object) flight() string { return strconv.FormatUint(o.serial, 36) }

// Shard returns shard i of the object. It waits for at most Config.Wait, and allocates
// nothing if the shard is in memory. Errors wrap ErrUnavailable.
func (c *Cache) Shard(o *Object, i int) (*artifacts.Shard, error) {
	if s, ok := c.Cached(o, i); ok {
		return s, nil
	}
	return c.miss(o, i)
}

// Cached returns shard i of the object if it is in memory.
func (c *Cache) Cached(o *Object, i int) (*artifacts.Shard, bool) {
	key := o.key(i)
	e, ok := c.mem.get(key)
	if !ok {
		return nil, false
	}
	if e.handle != nil && e.handle.p.CompareAndSwap(nil, e) {
		// It may have left the memory before the handle had it.
		if now, ok := c.mem.get(key); !ok || now != e {
			e.left()
		}
	}
	return &e.Shard, true
}

// Keep offers a shard to the memory, which may reject it.
func (c *Cache) Keep(o *Object, i int, s *artifacts.Shard) {
	e := &entry{Shard: *s, handle: o.handle(i)}
	if e.handle != nil {
		e.handle.p.Store(e) // before the memory can reject it
	}
	if !c.mem.set(o.key(i), e, int64(s.Size())) {
		e.left()
	}
}

// Opened returns the object's index, nil if the object was not verified yet.
func (o *Object) Opened() *artifacts.Index {
	if op := o.opened.Load(); op != nil {
		return op.index
	}
	return nil
}

// Index returns the object's index, for its fences. It waits as Shard does.
func (c *Cache) Index(o *Object) (*artifacts.Index, error) {
	if op := o.opened.Load(); op != nil {
		return op.index, nil
	}
	op, err := c.await(&c.flights.objects, o.flight(), o, func() (any, error) { return c.open(o, nil) })
	if err != nil {
		return nil, err
	}
	return op.(*openedObject).index, nil
}

// Fetch brings the object onto this machine. It returns nil once the object is verified,
// and on disk unless the disk rejects it. It waits until ctx is done, and does not pause
// after a failed fetch as Shard does.
func (c *Cache) Fetch(ctx context.Context, o *Object) error {
	if o.opened.Load() != nil && c.disk.has(o.Ref) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	o.blocked.Store(0)
	ch := c.flights.objects.DoChan(o.flight(), c.guard(func() (any, error) { return c.open(o, &c.Pace) }))
	select {
	case r := <-ch:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Cache) miss(o *Object, i int) (*artifacts.Shard, error) {
	c.Counters.MemoryMisses.Add(1)
	key := strconv.FormatUint(o.key(i), 36)
	v, err := c.await(&c.flights.shards, key, o, func() (any, error) { return c.load(o, i) })
	if err != nil {
		return nil, err
	}
	return v.(*artifacts.Shard), nil
}

// await joins the flight of key and leaves it after Config.Wait.
func (c *Cache) await(g *singleflight.Group, key string, o *Object, f func() (any, error)) (any, error) {
	timer := time.NewTimer(c.cfg.Wait)
	defer timer.Stop()
	select {
	case r := <-g.DoChan(key, c.guard(f)):
		if r.Err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, r.Err)
		}
		return r.Val, nil
	case <-timer.C:
		return nil, fmt.Errorf("%w: object %s: no answer within %v", ErrUnavailable, o.Ref.Digest, c.cfg.Wait)
	case <-c.ctx.Done():
		return nil, fmt.Errorf("%w: closing", ErrUnavailable)
	}
}

// guard turns a panic of f into an error, so that every waiter is answered, and lets Close
// wait for f.
func (c *Cache) guard(f func() (any, error)) func() (any, error) {
	return func() (v any, err error) {
		c.mu.Lock()
		if c.ctx.Err() != nil {
			c.mu.Unlock()
			return nil, c.ctx.Err()
		}
		c.running.Add(1)
		c.mu.Unlock()
		defer c.running.Done()
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("BUG: panic in a load: %v", p)
				c.cfg.Log.Error("panic in a load", "panic", p)
			}
		}()
		return f()
	}
}

// openedObject is a newly opened object, with its bytes if they are not on disk.
type openedObject struct {
	*opened
	bytes []byte
}

// open verifies the object, from disk or else from the store.
func (c *Cache) open(o *Object, p *Pace) (*openedObject, error) {
	if op := o.opened.Load(); op != nil && c.disk.has(o.Ref) {
		return &openedObject{op, nil}, nil
	}
	b, err := c.disk.whole(o.Ref, p)
	c.Touch(o)
	if err == nil {
		if op, err := o.verify(b, p); err == nil {
			o.opened.Store(op)
			return &openedObject{op, nil}, nil
		} else {
			c.corrupt(o, "disk", err)
		}
	}
	if b, err = c.fetch(o, p); err != nil {
		return nil, err
	}
	op, err := o.verify(b, p)
	if err != nil {
		c.corrupt(o, "store", err)
		c.Counters.FetchErrors.Add(1)
		o.blocked.Store(time.Now().Add(c.cfg.Pause).UnixNano())
		return nil, fmt.Errorf("object %s from the store: %w", o.Ref.Digest, err)
	}
	c.lastFetch.Store(time.Now().UnixNano())
	if c.disk.writeObject(o.Ref, b, p) {
		most := needAll
		if o.spare.Load() {
			most = needSpare
		}
		c.trim(most) // may remove this one, too
		if c.disk.has(o.Ref) {
			b = nil
		}
	}
	o.opened.Store(op)
	return &openedObject{op, b}, nil
}

func (o *Object) verify(b []byte, p *Pace) (*opened, error) {
	if int64(len(b)) != o.Ref.Size {
		return nil, fmt.Errorf("%w: %d bytes, want %d", artifacts.ErrCorrupt, len(b), o.Ref.Size)
	}
	if p.sum(b) != o.Ref.Digest {
		return nil, fmt.Errorf("%w: its digest is another", artifacts.ErrCorrupt)
	}
	n, err := artifacts.IndexSize(b)
	if err != nil {
		return nil, err
	}
	if n > int64(len(b)) {
		return nil, fmt.Errorf("%w: index of %d bytes in %d", artifacts.ErrCorrupt, n, len(b))
	}
	x, err := artifacts.ParseIndex(b[:n], int64(len(b)))
	if err != nil {
		return nil, err
	}
	if len(x.Shards) > maxShards {
		return nil, fmt.Errorf("%w: %d shards", artifacts.ErrCorrupt, len(x.Shards))
	}
	return &opened{base: n, index: x}, nil
}

func (c *Cache) corrupt(o *Object, where string, err error) {
	c.Counters.Corrupt.Add(1)
	c.cfg.Log.Error("object is damaged", "object", o.Ref.Digest, "where", where, "err", err)
	if where == "disk" {
		c.disk.remove(o.Ref)
	}
}

// fetch reads the object from the store. It verifies nothing.
func (c *Cache) fetch(o *Object, p *Pace) (b []byte, err error) {
	if until := o.blocked.Load(); until > 0 && time.Now().UnixNano() < until {
		return nil, fmt.Errorf("object %s: its last fetch has just failed", o.Ref.Digest)
	}
	places := c.fetches
	if p == nil {
		places = c.asked
	}
	if err := places.Acquire(c.ctx, 1); err != nil {
		return nil, err
	}
	defer places.Release(1)
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.FetchTimeout)
	defer cancel()
	c.Counters.Fetches.Add(1)
	key := artifacts.ObjectKey(o.Ref.Digest)
	get := func() { b, _, err = c.cfg.Store.Get(ctx, key, o.Ref.Size) }
	if c.cfg.Local {
		p.Do(get) // eight at once would occupy the core for milliseconds
	} else {
		get()
	}
	c.Counters.FetchBytes.Add(int64(len(b)))
	if err != nil {
		c.Counters.FetchErrors.Add(1)
		o.blocked.Store(time.Now().Add(c.cfg.Pause).UnixNano())
		return nil, fmt.Errorf("fetch %s: %w", key, err)
	}
	return b, nil
}

// OffDisk counts the objects that the disk copy does not have.
func (c *Cache) OffDisk(objects []*Object) (n int64) {
	for _, o := range objects {
		if !c.disk.has(o.Ref) {
			n++
		}
	}
	return n
}

// DiskFault says why the last write to the disk copy failed; "": it did not.
func (c *Cache) DiskFault() string {
	if text := c.disk.fault.Load(); text != nil {
		return *text
	}
	return ""
}

// RetryDisk finds out whether the disk copy can be written again, some time after a write failed.
func (c *Cache) RetryDisk() { c.disk.retry() }

// chunkFault is why a chunk of a file was not fetched.
type chunkFault struct {
	digest artifacts.Digest
	err    error
	at     time.Time
}

// ChunkFault says which chunk of a file could not be fetched in the last ten minutes, and why; "": none.
func (c *Cache) ChunkFault() string {
	f := c.chunkFault.Load()
	if f == nil || time.Since(f.at) > 10*time.Minute {
		return ""
	}
	return fmt.Sprintf("%s: %v", f.digest, f.err)
}

// LastFetch returns when the store last gave a whole object.
func (c *Cache) LastFetch() time.Time { return time.Unix(0, c.lastFetch.Load()) }

// load reads one shard from disk, and opens its object first if necessary.
func (c *Cache) load(o *Object, i int) (*artifacts.Shard, error) {
	if op := o.opened.Load(); op != nil {
		s, err := c.readFrame(o, op, i, nil)
		if err == nil {
			c.Keep(o, i, s)
			return s, nil
		}
		if errors.Is(err, artifacts.ErrCorrupt) {
			c.corrupt(o, "disk", err)
		}
		o.opened.Store(nil) // the file is damaged or gone: fetch it again
	}
	v, err := c.opening(o)
	if err != nil {
		return nil, err
	}
	if v.bytes != nil {
		// The disk rejected the object. Keep all its shards: the next one would have to
		// fetch it again.
		for j := range v.index.Shards {
			if s, err := c.readFrame(o, v.opened, j, v.bytes); err == nil && j != i {
				c.Keep(o, j, s)
			}
		}
	}
	s, err := c.readFrame(o, v.opened, i, v.bytes)
	if err != nil {
		return nil, err
	}
	c.Keep(o, i, s)
	return s, nil
}

// opening opens the object, or joins a call that does.
func (c *Cache) opening(o *Object) (*openedObject, error) {
	v, err, _ := c.flights.objects.Do(o.flight(), c.guard(func() (any, error) { return c.open(o, nil) }))
	if err != nil {
		return nil, err
	}
	return v.(*openedObject), nil
}

// readFrame expands and parses shard i, from disk or from the whole object's bytes. A bound
// on concurrent calls bounds their memory.
func (c *Cache) readFrame(o *Object, op *opened, i int, whole []byte) (*artifacts.Shard, error) {
	if i < 0 || i >= len(op.index.Shards) {
		return nil, fmt.Errorf("%w: shard %d of %d", artifacts.ErrCorrupt, i, len(op.index.Shards))
	}
	if err := c.loads.Acquire(c.ctx, 1); err != nil {
		return nil, err
	}
	defer c.loads.Release(1)
	e := op.index.Shards[i]
	at := op.base + e.Offset
	var frame []byte
	if whole != nil {
		frame = whole[at : at+e.Stored]
	} else {
		var err error
		if frame, err = c.disk.part(o.Ref, at, e.Stored); err != nil {
			return nil, err
		}
		c.Counters.DiskReads.Add(1)
		c.Touch(o)
	}
	c.Counters.Loads.Add(1)
	return artifacts.ParseEntry(e, frame)
}

// Trim brings the disk copy within its bound, as writing an object does. It removes objects
// that are not in use, then spare ones, then others; of each kind the least recently used
// ones first.
func (c *Cache) Trim() { c.trim(needAll) }

func (c *Cache) trim(most int) {
	c.disk.trim(most, func(d artifacts.Digest) (need int, used int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch o := c.objects[d]; {
		case o == nil:
			return needNone, 0
		case o.spare.Load():
			return needSpare, o.used.Load()
		default:
			return needAll, o.used.Load()
		}
	})
}

// Wait returns once the memory has handled every Keep; for tests.
func (c *Cache) Wait() { c.mem.Cache.Wait() }

// Chunk returns an object that only files need, from disk or else from the store, verified. Those who
// ask for the same one at the same time share the fetch. A fetch holds one of own, the caller's places
// (nil: it needs none), until it has ended. Chunk waits until ctx is done, at most Config.FetchTimeout.
// Errors wrap ErrUnavailable.
func (c *Cache) Chunk(ctx context.Context, ref artifacts.Ref, own chan struct{}) ([]byte, error) {
	if b, err := c.disk.chunk(ref); err == nil {
		return b, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.FetchTimeout)
	defer cancel()
	late := func() error { return fmt.Errorf("%w: chunk %s: %w", ErrUnavailable, ref.Digest, ctx.Err()) }
	free := func() {}
	if own != nil {
		select {
		case own <- struct{}{}:
			free = func() { <-own }
		case <-ctx.Done():
			return nil, late()
		}
	}
	fetch := c.flights.chunks.DoChan(ref.Digest.String(), c.guard(func() (any, error) { return c.fetchChunk(ref) }))
	select {
	case r := <-fetch:
		free()
		if r.Err != nil {
			return nil, fmt.Errorf("%w: chunk %s: %w", ErrUnavailable, ref.Digest, r.Err)
		}
		return r.Val.([]byte), nil
	case <-ctx.Done():
		go func() { <-fetch; free() }()
		return nil, late()
	}
}

// fetchChunk brings what only files need onto this machine.
func (c *Cache) fetchChunk(ref artifacts.Ref) ([]byte, error) {
	if b, err := c.disk.chunk(ref); err == nil {
		return b, nil // the caller waited for a place meanwhile
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.FetchTimeout)
	defer cancel()
	if err := c.chunks.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer c.chunks.Release(1)
	c.Counters.Fetches.Add(1)
	b, err := artifacts.ReadFile(ctx, c.cfg.Store, ref)
	c.Counters.FetchBytes.Add(int64(len(b)))
	if err != nil {
		c.Counters.FetchErrors.Add(1)
		c.Counters.ChunkErrors.Add(1)
		c.chunkFault.Store(&chunkFault{ref.Digest, err, time.Now()})
		return nil, err
	}
	if f := c.chunkFault.Load(); f != nil && f.digest == ref.Digest {
		c.chunkFault.CompareAndSwap(f, nil)
	}
	c.lastFetch.Store(time.Now().UnixNano())
	c.disk.writeChunk(ref, b)
	c.trim(needNone)
	return b, nil
}
