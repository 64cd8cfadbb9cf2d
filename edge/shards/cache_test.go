package shards

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/durable"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a Reader that counts its Gets, and whose results a test can replace.
type store struct {
	artifacts.Reader
	mu   sync.Mutex
	gets map[artifacts.Key]int
	get  func(key artifacts.Key, b []byte, err error) ([]byte, error) // if nil, results are unchanged
}

func (s *store) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	s.mu.Lock()
	s.gets[key]++
	f := s.get
	s.mu.Unlock()
	b, v, err := s.Reader.Get(ctx, key, limit)
	if f != nil {
		b, err = f(key, bytes.Clone(b), err)
	}
	return b, v, err
}

func (s *store) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.gets {
		n += k
	}
	return n
}

func (s *store) set(f func(key artifacts.Key, b []byte, err error) ([]byte, error)) {
	s.mu.Lock()
	s.get = f
	s.mu.Unlock()
}

// object stores an object with n shards of one row each.
func object(tb testing.TB, s artifacts.Store, from, n int) artifacts.Ref {
	tb.Helper()
	var o artifacts.Object
	for i := from; i < from+n; i++ {
		row := fmt.Appendf(nil, `{"id":%d,"pad":"%0200d"}`, i, i)
		o.Add(artifacts.AppendShard(nil, &artifacts.ShardRows{RunLens: []int{1}, Rows: [][]byte{row}, FirstRun: i}), 1,
			artifacts.Fence{ID: uint64(i)})
	}
	b := o.Bytes()
	ref := artifacts.RefOf(b)
	must.OK(tb, s.Put(context.Background(), artifacts.ObjectKey(ref.Digest), b))
	return ref
}

func setup(tb testing.TB, cfg Config) (*Cache, *store, *memstore.Store) {
	tb.Helper()
	mem := memstore.New()
	s := &store{Reader: mem, gets: map[artifacts.Key]int{}}
	cfg.Store = s
	if cfg.Dir == "" {
		cfg.Dir = tb.TempDir()
	}
	c := must.Get(New(cfg))(tb)
	tb.Cleanup(c.Close)
	return c, s, mem
}

func wantRow(tb testing.TB, c *Cache, o *Object, i, id int) {
	tb.Helper()
	s, err := c.Shard(o, i)
	if err != nil {
		tb.Fatalf("shard %d: %v", i, err)
	}
	if s.ID(0) != uint64(id) {
		tb.Fatalf("shard %d holds id %d, want %d", i, s.ID(0), id)
	}
}

func TestAcquireSharesAndReleaseForgets(t *testing.T) {
	c, s, mem := setup(t, Config{Memory: 1 << 20})
	ref := object(t, mem, 1, 2)
	a, b := c.Acquire(ref), c.Acquire(ref)
	if a != b {
		t.Fatal("two objects of one digest")
	}
	wantRow(t, c, a, 0, 1)
	c.Wait()
	c.Release(a)
	if _, ok := c.Cached(b, 0); !ok {
		t.Error("a shard in use was forgotten")
	}
	c.Release(b)
	c.Wait()
	if _, ok := c.Cached(b, 0); ok {
		t.Error("a released shard is still in memory")
	}
	if d := c.Acquire(ref); d == a {
		t.Error("a released object came back")
	} else {
		wantRow(t, c, d, 1, 2)
	}
	if s.total() != 1 {
		t.Errorf("%d gets, want 1: the disk has it", s.total())
	}
}

func TestWrongBytesFromTheStore(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"flipped":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"truncated": func(b []byte) []byte { return b[:len(b)-1] },
		"empty":     func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			c, s, mem := setup(t, Config{Memory: 1, Pause: time.Nanosecond})
			o := c.Acquire(object(t, mem, 1, 2))
			s.set(func(_ artifacts.Key, b []byte, err error) ([]byte, error) { return spoil(b), err })
			if _, err := c.Shard(o, 0); !errors.Is(err, ErrUnavailable) || !errors.Is(err, artifacts.ErrCorrupt) {
				t.Fatalf("got %v, want ErrUnavailable and ErrCorrupt", err)
			}
			s.set(nil)
			wantRow(t, c, o, 0, 1)
			if n := c.Counters.Corrupt.Load(); n != 1 {
				t.Errorf("%d objects are counted as damaged, want 1", n)
			}
		})
	}
}

