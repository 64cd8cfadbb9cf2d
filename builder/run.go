package builder

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"example.com/marketdata/artifacts"
	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"
)

// Loop runs a build at every ten-minute mark, and the change job and gc on their own schedules. No
// job runs concurrently with itself. A failed job is logged and does not end the loop.
type Loop struct {
	// Build makes the snapshot for a mark. The loop retries it with backoff until the next mark,
	// unless its error shows that a retry cannot succeed.
	Build func(ctx context.Context, mark time.Time) error
	// Published returns the time of the published snapshot, or the zero time if there is none. The
	// loop calls it on startup to determine whether the current mark must still be built.
	Published func(ctx context.Context) (time.Time, error)
	// Change runs at the start and then every ChangeEvery.
	Change      func(ctx context.Context) error
	ChangeEvery time.Duration
	// Collect runs after a build if Collect last succeeded at least CollectEvery ago.
	Collect      func(ctx context.Context) error
	CollectEvery time.Duration
	Log          *slog.Logger
}

// maxSleep limits each sleep, so that the loop notices when the clock is set.
const maxSleep = 20 * time.Second

// Run runs the loop until ctx is done. It returns when the current jobs have stopped.
func (l *Loop) Run(ctx context.Context) {
	var g errgroup.Group
	g.Go(func() error { l.builds(ctx); return nil })
	g.Go(func() error { l.changes(ctx); return nil })
	_ = g.Wait()
}

func (l *Loop) builds(ctx context.Context) {
	done := l.firstDone(ctx)
	var collected time.Time
	for ctx.Err() == nil {
		now := time.Now()
		mark := now.Truncate(artifacts.Step)
		if mark.Equal(done) {
			sleep(ctx, min(mark.Add(artifacts.Step).Sub(now), maxSleep))
			continue
		}
		l.build(ctx, mark)
		done = mark
		if ctx.Err() == nil && time.Since(collected) >= l.CollectEvery {
			if l.once(ctx, "gc", l.Collect) {
				collected = time.Now()
			}
		}
	}
}

// firstDone returns the current mark if its snapshot is already published, so that a restart
// neither misses a mark nor builds one twice.
func (l *Loop) firstDone(ctx context.Context) time.Time {
	mark := time.Now().Truncate(artifacts.Step)
	t, err := l.Published(ctx)
	if err != nil || t.Before(mark) {
		return time.Time{} // build again; a faulty store makes the build fail, too
	}
	return mark
}

// build tries until the build succeeds, no retry can succeed, or the next mark is so near that
// there is no time for another try.
func (l *Loop) build(ctx context.Context, mark time.Time) {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.Multiplier, pace.MaxInterval = 2*time.Second, 2, time.Minute
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := l.Build(ctx, mark)
		if isFinal(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	},
		backoff.WithBackOff(pace),
		backoff.WithMaxElapsedTime(max(1, time.Until(mark.Add(artifacts.Step)))),
		backoff.WithNotify(func(err error, wait time.Duration) {
			l.Log.Warn("build failed; trying again", "mark", mark, "wait", wait, "err", err)
		}))
	if err != nil && ctx.Err() == nil {
		l.Log.Error("no snapshot for this mark", "mark", mark, "err", err)
	}
}

// isFinal reports whether no retry can succeed before the next mark, because the time is taken or a
// guard rail stops the build. Requesting the source again would only use up its quota.
func isFinal(err error) bool {
	return errors.Is(err, ErrOlder) || errors.Is(err, ErrOther) || errors.Is(err, ErrWithdrawn) ||
		errors.Is(err, ErrGuard)
}

func (l *Loop) changes(ctx context.Context) {
	for ctx.Err() == nil {
		l.once(ctx, "change", l.Change)
		sleep(ctx, l.ChangeEvery)
	}
}

func (l *Loop) once(ctx context.Context, job string, f func(context.Context) error) (done bool) {
	err := f(ctx)
	if err != nil && ctx.Err() == nil {
		l.Log.Error("job failed", "job", job, "err", err)
	}
	return err == nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
