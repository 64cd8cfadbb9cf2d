package memstore_test

import (
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/lab/memstore"
	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/internal/lab/storetest"
)

func TestStore(t *testing.T) {
	storetest.TestStore(t, func(*testing.T) artifacts.Store { return memstore.New() })
}

func TestClock(t *testing.T) {
	ctx, s := t.Context(), memstore.New()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s.SetClock(func() time.Time { return at })
	check := func(want time.Time) {
		t.Helper()
		must.OK(t, s.Put(ctx, artifacts.MustKey("objects/ab/cd"), []byte("x")))
		if now, err := s.Now(ctx); err != nil || !now.Equal(want) {
			t.Errorf("Now is %v, %v, want %v", now, err, want)
		}
		must.OK(t, s.List(ctx, "", func(i artifacts.Info) error {
			if !i.Modified.Equal(want) {
				t.Errorf("Modified is %v, want %v", i.Modified, want)
			}
			return nil
		}))
	}
	check(at)
	at = at.Add(time.Hour)
	check(at)
}
