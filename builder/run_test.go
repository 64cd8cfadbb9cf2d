package builder

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/memstore"
)

// inBubble is like synctest.Test, for tests that build. The compressor's channels are made on first
// use. They must not belong to a bubble, so inBubble builds a snapshot before it starts the bubble.
func inBubble(t *testing.T, f func(t *testing.T)) {
	mustBuild(t, memstore.New(), world{Assets: 10, At: epoch})
	synctest.Test(t, f)
}

// diary records what a loop does and when, relative to the start of the test. In a synctest bubble,
// the clock starts at midnight UTC.
type diary struct {
	mu      sync.Mutex
	start   time.Time
	entries []string
}

func newDiary() *diary { return &diary{start: time.Now()} }

func (d *diary) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprintf("%s %s", time.Since(d.start).Round(time.Second), what))
}

func (d *diary) build(context.Context, time.Time) error { d.note("build"); return nil }

func (d *diary) of(what string) (at []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		var when, job string
		fmt.Sscan(e, &when, &job)
		if job == what {
			at = append(at, when)
		}
	}
	return at
}

// loop returns a Loop whose jobs only record that they ran.
func (d *diary) loop() *Loop {
	job := func(name string) func(context.Context) error {
		return func(context.Context) error { d.note(name); return nil }
	}
	return &Loop{
		Build: d.build, Change: job("change"), Collect: job("collect"),
		ChangeEvery: 5 * time.Minute, CollectEvery: time.Hour,
		Published: func(context.Context) (time.Time, error) { return time.Time{}, nil }, Log: discard,
	}
}

// runFor runs the loop for d on the bubble's clock.
func runFor(t *testing.T, l *Loop, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	l.Run(ctx)
}

func TestRunSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(3 * time.Minute) // the loop starts between two marks
		d := newDiary()
		l := d.loop()
		collect := l.Collect
		l.Collect = func(ctx context.Context) error {
			if first := len(d.of("collect")) == 0; first {
				return errors.Join(collect(ctx), errors.New("store is away"))
			}
			return collect(ctx)
		}
		runFor(t, l, 2*time.Hour-time.Second)
		builds := d.of("build")
		if len(builds) != 13 || builds[0] != "0s" || builds[1] != "7m0s" || builds[2] != "17m0s" {
			t.Errorf("builds at %v", builds)
		}
		if changes := d.of("change"); len(changes) != 24 || changes[0] != "0s" || changes[1] != "5m0s" {
			t.Errorf("changes at %v", changes)
		}
		if collects := d.of("collect"); !slices.Equal(collects, []string{"0s", "7m0s", "1h7m0s"}) {
			t.Errorf("gc at %v", collects)
		}
	})
}

// TestRunRestart checks that a loop immediately builds the mark that precedes its start, unless
// that mark is already published.
func TestRunRestart(t *testing.T) {
	for _, c := range []struct {
		name      string
		published time.Duration // how long before the mark; negative if later
		err       error
		first     string
	}{
		{"missed", artifacts.Step, nil, "0s"},
		{"missed by much", 100 * time.Hour, nil, "0s"},
		{"published", 0, nil, "7m0s"},
		{"published later", -time.Hour, nil, "7m0s"},
		{"unknown", 0, errors.New("store is away"), "0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mark := time.Now()
				time.Sleep(3 * time.Minute)
				d := newDiary()
				l := d.loop()
				l.Published = func(context.Context) (time.Time, error) { return mark.Add(-c.published), c.err }
				runFor(t, l, 15*time.Minute)
				if builds := d.of("build"); builds[0] != c.first {
					t.Errorf("builds at %v, want the first at %s", builds, c.first)
				}
			})
		})
	}
}

