//go:build !race

package coingecko_test

import "testing"

// TestNoAllocations checks that parsing a request and composing its answer allocate nothing once buffers
// have grown. Whole collections and /global are exceptions, because they are composed once per snapshot.
func TestNoAllocations(t *testing.T) {
	rig, engine, _ := newRig(t, 64<<20)
	for _, target := range targets() {
		req, ask := asker(t, engine, target)
		do := func() {
			if err := ask(); err != nil || req.Reply.Status != 200 || len(req.Reply.Body) < 10 {
				t.Fatalf("%s: %v, status %d, %s", target, err, req.Reply.Status, req.Reply.Body)
			}
		}
		for range 100 { // until shards are in memory and buffers have grown
			do()
			rig.Cache.Wait()
		}
		before := engine.Totals().Composed
		if n := testing.AllocsPerRun(200, do); n != 0 {
			t.Errorf("%s: %v allocations", target, n)
		}
		if engine.Totals().Composed == before {
			t.Errorf("%s: it was not put together", target)
		}
	}
}
