package follow

import (
	"errors"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/fallback"
	"example.com/marketdata/edge/floor"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// TestUnconfirmed checks that an old key set in the copy confirms nothing while the store answers, because
// the store may have lost a set that revokes a key. If the store does not answer, the copy does confirm.
func TestUnconfirmed(t *testing.T) {
	store, copied := memstore.New(), memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(10, 1), teststore.Start)
	teststore.Key(t, store, 1, 1)
	teststore.Backup(t, store, copied)
	first := faultstore.New(store, nil)
	cells := &Cells{Reader: first, Fallback: fallback.New(fallback.Config{First: first, Second: copied}),
		Floor: floor.Open("", nil, nil), Timeout: time.Second}
	a := cells.Read(t.Context(), artifacts.KeysKey, "")
	must.OK(t, a.Err)
	set := must.Get(artifacts.ParseKeySet(a.Data))(t)
	cells.Floor.Take(artifacts.KeysKey, set.Store, set.Number)
	for _, c := range []struct {
		name        string
		decision    faultstore.Decision
		unconfirmed bool
	}{
		{"lost", faultstore.Hide, true},
		{"damaged", faultstore.Corrupt, true},
		{"cut", faultstore.Truncate, true},
		{"away", faultstore.Refuse, false},
	} {
		first.SetHook(func(faultstore.Op) faultstore.Decision { return c.decision })
		got := cells.Read(t.Context(), artifacts.KeysKey, "an older version")
		if !errors.Is(got.Err, artifacts.ErrNotModified) || got.Unconfirmed() != c.unconfirmed {
			t.Errorf("%s: %v, unconfirmed %v", c.name, got.Err, got.Unconfirmed())
		}
	}
}
