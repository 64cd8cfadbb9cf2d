package snapshot

import (
	"fmt"
	"time"

	"example.com/marketdata/edge/shards"
)

// sample is how many look-ups go past the cache for each one that goes to it, so that it
// learns which shards are hot.
const sample = 64

// Budget bounds how long one answer may wait, in total, for shards that are not in memory.
type Budget struct {
	Wait     time.Duration
	deadline time.Time // zero before the first wait
}

var errLate = fmt.Errorf("%w: it took too long", shards.ErrUnavailable)

// Check returns an error that wraps shards.ErrUnavailable once Wait has passed since the
// first wait or check.
func (b *Budget) Check() error {
	if b.late() {
		return errLate
	}
	return nil
}

func (b *Budget) late() bool {
	now := time.Now()
	if b.deadline.IsZero() {
		b.deadline = now.Add(b.Wait)
	}
	return now.After(b.deadline)
}

// Enter sends to running, which bounds how many callers work at once, and waits within the
// budget until it can. The caller receives from running when it is done. Errors wrap
// shards.ErrUnavailable.
func (b *Budget) Enter(running chan struct{}) error {
	select {
	case running <- struct{}{}:
		return nil
	default:
	}
	if b.late() {
		return errLate
	}
	timer := time.NewTimer(time.Until(b.deadline))
	defer timer.Stop()
	select {
	case running <- struct{}{}:
		return nil
	case <-timer.C:
		return errLate
	}
}
