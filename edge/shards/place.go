package shards

import (
	"sync/atomic"

	"example.com/marketdata/artifacts"
)

// entry is a shard in memory, and the place that shows it.
type entry struct {
	artifacts.Shard
	place *Place // nil: none
}

// left empties the place of a shard that is in memory no more: ristretto has
// refused it or dropped it, or was made to. The place may show a later one.
func (e *entry) left() {
	if e != nil && e.place != nil {
		e.place.p.CompareAndSwap(e, nil)
	}
}

// Place shows one shard while it is in memory, so that finding it is one load in
// the place of a look-up in ristretto, which costs more than the rest of finding
// a row. What leaves the memory leaves its place: a place keeps nothing alive.
// Ristretto does not see such a look-up; Cached goes to it.
type Place struct{ p atomic.Pointer[entry] }

// Shard returns the shard, nil when there is none.
func (s *Place) Shard() *artifacts.Shard {
	if e := s.p.Load(); e != nil {
		return &e.Shard
	}
	return nil
}

// Places returns the places of the object's first n shards. The first call for an
// object says how many it has: a later one for more gets those.
func (o *Object) Places(n int) []Place {
	places := make([]Place, n)
	if !o.places.CompareAndSwap(nil, &places) {
		places = *o.places.Load()
	}
	return places[:min(n, len(places))]
}

// place returns the place of shard i, nil when there is none.
func (o *Object) place(i int) *Place {
	if places := o.places.Load(); places != nil && i < len(*places) {
		return &(*places)[i]
	}
	return nil
}
