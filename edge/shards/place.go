package shards

import (
	"sync/atomic"

	"example.com/marketdata/artifacts"
)

// entry is a shard in memory, and the slot that shows it.
type entry struct {
	artifacts.Shard
	slot *Slot // nil: none
}

// left empties the slot of a shard that is in memory no more: ristretto has
// refused it, dropped it, or been told to. The slot may show a later one.
func (e *entry) left() {
	if e != nil && e.slot != nil {
		e.slot.p.CompareAndSwap(e, nil)
	}
}

// Slot shows one shard while it is in memory, so that finding it is one load in
// the place of a look-up in ristretto, which costs more than the rest of finding
// a row. What leaves the memory leaves its slot: a slot keeps nothing alive.
// Ristretto does not see who looks at a slot; Held tells it.
type Slot struct{ p atomic.Pointer[entry] }

// Shard returns the shard, nil when there is none.
func (s *Slot) Shard() *artifacts.Shard {
	if e := s.p.Load(); e != nil {
		return &e.Shard
	}
	return nil
}

// Slots returns the slots of the object's first n shards. The first call for an
// object says how many it has: a later one for more gets those.
func (o *Object) Slots(n int) []Slot {
	slots := make([]Slot, n)
	if !o.slots.CompareAndSwap(nil, &slots) {
		slots = *o.slots.Load()
	}
	return slots[:min(n, len(slots))]
}

// slot returns the slot of shard i, nil when there is none.
func (o *Object) slot(i int) *Slot {
	if slots := o.slots.Load(); slots != nil && i < len(*slots) {
		return &(*slots)[i]
	}
	return nil
}
