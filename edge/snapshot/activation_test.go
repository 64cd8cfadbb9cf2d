package snapshot

import (
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/teststore"
)

// activateIn returns an option that sets the pointer's activation time to d from now.
func activateIn(d time.Duration) teststore.Option {
	return teststore.Edit(func(p *artifacts.Pointer) {
		p.Published = time.Now().UTC()
		p.ActivateAt = p.Published.Add(d)
	})
}

// TestActivation checks that the Refresher carries out its timeline's decisions. A snapshot becomes current
// at its activation time and not before. Pins on it are answered as soon as it is ready. A snapshot without
// an activation time makes all earlier ones current first. A rollback becomes current immediately.
func TestActivation(t *testing.T) {
	mem := memstore.New()
	r := start(t, mem, t.TempDir(), nil)
	ready := func(at time.Time) func() bool {
		return func() bool { s := r.newest(); return s != nil && s.Time.Equal(at) }
	}
	// The edge answers from the first snapshot immediately, but becomes ready later.
	first := teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start, activateIn(time.Hour))
	r.until(t, "the first snapshot", r.at(teststore.Start))
	if left := time.Until(r.Status().NotBefore); left < artifacts.MaxActivateAfter/2 ||
		left > artifacts.MaxActivateAfter {
		t.Errorf("ready in %v, want five minutes at most", left)
	}
	second := teststore.Publish(t, mem, teststore.NewFeed(50, 2), next(first), activateIn(time.Hour))
	r.until(t, "the second snapshot is ready", ready(next(first)))
	pinned := func(p *teststore.Published) {
		t.Helper()
		if s, err := r.Pinned(t.Context(), p.Manifest.Time); err != nil || s.Manifest != p.Pointer.Manifest.Digest {
			t.Errorf("pin of %v: %v", p.Manifest.Time, err)
		}
	}
	pinned(first)
	pinned(second)
	r.polled(t, 3)
	if !r.at(teststore.Start)() {
		t.Fatal("the second snapshot is current before its time")
	}
	// The third has no activation time, so both become current, the second one first.
	third := teststore.Publish(t, mem, teststore.NewFeed(50, 3), next(second))
	r.until(t, "the third snapshot", r.at(next(second)))
	if n := r.Counters.Swaps.Load(); n != 3 {
		t.Errorf("%d swaps, want 3", n)
	}
	pinned(second)
	// A rollback drops the waiting snapshots.
	fourth := teststore.Publish(t, mem, teststore.NewFeed(50, 4), next(third), activateIn(time.Hour))
	r.until(t, "the fourth snapshot is ready", ready(next(third)))
	teststore.Rollback(t, mem, second.Manifest.Time, activateIn(time.Hour))
	r.until(t, "the rollback", r.at(second.Manifest.Time))
	if _, err := r.Pinned(t.Context(), next(third)); err != ErrGone {
		t.Errorf("pin of what was dropped: %v", err)
	}
	// This snapshot becomes current by its own timer.
	sixth := teststore.Publish(t, mem, teststore.NewFeed(50, 5), next(fourth), activateIn(300*time.Millisecond))
	r.until(t, "the sixth snapshot", r.at(sixth.Manifest.Time))
	if early := time.Until(sixth.Pointer.ActivateAt); early > 0 {
		t.Errorf("current %v early", early)
	}
	r.until(t, "nothing waits", func() bool { return r.newest() == r.current() })
	// Waiting snapshots are dropped when the refresher ends.
	teststore.Publish(t, mem, teststore.NewFeed(50, 6), next(sixth), activateIn(time.Hour))
	r.until(t, "the seventh snapshot is ready", ready(next(sixth)))
}

// TestActivationLate checks that each Swap says whether its snapshot had an activation time, and how late it
// became current.
func TestActivationLate(t *testing.T) {
	mem := memstore.New()
	swaps := make(chan Swap, 10)
	r := start(t, mem, t.TempDir(), func(c *Config, _ *store) { c.Swapped = func(s Swap) { swaps <- s } })
	first := teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start, activateIn(time.Hour))
	if s := <-swaps; s.Timed || r.Counters.Activation.Load() != 0 {
		t.Errorf("the first: %+v", s)
	}
	// The second snapshot is seen before its activation time, but is ready only after it.
	r.store.set(func(key artifacts.Key, b []byte, err error) ([]byte, error) {
		if key == artifacts.CurrentKey {
			return b, err
		}
		return nil, errAway
	})
	second := teststore.Publish(t, mem, teststore.NewFeed(50, 2), next(first), activateIn(500*time.Millisecond))
	r.until(t, "it is seen, and its time is over", func() bool {
		return r.Counters.Refused.Load() > 0 && time.Now().After(second.Pointer.ActivateAt)
	})
	r.store.set(nil)
	if s := <-swaps; !s.Timed || s.Lag <= 0 || r.Counters.Activation.Load() != int64(s.Lag) {
		t.Errorf("late: %+v", s)
	}
	teststore.Publish(t, mem, teststore.NewFeed(50, 3), next(second))
	if s := <-swaps; s.Timed {
		t.Errorf("without a time: %+v", s)
	}
	if !r.Status().NotBefore.IsZero() {
		t.Error("a later snapshot is current, and the edge waits for the time of the first")
	}
}
