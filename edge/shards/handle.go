package shards

import (
	"sync/atomic"

	"example.com/marketdata/artifacts"
)

// entry is a shard in memory, and the handle that points to it.
type entry struct {
	artifacts.Shard
	handle *Handle // nil: none
}

// left empties the handle of a shard that ristretto rejected or dropped. The handle may point
// to a later one by now.
func (e *entry) left() {
	if e != nil && e.handle != nil {
		e.handle.p.CompareAndSwap(e, nil)
	}
}

// Handle points to one shard while it is in memory. It replaces a look-up in ristretto,
// which costs more than the rest of finding a row and allocates now and then, by one load. A shard
// that leaves the memory empties its handle, so a handle keeps nothing alive. Ristretto does not see
// look-ups by handle; it sees those of Cached.
type Handle struct{ p atomic.Pointer[entry] }

// Shard returns the shard; nil: it is not in memory.
func (s *Handle) Shard() *artifacts.Shard {
	if e := s.p.Load(); e != nil {
		return &e.Shard
	}
	return nil
}

// Handles returns the handles of the object's first n shards. The first call for an object
// sets their number: a later call for more returns as many.
func (o *Object) Handles(n int) []Handle {
	handles := make([]Handle, n)
	if !o.handles.CompareAndSwap(nil, &handles) {
		handles = *o.handles.Load()
	}
	return handles[:min(n, len(handles))]
}

// handle returns the handle of shard i; nil: it has none.
func (o *Object) handle(i int) *Handle {
	if handles := o.handles.Load(); handles != nil && i < len(*handles) {
		return &(*handles)[i]
	}
	return nil
}
