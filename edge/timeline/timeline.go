package timeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// The errors for pins without a snapshot (INTERFACE.md, "Pinned paging").
var (
	// ErrUneven means that no snapshot has such a time (400).
	ErrUneven = errors.New("pin is not a whole multiple of ten minutes")
	// ErrGone means that the time is past and not retained, or was withdrawn (410).
	ErrGone = errors.New("snapshot is not retained")
	// ErrAhead means that there can be no snapshot of this time yet (400).
	ErrAhead = errors.New("pin is too far in the future")
	// ErrLater means that the snapshot may exist, but has not arrived at this edge (503, after a
	// wait).
	ErrLater = errors.New("snapshot has not arrived")
	// ErrUnknown means that the store has not answered yet.
	ErrUnknown = errors.New("the store has not answered yet")
)

// pinAhead is how far a pin may be ahead of the clock or the newest snapshot, whichever is later. It is one
// step plus two minutes for clocks that disagree.
const pinAhead = 12 * time.Minute

// Facts contains the properties of a snapshot that a Timeline needs. The owner's snapshot type embeds Facts.
type Facts struct {
	// Store and Sequence are taken from the pointer. They are zero for a snapshot that was loaded for a pin.
	Store    string
	Sequence uint64
	Time     time.Time
	Manifest artifacts.Digest
	// Retained lists the earlier snapshots that may be pinned, newest first.
	Retained []artifacts.Retained
	// Withdrawn lists the withdrawn times. A restore withdraws all times up to and including WithdrawnThrough.
	Withdrawn        []time.Time
	WithdrawnThrough time.Time
}

func (f *Facts) facts() *Facts { return f }

// retained returns the manifest of the snapshot of time t, if f retains it.
func (f *Facts) retained(t time.Time) (artifacts.Ref, bool) {
	for _, r := range f.Retained {
		if r.Time.Equal(t) {
			return r.Manifest, true
		}
	}
	return artifacts.Ref{}, false
}

// withdraw adds newest.Time and the times in newest.Retained and newest.Withdrawn to f.Withdrawn. It leaves
// out times up to f.Time.
func (f *Facts) withdraw(newest *Facts) {
	gone := append([]time.Time{newest.Time}, newest.Withdrawn...)
	for _, r := range newest.Retained {
		gone = append(gone, r.Time)
	}
	gone = slices.DeleteFunc(gone, func(t time.Time) bool {
		return !t.After(f.Time) || slices.ContainsFunc(f.Withdrawn, t.Equal)
	})
	f.Withdrawn = append(slices.Clip(f.Withdrawn), gone...)
}

// Snapshot is a pointer to a struct that embeds Facts.
type Snapshot interface {
	comparable
	facts() *Facts
}

// Timeline is the order of snapshots on one edge. The zero value with Budget set is empty. The time that its
// methods take as "now" must have a monotonic clock reading. wallNow is the current time by the clock that all
// edges share.
type Timeline[S Snapshot] struct {
	// Budget is the time for fetching the objects of a snapshot, after which it may become current with
	// objects missing.
	Budget time.Duration

	known     bool // the store has answered
	current   S
	waiting   []waiting[S] // in the order of their pointers
	loaded    map[artifacts.Digest]S
	notBefore time.Time
	candidate candidate
}

// waiting is a snapshot that is ready, but not current yet.
type waiting[S Snapshot] struct {
	snapshot S
	due      time.Time // zero means immediately
}

// candidate is the snapshot that is being fetched.
type candidate struct {
	manifest artifacts.Digest
	seen     time.Time // when its pointer was first seen
	deadline time.Time // the deadline of this attempt; zero if none is under way
	damaged  bool      // one of its objects is damaged, so it must not become current with objects missing
}

// Action is what the owner must do about a pointer.
type Action int

// The actions.
const (
	Ignore  Action = iota // its snapshot is already waiting
	Confirm               // its snapshot is current, but the pointer may have a new signature
	Fetch                 // its snapshot is new
)

