package shards

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// showing returns how many handles point to a shard. It checks that each of these shards is in memory, which
// handles guarantee while no call is running.
func showing(t *testing.T, c *Cache, o *Object, handles []Handle) (n int) {
	t.Helper()
	c.Wait()
	for i := range handles {
		e := handles[i].p.Load()
		if e == nil {
			continue
		}
		n++
		if in, ok := c.mem.Get(o.key(i)); !ok || in != e {
			t.Errorf("place %d shows what is not in memory", i)
		}
	}
	return n
}

// TestHandles checks that a handle points to its shard from the first load on, and to nothing once the shard
// was rejected or forgotten.
func TestHandles(t *testing.T) {
	c, _, mem := setup(t, Config{Memory: 1 << 20})
	o := c.Acquire(object(t, mem, 10, 4))
	handles := o.Handles(4)
	if n := showing(t, c, o, handles); n != 0 {
		t.Errorf("%d handles show something before the first load", n)
	}
	for i := range 4 {
		wantRow(t, c, o, i, 10+i)
	}
	if n := showing(t, c, o, handles); n != 4 {
		t.Fatalf("%d handles show something, want 4", n)
	}
	if id := handles[2].Shard().ID(0); id != 12 {
		t.Errorf("place 2 shows row %d", id)
	}
	first := handles[1].p.Load()
	c.Keep(o, 1, handles[1].Shard()) // keep the same shard again
	if n := showing(t, c, o, handles); n != 4 || handles[1].p.Load() == first {
		t.Errorf("after another Keep %d handles show something", n)
	}
	c.Forget(o)
	if n := showing(t, c, o, handles); n != 0 {
		t.Errorf("%d handles show something after Forget", n)
	}
	if n := len(o.Handles(9)); n != 4 {
		t.Errorf("%d handles at the second call, want the 4 of the first", n)
	}

	small, _, mem := setup(t, Config{Memory: 1})
	o = small.Acquire(object(t, mem, 10, 4))
	handles = o.Handles(2)
	for i := range 4 { // two of them have no handle
		wantRow(t, small, o, i, 10+i)
	}
	if n := showing(t, small, o, handles); n != 0 {
		t.Errorf("%d handles show what one byte of memory cannot hold", n)
	}
}

// TestHandlesUnderPressure loads, forgets and reads shards from many goroutines, with memory for only a few
// of them. It checks that no handle points to a shard that the memory has dropped.
func TestHandlesUnderPressure(t *testing.T) {
	const shards = 32
	c, _, mem := setup(t, Config{Memory: 12 << 10})
	o := c.Acquire(object(t, mem, 1, shards))
	handles := o.Handles(shards)
	var askers sync.WaitGroup
	for seed := range uint64(8) {
		askers.Go(func() {
			rnd := rand.New(rand.NewPCG(1, seed))
			for range 3000 {
				i := int(rnd.ExpFloat64()*4) % shards
				switch s := handles[i].Shard(); {
				case s != nil && s.ID(0) != uint64(i+1):
					t.Errorf("place %d shows row %d", i, s.ID(0))
					return
				case s == nil || rnd.IntN(8) == 0:
					if s, err := c.Shard(o, i); err != nil || s.ID(0) != uint64(i+1) {
						t.Errorf("shard %d: %v", i, err)
						return
					}
				}
				if rnd.IntN(500) == 0 {
					c.Forget(o)
				}
			}
		})
	}
	askers.Wait()
	n := showing(t, c, o, handles)
	if n == shards {
		t.Error("all shards are shown, more than fit")
	}
	t.Logf("%d of %d handles show a shard", n, shards)
}
