package limit

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/edge/upstream"
	"example.com/marketdata/internal/test/must"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucketStore is a Store in memory. It consists of plain buckets with the clock of a synctest bubble. A
// call takes the time that latency returns, half of it before the bucket changes.
type bucketStore struct {
	began   time.Time
	latency func() time.Duration
	err     atomic.Pointer[error]
	calls   atomic.Int64
	closed  atomic.Bool

	mu      sync.Mutex
	buckets map[string]*Bucket
}

func newBucketStore(latency func() time.Duration) *bucketStore {
	return &bucketStore{began: time.Now(), latency: latency, buckets: map[string]*Bucket{}}
}

func (s *bucketStore) now() int64 { return int64(time.Since(s.began)) }

// travel waits for a part of the latency, or until ctx is done.
func (s *bucketStore) travel(ctx context.Context, part time.Duration) error {
	select {
	case <-time.After(part):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *bucketStore) Ping(ctx context.Context) error { return s.travel(ctx, s.latency()) }

func (s *bucketStore) Close() error {
	s.closed.Store(true)
	return nil
}

func (s *bucketStore) Take(ctx context.Context, name string, l Limit, want, back int) (Grant, error) {
	s.calls.Add(1)
	latency := s.latency()
	if err := s.travel(ctx, latency/2); err != nil {
		return Grant{}, err
	}
	g := s.take(name, l, want, back)
	return g, s.travel(ctx, latency-latency/2)
}

func (s *bucketStore) take(name string, l Limit, want, back int) Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[name]
	if b == nil {
		b = new(Bucket)
		s.buckets[name] = b
	}
	now := s.now()
	for range back {
		b.full.Add(-l.interval)
	}
	for range -back {
		b.full.Store(max(b.full.Load(), now) + l.interval)
	}
	got := 0
	for got < want && b.Take(l, now).OK {
		got++
	}
	return Grant{Tokens: got, Missing: time.Duration(max(0, b.full.Load()-now))}
}

func instantly() time.Duration { return 0 }

// running starts a Shared, which runs until the end of the test, and waits until it shares limits.
func running(t *testing.T, cfg SharedConfig) *Shared {
	s := NewShared(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for !s.up.Load() {
		time.Sleep(time.Millisecond)
	}
	return s
}

// admitted returns the number of requests that edges admit in the given period. Several goroutines per edge
// send requests without a pause, except after a refusal. The buckets are full at first. If more is
// positive, each admitted request costs that many more tokens.
func admitted(s *bucketStore, leases []*Lease, goroutines int, period, pause time.Duration, more int) int {
	var total atomic.Int64
	var wg sync.WaitGroup
	end := s.now() + int64(period)
	for _, lease := range leases {
		local := new(Bucket)
		for range goroutines {
			wg.Go(func() {
				for now := s.now(); now <= end; now = s.now() {
					if d := lease.Take(local, now); d.OK {
						total.Add(1)
						if more > 0 {
							lease.Charge(local, d, now, more)
						}
					} else {
						time.Sleep(pause)
					}
				}
			})
		}
	}
	wg.Wait()
	return int(total.Load())
}

// TestSharedAccuracy checks that all edges together admit no more than the limit, whatever the latency, and
// not much less.
func TestSharedAccuracy(t *testing.T) {
	period := time.Minute
	if testing.Short() {
		period = 15 * time.Second // long enough that most decisions come from the store
	}
	for name, c := range map[string]struct {
		rate, burst, edges int
		latency            time.Duration // at most
		more               int           // tokens besides the first
	}{
		"default key, near":    {100, 200, 3, 200 * time.Microsecond, 0},
		"default key, far":     {100, 200, 3, 4 * time.Millisecond, 0},
		"rare":                 {1, 5, 2, time.Millisecond, 0},
		"fast, many edges":     {2000, 500, 8, time.Millisecond, 0},
		"fast, one edge":       {2000, 100, 1, time.Millisecond, 0},
		"burst beyond a lease": {20, 1000, 3, time.Millisecond, 0},
		"dear":                 {100, 200, 3, time.Millisecond, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd, mu := rand.New(rand.NewPCG(1, 2)), sync.Mutex{}
				store := newBucketStore(func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return rand.N(c.latency) + time.Duration(rnd.Int64N(2))
				})
				l := must.Get(New(c.rate, c.burst))(t)
				var edges []*Shared
				var leases []*Lease
				for range c.edges {
					edges = append(edges, running(t, SharedConfig{Store: store}))
					leases = append(leases, edges[len(edges)-1].NewLease("k", l))
				}
				got := (1 + c.more) * admitted(store, leases, 64/c.edges, period, 12*time.Millisecond, c.more)
				promised := c.rate*int(period/time.Second) + c.burst
				// Requests that a lease admits at the same time may cost more tokens than it has.
				debt := c.more * c.edges * c.rate * int(leaseTime) / int(time.Second)
				if most := promised + c.rate*int(leaseTime)/int(time.Second) + debt; got > most ||
					got < promised*99/100 {
					t.Errorf("%d admitted by %d edges, want at most %d and 99 %% of %d", got, c.edges, most, promised)
				}
				for _, edge := range edges {
					if st := edge.Status(); st.State != upstream.Valid || st.Local > st.Calls || st.Faults != 0 {
						t.Errorf("%+v", st)
					}
				}
				// The number of calls for saturated keys is bounded.
				if most := int64(c.edges) * int64(period/minPause) * 2; store.calls.Load() > most {
					t.Errorf("%d calls in %v, want at most %d", store.calls.Load(), period, most)
				}
			})
		})
	}
}

