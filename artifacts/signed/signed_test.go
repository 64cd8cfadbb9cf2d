package signed

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/artifacts/storetest"
)

func key(t *testing.T) artifacts.SignKey {
	t.Helper()
	k, err := artifacts.NewSignKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestStore: without keys the wrapper is no different from what it wraps, and
// with keys only for the three objects that move.
func TestStore(t *testing.T) {
	storetest.TestStore(t, func(*testing.T) artifacts.Store { return Store(memstore.New(), nil, nil) })
}

func TestOnlySignedObjectsAreRead(t *testing.T) {
	ctx := context.Background()
	k, other := key(t), key(t)
	for _, name := range []string{artifacts.CurrentKey, artifacts.ChangeKey, artifacts.KeysKey} {
		mem := memstore.New()
		ours := Store(mem, []artifacts.SignKey{k}, artifacts.Trust{k.Trust()})
		edge := Reader(mem, artifacts.Trust{k.Trust()})
		v, err := ours.Swap(ctx, name, "", []byte("{\"format\":1}\n"))
		if err != nil {
			t.Fatal(err)
		}
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
			if v, err = forger.Swap(ctx, name, v, []byte("{\"format\":1,\"forged\":1}\n")); err != nil {
				t.Fatal(err)
			}
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
	if err := s.Put(ctx, name, body); err != nil {
		t.Fatal(err)
	}
	if b, _, err := s.Get(ctx, name, 100); err != nil || string(b) != "rows" {
		t.Errorf("%q, %v", b, err)
	}
}
