package builder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// These are the upper limits in TestLease. takeOver is the time within which the other builder
// takes over. buildTime is the duration of a build, whose provider takes up to 15 seconds to
// respond, and each of whose store calls takes up to 0.1 seconds.
const (
	takeOver  = time.Minute
	buildTime = 30 * time.Second
)

// fleet holds two running builders that share a store, and records what they do.
type fleet struct {
	t     *testing.T
	store *memstore.Store

	mu     sync.Mutex
	dice   *rand.Rand
	holder *leased // the builder that is at work, if any
	since  time.Time
	reads  map[time.Time][]time.Time // by mark: when the provider was read
	events []time.Time               // when strike hit a holder
	kinds  map[string]int
}

// leased is one running builder, including the machine that it runs on.
type leased struct {
	*fleet
	cancel   context.CancelFunc
	done     chan struct{}
	cut, hit bool // whether the store is unreachable, and whether the builder is dead
}

func (f *fleet) upTo(d time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.dice.Int64N(int64(d)))
}

// start starts a builder with real builds and change jobs.
func (f *fleet) start() *leased {
	ctx, cancel := context.WithCancel(context.Background())
	p := &leased{fleet: f, cancel: cancel, done: make(chan struct{})}
	s := faultstore.New(f.store, p.call)
	b := must.Get(New(config(s, p)))(f.t)
	nothing := func(context.Context) error { return nil }
	loop := &Loop{
		Build: func(ctx context.Context, mark time.Time) error { _, err := b.BuildMark(ctx, mark); return err },
		Published: func(ctx context.Context) (time.Time, error) {
			h, err := publish.ReadHead(ctx, s)
			if err != nil || h.Pointer == nil {
				return time.Time{}, err
			}
			return h.Pointer.Time, nil
		},
		Change: func(ctx context.Context) error {
			_, err := change.Record(ctx, s, time.Now)
			return err
		}, ChangeEvery: 5 * time.Minute,
		Collect: nothing, CollectEvery: time.Hour, Log: discard,
	}
	go func() {
		defer close(p.done)
		(&Lease{Store: s, Log: discard}).Run(ctx, func(ctx context.Context) {
			p.works(true)
			stop := context.AfterFunc(ctx, func() { p.works(false) })
			loop.Run(ctx)
			if stop() { // ctx was not done, so the other function will not run
				p.works(false)
			}
		})
	}()
	return p
}

// works records that a builder starts to work, or that it was told to stop.
func (p *leased) works(does bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !does && p.holder == p:
		p.holder = nil
	case does && p.holder != nil && !p.holder.hit:
		p.t.Errorf("%v: two builders work", time.Now())
	case does && !p.hit:
		p.holder, p.since = p, time.Now()
	}
}

// call makes a store call take some time. If the builder is cut off during the call, the call may
// or may not take effect.
func (p *leased) call(op faultstore.Op) faultstore.Decision {
	if op.Key == artifacts.IdentityKey {
		return faultstore.Pass // identity reads hold a mutex, which would stop the bubble's clock
	}
	before := p.isCut()
	sleepFor := p.upTo(100 * time.Millisecond)
	time.Sleep(sleepFor)
	switch {
	case !p.isCut():
		return faultstore.Pass
	case !before && sleepFor%2 == 0 && op.Kind != faultstore.List:
		return faultstore.Lose
	}
	if op.Key == artifacts.LeaseKey {
		return faultstore.Block
	}
	time.Sleep(3 * time.Second) // the client's timeout
	return faultstore.Refuse
}

func (p *leased) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// Files makes the builder's machine the Source. It acts like a provider that takes several seconds
// to respond.
func (p *leased) Files(ctx context.Context, _ time.Time) (source.Files, error) {
	at := time.Now()
	p.mu.Lock()
	if !p.hit {
		mark := at.UTC().Truncate(artifacts.Step)
		p.reads[mark] = append(p.reads[mark], at)
	}
	p.mu.Unlock()
	sleep(ctx, p.upTo(15*time.Second))
	return world{Assets: 10, At: at}.Files(ctx, at)
}
func (p *leased) String() string { return "test provider" }

// set changes the state of a builder.
func (p *leased) set(cut, hit bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.hit = cut, hit
}

// held waits until a builder other than the given one works. It returns this builder, and the time
// when it started to work.
func (f *fleet) held(not *leased) (*leased, time.Time) {
	for end := time.Now().Add(2 * takeOver); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		f.mu.Lock()
		p, since := f.holder, f.since
		f.mu.Unlock()
		if p != nil && p != not {
			return p, since
		}
	}
	f.t.Fatalf("%v: nobody has taken over", time.Now())
	return nil, time.Time{}
}