// TestSharedRare checks that infrequent requests take no more tokens from other edges than they use.
func TestSharedRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newBucketStore(instantly)
		l := must.Get(New(100, 10))(t)
		var leases []*Lease
		for range 10 {
			leases = append(leases, running(t, SharedConfig{Store: store}).NewLease("k", l))
		}
		// Send 90 requests per second at equal intervals, 9 to each edge. The limit is 100.
		local := new(Bucket)
		for i := range 900 {
			time.Sleep(time.Second / 90)
			if !leases[i%10].Take(local, store.now()).OK {
				t.Fatalf("request %d refused", i)
			}
		}
	})
}

// TestSharedDecisions checks that, if requests are so infrequent that no lease has more than one token,
// decisions equal those of a local bucket.
func TestSharedDecisions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newBucketStore(instantly)
			l := must.Get(New(rapid.IntRange(1, 50).Draw(rt, "rate"), rapid.IntRange(1, 50).Draw(rt, "burst")))(t)
			lease, local, model := running(t, SharedConfig{Store: store}).NewLease("k", l), new(Bucket), new(Bucket)
			for i := range rapid.IntRange(1, 40).Draw(rt, "requests") {
				time.Sleep(leaseTime/2 + time.Duration(rapid.Int64Range(0, l.interval).Draw(rt, "pause")))
				now := store.now()
				got, want := lease.Take(local, now), model.Take(l, now)
				if got.leased = false; got != want {
					rt.Fatalf("request %d at %d: %+v, want %+v", i, now, got, want)
				}
			}
		})
	})
}

