package reply

import (
	"context"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/respcache"
	"example.com/marketdata/edge/snapshot"
)

// Warm prepares next before it is current (see snapshot.Warm): it reads the shards that are in memory
// for old, and composes the most requested answers. The returned function adds these shards again
// when next is current: as long as the old snapshot's are in memory, ristretto may refuse the new
// ones.
func (e *Engine) Warm(ctx context.Context, old, next *snapshot.Snapshot) (after func()) {
	if old == nil {
		return func() {}
	}
	deadline := time.Now().Add(warmBudget)
	next.Pace().Gently(warmBudget)
	e.warmAnswers(ctx, deadline, old, next)
	return e.warmShards(ctx, deadline, old, next)
}

const (
	// warmBudget bounds how long a new snapshot is warmed.
	warmBudget = 3 * time.Second
	// maxWarm bounds the answers that are made ahead.
	maxWarm = 1024
)

func (e *Engine) warmAnswers(ctx context.Context, deadline time.Time, old, next *snapshot.Snapshot) {
	var q query.Query
	var w work
	w.answerFrom(next)
	cache, pace := next.Responses(), next.Pace()
	for _, hot := range old.Responses().Hottest(maxWarm, pace.Do) {
		if ctx.Err() != nil || cache.Bytes() > cache.Limit()/2 || time.Now().After(deadline) {
			return
		}
		// New objects of history are fetched when the snapshot is current.
		if !hot.Other && (hot.Endpoint == query.History || q.Parse(hot.Endpoint, hot.RawQuery) != nil) {
			continue
		}
		pace.Do(func() {
			source, ok := e.composeAgain(&w, next, &q, &hot.Source, time.Until(deadline))
			if !ok {
				return // it is made when it is asked for
			}
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
				entry = w.admit(cache, entry, source, c)
			}
			e.warmed.Add(1)
		})
	}
}

// composeAgain composes the answer of source from next.
func (e *Engine) composeAgain(
	w *work, next *snapshot.Snapshot, q *query.Query, source *respcache.Source, wait time.Duration,
) (respcache.Source, bool) {
	w.Visited = 0
	if source.Other {
		c := e.composeHot(w, next, source.RawQuery, wait)
		if c == nil {
			return respcache.Source{}, false
		}
		return w.otherSource(c, digestOf(w.Body)), true
	}
	if w.Loosen(next, q, wait) != nil || w.compose(w.Body[:0], next, q, wait) != nil {
		return respcache.Source{}, false
	}
	w.key = q.AppendKey(w.key[:0])
	return w.source(source.Endpoint, source.RawQuery, w.digest()), true
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
	next.Each(old, func(was, v *snapshot.View) {
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
