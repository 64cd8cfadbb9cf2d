package snapshot

import (
	"context"
	"fmt"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/follow"
)

// untilBack returns when the store, which is away, gives the pointer again. It asks
// with short and even pauses, so that all edges of a fleet come back together, and
// beside probes that have no answer yet: what an outage swallowed is answered never,
// or much later. Meanwhile the change record, which may be there, is asked for with
// longer and longer pauses, as often as the fault is reported.
func (r *Refresher) untilBack(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	reading := make(slots, 1)
	defer func() { reading <- struct{}{} }() // what it reads belongs to the goroutine of Run
	defer cancel()
	known := r.pointer
	probes := follow.Probe(ctx, min(follow.ProbeEvery, r.cfg.Poll), r.probeSlots, r.background.Go,
		func(ctx context.Context) error {
			r.Counters.Polls.Add(1)
			if err := r.cells.Learn(ctx); err != nil {
				return err
			}
			if _, _, err := r.cells.Read(ctx, artifacts.CurrentKey, known); err != nil {
				return fmt.Errorf("pointer: %w", err)
			}
			return nil
		})
	reports := r.backOff()
	report := time.After(reports.NextBackOff())
	var last error
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-probes:
			if !follow.IsAway(err) {
				return
			}
			r.Counters.PollErrors.Add(1)
			last = err
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
