// Package reply represents the rows of an answer in HTTP: body and envelope, tag, coding,
// header lines and 304. It keeps finished answers in the snapshot's response cache.
//
// # Life of a request
//
// The server has read the request, checked its key and limit, and parsed its parameters. Then:
//
//  1. The current State is loaded once; a pinned request gets its snapshot from the refresher.
//  2. The normalised query is looked up in the snapshot's response cache.
//  3. Otherwise package rows finds the rows, and the envelope is written around them. An answer
//     that is asked for a second time is admitted to the cache, an encoded one at once, as long
//     as that evicts no other.
//  4. Conditions are checked against the tag of the plain body, a coding is chosen, and the
//     header lines are set.
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

// Config is what an Engine is made from.
type Config struct {
	// Refresher says which snapshot answers.
	Refresher *snapshot.Refresher
	// WarmBytes bounds the bytes of shards that are read for a new snapshot before it is
	// current.
	WarmBytes int64
	// Wait bounds how long one answer may wait for shards and for its turn; 0: 2 s.
	Wait time.Duration
	// MaxStale is the age from which the current snapshot answers no longer; 0: never.
	MaxStale time.Duration
	// AllowOrigin is the allowed origin; one other than * joins Vary.
	AllowOrigin string
	// CacheScope begins Cache-Control: private (the default), or public, which allows shared
	// caches in front to keep answers.
	CacheScope string
	Log        *slog.Logger
}

// Totals are running totals since the start, for metrics and for tests.
type Totals struct {
	Hits     int64 // answers found in the response cache
	Composed int64 // answers put together
	Shards   int64 // shards touched by composing
	Rows     int64 // rows visited by composing
	Warmed   int64 // answers made ahead of a swap
}

// counters are one of several sets, so that cores that count at the same
// time do not write to the same cache line.
type counters struct {
	hits, count, shards, rows atomic.Int64
	_                         [96]byte // to two cache lines
}

func (s *counters) composed(w *work) {
	s.count.Add(1)
	s.shards.Add(int64(w.Shards))
	s.rows.Add(int64(w.Rows))
}

const counterSets = 16

// The values of CacheScope.
const (
	scopePrivate = "private"
	scopePublic  = "public"
)

// Totals returns the totals of this moment.
func (e *Engine) Totals() Totals {
	t := Totals{Warmed: e.warmed.Load()}
	for i := range e.counterSets {
		s := &e.counterSets[i]
		t.Hits += s.hits.Load()
		t.Composed += s.count.Load()
		t.Shards += s.shards.Load()
		t.Rows += s.rows.Load()
	}
	return t
}

// Engine gives answers. It is safe for concurrent use.
type Engine struct {
	cfg        Config
	cacheLines *cacheLines
	logged     atomic.Int64 // the second of the last warning

	counterSets [counterSets]counters
	works       sync.Pool
	made        atomic.Uint32 // works, to spread them over counterSets
	warmed      atomic.Int64
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

// Answer answers a request whose parameters are in order: it sets r.Reply, or
// returns ErrNoSnapshot, ErrUnavailable, rows.ErrNoView, rows.ErrLimited or one of the errors of package snapshot
// for pins, and what it set on r.Reply is then of no meaning. It is called by many
// goroutines at once, and keeps neither r nor anything in it. It sets the headers of INTERFACE.md, "Headers"
// that depend on the answer; CORS and the rate limit's are the server's. It
// allocates nothing where the answer is in the response cache, or is put together
// from shards in memory.
func (e *Engine) Answer(r *Request) error {
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
		state = e.cfg.Refresher.State() // it may have come while the request waited
	case state == nil:
		return ErrUnavailable
	case s != nil && e.cfg.MaxStale > 0 && r.Now.Sub(s.Time) > e.cfg.MaxStale:
		return ErrUnavailable
	}
	if len(r.Query.Ignored) > 0 {
		addIgnored(r)
	}
	if r.Query.Endpoint == query.Global {
		return e.answerGlobal(r, state, s)
	}
	var lastModified []byte
	if s != nil {
		r.Snapshot, lastModified = s.Time, s.LastModified
	}
	w := e.works.Get().(*work)
	defer e.free(w)
	w.key = r.Query.AppendKey(w.key[:0])
	var cache *respcache.Cache
	if s != nil {
		cache = s.Responses()
	}
	entry := cache.Get(w.key)
	if entry != nil && e.writeEntry(r, w, s, entry) {
		w.counters.hits.Add(1)
		return nil
	}
	w.Bill, w.Buffers = &r.Bill, &r.Buffers
	var err error
	if entry == nil && r.Query.CanLoosen() {
		if entry, err = e.loosened(r, w, s, cache); err != nil {
			return e.failure(err)
		}
		if entry != nil && e.writeEntry(r, w, s, entry) {
			w.counters.hits.Add(1)
			return nil
		}
	}
	err = w.compose(r.Buffers.Body(), s, &r.Query, e.cfg.Wait)
	w.counters.composed(w)
	if err != nil {
		return e.failure(err)
	}
	tag := w.digest()
	c, err := e.writeFresh(r, s, w, tag, lastModified)
	if err != nil {
		return e.failure(err)
	}
	// Coding costs more than all the rest: what is coded is cached at once.
	if entry != nil || cache.AskedBefore(w.key) || c != identity && cache.HasRoom(w.key, len(w.coded)+entryOverhead) {
		e.admit(cache, s, w, entry, respcache.Source{Endpoint: r.Query.Endpoint, RawQuery: r.RawQuery, NotFound: w.notFound, Digest: tag, Length: len(w.Body)}, c)
	}
	if c != identity {
		r.Reply.Body = append(w.Body[:0], w.coded...) // where the plain one was, which nobody needs any more
	}
	return nil
}

