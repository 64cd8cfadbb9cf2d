package builder

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/transparency"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"golang.org/x/sync/errgroup"
)

// TestFaults makes each store call of a store's first and second build fail. After each failure,
// the pointer must be the old or the new one, everything reachable from it must be intact, the log
// must contain each snapshot once, the build's result must be true, and the next build must
// succeed.
func TestFaults(t *testing.T) {
	w := world{Assets: 12, At: epoch}
	one := memstore.New()
	mustBuild(t, buildtest.Signed(one), w)
	if listed, blocks := head(t, one).Manifest.History(&artifacts.HistoryWindows[0]); listed == nil ||
		len(blocks) == 0 {
		t.Fatal("no history, whose calls are to fail, too")
	}
	everyStore(t, func(t *testing.T, open func(t *testing.T) artifacts.Store) {
		for name, before := range map[string]*memstore.Store{"first": memstore.New(), "second": one} {
			t.Run(name, func(t *testing.T) {
				prepared := func(t *testing.T) artifacts.Store { s := open(t); copyTo(t, s, before, all); return s }
				_, folder := open(t).(*dirstore.Store)
				hit := map[faultstore.Kind]int{}
				skip := func(call int, kind faultstore.Kind) bool {
					if folder && (before != one || fewPuts(call, kind)) {
						return true // skipped, since the disk is slow
					}
					hit[kind]++
					return false
				}
				old := head(t, before).Pointer
				var log []string
				if old != nil {
					log = append(log, buildtest.Leaf(old))
				}
				next := w.Later(artifacts.Step)
				everyFault(t, prepared, skip, func(t *testing.T, s artifacts.Store) error {
					report, err := tryBuild(t.Context(), buildtest.Signed(s), next)
					if err == nil && !report.Published {
						t.Errorf("neither published nor failed: %+v", report)
					}
					return err
				}, func(t *testing.T, s artifacts.Store, f fault, err error) {
					now := head(t, s).Pointer
					moved := now != nil && (old == nil || now.Sequence == old.Sequence+1)
					if !moved && !reflect.DeepEqual(now, old) {
						t.Errorf("pointer %+v, was %+v", now, old)
					}
					// If the store stays unreachable, the build cannot find out whether the swap
					// took effect.
					if unknown := f.Then != faultstore.Pass && f.Kind == faultstore.Swap &&
						f.Decision == faultstore.Lose; moved != (err == nil) && !unknown {
						t.Errorf("the pointer moved: %v, but the build says %v", moved, err)
					}
					verify(t, s)
					published := slices.Clone(log)
					if moved {
						published = append(published, buildtest.Leaf(now))
					}
					buildtest.SameLog(t, s, published, moved)
					again, err := tryBuild(t.Context(), buildtest.Signed(s), next)
					if err != nil || again.Published == moved {
						t.Errorf("the same build again: %+v, %v; the pointer had moved: %v", again, err, moved)
					}
					verify(t, s)
					now = head(t, s).Pointer
					if !moved {
						published = append(published, buildtest.Leaf(now))
					}
					// The next build does this, too.
					must.Get(transparency.Settle(t.Context(), buildtest.Signed(s), now.Store, now))(t)
					buildtest.SameLog(t, s, published, false)
				})
				for _, kind := range []faultstore.Kind{faultstore.Get, faultstore.Put, faultstore.Sync,
					faultstore.Swap} {
					if hit[kind] == 0 && !(folder && before != one) {
						t.Errorf("no %s failed: %v", kind, hit)
					}
				}
			})
		}
	})
}

