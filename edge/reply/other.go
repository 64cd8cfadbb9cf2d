package reply

import (
	"errors"
	"net/http"
	"time"

	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/respcache"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/snapshot"
)

// Composer composes the whole body of an answer that is not a listing. The Engine adds tag, coding, headers
// and caching. A Composer must not be used by several goroutines at the same time.
type Composer interface {
	// Name returns the name of the endpoint, for caches.
	Name() string
	// AppendKey appends everything that the answer depends on, except the snapshot and the change record. The
	// first byte must be higher than the first bytes of listings' keys.
	AppendKey(dst []byte) []byte
	// Ignored returns the names of the parameters that have no effect on the answer.
	Ignored() query.Names
	// Whole reports whether the answer contains a whole collection. The Engine composes only one such answer
	// at a time.
	Whole() bool
	// FollowsChange reports whether the answer depends on the change record, as /global does.
	FollowsChange() bool
	// Compose appends the body to f.Body. s is nil before the first snapshot. Compose returns the errors of
	// rows.Finder.Find, or a Refusal.
	Compose(f *rows.Finder, state *snapshot.State, s *snapshot.Snapshot, wait time.Duration) error
}

// Misser is a Composer with filters. AppendNotFound appends the value of X-Not-Found for the answer that
// was composed last. The value is at most MaxNotFound bytes long.
type Misser interface {
	AppendNotFound(dst []byte) []byte
}

// Refusal is an error that is sent to the client. If Status is below 500, the client caused it, and Message
// is ASCII that needs no escaping in JSON.
type Refusal struct {
	Status  int
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// wholes ensures that only one answer with a whole collection is composed at a time, because each may take
// tens of megabytes.
var wholes = make(chan struct{}, 1)

// answerOther answers a request that has a Composer.
func (e *Engine) answerOther(r *Request, state *snapshot.State, s *snapshot.Snapshot) error {
	w := e.works.Get().(*work)
	defer e.free(w)
	w.key = r.Other.AppendKey(w.key[:0])
	var cache *respcache.Cache
	if s != nil {
		r.Snapshot, cache = s.Time, e.cacheOf(state, s)
		w.answerFrom(s)
		if r.Other.FollowsChange() {
			w.follow(state)
			if c := state.Change; c != nil {
				w.key = append(c.Time.AppendFormat(w.key, time.RFC3339Nano), c.Database...)
				w.key = append(w.key, c.Value...)
			}
		}
	}
	entry := cache.Get(w.key)
	if entry != nil && e.writeEntry(r, w, entry) {
		return nil
	}
	w.finder.Places, w.finder.Buffers = r.Places, &r.Buffers
	w.finder.Reset(e.cfg.Wait)
	if r.Other.Whole() {
		if err := w.finder.Budget.Enter(wholes); err != nil {
			return e.failure(err)
		}
		defer func() { <-wholes }()
		if entry = cache.Get(w.key); entry != nil && e.writeEntry(r, w, entry) {
			return nil
		}
	}
	w.finder.Body, w.notFound = r.Buffers.Body(), w.notFound[:0]
	err := r.Other.Compose(&w.finder, state, s, e.cfg.Wait)
	w.counters.composed(w)
	r.Visited = w.finder.Visited
	if err != nil {
		return e.failure(err)
	}
	if m, ok := r.Other.(Misser); ok {
		w.notFound = m.AppendNotFound(w.notFound)
	}
	keep := r.Other.Whole() && cache.Limit() > 4*int64(len(w.finder.Body)) // compose it once for all clients
	return e.send(r, w, cache, entry, digestOf(w.finder.Body), keep)
}

// follow sets Last-Modified to the change record's time if it is later than the snapshot's.
func (w *work) follow(state *snapshot.State) {
	if c := state.Change; c != nil && c.Time.After(w.snapshot.Time) {
		w.modified = c.Time.UTC().AppendFormat(nil, http.TimeFormat)
	}
}

// refused reports whether the client caused err.
func refused(err error) bool {
	var r *Refusal
	var p *query.ParamError
	return errors.As(err, &r) || errors.As(err, &p)
}
