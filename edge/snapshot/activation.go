package snapshot

import (
	"context"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/timeline"
)

// arrival is what the Refresher keeps of a snapshot until it is current.
type arrival struct {
	pointer                 *artifacts.Pointer
	rawPointer, rawManifest []byte
	after                   func() // the rest of warming
	plan                    timeline.Plan[*Snapshot]
}

// Swap describes how a snapshot became current.
type Swap struct {
	// Lag is the time from the snapshot's set time, or else from the pointer's
	// publication, until it became current, by both clocks. Work is the time from when
	// this edge first saw the pointer until the snapshot was fetched and warm.
	Lag, Work time.Duration
	// Timed means that the pointer set a time and was first seen here before it. A first
	// snapshot is never timed.
	Timed bool
}

// enqueue schedules next, which is fetched and warm, for activation.
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
	// If the snapshot is dropped meanwhile, the timer finds nothing due.
	time.AfterFunc(a.plan.Wait, func() {
		r.activating.Lock()
		defer r.activating.Unlock()
		r.advance(ctx)
	})
	r.fetchEarly(ctx, next)
}

// advance makes the snapshots that are due current. The caller holds activating.
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

// activate carries out a change of the timeline. The caller holds activating.
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

// takeOver ends the fetching for the snapshots before and after a change, and answers
// from the new one. The caller holds activating.
func (r *Refresher) takeOver(c timeline.Change[*Snapshot]) {
	next, old := c.Current, c.Previous
	next.endFetching()
	next.ahead = r.ahead(next)
	next.progress.MissingHistory = int64(len(next.notFetched()))
	if old != nil { // until next is measured
		old.endFetching()
		next.progress.OffDisk, next.historyFault = old.progress.OffDisk, old.historyFault
	}
	r.publish(next)
}

// publish stores the state. next is nil where the store has no snapshot. The caller
// holds activating.
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

// retire releases the snapshots that may no longer be pinned, and the memory of those
// that may be.
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

// drop releases snapshots and ends the fetching for them.
func drop(snapshots []*Snapshot) {
	for _, s := range snapshots {
		s.endFetching()
		s.release()
	}
}

// end drops the snapshots that wait. Nothing becomes current after it.
func (r *Refresher) end() {
	r.activating.Lock()
	defer r.activating.Unlock()
	r.mu.Lock()
	dropped := r.timeline.End()
	r.mu.Unlock()
	drop(dropped)
}

// wake lets all who wait for a snapshot look again. The caller holds mu.
func (r *Refresher) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}
