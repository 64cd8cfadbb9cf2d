package snapshot

import (
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/edge/internal/fixture"
)

// activateIn sets a time for a pointer's snapshot.
func activateIn(d time.Duration) func(*artifacts.Pointer) {
	return func(p *artifacts.Pointer) {
		p.Published = time.Now().UTC()
		p.ActivateAt = p.Published.Add(d)
	}
}

// TestActivation: a snapshot is current at its time and not before, pins on it are
// answered from when it is ready, those behind it wait for it, and a rollback is at
// once.
func TestActivation(t *testing.T) {
	mem := memstore.New()
	r := start(t, mem, t.TempDir(), nil)
	ready := func(at time.Time) func() bool {
		return func() bool { s := r.newest(); return s != nil && s.Time.Equal(at) }
	}
	// The first one is answered from at once; the edge is ready later.
	first := fixture.Publish(t, mem, fixture.Feed(50, 1), fixture.Start, nil, activateIn(time.Hour))
	r.until(t, "the first snapshot", r.at(fixture.Start))
	if left := time.Until(r.Status().NotBefore); left < artifacts.MaxActivateAfter/2 || left > artifacts.MaxActivateAfter {
		t.Errorf("ready in %v, want five minutes at most", left)
	}
	second := fixture.Publish(t, mem, fixture.Feed(50, 2), next(first), first, activateIn(time.Hour))
	r.until(t, "the second snapshot is ready", ready(next(first)))
	pinned := func(p *fixture.Published) {
		t.Helper()
		if s, err := r.Pinned(t.Context(), p.Manifest.Time); err != nil || s.Manifest != p.Pointer.Manifest.Digest {
			t.Errorf("pin of %v: %v", p.Manifest.Time, err)
		}
	}
	pinned(first)
	pinned(second)
	r.polled(t, 3)
	if !r.at(fixture.Start)() {
		t.Fatal("the second snapshot is current before its time")
	}
	// The third has no time: both are current, the second first.
	third := fixture.Publish(t, mem, fixture.Feed(50, 3), next(second), second)
	r.until(t, "the third snapshot", r.at(next(second)))
	if n := r.Counters.Swaps.Load(); n != 3 {
		t.Errorf("%d swaps, want 3", n)
	}
	pinned(second)
	// A rollback drops what waits.
	fourth := fixture.Publish(t, mem, fixture.Feed(50, 4), next(third), third, activateIn(time.Hour))
	r.until(t, "the fourth snapshot is ready", ready(next(third)))
	back := *second
	back.Pointer, back.Version = fourth.Pointer, fourth.Version
	fifth := fixture.Publish(t, mem, fixture.Feed(50, 2), second.Manifest.Time, &back)
	r.until(t, "the rollback", r.at(second.Manifest.Time))
	if _, err := r.Pinned(t.Context(), next(third)); err != ErrGone {
		t.Errorf("pin of what was dropped: %v", err)
	}
	// By its own clock.
	sixth := fixture.Publish(t, mem, fixture.Feed(50, 5), next(fourth), fifth, activateIn(300*time.Millisecond))
	r.until(t, "the sixth snapshot", r.at(sixth.Manifest.Time))
	if early := time.Until(sixth.Pointer.ActivateAt); early > 0 {
		t.Errorf("current %v early", early)
	}
	if n := len(r.prepared); n != 0 {
		t.Errorf("%d snapshots wait", n)
	}
	// What waits ends with the refresher.
	fixture.Publish(t, mem, fixture.Feed(50, 6), next(sixth), sixth, activateIn(time.Hour))
	r.until(t, "the seventh snapshot is ready", ready(next(sixth)))
}
