// Package reply turns the rows of an answer into an HTTP response: the envelope, the ETag, the coding, the
// header lines, and status 304 where it applies. It keeps finished answers in the snapshot's response
// cache.
//
// # Life cycle of a request
//
// The server has read the request, checked its key and limit, and parsed its parameters. Then:
//
//  1. Answer loads the current State once. For a pinned request it gets the snapshot from the refresher.
//  2. Answer looks up the normalized query in the response cache of the snapshot.
//  3. Otherwise package rows finds the rows, and Answer writes the envelope around them. The second request
//     for an answer adds it to the cache. The first one does so if the answer was compressed and the cache
//     has room.
//  4. Answer chooses a coding, checks conditions, and sets the header lines.
package reply

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	coders "example.com/marketdata/edge/coding"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/respcache"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/snapshot"
)

// Config configures an Engine.
type Config struct {
	// Refresher provides the snapshots.
	Refresher *snapshot.Refresher
	// WarmBytes bounds the size of the shards that Warm reads for a new snapshot, in bytes.
	WarmBytes int64
	// Wait bounds how long an answer may wait for shards and for its turn; 0 means 2 s.
	Wait time.Duration
	// MaxStale is the age above which the current snapshot is no longer used; 0 means no limit.
	MaxStale time.Duration
	// AllowOrigin is the allowed origin. If it is not *, answers list Origin in Vary.
	AllowOrigin string
	// ResponseMemory bounds the memory for finished answers, in bytes; see package respcache.
	ResponseMemory int64
	// CacheScope is the first directive of Cache-Control: private (the default), or public, which allows
	// shared caches to keep answers.
	CacheScope string
	Log        *slog.Logger
}

// Totals contains counts since startup, for metrics and tests.
type Totals struct {
	Hits     int64 // answers found in the response cache
	Composed int64 // answers composed
	Shards   int64 // shards read for composing
	Rows     int64 // rows visited for composing
}

// counters is one of several sets of counters. With several sets, cores rarely write to the same cache line at the
// same time.
type counters struct {
	hits, count, shards, rows atomic.Int64
	_                         [96]byte // fills two cache lines
}

func (s *counters) composed(w *work) {
	s.count.Add(1)
	s.shards.Add(int64(w.finder.Shards))
	s.rows.Add(int64(w.finder.Rows))
}

const counterSets = 16

// The values of CacheScope.
const (
	scopePrivate = "private"
	scopePublic  = "public"
)

// Totals returns the current totals.
func (e *Engine) Totals() Totals {
	var t Totals
	for i := range e.counterSets {
		s := &e.counterSets[i]
		t.Hits += s.hits.Load()
		t.Composed += s.count.Load()
		t.Shards += s.shards.Load()
		t.Rows += s.rows.Load()
	}
	return t
}

// Engine answers requests. It is safe for concurrent use.
type Engine struct {
	cfg        Config
	cacheLines *cacheLines
	logged     atomic.Int64 // the Unix time of the last warning

	finished  atomic.Pointer[finished]
	swapping  sync.Mutex         // serializes replacements of the finished answers
	Responses respcache.Counters // for all response caches

	counterSets [counterSets]counters
	works       sync.Pool
	made        atomic.Uint32 // the number of work values created, used to distribute them over counterSets
}

