package snapshot

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/follow"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/teststore"
)

// outage is a store with a delay of a few milliseconds and an outage. During the outage, it refuses requests.
// If hangs is set, it never answers them instead, nor those that are in progress when the outage begins.
type outage struct {
	artifacts.Reader
	mu       sync.Mutex
	from, to time.Time
	hangs    bool

	asked   atomic.Int64 // requests during the outage
	running atomic.Int64
	most    atomic.Int64 // the highest value of running
}

func (o *outage) set(from, to time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.from, o.to = from, to
}

func (o *outage) away() (is, hangs bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	return !now.Before(o.from) && now.Before(o.to), o.hangs
}

func (o *outage) travel(ctx context.Context) error {
	n := o.running.Add(1)
	defer o.running.Add(-1)
	for m := o.most.Load(); n > m && !o.most.CompareAndSwap(m, n); m = o.most.Load() {
	}
	if is, _ := o.away(); is {
		o.asked.Add(1)
	}
	for range 2 {
		if is, hangs := o.away(); is && hangs {
			<-ctx.Done()
			return ctx.Err()
		} else if is {
			return errAway
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

func (o *outage) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	if err := o.travel(ctx); err != nil {
		return nil, "", err
	}
	return o.Reader.Get(ctx, key, limit)
}

func (o *outage) GetIf(
	ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	if err := o.travel(ctx); err != nil {
		return nil, "", err
	}
	return o.Reader.GetIf(ctx, key, known, limit)
}

// TestOutage checks random outages and times of publication. All edges that the outage cut off from the new
// snapshot must make it current within a second of each other. During the outage, each edge may read the
// pointer twice per second, and little else.
func TestOutage(t *testing.T) {
	const edges, delay = 4, 15 * time.Second
	outages := uint64(16)
	if testing.Short() {
		outages = 4
	}
	for seed := range outages {
		rnd := rand.New(rand.NewPCG(seed, 0))
		hangs := seed%2 == 1
		before := time.Duration(rnd.Int64N(int64(20 * time.Second)))
		length := time.Duration(rnd.Int64N(int64([]time.Duration{10 * time.Second, time.Minute}[rnd.IntN(2)])))
		// Publish between three seconds before the outage, when an edge may be about to fetch, and some time
		// after it.
		published := time.Duration(rnd.Int64N(int64(length + 6*time.Second)))
		if !hangs {
			published -= 3 * time.Second
		}
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			first := teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
			var mu sync.Mutex
			var swaps []time.Time
			var rigs []*rig
			var stores []*outage
			for range edges {
				time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Second))))
				o := &outage{Reader: mem, hangs: hangs}
				r := start(t, mem, t.TempDir(), func(c *Config, s *store) {
					s.Reader = o
					c.Poll, c.MaxBackoff = 0, 0 // use the defaults
					c.Swapped = func(Swap) {
						mu.Lock()
						defer mu.Unlock()
						swaps = append(swaps, time.Now())
					}
				})
				r.until(t, "the first snapshot", r.at(teststore.Start))
				rigs, stores = append(rigs, r), append(stores, o)
			}
			from := time.Now().Add(4*time.Second + before)
			to := from.Add(length)
			for _, o := range stores {
				o.set(from, to)
			}
			time.Sleep(time.Until(from.Add(published)))
			mu.Lock()
			swaps = nil
			mu.Unlock()
			teststore.Publish(t, mem, teststore.NewFeed(50, 2), next(first), activateIn(delay))
			time.Sleep(time.Until(to) + delay + 30*time.Second)
			mu.Lock()
			defer mu.Unlock()
			if len(swaps) != edges {
				t.Fatalf("seed %d: %d of %d edges have the snapshot", seed, len(swaps), edges)
			}
			// An edge that had the snapshot before the end of the outage counts from that end.
			for i, at := range swaps {
				if at.Before(to) {
					swaps[i] = to
				}
			}
			slices.SortFunc(swaps, time.Time.Compare)
			if spread := swaps[edges-1].Sub(swaps[0]); spread > time.Second {
				t.Errorf("seed %d: outage of %v, snapshot published %v after its begin: edges have it within %v",
					seed, length, published, spread)
			}
			for i, o := range stores {
				// Each edge reads the pointer twice per second, and tries a few other objects once more.
				if n, most := o.asked.Load(), int64(length/follow.ProbeEvery)+40; n > most {
					t.Errorf("seed %d: %d requests in %v, want %d at most", seed, n, length, most)
				}
				if n := o.most.Load(); n > fetchers+follow.MaxProbes {
					t.Errorf("seed %d: %d requests at once", seed, n)
				}
				rigs[i].halt()
			}
		})
	}
}

// TestAtRest checks that an edge with the newest snapshot reads the pointer 30 times per minute and the
// change record once (deploy/COST.md). When the pointer has changed, it reads both immediately.
func TestAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		first := teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
		counting := faultstore.New(mem, nil)
		r := start(t, mem, t.TempDir(), func(c *Config, s *store) {
			s.Reader = counting
			c.Poll = 0
		})
		r.until(t, "the first snapshot", r.at(teststore.Start))
		synctest.Wait() // for the objects that are fetched in the background
		asked := map[artifacts.Key]int{}
		var mu sync.Mutex
		counting.SetHook(func(op faultstore.Op) faultstore.Decision {
			mu.Lock()
			defer mu.Unlock()
			asked[op.Key]++
			return faultstore.Pass
		})
		const minutes = 60
		time.Sleep(minutes * time.Minute)
		mu.Lock()
		pointers, records, all := asked[artifacts.CurrentKey], asked[artifacts.ChangeKey], len(asked)
		mu.Unlock()
		if pointers < 29*minutes || pointers > 31*minutes || records < minutes-2 || records > minutes+2 || all != 2 {
			t.Errorf("in %d minutes it asked %v", minutes, asked)
		}
		teststore.Publish(t, mem, teststore.NewFeed(50, 2), next(first))
		teststore.Change(t, mem, next(first))
		time.Sleep(3 * time.Second)
		if s := r.State(); !s.Snapshot.Time.Equal(next(first)) || s.Change == nil {
			t.Errorf("after the pointer has moved: %+v", s)
		}
		r.halt()
	})
}
