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
	"example.com/marketdata/edge/timeline"
)

// If the store last returned an object within answersWithin, it counts as slow, and otherwise as unreachable.
const answersWithin = 10 * time.Second

// download is the state of fetching a snapshot.
type download struct {
	// progress describes how much was fetched. fault and historyFault are the errors from fetching the
	// snapshot's objects and its history, or nil. Refresher.mu guards these fields.
	progress            Progress
	fault, historyFault error

	// The rest is guarded by Refresher.activating.
	arrival *arrival                // nil after the snapshot became current
	end     func()                  // ends the background fetching; nil if none was started
	ahead   []*shards.Object        // the history objects to prefetch
	early   map[*shards.Object]bool // the subset that was fetched before the snapshot became current
}

// endFetching ends the background fetching.
func (d *download) endFetching() {
	if d.end != nil {
		d.end()
	}
}

// prepare fetches the objects of the next snapshot, which p names. Once the fetch budget is exhausted, package
// timeline decides whether some objects may stay missing. The first snapshot waits for no objects.
func (r *Refresher) prepare(ctx context.Context, next *Snapshot, p *artifacts.Pointer) error {
	if !next.Time.Equal(p.Time) {
		return fmt.Errorf("%w: pointer of %v names the manifest of %v", artifacts.ErrCorrupt, p.Time, next.Time)
	}
	next.progress.Missing = int64(len(next.objects))
	r.mu.Lock()
	deadline, begun := r.timeline.Fetching(time.Now())
	r.mu.Unlock()
	if deadline.IsZero() {
		return nil
	}
	if begun {
		r.cfg.Cache.Pace.Gently(r.cfg.FetchBudget / 4)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	missing, err := r.fetch(ctx, make(slots, fetchers), next.objects, nil)
	next.progress.Missing = int64(len(missing))
	r.mu.Lock()
	verdict := r.timeline.Fetched(len(missing), grave(err), r.storeAnswers(), time.Now())
	r.mu.Unlock()
	switch {
	case verdict == timeline.Unreachable:
		return fmt.Errorf("%d objects are missing and the store does not answer: %w", len(missing), err)
	case verdict == timeline.Retry:
		return err
	case len(missing) > 0:
		r.cfg.Log.Warn("taking over an incomplete snapshot",
			"snapshot", string(next.TimeText), "missing", len(missing), "budget", r.cfg.FetchBudget)
	}
	return nil
}

// storeAnswers reports whether the store returned an object recently. If so, it is slow rather than
// unreachable.
func (r *Refresher) storeAnswers() bool { return time.Since(r.cfg.Cache.LastFetch()) <= answersWithin }

const (
	// fetchers is the number of concurrent Fetch calls. The cache bounds the number of requests to the store.
	fetchers = 16
	// historyFetchers is the corresponding number for the history of all snapshots together. It is a
	// quarter of the cache's concurrent fetches, so that history does not delay a new snapshot.
	historyFetchers = 2
)

// slots is a semaphore that bounds the concurrent fetches.
type slots chan struct{}

// fetch fetches objects. It returns the objects that are still missing and one of the errors: a permanent one,
// if there was any. If onPermanent is not nil, fetch calls it with each permanent error immediately, because
// the other objects may take a long time.
func (r *Refresher) fetch(
	ctx context.Context, atOnce slots, objects []*shards.Object, onPermanent func(error),
) (missing []*shards.Object, err error) {
	one := func(o *shards.Object) error {
		select {
		case atOnce <- struct{}{}:
			defer func() { <-atOnce }()
		case <-ctx.Done(): // Fetch then only checks the disk
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
				if grave(e) && onPermanent != nil {
					onPermanent(e)
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

// grave reports whether an error is permanent, because the store's object is damaged or missing.
func grave(err error) bool {
	return errors.Is(err, artifacts.ErrCorrupt) || errors.Is(err, artifacts.ErrNotFound)
}

// complete fetches the missing objects of the current snapshot, s, in the background, and then its
// history. It ends when everything is fetched or another snapshot becomes current.
func (r *Refresher) complete(ctx context.Context, s *Snapshot) {
	history, whole := s.notFetched(), s.progress.Missing == 0
	set := func(f func()) {
		r.mu.Lock()
		defer r.mu.Unlock()
		f()
	}
	lacks := func(err error) { set(func() { s.fault = err }) }
	s.end = r.inBackground(ctx, func(ctx context.Context) {
		if !whole {
			r.untilFetched(ctx, make(slots, fetchers), s.objects, lacks, func(missing []*shards.Object, err error) {
				set(func() { s.progress.Missing, s.fault = int64(len(missing)), err })
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
			offDisk := r.cfg.Cache.OffDisk(s.objects)
			set(func() { s.progress.OffDisk = offDisk })
		}
		r.fetchHistory(ctx, s, history, func(missing []*shards.Object, err error) {
			set(func() { s.progress.MissingHistory, s.historyFault = int64(len(missing)), err })
		})
	})
}

// inBackground starts f. The returned function cancels its context and waits until it has returned.
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

// untilFetched fetches objects repeatedly until none is missing or ctx is done. It calls report after each
// round and returns the missing objects. It does not request a fetched object again, even if the disk copy
// rejected it.
func (r *Refresher) untilFetched(
	ctx context.Context, atOnce slots, objects []*shards.Object, onPermanent func(error),
	report func(missing []*shards.Object, err error),
) (missing []*shards.Object) {
	retry := r.backOff()
	missing = objects
	for {
		var err error
		missing, err = r.fetch(ctx, atOnce, missing, onPermanent)
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
