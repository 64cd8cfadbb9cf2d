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

// Settings are those that builds have by default.
var Settings = market.Settings{
	TrendingMinMarketCap: market.U128{Lo: 10_000_000_00000000}, TrendingMinVolume: market.U128{Lo: 1_000_000_00000000},
	HistoryAssets: market.DefaultHistoryAssets,
}

// Moving are the objects that hold sequence, nonce and clock.
var Moving = map[artifacts.Key]bool{
	artifacts.CurrentKey: true, artifacts.ChangeKey: true, artifacts.KeysKey: true, artifacts.IdentityKey: true,
}

// Head reads what is published.
func Head(t *testing.T, r artifacts.Reader) *publish.Head {
	t.Helper()
	return must.Get(publish.ReadHead(t.Context(), r))(t)
}

// Republish publishes a manifest behind the head, with objects that it names.
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

// Ledger reads the root of the head's ledger.
func Ledger(t *testing.T, s artifacts.Reader) *ledger.Root {
	t.Helper()
	return must.Get(ledger.ReadRoot(t.Context(), s, Head(t, s).Manifest.Ledger))(t)
}

// Verify returns what the pointer reaches, and fails the test if anything in it is damaged.
func Verify(t *testing.T, r artifacts.Reader) *artifacts.CheckReport {
	t.Helper()
	report := must.Get(artifacts.Check(t.Context(), r, ledger.Refs, nil))(t)
	if len(report.Problems) > 0 {
		t.Fatalf("the store is broken: %q", report.Problems)
	}
	return report
}

// Contents reads every object that does not move, but the log.
func Contents(t *testing.T, s artifacts.Store) map[artifacts.Key]string {
	return read(t, s, func(key artifacts.Key) bool { return !Moving[key] && !inLog(key) })
}

// Log reads every object of the log.
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

// Overwrite puts any bytes at a key; nil removes it.
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

// All keeps every key: see Clone.
func All(artifacts.Key) bool { return true }

// Clone copies the part of a store that keep takes.
func Clone(t *testing.T, s artifacts.Store, keep func(key artifacts.Key) bool) *memstore.Store {
	t.Helper()
	out := memstore.New()
	CopyTo(t, out, s, keep)
	return out
}

// CopyTo is Clone into an empty store.
func CopyTo(t *testing.T, out, s artifacts.Store, keep func(key artifacts.Key) bool) {
	t.Helper()
	err := s.List(t.Context(), "", func(i artifacts.Info) error {
		if !keep(i.Key) {
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

// Tap is a store that reports each call before it makes it.
func Tap(s artifacts.Store, before func(op string, key artifacts.Key)) artifacts.Store {
	return faultstore.New(s, func(op faultstore.Op) faultstore.Decision {
		before(string(op.Kind), op.Key)
		return faultstore.Pass
	})
}

// Reached are the keys that Check reads: all that the pointer reaches.
func Reached(t *testing.T, s artifacts.Store) map[artifacts.Key]bool {
	t.Helper()
	keys := map[artifacts.Key]bool{}
	Verify(t, Tap(s, func(_ string, key artifacts.Key) { keys[key] = true }))
	maps.DeleteFunc(keys, func(key artifacts.Key, _ bool) bool { return Moving[key] })
	return keys
}

// Clock is a store's clock that a test moves.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// StoreWithClock is a store in memory whose clock begins at Epoch.
func StoreWithClock() (*memstore.Store, *Clock) {
	s, c := memstore.New(), &Clock{at: Epoch}
	s.SetClock(c.Now)
	return s, c
}

// Now is the time.
func (c *Clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

// Pass moves the clock.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// EveryStore runs a test on each kind of store that is in this process.
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

// Fault is the first failing call of an operation: it gets Decision, and all later calls get Then.
type Fault struct {
	Kind           faultstore.Kind
	Decision, Then faultstore.Decision
}

// FewPuts leaves out most puts: one is much like another.
func FewPuts(call int, kind faultstore.Kind) bool { return kind == faultstore.Put && call%9 != 0 }

// Few leaves out nine of ten gets and puts.
func Few(call int, kind faultstore.Kind) bool {
	return (kind == faultstore.Get || kind == faultstore.Put) && call%10 != 0
}

// EveryFault runs an operation on a fresh store with one call failing, refused or applied and
// reported as failed: alone, or with all that follow refused, as when the process dies, or failing
// likewise. skip leaves out calls, counted from 0. check judges the store.
func EveryFault(t *testing.T, open func(*testing.T) artifacts.Store, skip func(call int, kind faultstore.Kind) bool,
	op func(*testing.T, artifacts.Store) error, check func(t *testing.T, s artifacts.Store, f Fault, err error)) {
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
		if skip(i, kind) {
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
						met.Kind = o.Kind // puts are made at the same time, so another call may be the n-th
						return f.Decision
					case o.N > i:
						return f.Then
					}
					return faultstore.Pass
				}))
				check(t, inner, met, err)
			})
		}
	}
}

// Keys returns the keys of m, in the order of their names.
func Keys[V any](m map[artifacts.Key]V) []artifacts.Key {
	return slices.SortedFunc(maps.Keys(m), artifacts.Key.Compare)
}
