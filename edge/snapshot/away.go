package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/marketdata/artifacts"
)

const (
	// probeEvery is the time between two probes of a store that is away. Edges see that
	// it is back within this time of each other, and have to fetch and to verify a
	// snapshot in what is left of a second. At rest an edge asks about as often.
	probeEvery = 500 * time.Millisecond
	// maxProbes bounds the probes that run at once: as many as begin within Timeout,
	// and some, so that a store that hangs is asked by a fresh probe all the while.
	maxProbes = 12
)

// awayError says that the store gave no answer about a small object.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

func isAway(err error) bool {
	var e awayError
	return errors.As(err, &e)
}

// answered reports whether err is an answer of the store.
func answered(err error) bool {
	return errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, artifacts.ErrNotModified) ||
		errors.Is(err, artifacts.ErrTooLarge)
}

// untilBack returns when the store, which is away, gives the pointer again. It asks
// with short and even pauses, so that all edges of a fleet come back together, and
// beside probes that have no answer yet: what an outage swallowed is answered never,
// or much later. Meanwhile the change record, which may be there, is asked for with
// longer and longer pauses, as often as the fault is reported.
func (r *Refresher) untilBack(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan error)
	reading := make(slots, 1)
	defer func() { reading <- struct{}{} }() // what it reads belongs to the goroutine of Run
	defer cancel()
	probes := time.NewTicker(min(probeEvery, r.cfg.Poll))
	defer probes.Stop()
	reports := r.backOff()
	report := time.After(reports.NextBackOff())
	var last error
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-results:
			if !isAway(err) {
				return
			}
			r.Counters.PollErrors.Add(1)
			last = err
		case <-probes.C:
			r.beginProbe(ctx, results)
		case <-report:
			report = time.After(reports.NextBackOff())
			if last != nil {
				r.fail(last)
			}
			select {
			case reading <- struct{}{}:
				r.background.Go(func() {
					_ = r.pollChange(ctx) // the pointer is the greater fault
					<-reading
				})
			default:
			}
		}
	}
}

// beginProbe asks for the pointer in the background, unless too many do so already.
func (r *Refresher) beginProbe(ctx context.Context, results chan<- error) {
	select {
	case r.probeSlots <- struct{}{}:
	default:
		return
	}
	r.Counters.Polls.Add(1)
	known := r.pointer
	r.background.Go(func() {
		defer func() { <-r.probeSlots }()
		err := r.learn(ctx)
		if err == nil {
			if _, _, err = r.small(ctx, artifacts.CurrentKey, known); err != nil {
				err = fmt.Errorf("pointer: %w", err)
			}
		}
		select {
		case results <- err:
		case <-ctx.Done():
		}
	})
}