// TestLostAnswerOvertaken loses the response to a swap. Before the builder reads the pointer back,
// another builder publishes a further snapshot. The first build must still report success.
func TestLostAnswerOvertaken(t *testing.T) {
	inner := memstore.New()
	w := world{Assets: 10, At: epoch}
	mustBuild(t, buildtest.Signed(inner), w)
	swapped := false
	s := faultstore.New(inner, func(op faultstore.Op) faultstore.Decision {
		switch {
		case op.Kind == faultstore.Swap && op.Key == artifacts.CurrentKey:
			swapped = true
			return faultstore.Lose
		case swapped && op.Kind == faultstore.Get && head(t, inner).Pointer.Sequence == 2:
			mustBuild(t, buildtest.Signed(inner), w.Later(2*artifacts.Step))
		}
		return faultstore.Pass
	})
	r, err := tryBuild(t.Context(), buildtest.Signed(s), w.Later(artifacts.Step))
	if err != nil || !r.Published || r.Sequence != 2 || len(buildtest.CheckLog(t, inner)) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRace lets several builders publish at the same time. If their feeds differ, one must succeed
// and the others must report that they lost. If their feeds are the same, all must succeed.
func TestRace(t *testing.T) {
	everyStore(t, func(t *testing.T, open func(t *testing.T) artifacts.Store) {
		const builders, rounds = 4, 3
		for _, same := range []bool{true, false} {
			s := open(t)
			at := epoch
			mustBuild(t, buildtest.Signed(s), world{Assets: 10, At: at})
			log := []string{buildtest.Leaf(head(t, s).Pointer)}
			for round := range rounds {
				at = at.Add(artifacts.Step)
				// Every builder has read the pointer before any of them swaps it.
				var ready sync.WaitGroup
				ready.Add(builders)
				var g errgroup.Group
				published, left, lost := make([]bool, builders), make([]bool, builders), make([]bool, builders)
				for i := range builders {
					w := world{Assets: 10, At: at}
					if !same {
						w.Seed = uint64(i)
					}
					var once sync.Once
					meeting := tap(s, func(op string, key artifacts.Key) {
						if op == "sync" {
							once.Do(func() { ready.Done(); ready.Wait() })
						}
					})
					g.Go(func() error {
						r, err := tryBuild(t.Context(), buildtest.Signed(meeting), w)
						var l *publish.LostError
						if lost[i] = errors.As(err, &l); lost[i] {
							err = nil
						}
						published[i], left[i] = r.Published, r.Reason != ""
						return err
					})
				}
				ok(t, g.Wait())
				count := func(flags []bool) (n int) {
					for _, f := range flags {
						if f {
							n++
						}
					}
					return n
				}
				wantLeft, wantLost := builders-1, 0
				if !same {
					wantLeft, wantLost = 0, builders-1
				}
				if count(published) != 1 || count(left) != wantLeft || count(lost) != wantLost {
					t.Errorf("same feed %v: published %v, left as it was %v, lost %v", same, published, left, lost)
				}
				got := head(t, s).Pointer
				if got.Sequence != uint64(round+2) {
					t.Errorf("sequence %d, want %d", got.Sequence, round+2)
				}
				log = append(log, buildtest.Leaf(got))
				buildtest.SameLog(t, s, log, false)
			}
			verify(t, s)
		}
	})
}

// TestChangeFaults checks that the change job either records the change once or reports an error,
// whichever store call fails.
func TestChangeFaults(t *testing.T) {
	s := memstore.New()
	clock := func() time.Time { return epoch.Add(time.Hour) }
	if c, err := change.Record(t.Context(), s, clock); c != nil || err != nil {
		t.Errorf("without a snapshot: %+v, %v", c, err)
	}
	mustBuild(t, s, world{Assets: 20, At: epoch})
	mustBuild(t, s, world{Assets: 20, At: epoch.Add(artifacts.Step), Seed: 9})
	want, err := change.Record(t.Context(), s, clock)
	if err != nil || want.Database != "test" || !want.Time.Equal(clock()) ||
		!want.Snapshot.Equal(epoch.Add(artifacts.Step)) || !want.Base.Equal(epoch) || want.Value == "0" {
		t.Fatalf("%+v, %v", want, err)
	}
	record := func() artifacts.Change { return *changeRecord(t, s) }
	if record() != *want {
		t.Errorf("recorded %+v, returned %+v", record(), want)
	}
	for _, decision := range []faultstore.Decision{faultstore.Refuse, faultstore.Lose} {
		for n := 1; n <= 4; n++ {
			ok(t, s.Delete(t.Context(), artifacts.ChangeKey))
			f := faultstore.New(s, func(op faultstore.Op) faultstore.Decision {
				if op.N == n {
					return decision
				}
				return faultstore.Pass
			})
			if _, err := change.Record(t.Context(), f, clock); err == nil && record() != *want {
				t.Errorf("decision %d, call %d: recorded %+v", decision, n, record())
			} else if err != nil && n == 5 {
				t.Errorf("a swap that failed once is given up: %v", err)
			}
		}
	}
	// If another job is always faster, the change job gives up after a number of tries, and says
	// so.
	busy := tap(s, func(op string, key artifacts.Key) {
		if op == "swap" {
			if _, err := change.Record(context.Background(), s, func() time.Time { return time.Now() }); err != nil {
				t.Error(err)
			}
		}
	})
	if c, err := change.Record(t.Context(), busy, clock); !errors.Is(err, artifacts.ErrConflict) {
		t.Errorf("%+v, %v", c, err)
	}
}
