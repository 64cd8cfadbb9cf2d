package shards

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// showing checks the promise of slots once nothing is under way: what a slot
// shows is in memory. It returns how many show something.
func showing(t *testing.T, c *Cache, o *Object, slots []Slot) (n int) {
	t.Helper()
	c.Wait()
	for i := range slots {
		e := slots[i].p.Load()
		if e == nil {
			continue
		}
		n++
		if in, ok := c.mem.Get(o.key(i)); !ok || in != e {
			t.Errorf("slot %d shows what is not in memory", i)
		}
	}
	return n
}

// TestSlots: a slot shows its shard from the first load on, and nothing once
// the shard was refused, forgotten, or replaced by nothing.
func TestSlots(t *testing.T) {
	c, _, mem := setup(t, Config{Memory: 1 << 20})
	o := c.Acquire(object(t, mem, 10, 4))
	slots := o.Slots(4)
	if n := showing(t, c, o, slots); n != 0 {
		t.Errorf("%d slots show something before the first load", n)
	}
	for i := range 4 {
		wantRow(t, c, o, i, 10+i)
	}
	if n := showing(t, c, o, slots); n != 4 {
		t.Fatalf("%d slots show something, want 4", n)
	}
	if id := slots[2].Shard().ID(0); id != 12 {
		t.Errorf("slot 2 shows row %d", id)
	}
	first := slots[1].p.Load()
	c.Keep(o, 1, slots[1].Shard()) // once more
	if n := showing(t, c, o, slots); n != 4 || slots[1].p.Load() == first {
		t.Errorf("after another Keep %d slots show something", n)
	}
	c.Forget(o)
	if n := showing(t, c, o, slots); n != 0 {
		t.Errorf("%d slots show something after Forget", n)
	}
	if n := len(o.Slots(9)); n != 4 {
		t.Errorf("%d slots at the second call, want the 4 of the first", n)
	}

	small, _, mem := setup(t, Config{Memory: 1})
	o = small.Acquire(object(t, mem, 10, 4))
	slots = o.Slots(2)
	for i := range 4 { // two of them without a slot
		wantRow(t, small, o, i, 10+i)
	}
	if n := showing(t, small, o, slots); n != 0 {
		t.Errorf("%d slots show what one byte of memory cannot hold", n)
	}
}

// TestSlotsUnderPressure loads, forgets and looks from many goroutines, with
// room for a few of the shards: no slot keeps what the memory has dropped.
func TestSlotsUnderPressure(t *testing.T) {
	const shards = 32
	c, _, mem := setup(t, Config{Memory: 12 << 10})
	o := c.Acquire(object(t, mem, 1, shards))
	slots := o.Slots(shards)
	var askers sync.WaitGroup
	for seed := range uint64(8) {
		askers.Go(func() {
			rnd := rand.New(rand.NewPCG(1, seed))
			for range 3000 {
				i := int(rnd.ExpFloat64()*4) % shards
				switch s := slots[i].Shard(); {
				case s != nil && s.ID(0) != uint64(i+1):
					t.Errorf("slot %d shows row %d", i, s.ID(0))
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
	n := showing(t, c, o, slots)
	if n == shards {
		t.Error("all shards are shown, more than fit")
	}
	t.Logf("%d of %d slots show a shard", n, shards)
}
