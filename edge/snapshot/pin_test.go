package snapshot

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/internal/lab/fixture"
)

// TestPins: each pin that cannot be answered has its reason, the first of
// INTERFACE.md, "Headers"'s order.
func TestPins(t *testing.T) {
	var now time.Time
	before := &Refresher{cfg: Config{Now: func() time.Time { return now }}}
	empty := &Refresher{cfg: before.cfg}
	empty.state.Store(new(State))
	r := &Refresher{cfg: before.cfg}
	newest := fixture.Start
	r.state.Store(&State{Snapshot: &Snapshot{Time: newest, Withdrawn: []time.Time{newest.Add(artifacts.Step), newest.Add(24 * time.Hour)}}})
	restored := &Refresher{cfg: before.cfg}
	restored.state.Store(&State{Snapshot: &Snapshot{Time: newest, WithdrawnThrough: newest.Add(2 * artifacts.Step)}})
	plain := &Refresher{cfg: before.cfg}
	plain.state.Store(&State{Snapshot: &Snapshot{Time: newest}})
	for _, c := range []struct {
		r   *Refresher
		now time.Duration // from newest
		pin time.Duration
		err error // nil: it is waited for
	}{
		{r, 0, time.Second, ErrUneven}, {r, 0, -time.Second, ErrUneven}, {r, 0, 24*time.Hour + time.Minute, ErrUneven}, {empty, 0, time.Minute, ErrUneven}, {before, 0, time.Minute, ErrUneven},
		{r, 0, -artifacts.Step, ErrGone}, {r, 0, -1000 * 24 * time.Hour, ErrGone}, {r, 0, artifacts.Step, ErrGone}, {r, 0, 24 * time.Hour, ErrGone},
		{restored, time.Hour, 2 * artifacts.Step, ErrGone}, {restored, time.Hour, 3 * artifacts.Step, nil},
		// By the snapshot in force, when the clock is behind.
		{plain, -time.Hour, artifacts.Step, nil}, {plain, -time.Hour, 2 * artifacts.Step, ErrAhead},
		{r, -time.Hour, 2 * artifacts.Step, ErrAhead}, {r, 0, 1e6 * artifacts.Step, ErrAhead}, {r, -time.Hour, 145 * artifacts.Step, ErrAhead},
		// By the clock: 20 minutes are twelve past minute 8.
		{r, 8*time.Minute - 1, 2 * artifacts.Step, ErrAhead}, {r, 8 * time.Minute, 2 * artifacts.Step, nil}, {r, time.Hour, 2 * artifacts.Step, nil}, {r, 48 * time.Hour, 145 * artifacts.Step, nil},
		{empty, 0, 2 * artifacts.Step, ErrAhead}, {empty, 0, artifacts.Step, nil}, {empty, 0, -artifacts.Step, nil},
		{before, 0, 2 * artifacts.Step, ErrAhead}, {before, 0, artifacts.Step, errUnknown},
	} {
		now = newest.Add(c.now)
		s, settled, err := c.r.pinned(context.Background(), newest.Add(c.pin))
		if s != nil || settled != (c.err != nil) || !errors.Is(err, c.err) {
			t.Errorf("clock %v, pin %v: %v, %v, %v; want %v", c.now, c.pin, s, settled, err, c.err)
		}
	}
}

