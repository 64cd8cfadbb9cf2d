// Package answer finds the bytes of an answer: a finished one that is held, or
// one put together from the slices of cached shards.
//
// # Life of a request
//
// The server has read the request, checked its key and limit, and parsed its
// parameters. From here:
//
//  1. The one State there is is loaded, once; a pinned request takes its
//     snapshot from the refresher instead.
//  2. The normalised query is looked up among the snapshot's finished answers.
//  3. What is not held is put together (compose.go): find the shard by its row
//     number or by fences, slice it, append. Nothing is decoded, nothing
//     allocated. An answer that is asked for a second time is held.
//  4. Conditions are checked against the tag of the plain body, a coding is
//     chosen, and the prepared header values are set.
package answer

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
)

// errShort: the shards do not hold the rows that the manifest promises.
var errShort = fmt.Errorf("%w: %w: a shard has fewer rows than its view needs", shards.ErrUnavailable, artifacts.ErrCorrupt)

// Config is what an Engine is made from.
type Config struct {
	// Memory bounds the finished answers, in bytes.
	Memory int64
	// WarmBudget bounds how long a new snapshot is warmed (3 s), and
	// WarmBytes how many bytes of shards are read for it (an eighth of
	// ShardMemory, or as set).
	WarmBudget time.Duration
	WarmBytes  int64
	// Wait bounds how long one answer may wait for shards (2 s).
	Wait time.Duration
	// MaxStale turns answers into unavailable ones past that age; 0: never.
	MaxStale time.Duration
	// AllowOrigin is the allowed origin: another than * joins Vary.
	AllowOrigin string
	// CacheScope begins Cache-Control: private (the default) or public.
	CacheScope string
	Log        *slog.Logger
}

// Totals are running totals since the start, for metrics and for tests.
type Totals struct {
	Composed int64 // answers put together
	Admitted int64 // of those, the ones that were then held
	Shards   int64 // shards touched by composing
	Rows     int64 // rows visited by composing
	Warmed   int64 // answers made ahead of a swap
}

// slot is one of several sets of counters, so that cores that count at the same
// time do not write to the same cache line.
type slot struct {
	count, admitted, shards, rows atomic.Int64
	_                             [96]byte // to two cache lines
}

func (s *slot) composed(w *work) {
	s.count.Add(1)
	s.shards.Add(int64(w.shards))
	s.rows.Add(int64(w.rows))
}

const slots = 16

// Totals returns the totals of this moment.
func (e *Engine) Totals() Totals {
	t := Totals{Warmed: e.warmed.Load()}
	for i := range e.slots {
		s := &e.slots[i]
		t.Composed += s.count.Load()
		t.Admitted += s.admitted.Load()
		t.Shards += s.shards.Load()
		t.Rows += s.rows.Load()
	}
	return t
}

// Engine gives answers. It is safe for concurrent use.
type Engine struct {
	cfg          Config
	cacheControl *cacheControl
	refresher    *snapshot.Refresher
	vary         []byte
	logged       atomic.Int64 // the second of the last warning
	global       atomic.Pointer[globalAnswer]

	mu      sync.Mutex
	answers map[*answers]*time.Timer // all that are not closed; the timer closes those that are retired
	closed  bool

	slots  [slots]slot
	works  sync.Pool
	made   atomic.Uint32 // works, to spread them over slots
	warmed atomic.Int64
}

