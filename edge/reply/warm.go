package reply

import (
	"context"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/snapshot"
)

// Warm prepares next before it is current (see snapshot.Warm): it reads the shards that are in memory
// for old. The returned function adds them again when next is current: as long as the old snapshot's
// are in memory, ristretto may refuse the new ones. Answers are not made ahead: one from shards in memory
// costs little more than a finished one.
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

// warmBudget bounds how long a new snapshot is warmed.
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