// TestSharedSlow checks that requests wait for three slow calls in a row, 5 ms each. Then the edge limits
// by itself, continues with the tokens that were left, and reports this, until the store is fast again.
func TestSharedSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var latency atomic.Int64
		store := newBucketStore(func() time.Duration { return time.Duration(latency.Load()) })
		var log bytes.Buffer
		s := running(t, SharedConfig{Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := must.Get(New(1, 10))(t)
		lease, local := s.NewLease("k", l), new(Bucket)
		for range 4 {
			if d := lease.Take(local, store.now()); !d.OK {
				t.Fatalf("%+v", d)
			}
		}
		latency.Store(int64(time.Hour))
		time.Sleep(2 * leaseTime)
		began, calls := time.Now(), store.calls.Load()
		var wg sync.WaitGroup
		var left [6]int
		for i := range left {
			wg.Go(func() {
				if d := lease.Take(local, store.now()); d.OK {
					left[i] = 1
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != defaultWait {
			t.Errorf("waited for %v, want %v", took, defaultWait)
		}
		for range maxMisses {
			synctest.Wait() // until the previous call is over
			if lease.Take(local, store.now()).OK || left != [6]int{1, 1, 1, 1, 1, 1} {
				t.Errorf("%v of the 6 tokens left, and one more", left)
			}
		}
		if took := time.Since(began); took != maxMisses*defaultWait || store.calls.Load() != calls+maxMisses {
			t.Errorf("waited %v in all, %d calls", took, store.calls.Load()-calls)
		}
		synctest.Wait()
		if st := s.Status(); st.State != upstream.Interrupted || st.Local != 9 || st.Faults != maxMisses ||
			!strings.Contains(st.LastError, "deadline") && st.LastError != errLate.Error() {
			t.Errorf("%+v", st)
		}
		// Probes become less frequent.
		time.Sleep(10 * time.Minute)
		if !strings.Contains(s.Status().LastError, "deadline") || s.up.Load() {
			t.Errorf("%+v", s.Status())
		}
		if lines := strings.Count(log.String(), "\n"); lines != 2 ||
			strings.Count(log.String(), "limits by itself") != 1 {
			t.Errorf("log: %s", log.String())
		}
		latency.Store(int64(6 * time.Millisecond)) // still too slow
		time.Sleep(time.Minute)
		if s.up.Load() {
			t.Error("a slow store is waited for")
		}
		latency.Store(0)
		time.Sleep(longestPause + time.Second)
		if st := s.Status(); st.State != upstream.Valid || !lease.Take(local, store.now()).OK ||
			s.Status().Local != st.Local {
			t.Errorf("%+v", st)
		}
	})
}

// TestSharedStumbles checks that an occasional late call only leads to a local decision and does not end
// sharing. A store that was fast for a while is probed again soon after it fails.
func TestSharedStumbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Bool
		store := newBucketStore(func() time.Duration {
			if late.Load() {
				return 2 * defaultWait
			}
			return 0
		})
		s := running(t, SharedConfig{Store: store})
		l := must.Get(New(1000, 1000))(t)
		lease, local := s.NewLease("k", l), new(Bucket)
		take := func(stumble bool) {
			time.Sleep(2 * leaseTime) // so that the next request calls the store
			late.Store(stumble)
			if !lease.Take(local, store.now()).OK {
				t.Error("refused")
			}
			synctest.Wait() // until a second call that the request began is late, too
			late.Store(false)
		}
		since := s.Status().Since
		for range 20 {
			take(true) // one late call, or two if the first ends before the wait
			take(false)
		}
		if st := s.Status(); st.State != upstream.Valid || st.Since != since || st.Local != 20 || st.Faults < 20 {
			t.Errorf("%+v", st)
		}
		for range 20 { // each time, sharing has worked for steadyAfter
			time.Sleep(steadyAfter)
			for takes := 0; s.up.Load() && takes < maxMisses; takes++ {
				take(true)
				time.Sleep(2 * defaultWait) // by then a second call is late, too
			}
			if s.up.Load() {
				t.Error("still shared")
			}
			time.Sleep(firstPause)
			if !s.up.Load() {
				t.Errorf("not probed within %v", firstPause)
			}
		}
	})
}

// deaf is a Store whose calls ignore their context.
type deaf struct {
	*bucketStore
	release chan struct{}
}

func (d deaf) Take(context.Context, string, Limit, int, int) (Grant, error) {
	<-d.release
	return Grant{Tokens: 1}, nil
}

