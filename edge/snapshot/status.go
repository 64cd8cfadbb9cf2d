package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"example.com/marketdata/edge/upstream"
)

// Status is how the last polls ended. LastError is empty while they succeed.
type Status struct {
	upstream.Status
	// Swapped is when the current snapshot was taken over.
	Swapped time.Time
	// NotBefore is the set time of the first snapshot; zero: it has none, or is not
	// the only one any more.
	NotBefore time.Time
	// Progress is that of the current snapshot.
	Progress
	// HistoryFault is why the last of those could not be fetched; "": they could, or
	// it was not tried yet.
	HistoryFault string
	// Lacking says why answers may fail for want of them; "": none is missing, or
	// past the fetch budget they are slow to come, from a store that answers
	// (INTERFACE.md, "Listeners").
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
	Refused     atomic.Int64 // pointers that were not taken over
	// SwapLag is how long after its set time, or else after the pointer's
	// publication, the last snapshot became current, by both clocks; SwapWork how long
	// it took from when this edge first saw the pointer until all was ready; and
	// Activation how far the last one that had a set time was from it.
	SwapLag, SwapWork, Activation atomic.Int64 // nanoseconds
}

// Status returns how the last polls ended.
func (r *Refresher) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.NotBefore = r.line.NotBefore()
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
