package fallback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// cell and object are the keys that the tests read.
var (
	cell   = artifacts.CurrentKey
	object = artifacts.ObjectKey(artifacts.Sum([]byte("new")))
)

// state says how a store answers reads.
type state string

const (
	whole   state = "whole"
	lacking state = "lacking"
	damaged state = "damaged"
	failing state = "failing"
	hanging state = "hanging"
)

// made returns a store in the given state.
func made(t *testing.T, s state) *faultstore.Store {
	t.Helper()
	mem := memstore.New()
	if s != lacking {
		must.Get(mem.Swap(t.Context(), cell, "", []byte("cell")))(t)
		must.OK(t, mem.Put(t.Context(), object, []byte("new")))
	}
	store := faultstore.New(mem, nil)
	store.SetHook(in(s))
	return store
}

// TestTry checks that Try warns about a second store without a readable pointer.
func TestTry(t *testing.T) {
	for s, want := range map[state]bool{whole: false, lacking: true, failing: true} {
		var log strings.Builder
		r := New(Config{First: made(t, whole), Second: made(t, s),
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		r.Try(t.Context())
		if got := strings.Contains(log.String(), "would not help"); got != want {
			t.Errorf("%s: %q", s, log.String())
		}
	}
}

// in returns a hook that makes reads behave as in the given state.
func in(s state) faultstore.Hook {
	d := map[state]faultstore.Decision{
		damaged: faultstore.Corrupt, failing: faultstore.Refuse, hanging: faultstore.Block}[s]
	return func(faultstore.Op) faultstore.Decision { return d }
}

// TestRead checks that, whatever the states of the two stores, a read returns an object if either
// store has it, and otherwise the first store's answer. Cells come from the first store only.
func TestRead(t *testing.T) {
	states := []state{whole, lacking, damaged, failing, hanging}
	for _, first := range states {
		for _, second := range states {
			for _, active := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v", first, second, active), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := New(Config{First: made(t, first), Second: made(t, second)})
						if active {
							r.Note(cell, "no answer")
						}
						read(t, r, first, second)
					})
				})
			}
		}
	}
}

func read(t *testing.T, r *Reader, first, second state) {
	t.Helper()
	const patience, timeout = time.Second, 4 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	active, began, reads := r.Status().Active, time.Now(), r.Status().Reads
	b, _, err := r.Get(ctx, object, 100)
	switch fromSecond := r.Status().Reads > reads; {
	case first == whole || second == whole:
		if string(b) != "new" || err != nil || time.Since(began) > patience {
			t.Errorf("%q, %v after %v", b, err, time.Since(began))
		}
		if fromSecond != (second == whole && (active || first != whole)) {
			t.Errorf("it came from the second store: %v", fromSecond)
		}
	case first == damaged:
		if err != nil || string(b) == "new" {
			t.Errorf("%q, %v", b, err)
		}
	case first == lacking || first == failing && second == lacking:
		if !errors.Is(err, artifacts.ErrNotFound) {
			t.Errorf("%q, %v", b, err)
		}
	default:
		if err == nil || errors.Is(err, artifacts.ErrNotFound) {
			t.Errorf("%q, %v", b, err)
		}
	}
	if b, _, err := r.Get(ctx, cell, 100); err == nil && (first != whole && first != damaged || len(b) == 0) {
		t.Errorf("the cell: %q", b)
	}
}

// TestStatus checks that the second store is active while any cell was last read from it, and that
// Status returns the reason why the most important such cell was read there.
func TestStatus(t *testing.T) {
	r := New(Config{First: made(t, whole), Second: made(t, whole)})
	for _, step := range []struct {
		key         artifacts.Key
		why, reason string
	}{
		{artifacts.KeysKey, "gone", "keys: gone"}, {cell, "away", "current: away"},
		{artifacts.KeysKey, "", "current: away"}, {cell, "", ""}, {cell, "", ""},
	} {
		r.Note(step.key, step.why)
		if s := r.Status(); s.Active != (step.reason != "") || s.Reason != step.reason {
			t.Errorf("after %v: %+v", step, s)
		}
	}
	if n := r.Status().Reads; n != 2 {
		t.Errorf("%d reads", n)
	}
}