// loosened looks once more for a finished answer, to the words of q alone.
func (e *Engine) loosened(r *Request, w *work, s *snapshot.Snapshot, cache *respcache.Cache) (*respcache.Entry, error) {
	err := w.Loosen(s, &r.Query, e.cfg.Wait)
	if err != nil || !r.Query.Loose {
		return nil, err
	}
	w.key = r.Query.AppendKey(w.key[:0])
	return cache.Get(w.key), nil
}

// entryOverhead is about how many bytes a cached answer takes beside its body.
const entryOverhead = 1 << 10

// failure returns what Answer does of an error. What is wrong on this side is
// logged, at most once a second.
func (e *Engine) failure(err error) error {
	switch {
	case errors.Is(err, snapshot.ErrGone), errors.Is(err, snapshot.ErrUneven), errors.Is(err, snapshot.ErrAhead), errors.Is(err, snapshot.ErrLater),
		errors.Is(err, rows.ErrNoView), errors.Is(err, rows.ErrLimited):
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
	w.Release()
	e.works.Put(w)
}

// newResponse makes what is sent of a body in coding c.
func (e *Engine) newResponse(s *snapshot.Snapshot, body []byte, tag digest, c coding, notFound, lastModified []byte) *respcache.Response {
	etag := appendETag(nil, tag, c)
	return respcache.NewResponse(body,
		e.appendHead(nil, s, http.StatusOK, c, etag, notFound, lastModified),
		e.appendHead(nil, s, http.StatusNotModified, c, etag, notFound, lastModified),
		etag, lastModified)
}

// admit puts the answer that w has composed, and coded, into the cache: as a new entry,
// or beside the other codings of one. It returns the entry.
func (e *Engine) admit(cache *respcache.Cache, s *snapshot.Snapshot, w *work, entry *respcache.Entry, source respcache.Source, c coding) *respcache.Entry {
	body := w.Body
	if c != identity {
		body = w.coded
	}
	response := e.newResponse(s, body, source.Digest, c, source.NotFound, s.LastModified)
	if entry == nil {
		entry = cache.Put(respcache.NewEntry(w.key, source, int(c), response))
	}
	cache.Add(entry, int(c), response) // to one that another goroutine has put
	return entry
}

// writeEntry sends a finished answer, or 304 where the client has it already, and
// reports whether entry has what that takes.
func (e *Engine) writeEntry(r *Request, w *work, s *snapshot.Snapshot, entry *respcache.Entry) bool {
	c := chooseCoding(r, entry.Length)
	if response := entry.Response(int(c)); response == nil {
		// There is no need of a body that is not sent.
		if w.etag = appendETag(w.etag[:0], entry.Digest, c); !notModified(r, w.etag, s.LastModified) {
			return false
		}
		e.writeHead(r, w, s, http.StatusNotModified, c, entry.NotFound, s.LastModified)
	} else if notModified(r, response.ETag, response.LastModified) {
		r.Reply.Status, r.Reply.Fixed = http.StatusNotModified, response.NotModified
	} else {
		r.Reply.Fixed, r.Reply.Body = response.OK, response.Body
	}
	e.addTimes(r, s, true)
	return true
}

// writeFresh sends the answer that was just put together, or 304. It returns the coding
// that it has made of the body, in w.coded.
func (e *Engine) writeFresh(r *Request, s *snapshot.Snapshot, w *work, tag digest, lastModified []byte) (made coding, err error) {
	c := chooseCoding(r, len(w.Body))
	w.etag = appendETag(w.etag[:0], tag, c)
	if notModified(r, w.etag, lastModified) {
		r.charge(len(w.Body))
		e.writeHead(r, w, s, http.StatusNotModified, c, w.notFound, lastModified)
	} else if e.writeHead(r, w, s, http.StatusOK, c, w.notFound, lastModified); c == identity {
		r.charge(len(w.Body))
		r.Reply.Body = w.Body
	} else {
		// Before it is coded: what waits for that has taken its tokens.
		r.charge(2 * len(w.Body))
		r.Reply.Body, made = w.Body, c
		if err := w.encode(c); err != nil {
			return identity, err
		}
	}
	e.addTimes(r, s, false)
	return made, nil
}

// charge charges the request for bytes that are composed and encoded. Only bodies of
// /history are long enough for it.
func (r *Request) charge(bytes int) {
	if r.Query.Endpoint == query.History {
		r.Bill.Bytes(bytes)
	}
}

// writeHead sets the status, and the header of an answer that is not cached and
// whose tag is w.etag.
func (e *Engine) writeHead(r *Request, w *work, s *snapshot.Snapshot, status int, c coding, notFound, lastModified []byte) {
	w.head = e.appendHead(w.head[:0], s, status, c, w.etag, notFound, lastModified)
	r.Reply.Status = status
	r.Reply.AddLines(w.head)
}

// chooseCoding returns the coding that a body of that length is sent in.
func chooseCoding(r *Request, length int) coding {
	if length > minCoded && r.AcceptEncoding != nil {
		return negotiate(r.AcceptEncoding)
	}
	return identity
}
