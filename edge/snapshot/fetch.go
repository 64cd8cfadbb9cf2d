package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/shards"
)

// answersWithin is how recently the store must have given an object for a snapshot
// to be taken over with others missing: a store that is merely slow, not away.
const answersWithin = 10 * time.Second

// prepare brings the snapshot's objects onto this machine. Past the fetch
// budget it gives up on the rest, and returns how much that is, unless the
// store has stopped answering: then the old snapshot, which is complete, is the
// better one. An object that is damaged or missing in the store refuses the
// snapshot until all of it is there. Whatever was refused has a budget of its own at the next try: with
// what is left of an old one every store would look slow.
func (r *Refresher) prepare(ctx context.Context, next *Snapshot) (missing int64, err error) {
	if r.deadline.IsZero() {
		r.deadline = time.Now().Add(r.cfg.FetchBudget)
		r.cfg.Cache.Pace.Gently(r.cfg.FetchBudget / 4)
	}
	ctx, cancel := context.WithDeadline(ctx, r.deadline)
	defer cancel()
	missing, err = r.fetch(ctx, fetchers, next.objects, nil)
	r.damaged = r.damaged || grave(err)
	if missing > 0 && !r.damaged && time.Now().Before(r.deadline) {
		return 0, err // tried again at the next poll, within the same budget
	}
	r.deadline = time.Time{}
	switch {
	case missing == 0:
		return 0, nil
	case r.damaged:
		return 0, err
	case time.Since(r.cfg.Cache.LastFetch()) > answersWithin:
		return 0, fmt.Errorf("%d objects are missing and the store does not answer: %w", missing, err)
	}
	r.cfg.Log.Warn("taking over an incomplete snapshot", "snapshot", string(next.TimeText), "missing", missing, "budget", r.cfg.FetchBudget)
	return missing, nil
}

const (
	// fetchers is how many objects are asked for at once; the cache bounds how many
	// of them go to the store.
	fetchers = 16
	// historyFetchers are a quarter of those that the cache lets go to the store: a
	// snapshot that comes meanwhile is to be there as soon as without history.
	historyFetchers = 2
)

// fetch brings objects onto this machine, so many at once, and returns how many are missing, and the
// gravest of the errors. Those for which waiting does not help are told to lacks at
// once, unless it is nil: the others may take a long time.
func (r *Refresher) fetch(ctx context.Context, atOnce int, objects []*shards.Object, lacks func(error)) (missing int64, err error) {
	var (
		next    atomic.Int64
		mu      sync.Mutex
		workers sync.WaitGroup
	)
	for range min(atOnce, len(objects)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(objects) {
					return
				}
				e := r.cfg.Cache.Fetch(ctx, objects[i])
				if e == nil {
					continue
				}
				if grave(e) && lacks != nil {
					lacks(e)
				}
				mu.Lock()
				missing++
				if err == nil || grave(e) {
					err = e
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return missing, err
}

// grave reports that waiting for a slow store does not help: what it has for an
// object is damaged, or nothing.
func grave(err error) bool {
	return errors.Is(err, artifacts.ErrCorrupt) || errors.Is(err, artifacts.ErrNotFound)
}

func (r *Refresher) lacks(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lack = err
}

// complete fetches in the background what s, which is current, lacks, and then its
// history, until all is there or another snapshot takes over (endFetching).
func (r *Refresher) complete(ctx context.Context, s *Snapshot) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	r.endFetching = func() { cancel(); <-done }
	r.background.Go(func() {
		defer close(done)
		if r.missing.Load() > 0 {
			r.untilFetched(ctx, fetchers, s.objects, r.lacks, func(missing int64, err error) {
				r.missing.Store(missing)
				r.lacks(err)
				if missing > 0 {
					r.cfg.Log.Warn("snapshot is not complete on this machine", "snapshot", string(s.TimeText), "missing", missing, "err", err)
				} else {
					r.cfg.Log.Info("snapshot is complete on this machine", "snapshot", string(s.TimeText))
				}
			})
		}
		r.fetchHistory(ctx, s)
	})
}

// untilFetched fetches objects until all are there or ctx is done, and tells report
// how each round went.
func (r *Refresher) untilFetched(ctx context.Context, atOnce int, objects []*shards.Object, lacks func(error), report func(missing int64, err error)) {
	retry := r.backOff()
	for missing := int64(1); missing > 0; {
		var err error
		missing, err = r.fetch(ctx, atOnce, objects, lacks)
		if ctx.Err() != nil {
			return
		}
		if report(missing, err); missing == 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry.NextBackOff()):
		}
	}
}
