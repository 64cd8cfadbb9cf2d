package snapshot

import (
	"context"
	"errors"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// Why a pinned snapshot cannot answer (INTERFACE.md, "Pinned paging").
var (
	// ErrUneven: no snapshot has such a time (400).
	ErrUneven = errors.New("pin is not a whole multiple of ten minutes")
	// ErrGone: a time that is past and not retained, or was withdrawn (410).
	ErrGone = errors.New("snapshot is not retained")
	// ErrAhead: a time of which there can be no snapshot yet (400).
	ErrAhead = errors.New("pin is too far in the future")
	// ErrLater: a time that this edge has not reached, nor did within the time
	// that a request waits (503).
	ErrLater = errors.New("snapshot has not arrived")

	errUnknown = errors.New("nothing is known of the store yet")
)

const (
	// pinWait is how long a request waits for a snapshot that another edge has
	// already.
	pinWait = time.Second
	// pinAhead is how far a pin may be past the later of this edge's clock and
	// the snapshot in force: one step, and two minutes for clocks that disagree.
	pinAhead = 12 * time.Minute
	// pinPolls is the shortest time between two polls for the sake of pins: all
	// requests that begin to wait within it share the next one, whatever they
	// wait for.
	pinPolls = pinWait / 2
	// maxWaiting bounds the requests that wait; one more gets ErrLater at once.
	// It is several times what a key with the default limit can have waiting.
	maxWaiting = 1024
)

// load is one reading of a retained snapshot, which all who ask for it share.
type load struct {
	done chan struct{}
	s    *Snapshot
	err  error
}

// Pinned returns the snapshot of t as INTERFACE.md, "Pinned paging" has it.
// When t may have been published and is not known here, it polls at once and
// waits for up to a second. Errors other than the four above mean that the
// snapshot is retained, or nothing is known of any, and it cannot be read at
// the moment.
func (r *Refresher) Pinned(ctx context.Context, t time.Time) (*Snapshot, error) {
	if s, settled, err := r.pinned(ctx, t); settled {
		return s, err
	}
	defer r.waiting.Add(-1)
	if r.waiting.Add(1) > maxWaiting {
		return nil, ErrLater
	}
	timer := time.NewTimer(pinWait)
	defer timer.Stop()
	var again <-chan time.Time
	if wait := r.pollForPin(); wait > 0 {
		again = time.After(wait)
	}
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		// Between the look before and the channel the state may have moved.
		if s, settled, err := r.pinned(ctx, t); settled {
			return s, err
		}
		select {
		case <-changed:
		case <-again: // if nobody else has by now
			r.pollForPin()
		case <-timer.C:
			return nil, ErrLater
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Current returns the time of the current snapshot as in X-Snapshot-Time, nil before
// the first one, and a channel that is closed when it may be another.
func (r *Refresher) Current() (t []byte, changed <-chan struct{}) {
	r.mu.Lock()
	changed = r.changed
	r.mu.Unlock()
	// Read behind the channel, so that no change is missed.
	if s := r.current(); s != nil {
		t = s.TimeText
	}
	return t, changed
}

// pollForPin has Run poll now. When a pin had it do so a moment ago, it does
// nothing and returns the time until it may again.
func (r *Refresher) pollForPin() (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if wait = r.kicked.Add(pinPolls).Sub(now); wait > 0 {
		return wait
	}
	r.kicked = now
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return 0
}

// pinned is Pinned without waiting for what is yet to come: then settled is
// false.
func (r *Refresher) pinned(ctx context.Context, t time.Time) (s *Snapshot, settled bool, err error) {
	newest := r.cfg.Now()
	cur := r.current()
	if cur != nil {
		if t.Equal(cur.Time) {
			return cur, true, nil
		}
		if ref, ok := cur.retained(t); ok {
			s, err = r.retainedAt(ctx, t, ref)
			return s, true, err
		}
		if s := r.waits(t); s != nil {
			return s, true, nil
		}
		if last := r.newest(); last.Time.After(newest) {
			newest = last.Time
		}
	}
	switch {
	case !t.Equal(t.Truncate(artifacts.Step)):
		return nil, true, ErrUneven
	case cur != nil && (t.Before(cur.Time) || !t.After(cur.WithdrawnThrough) || slices.ContainsFunc(cur.Withdrawn, t.Equal)):
		return nil, true, ErrGone
	case t.Sub(newest) > pinAhead:
		return nil, true, ErrAhead
	case r.State() == nil:
		return nil, true, errUnknown
	}
	return nil, false, nil
}

// withdraw adds to s.Withdrawn what is later than s and was known here: a restore
// takes times back, too, and its manifest is of before them. cur may be nil.
func (s *Snapshot) withdraw(cur *Snapshot) {
	if cur == nil {
		return
	}
	gone := append([]time.Time{cur.Time}, cur.Withdrawn...)
	for _, r := range cur.Retained {
		gone = append(gone, r.Time)
	}
	gone = slices.DeleteFunc(gone, func(t time.Time) bool { return !t.After(s.Time) || slices.Contains(s.Withdrawn, t) })
	s.Withdrawn = append(slices.Clip(s.Withdrawn), gone...)
}

// retainedAt returns the retained snapshot of t, reading it if need be.
func (r *Refresher) retainedAt(ctx context.Context, t time.Time, ref artifacts.Ref) (*Snapshot, error) {
	unix := t.Unix()
	r.mu.Lock()
	if s := r.pinnable[unix]; s != nil && s.Manifest == ref.Digest {
		r.mu.Unlock()
		return s, nil
	}
	l := r.loading[unix]
	if l == nil {
		l = &load{done: make(chan struct{})}
		r.loading[unix] = l
		r.background.Go(func() { r.readPinned(l, unix, ref) })
	}
	r.mu.Unlock()
	select {
	case <-l.done:
		return l.s, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *Refresher) readPinned(l *load, unix int64, ref artifacts.Ref) {
	s, raw, err := r.load(context.Background(), ref)
	if err == nil {
		r.keepManifest(ref.Digest, raw)
	}
	var replaced *Snapshot // of another manifest of the same time, from before a rollback
	r.mu.Lock()
	delete(r.loading, unix)
	l.s, l.err = s, err
	if err == nil {
		replaced, r.pinnable[unix] = r.pinnable[unix], s
	}
	close(l.done)
	r.mu.Unlock()
	if replaced != nil {
		replaced.release()
	}
}
