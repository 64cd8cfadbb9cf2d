package publish

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

var at = time.Date(2026, 11, 21, 7, 20, 0, 0, time.UTC)

// manifest returns a small manifest for the time when. It has one object, which o puts.
func manifest(t *testing.T, o *Objects, when time.Time, body string) *artifacts.Manifest {
	t.Helper()
	ref := must.Get(o.Put(t.Context(), []byte(body)))(t)
	return &artifacts.Manifest{
		Format: artifacts.Format, Time: when, RowsPerShard: 1, ShardsPerObject: 1,
		Views: []artifacts.View{{Collection: "trending", Sort: "board", Rows: 1, Runs: 1,
			Objects: []artifacts.ViewObject{{Ref: ref, Rows: 1}}}},
	}
}

func readHead(t *testing.T, r artifacts.Reader) *Head {
	t.Helper()
	return must.Get(ReadHead(t.Context(), r))(t)
}

func objectsOf(t *testing.T, h *Head, s artifacts.Store) *Objects {
	t.Helper()
	return must.Get(h.Objects(t.Context(), s, nil))(t)
}

func noStep(string) {}

// TestOrder checks that nothing is named before it is durable.
func TestOrder(t *testing.T) {
	var calls []string
	s := faultstore.New(memstore.New(), func(op faultstore.Op) faultstore.Decision {
		folder, _, _ := strings.Cut(op.Key.String()+op.Prefix, "/")
		calls = append(calls, strings.TrimSpace(string(op.Kind)+" "+folder))
		return faultstore.Pass
	})
	h := readHead(t, s)
	o := objectsOf(t, h, s)
	m := manifest(t, o, at, "shards of some kind")
	var steps []string
	p := must.Get(h.Publish(t.Context(), o, m, now(at), func(step string) { steps = append(steps, step) }))(t)
	want := "get current, get change, get identity, list manifests, get identity, get current, get change, get" +
		" identity, list manifests, get keys, swap identity, put objects, sync, put manifests, sync, swap current, get" +
		" identity, swap identity"
	if got := strings.Join(calls, ", "); got != want {
		t.Errorf("calls: %s\nwant: %s", got, want)
	}
	if got := strings.Join(steps, " "); got != "sync manifest swap" {
		t.Errorf("steps: %s", got)
	}
	if p.Sequence != 1 || len(p.Store) != 32 || len(p.Nonce) != 32 || !p.Published.Equal(at) {
		t.Errorf("pointer %+v", p)
	}

	// The second publication puts only new objects, and follows the first.
	h, calls = readHead(t, s), nil
	o = objectsOf(t, h, s)
	again := manifest(t, o, at.Add(artifacts.Step), "shards of some kind")
	q := must.Get(h.Publish(t.Context(), o, again, now(at), noStep))(t)
	if got, want := strings.Join(calls, ", "),
		"list objects, list manifests, sync, get identity, put manifests, sync, swap current"; got != want {
		t.Errorf("calls: %s\nwant: %s", got, want)
	}
	if !p.ActivateAt.IsZero() || !q.ActivateAt.IsZero() {
		t.Errorf("to be activated at %v and %v, with nothing before and nothing asked", p.ActivateAt, q.ActivateAt)
	}
	if q.Sequence != 2 || q.Store != p.Store || q.Nonce == p.Nonce {
		t.Errorf("pointer %+v after %+v", q, p)
	}
	if n, bytes := o.Written(); n != 1 || bytes != q.Manifest.Size {
		t.Errorf("%d objects of %d bytes written, want the manifest", n, bytes)
	}
}

// TestLogOrder checks that in a signed store the pointer moves once the log is complete up to the
// previous publication and the next tiles are put, and that the checkpoint follows once these tiles
// are durable.
func TestLogOrder(t *testing.T) {
	var calls []string
	key := must.Get(artifacts.NewSignKey(rand.Reader))(t)
	s := signed.Store(faultstore.New(memstore.New(), func(op faultstore.Op) faultstore.Decision {
		name := strings.TrimRight(op.Key.String()+op.Prefix, "0123456789")
		calls = append(calls, strings.TrimSpace(string(op.Kind)+" "+name))
		return faultstore.Pass
	}), []artifacts.SignKey{key}, artifacts.Trust{key.Trust()})
	for i := range 3 {
		h := readHead(t, s)
		o := objectsOf(t, h, s)
		m := manifest(t, o, at.Add(time.Duration(i)*artifacts.Step), "shards of some kind")
		ref := artifacts.RefOf(m.Encode())
		must.Get(h.identity(t.Context(), s))(t)
		calls = nil
		must.Get(h.Point(t.Context(), s, ref, m.Time, now(at)))(t)
		ok(t, s.Put(t.Context(), artifacts.ManifestKey(ref.Digest), m.Encode()))
	}
	slices.Sort(calls[3:5]) // in any order
	want := "get log/checkpoint, get log/tile/0/000.p/, get log/tile/entries/000.p/, put log/tile/0/000.p/," +
		" put log/tile/entries/000.p/, swap log/probe, delete log/probe, swap current, sync, get log/checkpoint," +
		" swap log/checkpoint"
	if got := strings.Join(calls[:len(calls)-1], ", "); got != want {
		t.Errorf("calls: %s\nwant: %s", got, want)
	}
}

