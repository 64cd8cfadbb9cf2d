package snapshot

import (
	"context"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// prepared is a snapshot that is on this machine and warm, and waits for the time
// that its pointer set (INTERFACE.md, "Activation").
type prepared struct {
	*Snapshot
	pointer                 *artifacts.Pointer
	rawPointer, rawManifest []byte
	missing                 int64  // objects
	after                   func() // what warming has left to do
	seen                    time.Time
	work                    time.Duration
	timed                   bool        // it was first seen before its time, and not the first
	timer                   *time.Timer // nil: its time has come
	endHistory              func()      // ends the fetching of its history; nil: it has not begun
}

// Swap is what became of a pointer.
type Swap struct {
	// Lag is how long after its set time, or else after the pointer's publication,
	// the snapshot became current, by both clocks; Work how long it took from when
	// this edge first saw the pointer until all was ready.
	Lag, Work time.Duration
	// Timed: the pointer set a time, and was first seen here before it. A first
	// snapshot is not.
	Timed bool
}

// newest returns the newest snapshot that is current or waits to be; nil: there is
// none.
func (r *Refresher) newest() *Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.prepared); n > 0 {
		return r.prepared[n-1].Snapshot
	}
	return r.current()
}

// line has next become current at its time: behind those that wait already, unless it
// is of a rollback, which drops them. The first snapshot is current at once; until
// its time the edge is not ready.
func (r *Refresher) line(ctx context.Context, next *prepared) {
	r.activating.Lock()
	defer r.activating.Unlock()
	newest := r.newest()
	wait := time.Duration(0)
	if at := next.pointer.ActivateAt; newest != nil && !next.Time.After(newest.Time) {
		r.dropPrepared()
	} else if !at.IsZero() {
		// By the wall clock, on which the edges of a fleet agree; but nobody waits
		// longer than the monotonic one allows.
		left, since := at.Sub(r.cfg.Now()), time.Since(next.seen)
		wait = min(left, artifacts.MaxActivateAfter-since)
		next.timed = newest != nil && left+since > 0
	}
	r.mu.Lock()
	switch {
	case wait <= 0:
		r.status.NotBefore = time.Time{}
	case newest == nil:
		r.status.NotBefore = time.Now().Add(wait)
	default:
		next.timer = time.AfterFunc(wait, func() {
			r.activating.Lock()
			defer r.activating.Unlock()
			r.activateUpTo(ctx, next)
		})
	}
	r.prepared = append(r.prepared, next)
	r.wake()
	r.mu.Unlock()
	if next.timer == nil {
		r.activateUpTo(ctx, next)
	} else {
		r.fetchEarly(ctx, next)
	}
}

// activateUpTo makes last current, and before it those that wait in front of it. Who
// calls it holds activating.
func (r *Refresher) activateUpTo(ctx context.Context, last *prepared) {
	if r.ended || !slices.Contains(r.prepared, last) {
		return
	}
	for {
		next := r.prepared[0] // it changes only while activating is held
		r.activate(ctx, next)
		if next == last {
			return
		}
	}
}

// activate makes next current.
func (r *Refresher) activate(ctx context.Context, next *prepared) {
	p := next.pointer
	r.endFetching()
	next.end()
	r.missing.Store(next.missing)
	first := r.current() == nil
	r.swap(next.Snapshot)
	// Only now, so that a pin finds it at any time.
	r.mu.Lock()
	r.prepared = r.prepared[1:]
	r.mu.Unlock()
	now := r.cfg.Now()
	r.retire(next.Snapshot)
	next.after()
	swap := Swap{Lag: now.Sub(p.Published), Work: next.work, Timed: next.timed}
	if p.ActivateAt.After(p.Published) {
		swap.Lag = now.Sub(p.ActivateAt)
		if !first {
			r.Counters.Activation.Store(int64(swap.Lag))
		}
	}
	r.Counters.SwapLag.Store(int64(swap.Lag))
	r.cfg.Swapped(swap)
	r.cfg.Log.Info("snapshot is current", "snapshot", string(next.TimeText), "sequence", next.Sequence, "store", next.Store, "missing", next.missing)
	r.keepManifest(p.Manifest.Digest, next.rawManifest)
	r.keepPointer(p, next.rawPointer)
	r.cfg.Floor.Take(artifacts.CurrentKey, p.Store, p.Sequence)
	r.complete(ctx, next.Snapshot)
}

// end ends the fetching of the snapshot's history.
func (p *prepared) end() {
	if p.endHistory != nil {
		p.endHistory()
	}
}

// dropPrepared lets go of what waits. Who calls it holds activating.
func (r *Refresher) dropPrepared() {
	r.mu.Lock()
	gone := r.prepared
	r.prepared = nil
	r.mu.Unlock()
	for _, p := range gone {
		if p.timer != nil {
			p.timer.Stop()
		}
		p.end()
		p.release()
	}
}

// end is the last thing: nothing becomes current any more.
func (r *Refresher) end() {
	r.activating.Lock()
	defer r.activating.Unlock()
	r.ended = true
	r.dropPrepared()
}

// waits returns the prepared snapshot of t; nil when there is none.
func (r *Refresher) waits(t time.Time) *Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.prepared {
		if p.Time.Equal(t) {
			return p.Snapshot
		}
	}
	return nil
}

// wake has all who wait for a snapshot look again. Who calls it holds mu.
func (r *Refresher) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}