func TestStoreAway(t *testing.T) {
	c, s, mem := setup(t, Config{Memory: 1, Pause: time.Hour})
	o, other := c.Acquire(object(t, mem, 1, 2)), c.Acquire(object(t, mem, 50, 2))
	wantRow(t, c, other, 0, 50)
	away := errors.New("no route to host")
	s.set(func(artifacts.Key, []byte, error) ([]byte, error) { return nil, away })
	for range 5 {
		if _, err := c.Shard(o, 0); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("got %v, want ErrUnavailable", err)
		}
	}
	wantRow(t, c, other, 1, 51)
	if got := s.total(); got != 2 {
		t.Errorf("%d gets: an object whose fetch has failed is not asked for again at once", got)
	}
	s.set(nil)
	if err := c.Fetch(context.Background(), o); err != nil { // Fetch does not pause
		t.Fatal(err)
	}
	wantRow(t, c, o, 1, 2)
}

// TestSlowObject checks that one fetch serves all requests for a slow object, and that another object is
// available in the meantime.
func TestSlowObject(t *testing.T) {
	c, s, mem := setup(t, Config{Memory: 1 << 20, Wait: time.Minute})
	ref := object(t, mem, 1, 2)
	o, quick := c.Acquire(ref), c.Acquire(object(t, mem, 50, 2))
	release := make(chan struct{})
	s.set(func(key artifacts.Key, b []byte, err error) ([]byte, error) {
		if key == artifacts.ObjectKey(ref.Digest) {
			<-release
		}
		return b, err
	})
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() { wantRow(t, c, o, i%2, 1+i%2) })
	}
	for i := range 40 { // more than may be decompressed concurrently
		wantRow(t, c, quick, i%2, 50+i%2)
	}
	close(release)
	group.Wait()
	if n := s.gets[artifacts.ObjectKey(ref.Digest)]; n != 1 {
		t.Errorf("%d gets of the slow object, want 1", n)
	}
}

func TestWaitIsBounded(t *testing.T) {
	c, s, mem := setup(t, Config{Memory: 1, Wait: time.Millisecond})
	o := c.Acquire(object(t, mem, 1, 1))
	release := make(chan struct{})
	s.set(func(_ artifacts.Key, b []byte, err error) ([]byte, error) { <-release; return b, err })
	if _, err := c.Shard(o, 0); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	close(release)
}

func TestPanicIsAnswered(t *testing.T) {
	c, s, mem := setup(t, Config{Memory: 1, Pause: time.Nanosecond})
	o := c.Acquire(object(t, mem, 1, 1))
	s.set(func(artifacts.Key, []byte, error) ([]byte, error) { panic("planted") })
	if _, err := c.Shard(o, 0); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	// Other callers get an error, too. Otherwise singleflight would end the process.
	if _, err := c.opening(o); err == nil {
		t.Error("a panic opens the object")
	}
	s.set(nil)
	wantRow(t, c, o, 0, 1)
}

// TestCloseBesideRequests checks that requests that run during Close get their shard or ErrUnavailable.
func TestCloseBesideRequests(t *testing.T) {
	for range 20 {
		c, _, mem := setup(t, Config{Memory: 1 << 20})
		o := c.Acquire(object(t, mem, 1, 8))
		var requests sync.WaitGroup
		begun := make(chan struct{}, 4)
		for worker := range cap(begun) {
			requests.Go(func() {
				for i := worker; ; i++ {
					s, err := c.Shard(o, i%8)
					if i == worker {
						begun <- struct{}{}
					}
					if err != nil {
						if !errors.Is(err, ErrUnavailable) {
							t.Errorf("got %v", err)
						}
						return
					}
					c.Keep(o, i%8, s)
					for range 100 { // ristretto processes gets in batches
						c.Cached(o, i%8)
					}
				}
			})
		}
		for range cap(begun) {
			<-begun
		}
		c.Close()
		c.Release(o)
		requests.Wait()
	}
}

