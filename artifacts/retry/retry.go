// Package retry repeats store calls whose outcome is unknown, with exponential backoff and jitter,
// where that is safe.
//
// An answer of the store (artifacts.ErrNotFound, ErrConflict, ErrNotModified, ErrTooLarge) is
// final. So are ErrNoAccess, ErrRefused, a missing file permission and the end of the context. Any
// other failure is retried, after the pause that the store asks for (artifacts.BusyError), with
// these exceptions:
//
//   - Swap is retried only if the store says that it did nothing. A second attempt at a swap that
//     was applied but reported as failed would be refused, and would look as if it had lost. The
//     caller must read the cell again.
//   - Sync is never retried. After a failed fsync a second one proves nothing: the objects must be
//     put again (see package dirstore).
//   - List is not retried once it has called its function, which cannot undo what it has seen.
//
// Put, Delete and the reads give the same result when they are repeated. SelfTest uses new keys
// each time.
package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"github.com/cenkalti/backoff/v5"
)

// Options limit the retries of one call. The zero value of each field means its default.
type Options struct {
	// Tries is the maximum number of attempts. Default: 5.
	Tries uint
	// Wait is the pause after the first attempt. Each later pause is twice as long, up to MaxWait.
	// All pauses are lengthened or shortened at random by up to half. Defaults: 100 ms and 5 s.
	Wait, MaxWait time.Duration
	// Total is the maximum time from the beginning of the call to the beginning of its last
	// attempt. It does not end an attempt; only the context does. Default: 30 s.
	Total time.Duration
	// Busy limits retries to attempts that a busy store did not carry out (artifacts.BusyError).
	Busy bool
	// Log, if not nil, gets a warning after two consecutive failures, and a message with the number
	// of failures when an attempt succeeds again. It also gets every retry at level debug.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	return Options{
		cmp.Or(o.Tries, 5), cmp.Or(o.Wait, 100*time.Millisecond), cmp.Or(o.MaxWait, 5*time.Second),
		cmp.Or(o.Total, 30*time.Second), o.Busy, o.Log,
	}
}

// Once returns a context in which calls are attempted only once, for operations that must not
// happen late.
func Once(ctx context.Context) context.Context { return context.WithValue(ctx, once{}, true) }

type once struct{}

// NewReader returns a reader that retries failed reads of r.
func NewReader(r artifacts.Reader, o Options) artifacts.Reader {
	return &reader{inner: r, o: o.withDefaults()}
}

// New returns a store that repeats the calls of s where that is safe.
func New(s artifacts.Store, o Options) artifacts.Store {
	return &store{reader: reader{inner: s, o: o.withDefaults()}, inner: s}
}

// Do calls operation and, if necessary, retries it. name is the operation's name in the log.
func Do(ctx context.Context, o Options, name string, operation func() error) error {
	return (&reader{o: o.withDefaults()}).do(ctx, name, "", operation)
}

type reader struct {
	inner artifacts.Reader
	o     Options
	away  outage
}

// outage counts consecutive failed attempts of all calls of a store.
type outage struct {
	mu     sync.Mutex
	failed int
	since  time.Time // when the first of them failed
}

// tried records the result of an attempt, and logs the beginning and the end of an outage. A final
// error is an answer, so it ends an outage.
func (a *outage) tried(ctx context.Context, log *slog.Logger, call, key string, err error) {
	if log == nil || ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil || final(err):
		if a.failed > 1 {
			log.InfoContext(ctx, "the store answers again", "failures", a.failed, "away", time.Since(a.since))
		}
		a.failed = 0
		return
	case a.failed == 0:
		a.since = time.Now()
	case a.failed == 1:
		log.WarnContext(ctx, "the store does not answer: trying again", "call", call, "key", key, "err", err)
	}
	a.failed++
}

// final reports whether another attempt would have the same result.
func final(err error) bool {
	return errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, artifacts.ErrConflict) ||
		errors.Is(err, artifacts.ErrNotModified) || errors.Is(err, artifacts.ErrTooLarge) ||
		errors.Is(err, artifacts.ErrNoAccess) || errors.Is(err, artifacts.ErrRefused) ||
		errors.Is(err, fs.ErrPermission)
}

