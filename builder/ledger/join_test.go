package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

// TestJoinAgainstModel builds the later part of a history, then the earlier one
// beside it, joins the two, and goes on: from there every base of every build,
// and what is kept, is the model's, which has seen all in order. No id changes.
// So it is with a ledger to which both parts were appended.
func TestJoinAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m, serial := &model{}, uint64(0)
		now := time.Date(2025, 12, 31, 20, 0, 0, 0, time.UTC).
			Add(time.Duration(rapid.IntRange(0, 30).Draw(rt, "start")) * artifacts.Step)
		here := make([]bool, rapid.IntRange(1, 5).Draw(rt, "assets"))
		draw := func() map[string]market.U128 {
			if len(m.times) > 0 {
				now = nextTime(rt, m, now)
			}
			prices := map[string]market.U128{}
			for a := range here {
				if rapid.IntRange(0, 3).Draw(rt, "turn") == 0 {
					here[a] = !here[a]
				}
				if here[a] {
					serial++
					prices[string(rune('a'+a))] = market.U128{Lo: serial}
				}
			}
			return prices
		}
		// The model gets all at once, in order; the chains build when it is their turn.
		earlier, later := rapid.IntRange(1, 20).Draw(rt, "earlier"), rapid.IntRange(1, 20).Draw(rt, "later")
		for range earlier + later {
			prices := draw()
			m.add(now, prices)
		}
		c := newChain(rt)
		if rapid.Bool().Draw(rt, "appended") {
			c.appendAll(m)
		} else {
			c.join(m, earlier)
			m.compareHeld(rt, c, now)
		}
		for range rapid.IntRange(1, 15).Draw(rt, "then") {
			prices := draw()
			m.step(rt, c, now, prices)
		}
	})
}

// appendAll makes the model's snapshots at once.
func (c *chain) appendAll(m *model) {
	l, err := Load(context.Background(), c.s, nil)
	c.check(err)
	a := l.Append(m.times[len(m.times)-1])
	for i, t := range m.times {
		f := feedOf(m.prices[i])
		objects, err := a.Add(context.Background(), f, c.compute(l, f, t), t)
		c.check(err)
		for _, b := range objects {
			c.s.put(b)
		}
	}
	c.take(a.Close())
}

// join builds all but the earlier of the model's snapshots, and joins these to them.
func (c *chain) join(m *model, earlier int) {
	for i := earlier; i < len(m.times); i++ {
		c.build(feedOf(m.prices[i]), m.times[i])
	}
	past := &chain{tb: c.tb, s: c.s, ids: c.ids}
	l, err := LoadIDs(context.Background(), c.s, *c.ref)
	past.check(err)
	past.buildOn(l, feedOf(m.prices[0]), m.times[0])
	for i := 1; i < earlier; i++ {
		past.build(feedOf(m.prices[i]), m.times[i])
	}
	next, err := Join(context.Background(), c.s, *past.ref, *c.ref, market.DefaultHistoryAssets)
	c.check(err)
	c.take(next)
}

// TestJoin: groups and totals of both are remembered, where both have a group
// the newest, and the newest snapshot stays what it was.
func TestJoin(t *testing.T) {
	ctx := context.Background()
	c := newChain(t)
	late := marketFeed(5, epoch)
	late.Categories = late.Categories[1:]
	c.build(late, epoch)
	newest := *c.ref
	past := &chain{tb: t, s: c.s, ids: c.ids}
	for i, before := range []time.Duration{50 * time.Hour, 47 * time.Hour, time.Hour} {
		at := epoch.Add(-before)
		f := marketFeed(5, at)
		if i == 0 {
			l := must.Get(LoadIDs(ctx, c.s, newest))(t)
			past.buildOn(l, f, at)
		} else {
			past.build(f, at)
		}
	}
	next := must.Get(Join(ctx, c.s, *past.ref, newest, market.DefaultHistoryAssets))(t)
	c.take(next)
	groups := must.Get(mustLoad(t, c.s, c.ref).groups(ctx))(t)
	old := 0
	for _, m := range groups["categories"] {
		if m.Time.Equal(epoch.Add(-time.Hour)) {
			old++
		} else if !m.Time.Equal(epoch) {
			t.Errorf("a snapshot of a group at %v", m.Time)
		}
	}
	if len(groups["categories"]) != 3 || old != 1 || len(groups["chains"]) != 1 {
		t.Errorf("groups %v", groups)
	}
	if totals := c.root.Totals; len(totals) != 3 || !totals[0].Time.Equal(epoch.Add(-47*time.Hour)) ||
		!totals[2].Time.Equal(epoch) {
		t.Errorf("totals %v", totals)
	}
	for name, refs := range map[string][2]artifacts.Ref{
		"the wrong way round": {newest, *past.ref}, "with itself": {newest, newest},
		"joined already": {*past.ref, *c.ref},
	} {
		if _, err := Join(ctx, c.s, refs[0], refs[1], market.DefaultHistoryAssets); err == nil ||
			!strings.Contains(err.Error(), "does not end before") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for key := range c.s.objects {
		kept := c.s.objects[key]
		c.s.objects[key] = []byte("something else")
		if _, err := Join(ctx, c.s, *past.ref, newest, market.DefaultHistoryAssets); err != nil &&
			!errors.Is(err, artifacts.ErrCorrupt) {
			t.Errorf("with another %s: %v", key, err)
		}
		c.s.objects[key] = kept
	}
}
