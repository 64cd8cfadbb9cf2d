package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/storetest"
)

// quick has practically no pauses.
var quick = retry.Options{Wait: time.Nanosecond, MaxWait: time.Nanosecond}

func TestStore(t *testing.T) {
	storetest.TestStore(t, func(*testing.T) artifacts.Store { return retry.New(memstore.New(), quick) })
}

// TestStoreFlaky checks that the wrapper keeps all promises of a store even if each call fails the
// first two times, whether or not it was applied. Calls that are never retried do not fail in this
// test.
func TestStoreFlaky(t *testing.T) {
	storetest.TestStore(t, func(*testing.T) artifacts.Store {
		var mu sync.Mutex
		calls := map[faultstore.Op]int{}
		return retry.New(faultstore.New(memstore.New(), func(op faultstore.Op) faultstore.Decision {
			op.N = 0
			mu.Lock()
			defer mu.Unlock()
			calls[op]++
			switch n := calls[op] % 3; {
			case n == 0 || op.Kind == faultstore.Swap || op.Kind == faultstore.Sync:
				return faultstore.Pass
			case n == 2 && op.Kind != faultstore.List:
				return faultstore.Lose
			}
			return faultstore.Refuse
		}), retry.Options{Wait: time.Nanosecond, MaxWait: time.Nanosecond, Tries: 40})
	})
}

// TestTries checks which calls are retried, and how often.
func TestTries(t *testing.T) {
	ctx := t.Context()
	decide := faultstore.Refuse
	faults := faultstore.New(memstore.New(), func(faultstore.Op) faultstore.Decision { return decide })
	o := quick
	o.Tries = 4
	s := retry.New(faults, o)
	calls := storetest.Calls(ctx, s, "v")
	for name, call := range calls {
		kind := faultstore.Kind(name)
		faults.Reset()
		if err := call(); !errors.Is(err, faultstore.ErrFault) {
			t.Errorf("%s: %v", kind, err)
		}
		want := 4
		if kind == faultstore.Swap || kind == faultstore.Sync {
			want = 1
		}
		if n := faults.Counts()[kind]; n != want {
			t.Errorf("%s was called %d times, want %d", kind, n, want)
		}
	}

	// A reader has the same limits.
	faults.Reset()
	if _, _, err := retry.NewReader(faults, o).Get(ctx, artifacts.CurrentKey, 10); !errors.Is(
		err, faultstore.ErrFault) || faults.Counts()[faultstore.Get] != 4 {
		t.Errorf("reader: %v after %v", err, faults.Counts())
	}

	// The store's answers are final.
	decide = faultstore.Pass
	faults.Reset()
	must.OK(t, calls["put"]())
	_, _, err := s.Get(ctx, artifacts.CurrentKey, 10)
	_, v, _ := s.Get(ctx, artifacts.MustKey("objects/ab/cd"), 10)
	_, _, unchanged := s.GetIf(ctx, artifacts.MustKey("objects/ab/cd"), v, 10)
	conflict := s.Put(ctx, artifacts.MustKey("objects/ab/cd"), []byte("y"))
	_, _, tooLarge := s.Get(ctx, artifacts.MustKey("objects/ab/cd"), -1)
	for _, c := range []struct{ err, want error }{
		{err, artifacts.ErrNotFound}, {unchanged, artifacts.ErrNotModified}, {conflict, artifacts.ErrConflict},
		{tooLarge, artifacts.ErrTooLarge},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("got %v, want %v", c.err, c.want)
		}
	}
	if c := faults.Counts(); c[faultstore.Get] != 3 || c[faultstore.GetIf] != 1 || c[faultstore.Put] != 2 {
		t.Errorf("answers were asked for again: %v", c)
	}
}

// TestListOnce checks that List is retried only if its function has not been called yet.
func TestListOnce(t *testing.T) {
	ctx := t.Context()
	faults := faultstore.New(memstore.New(), nil)
	s := retry.New(faults, quick)
	list := func() (calls int, err error) {
		faults.Reset()
		err = s.List(ctx, "", func(artifacts.Info) error { return nil })
		return faults.Counts()[faultstore.List], err
	}
	faults.SetHook(func(op faultstore.Op) faultstore.Decision {
		if op.N == 1 {
			return faultstore.Lose
		}
		return faultstore.Pass
	})
	if calls, err := list(); err != nil || calls != 2 {
		t.Errorf("List of nothing that failed once: %v after %d calls", err, calls)
	}
	faults.Reset()
	faults.SetHook(nil)
	must.OK(t, s.Put(ctx, artifacts.MustKey("a"), nil))
	faults.SetHook(func(faultstore.Op) faultstore.Decision { return faultstore.Lose })
	if calls, err := list(); !errors.Is(err, faultstore.ErrFault) || calls != 1 {
		t.Errorf("List that failed after it gave something: %v after %d calls", err, calls)
	}
}