// New returns an Engine.
func New(cfg Config) *Engine {
	cfg.CacheScope = cmp.Or(cfg.CacheScope, scopePrivate)
	cfg.Wait = cmp.Or(cfg.Wait, 2*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{cfg: cfg, cacheLines: newCacheLines(cfg.CacheScope, cfg.AllowOrigin)}
	e.works.New = func() any { return &work{counters: &e.counterSets[e.made.Add(1)%counterSets]} }
	return e
}

// Answer answers a request whose key, rate and parameters have been checked. It sets r.Reply, including the
// headers of INTERFACE.md, "Headers" that depend on the answer; the server adds those for CORS and rate
// limits. If it fails, it returns ErrNoSnapshot, ErrUnavailable, ErrPrecondition, rows.ErrNoView,
// rows.ErrSince, a Refusal, a *query.ParamError, or an error of package snapshot about pins. In that case,
// r.Reply has no meaning. Answer does not keep r or anything in it. It allocates nothing if the answer is in
// the cache or its shards are in memory.
func (e *Engine) Answer(r *Request) error {
	err := e.answer(r)
	if err == nil && r.Reply.Status == http.StatusPreconditionFailed {
		return ErrPrecondition
	}
	return err
}

// answer is like Answer, but reports ErrPrecondition as a status.
func (e *Engine) answer(r *Request) error {
	state := e.cfg.Refresher.State()
	var s *snapshot.Snapshot
	if state != nil {
		s = state.Snapshot
	}
	switch {
	case r.Pinned && (s == nil || !r.Pin.Equal(s.Time)):
		var err error
		if s, err = e.cfg.Refresher.Pinned(r.Context, r.Pin); err != nil {
			return e.failure(err)
		}
		state = e.cfg.Refresher.State() // the state may have changed while the request waited
	case state == nil:
		return ErrUnavailable
	case s != nil && e.cfg.MaxStale > 0 && r.Now.Sub(s.Time) > e.cfg.MaxStale:
		return ErrUnavailable
	}
	addIgnored(r)
	if r.Other != nil {
		return e.answerOther(r, state, s)
	}
	if r.Query.Endpoint == query.Global {
		return e.answerGlobal(r, state, s)
	}
	w := e.works.Get().(*work)
	defer e.free(w)
	w.csv = r.Query.CSV
	w.key = r.Query.AppendKey(w.key[:0])
	var cache *respcache.Cache
	if s != nil {
		r.Snapshot, cache = s.Time, e.cacheOf(state, s)
		w.answerFrom(s)
	}
	entry := cache.Get(w.key)
	if entry != nil && e.writeEntry(r, w, entry) {
		return nil
	}
	w.finder.Places, w.finder.Buffers = r.Places, &r.Buffers
	err := w.compose(r.Buffers.Body(), s, &r.Query, e.cfg.Wait)
	w.counters.composed(w)
	r.Visited = w.finder.Visited
	if err != nil {
		return e.failure(err)
	}
	return e.send(r, w, cache, entry, w.digest(), false)
}

// send sets r.Reply to the answer that was just composed. It adds the answer to the cache if alwaysCache is
// set, if the answer was requested before, or if it was compressed and the cache has room. Compression costs
// more than all other work.
func (e *Engine) send(r *Request, w *work, cache *respcache.Cache, entry *respcache.Entry, tag digest,
	alwaysCache bool) error {
	c, err := e.writeFresh(r, w, tag)
	if err != nil {
		return e.failure(err)
	}
	if entry != nil || alwaysCache || cache.AskedBefore(w.key) ||
		c != identity && cache.HasRoom(w.key, len(w.coded)+entryOverhead) {
		w.admit(cache, entry, w.source(tag), c)
	}
	if c != identity {
		r.Reply.Body = append(w.finder.Body[:0], w.coded...) // the plain body is no longer needed
	}
	return nil
}

// entryOverhead is the approximate size of a cached answer without its body, in bytes.
const entryOverhead = 1 << 10

// failure returns the error that Answer returns for err. It logs errors that the edge or its store causes,
// at most one per second.
func (e *Engine) failure(err error) error {
	switch {
	case errors.Is(err, snapshot.ErrGone), errors.Is(err, snapshot.ErrUneven), errors.Is(err, snapshot.ErrAhead),
		errors.Is(err, snapshot.ErrLater), errors.Is(err, rows.ErrNoView), errors.Is(err, rows.ErrSince), refused(err):
		return err
	}
	if now := time.Now().Unix(); e.logged.Swap(now) != now {
		e.cfg.Log.Warn("answer unavailable", "err", err)
	}
	return ErrUnavailable
}

func (e *Engine) free(w *work) {
	if cap(w.coded) > 2*coders.Large {
		w.coded = nil
	}
	w.finder.Release()
	w.snapshot, w.modified, w.csv = nil, nil, false
	e.works.Put(w)
}

// writeEntry sets r.Reply to a finished answer, or to the status of a failed precondition. It returns false
// if entry does not contain the answer in the required coding.
func (e *Engine) writeEntry(r *Request, w *work, entry *respcache.Entry) bool {
	c := chooseCoding(r, entry.Length)
	response, modified := entry.Response(int(c)), w.modified
	if response == nil {
		w.etag = appendETag(w.etag[:0], entry.Digest, c)
	} else {
		w.etag, modified = append(w.etag[:0], response.ETag...), response.LastModified
	}
	switch status := r.Precondition(w.etag, modified, r.final()); {
	case status == http.StatusPreconditionFailed:
		r.Reply.Status = status
		return true
	case response == nil && status == http.StatusOK:
		return false
	case response == nil: // a 304 needs no body
		w.writeHead(r, status, c, &entry.Source)
	case status == http.StatusNotModified:
		r.Reply.Status, r.Reply.Fixed = status, response.NotModified
	default:
		r.Reply.Fixed, r.Reply.Body = response.OK, response.Body
	}
	r.Length, r.Visited = entry.Length, entry.Visited
	e.addTimes(r, w.snapshot, true)
	if !r.asks(query.Global) {
		w.counters.hits.Add(1)
	}
	return true
}

// writeFresh sets r.Reply to the answer that was just composed, or to the status of a failed precondition. It
// returns the coding of w.coded, or identity if it did not compress the body.
func (e *Engine) writeFresh(r *Request, w *work, tag digest) (made coding, err error) {
	r.Length = len(w.finder.Body)
	c := chooseCoding(r, r.Length)
	w.etag = appendETag(w.etag[:0], tag, c)
	source := w.source(tag)
	if status := r.Precondition(w.etag, w.modified, r.final()); status != http.StatusOK {
		w.writeHead(r, status, c, &source)
	} else if w.writeHead(r, http.StatusOK, c, &source); c == identity {
		r.Reply.Body = w.finder.Body
	} else {
		r.Reply.Body, made = w.finder.Body, c
		if err := w.encode(c); err != nil {
			return identity, err
		}
	}
	e.addTimes(r, w.snapshot, false)
	return made, nil
}

// chooseCoding returns the coding for a body of this length.
func chooseCoding(r *Request, length int) coding {
	if length > minCoded && r.AcceptEncoding != nil {
		return negotiate(r.AcceptEncoding)
	}
	return identity
}
