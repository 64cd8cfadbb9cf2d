// Package selftest tests whether a store honors the conditions that artifacts.Store promises. It
// may run on a store that is in use: it writes only under artifacts.ProbePrefix and deletes what it
// wrote.
package selftest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
)

// Names are the names of the conditions in the store's own documentation, so that operators can
// look up what a report mentions.
type Names struct {
	// Create makes a write succeed only if the object does not exist.
	Create string
	// Match makes a write succeed only if the object has a given version.
	Match string
	// Changed makes a read succeed only if the object no longer has a given version.
	Changed string
}

// racers is the number of writers that try to replace one version at the same time. In a store that
// checks first and writes later, several of them win.
const racers = 8

// busy retries calls that a busy store did not carry out, for about ten seconds, because some
// stores accept only one write of a key per second.
var busy = retry.Options{Tries: 8, Busy: true}

// cleanup limits the time for deleting the probes, which also happens after ctx is done.
const cleanup = 10 * time.Second

// Run tests the conditions. It returns the first one that the store does not honor, or the error
// that prevented the test.
func Run(ctx context.Context, tested artifacts.Store, n Names) (err error) {
	s := retry.New(tested, busy)
	base := "selftest-" + rand.Text() + "-"
	put, moving, absent := artifacts.ProbeKey(base+"put"), artifacts.ProbeKey(base+"moving"),
		artifacts.ProbeKey(base+"absent")
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
		defer cancel()
		for _, key := range []artifacts.Key{put, moving, absent} {
			if derr := s.Delete(ctx, key); derr != nil && err == nil {
				err = fmt.Errorf("self-test: remove %s: %w", key, derr)
			}
		}
	}()
	if err := create(ctx, s, n, put); err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	if err := list(ctx, s, put); err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	if err := swap(ctx, s, n, moving, absent); err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	return nil
}

// list tests List and Now, whose results gc relies on.
func list(ctx context.Context, s artifacts.Store, key artifacts.Key) error {
	var found artifacts.Info
	err := s.List(ctx, key.String(), func(i artifacts.Info) error {
		found = i
		return nil
	})
	switch {
	case err != nil:
		return err
	case found.Key != key || found.Size != 3 || found.Modified.IsZero():
		return unfit("after a write of three bytes to %s the list has %s with %d bytes, written at %v", key, found.Key,
			found.Size, found.Modified)
	}
	_, err = s.Now(ctx)
	return err
}

// unfit returns an error for a condition that the store does not honor.
func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %w", artifacts.ErrRefused, fmt.Errorf(format, args...))
}

// create tests Put with a new key, with the same bytes again, and with other bytes.
func create(ctx context.Context, s artifacts.Store, n Names, key artifacts.Key) error {
	one, two := []byte("one"), []byte("two")
	if err := s.Put(ctx, key, one); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if err := s.Put(ctx, key, one); err != nil {
		return fmt.Errorf("put the same bytes again: %w", err)
	}
	switch err := s.Put(ctx, key, two); {
	case err == nil:
		return unfit("the store ignored %s: a put of other bytes under the same key succeeded", n.Create)
	case !errors.Is(err, artifacts.ErrConflict):
		return fmt.Errorf("put other bytes: %w", err)
	}
	return holds(ctx, s, n.Create, key, one)
}

// swap tests Swap and GetIf with each condition met, with each condition broken, and in a race.
func swap(ctx context.Context, s artifacts.Store, n Names, key, absent artifacts.Key) error {
	one, two, three := []byte("one"), []byte("two"), []byte("three")
	v1, err := s.Swap(ctx, key, "", one)
	if err != nil {
		return fmt.Errorf("swap where there is no object: %w", err)
	}
	switch _, err := s.Swap(ctx, key, "", two); {
	case err == nil:
		return unfit("the store ignored %s: a swap that wanted no object replaced one", n.Create)
	case !errors.Is(err, artifacts.ErrConflict):
		return fmt.Errorf("swap over an object that should not be there: %w", err)
	}
	switch _, _, err := s.GetIf(ctx, key, v1, 100); {
	case err == nil:
		return unfit("the store ignored %s: it sent an object whose version is known", n.Changed)
	case !errors.Is(err, artifacts.ErrNotModified):
		return fmt.Errorf("get an object whose version is known: %w", err)
	}
	v2, err := s.Swap(ctx, key, v1, two)
	if err != nil {
		return fmt.Errorf("swap: %w", err)
	}
	if v2 == v1 {
		return unfit("the store gave other bytes the same version %q", v1)
	}
	switch _, err := s.Swap(ctx, key, v1, three); {
	case err == nil:
		return unfit("the store ignored %s: a swap with an old version succeeded", n.Match)
	case !errors.Is(err, artifacts.ErrConflict):
		return fmt.Errorf("swap with an old version: %w", err)
	}
	switch b, v, err := s.GetIf(ctx, key, v1, 100); {
	case errors.Is(err, artifacts.ErrNotModified):
		return unfit("%s is not honoured: a read past an old version was answered as unchanged", n.Changed)
	case err != nil:
		return fmt.Errorf("get an object whose version changed: %w", err)
	case string(b) != string(two) || v != v2:
		return unfit("after the swaps the object is %q of version %q, want %q of version %q", b, v, two, v2)
	}
	switch _, err := s.Swap(ctx, absent, v1, one); {
	case err == nil:
		return unfit("the store ignored %s: a swap with a version created an object", n.Match)
	case !errors.Is(err, artifacts.ErrConflict):
		return fmt.Errorf("swap an object that is not there: %w", err)
	}
	return retry.Do(ctx, busy, "race", func() error { return race(ctx, s, n, key, v2) })
}

// race lets several swaps replace the same version at the same time. If the store is busy, all of
// them may lose.
func race(ctx context.Context, s artifacts.Store, n Names, key artifacts.Key, old artifacts.Version) error {
	var wg sync.WaitGroup
	var data [racers][]byte
	var errs [racers]error
	for i := range racers {
		data[i] = fmt.Appendf(nil, "racer %d", i)
		wg.Go(func() { _, errs[i] = s.Swap(retry.Once(ctx), key, old, data[i]) })
	}
	wg.Wait()
	winner, wins := 0, 0
	var late error
	for i, err := range errs {
		switch {
		case err == nil:
			winner = i
			wins++
		case errors.As(err, new(*artifacts.BusyError)):
			late = err
		case !errors.Is(err, artifacts.ErrConflict):
			return fmt.Errorf("%d simultaneous swaps: %w", racers, err)
		}
	}
	if wins == 0 && late != nil {
		return fmt.Errorf("%d simultaneous swaps: %w", racers, late)
	}
	if wins != 1 {
		return unfit(
			"%s is not honoured: %d of %d simultaneous swaps of one version succeeded, want 1", n.Match, wins, racers)
	}
	return holds(ctx, s, n.Match, key, data[winner])
}

// holds checks that a refused write left the object of key unchanged.
func holds(ctx context.Context, s artifacts.Store, condition string, key artifacts.Key, want []byte) error {
	got, _, err := s.Get(ctx, key, 100)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if string(got) != string(want) {
		return unfit("%s is not honoured: after a refused write the object is %q, want %q", condition, got, want)
	}
	return nil
}