// TestLogUnwritable checks that the first and later publications fail before the pointer moves if
// they cannot write everything under log/ (D10). A failure after the pointer has moved is reported,
// and the next publication writes the missing part.
func TestLogUnwritable(t *testing.T) {
	for name, denied := range map[string]func(op faultstore.Op) bool{
		"all":     func(op faultstore.Op) bool { return strings.HasPrefix(op.Key.String(), "log/") },
		"entries": func(op faultstore.Op) bool { return strings.HasPrefix(op.Key.String(), "log/tile/entries/") },
		"beside the tiles": func(op faultstore.Op) bool {
			return strings.HasPrefix(op.Key.String(), "log/") && !strings.HasPrefix(op.Key.String(), "log/tile/")
		},
		"delete": func(op faultstore.Op) bool {
			return strings.HasPrefix(op.Key.String(), "log/") && op.Kind == faultstore.Delete
		},
	} {
		for before := range 2 {
			key := must.Get(artifacts.NewSignKey(rand.Reader))(t)
			faults := faultstore.New(memstore.New(), nil)
			s := signed.Store(faults, []artifacts.SignKey{key}, artifacts.Trust{key.Trust()})
			point := func(i int) (*Head, error) {
				h := readHead(t, s)
				o := objectsOf(t, h, s)
				m := manifest(t, o, at.Add(time.Duration(i)*artifacts.Step), "shards of some kind")
				ok(t, s.Put(t.Context(), artifacts.ManifestKey(artifacts.Sum(m.Encode())), m.Encode()))
				_, err := h.Point(t.Context(), s, artifacts.RefOf(m.Encode()), m.Time, now(at))
				return h, err
			}
			for i := range before {
				must.Get(point(i))(t)
			}
			faults.SetHook(func(op faultstore.Op) faultstore.Decision {
				if denied(op) && op.Kind != faultstore.Get && op.Kind != faultstore.GetIf {
					return faultstore.Refuse
				}
				return faultstore.Pass
			})
			_, err := point(before)
			if err == nil || !strings.Contains(err.Error(), "the log cannot be written") ||
				!strings.Contains(err.Error(), "log/") {
				t.Errorf("%s, %d before: %v", name, before, err)
			}
			if p := readHead(t, s).Pointer; (p != nil) != (before > 0) {
				t.Errorf("%s, %d before: the pointer moved: %+v", name, before, p)
			}
			faults.SetHook(func(op faultstore.Op) faultstore.Decision {
				if op.Kind == faultstore.Swap && op.Key == artifacts.CheckpointKey {
					return faultstore.Refuse
				}
				return faultstore.Pass
			})
			if h, err := point(before); err != nil || !errors.Is(h.LogError, faultstore.ErrFault) {
				t.Errorf("%s, %d before: behind the pointer %v, %v", name, before, err, h.LogError)
			}
			faults.SetHook(nil)
			h, err := point(before + 1)
			if size := readHead(t, s).Pointer.Log.Size; err != nil || h.LogError != nil || size != int64(before+2) {
				t.Errorf("%s, %d before: afterwards %d leaves, %v, %v", name, before, size, err, h.LogError)
			}
		}
	}
}

// now returns the timing of a publisher whose clock is stopped.
func now(at time.Time) Timing { return Timing{Now: func() time.Time { return at }} }

// TestActivateAt checks that a snapshot gets an activation time, relative to the time of the swap,
// unless the previous snapshot is missing or too old.
func TestActivateAt(t *testing.T) {
	s := memstore.New()
	for _, c := range []struct {
		after, wait time.Duration
		waits       bool
	}{{0, time.Minute, false}, {time.Hour, time.Minute, true}, {time.Hour + 10*time.Minute, time.Minute, true},
		{3 * time.Hour, time.Minute, false}, {3 * time.Hour, 0, false}} {
		h, clock := readHead(t, s), at.Add(c.after)
		o := objectsOf(t, h, s)
		timing := now(clock)
		timing.ActivateAfter = c.wait
		p := must.Get(h.Publish(t.Context(), o, manifest(t, o, clock, clock.String()), timing, noStep))(t)
		if want := clock.Add(c.wait); c.waits != p.ActivateAt.Equal(want) || c.waits == p.ActivateAt.IsZero() {
			t.Errorf("%v after the first: activate at %v", c.after, p.ActivateAt)
		}
	}
}