// TestPinOfWhatARestoreTookBack: an edge that had the later snapshots says that
// they are gone, until one of such a time is published.
func TestPinOfWhatARestoreTookBack(t *testing.T) {
	mem := memstore.New()
	first := fixture.Publish(t, mem, fixture.Feed(50, 1), fixture.Start, nil)
	second := fixture.Publish(t, mem, fixture.Feed(50, 2), next(first), first)
	third := fixture.Publish(t, mem, fixture.Feed(50, 3), next(second), second)
	r := start(t, mem, t.TempDir(), nil)
	r.until(t, "the third snapshot", r.at(third.Manifest.Time))
	p := *first.Pointer
	p.Sequence += 1000
	_, version, err := mem.Get(t.Context(), artifacts.CurrentKey, artifacts.MaxPointerSize)
	if err == nil {
		_, err = mem.Swap(t.Context(), artifacts.CurrentKey, version, p.Encode())
	}
	if err != nil {
		t.Fatal(err)
	}
	r.until(t, "the first snapshot", r.at(fixture.Start))
	for _, gone := range []*fixture.Published{second, third} {
		if s, err := r.Pinned(t.Context(), gone.Manifest.Time); !errors.Is(err, ErrGone) {
			t.Errorf("pin of %v: %v, %v", gone.Manifest.Time, s, err)
		}
	}
	if _, first.Version, err = mem.Get(t.Context(), artifacts.CurrentKey, artifacts.MaxPointerSize); err != nil {
		t.Fatal(err)
	}
	first.Pointer = &p
	again := fixture.Publish(t, mem, fixture.Feed(50, 4), next(first), first)
	r.until(t, "the second snapshot again", r.at(next(first)))
	if s, err := r.Pinned(t.Context(), third.Manifest.Time); !errors.Is(err, ErrGone) {
		t.Errorf("pin of the third: %v, %v", s, err)
	}
	if s, err := r.Pinned(t.Context(), next(first)); err != nil || s.Manifest != again.Pointer.Manifest.Digest {
		t.Errorf("pin of the second: %v, %v", s, err)
	}
}

// TestPinOfTheFuture: a pin makes the edge look at once; those that come at the
// same time share one poll.
func TestPinOfTheFuture(t *testing.T) {
	mem := memstore.New()
	first := fixture.Publish(t, mem, fixture.Feed(50, 1), fixture.Start, nil)
	// A poll of an hour: only the pin itself makes the edge look.
	r := start(t, mem, t.TempDir(), func(c *Config, _ *store) {
		c.Poll, c.Now = time.Hour, func() time.Time { return next(first) }
	})
	r.until(t, "the first snapshot", r.at(fixture.Start))
	fixture.Publish(t, mem, fixture.Feed(50, 2), next(first), first)
	var clients sync.WaitGroup
	for range 100 {
		clients.Go(func() {
			if s, err := r.Pinned(context.Background(), next(first)); err != nil || !s.Time.Equal(next(first)) {
				t.Errorf("got %v, %v", s, err)
			}
		})
	}
	clients.Wait()
	if polls := r.Counters.Polls.Load(); polls > 4 {
		t.Errorf("%d polls, want the first and one for the pin", polls)
	}
}

// TestPinsInVain: what never comes costs a bounded number of polls and of
// requests that wait.
func TestPinsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRefresher(Config{})
		r.state.Store(new(State))
		polls, stop := 0, make(chan struct{})
		go func() {
			for {
				select {
				case <-r.kick:
					polls++
				case <-stop:
					return
				}
			}
		}()
		var clients sync.WaitGroup
		began := time.Now()
		for i := range 5 * maxWaiting { // within ten seconds
			clients.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Second / (5 * maxWaiting))
				pin := began.Truncate(artifacts.Step).Add(time.Duration(i%2) * artifacts.Step)
				asked := time.Now()
				if s, err := r.Pinned(context.Background(), pin); s != nil || !errors.Is(err, ErrLater) {
					t.Errorf("got %v, %v", s, err)
				}
				if waited := time.Since(asked); waited != pinWait {
					t.Errorf("waited %v", waited)
				}
			})
		}
		clients.Wait()
		if polls < 10 || polls > 22 {
			t.Errorf("%d polls within eleven seconds", polls)
		}
		for range 2 * maxWaiting {
			clients.Go(func() { _, _ = r.Pinned(context.Background(), began.Truncate(artifacts.Step)) })
		}
		synctest.Wait()
		if got := r.waiting.Load(); got != maxWaiting {
			t.Errorf("%d requests wait", got)
		}
		clients.Wait()
		if r.waiting.Load() != 0 {
			t.Error("requests wait for ever")
		}
		close(stop)
	})
}
