package snapshot

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// gets counts the reads of a store, by key.
type gets struct {
	mu sync.Mutex
	n  map[artifacts.Key]int
}

func (g *gets) add(key artifacts.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == nil {
		g.n = map[artifacts.Key]int{}
	}
	g.n[key]++
}

// count counts a read and leaves its result unchanged.
func (g *gets) count(key artifacts.Key, b []byte, err error) ([]byte, error) {
	g.add(key)
	return b, err
}

// all returns the number of reads of each key.
func (g *gets) all() map[artifacts.Key]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.n)
}

// once fails the test if an object was read twice.
func (g *gets) once(tb testing.TB) {
	tb.Helper()
	for key, n := range g.all() {
		if key.Kind() == artifacts.ObjectKind && n > 1 {
			tb.Errorf("%s was fetched %d times", key, n)
		}
	}
}

// historyKeys returns the keys of p's history objects that the previous snapshot, prev, does not have. prev
// may be nil.
func historyKeys(p, prev *teststore.Published) map[artifacts.Key]bool {
	keys := map[artifacts.Key]bool{}
	set := func(m *artifacts.Manifest, add bool) {
		for _, v := range m.Views {
			for _, o := range v.Objects {
				if key := artifacts.ObjectKey(o.Digest); artifacts.IsHistory(v.Collection) && add {
					keys[key] = true
				} else {
					delete(keys, key)
				}
			}
		}
	}
	set(p.Manifest, true)
	if prev != nil {
		set(prev.Manifest, false)
	}
	return keys
}

// answers reads every shard of the current snapshot's history.
func (r *rig) answers() error {
	for n := range artifacts.HistoryWindows {
		h := r.current().History(n)
		if h == nil {
			return fmt.Errorf("window %d is missing", n)
		}
		views := []*View{h.Listed}
		if h.Own != nil {
			views = append(views, h.Own)
		}
		for _, b := range h.Blocks {
			views = append(views, b.View)
		}
		for i, v := range views {
			for shard := range v.Shards() {
				if _, err := v.Shard(shard, &Budget{Wait: time.Minute}); err != nil {
					return fmt.Errorf("window %d, view %d, shard %d: %w", n, i, shard, err)
				}
			}
		}
	}
	return nil
}

// TestHistoryBeforeActivation checks that the new history objects of a snapshot are on this machine when it
// becomes current, and were fetched once. Answers are then complete even if the store becomes unreachable. A
// store that is slow to return history, or lacks it, does not delay the snapshot.
func TestHistoryBeforeActivation(t *testing.T) {
	const delay = 15 * time.Second
	for name, spoil := range map[string]func() error{
		"in time": nil,
		"slow":    func() error { time.Sleep(time.Minute); return nil },
		"missing": func() error { return artifacts.ErrNotFound },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, asked := memstore.New(), &gets{}
				first := teststore.Publish(t, mem, teststore.NewFeed(100, 1).History(50), teststore.Start)
				var late map[artifacts.Key]bool
				lag := time.Duration(-1)
				var r *rig
				r = start(t, mem, t.TempDir(), func(c *Config, s *store) {
					c.HistoryBytes = 1 << 30
					s.set(func(key artifacts.Key, b []byte, err error) ([]byte, error) {
						asked.add(key)
						if s.mu.Lock(); late[key] {
							s.mu.Unlock()
							return b, spoil()
						}
						s.mu.Unlock()
						return b, err
					})
					c.Swapped = func(swap Swap) {
						if lag = swap.Lag; swap.Timed && spoil == nil {
							r.store.set(away)
						}
					}
				})
				local := func() bool { return r.current() != nil && r.Status().MissingHistory == 0 }
				r.until(t, "the first snapshot's history", local)
				at := time.Now().Add(delay)
				second := teststore.Publish(t, mem, teststore.NewFeed(100, 2).History(50), next(first),
					activateIn(delay))
				if keys := historyKeys(second, first); spoil != nil {
					r.store.mu.Lock()
					late = keys
					r.store.mu.Unlock()
				} else if len(keys) == 0 {
					t.Fatal("the history is that of before")
				}
				time.Sleep(time.Until(at))
				synctest.Wait()
				if !r.at(next(first))() || lag != 0 {
					t.Fatalf("the snapshot is not current at its time: %v late; %+v", lag, r.Status())
				}
				if spoil != nil {
					if local() {
						t.Error("history that the store did not give is here")
					}
					r.store.set(nil)
					time.Sleep(2 * time.Minute)
					r.until(t, "history", local)
				}
				must.OK(t, r.answers())
				r.halt()
				if name != "missing" {
					asked.once(t)
				}
			})
		})
	}
}

