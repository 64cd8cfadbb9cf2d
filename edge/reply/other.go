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

// Composer composes an answer that is no listing, whole. It gets tag, coding, headers and caching
// like every answer. It is for one request at a time.
type Composer interface {
	// Name names what is asked for, for caches in front.
	Name() string
	// AppendKey appends what the answer depends on beside snapshot and change record. It begins
	// with a byte above those of listings.
	AppendKey(dst []byte) []byte
	// Ignored names the parameters that had no part in what is asked for.
	Ignored() query.Names
	// Whole reports an answer that has a whole collection. One of them is composed at once, for all
	// who ask for it.
	Whole() bool
	// FollowsChange reports an answer that has the change record, as /global has.
	FollowsChange() bool
	// Compose appends the body to f.Body. s is nil before the first snapshot. Errors are those of
	// rows.Finder.Find, or a Refusal.
	Compose(f *rows.Finder, state *snapshot.State, s *snapshot.Snapshot, wait time.Duration) error
}

// Misser is a Composer that has filters. AppendNotFound appends the value of X-Not-Found of the answer that
// was composed last, at most MaxNotFound bytes: what they name that matches nothing.
type Misser interface {
	AppendNotFound(dst []byte) []byte
}

// Refusal is an error that the client is told: one of its own, in ASCII that stands in a JSON string
// as it is, unless Status is 500 or above.
type Refusal struct {
	Status  int
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// wholes lets one answer with a whole collection be composed at once, which may take tens of
// megabytes.
var wholes = make(chan struct{}, 1)

// answerOther is Answer for a Composer, without its first steps.
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
	keep := r.Other.Whole() && cache.Limit() > 4*int64(len(w.finder.Body)) // composed once for all who ask
	return e.send(r, w, cache, entry, digestOf(w.finder.Body), keep)
}

// follow makes Last-Modified the later of the snapshot's and the change record's.
func (w *work) follow(state *snapshot.State) {
	if c := state.Change; c != nil && c.Time.After(w.snapshot.Time) {
		w.modified = c.Time.UTC().AppendFormat(nil, http.TimeFormat)
	}
}

// refused reports an error that is the client's own.
func refused(err error) bool {
	var r *Refusal
	var p *query.ParamError
	return errors.As(err, &r) || errors.As(err, &p)
}