// Seen processes a pointer from the store. It returns an error if the pointer must be refused.
func (t *Timeline[S]) Seen(p *artifacts.Pointer, now time.Time) (Action, error) {
	var none S
	if newest := t.Newest(); newest != none {
		switch f := newest.facts(); {
		case p.Store != f.Store || p.Sequence > f.Sequence:
		case p.Sequence < f.Sequence:
			return Ignore, fmt.Errorf("sequence %d is lower than the current %d", p.Sequence, f.Sequence)
		case p.Manifest.Digest != f.Manifest:
			return Ignore, fmt.Errorf("sequence %d now names another manifest", p.Sequence)
		case newest == t.current:
			return Confirm, nil
		default:
			return Ignore, nil
		}
	}
	if t.candidate.manifest != p.Manifest.Digest {
		t.candidate = candidate{manifest: p.Manifest.Digest, seen: now}
	}
	return Fetch, nil
}

// Fetching records that the owner begins or continues to fetch the objects of the snapshot last seen, and
// returns the deadline. A zero deadline means that the snapshot need not wait for objects. begun reports
// whether a new budget began.
func (t *Timeline[S]) Fetching(now time.Time) (deadline time.Time, begun bool) {
	var none S
	if t.Newest() == none {
		return time.Time{}, false
	}
	if begun = t.candidate.deadline.IsZero(); begun {
		t.candidate.deadline = now.Add(t.Budget)
	}
	return t.candidate.deadline, begun
}

// Verdict is what the owner must do after a round of fetching.
type Verdict int

// The verdicts.
const (
	Retry       Verdict = iota // try again at the next poll
	Unreachable                // like Retry; the store does not answer
	Accept
)

// Fetched processes the end of a round of fetching. missingObjects is the number of objects that still have to
// be fetched. If anyDamaged is set, one of them is damaged or missing in the store. If storeAnswers is set, the
// store returned other objects recently. Each new attempt has a full budget: with the remainder of an old one,
// every store would look slow.
func (t *Timeline[S]) Fetched(missingObjects int, anyDamaged, storeAnswers bool, now time.Time) Verdict {
	c := &t.candidate
	c.damaged = c.damaged || anyDamaged
	if missingObjects > 0 && !c.damaged && now.Before(c.deadline) {
		return Retry
	}
	c.deadline = time.Time{}
	switch {
	case missingObjects == 0:
		return Accept
	case c.damaged:
		return Retry
	case !storeAnswers:
		return Unreachable
	}
	return Accept
}

// Plan is the decision about a snapshot that is ready.
type Plan[S Snapshot] struct {
	// Wait is the time until it is due; 0 means immediately. Work is the time since its pointer was first
	// seen.
	Wait, Work time.Duration
	// Timed means that its pointer sets an activation time, and was first seen before that. The first
	// snapshot is never timed.
	Timed bool
	// Dropped lists the waiting snapshots that a rollback dropped.
	Dropped []S
}

// Ready schedules s, which was accepted. activateAt is the activation time of its pointer, or zero.
func (t *Timeline[S]) Ready(s S, activateAt, wallNow, now time.Time) (plan Plan[S]) {
	var none S
	f, newest := s.facts(), t.Newest()
	plan.Work = now.Sub(t.candidate.seen)
	if newest != none {
		f.withdraw(newest.facts())
	}
	if newest != none && !f.Time.After(newest.facts().Time) {
		plan.Dropped = t.End()
	} else if !activateAt.IsZero() {
		// The wait is by the wall clock, on which the edges of a fleet agree, but the monotonic clock limits
		// it.
		left := activateAt.Sub(wallNow)
		plan.Wait = max(0, min(left, artifacts.MaxActivateAfter-plan.Work))
		plan.Timed = newest != none && left+plan.Work > 0
	}
	t.candidate = candidate{}
	due := time.Time{}
	switch {
	case plan.Wait == 0:
		t.notBefore = time.Time{}
	case newest == none:
		t.notBefore, plan.Wait = now.Add(plan.Wait), 0
	default:
		due = now.Add(plan.Wait)
	}
	t.waiting = append(t.waiting, waiting[S]{s, due})
	return plan
}

// Change is a step of the timeline, in which Current replaced Previous.
type Change[S Snapshot] struct {
	Current, Previous S
	// Dropped lists snapshots that can no longer be pinned. Retained lists loaded snapshots that
	// can still be pinned.
	Dropped, Retained []S
}

