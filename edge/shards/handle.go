package shards

import (
	"sync/atomic"

	"example.com/marketdata/artifacts"
)

// entry is a shard in memory, and the handle that points to it.
type entry struct {
	artifacts.Shard
	handle *Handle // may be nil
}

// left clears the handle of a shard that ristretto rejected or dropped, unless the handle already points to a
// later entry.
func (e *entry) left() {
	if e != nil && e.handle != nil {
		e.handle.p.CompareAndSwap(e, nil)
	}
}

// Handle points to a shard while it is in memory. Loading the pointer replaces a lookup in ristretto, which
// costs more than the rest of finding a row and sometimes allocates. A shard that leaves memory clears its
// handle, so a handle keeps nothing alive. Ristretto does not see accesses through handles, only accesses
// through Cached.
type Handle struct{ p atomic.Pointer[entry] }

// Shard returns the shard, or nil if it is not in memory.
func (s *Handle) Shard() *artifacts.Shard {
	if e := s.p.Load(); e != nil {
		return &e.Shard
	}
	return nil
}

// Handles returns the handles of the object's first n shards. The first call for an object determines their
// number. A later call does not return more.
func (o *Object) Handles(n int) []Handle {
	handles := make([]Handle, n)
	if !o.handles.CompareAndSwap(nil, &handles) {
		handles = *o.handles.Load()
	}
	return handles[:min(n, len(handles))]
}

// handle returns the handle of shard i, or nil if it has none.
func (o *Object) handle(i int) *Handle {
	if handles := o.handles.Load(); handles != nil && i < len(*handles) {
		return &(*handles)[i]
	}
	return nil
}