// TestTrim checks that the disk copy is within its bound after each object, and that released objects are
// removed before objects in use.
func TestTrim(t *testing.T) {
	dir := t.TempDir()
	c, s, mem := setup(t, Config{Memory: 1, Dir: dir, DirSize: 2500})
	stale := filepath.Join(dir, durable.Prefix+"1")
	must.OK(t, os.WriteFile(stale, nil, 0o644))
	must.OK(t, os.Chtimes(stale, time.Time{}, time.Now().Add(-2*staleTemp)))
	var refs []artifacts.Ref
	for i := range 20 {
		ref := object(t, mem, i*10+1, 4)
		refs = append(refs, ref)
		o := c.Acquire(ref)
		wantRow(t, c, o, 0, i*10+1)
		if got := c.Counters.DiskBytes.Load(); got > 2500 {
			t.Fatalf("%d bytes on disk after %d objects", got, i+1)
		}
		if i < 19 {
			c.Release(o)
		}
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a stale temporary file stays: %v", err)
	}
	before := s.total()
	wantRow(t, c, c.Acquire(refs[19]), 1, 192)
	if s.total() != before {
		t.Error("an object in use was trimmed before released ones")
	}
	wantRow(t, c, c.Acquire(refs[0]), 1, 2)
	if s.total() != before+1 {
		t.Error("the oldest released object was not trimmed")
	}
}

// TestRetryDisk checks that the cache notices that a full folder has space again, even if it fetches nothing
// new, but not before the pause is over.
func TestRetryDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		d := must.Get(openDisk(root, 0, new(Counters), slog.New(slog.DiscardHandler)))(t)
		c, objects := &Cache{disk: d}, filepath.Join(root, "objects")
		must.OK(t, os.Remove(objects))
		must.OK(t, os.WriteFile(objects, nil, 0o600)) // not a folder, so every write fails
		row := []byte("row")
		if d.writeObject(artifacts.RefOf(row), row, nil) {
			t.Fatal("written")
		}
		time.Sleep(fullPause)
		if c.RetryDisk(); c.DiskFault() == "" {
			t.Error("no fault is known after a second failure")
		}
		must.OK(t, os.Remove(objects))
		if c.RetryDisk(); c.DiskFault() == "" {
			t.Error("written within the pause")
		}
		time.Sleep(fullPause)
		if c.RetryDisk(); c.DiskFault() != "" {
			t.Errorf("fault %s, though there is room", c.DiskFault())
		}
		if left, err := os.ReadDir(objects); len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

// TestTrimSpare checks that spare objects never make the disk copy exceed its bound and only replace other
// spare objects, the most recently touched ones last.
func TestTrimSpare(t *testing.T) {
	c, s, mem := setup(t, Config{Memory: 1, DirSize: 2500})
	needed := c.Acquire(object(t, mem, 1, 4))
	wantRow(t, c, needed, 0, 1)
	touched := c.Acquire(object(t, mem, 301, 4))
	c.Spare(touched)
	wantRow(t, c, touched, 0, 301)
	for i := range 20 {
		c.Touch(touched)
		o := c.Acquire(object(t, mem, i*10+11, 4))
		c.Spare(o)
		wantRow(t, c, o, 0, i*10+11)
		if got := c.Counters.DiskBytes.Load(); got > 2500 {
			t.Fatalf("%d bytes on disk after %d objects", got, i+1)
		}
		before := s.total()
		wantRow(t, c, o, 1, i*10+12)
		wantRow(t, c, needed, 1, 2)
		if s.total() != before || !c.disk.has(touched.Ref) {
			t.Fatalf("object %d, the one that is needed or the one that is touched did not stay on disk", i)
		}
	}
}