// TestSharedDeaf checks that requests wait only once for a call that does not end.
func TestSharedDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := deaf{newBucketStore(instantly), make(chan struct{})}
		s := running(t, SharedConfig{Store: store})
		lease, local := s.NewLease("k", must.Get(New(1, 10))(t)), new(Bucket)
		began := time.Now()
		for range 8 {
			if !lease.Take(local, store.now()).OK {
				t.Error("refused")
			}
			synctest.Wait()
		}
		if took := time.Since(began); took != defaultWait {
			t.Errorf("waited %v", took)
		}
		time.Sleep(maxMisses * defaultWait)
		if s.up.Load() {
			t.Error("still shared")
		}
		close(store.release)
	})
}

// TestSharedAway checks that a store that refuses calls costs no time.
func TestSharedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newBucketStore(instantly)
		away := errors.New("connection refused")
		store.err.Store(&away)
		s := NewShared(SharedConfig{Store: store})
		l := must.Get(New(10, 3))(t)
		lease, local := s.NewLease("k", l), new(Bucket)
		count := func() (n int) {
			began := time.Now()
			for lease.Take(local, store.now()).OK {
				n++
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("waited for %v", took)
			}
			return n
		}
		if st := s.Status(); st.State != upstream.Initializing || count() != 3 {
			t.Errorf("before the first probe: %+v", st)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.Run(ctx) })
		synctest.Wait()
		if st := s.Status(); st.State != upstream.Interrupted || st.LastError != "connection refused" ||
			store.calls.Load() != 0 {
			t.Errorf("%+v", st)
		}
		store.err.Store(nil)
		time.Sleep(longestPause)
		if st := s.Status(); st.State != upstream.Valid || count() != 3 {
			t.Errorf("%+v", st)
		}
		// The store fails again between two calls: tokens that were used stay used.
		store.err.Store(&away)
		time.Sleep(l.Interval())
		if n := count(); n != 1 || s.up.Load() {
			t.Errorf("%d tokens after going away, want the one that came in", n)
		}
		cancel()
		wg.Wait()
		if err := s.Close(); err != nil || !store.closed.Load() || s.up.Load() {
			t.Errorf("closed: %v, %v", store.closed.Load(), err)
		}
	})
}

// liar is a Store with implausible answers.
type liar struct{ grant Grant }

func (l liar) Take(context.Context, string, Limit, int, int) (Grant, error) { return l.grant, nil }
func (liar) Ping(context.Context) error                                     { return nil }
func (liar) Close() error                                                   { return nil }

// TestSharedLies checks that no answer of a store makes an edge admit more requests than it asked for, or
// puts an implausible value into a header.
func TestSharedLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, grant := range []Grant{{Tokens: 1 << 40}, {Tokens: -1 << 40, Missing: 1 << 62}, {Missing: -1 << 62},
			{Tokens: 1, Missing: 1 << 62}} {
			s := running(t, SharedConfig{Store: liar{grant}})
			l := must.Get(New(10, 5))(t)
			d := s.NewLease("k", l).Take(new(Bucket), int64(time.Hour))
			// the debt may be a minute's worth of tokens
			if d.OK != (grant.Tokens > 0) || d.Remaining < 0 || d.Remaining > 5 || d.Reset < 0 || d.Reset > 61 ||
				d.RetryAfter < 0 || d.RetryAfter > 61 {
				t.Errorf("%+v: %+v", grant, d)
			}
		}
	})
}

// TestSharedCost checks that deciding from a lease allocates nothing.
func TestSharedCost(t *testing.T) {
	s := NewShared(SharedConfig{Store: liar{Grant{Tokens: 1 << 40}}})
	s.up.Store(true)
	l := must.Get(New(MaxRate, MaxBurst))(t)
	lease, local := s.NewLease("k", l), new(Bucket)
	h := &granted{until: 1 << 60}
	h.left.Store(1 << 30)
	lease.granted.Store(h)
	if n := testing.AllocsPerRun(1000, func() { lease.Take(local, 5) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	none := &granted{until: 1 << 60, again: 1 << 60, full: 1 << 60}
	lease.granted.Store(none)
	if n := testing.AllocsPerRun(1000, func() {
		if lease.Take(local, 5).OK {
			t.Fatal("a token from nowhere")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a refusal", n)
	}
}
