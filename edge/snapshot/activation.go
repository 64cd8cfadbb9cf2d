package snapshot

import (
	"context"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/timeline"
)

// arrival is the data that the Refresher keeps for a snapshot until it becomes current.
type arrival struct {
	pointer                 *artifacts.Pointer
	rawPointer, rawManifest []byte
	after                   func() // completes the warming
	plan                    timeline.Plan[*Snapshot]
}

// Swap describes how a snapshot became current.
type Swap struct {
	// Lag is the time until the snapshot became current, from its activation time or, if it has none, from
	// the pointer's publication. It is measured by the clocks of the builder and the edge. Work is the time
	// from when this edge first saw the pointer until the snapshot was fetched and warmed.
	Lag, Work time.Duration
	// Timed means that the pointer sets an activation time, and that this edge saw it before that time. The
	// first snapshot is never timed.
	Timed bool
}

// enqueue schedules the next snapshot, which is already fetched and warmed, for activation.
func (r *Refresher) enqueue(ctx context.Context, next *Snapshot, a *arrival) {
	r.activating.Lock()
	defer r.activating.Unlock()
	next.arrival = a
	r.mu.Lock()
	a.plan = r.timeline.Ready(next, a.pointer.ActivateAt, r.cfg.Now(), time.Now())
	r.wake()
	r.mu.Unlock()
	r.Counters.SwapWork.Store(int64(a.plan.Work))
	drop(a.plan.Dropped)
	if a.plan.Wait == 0 {
		r.advance(ctx)
		return
	}
	// If the snapshot is dropped in the meantime, the timer finds nothing due.
	time.AfterFunc(a.plan.Wait, func() {
		r.activating.Lock()
		defer r.activating.Unlock()
		r.advance(ctx)
	})
	r.fetchEarly(ctx, next)
}

// advance activates all snapshots that are due, in order. The caller must hold r.activating.
func (r *Refresher) advance(ctx context.Context) {
	for {
		r.mu.Lock()
		change, ok := r.timeline.Advance(time.Now())
		r.mu.Unlock()
		if !ok {
			return
		}
		r.activate(ctx, change)
	}
}

// activate performs a change of the timeline. The caller must hold r.activating.
func (r *Refresher) activate(ctx context.Context, c timeline.Change[*Snapshot]) {
	next, a := c.Current, c.Current.arrival
	next.arrival = nil
	r.takeOver(c)
	now, p := r.cfg.Now(), a.pointer
	r.retire(c)
	a.after()
	swap := Swap{Lag: now.Sub(p.Published), Work: a.plan.Work, Timed: a.plan.Timed}
	if p.ActivateAt.After(p.Published) {
		swap.Lag = now.Sub(p.ActivateAt)
		if c.Previous != nil {
			r.Counters.Activation.Store(int64(swap.Lag))
		}
	}
	r.Counters.SwapLag.Store(int64(swap.Lag))
	r.cfg.Swapped(swap)
	r.cfg.Log.Info("snapshot is current", "snapshot", string(next.TimeText),
		"sequence", next.Sequence, "store", next.Store, "missing", next.progress.Missing)
	r.keepManifest("a snapshot", p.Manifest.Digest, a.rawManifest)
	r.keep(artifacts.CurrentKey, a.rawPointer)
	r.floor.Take(artifacts.CurrentKey, p.Store, p.Sequence)
	r.complete(ctx, next)
}

// takeOver ends the background fetching for both snapshots of a change, and makes requests use the new one.
// The caller must hold r.activating.
func (r *Refresher) takeOver(c timeline.Change[*Snapshot]) {
	next, old := c.Current, c.Previous
	next.endFetching()
	next.ahead = r.ahead(next)
	next.progress.MissingHistory = int64(len(next.notFetched()))
	if old != nil { // use the old values until the new snapshot is measured
		old.endFetching()
		next.progress.OffDisk, next.historyFault = old.progress.OffDisk, old.historyFault
	}
	r.publish(next)
}

// publish stores the state. If the store has no snapshot, next is nil. The caller must hold r.activating.
func (r *Refresher) publish(next *Snapshot) {
	r.state.Store(&State{Snapshot: next, Change: r.record})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.Swapped = time.Now(); next == nil {
		r.timeline.Empty()
	} else if r.Counters.Swaps.Add(1); r.first.IsZero() {
		r.first = r.cfg.Now()
	}
	r.wake()
}

// retire releases the snapshots that can no longer be pinned, and frees the memory of those that
// still can.
func (r *Refresher) retire(c timeline.Change[*Snapshot]) {
	inUse := make(map[*shards.Object]bool)
	for _, o := range c.Current.allObjects() {
		inUse[o] = true
	}
	for _, s := range c.Retained {
		for _, o := range s.allObjects() {
			if !inUse[o] {
				r.cfg.Cache.Forget(o)
			}
		}
	}
	drop(c.Dropped)
	r.cfg.Cache.Trim()
	r.dropManifests(c.Current)
}

// drop releases snapshots and ends their background fetching.
func drop(snapshots []*Snapshot) {
	for _, s := range snapshots {
		s.endFetching()
		s.release()
	}
}

// end drops the waiting snapshots. Afterwards, no snapshot becomes current.
func (r *Refresher) end() {
	r.activating.Lock()
	defer r.activating.Unlock()
	r.mu.Lock()
	dropped := r.timeline.End()
	r.mu.Unlock()
	drop(dropped)
}

// wake wakes all goroutines that wait for a snapshot. The caller must hold mu.
func (r *Refresher) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}