// TestTwoEdgesShareAFolder checks that an object that one cache removes from the shared folder is fetched
// again by the other.
func TestTwoEdgesShareAFolder(t *testing.T) {
	dir := t.TempDir()
	a, s, mem := setup(t, Config{Memory: 1, Dir: dir})
	b := must.Get(New(Config{Store: s, Memory: 1, Dir: dir}))(t)
	defer b.Close()
	ref := object(t, mem, 1, 4)
	oa, ob := a.Acquire(ref), b.Acquire(ref)
	wantRow(t, a, oa, 0, 1)
	wantRow(t, b, ob, 1, 2)
	if s.total() != 1 {
		t.Errorf("%d gets, want 1 for both", s.total())
	}
	must.OK(t, os.RemoveAll(filepath.Join(dir, "objects")))
	wantRow(t, a, oa, 2, 3)
	wantRow(t, b, ob, 3, 4)
}

// TestPlacesOfTheirOwn checks that Fetch gets its objects while all fetches for requests and files are slow.
func TestPlacesOfTheirOwn(t *testing.T) {
	c, s, mem := setup(t, Config{Memory: 1 << 20, Fetches: 2, Wait: time.Minute})
	fresh := object(t, mem, 1, 1)
	gate, held := make(chan struct{}), make(chan struct{}, 10)
	s.set(func(key artifacts.Key, b []byte, err error) ([]byte, error) {
		if key != artifacts.ObjectKey(fresh.Digest) {
			held <- struct{}{}
			<-gate
		}
		return b, err
	})
	ctx, cancel := context.WithCancel(t.Context())
	own := make(chan struct{}, 4)
	var group sync.WaitGroup
	for i := range 4 {
		o := c.Acquire(object(t, mem, 10+i, 1))
		group.Go(func() { wantRow(t, c, o, 0, 10+i) })
		group.Go(func() {
			_, err := c.Chunk(ctx, artifacts.Ref{Digest: artifacts.Digest{byte(1 + i)}, Size: 1}, own)
			if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
				t.Errorf("a chunk whose client is gone: %v", err)
			}
		})
	}
	for range 3 { // two for requests, one for files
		<-held
	}
	must.OK(t, c.Fetch(t.Context(), c.Acquire(fresh)))
	if len(held) > 0 {
		t.Error("more fetches than places")
	}
	cancel()
	close(gate)
	group.Wait()
	for range cap(own) { // all slots are free once the fetches have ended
		own <- struct{}{}
	}
}

// TestFlightsOfTwoKinds checks that opening an object never joins the load of another object's shard. The two
// kinds of keys were once equal for the first numbers: "i" followed by 1248 in base 36 was also the key of
// shard 0 of object 6.
func TestFlightsOfTwoKinds(t *testing.T) {
	for _, n := range []struct{ opened, loaded, shard int }{{1248, 6, 0}, {1249, 6, 1}, {3968, 206, 0}} {
		c, s, mem := setup(t, Config{Memory: 1 << 20, Wait: time.Second})
		var opened, loaded *Object
		slow := object(t, mem, 1, 2)
		for i := range n.opened {
			var other artifacts.Ref
			binary.BigEndian.PutUint64(other.Digest[:], uint64(i))
			switch i + 1 {
			case n.loaded:
				loaded = c.Acquire(slow)
			case n.opened:
				opened = c.Acquire(object(t, mem, 50, 2))
			default:
				c.Acquire(other)
			}
		}
		asked, release := make(chan struct{}), make(chan struct{})
		s.set(func(key artifacts.Key, b []byte, err error) ([]byte, error) {
			if key == artifacts.ObjectKey(slow.Digest) {
				close(asked)
				<-release
			}
			return b, err
		})
		var group sync.WaitGroup
		group.Go(func() { _, _ = c.Shard(loaded, n.shard) })
		<-asked
		if x, err := c.Index(opened); err != nil || len(x.Shards) != 2 {
			t.Errorf("object %d beside shard %d of object %d: %v", n.opened, n.shard, n.loaded, err)
		}
		close(release)
		group.Wait()
	}
}
