package snapshot

import (
	"context"
	"errors"
	"time"

	"example.com/marketdata/artifacts"
)

// Why a pinned snapshot cannot answer.
var (
	// ErrGone: a time that is past and not retained (410).
	ErrGone = errors.New("snapshot is not retained")
	// ErrLater: a time that this edge has not reached, nor did within the time
	// that a request waits (503).
	ErrLater = errors.New("snapshot has not arrived")
)

// PinWait is how long a request waits for a snapshot that another edge has
// already (contract section 8).
const PinWait = time.Second

// load is one reading of a retained snapshot, which all who ask for it share.
type load struct {
	done chan struct{}
	s    *Snapshot
	err  error
}

// Pinned returns the snapshot of t as contract section 8 has it. When t is
// later than the current snapshot it polls at once and waits for up to PinWait.
// Errors other than ErrGone and ErrLater mean that the snapshot is retained
// and not to be had at the moment.
func (r *Refresher) Pinned(ctx context.Context, t time.Time) (*Snapshot, error) {
	if s, settled, err := r.pinned(ctx, t); settled {
		return s, err
	}
	timer := time.NewTimer(PinWait)
	defer timer.Stop()
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		// Between the look before and the channel the state may have moved.
		if s, settled, err := r.pinned(ctx, t); settled {
			return s, err
		}
		select {
		case r.kick <- struct{}{}:
		default:
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, ErrLater
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// pinned is Pinned without waiting for what is yet to come: then settled is
// false.
func (r *Refresher) pinned(ctx context.Context, t time.Time) (s *Snapshot, settled bool, err error) {
	cur := r.current()
	switch {
	case cur == nil:
		return nil, false, nil
	case t.Equal(cur.Time):
		return cur, true, nil
	case t.After(cur.Time):
		for _, w := range cur.Withdrawn {
			if w.Equal(t) {
				return nil, true, ErrGone
			}
		}
		return nil, false, nil
	}
	ref, ok := cur.retained(t)
	if !ok {
		return nil, true, ErrGone
	}
	s, err = r.hold(ctx, t, ref)
	return s, true, err
}

// hold returns the retained snapshot of t, reading it if need be.
func (r *Refresher) hold(ctx context.Context, t time.Time, ref artifacts.Ref) (*Snapshot, error) {
	unix := t.Unix()
	r.mu.Lock()
	if s := r.held[unix]; s != nil && s.Manifest == ref.Digest {
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
		replaced, r.held[unix] = r.held[unix], s
	}
	close(l.done)
	r.mu.Unlock()
	if replaced != nil {
		replaced.Release()
	}
}
