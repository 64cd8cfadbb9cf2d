package buildtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// Settings are the default settings of builds.
var Settings = market.Settings{
	TrendingMinMarketCap: market.U128{Lo: 10_000_000_00000000}, TrendingMinVolume: market.U128{Lo: 1_000_000_00000000},
	HistoryAssets: market.DefaultHistoryAssets,
}

// Moving contains the cells that hold sequences, nonces and clock times.
var Moving = map[artifacts.Key]bool{
	artifacts.CurrentKey: true, artifacts.ChangeKey: true, artifacts.KeysKey: true, artifacts.IdentityKey: true,
}

// Head reads the published snapshot.
func Head(t *testing.T, r artifacts.Reader) *publish.Head {
	t.Helper()
	return must.Get(publish.ReadHead(t.Context(), r))(t)
}

// Republish publishes a manifest as the successor of the head, after storing the objects that it
// needs.
func Republish(t *testing.T, s artifacts.Store, m *artifacts.Manifest, bodies ...[]byte) {
	t.Helper()
	h := Head(t, s)
	objects, err := new(publish.Head).Objects(t.Context(), s, nil)
	for _, body := range bodies {
		if err == nil {
			_, err = objects.Put(t.Context(), body)
		}
	}
	if err == nil {
		_, err = h.Publish(t.Context(), objects, m, publish.Timing{Now: time.Now}, func(string) {})
	}
	must.OK(t, err)
}

// Ledger reads the root of the published ledger.
func Ledger(t *testing.T, s artifacts.Reader) *ledger.Root {
	t.Helper()
	return must.Get(ledger.ReadRoot(t.Context(), s, Head(t, s).Manifest.Ledger))(t)
}

// Verify checks everything that is reachable from the pointer, fails the test if anything is
// damaged, and returns the report.
func Verify(t *testing.T, r artifacts.Reader) *artifacts.CheckReport {
	t.Helper()
	report := must.Get(artifacts.Check(t.Context(), r, ledger.Refs, nil))(t)
	if len(report.Problems) > 0 {
		t.Fatalf("the store is broken: %q", report.Problems)
	}
	return report
}

// Contents reads all objects except Moving and the log.
func Contents(t *testing.T, s artifacts.Store) map[artifacts.Key]string {
	return read(t, s, func(key artifacts.Key) bool { return !Moving[key] && !inLog(key) })
}

// Log reads all objects of the log.
func Log(t *testing.T, s artifacts.Store) map[artifacts.Key]string { return read(t, s, inLog) }

func inLog(key artifacts.Key) bool { return strings.HasPrefix(key.String(), "log/") }

func read(t *testing.T, s artifacts.Store, keep func(key artifacts.Key) bool) map[artifacts.Key]string {
	t.Helper()
	all := map[artifacts.Key]string{}
	err := s.List(t.Context(), "", func(i artifacts.Info) error {
		if keep(i.Key) {
			all[i.Key] = string(Stored(t, s, i.Key))
		}
		return nil
	})
	must.OK(t, err)
	return all
}

// Stored reads an object.
func Stored(t *testing.T, s artifacts.Reader, key artifacts.Key) []byte {
	t.Helper()
	b, _, err := s.Get(t.Context(), key, artifacts.MaxObjectSize)
	must.OK(t, err)
	return b
}

// Overwrite writes arbitrary bytes at a key, or deletes the object if b is nil.
func Overwrite(t *testing.T, s artifacts.Store, key artifacts.Key, b []byte) {
	t.Helper()
	err := s.Delete(t.Context(), key)
	if err == nil && b != nil {
		_, err = s.Swap(t.Context(), key, "", b)
	}
	must.OK(t, err)
}

// ChangeRecord reads the change record.
func ChangeRecord(t *testing.T, s artifacts.Reader) *artifacts.Change {
	t.Helper()
	return must.Get(artifacts.ParseChange(Stored(t, s, artifacts.ChangeKey)))(t)
}

// All returns true for every key, so that Clone copies all objects.
func All(artifacts.Key) bool { return true }

// Clone copies the objects for which keepKey returns true to a new store.
func Clone(t *testing.T, s artifacts.Store, keepKey func(key artifacts.Key) bool) *memstore.Store {
	t.Helper()
	out := memstore.New()
	CopyTo(t, out, s, keepKey)
	return out
}

// CopyTo copies the objects for which keepKey returns true to an empty store.
func CopyTo(t *testing.T, out, s artifacts.Store, keepKey func(key artifacts.Key) bool) {
	t.Helper()
	err := s.List(t.Context(), "", func(i artifacts.Info) error {
		if !keepKey(i.Key) {
			return nil
		}
		b := Stored(t, s, i.Key)
		if i.Key.Kind() == artifacts.CellKind {
			_, err := out.Swap(t.Context(), i.Key, "", b)
			return err
		}
		return out.Put(t.Context(), i.Key, b)
	})
	must.OK(t, err)
}

