package reply

import (
	"context"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/snapshot"
)

// Warm prepares the next snapshot before it becomes current (see snapshot.Warm). It reads the shards whose
// counterparts in the old snapshot are in memory. The caller must call the returned function once the next
// snapshot is current. That function adds the shards to the cache again, because ristretto may reject them
// while it contains the old snapshot's shards. Warm does not compose answers in advance, because composing
// an answer from cached shards costs little more than sending a finished one.
func (e *Engine) Warm(ctx context.Context, old, next *snapshot.Snapshot) (after func()) {
	keep := func() {}
	if old != nil {
		next.Pace().Gently(warmBudget)
		keep = e.warmShards(ctx, time.Now().Add(warmBudget), old, next)
	}
	return func() {
		keep()
		e.finishedFrom(e.cfg.Refresher.State())
	}
}

// warmBudget bounds the time for warming a new snapshot.
const warmBudget = 3 * time.Second

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
					return // a request will read it
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
