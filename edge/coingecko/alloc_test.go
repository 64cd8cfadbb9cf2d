//go:build !race

package coingecko_test

import "testing"

// TestNoAllocations counts what an answer allocates that is put together, from its parameters on, once
// memory has grown: nothing, but for whole collections and /global, which are put together once a
// snapshot.
func TestNoAllocations(t *testing.T) {
	rig, engine, _ := newRig(t, 64<<20)
	for _, target := range targets() {
		req, ask := asker(t, engine, target)
		do := func() {
			if err := ask(); err != nil || req.Reply.Status != 200 || len(req.Reply.Body) < 10 {
				t.Fatalf("%s: %v, status %d, %s", target, err, req.Reply.Status, req.Reply.Body)
			}
		}
		for range 100 { // shards in memory, buffers grown
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