// strike kills, stops or cuts off the holder. It returns the two builders that run afterwards, the
// new holder first.
func (f *fleet) strike() (*leased, *leased) {
	p, _ := f.held(nil)
	at, within := time.Now(), takeOver
	what := []string{"kill", "kill", "kill", "stop", "part"}[f.upTo(5)]
	f.kinds[what]++
	switch what {
	case "part": // the store is unreachable for a long time
		p.set(true, false)
	case "kill":
		p.set(true, true)
		p.cancel()
	case "stop":
		p.cancel()
		within = LeaseTime / 2
	}
	f.events = append(f.events, at)
	next, since := f.held(p)
	if took := since.Sub(at); took > within {
		f.t.Errorf("%v: after a %s the other builder took over in %v", at, what, took)
	}
	time.Sleep(f.upTo(time.Minute))
	if what == "part" {
		p.set(false, false)
		return next, p
	}
	<-p.done
	return next, f.start()
}

// watch records when each snapshot is published, until ctx is done.
func (f *fleet) watch(ctx context.Context, published map[time.Time]time.Time) {
	var known artifacts.Version
	for ; ctx.Err() == nil; sleep(ctx, time.Second) {
		b, version, err := f.store.GetIf(f.t.Context(), artifacts.CurrentKey, known, artifacts.MaxPointerSize)
		if err != nil {
			continue // nothing is published yet, or the pointer has not changed
		}
		if p, err := artifacts.ParsePointer(b); err != nil {
			f.t.Error(err)
		} else {
			published[p.Time], known = time.Now(), version
		}
	}
}

// leaseKills is how often TestLease strikes the holder.
func leaseKills() int {
	if os.Getenv("TEST_LONG") == "1" {
		return 2000
	}
	if testing.Short() {
		return 20
	}
	return 50
}

// TestLease kills or stops the builder that has the lease, or cuts it off from the store, again and
// again. The builds are real, the store and the provider are slow, and the clock is simulated. The
// two builders must never work at the same time. Every mark must be published, delayed at most by a
// takeover. The provider must be read once per mark, and at most once more for each strike.
func TestLease(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	inBubble(t, func(t *testing.T) {
		f := &fleet{
			t: t, store: memstore.New(), dice: rand.New(rand.NewPCG(seed, 1)), reads: map[time.Time][]time.Time{},
			kinds: map[string]int{}}
		if _, err := publish.Identity(t.Context(), f.store); err != nil { // see call
			t.Fatal(err)
		}
		published := map[time.Time]time.Time{}
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { f.watch(ctx, published) })
		first := time.Now().UTC().Truncate(artifacts.Step)
		a := f.start()
		b := f.start()
		for range leaseKills() {
			time.Sleep(3*time.Minute + f.upTo(20*time.Minute))
			if f.upTo(2) == 0 { // strike during a build
				time.Sleep(time.Until(time.Now().Truncate(artifacts.Step).Add(artifacts.Step + f.upTo(buildTime))))
			}
			a, b = f.strike()
		}
		end := time.Now()
		time.Sleep(2 * artifacts.Step)
		for _, p := range []*leased{a, b} {
			p.cancel()
			<-p.done
		}
		cancel()
		watching.Wait()
		if b, _, err := f.store.Get(t.Context(), artifacts.LeaseKey, maxLeaseSize); err != nil ||
			!slices.Contains(leaseOwners(b), "") {
			t.Errorf("stopped, and the lease is %s, %v", b, err)
		}
		var latest time.Duration
		twice := 0
		for mark := first; mark.Before(end); mark = mark.Add(artifacts.Step) {
			at, ok := published[mark]
			if !ok {
				t.Errorf("mark %v was missed", mark)
				continue
			}
			reads := f.reads[mark]
			due, hits := mark.Add(buildTime), 0
			for _, e := range f.events {
				if e.After(mark.Add(-takeOver)) && e.Before(at) {
					hits++
					due = mark.Add(takeOver + buildTime)
					if e.After(mark) {
						due = e.Add(takeOver + buildTime)
					}
				}
			}
			latest = max(latest, at.Sub(mark))
			if at.After(due) {
				t.Errorf("mark %v was published at %v, %d hits", mark, at, hits)
			}
			if len(reads) > 1+hits {
				t.Errorf("mark %v: the provider was read at %v, %d hits", mark, reads, hits)
			}
			if len(reads) > 1 {
				twice++
			}
		}
		t.Logf("%v; %d marks, the latest %v late; provider read more than once for %d", f.kinds, len(published), latest,
			twice)
		verify(t, f.store)
	})
}

