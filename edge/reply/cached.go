package reply

import (
	"sync/atomic"

	"example.com/marketdata/edge/respcache"
	"example.com/marketdata/edge/snapshot"
)

// finished contains the finished answers of the current state. The answers of other states are not cached,
// because they answer only pinned requests and requests that began before a swap.
type finished struct {
	state *snapshot.State
	cache *respcache.Cache // of the snapshot; nil, which acts as an empty cache, if there is no snapshot
	// global is the answer of /global, which also depends on the change record. It is nil before the first
	// request.
	global atomic.Pointer[respcache.Entry]
}

// finishedFrom returns the finished answers of a state, or nil if the state is not current. The first call
// for a state drops the finished answers of the previous state.
func (e *Engine) finishedFrom(state *snapshot.State) *finished {
	if f := e.finished.Load(); f != nil && f.state == state {
		return f
	}
	e.swapping.Lock()
	defer e.swapping.Unlock()
	before := e.finished.Load()
	switch {
	case state == nil || state != e.cfg.Refresher.State():
		return nil
	case before != nil && before.state == state:
		return before
	}
	f := &finished{state: state}
	switch {
	case state.Snapshot == nil:
	case before != nil && before.state.Snapshot == state.Snapshot: // only the change record has changed
		f.cache = before.cache
	default:
		f.cache = respcache.New(e.cfg.ResponseMemory, &e.Responses)
	}
	e.finished.Store(f)
	return f
}

// cacheOf returns the response cache for answers from s, which belongs to state, or nil if s is not current.
func (e *Engine) cacheOf(state *snapshot.State, s *snapshot.Snapshot) *respcache.Cache {
	if f := e.finishedFrom(state); f != nil && f.state.Snapshot == s {
		return f.cache
	}
	return nil
}

// Finished returns the number of answers in the response cache, and the number of bytes that they use.
func (e *Engine) Finished() (entries, bytes int64) {
	state := e.cfg.Refresher.State()
	if state == nil {
		return 0, 0
	}
	cache := e.cacheOf(state, state.Snapshot)
	return cache.Len(), cache.Bytes()
}
