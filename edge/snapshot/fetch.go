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
	lacking, err := r.fetch(ctx, make(slots, fetchers), next.objects, nil)
	missing = int64(len(lacking))
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
	// historyFetchers, of all snapshots together, are a quarter of those that the cache
	// lets go to the store: a snapshot that comes meanwhile is to be there as soon as
	// without history.
	historyFetchers = 2
)

// slots bound how many objects are asked for at once: each that is takes one.
type slots chan struct{}

// fetch brings objects onto this machine and returns those that are missing, and the
// gravest of the errors. Those for which waiting does not help are told to lacks at
// once, unless it is nil: the others may take a long time.
func (r *Refresher) fetch(
	ctx context.Context, atOnce slots, objects []*shards.Object, lacks func(error),
) (missing []*shards.Object, err error) {
	one := func(o *shards.Object) error {
		select {
		case atOnce <- struct{}{}:
			defer func() { <-atOnce }()
		case <-ctx.Done(): // Fetch only looks at the disk
		}
		return r.cfg.Cache.Fetch(ctx, o)
	}
	var (
		next    atomic.Int64
		mu      sync.Mutex
		workers sync.WaitGroup
	)
	for range min(cap(atOnce), len(objects)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(objects) {
					return
				}
				e := one(objects[i])
				if e == nil {
					continue
				}
				if grave(e) && lacks != nil {
					lacks(e)
				}
				mu.Lock()
				missing = append(missing, objects[i])
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
	history := s.notFetched(s.ahead)
	r.endFetching = r.inBackground(ctx, func(ctx context.Context) {
		if r.missing.Load() > 0 {
			r.untilFetched(ctx, make(slots, fetchers), s.objects, r.lacks, func(missing []*shards.Object, err error) {
				r.missing.Store(int64(len(missing)))
				r.lacks(err)
				if len(missing) > 0 {
					r.cfg.Log.Warn("snapshot is not complete on this machine",
						"snapshot", string(s.TimeText), "missing", len(missing), "err", err)
				} else {
					r.cfg.Log.Info("snapshot is complete on this machine", "snapshot", string(s.TimeText))
				}
			})
		}
		if ctx.Err() == nil {
			r.cfg.Cache.Trim()
			r.offDisk.Store(r.cfg.Cache.OffDisk(s.objects))
		}
		r.fetchHistory(ctx, s, history, func(missing []*shards.Object, err error) {
			r.missingHistory.Store(int64(len(missing)))
			r.mu.Lock()
			r.historyLack = err
			r.mu.Unlock()
		})
	})
}

// inBackground runs f until it returns. end cancels its context and waits for that.
func (r *Refresher) inBackground(ctx context.Context, f func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	r.background.Go(func() {
		defer close(done)
		defer cancel()
		f(ctx)
	})
	return func() { cancel(); <-done }
}

// untilFetched fetches objects until all are there or ctx is done, and tells report
// how each round went. It returns those that are missing. What was fetched is not
// asked for again, even where the disk did not take it.
func (r *Refresher) untilFetched(
	ctx context.Context, atOnce slots, objects []*shards.Object, lacks func(error),
	report func(missing []*shards.Object, err error),
) (missing []*shards.Object) {
	retry := r.backOff()
	missing = objects
	for {
		var err error
		missing, err = r.fetch(ctx, atOnce, missing, lacks)
		if ctx.Err() != nil {
			return missing
		}
		if report(missing, err); len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return missing
		case <-time.After(retry.NextBackOff()):
		}
	}
}
