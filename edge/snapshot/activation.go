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
	timer                   *time.Timer // nil: its time has come
}

// Swap is what became of a pointer.
type Swap struct {
	// Lag is how long after its set time, or else after the pointer's publication,
	// the snapshot became current, by both clocks; Work how long it took from when
	// this edge first saw the pointer until all was ready.
	Lag, Work time.Duration
	// Timed: the pointer set a time that was yet to come.
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
	r.flips.Lock()
	defer r.flips.Unlock()
	newest := r.newest()
	if newest != nil && !next.Time.After(newest.Time) {
		r.dropPrepared()
	}
	wait := time.Duration(0)
	if at := next.pointer.ActivateAt; !at.IsZero() {
		// By the wall clock, on which the edges of a fleet agree; but nobody waits
		// longer than the monotonic one allows.
		wait = min(at.Sub(r.cfg.Now()), artifacts.MaxActivateAfter-time.Since(next.seen))
	}
	r.mu.Lock()
	switch {
	case wait <= 0:
	case newest == nil:
		r.status.NotBefore = time.Now().Add(wait)
	default:
		next.timer = time.AfterFunc(wait, func() {
			r.flips.Lock()
			defer r.flips.Unlock()
			r.activate(ctx, next)
		})
	}
	r.prepared = append(r.prepared, next)
	r.wake()
	r.mu.Unlock()
	if next.timer == nil {
		r.activate(ctx, next)
	}
}

// activate makes last current, and before it those that wait in front of it. Who
// calls it holds flips.
func (r *Refresher) activate(ctx context.Context, last *prepared) {
	if r.ended || !slices.Contains(r.prepared, last) {
		return
	}
	for {
		r.mu.Lock()
		next := r.prepared[0]
		r.prepared = r.prepared[1:]
		r.mu.Unlock()
		r.flip(ctx, next)
		if next == last {
			return
		}
	}
}

// flip makes next current.
func (r *Refresher) flip(ctx context.Context, next *prepared) {
	p := next.pointer
	r.endFetching()
	r.missing.Store(next.missing)
	r.swap(next.Snapshot)
	now := r.cfg.Now()
	r.retire(next.Snapshot)
	next.after()
	swap := Swap{Lag: now.Sub(p.Published), Work: next.work, Timed: next.timer != nil}
	if p.ActivateAt.After(p.Published) {
		swap.Lag = now.Sub(p.ActivateAt)
		r.Counters.Activation.Store(int64(swap.Lag))
	}
	r.Counters.SwapLag.Store(int64(swap.Lag))
	r.cfg.Swapped(swap)
	r.cfg.Log.Info("snapshot is current", "snapshot", string(next.TimeText), "sequence", next.Sequence, "store", next.Store, "missing", next.missing)
	r.keepManifest(p.Manifest.Digest, next.rawManifest)
	r.keepPointer(p, next.rawPointer)
	r.cfg.Floor.Take(artifacts.CurrentKey, p.Store, p.Sequence)
	r.complete(ctx, next.Snapshot)
}

// dropPrepared lets go of what waits. Who calls it holds flips.
func (r *Refresher) dropPrepared() {
	r.mu.Lock()
	gone := r.prepared
	r.prepared = nil
	r.mu.Unlock()
	for _, p := range gone {
		if p.timer != nil {
			p.timer.Stop()
		}
		p.release()
	}
}

// end is the last thing: nothing becomes current any more.
func (r *Refresher) end() {
	r.flips.Lock()
	defer r.flips.Unlock()
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
