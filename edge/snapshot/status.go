package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"example.com/marketdata/edge/upstream"
)

// Status describes the result of the last polls. LastError is empty while they succeed.
type Status struct {
	upstream.Status
	// Swapped is the time when the current snapshot became current.
	Swapped time.Time
	// NotBefore is the activation time of the first snapshot. It is zero if there is none, or if there are
	// later snapshots.
	NotBefore time.Time
	// Progress is the progress of the current snapshot.
	Progress
	// HistoryFault is the error from fetching history, or "" if it succeeded or was not tried yet.
	HistoryFault string
	// Lacking is the reason why answers may fail because of missing objects. It is "" if none is missing,
	// or if the fetch budget has ended and the store is slow but answers (edge/README.md, "Listeners").
	Lacking string
}

// Progress describes how much of a snapshot is on this machine.
type Progress struct {
	// Missing is the number of objects that are not on this machine yet. MissingHistory is the number of
	// history objects that are still to be prefetched, after all other objects.
	Missing, MissingHistory int64
	// OffDisk is the number of objects that were missing in the disk copy after all had been fetched, because
	// the copy was unwritable or its bound is too small.
	OffDisk int64
}

// Counters contains totals since startup, for metrics and tests.
type Counters struct {
	Polls       atomic.Int64
	PollErrors  atomic.Int64
	NotModified atomic.Int64
	Swaps       atomic.Int64
	Refused     atomic.Int64 // refused pointers
	// SwapLag and SwapWork are the Lag and Work of the last Swap. Activation is the Lag of the last swap with an
	// activation time; the swap to the first snapshot does not count.
	SwapLag, SwapWork, Activation atomic.Int64 // nanoseconds
}

// Status returns the result of the last polls.
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
