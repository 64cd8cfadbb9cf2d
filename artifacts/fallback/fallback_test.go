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
	"example.com/marketdata/internal/lab/faultstore"
	"example.com/marketdata/internal/lab/memstore"
	"example.com/marketdata/internal/lab/must"
)

// cell and object are what is read. A cell that may be taken says new.
var (
	cell   = artifacts.CurrentKey
	object = artifacts.ObjectKey(artifacts.Sum([]byte("new")))
)

func check(_ artifacts.Key, b []byte) error {
	if string(b) != "new" {
		return fmt.Errorf("it is %q", b)
	}
	return nil
}

// state is how a store stands to a key.
type state string

const (
	newest  state = "newest"
	old     state = "old"
	lacking state = "lacking"
	damaged state = "damaged"
	failing state = "failing"
	hanging state = "hanging"
)

// made returns a store in a state.
func made(t *testing.T, s state) *faultstore.Store {
	t.Helper()
	mem := memstore.New()
	data := "new"
	if s == old {
		data = "old"
	}
	if s != lacking {
		must.Get(mem.Swap(t.Context(), cell, "", []byte(data)))(t)
		must.OK(t, mem.Put(t.Context(), object, []byte("new")))
	}
	store := faultstore.New(mem, nil)
	store.SetHook(in(s))
	return store
}

// TestTry: at start a second store without a pointer is reported, and one that is behind is not.
func TestTry(t *testing.T) {
	for s, want := range map[state]bool{newest: false, old: false, lacking: true, failing: true} {
		var log strings.Builder
		r := New(Config{First: made(t, newest), Second: made(t, s), Check: check,
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		r.Try(t.Context())
		if got := strings.Contains(log.String(), "would not help"); got != want {
			t.Errorf("%s: %q", s, log.String())
		}
	}
}

// in decides what becomes of reads from a store in a state.
func in(s state) faultstore.Hook {
	d := map[state]faultstore.Decision{
		damaged: faultstore.Corrupt, failing: faultstore.Refuse, hanging: faultstore.Block}[s]
	return func(faultstore.Op) faultstore.Decision { return d }
}

// TestRead: whatever the states of the two stores, a read gives what may be taken if either store
// has it, the first store's before the second's, and otherwise what the first store says.
func TestRead(t *testing.T) {
	states := []state{newest, old, lacking, damaged, failing, hanging}
	for _, key := range []artifacts.Key{cell, object} {
		for _, first := range states {
			for _, second := range states {
				good := func(s state) bool { return s == newest || s == old && key == object }
				t.Run(fmt.Sprintf("%.7s/%s/%s", key, first, second), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := New(Config{First: made(t, first), Second: made(t, second), Check: check})
						for range 2 { // the second time it knows who was away
							read(t, r, key, first, second, good)
						}
						time.Sleep(probeTimeout) // until nothing runs
					})
				})
			}
		}
	}
}

func read(t *testing.T, r *Reader, key artifacts.Key, first, second state, good func(state) bool) {
	t.Helper()
	const patience, timeout = time.Second, 4 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	began, reads := time.Now(), r.Status().Reads
	b, v, err := r.Get(ctx, key, 100)
	if good(first) || good(second) {
		if string(b) != "new" || err != nil || time.Since(began) > patience {
			t.Fatalf("%q, %v after %v", b, err, time.Since(began))
		}
		if fromSecond := r.Status().Reads > reads; fromSecond == good(first) {
			t.Errorf("it came from the second store: %v", fromSecond)
		}
		if _, _, err := r.GetIf(ctx, key, v, 100); !errors.Is(err, artifacts.ErrNotModified) {
			t.Errorf("of the known version: %q, %v", b, err)
		}
		return
	}
	switch first {
	case old:
		if string(b) != "old" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	case damaged:
		if err != nil || string(b) == "new" {
			t.Errorf("%q, %v", b, err)
		}
	case lacking:
		if !errors.Is(err, artifacts.ErrNotFound) {
			t.Errorf("%q, %v", b, err)
		}
	default:
		missing := errors.Is(err, artifacts.ErrNotFound)
		if err == nil || missing != (key == object && second == lacking && first == failing) {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// TestBack: of a first store that hangs, one read notices, and the others are answered at once. It
// is asked once at a time, and read again once it answers. Neither store's version means anything
// to the other.
func TestBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := made(t, newest), made(t, newest)
		r := New(Config{First: first, Second: second, Check: check})
		read := func(known artifacts.Version) (artifacts.Version, time.Duration, error) {
			began := time.Now()
			_, v, err := r.GetIf(t.Context(), cell, known, 100)
			return v, time.Since(began), err
		}
		v, _, err := read("")
		must.OK(t, err)
		first.SetHook(in(hanging))
		first.Reset()
		v2, took, err := read(v)
		if took != time.Second || err != nil {
			t.Fatalf("the first read without it took %v: %v", took, err)
		}
		for range 100 {
			if _, took, err := read(v2); took != 0 || !errors.Is(err, artifacts.ErrNotModified) {
				t.Fatalf("a read without it took %v: %v", took, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := first.Counts()[faultstore.GetIf].Calls; n > 4 {
			t.Errorf("in ten seconds the store that hangs was asked %d times", n)
		}
		if s := r.Status(); !s.Active || !strings.Contains(s.Reason, "no answer") || s.Reads != 101 {
			t.Errorf("status %+v", s)
		}
		first.SetHook(nil)
		time.Sleep(probeTimeout)
		synctest.Wait()
		_, _, _ = read(v2) // asks whether it is back
		synctest.Wait()
		second.Reset()
		if back, _, err := read(v2); err != nil || back != v || len(second.Counts()) != 0 {
			t.Errorf("once it is back: version %q, %v, calls of the second %v", back, err, second.Counts())
		}
		if s := r.Status(); s.Active || s.Reason != "" {
			t.Errorf("status %+v", s)
		}
	})
}