// TestRunRetry checks that a failed build is retried with growing pauses until the next mark is
// due, unless no retry can succeed.
func TestRunRetry(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		fails    int
		min, max int // number of builds before the second mark
	}{
		{"fails three times", errors.New("no route"), 3, 4, 4},
		{"a guard rail", fmt.Errorf("x: %w", ErrGuard), 1, 1, 1},
		{"fails for ever", errors.New("no route"), 1000, 10, 30},
		{"too old", fmt.Errorf("x: %w", ErrOlder), 1, 1, 1},
		{"taken", fmt.Errorf("x: %w", ErrOther), 1, 1, 1},
		{"withdrawn", fmt.Errorf("x: %w", ErrWithdrawn), 1, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDiary()
				l := d.loop()
				fails := c.fails
				l.Build = func(context.Context, time.Time) error {
					d.note("build")
					if fails--; fails >= 0 {
						return c.err
					}
					return nil
				}
				runFor(t, l, 10*time.Minute-time.Second)
				if n := len(d.of("build")); n < c.min || n > c.max {
					t.Errorf("%d builds within a mark: %v", n, d.of("build"))
				}
				fails = 0
				runFor(t, l, 10*time.Minute)
				if builds := d.of("build"); !slices.Contains(builds, "10m0s") {
					t.Errorf("no build at the next mark: %v", builds)
				}
			})
		})
	}
}

// TestRunSlow checks that only one build runs at a time. If a build takes long, the loop then
// immediately builds the latest mark that has passed, and skips the marks before it.
func TestRunSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		l := d.loop()
		running := 0
		l.Build = func(ctx context.Context, _ time.Time) error {
			if running++; running > 1 {
				t.Error("two builds at a time")
			}
			d.note("build")
			if len(d.of("build")) == 1 {
				sleep(ctx, 34*time.Minute)
			}
			running--
			return nil
		}
		runFor(t, l, time.Hour-time.Second)
		if builds := d.of("build"); !slices.Equal(builds, []string{"0s", "34m0s", "40m0s", "50m0s"}) {
			t.Errorf("builds at %v", builds)
		}
		if changes := d.of("change"); len(changes) != 12 {
			t.Errorf("the change job waits for builds: %v", changes)
		}
	})
}

// TestRunStop stops a loop during a build. The loop must return when the build has returned, and
// the store must be unchanged.
func TestRunStop(t *testing.T) {
	s := memstore.New()
	w := world{Assets: 50, At: epoch}
	mustBuild(t, s, w)
	before := head(t, s).Pointer
	ctx, cancel := context.WithCancel(t.Context())
	stopping := tap(s, func(op string, key artifacts.Key) {
		if op == "put" {
			cancel()
		}
	})
	b, err := New(config(stopping, w.Later(artifacts.Step)))
	ok(t, err)
	nothing := func(context.Context) error { return nil }
	var built error
	l := &Loop{
		Build:  func(ctx context.Context, mark time.Time) error { _, built = b.BuildMark(ctx, mark); return built },
		Change: nothing, ChangeEvery: time.Minute, Collect: nothing, CollectEvery: time.Hour, Log: discard,
		Published: func(context.Context) (time.Time, error) { return before.Time, nil },
	}
	l.Run(ctx)
	if !errors.Is(built, context.Canceled) {
		t.Errorf("the build ended with %v", built)
	}
	if after := head(t, s).Pointer; !reflect.DeepEqual(after, before) {
		t.Errorf("the pointer moved to %+v", after)
	}
	verify(t, s)
	mustBuild(t, s, w.Later(artifacts.Step))
}

// TestStopInSwap stops a build while it swaps the pointer. The build must still determine whether
// the swap took effect.
func TestStopInSwap(t *testing.T) {
	s := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	w := world{Assets: 10, At: epoch}
	r, err := tryBuild(ctx, &lateSwap{Store: s, cancel: cancel}, w)
	if err != nil || !r.Published {
		t.Errorf("published %v, %v; the pointer has moved", r.Published, err)
	}
	verify(t, s)
}

// lateSwap is a store whose Swap takes effect but returns the context's error.
type lateSwap struct {
	artifacts.Store
	cancel context.CancelFunc
}

func (s *lateSwap) Swap(ctx context.Context, key artifacts.Key, old artifacts.Version, data []byte,
) (artifacts.Version, error) {
	v, err := s.Store.Swap(ctx, key, old, data)
	if key == artifacts.CurrentKey && err == nil {
		s.cancel()
		return "", ctx.Err()
	}
	return v, err
}
