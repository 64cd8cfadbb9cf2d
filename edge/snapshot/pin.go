package snapshot

import (
	"context"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/timeline"
)

// The errors for pins without a snapshot; see package timeline.
var (
	ErrUneven = timeline.ErrUneven
	ErrGone   = timeline.ErrGone
	ErrAhead  = timeline.ErrAhead
	ErrLater  = timeline.ErrLater
)

const (
	// pinWait is how long a request waits for a snapshot that another edge may already have.
	pinWait = time.Second
	// pinPolls is the shortest interval between two polls that pins cause. All requests that start to wait
	// within this interval share the next poll, whatever they wait for.
	pinPolls = pinWait / 2
	// maxWaiting bounds the number of waiting requests. Further requests get ErrLater immediately. It is
	// several times the number of waiting requests that a key with the default limit can have.
	maxWaiting = 1024
)

// load is a running load of a retained snapshot. All requests for the snapshot share it.
type load struct {
	done chan struct{}
	s    *Snapshot
	err  error
}

// Pinned returns the snapshot of time t by the rules of INTERFACE.md, "Pinned paging". If the snapshot may
// exist but has not arrived here, Pinned polls immediately and waits up to a second. Errors other than
// ErrUneven, ErrGone, ErrAhead and ErrLater mean that the snapshot is retained but cannot be read at the
// moment, or that the store has not answered yet.
func (r *Refresher) Pinned(ctx context.Context, t time.Time) (*Snapshot, error) {
	if s, err := r.pinned(ctx, t); err != ErrLater {
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
		// Check again, because the state may have changed before r.changed was read.
		if s, err := r.pinned(ctx, t); err != ErrLater {
			return s, err
		}
		select {
		case <-changed:
		case <-again:
			r.pollForPin()
		case <-timer.C:
			return nil, ErrLater
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Current returns the time of the current snapshot in the form of X-Snapshot-Time, and the number of its
// changes. t is nil before the first snapshot, and changeCount is -1 if the number is unknown. The channel is
// closed when the snapshot may have changed.
func (r *Refresher) Current() (t []byte, changeCount int, changed <-chan struct{}) {
	r.mu.Lock()
	changed = r.changed
	r.mu.Unlock()
	// Read after the channel, so that no change is missed.
	changeCount = -1
	if s := r.current(); s != nil {
		if t = s.TimeText; s.changes != nil {
			changeCount = s.changes.Count
		}
	}
	return t, changeCount, changed
}

// Notice returns the notice of the current snapshot, or nil if it has none (INTERFACE.md, "Global").
func (r *Refresher) Notice() []byte {
	if s := r.current(); s != nil {
		return s.Notice
	}
	return nil
}

// pollForPin makes Run poll now. If a pin already did so less than pinPolls ago, pollForPin does nothing and
// returns the time until the next poll is allowed.
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

// pinned is like Pinned, but does not wait. ErrLater means that the snapshot may still arrive.
func (r *Refresher) pinned(ctx context.Context, t time.Time) (*Snapshot, error) {
	if cur := r.current(); cur != nil && t.Equal(cur.Time) {
		return cur, nil
	}
	r.mu.Lock()
	s, ref, err := r.timeline.Pin(t, r.cfg.Now())
	if s != nil || err != nil {
		r.mu.Unlock()
		return s, err
	}
	l := r.loading[ref.Digest]
	if l == nil {
		l = &load{done: make(chan struct{})}
		r.loading[ref.Digest] = l
		r.background.Go(func() { r.readPinned(l, ref) })
	}
	r.mu.Unlock()
	select {
	case <-l.done:
		return l.s, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readPinned performs the load l.
func (r *Refresher) readPinned(l *load, ref artifacts.Ref) {
	s, raw, err := r.load(context.Background(), ref)
	if err == nil {
		r.keepManifest("a pin", ref.Digest, raw)
	}
	r.mu.Lock()
	delete(r.loading, ref.Digest)
	l.s, l.err = s, err
	dropped := err == nil && !r.timeline.Loaded(s)
	close(l.done)
	r.mu.Unlock()
	if dropped {
		s.release()
	}
}
