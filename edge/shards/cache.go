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

// ErrUnavailable means that a shard is not in memory, and that neither the disk nor the store returned it in
// time.
var ErrUnavailable = errors.New("shard is unavailable")

// Config configures a Cache. For durations and counts, zero means the default that the field's comment
// states.
type Config struct {
	Store artifacts.Reader
	// Local means that the store is a folder, so reading it takes processor time.
	Local bool
	// Memory bounds the size of the parsed shards in memory, in bytes. It must be at least 1.
	Memory int64
	// Dir is the folder of the disk copy. New creates it.
	Dir string
	// DirSize bounds the disk copy, in bytes; 0 means no bound.
	DirSize int64
	// Fetches bounds the number of concurrent store fetches by Fetch (8). The same bound applies separately to
	// the fetches that requests wait for, so no request delays a new snapshot. Fetches of file chunks are
	// limited to half as many.
	Fetches int
	// FetchTimeout bounds one attempt to fetch an object, and the total duration of a Chunk call (20 s).
	FetchTimeout time.Duration
	// Wait bounds how long Shard waits for a load (2 s).
	Wait time.Duration
	// Pause is the time after a failed fetch during which Shard does not request the object again (500 ms).
	Pause time.Duration
	Log   *slog.Logger
}

// Counters contains totals since startup, for metrics and tests.
type Counters struct {
	Fetches      atomic.Int64 // objects requested from the store
	FetchErrors  atomic.Int64 // fetches that failed
	FetchBytes   atomic.Int64 // bytes received from the store
	ChunkErrors  atomic.Int64 // the FetchErrors that Chunk caused
	Corrupt      atomic.Int64 // objects or shards that failed verification
	DiskReads    atomic.Int64 // shards read from disk
	DiskErrors   atomic.Int64 // objects that could not be written to disk
	DiskBytes    atomic.Int64 // current size of the disk copy, as far as known
	MemoryMisses atomic.Int64 // shards that were not in memory
	Loads        atomic.Int64 // shards that were decompressed and parsed
}

// Cache reads shards from memory, disk or store. It is safe for concurrent use.
type Cache struct {
	cfg     Config
	mem     memory
	disk    *disk
	fetches *semaphore.Weighted // for Fetch
	asked   *semaphore.Weighted // for fetches that a request waits for
	chunks  *semaphore.Weighted // for chunks of files
	loads   *semaphore.Weighted // for decompressing shards, which bounds memory
	flights flights
	// Pace slows work that no request waits for.
	Pace    Pace
	ctx     context.Context // Close cancels it
	cancel  context.CancelFunc
	running sync.WaitGroup

	chunkFault atomic.Pointer[chunkFault] // the last fault, or nil; fetching the same chunk successfully clears it

	lastFetch atomic.Int64 // when the store last returned a whole object, in Unix nanoseconds

	mu      sync.Mutex
	objects map[artifacts.Digest]*Object // in use
	serial  uint64                       // the serial of the last object

	Counters Counters
}

// flights contains the running calls that several callers share. There is one group for each kind,
// because the results have different types, and keys of different kinds may be equal.
type flights struct {
	objects singleflight.Group // *openedObject, by Object.flight
	shards  singleflight.Group // *artifacts.Shard, by Object.key
	chunks  singleflight.Group // []byte, by digest
}

// Object is an immutable object that is in use. Acquire returns it.
type Object struct {
	Ref    artifacts.Ref
	serial uint64 // unique in this process; part of the key in memory
	users  int    // guarded by Cache.mu
	spare  atomic.Bool

	opened  atomic.Pointer[opened]
	handles atomic.Pointer[[]Handle]
	used    atomic.Int64 // when it was last used, for trimming
	blocked atomic.Int64 // until this time Shard does not request it from the store
}

// opened describes a verified object.
type opened struct {
	base  int64 // offset of its first shard
	index *artifacts.Index
}

// maxShards bounds the number of shards of an object, so that the object's serial number and the shard's
// index fit into a 64-bit key.
const maxShards = 1 << 12

// New returns a Cache for cfg.Store. The caller must call Close.
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

// Close ends running loads and frees the memory. Requests that draining has cut off may still be
// running; they get ErrUnavailable.
func (c *Cache) Close() {
	c.mu.Lock() // no load begins after this
	c.cancel()
	c.mu.Unlock()
	c.running.Wait()
	c.mem.close()
}

// Acquire returns the object that ref names, for use until Release.
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

// Spare marks the object for early eviction from the disk copy: before other objects in use, and immediately
// if writing it exceeds the bound.
func (c *Cache) Spare(o *Object) { o.spare.Store(true) }

// Touch marks the object as used now. The disk copy evicts the least recently used objects
// of a kind first.
func (c *Cache) Touch(o *Object) { o.used.Store(time.Now().UnixNano()) }

// Release ends one Acquire. The last Release drops the object's shards from memory to make room for
// a new snapshot's shards. ristretto prefers keys that it knows, so an old snapshot's shards would
// otherwise keep the new ones out.
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