// New returns an Engine. Bind gives it its refresher, whose Warm and Retire are
// the engine's.
func New(cfg Config) *Engine {
	if cfg.CacheScope == "" {
		cfg.CacheScope = "private"
	}
	if cfg.WarmBudget <= 0 {
		cfg.WarmBudget = 3 * time.Second
	}
	if cfg.Wait <= 0 {
		cfg.Wait = 2 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{cfg: cfg, cacheControl: newCacheControl(cfg.CacheScope), answers: map[*answers]*time.Timer{}}
	if cfg.AllowOrigin == "" || cfg.AllowOrigin == "*" {
		e.vary = []byte("Accept-Encoding, X-Snapshot-Time")
	} else {
		e.vary = []byte("Accept-Encoding, X-Snapshot-Time, Origin")
	}
	e.works.New = func() any { return &work{slot: &e.slots[e.made.Add(1)%slots]} }
	return e
}

// Bind sets the refresher that the engine answers from, before the first
// request.
func (e *Engine) Bind(r *snapshot.Refresher) { e.refresher = r }

// Close lets go of all finished answers. No request may run any more.
func (e *Engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for a, timer := range e.answers {
		if timer != nil {
			timer.Stop()
		}
		a.close()
	}
	clear(e.answers)
}

// attached returns the finished answers of s, nil for one that is only pinned.
func attached(s *snapshot.Snapshot) *answers {
	if s == nil {
		return nil
	}
	a, _ := s.Answers.(*answers)
	return a
}

// Warm prepares next before it is current (see snapshot.Config): it gets a
// memory for answers of its own, the shards that were in memory for old are
// read for it, and the answers that were asked for most are made. What it
// returns offers those shards once more when next is current: while the old
// snapshot's are still there, ristretto may refuse the new ones.
func (e *Engine) Warm(ctx context.Context, old, next *snapshot.Snapshot) (after func()) {
	a, err := newAnswers(e.cfg.Memory)
	if err != nil {
		e.cfg.Log.Error("no memory for answers", "err", err)
		return func() {}
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		a.close()
		return func() {}
	}
	e.answers[a] = nil
	e.mu.Unlock()
	for i, status := range [2]int{http.StatusOK, http.StatusNotModified} {
		a.fresh[i] = e.newHead(next, status, identity, nil, nil, next.LastModified)
	}
	next.Answers = a
	if old == nil {
		return func() {}
	}
	deadline := time.Now().Add(e.cfg.WarmBudget)
	next.Pace().Gently(e.cfg.WarmBudget)
	e.warmAnswers(ctx, deadline, attached(old), a, next)
	return e.warmShards(ctx, deadline, old, next)
}

// maxWarm bounds the answers that are made ahead.
const maxWarm = 1024

func (e *Engine) warmAnswers(ctx context.Context, deadline time.Time, from, to *answers, next *snapshot.Snapshot) {
	var q query.Query
	var w work
	var key []byte
	pace := next.Pace()
	budget := e.cfg.Memory / 2
	for _, h := range from.hottest(maxWarm) {
		if ctx.Err() != nil || budget < 0 || time.Now().After(deadline) {
			return
		}
		if h.raw == nil || h.hits.Load() == 0 || q.Parse(h.endpoint, h.raw) != nil {
			continue
		}
		pace.Do(func() {
			if err := w.compose(next, &q, time.Until(deadline)); err != nil {
				return // it is made when it is asked for
			}
			key = q.AppendKey(key[:0])
			answer := to.offer(key, w.body, w.digest(), w.notFound, h.endpoint, h.raw)
			for c := zstdCoding; c < codings; c++ {
				if h.codings[c].Load() && len(answer.body) > minCoded {
					answer.code(c)
				}
			}
			budget -= answer.cost()
			e.warmed.Add(1)
		})
	}
}

type warmShard struct {
	v *snapshot.View
	n int
	s *artifacts.Shard
}

func (e *Engine) warmShards(ctx context.Context, deadline time.Time, old, next *snapshot.Snapshot) func() {
	var warm []warmShard
	pace := next.Pace()
	budget := e.cfg.WarmBytes
	next.Each(func(ep query.Endpoint, o query.Sort, v *snapshot.View) {
		was := old.View(ep, o)
		if was == nil {
			return
		}
		for n := range min(v.Shards(), was.Shards()) {
			if budget <= 0 || ctx.Err() != nil || time.Now().After(deadline) {
				return
			}
			if _, ok := was.Held(n); !ok {
				continue
			}
			pace.Do(func() {
				s, err := v.Shard(n, &snapshot.Budget{Wait: time.Until(deadline)})
				if err != nil {
					return // it is read when it is asked for
				}
				warm = append(warm, warmShard{v, n, s})
				budget -= int64(s.Size())
			})
		}
	})
	return func() {
		for _, x := range warm {
			if _, ok := x.v.Held(x.n); !ok {
				x.v.Keep(x.n, x.s)
			}
		}
	}
}

// Retire lets go of the answers of a snapshot that is no longer current, after
// a while (see snapshot.Config).
func (e *Engine) Retire(s *snapshot.Snapshot) {
	a := attached(s)
	if a == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if timer, open := e.answers[a]; !open || timer != nil {
		return
	}
	e.answers[a] = time.AfterFunc(closeDelay, func() {
		e.mu.Lock()
		_, open := e.answers[a]
		delete(e.answers, a)
		e.mu.Unlock()
		if open {
			a.close()
		}
	})
}