// Advance makes the next snapshot current if it or a later one is due, and reports whether it did. The caller
// must repeat the call until Advance returns false.
func (t *Timeline[S]) Advance(now time.Time) (c Change[S], ok bool) {
	due := func(w waiting[S]) bool { return !w.due.After(now) }
	if !slices.ContainsFunc(t.waiting, due) {
		return c, false
	}
	var none S
	c.Previous, c.Current = t.current, t.waiting[0].snapshot
	t.known, t.current, t.waiting = true, c.Current, slices.Delete(t.waiting, 0, 1)
	old := t.loaded
	t.loaded = map[artifacts.Digest]S{}
	if c.Previous != none {
		old[c.Previous.facts().Manifest] = c.Previous
	}
	for digest, s := range old {
		if t.mayLoad(s) {
			t.loaded[digest], c.Retained = s, append(c.Retained, s)
		} else {
			c.Dropped = append(c.Dropped, s)
		}
	}
	return c, true
}

// mayLoad reports whether the current snapshot retains s, so that it may be pinned.
func (t *Timeline[S]) mayLoad(s S) bool {
	f := s.facts()
	ref, ok := t.current.facts().retained(f.Time)
	return ok && ref.Digest == f.Manifest
}

// Pin returns the snapshot with the given time. If that snapshot is retained but not loaded, Pin returns nil
// and the manifest to load it from.
func (t *Timeline[S]) Pin(at, wallNow time.Time) (s S, manifest artifacts.Ref, err error) {
	var none S
	latest := wallNow
	if t.current != none {
		cur := t.current.facts()
		if at.Equal(cur.Time) {
			return t.current, manifest, nil
		}
		if ref, ok := cur.retained(at); ok {
			return t.loaded[ref.Digest], ref, nil
		}
		for _, w := range t.waiting {
			if at.Equal(w.snapshot.facts().Time) {
				return w.snapshot, manifest, nil
			}
		}
		if newest := t.Newest().facts().Time; newest.After(latest) {
			latest = newest
		}
	}
	switch {
	case !at.Equal(at.Truncate(artifacts.Step)):
		err = ErrUneven
	case t.current != none && t.gone(at):
		err = ErrGone
	case at.Sub(latest) > pinAhead:
		err = ErrAhead
	case !t.known:
		err = ErrUnknown
	default:
		err = ErrLater
	}
	return none, manifest, err
}

// gone reports whether a snapshot with the given time is gone for good.
func (t *Timeline[S]) gone(at time.Time) bool {
	cur := t.current.facts()
	return at.Before(cur.Time) || !at.After(cur.WithdrawnThrough) || slices.ContainsFunc(cur.Withdrawn, at.Equal)
}

// Loaded keeps s, which was loaded for a pin, and reports whether it did. It does not keep s if s is no
// longer retained, or is already loaded.
func (t *Timeline[S]) Loaded(s S) bool {
	var none S
	if t.current == none || !t.mayLoad(s) || t.loaded[s.facts().Manifest] != none {
		return false
	}
	t.loaded[s.facts().Manifest] = s
	return true
}

// Empty records that the store answers without a snapshot.
func (t *Timeline[S]) Empty() { t.known = true }

// End drops all waiting snapshots and returns them.
func (t *Timeline[S]) End() (dropped []S) {
	for _, w := range t.waiting {
		dropped = append(dropped, w.snapshot)
	}
	t.waiting = nil
	return dropped
}

// Newest returns the last waiting snapshot or, if none waits, the current one. It returns nil if there is
// none.
func (t *Timeline[S]) Newest() S {
	if n := len(t.waiting); n > 0 {
		return t.waiting[n-1].snapshot
	}
	return t.current
}

// NotBefore returns the activation time of the first snapshot. It returns zero if that snapshot has none, or
// if there are later snapshots.
func (t *Timeline[S]) NotBefore() time.Time { return t.notBefore }

// Held returns all snapshots that are not dropped: the current one, the waiting ones in order, and the loaded
// ones.
func (t *Timeline[S]) Held() (held []S) {
	var none S
	if t.current != none {
		held = append(held, t.current)
	}
	for _, w := range t.waiting {
		held = append(held, w.snapshot)
	}
	return slices.AppendSeq(held, maps.Values(t.loaded))
}