// flight returns the key under which calls that open the object are shared.
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
		// The shard may have been evicted from memory before the handle was set.
		if now, ok := c.mem.get(key); !ok || now != e {
			e.left()
		}
	}
	return &e.Shard, true
}

// Keep offers a shard to the memory cache, which may reject it.
func (c *Cache) Keep(o *Object, i int, s *artifacts.Shard) {
	e := &entry{Shard: *s, handle: o.handle(i)}
	if e.handle != nil {
		e.handle.p.Store(e) // must happen before the memory cache rejects it
	}
	if !c.mem.set(o.key(i), e, int64(s.Size())) {
		e.left()
	}
}

// Opened returns the object's index, or nil if the object has not been verified yet.
func (o *Object) Opened() *artifacts.Index {
	if op := o.opened.Load(); op != nil {
		return op.index
	}
	return nil
}

// Index returns the object's index, which contains its fences. It waits as Shard does.
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

// Fetch makes the object available on this machine. It returns nil once the object is verified and, unless the
// disk rejects it, on disk. It waits at most until ctx is done. Unlike Shard, it does not pause after a failed
// fetch.
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

// await joins the shared call for key, and stops waiting after Config.Wait.
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

// guard turns a panic in f into an error, so that every waiter is answered, and lets Close wait for f.
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
		c.trim(most) // may also remove this object
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
		p.Do(get) // eight concurrent reads would occupy the core for milliseconds
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

// OffDisk returns the number of objects that the disk copy lacks.
func (c *Cache) OffDisk(objects []*Object) (n int64) {
	for _, o := range objects {
		if !c.disk.has(o.Ref) {
			n++
		}
	}
	return n
}

// DiskFault returns the error of the last write to the disk copy, or "" if it succeeded.
func (c *Cache) DiskFault() string {
	if text := c.disk.fault.Load(); text != nil {
		return *text
	}
	return ""
}

// RetryDisk checks whether the disk copy is writable again, if a write failed and the pause is over.
func (c *Cache) RetryDisk() { c.disk.retry() }

// chunkFault describes a failed fetch of a chunk.
type chunkFault struct {
	digest artifacts.Digest
	err    error
	at     time.Time
}

// ChunkFault describes the last failed fetch of a chunk, or returns "" if none failed in the last ten
// minutes.
func (c *Cache) ChunkFault() string {
	f := c.chunkFault.Load()
	if f == nil || time.Since(f.at) > 10*time.Minute {
		return ""
	}
	return fmt.Sprintf("%s: %v", f.digest, f.err)
}

// LastFetch returns the time when the store last returned a whole object.
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
		o.opened.Store(nil) // the file is damaged or gone, so fetch it again
	}
	v, err := c.opening(o)
	if err != nil {
		return nil, err
	}
	if v.bytes != nil {
		// The disk rejected the object. Keep all its shards, since the next shard would otherwise
		// require another fetch.
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

// opening opens the object, or joins a running call that does.
func (c *Cache) opening(o *Object) (*openedObject, error) {
	v, err, _ := c.flights.objects.Do(o.flight(), c.guard(func() (any, error) { return c.open(o, nil) }))
	if err != nil {
		return nil, err
	}
	return v.(*openedObject), nil
}

// readFrame decompresses and parses shard i, from disk or from the bytes of the whole object. The number of
// concurrent calls is bounded, because they need memory.
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

// Trim removes objects until the disk copy is within its bound, as writing an object does. It removes objects
// that are not in use first, then spare objects, then others, and within each kind the least recently used
// first.
func (c *Cache) Trim() { c.trim(needAll) }

func (c *Cache) trim(maxClass int) {
	c.disk.trim(maxClass, func(d artifacts.Digest) (need int, used int64) {
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

// Wait waits until the memory cache has processed all calls of Keep. It is for tests.
func (c *Cache) Wait() { c.mem.Cache.Wait() }

// Chunk returns a verified object that belongs to files, from disk or else from the store. Concurrent calls for
// the same object share the fetch. callerSlots is a semaphore of the caller, or nil. A fetch occupies one of its
// slots while it runs. Chunk waits until ctx is done, but at most Config.FetchTimeout. Errors wrap
// ErrUnavailable.
func (c *Cache) Chunk(ctx context.Context, ref artifacts.Ref, callerSlots chan struct{}) ([]byte, error) {
	if b, err := c.disk.chunk(ref); err == nil {
		return b, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.FetchTimeout)
	defer cancel()
	late := func() error { return fmt.Errorf("%w: chunk %s: %w", ErrUnavailable, ref.Digest, ctx.Err()) }
	free := func() {}
	if callerSlots != nil {
		select {
		case callerSlots <- struct{}{}:
			free = func() { <-callerSlots }
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

// fetchChunk fetches an object that belongs to files, and writes it to disk.
func (c *Cache) fetchChunk(ref artifacts.Ref) ([]byte, error) {
	if b, err := c.disk.chunk(ref); err == nil {
		return b, nil // another call has fetched it while this one waited for a slot
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
