package signed

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/storetest"
)

func key(t *testing.T) artifacts.SignKey {
	t.Helper()
	return must.Get(artifacts.NewSignKey(rand.Reader))(t)
}

// TestStore checks that a wrapper without keys behaves like the store that it wraps.
func TestStore(t *testing.T) {
	storetest.TestStore(t, func(*testing.T) artifacts.Store { return Store(memstore.New(), nil, nil) })
}

func TestOnlySignedObjectsAreRead(t *testing.T) {
	ctx := context.Background()
	k, other := key(t), key(t)
	for _, name := range Cells {
		mem := memstore.New()
		ours := Store(mem, []artifacts.SignKey{k}, artifacts.Trust{k.Trust()})
		edge := Reader(mem, artifacts.Trust{k.Trust()})
		v := must.Get(ours.Swap(ctx, name, "", []byte("{\"format\":1}\n")))(t)
		for _, r := range []artifacts.Reader{ours, edge} {
			b, got, err := r.Get(ctx, name, 1000)
			if err != nil || got != v || string(artifacts.Unsigned(b)) != "{\"format\":1}\n" {
				t.Errorf("%s: %q, %v", name, b, err)
			}
			if _, _, err := r.GetIf(ctx, name, v, 1000); !errors.Is(err, artifacts.ErrNotModified) {
				t.Errorf("%s: %v, want ErrNotModified", name, err)
			}
		}
		for what, forger := range map[string]artifacts.Store{
			"unsigned": mem, "signed by another": Store(mem, []artifacts.SignKey{other}, nil),
		} {
			v = must.Get(forger.Swap(ctx, name, v, []byte("{\"format\":1,\"forged\":1}\n")))(t)
			for _, r := range []artifacts.Reader{ours, edge} {
				if b, _, err := r.Get(ctx, name, 1000); !errors.Is(err, artifacts.ErrSignature) || b != nil {
					t.Errorf("%s %s: %q, %v", name, what, b, err)
				}
				if _, _, err := r.GetIf(ctx, name, "", 1000); !errors.Is(err, artifacts.ErrSignature) {
					t.Errorf("%s %s: %v", name, what, err)
				}
			}
		}
	}
}

func TestImmutableObjectsAreLeftAlone(t *testing.T) {
	ctx := context.Background()
	mem := memstore.New()
	k := key(t)
	s := Store(mem, []artifacts.SignKey{k}, artifacts.Trust{k.Trust()})
	body := []byte("rows")
	name := artifacts.ObjectKey(artifacts.Sum(body))
	must.OK(t, s.Put(ctx, name, body))
	if b, _, err := s.Get(ctx, name, 100); err != nil || string(b) != "rows" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestStateOfTheStore checks that a store in which any cell is signed accepts no write without a
// key, and that Renew signs each cell that lacks a key's signature, unless no trusted key had
// signed it.
func TestStateOfTheStore(t *testing.T) {
	ctx := context.Background()
	old, next, forger := key(t), key(t), key(t)
	for _, o := range Cells {
		mem := memstore.New()
		plain := Store(mem, nil, nil)
		must.Get(plain.Swap(ctx, artifacts.KeysKey, "", []byte("{}\n")))(t)
		must.OK(t, mem.Delete(ctx, artifacts.KeysKey))
		first := Store(mem, []artifacts.SignKey{old}, artifacts.Trust{old.Trust()})
		must.Get(first.Swap(ctx, o, "", []byte("{}\n")))(t)
		for _, written := range Cells {
			if _, err := plain.Swap(ctx, written, "", []byte("{}\n")); !errors.Is(err, ErrSigned) ||
				!strings.Contains(err.Error(), o.String()+" by key \""+old.Trust().ID()) {
				t.Errorf("%s is signed, swap of %s: %v", o, written, err)
			}
		}
		if err := plain.Put(ctx, artifacts.ObjectKey(artifacts.Sum(nil)), nil); !errors.Is(err, ErrSigned) {
			t.Errorf("%s is signed, put: %v", o, err)
		}
		both := []artifacts.SignKey{old, next}
		during := Store(mem, both, artifacts.Trust{old.Trust(), next.Trust()})
		for _, want := range [][]artifacts.Key{{o}, nil} {
			if renewed, err := Renew(ctx, during, both); err != nil || !slices.Equal(renewed, want) {
				t.Errorf("%s: renewed %q, %v", o, renewed, err)
			}
		}
		for _, k := range both {
			if _, _, err := Reader(mem, artifacts.Trust{k.Trust()}).Get(ctx, o, 1000); err != nil {
				t.Error(err)
			}
		}
		last := []artifacts.SignKey{next}
		must.Get(Renew(ctx, Store(mem, last, artifacts.Trust{next.Trust()}), last))(t)
		if _, _, err := first.Get(ctx, o, 1000); !errors.Is(err, artifacts.ErrSignature) {
			t.Errorf("%s: the old key still counts: %v", o, err)
		}
		alone := []artifacts.SignKey{forger}
		if renewed, err := Renew(ctx, Store(mem, alone, artifacts.Trust{forger.Trust()}), alone); !errors.Is(
			err, artifacts.ErrSignature) || renewed != nil {
			t.Errorf("%s: a stranger renewed %q, %v", o, renewed, err)
		}
	}
}
