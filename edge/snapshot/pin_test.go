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
	"example.com/marketdata/internal/lab/teststore"
)

// TestPinOfWhatARestoreTookBack: an edge that had the later snapshots says that
// they are gone, until one of such a time is published.
func TestPinOfWhatARestoreTookBack(t *testing.T) {
	mem := memstore.New()
	first := teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	second := teststore.Publish(t, mem, teststore.NewFeed(50, 2), next(first))
	third := teststore.Publish(t, mem, teststore.NewFeed(50, 3), next(second))
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
	r.until(t, "the first snapshot", r.at(teststore.Start))
	for _, gone := range []*teststore.Published{second, third} {
		if s, err := r.Pinned(t.Context(), gone.Manifest.Time); !errors.Is(err, ErrGone) {
			t.Errorf("pin of %v: %v, %v", gone.Manifest.Time, s, err)
		}
	}
	again := teststore.Publish(t, mem, teststore.NewFeed(50, 4), next(first))
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
	first := teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	// A poll of an hour: only the pin itself makes the edge look.
	r := start(t, mem, t.TempDir(), func(c *Config, _ *store) {
		c.Poll, c.Now = time.Hour, func() time.Time { return next(first) }
	})
	r.until(t, "the first snapshot", r.at(teststore.Start))
	teststore.Publish(t, mem, teststore.NewFeed(50, 2), next(first))
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
		r.publish(nil)
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