// Tap returns a store that calls the given function before each call.
func Tap(s artifacts.Store, before func(op string, key artifacts.Key)) artifacts.Store {
	return faultstore.New(s, func(op faultstore.Op) faultstore.Decision {
		before(string(op.Kind), op.Key)
		return faultstore.Pass
	})
}

// Reached returns the keys that Check reads, which are the keys reachable from the pointer.
func Reached(t *testing.T, s artifacts.Store) map[artifacts.Key]bool {
	t.Helper()
	keys := map[artifacts.Key]bool{}
	Verify(t, Tap(s, func(_ string, key artifacts.Key) { keys[key] = true }))
	maps.DeleteFunc(keys, func(key artifacts.Key, _ bool) bool { return Moving[key] })
	return keys
}

// Clock is the clock of a store, which a test advances.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// StoreWithClock returns a store in memory whose clock starts at Epoch.
func StoreWithClock() (*memstore.Store, *Clock) {
	s, c := memstore.New(), &Clock{at: Epoch}
	s.SetClock(c.Now)
	return s, c
}

// Now returns the current time.
func (c *Clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

// Pass advances the clock.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// EveryStore runs a test on each kind of store that needs no other process.
func EveryStore(t *testing.T, f func(t *testing.T, open func(t *testing.T) artifacts.Store)) {
	t.Run("memory", func(t *testing.T) {
		f(t, func(*testing.T) artifacts.Store { return memstore.New() })
	})
	t.Run("folder", func(t *testing.T) {
		if testing.Short() {
			t.Skip("short run: the disk takes its time, and the memory store has shown the same calls")
		}
		f(t, func(t *testing.T) artifacts.Store {
			return must.Get(dirstore.Open(t.TempDir(), dirstore.Options{}))(t)
		})
	})
}

// Fault describes the first failing call of an operation. Decision is what happens to that call, and
// Then is what happens to all later calls.
type Fault struct {
	Kind           faultstore.Kind
	Decision, Then faultstore.Decision
}

// FewPuts makes EveryFault skip most puts, because they resemble each other.
func FewPuts(call int, kind faultstore.Kind) bool { return kind == faultstore.Put && call%9 != 0 }

// Few makes EveryFault skip nine out of ten gets and puts.
func Few(call int, kind faultstore.Kind) bool {
	return (kind == faultstore.Get || kind == faultstore.Put) && call%10 != 0
}

// EveryFault runs an operation on a fresh store, once for each of its calls and each way in which
// the call can fail: it is refused, or applied but reported as failed. After it, all calls succeed,
// or all are refused, as if the process had died, or all fail in the same way. skipCall selects
// calls to leave out, counted from 0. checkStore inspects the store after each run.
func EveryFault(t *testing.T, open func(*testing.T) artifacts.Store, skipCall func(call int, kind faultstore.Kind) bool,
	op func(*testing.T, artifacts.Store) error, checkStore func(t *testing.T, s artifacts.Store, f Fault, err error)) {
	t.Helper()
	var mu sync.Mutex
	var calls []faultstore.Kind
	err := op(t, faultstore.New(open(t), func(o faultstore.Op) faultstore.Decision {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, o.Kind)
		return faultstore.Pass
	}))
	if err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	const pass, refuse, lose = faultstore.Pass, faultstore.Refuse, faultstore.Lose
	for i, kind := range calls {
		if skipCall(i, kind) {
			continue
		}
		for _, f := range []Fault{{kind, refuse, pass}, {kind, refuse, refuse}, {kind, lose, pass},
			{kind, lose, refuse}, {kind, lose, lose}} {
			t.Run(fmt.Sprintf("%d %s, decision %d, then %d", i+1, kind, f.Decision, f.Then), func(t *testing.T) {
				t.Parallel()
				inner, met := open(t), f
				err := op(t, faultstore.New(inner, func(o faultstore.Op) faultstore.Decision {
					mu.Lock()
					defer mu.Unlock()
					switch {
					case o.N == i+1:
						met.Kind = o.Kind // Puts are concurrent, so another call may be the n-th.
						return f.Decision
					case o.N > i:
						return f.Then
					}
					return faultstore.Pass
				}))
				checkStore(t, inner, met, err)
			})
		}
	}
}

// Keys returns the keys of m, sorted by name.
func Keys[V any](m map[artifacts.Key]V) []artifacts.Key {
	return slices.SortedFunc(maps.Keys(m), artifacts.Key.Compare)
}
