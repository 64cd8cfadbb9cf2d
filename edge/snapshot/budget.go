package snapshot

import (
	"fmt"
	"time"

	"example.com/marketdata/edge/shards"
)

// sample is the number of lookups through a handle for each lookup through the cache. A lookup through the
// cache shows it which shards are hot.
const sample = 64

// Budget bounds the total time that an answer may wait for shards and slots.
type Budget struct {
	Wait     time.Duration
	deadline time.Time // zero before the first wait
}

var errLate = fmt.Errorf("%w: it took too long", shards.ErrUnavailable)

// Check returns an error that wraps shards.ErrUnavailable if Wait has passed since the first wait or check.
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

// Enter acquires the given semaphore, which bounds concurrent work, by sending to it. It waits within the
// budget. The caller must receive from the semaphore when the work is done. Errors wrap shards.ErrUnavailable.
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
