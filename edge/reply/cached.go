package reply

import (
	"sync/atomic"

	"example.com/marketdata/edge/respcache"
	"example.com/marketdata/edge/snapshot"
)

// finished are the finished answers from the state in force. Those from any other state are not kept: it
// answers only pins, and requests that began before a swap.
type finished struct {
	state *snapshot.State
	cache *respcache.Cache // of the snapshot; nil, which is an empty cache: there is no snapshot
	// global is the answer to /global, which has the change record, too; nil before the first request.
	global atomic.Pointer[respcache.Entry]
}

// finishedFrom returns the finished answers from a state; nil: it is not in force. The first call for a state
// drops those from the one before.
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
	case before != nil && before.state.Snapshot == state.Snapshot: // only the change record is another
		f.cache = before.cache
	default:
		f.cache = respcache.New(e.cfg.ResponseMemory, &e.Responses)
	}
	e.finished.Store(f)
	return f
}

// cacheOf returns the cache of answers from s, where state was loaded; nil: there is none.
func (e *Engine) cacheOf(state *snapshot.State, s *snapshot.Snapshot) *respcache.Cache {
	if f := e.finishedFrom(state); f != nil && f.state.Snapshot == s {
		return f.cache
	}
	return nil
}

// Finished returns how many answers are in the response cache, and how many bytes of its memory are used.
func (e *Engine) Finished() (entries, bytes int64) {
	state := e.cfg.Refresher.State()
	if state == nil {
		return 0, 0
	}
	cache := e.cacheOf(state, state.Snapshot)
	return cache.Len(), cache.Bytes()
}
