package shards

import (
	"sync/atomic"

	"example.com/marketdata/artifacts"
)

// entry is a shard in memory, and its place.
type entry struct {
	artifacts.Shard
	place *Place // nil: none
}

// left empties the place of a shard that ristretto rejected or dropped. The place may hold
// a later one by now.
func (e *entry) left() {
	if e != nil && e.place != nil {
		e.place.p.CompareAndSwap(e, nil)
	}
}

// Place points to one shard while it is in memory. It replaces a look-up in ristretto,
// which costs more than the rest of finding a row, by one load. A shard that leaves the
// memory leaves its place, so a place keeps nothing alive. Ristretto does not see look-ups
// in places; it sees those of Cached.
type Place struct{ p atomic.Pointer[entry] }

// Shard returns the shard; nil: it is not in memory.
func (s *Place) Shard() *artifacts.Shard {
	if e := s.p.Load(); e != nil {
		return &e.Shard
	}
	return nil
}

// Places returns the places of the object's first n shards. The first call for an object
// sets their number: a later call for more returns as many.
func (o *Object) Places(n int) []Place {
	places := make([]Place, n)
	if !o.places.CompareAndSwap(nil, &places) {
		places = *o.places.Load()
	}
	return places[:min(n, len(places))]
}

// place returns the place of shard i; nil: it has none.
func (o *Object) place(i int) *Place {
	if places := o.places.Load(); places != nil && i < len(*places) {
		return &(*places)[i]
	}
	return nil
}
