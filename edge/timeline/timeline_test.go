package timeline

import (
	"errors"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
)

// snapshot is what an owner of a timeline holds.
type snapshot struct{ Facts }

// TestPinErrors: each pin that cannot be answered has the first reason in INTERFACE.md,
// "Pinned paging"'s order.
func TestPinErrors(t *testing.T) {
	const step, day = artifacts.Step, 24 * time.Hour
	newest := time.Date(2026, 11, 21, 10, 10, 0, 0, time.UTC)
	at := func(f Facts) *Timeline[*snapshot] {
		f.Time = newest
		var line Timeline[*snapshot]
		line.Ready(&snapshot{f}, time.Time{}, newest, newest)
		line.Advance(newest)
		return &line
	}
	before, empty, plain := &Timeline[*snapshot]{}, &Timeline[*snapshot]{}, at(Facts{})
	empty.Empty()
	back := at(Facts{Withdrawn: []time.Time{newest.Add(step), newest.Add(day)}})
	restored := at(Facts{WithdrawnThrough: newest.Add(2 * step)})
	for _, c := range []struct {
		line     *Timeline[*snapshot]
		now, pin time.Duration // from newest
		err      error
	}{
		{back, 0, time.Second, ErrUneven},
		{back, 0, -time.Second, ErrUneven},
		{back, 0, day + time.Minute, ErrUneven},
		{empty, 0, time.Minute, ErrUneven},
		{before, 0, time.Minute, ErrUneven},
		{back, 0, -step, ErrGone},
		{back, 0, -1000 * day, ErrGone},
		{back, 0, step, ErrGone},
		{back, 0, day, ErrGone},
		{restored, time.Hour, 2 * step, ErrGone},
		{restored, time.Hour, 3 * step, ErrLater},
		// By the current snapshot, when the clock is behind.
		{plain, -time.Hour, step, ErrLater},
		{plain, -time.Hour, 2 * step, ErrAhead},
		{back, -time.Hour, 2 * step, ErrAhead},
		{back, 0, 1e6 * step, ErrAhead},
		{back, -time.Hour, 145 * step, ErrAhead},
		// By the clock: minute 20 is twelve minutes after minute 8.
		{back, 8*time.Minute - 1, 2 * step, ErrAhead},
		{back, 8 * time.Minute, 2 * step, ErrLater},
		{back, time.Hour, 2 * step, ErrLater},
		{back, 2 * day, 145 * step, ErrLater},
		{empty, 0, 2 * step, ErrAhead},
		{empty, 0, step, ErrLater},
		{empty, 0, -step, ErrLater},
		{before, 0, 2 * step, ErrAhead},
		{before, 0, step, ErrUnknown},
	} {
		s, _, err := c.line.Pin(newest.Add(c.pin), newest.Add(c.now))
		if s != nil || !errors.Is(err, c.err) {
			t.Errorf("clock %v, pin %v: %v, %v; want %v", c.now, c.pin, s, err, c.err)
		}
	}
}
