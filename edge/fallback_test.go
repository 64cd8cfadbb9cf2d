package edge_test

import (
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// TestFallback checks that an edge continues from a copy when its store fails. It never returns to older
// data, whichever of the two stores is behind. It never considers something missing because the copy lacks
// it. All answers are right throughout.
func TestFallback(t *testing.T) {
	mem, dir := memstore.New(), t.TempDir()
	first, second := faultstore.New(mem, nil), must.Get(dirstore.Open(dir, dirstore.Options{}))(t)
	w := newWorld(t, mem)
	backup := func() { teststore.Backup(t, mem, second) }
	one := w.publish()
	w.change("1.5")
	backup()
	n := w.start(first, func(cfg *edge.Config) { cfg.FallbackStore = "file:" + dir })
	n.complete(one)
	c := n.crowd()
	c.more()
	two := w.publish()
	n.complete(two)
	if s := n.status(); s.More.Fallback.Active || s.More.Fallback.Reads > 0 {
		t.Errorf("with both stores: %+v", s)
	}

	// The copy's pointer is older, so it is neither an answer nor a reason to refuse something.
	first.SetHook(func(faultstore.Op) faultstore.Decision { return faultstore.Refuse })
	n.reports("moved back")
	if s := n.status(); s.More.Refused != 0 || !s.SnapshotTime.Equal(two.Manifest.Time) {
		t.Errorf("beside a copy that is behind: %+v", s)
	}
	c.more()

	// The copy catches up, and the builder publishes to it.
	backup()
	n.complete(two)
	w.store = second
	n.complete(w.publish())
	if s := n.status(); !s.More.Fallback.Active || s.Status != "degraded" ||
		!strings.Contains(strings.Join(s.Reasons, " "), "fallback store answers in place of the first: ") {
		t.Errorf("with the copy alone: %+v", s)
	}
	c.more()

	// The first store is back, but behind.
	first.SetHook(nil)
	four := w.publish()
	n.complete(four)
	c.more()

	// The first store receives what it lacks, and the edge uses it again.
	teststore.Backup(t, second, mem)
	n.eventually("the first store", func(s status) bool { return !s.More.Fallback.Active })
	must.OK(t, second.Delete(t.Context(), artifacts.CurrentKey))
	w.store = mem
	n.complete(w.publish())
	if s := n.status(); s.More.Fallback.Active || s.More.Refused != 0 {
		t.Errorf("with the first store again: %+v", s)
	}
	c.always()
}
