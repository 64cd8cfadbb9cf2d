package snapshot

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/teststore"
)

// TestPinOfTheFuture checks that a pin makes the edge poll immediately, and that concurrent pins share one
// poll.
func TestPinOfTheFuture(t *testing.T) {
	mem := memstore.New()
	first := teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	// With an interval of an hour, only the pin makes the edge poll.
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

// TestPinsInVain checks that pins on a snapshot that never arrives cause a bounded number of polls and of
// waiting requests.
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
		for i := range 5 * maxWaiting { // spread over ten seconds
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