// TestPauses checks that the pauses grow, are bounded, and end with the context.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		var at []time.Time
		faults := faultstore.New(memstore.New(), func(faultstore.Op) faultstore.Decision {
			at = append(at, time.Now())
			return faultstore.Refuse
		})
		s := retry.New(faults, retry.Options{Tries: 6, Wait: time.Second, MaxWait: 4 * time.Second})
		if err := s.Put(ctx, artifacts.MustKey("a"), nil); !errors.Is(err, faultstore.ErrFault) {
			t.Fatal(err)
		}
		for i, want := range []time.Duration{1, 2, 4, 4, 4} {
			want *= time.Second
			if got := at[i+1].Sub(at[i]); got < want/2 || got > want*3/2 {
				t.Errorf("pause %d is %v, want %v within a half", i+1, got, want)
			}
		}
		at = nil
		begin := time.Now()
		s = retry.New(faults, retry.Options{Tries: 1000, Wait: time.Second, Total: 20 * time.Second})
		if err := s.Put(ctx, artifacts.MustKey("a"), nil); !errors.Is(err, faultstore.ErrFault) {
			t.Fatal(err)
		}
		if got := at[len(at)-1].Sub(begin); got > 20*time.Second || len(at) < 4 {
			t.Errorf("%d tries, the last after %v, want one within 20s", len(at), got)
		}

		begin = time.Now()
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		err := s.Put(short, artifacts.MustKey("a"), nil)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, faultstore.ErrFault) {
			t.Errorf("a context that ends in a pause: %v", err)
		}
		if got := time.Since(begin); got != 100*time.Millisecond {
			t.Errorf("it returned after %v", got)
		}
	})
}

// TestOutage checks that an outage causes one log line, and its end another one with the number of
// failures, whatever was called in the meantime. A single failure is not logged.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			failures int
			want     string
		}{
			{1, ""},
			{2, "the store does not answer: trying again|the store answers again failures=2"},
			{17, "the store does not answer: trying again|the store answers again failures=17"},
		} {
			var log bytes.Buffer
			failed := 0
			faults := faultstore.New(memstore.New(), func(faultstore.Op) faultstore.Decision {
				if failed == c.failures {
					return faultstore.Pass
				}
				failed++
				return faultstore.Refuse
			})
			s := retry.New(faults, retry.Options{Tries: 4, Log: slog.New(slog.NewTextHandler(&log, nil))})
			for i := 0; failed < c.failures || i < 9; i++ {
				_ = s.Put(t.Context(), artifacts.MustKey(fmt.Sprint("k", i)), nil) // fails while the store is away
			}
			var said []string
			for _, m := range regexp.MustCompile(`msg="(.*?)"(?: failures=\d+)?`).FindAllString(log.String(), -1) {
				said = append(said, strings.NewReplacer("msg=", "", `"`, "").Replace(m))
			}
			if got := strings.Join(said, "|"); got != c.want {
				t.Errorf("%d failures: %q, want %q", c.failures, got, c.want)
			}
		}
	})
}

// busyStore refuses the first few calls of Swap and Get before it passes one on.
type busyStore struct {
	artifacts.Store
	left int
	err  error
}

func (b *busyStore) refuse() error {
	if b.left--; b.left >= 0 {
		return b.err
	}
	return nil
}

func (b *busyStore) Swap(ctx context.Context, key artifacts.Key, old artifacts.Version, data []byte,
) (artifacts.Version, error) {
	if err := b.refuse(); err != nil {
		return "", err
	}
	return b.Store.Swap(ctx, key, old, data)
}

func (b *busyStore) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	if err := b.refuse(); err != nil {
		return nil, "", err
	}
	return b.Store.Get(ctx, key, limit)
}

// TestBusy checks that the pause that a store asks for is observed (RFC 9110, 10.2.3) within the
// limit of the whole call, and that a swap is retried only if the store says that it did nothing.
func TestBusy(t *testing.T) {
	conflict := fmt.Errorf("%w: 409", artifacts.ErrConflict)
	for _, c := range []struct {
		after  time.Duration
		undone bool
		times  int
		swap   bool // whether the swap succeeds
		get    bool
		took   time.Duration // of each of the two calls
	}{
		{7 * time.Second, true, 1, true, true, 7 * time.Second},
		{3 * time.Second, true, 3, true, true, 9 * time.Second},
		{time.Second, true, 5, false, false, 4 * time.Second},
		{31 * time.Second, true, 1, false, false, 0},
		{7 * time.Second, false, 1, false, true, 7 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &busyStore{Store: memstore.New(), left: c.times,
				err: &artifacts.BusyError{After: c.after, Undone: c.undone, Err: conflict}}
			s := retry.New(b, retry.Options{})
			began := time.Now()
			_, err := s.Swap(t.Context(), artifacts.CurrentKey, "", []byte("x"))
			took := time.Since(began)
			if (err == nil) != c.swap || took != c.took && c.undone || took > 0 && !c.undone {
				t.Errorf("%+v: swap: %v after %v", c, err, took)
			}
			if err != nil && !errors.Is(err, artifacts.ErrConflict) {
				t.Errorf("%+v: what stays refused is no conflict: %v", c, err)
			}
			must.Get(b.Store.Swap(t.Context(), artifacts.ChangeKey, "", []byte("x")))(t)
			b.left, b.err = c.times, &artifacts.BusyError{After: c.after, Undone: c.undone, Err: errors.New("503")}
			began = time.Now()
			_, _, err = s.Get(t.Context(), artifacts.ChangeKey, 10)
			if took := time.Since(began); (err == nil) != c.get || took != c.took {
				t.Errorf("%+v: get: %v after %v", c, err, took)
			}
		})
	}
}
