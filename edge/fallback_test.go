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

// TestFallback: without its store an edge goes on from a copy. It never goes back, whichever of the
// two is behind, never believes that something is missing because the copy lacks it, and every
// answer meanwhile is right.
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

	// Its pointer is older: that is no answer, and nothing to refuse.
	first.SetHook(func(faultstore.Op) faultstore.Decision { return faultstore.Refuse })
	n.reports("moved back")
	if s := n.status(); s.More.Refused != 0 || !s.SnapshotTime.Equal(two.Manifest.Time) {
		t.Errorf("beside a copy that is behind: %+v", s)
	}
	c.more()

	// It catches up, and the builder goes on with it.
	backup()
	n.complete(two)
	w.store = second
	n.complete(w.publish())
	if s := n.status(); !s.More.Fallback.Active || s.Status != "degraded" ||
		!strings.Contains(strings.Join(s.Reasons, " "), "fallback store answers in place of the first: ") {
		t.Errorf("with the copy alone: %+v", s)
	}
	c.more()

	// The first is back, and behind.
	first.SetHook(nil)
	four := w.publish()
	n.complete(four)
	c.more()

	// It gets what it lacks, and is asked again.
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