func TestLost(t *testing.T) {
	s := memstore.New()
	h := readHead(t, s)
	mine, other := objectsOf(t, h, s), objectsOf(t, h, s)
	m := manifest(t, mine, at, "what I have made")
	winner, err := h.Publish(t.Context(), other, manifest(t, other, at.Add(artifacts.Step), "what others made"),
		now(at), noStep)
	ok(t, err)
	_, err = h.Publish(t.Context(), mine, m, now(at), noStep)
	var lost *LostError
	if !errors.As(err, &lost) || lost.Head.Pointer.Nonce != winner.Nonce ||
		!strings.Contains(err.Error(), "2026-11-21T07:30:00Z") {
		t.Errorf("error %v", err)
	}
	if got := readHead(t, s).Pointer; got.Nonce != winner.Nonce || got.Sequence != 1 {
		t.Errorf("published %+v, want %+v", got, winner)
	}
	// A pointer that was removed in the meantime is not replaced.
	h = readHead(t, s)
	ok(t, s.Delete(t.Context(), artifacts.CurrentKey))
	if _, err = h.Publish(t.Context(), mine, m, now(at), noStep); !errors.As(err, &lost) || lost.Head.Pointer != nil {
		t.Errorf("error %v", err)
	}
}

// TestReadHead checks that ReadHead starts again if gc removed the manifest after the pointer had
// moved, and that a missing or broken manifest is an error, never "no snapshot".
func TestReadHead(t *testing.T) {
	s := memstore.New()
	publish := func(when time.Time) *artifacts.Pointer {
		h := readHead(t, s)
		o := objectsOf(t, h, s)
		return must.Get(h.Publish(t.Context(), o, manifest(t, o, when, when.String()), now(when), noStep))(t)
	}
	first := publish(at)
	moved := false
	h, err := ReadHead(t.Context(), faultstore.New(s, func(op faultstore.Op) faultstore.Decision {
		if op.Key == artifacts.ManifestKey(first.Manifest.Digest) && !moved {
			moved = true
			publish(at.Add(artifacts.Step))
			if err := s.Delete(context.Background(), op.Key); err != nil {
				t.Error(err)
			}
		}
		return faultstore.Pass
	}))
	if err != nil || h.Pointer.Sequence != 2 {
		t.Fatalf("%+v, %v", h, err)
	}
	corrupt := faultstore.New(s, func(op faultstore.Op) faultstore.Decision {
		if op.Key.Kind() == artifacts.ManifestKind {
			return faultstore.Corrupt
		}
		return faultstore.Pass
	})
	if h, err := ReadHead(t.Context(), corrupt); !errors.Is(err, artifacts.ErrCorrupt) {
		t.Errorf("a broken manifest: %+v, %v", h, err)
	}
	ok(t, s.Delete(t.Context(), artifacts.ManifestKey(h.Pointer.Manifest.Digest)))
	if h, err := ReadHead(t.Context(), s); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("a missing manifest: %+v, %v", h, err)
	}
	away := faultstore.New(s, func(faultstore.Op) faultstore.Decision { return faultstore.Refuse })
	if h, err := ReadHead(t.Context(), away); !errors.Is(err, faultstore.ErrFault) {
		t.Errorf("a store that is away: %+v, %v", h, err)
	}
}

// TestTooLarge checks that nothing that readers would refuse is published.
func TestTooLarge(t *testing.T) {
	s := memstore.New()
	h := readHead(t, s)
	o := objectsOf(t, h, s)
	if _, err := o.Put(t.Context(), make([]byte, artifacts.MaxObjectSize+1)); err == nil {
		t.Error("an object that is too large was put")
	}
	m := manifest(t, o, at, "any object")
	m.Database = strings.Repeat("d", artifacts.MaxManifestSize)
	if _, err := h.Publish(t.Context(), o, m, now(at), noStep); err == nil {
		t.Error("a manifest that is too large was published")
	}
	m.Database = ""
	many := now(at)
	many.DataTimes = map[string]time.Time{}
	for i := range 200 {
		many.DataTimes[fmt.Sprint(i)] = at
	}
	if _, err := h.Publish(t.Context(), o, m, many, noStep); err == nil ||
		!strings.Contains(err.Error(), "readers take") {
		t.Errorf("a pointer that is too large: %v", err)
	}
	if h := readHead(t, s); h.Pointer != nil {
		t.Errorf("published %+v", h.Pointer)
	}
}

var ok = must.OK
