package upkeep

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

func TestRollback(t *testing.T) {
	ctx, s := t.Context(), memstore.New()
	w := world{Assets: 80, At: epoch}
	for i := range 6 {
		mustBuild(t, s, w.Later(time.Duration(i)*artifacts.Step))
	}
	grown := w.Later(6 * artifacts.Step)
	grown.Assets = 90 // ten more ids are assigned
	mustBuild(t, s, grown)
	newest := head(t, s)
	target := w.Later(3 * artifacts.Step).At

	r := must.Get(Rollback(ctx, s, target, time.Now))(t)
	if !r.Published || r.Sequence != 8 || r.SnapshotTime != publish.Stamp(target) || r.Counts["assets"] != 80 {
		t.Errorf("report %+v", r)
	}
	verify(t, s)
	now := head(t, s)
	if now.Pointer.Store != newest.Pointer.Store || !now.Manifest.Time.Equal(target) {
		t.Errorf("store %s, snapshot %v", now.Pointer.Store, now.Manifest.Time)
	}
	old := must.Get(artifacts.ReadManifest(ctx, s, newest.Manifest.Retained[2].Manifest))(t)
	if len(now.Manifest.Retained) != 3 || now.Manifest.Retained[0].Time != target.Add(-artifacts.Step) {
		t.Errorf("retained %v", now.Manifest.Retained)
	}
	want := []time.Time{target.Add(artifacts.Step), target.Add(2 * artifacts.Step), target.Add(3 * artifacts.Step)}
	if !slices.EqualFunc(now.Manifest.Withdrawn, want, time.Time.Equal) {
		t.Errorf("withdrawn %v, want %v", now.Manifest.Withdrawn, want)
	}
	if now.Manifest.Input != old.Input || now.Manifest.Views[0].Objects[0] != old.Views[0].Objects[0] {
		t.Error("the current snapshot is not the target's")
	}
	l := must.Get(ledger.Load(ctx, s, &now.Manifest.Ledger))(t)
	if id, ok := l.Known("assets", "coin-89"); !ok {
		t.Errorf("an id that was given out is forgotten: %d", id)
	}
	if totals := ledgerRoot(t, s).Totals; len(totals) != 4 || !totals[3].Time.Equal(target) {
		t.Errorf("totals %v", totals)
	}

	ok(t, s.Delete(ctx, artifacts.ChangeKey))
	if r, err := Rollback(ctx, s, target, time.Now); err != nil || r.Published || r.Reason == "" || r.Sequence != 8 ||
		!changeRecord(t, s).Snapshot.Equal(target) {
		t.Errorf("to the current snapshot: %+v, %v", r, err)
	}
	for name, at := range map[string]time.Time{"later": newest.Manifest.Time, "never built": target.Add(-time.Minute),
		"long gone": epoch.Add(-time.Hour)} {
		if r, err := Rollback(ctx, s, at, time.Now); err == nil {
			t.Errorf("to a time that is not retained (%s): %+v", name, r)
		}
	}
	if r, err := Rollback(ctx, memstore.New(), target, time.Now); err == nil {
		t.Errorf("without a snapshot: %+v", r)
	}
	// Building the target's feed again changes nothing. A withdrawn time can never be built again,
	// not even after a second rollback to a time before a snapshot that followed it.
	if r, err := tryBuild(ctx, s, w.Later(3*artifacts.Step)); err != nil || r.Published {
		t.Errorf("the target's feed again: %+v, %v", r, err)
	}
	refused := func(steps time.Duration) {
		t.Helper()
		r, err := tryBuild(ctx, s, w.Later(steps*artifacts.Step), func(c *builder.Config) { c.Guards.Force = true })
		if !errors.Is(err, builder.ErrWithdrawn) {
			t.Errorf("a withdrawn time: %+v, %v", r, err)
		}
	}
	refused(4)
	refused(6)
	if _, err := (&builder.Builder{Config: config(s, nil)}).Backfill(ctx,
		[]builder.PastFeed{{Time: w.Later(5 * artifacts.Step).At}}); !errors.Is(err, builder.ErrWithdrawn) {
		t.Errorf("backfill of a withdrawn time: %v", err)
	}
	again := w.Later(7 * artifacts.Step)
	again.Assets = 95
	if r := mustBuild(t, s, again); r.Sequence != 9 {
		t.Errorf("sequence %d", r.Sequence)
	}
	l = must.Get(ledger.Load(ctx, s, &head(t, s).Manifest.Ledger))(t)
	for key, want := range map[string]uint64{"coin-85": 86, "coin-94": 95} {
		if id, _ := l.Known("assets", key); id != want {
			t.Errorf("%s has id %d, want %d", key, id, want)
		}
	}
	verify(t, s)
	// During the rollback, a change job records totals that the rollback is about to remove.
	beside := faultstore.New(s, func(op faultstore.Op) faultstore.Decision {
		if op.Kind == faultstore.Swap && op.Key == artifacts.CurrentKey {
			if c, err := change.Record(ctx, s, time.Now); err != nil || !c.Snapshot.Equal(again.At) {
				t.Errorf("change %+v, %v", c, err)
			}
		}
		return faultstore.Pass
	})
	must.Get(Rollback(ctx, beside, target, time.Now))(t)
	verify(t, s)
	if c := changeRecord(t, s); !c.Snapshot.Equal(target) || c.Value == "0" {
		t.Errorf("change record %+v", c)
	}
	refused(4)
	refused(7)
	// Withdrawn times are forgotten when no rollback can go back to a time before them.
	mustBuild(t, s, w.Later(20*artifacts.Step))
	mustBuild(t, s, w.Later(21*artifacts.Step), func(c *builder.Config) { c.Retain = 0 })
	if got := head(t, s).Manifest.Withdrawn; len(got) != 0 {
		t.Errorf("withdrawn %v, and nothing before them is retained", got)
	}
}