func leaseOwners(b []byte) []string {
	var r leaseRecord
	if artifacts.ParseFormat("lease", b, &r) != nil {
		return nil
	}
	return []string{r.Owner}
}

// TestLeaseObject checks that a builder gets to work whatever the lease object contains:
// immediately if nobody has the lease, and otherwise once the object has not changed for LeaseTime.
func TestLeaseObject(t *testing.T) {
	for _, c := range []struct {
		name, object string
		want         time.Duration
	}{
		{"none", "", 0},
		{"given back", `{"format":1,"number":7,"owner":""}`, 0},
		{"somebody's", `{"format":1,"number":7,"owner":"x","until":"2999-01-01T00:00:00Z"}`, LeaseTime},
		{"ended, by another clock", `{"format":1,"number":7,"owner":"x","until":"1999-01-01T00:00:00Z"}`, LeaseTime},
		{"of a later format", `{"format":2,"owner":""}`, LeaseTime},
		{"damaged", `{"for`, LeaseTime},
		{"a number beyond reason", `{"format":1,"number":18446744073709551615,"owner":""}`, 0},
		{"too large", strings.Repeat(" ", 2*maxLeaseSize), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				if c.object != "" {
					must.Get(s.Swap(t.Context(), artifacts.LeaseKey, "", []byte(c.object)))(t)
				}
				began, held := time.Now(), []bool{}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				l := &Lease{Store: s, Log: discard, Held: func(h bool) { held = append(held, h) }}
				l.Run(ctx, func(ctx context.Context) {
					if took := time.Since(began); took != c.want {
						t.Errorf("got the lease after %v, want %v", took, c.want)
					}
					<-ctx.Done()
				})
				if fmt.Sprint(held) != "[true false]" || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
					t.Errorf("held: %v", held)
				}
			})
		})
	}
}

// TestLeaseTaken checks that a holder stops immediately if it finds that another builder has taken
// the lease.
func TestLeaseTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := memstore.New(), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		(&Lease{Store: s, Log: discard}).Run(ctx, func(work context.Context) {
			_, version, err := s.Get(ctx, artifacts.LeaseKey, maxLeaseSize)
			if err == nil {
				_, err = s.Swap(ctx, artifacts.LeaseKey, version, []byte(`{"format":1,"number":9,"owner":"x"}`))
			}
			if <-work.Done(); err != nil || time.Since(began) != LeaseTime/3 {
				t.Errorf("%v; stopped after %v, want the next renewal", err, time.Since(began))
			}
			cancel()
		})
		if b, _, err := s.Get(t.Context(), artifacts.LeaseKey, maxLeaseSize); err != nil ||
			!slices.Contains(leaseOwners(b), "x") {
			t.Errorf("the other's lease is now %s, %v", b, err)
		}
	})
}

// TestLeaseOutage checks that a holder keeps the lease through an outage of half the lease's
// duration. The outage starts at different times between two renewals. The store refuses calls,
// does not respond, or loses its responses.
func TestLeaseOutage(t *testing.T) {
	for _, fault := range []faultstore.Decision{faultstore.Refuse, faultstore.Block, faultstore.Lose} {
		for at := time.Duration(0); at <= LeaseTime/3; at += LeaseTime / 60 {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := faultstore.New(memstore.New(), func(faultstore.Op) faultstore.Decision {
					time.Sleep(100 * time.Millisecond)
					if away := time.Since(began) - LeaseTime - at; away >= 0 && away < LeaseTime/2 {
						return fault
					}
					return faultstore.Pass
				})
				ctx, cancel := context.WithTimeout(t.Context(), 4*LeaseTime)
				defer cancel()
				works := 0
				(&Lease{Store: s, Log: discard}).Run(ctx, func(ctx context.Context) { works++; <-ctx.Done() })
				if works != 1 {
					t.Errorf("store away from %v on (decision %d): began to work %d times", LeaseTime+at, fault, works)
				}
			})
		}
	}
}

// TestLeaseCalls counts the store calls per hour: the holder writes, and a waiter asks whether the
// lease has changed (STORE.md, "The lease").
func TestLeaseCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var stores []*faultstore.Store
		var running sync.WaitGroup
		for range 2 {
			counted := faultstore.New(s, nil)
			stores = append(stores, counted)
			running.Go(func() {
				(&Lease{Store: counted, Log: discard}).Run(ctx, func(ctx context.Context) { <-ctx.Done() })
			})
			synctest.Wait()
		}
		running.Wait()
		for i, counted := range stores {
			for kind, count := range counted.Counts() {
				if count > 362 || i == 0 && kind == faultstore.GetIf && count > 1 {
					t.Errorf("builder %d: %d calls of %s in an hour", i, count, kind)
				}
			}
		}
	})
}
