package faultstore_test

import (
	"context"
	"errors"
	"maps"
	"math/bits"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/storetest"
)

func TestStore(t *testing.T) {
	storetest.TestStore(t, func(*testing.T) artifacts.Store {
		return faultstore.New(memstore.New(), func(faultstore.Op) faultstore.Decision { return faultstore.Pass })
	})
}

// TestDecisions checks, for each kind of call and each decision, whether the call is applied and
// what the caller learns.
func TestDecisions(t *testing.T) {
	ctx := t.Context()
	key, there := artifacts.MustKey("objects/ab/cd"), artifacts.MustKey("there")
	for kind, c := range map[faultstore.Kind]struct {
		call    func(s artifacts.Store) error
		applied func(s artifacts.Store) bool // nil if this cannot be observed
	}{
		faultstore.Get: {
			func(s artifacts.Store) error { _, _, err := s.Get(ctx, artifacts.MustKey("there"), 10); return err }, nil},
		faultstore.GetIf: {
			func(s artifacts.Store) error {
				_, _, err := s.GetIf(ctx, artifacts.MustKey("there"), "v", 10)
				return err
			}, nil},
		faultstore.Put: {
			func(s artifacts.Store) error { return s.Put(ctx, key, []byte("x")) },
			func(s artifacts.Store) bool { return holds(ctx, s, key) },
		},
		faultstore.Sync: {func(s artifacts.Store) error { return s.Sync(ctx) }, nil},
		faultstore.Swap: {
			func(s artifacts.Store) error {
				_, err := s.Swap(ctx, artifacts.CurrentKey, "", []byte("x"))
				return err
			},
			func(s artifacts.Store) bool { return holds(ctx, s, artifacts.CurrentKey) },
		},
		faultstore.List: {
			func(s artifacts.Store) error { return s.List(ctx, "", func(artifacts.Info) error { return nil }) }, nil},
		faultstore.Delete: {
			func(s artifacts.Store) error { return s.Delete(ctx, artifacts.MustKey("there")) },
			func(s artifacts.Store) bool { return !holds(ctx, s, there) },
		},
		faultstore.Now:      {func(s artifacts.Store) error { _, err := s.Now(ctx); return err }, nil},
		faultstore.SelfTest: {func(s artifacts.Store) error { return s.SelfTest(ctx) }, nil},
	} {
		for d, want := range map[faultstore.Decision]struct {
			applied bool
			err     error
		}{
			faultstore.Pass: {true, nil}, faultstore.Refuse: {false, faultstore.ErrFault},
			faultstore.Lose:    {true, faultstore.ErrFault},
			faultstore.Corrupt: {true, nil}, faultstore.Truncate: {true, nil}, faultstore.Hide: {true, nil},
		} {
			if d == faultstore.Hide && (kind == faultstore.Get || kind == faultstore.GetIf) {
				want.err = artifacts.ErrNotFound
			}
			inner := memstore.New()
			must.OK(t, inner.Put(ctx, artifacts.MustKey("there"), []byte("x")))
			var asked []faultstore.Op
			s := faultstore.New(inner, func(op faultstore.Op) faultstore.Decision {
				asked = append(asked, op)
				return d
			})
			if err := c.call(s); !errors.Is(err, want.err) {
				t.Errorf("%s, decision %d: error is %v, want %v", kind, d, err, want.err)
			}
			if c.applied != nil && c.applied(inner) != want.applied {
				t.Errorf("%s, decision %d: applied is %v, want %v", kind, d, !want.applied, want.applied)
			}
			if len(asked) != 1 || asked[0].Kind != kind || asked[0].N != 1 {
				t.Errorf("%s: hook was asked about %v", kind, asked)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			ctx = t.Context()
			short, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			ctx = short
			s := faultstore.New(memstore.New(), func(faultstore.Op) faultstore.Decision { return faultstore.Block })
			if err := c.call(s); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s that blocks: %v", kind, err)
			}
		})
		ctx = t.Context()
	}
}

func holds(ctx context.Context, s artifacts.Store, key artifacts.Key) bool {
	_, _, err := s.Get(ctx, key, 10)
	return err == nil
}

// TestCorruptEveryBit: successive reads find a different bit wrong each time, until every bit has
// been wrong once.
func TestCorruptEveryBit(t *testing.T) {
	s := faultstore.New(memstore.New(), func(faultstore.Op) faultstore.Decision { return faultstore.Corrupt })
	data := []byte("twelve bytes")
	must.OK(t, s.Put(t.Context(), artifacts.MustKey("a"), data))
	s.Reset()
	seen := map[string]bool{}
	for range 8 * len(data) {
		b, _, err := s.Get(t.Context(), artifacts.MustKey("a"), 20)
		must.OK(t, err)
		wrong := 0
		for i := range b {
			wrong += bits.OnesCount8(b[i] ^ data[i])
		}
		if wrong != 1 {
			t.Fatalf("%q has %d wrong bits", b, wrong)
		}
		seen[string(b)] = true
	}
	if len(seen) != 8*len(data) {
		t.Errorf("%d of %d bits were wrong once", len(seen), 8*len(data))
	}
}

func TestCounts(t *testing.T) {
	ctx := t.Context()
	s := faultstore.New(memstore.New(), nil)
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	must(s.Put(ctx, artifacts.MustKey("a"), make([]byte, 100)))
	must(s.Put(ctx, artifacts.MustKey("b"), make([]byte, 20)))
	if err := s.Put(ctx, artifacts.MustKey("b"), make([]byte, 7)); err == nil {
		t.Fatal("a conflict succeeds")
	}
	_, v, err := s.Get(ctx, artifacts.MustKey("a"), 100)
	must(err)
	if _, _, err = s.GetIf(ctx, artifacts.MustKey("a"), v, 100); !errors.Is(err, artifacts.ErrNotModified) {
		t.Fatal(err)
	}
	_, err = s.Swap(ctx, artifacts.CurrentKey, "", make([]byte, 3))
	must(err)
	s.SetHook(func(op faultstore.Op) faultstore.Decision {
		if op != (faultstore.Op{Kind: faultstore.Put, Key: artifacts.MustKey("c"), N: 7}) {
			t.Errorf("hook is asked about %+v", op)
		}
		return faultstore.Refuse
	})
	if err := s.Put(ctx, artifacts.MustKey("c"), make([]byte, 50)); !errors.Is(err, faultstore.ErrFault) {
		t.Fatal(err)
	}
	want := map[faultstore.Kind]int{faultstore.Put: 4, faultstore.Get: 1, faultstore.GetIf: 1, faultstore.Swap: 1}
	if got := s.Counts(); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	s.Reset()
	if got := s.Counts(); len(got) != 0 {
		t.Errorf("after Reset: %v", got)
	}
}