// TestRollbackChange makes a rollback die at each store call, whether or not the last call takes
// effect. Once the pointer has moved, the change record must not describe the withdrawn totals.
// Repeating the rollback must make the record match the published snapshot.
func TestRollbackChange(t *testing.T) {
	inBubble(t, func(t *testing.T) { // determining whether a swap took effect takes time
		start := time.Now()
		for done, n := false, 1; !done; n++ {
			for _, last := range []faultstore.Decision{faultstore.Refuse, faultstore.Lose} {
				s := memstore.New()
				good, bad := world{Assets: 10, At: start},
					world{Assets: 10, At: start.Add(artifacts.Step), Movers: 10, Factor: 3}
				mustBuild(t, s, good)
				mustBuild(t, s, bad)
				if _, err := change.Record(t.Context(), s, time.Now); err != nil ||
					!changeRecord(t, s).Snapshot.Equal(bad.At) {
					t.Fatal(err)
				}
				ctx, kill := context.WithCancel(t.Context())
				_, err := Rollback(ctx, faultstore.New(s, func(op faultstore.Op) faultstore.Decision {
					switch {
					case op.N == n:
						kill()
						return last
					case op.N > n:
						return faultstore.Refuse
					}
					return faultstore.Pass
				}), good.At, time.Now)
				kill()
				if c := changeRecord(t, s); head(t, s).Pointer.Time.Equal(good.At) && !c.Snapshot.Equal(good.At) {
					t.Errorf("killed in call %d (%v): rolled back, but the record is of %v", n, last, c.Snapshot)
				}
				if done = err == nil; done {
					continue
				}
				if _, err := Rollback(t.Context(), s, good.At, time.Now); err != nil ||
					!head(t, s).Pointer.Time.Equal(good.At) || !changeRecord(t, s).Snapshot.Equal(good.At) {
					t.Errorf("the same rollback again: %v, record %+v", err, changeRecord(t, s))
				}
			}
		}
	})
}

// TestShrink checks that retaining fewer snapshots leaves more for gc, and changes nothing else.
func TestShrink(t *testing.T) {
	s, c := storeWithClock()
	w := world{Assets: 20, At: epoch}
	for i := range 7 {
		mustBuild(t, s, w.Later(time.Duration(i)*artifacts.Step))
	}
	c.Pass(2 * time.Hour)
	before := head(t, s)
	for retain, want := range map[time.Duration]int{time.Hour: 6, 2 * artifacts.Step: 2, 0: 1} {
		s := clone(t, s, all)
		r, err := Shrink(t.Context(), s, retain, time.Now)
		now := head(t, s)
		if err != nil || r.Published != (want < 6) || len(now.Manifest.Retained) != want ||
			!reflect.DeepEqual(now.Manifest.Views, before.Manifest.Views) ||
			now.Manifest.Ledger != before.Manifest.Ledger {
			t.Errorf("retain %v: %+v, %v; retained %v", retain, r, err, now.Manifest.Retained)
		}
		verify(t, s)
		if g := collect(t, s, func(c *GCConfig) { c.Grace = -time.Hour }); (g.Deleted > 0) != (want < 6) {
			t.Errorf("retain %v: gc %+v", retain, g)
		}
		verify(t, s)
		mustBuild(t, s, w.Later(7*artifacts.Step))
	}
	if _, err := Shrink(t.Context(), memstore.New(), 0, time.Now); err == nil {
		t.Error("an empty store was shrunk")
	}
}

// TestJump checks that no command accepts a pointer that edges would refuse.
func TestJump(t *testing.T) {
	s := memstore.New()
	w := world{Assets: 10, At: epoch}
	mustBuild(t, s, w)
	mustBuild(t, s, w.Later(artifacts.Step))
	must.Get(change.Record(t.Context(), s, time.Now))(t)
	p := *head(t, s).Pointer
	for _, above := range []uint64{artifacts.MaxJump, artifacts.MaxJump + 1} {
		s := clone(t, s, all)
		p.Sequence = 2 + above
		overwrite(t, s, artifacts.CurrentKey, p.Encode())
		_, change := change.Record(t.Context(), s, time.Now)
		_, back := Rollback(t.Context(), clone(t, s, all), epoch, time.Now)
		_, next := tryBuild(t.Context(), clone(t, s, all), w.Later(2*artifacts.Step))
		for what, err := range map[string]error{"change": change, "rollback": back, "build": next} {
			if refused := errors.Is(err, artifacts.ErrCorrupt); refused != (above > artifacts.MaxJump) {
				t.Errorf("%s at %d above: %v", what, above, err)
			}
		}
	}
}

// TestRollbackDamaged checks that a rollback to a snapshot that edges cannot load fails.
func TestRollbackDamaged(t *testing.T) {
	next, first := world{Assets: 12, At: epoch}, memstore.New()
	for range 5 {
		mustBuild(t, first, next)
		next = next.Later(artifacts.Step)
	}
	h := head(t, first)
	ret := h.Manifest.Retained[1]
	m := must.Get(artifacts.ReadManifest(t.Context(), first, ret.Manifest))(t)
	ok(t, first.Delete(t.Context(), artifacts.ObjectKey(m.View("quotes", "id").Objects[0].Digest)))
	if _, err := Rollback(t.Context(), first, ret.Time, time.Now); err == nil ||
		!strings.Contains(err.Error(), "builder repair") {
		t.Errorf("rollback to a snapshot that is damaged: %v", err)
	}
	if now := head(t, first); now.Pointer.Sequence != h.Pointer.Sequence {
		t.Errorf("the pointer moved to %d", now.Pointer.Sequence)
	}
}