// undone reports whether the store says that it did nothing and asks for a retry.
func undone(err error) bool {
	var busy *artifacts.BusyError
	return errors.As(err, &busy) && busy.Undone
}

// do calls request until it succeeds, its error is final or a backoff.PermanentError, or a limit is
// reached. In a context returned by Once, it makes only one attempt.
func (r *reader) do(ctx context.Context, call, key string, request func() error) error {
	var last error
	attempt := func() (struct{}, error) {
		last = request()
		r.away.tried(ctx, r.o.Log, call, key, last)
		if !undone(last) && (final(last) || r.o.Busy) {
			last = backoff.Permanent(last)
		}
		var busy *artifacts.BusyError
		if errors.As(last, &busy) && busy.After > 0 {
			return struct{}{}, errors.Join(last, &backoff.RetryAfterError{Duration: busy.After})
		}
		return struct{}{}, last
	}
	warn := func(err error, wait time.Duration) {
		if r.o.Log != nil {
			r.o.Log.DebugContext(
				ctx, "store call failed: trying again", "call", call, "key", key, "err", err, "wait", wait)
		}
	}
	tries := r.o.Tries
	if ctx.Value(once{}) != nil {
		tries = 1
	}
	_, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: r.o.Wait, MaxInterval: r.o.MaxWait, Multiplier: 2, RandomizationFactor: 0.5,
	}),
		backoff.WithMaxTries(tries),
		backoff.WithMaxElapsedTime(r.o.Total),
		backoff.WithNotify(warn),
	)
	var permanent *backoff.PermanentError
	switch {
	case err == nil:
		return nil
	case errors.As(last, &permanent):
		return permanent.Unwrap()
	case ctx.Err() != nil && !errors.Is(last, ctx.Err()): // The context ended during a pause.
		return fmt.Errorf("%w; before that: %w", ctx.Err(), last)
	}
	return last
}

func (r *reader) Get(ctx context.Context, key artifacts.Key, limit int64) (b []byte, v artifacts.Version, err error) {
	err = r.do(ctx, "get", key.String(), func() (err error) {
		b, v, err = r.inner.Get(ctx, key, limit)
		return err
	})
	return b, v, err
}

func (r *reader) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) (b []byte, v artifacts.Version, err error) {
	err = r.do(ctx, "get", key.String(), func() (err error) {
		b, v, err = r.inner.GetIf(ctx, key, known, limit)
		return err
	})
	return b, v, err
}

type store struct {
	reader
	inner artifacts.Store
}

// ClockSkew implements artifacts.Clock.
func (s *store) ClockSkew() (time.Duration, bool) { return artifacts.SkewOf(s.inner) }

func (s *store) Put(ctx context.Context, key artifacts.Key, data []byte) error {
	return s.do(ctx, "put", key.String(), func() error { return s.inner.Put(ctx, key, data) })
}

func (s *store) Sync(ctx context.Context) error { return s.inner.Sync(ctx) }

func (s *store) Swap(ctx context.Context, key artifacts.Key, old artifacts.Version, data []byte,
) (v artifacts.Version, err error) {
	err = s.do(ctx, "swap", key.String(), func() (err error) {
		if v, err = s.inner.Swap(ctx, key, old, data); err != nil && !undone(err) {
			return backoff.Permanent(err)
		}
		return err
	})
	return v, err
}

func (s *store) List(ctx context.Context, prefix string, f func(artifacts.Info) error) error {
	called := false
	return s.do(ctx, "list", prefix, func() error {
		err := s.inner.List(ctx, prefix, func(i artifacts.Info) error {
			called = true
			return f(i)
		})
		if err != nil && called {
			return backoff.Permanent(err)
		}
		return err
	})
}

func (s *store) Delete(ctx context.Context, key artifacts.Key) error {
	return s.do(ctx, "delete", key.String(), func() error { return s.inner.Delete(ctx, key) })
}

func (s *store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.do(ctx, "clock", "", func() (err error) {
		now, err = s.inner.Now(ctx)
		return err
	})
	return now, err
}

func (s *store) SelfTest(ctx context.Context) error {
	return s.do(ctx, "self-test", "", func() error { return s.inner.SelfTest(ctx) })
}
