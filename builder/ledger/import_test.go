package ledger

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"pgregory.net/rapid"
)

// TestImportAgainstModel builds a history without some of its prices, adds these in one or more
// imports, and continues with builds. The kept prices, and every base in the later builds, must
// equal those of a model that has seen all prices in order. A snapshot that is left out of the
// builds is never earlier than the first snapshot of its day.
func TestImportAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m, serial := &model{}, uint64(0)
		now := time.Date(2025, 12, 31, 20, 0, 0, 0, time.UTC).
			Add(time.Duration(rapid.IntRange(0, 30).Draw(rt, "start")) * artifacts.Step)
		keys := []string{"a", "b", "c", "d"}
		draw := func() map[string]market.U128 {
			if len(m.times) > 0 {
				now = nextTime(rt, m, now)
			}
			prices := map[string]market.U128{}
			for _, key := range keys {
				if rapid.Bool().Draw(rt, key) {
					serial++
					prices[key] = market.U128{Lo: serial}
				}
			}
			return prices
		}
		c := newChain(rt)
		var left []map[string]market.U128 // for each of the model's snapshots, the prices that are imported
		var whole []bool                  // whether these are all of its prices
		built := map[string]bool{}        // days that have a snapshot
		n := rapid.IntRange(2, 40).Draw(rt, "snapshots")
		for i := range n {
			prices, day, last := draw(), now.Format(time.DateOnly), i == n-1
			imported, known := built[day]
			if !known && !last {
				imported = rapid.IntRange(0, 2).Draw(rt, "whole") == 0
			}
			if imported && len(prices) == 0 && !last {
				continue // an import cannot add a snapshot without prices
			}
			m.add(now, prices)
			built[day] = imported
			later := maps.Clone(prices)
			if !imported || last {
				now := maps.Clone(prices)
				for _, key := range keys {
					if imported || rapid.IntRange(0, 3).Draw(rt, "later") == 0 {
						delete(now, key)
					} else {
						delete(later, key)
					}
				}
				c.build(withKeys(keys, now), m.times[len(m.times)-1])
			}
			left, whole = append(left, later), append(whole, imported)
		}
		for range rapid.IntRange(1, 3).Draw(rt, "imports") {
			some := make([]map[string]market.U128, len(left))
			for i := range left {
				some[i] = map[string]market.U128{}
				for _, key := range keys {
					if p, ok := left[i][key]; ok && !whole[i] && rapid.Bool().Draw(rt, "now") {
						some[i][key] = p
					}
				}
			}
			c.imports(m, some)
		}
		c.imports(m, left)
		if c.imports(m, left) {
			rt.Fatal("the same import again changed something")
		}
		m.compareHeld(rt, c, now)
		for range rapid.IntRange(1, 15).Draw(rt, "then") {
			prices := draw()
			m.step(rt, c, now, prices)
		}
	})
}

// withKeys returns a feed with the given prices and an asset for each of the keys.
func withKeys(keys []string, prices map[string]market.U128) *market.Feed {
	f := feedOf(prices)
	for _, key := range keys {
		if _, ok := prices[key]; !ok {
			f.Assets = append(f.Assets, market.Asset{Key: key, Active: true})
		}
	}
	return f
}

// imports imports prices at the model's times into the chain, and reports whether that changed the
// chain.
func (c *chain) imports(m *model, prices []map[string]market.U128) (changed bool) {
	c.tb.Helper()
	ctx := context.Background()
	l, err := Load(ctx, c.s, c.ref)
	c.check(err)
	im := &Import{Ledger: l, T: m.times[len(m.times)-1], Put: func(b []byte) error { c.s.put(b); return nil }}
	c.check(im.Open())
	kept := m.kept(im.T)
	for i, t := range m.times {
		if !slices.Contains(kept, i) {
			continue // the ledger does not keep this time
		}
		var add []Price
		for key, p := range prices[i] {
			id, ok := l.Known("assets", key)
			if !ok {
				c.tb.Fatalf("no asset has the key %q", key)
			}
			add = append(add, Price{id, p})
		}
		slices.SortFunc(add, func(a, b Price) int { return int(a.ID) - int(b.ID) })
		if len(add) > 0 {
			c.check(im.Add(ctx, t, add, "1"))
		}
	}
	after, err := im.Close(ctx, nil)
	c.check(err)
	ref := c.s.put(after.Root().Encode())
	c.ref = &ref
	c.root, err = ReadRoot(ctx, c.s, ref)
	c.check(err)
	return im.Changed
}