// TestHistoryOfWhatWaits checks that each of several waiting snapshots has its history when it becomes
// current, and that a rollback or the end of the refresher stops fetching for waiting snapshots.
func TestHistoryOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, asked := memstore.New(), &gets{}
		p := teststore.Publish(t, mem, teststore.NewFeed(100, 1).History(50), teststore.Start)
		r := start(t, mem, t.TempDir(), func(c *Config, s *store) {
			c.HistoryBytes = 1 << 30
			s.set(asked.count)
		})
		first := p
		local := func() bool { return r.current() != nil && r.Status().MissingHistory == 0 }
		r.until(t, "the first snapshot's history", local)
		for n := range 3 {
			later := activateIn(25*time.Second + time.Duration(n)*time.Second)
			p = teststore.Publish(t, mem, teststore.NewFeed(100, uint64(n)+2).History(50), next(p), later)
			r.until(t, "it waits", func() bool { return r.newest().Time.Equal(p.Manifest.Time) })
		}
		time.Sleep(20 * time.Second)
		r.store.set(away)
		for range 3 {
			swaps := r.Counters.Swaps.Load()
			r.until(t, "the next in line", func() bool { return r.Counters.Swaps.Load() > swaps })
			if err := r.answers(); err != nil {
				t.Errorf("%s: %v", r.current().TimeText, err)
			}
		}
		asked.once(t)

		// A store that does not return the history of a waiting snapshot does not delay a rollback.
		hang := make(chan struct{})
		fourth := teststore.Publish(t, mem, teststore.NewFeed(100, 9).History(50), next(p), activateIn(time.Minute))
		keys := historyKeys(fourth, p)
		r.store.set(func(key artifacts.Key, b []byte, err error) ([]byte, error) {
			if keys[key] {
				<-hang
			}
			return b, err
		})
		r.until(t, "the fourth waits", func() bool { return r.newest().Time.Equal(fourth.Manifest.Time) })
		fifth := teststore.Rollback(t, mem, first.Manifest.Time)
		r.until(t, "the rollback", r.at(fifth.Manifest.Time))
		sixth := teststore.Publish(t, mem, teststore.NewFeed(100, 9).History(50), next(fourth), activateIn(time.Minute))
		r.until(t, "the sixth waits", func() bool { return r.newest().Time.Equal(sixth.Manifest.Time) })
		close(hang)
		r.halt()
	})
}

// TestHistoryWithoutADisk checks that objects that the disk copy rejects are fetched early, and not again.
func TestHistoryWithoutADisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, asked := memstore.New(), &gets{}
		first := teststore.Publish(t, mem, teststore.NewFeed(100, 1).History(50), teststore.Start)
		r := start(t, mem, t.TempDir(), func(c *Config, s *store) {
			s.set(asked.count)
			cache := must.Get(shards.New(shards.Config{Store: s, Memory: 1 << 20, Dir: c.Dir, DirSize: 1}))(t)
			t.Cleanup(cache.Close)
			c.Cache, c.HistoryBytes = cache, 1<<30
		})
		r.until(t, "the first snapshot", func() bool { return r.current() != nil && r.Status().MissingHistory == 0 })
		second := teststore.Publish(t, mem, teststore.NewFeed(100, 2).History(50), next(first),
			activateIn(15*time.Second))
		time.Sleep(20 * time.Second)
		r.until(t, "the second snapshot", func() bool { return r.at(next(first))() && r.Status().MissingHistory == 0 })
		r.halt()
		for key := range historyKeys(second, first) {
			if n := asked.all()[key]; n != 1 {
				t.Errorf("%s was fetched %d times", key, n)
			}
		}
	})
}

// TestHistoryWithinTheDisk checks a disk copy with room for two snapshots and the history of the newest one.
// It must stay within its bound from snapshot to snapshot, whether they become current immediately or later,
// and nothing may be fetched twice.
func TestHistoryWithinTheDisk(t *testing.T) {
	for _, delay := range []time.Duration{0, 15 * time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { historyWithinTheDisk(t, delay) })
		})
	}
}

func historyWithinTheDisk(t *testing.T, delay time.Duration) {
	size := func(p *teststore.Published) (own, history int64) {
		for _, v := range p.Manifest.Views {
			for _, o := range v.Objects {
				if artifacts.IsHistory(v.Collection) {
					history += o.Ref.Size
				} else {
					own += o.Ref.Size
				}
			}
		}
		return own, history
	}
	mem, asked := memstore.New(), &gets{}
	p := teststore.Publish(t, mem, teststore.NewFeed(100, 1).History(50), teststore.Start)
	own, history := size(p)
	bound := (2*own + history + history/8) * 10 / 9 // room for two snapshots, one with its history, which grows
	var cache *shards.Cache
	r := start(t, mem, t.TempDir(), func(cfg *Config, s *store) {
		s.set(asked.count)
		cache = must.Get(shards.New(shards.Config{Store: s, Memory: 1 << 20, Dir: cfg.Dir, DirSize: bound}))(t)
		t.Cleanup(cache.Close)
		cfg.Cache, cfg.HistoryBytes, cfg.DirBytes = cache, 1<<30, bound
	})
	for n := range uint64(6) {
		r.until(t, "history", func() bool { return r.at(p.Manifest.Time)() && r.Status().MissingHistory == 0 })
		if got := cache.Counters.DiskBytes.Load(); got > bound {
			t.Errorf("snapshot %d: %d bytes on disk, bound %d", n, got, bound)
		}
		if err := r.answers(); err != nil {
			t.Errorf("snapshot %d: %v", n, err)
		}
		feed := teststore.NewFeed(100, n+2).History(50)
		p = teststore.Publish(t, mem, feed, next(p), teststore.Retain(0), activateIn(delay))
		if delay > 0 { // until then the previous snapshot has its history
			r.until(t, "it waits", func() bool { return r.newest().Time.Equal(p.Manifest.Time) })
			time.Sleep(delay / 2)
			pointers := func(key artifacts.Key, _ int) bool { return key.Kind() != artifacts.ObjectKind }
			fetched := asked.all()
			err := r.answers()
			now := asked.all()
			maps.DeleteFunc(fetched, pointers)
			maps.DeleteFunc(now, pointers)
			if err != nil || !maps.Equal(fetched, now) {
				t.Errorf("history of snapshot %d had to be fetched again, while the next one waits: %v", n, err)
			}
		}
	}
	r.halt()
	asked.once(t)
}
