package snapshot

import (
	"fmt"
	"time"

	"example.com/marketdata/edge/shards"
)

// sample is how many looks at a slot there are to one that asks the cache, so
// that it learns what is hot.
const sample = 64

// Budget bounds how long one answer may wait for what is not in memory, all its
// waits together.
type Budget struct {
	Wait     time.Duration
	deadline time.Time // zero before the first wait
}

var errLate = fmt.Errorf("%w: it took too long", shards.ErrUnavailable)

func (b *Budget) late() bool {
	now := time.Now()
	if b.deadline.IsZero() {
		b.deadline = now.Add(b.Wait)
	}
	return now.After(b.deadline)
}

// Enter takes one of the places, and waits for one within the budget. Who leaves
// receives from places. Errors wrap shards.ErrUnavailable.
func (b *Budget) Enter(places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	if b.late() {
		return errLate
	}
	timer := time.NewTimer(time.Until(b.deadline))
	defer timer.Stop()
	select {
	case places <- struct{}{}:
		return nil
	case <-timer.C:
		return errLate
	}
}
