package builder

import (
	"slices"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/builder/ledger"
)

func TestRollback(t *testing.T) {
	ctx, s := t.Context(), memstore.New()
	w := world{assets: 80, at: epoch}
	for i := range 6 {
		mustBuild(t, s, w.later(time.Duration(i)*artifacts.Step))
	}
	grown := w.later(6 * artifacts.Step)
	grown.assets = 90 // ten more ids are given out
	mustBuild(t, s, grown)
	newest := head(t, s)
	target := w.later(3 * artifacts.Step).at

	r, err := Rollback(ctx, s, target, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Published || r.Sequence != 8 || r.SnapshotTime != stamp(target) || r.Counts["assets"] != 80 {
		t.Errorf("report %+v", r)
	}
	verify(t, s)
	now := head(t, s)
	if now.Pointer.Store != newest.Pointer.Store || !now.Manifest.Time.Equal(target) {
		t.Errorf("store %s, snapshot %v", now.Pointer.Store, now.Manifest.Time)
	}
	old, err := artifacts.ReadManifest(ctx, s, newest.Manifest.Retained[2].Manifest)
	if err != nil {
		t.Fatal(err)
	}
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
	l, err := ledger.Load(ctx, s, &now.Manifest.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := l.Known("assets", "coin-89"); !ok {
		t.Errorf("an id that was given out is forgotten: %d", id)
	}
	if totals := l.Totals(); len(totals) != 4 || !totals[3].Time.Equal(target) {
		t.Errorf("totals %v", totals)
	}

	if r, err := Rollback(ctx, s, target, time.Now); err != nil || r.Published || r.Reason == "" || r.Sequence != 8 {
		t.Errorf("to the current snapshot: %+v, %v", r, err)
	}
	for name, at := range map[string]time.Time{"later": newest.Manifest.Time, "never built": target.Add(-time.Minute), "long gone": epoch.Add(-time.Hour)} {
		if r, err := Rollback(ctx, s, at, time.Now); err == nil {
			t.Errorf("to a time that is not retained (%s): %+v", name, r)
		}
	}
	if r, err := Rollback(ctx, memstore.New(), target, time.Now); err == nil {
		t.Errorf("without a snapshot: %+v", r)
	}
	// The same again is the same, and a dropped time may be built once more.
	if r, err := tryBuild(ctx, s, w.later(3*artifacts.Step)); err != nil || r.Published {
		t.Errorf("the target's feed again: %+v, %v", r, err)
	}
	again := w.later(4 * artifacts.Step)
	again.assets = 95
	if r := mustBuild(t, s, again); r.Sequence != 9 {
		t.Errorf("sequence %d", r.Sequence)
	}
	if got := head(t, s).Manifest.Withdrawn; !slices.EqualFunc(got, want[1:], time.Time.Equal) {
		t.Errorf("withdrawn after the next build: %v, want %v", got, want[1:])
	}
	if l, err = ledger.Load(ctx, s, &head(t, s).Manifest.Ledger); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]uint64{"coin-85": 86, "coin-94": 95} {
		if id, _ := l.Known("assets", key); id != want {
			t.Errorf("%s has id %d, want %d", key, id, want)
		}
	}
	verify(t, s)
}
