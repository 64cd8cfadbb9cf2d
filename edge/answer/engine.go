// Package answer finds the bytes of an answer: a finished one from the snapshot's
// response cache, or one put together from the slices of cached shards.
//
// # Life of a request
//
// The server has read the request, checked its key and limit, and parsed its
// parameters. From here:
//
//  1. The one State there is is loaded, once; a pinned request takes its
//     snapshot from the refresher instead.
//  2. The normalised query is looked up in the snapshot's response cache.
//  3. What is not there is put together (compose.go): find the shard by its row
//     number or by fences, slice it, append. Nothing is decoded, nothing
//     allocated. An answer that is asked for a second time is admitted to the cache, a
//     coded one at once, while that evicts no other.
//  4. Conditions are checked against the tag of the plain body, a coding is
//     chosen, and the prepared header values are set.
package answer

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/respcache"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
)

// errShort: the shards lack rows that the manifest promises.
var errShort = fmt.Errorf("%w: %w: a shard has fewer rows than its view needs", shards.ErrUnavailable, artifacts.ErrCorrupt)

// Config is what an Engine is made from.
type Config struct {
	// Refresher says which snapshot answers.
	Refresher *snapshot.Refresher
	// WarmBudget bounds how long a new snapshot is warmed (3 s), and
	// WarmBytes how many bytes of shards are read for it (an eighth of
	// ShardMemory, or as set).
	WarmBudget time.Duration
	WarmBytes  int64
	// Wait bounds how long one answer may wait for shards, and for its turn where
	// a large one takes its time (2 s).
	Wait time.Duration
	// MaxStale turns answers into unavailable ones past that age; 0: never.
	MaxStale time.Duration
	// AllowOrigin is the allowed origin: another than * joins Vary.
	AllowOrigin string
	// CacheScope begins Cache-Control: private (the default) or public, by which
	// caches in front that are shared may keep answers.
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
	s.shards.Add(int64(w.shards))
	s.rows.Add(int64(w.visited))
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
	refresher  *snapshot.Refresher
	logged     atomic.Int64 // the second of the last warning

	counterSets [counterSets]counters
	works       sync.Pool
	made        atomic.Uint32 // works, to spread them over counterSets
	warmed      atomic.Int64
}

// New returns an Engine.
func New(cfg Config) *Engine {
	if cfg.CacheScope == "" {
		cfg.CacheScope = scopePrivate
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
	e := &Engine{cfg: cfg, refresher: cfg.Refresher, cacheLines: newCacheLines(cfg.CacheScope, cfg.AllowOrigin)}
	e.works.New = func() any { return &work{counters: &e.counterSets[e.made.Add(1)%counterSets]} }
	return e
}

// Warm prepares next before it is current (see snapshot.Warm): the shards that
// were in memory for old are read for it, and the answers that were asked for most
// are made. What it returns adds those shards once more when next is current:
// while the old snapshot's are still there, ristretto may refuse the new ones.
func (e *Engine) Warm(ctx context.Context, old, next *snapshot.Snapshot) (after func()) {
	if old == nil {
		return func() {}
	}
	deadline := time.Now().Add(e.cfg.WarmBudget)
	next.Pace().Gently(e.cfg.WarmBudget)
	e.warmAnswers(ctx, deadline, old, next)
	return e.warmShards(ctx, deadline, old, next)
}

// maxWarm bounds the answers that are made ahead.
const maxWarm = 1024

func (e *Engine) warmAnswers(ctx context.Context, deadline time.Time, old, next *snapshot.Snapshot) {
	var q query.Query
	var w work
	cache, pace := next.Responses(), next.Pace()
	for _, hot := range old.Responses().Hottest(maxWarm, pace.Do) {
		if ctx.Err() != nil || cache.Bytes() > cache.Limit()/2 || time.Now().After(deadline) {
			return
		}
		// What is new of history is fetched once the snapshot is current.
		if hot.Endpoint == query.History || q.Parse(hot.Endpoint, hot.RawQuery) != nil {
			continue
		}
		pace.Do(func() {
			w.budget = snapshot.Budget{Wait: time.Until(deadline)}
			if w.loosen(next, &q) != nil {
				return
			}
			if err := w.compose(next, &q, time.Until(deadline)); err != nil {
				return // it is made when it is asked for
			}
			w.key = q.AppendKey(w.key[:0])
			source := respcache.Source{Endpoint: hot.Endpoint, RawQuery: hot.RawQuery, NotFound: w.notFound, Digest: w.digest(), Length: len(w.body)}
			var entry *respcache.Entry
			for c := range coding(codings) {
				if hot.Response(int(c)) == nil {
					continue
				}
				if source.Length <= minCoded {
					c = identity
				}
				if c != identity && w.encode(c) != nil {
					return
				}
				entry = e.admit(cache, next, &w, entry, source, c)
			}
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
			if _, ok := was.Cached(n); !ok {
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
			if _, ok := x.v.Cached(x.n); !ok {
				x.v.Keep(x.n, x.s)
			}
		}
	}
}
