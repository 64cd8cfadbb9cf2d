package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"example.com/marketdata/edge/upstream"
)

// Status is the outcome of the last polls. LastError is empty while they succeed.
type Status struct {
	upstream.Status
	// Swapped is when the current snapshot was taken over.
	Swapped time.Time
	// NotBefore is the set time of the first snapshot; zero: it has none, or is not
	// the only one any more.
	NotBefore time.Time
	// Progress is that of the current snapshot.
	Progress
	// HistoryFault is why objects of history could not be fetched; "": they could, or
	// nobody tried yet.
	HistoryFault string
	// Lacking says why answers may fail because objects are missing; "": none is, or the
	// fetch budget is over and the store is slow but answers (edge/README.md, "Listeners").
	Lacking string
}

// Progress is how much of a snapshot is on this machine.
type Progress struct {
	// Missing counts the objects that are not on this machine yet, MissingHistory those
	// of history that are fetched ahead, after the others.
	Missing, MissingHistory int64
	// OffDisk counts the objects that the disk copy did not have once all had been
	// fetched: it could not be written, or its bound is too small.
	OffDisk int64
}

// Counters are running totals, for metrics and for tests.
type Counters struct {
	Polls       atomic.Int64
	PollErrors  atomic.Int64
	NotModified atomic.Int64
	Swaps       atomic.Int64
	Refused     atomic.Int64 // pointers
	// SwapLag and SwapWork are the last Swap's Lag and Work; Activation is the Lag of the
	// last one with a set time, the first snapshot's aside.
	SwapLag, SwapWork, Activation atomic.Int64 // nanoseconds
}

// Status returns the outcome of the last polls.
func (r *Refresher) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.NotBefore = r.timeline.NotBefore()
	cur := r.current()
	if cur == nil {
		return s
	}
	s.Progress = cur.progress
	if cur.historyFault != nil {
		s.HistoryFault = cur.historyFault.Error()
	}
	late := r.cfg.Now().Sub(r.first) >= r.cfg.FetchBudget
	slow := cur.fault == nil || errors.Is(cur.fault, context.DeadlineExceeded)
	if s.Missing == 0 || late && slow && r.storeAnswers() {
		return s
	}
	s.Lacking = fmt.Sprintf("%d of %d objects of the snapshot are not on this machine", s.Missing, len(cur.objects))
	if cur.fault != nil {
		s.Lacking += ": " + cur.fault.Error()
	}
	return s
}

func (r *Refresher) fail(err error) {
	r.mu.Lock()
	changed := r.status.LastError != err.Error()
	if r.status.State == upstream.Valid {
		r.status.Set(upstream.Interrupted)
	}
	r.status.Fail(err)
	r.mu.Unlock()
	if changed {
		r.cfg.Log.Warn("poll failed", "err", err)
	}
}

func (r *Refresher) succeed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.Set(upstream.Valid) {
		r.cfg.Log.Info("polling succeeds")
	}
}
