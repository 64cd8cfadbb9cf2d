package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"pgregory.net/rapid"
)

// store is a store that suffices for a ledger: objects that were put can be read. It counts the
// reads of each object.
type store struct {
	objects map[artifacts.Key][]byte
	reads   map[artifacts.Key]int
}

func newStore() *store { return &store{map[artifacts.Key][]byte{}, map[artifacts.Key]int{}} }

func (s *store) Get(_ context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	s.reads[key]++
	b, ok := s.objects[key]
	switch {
	case !ok:
		return nil, "", fmt.Errorf("get %s: %w", key, artifacts.ErrNotFound)
	case int64(len(b)) > limit:
		return nil, "", fmt.Errorf("get %s: %w", key, artifacts.ErrTooLarge)
	}
	return b, "1", nil
}

func (s *store) put(b []byte) artifacts.Ref {
	ref := artifacts.RefOf(b)
	s.objects[artifacts.ObjectKey(ref.Digest)] = b
	return ref
}

// chain builds one snapshot after another on a store, as the builder does.
type chain struct {
	tb   rapid.TB
	s    *store
	ref  *artifacts.Ref
	root *Root             // the root that ref names
	past *market.Past      // of the last build
	ids  map[string]uint64 // the ids of all assets so far, by key
}

func newChain(tb rapid.TB) *chain {
	return &chain{tb: tb, s: newStore(), root: &Root{}, ids: map[string]uint64{}}
}

func (c *chain) check(err error) {
	c.tb.Helper()
	ok(c.tb, err)
}

// build makes one build that starts from the stored root alone.
func (c *chain) build(f *market.Feed, t time.Time) {
	c.tb.Helper()
	l, err := Load(context.Background(), c.s, c.ref)
	c.check(err)
	c.buildOn(l, f, t)
}

// buildOn makes one build from a ledger.
func (c *chain) buildOn(l *Ledger, f *market.Feed, t time.Time) {
	c.tb.Helper()
	next, err := l.Advance(context.Background(), f, c.compute(l, f, t), t)
	c.check(err)
	c.take(next)
}

// take stores the ledger next and makes it the newest.
func (c *chain) take(next *Next) {
	c.tb.Helper()
	for _, b := range next.Objects {
		c.s.put(b)
	}
	ref := c.s.put(next.Root)
	c.ref = &ref
	var err error
	c.root, err = parseRoot(next.Root)
	c.check(err)
}

// rollback makes an earlier root's ledger the newest.
func (c *chain) rollback(to artifacts.Ref) {
	c.tb.Helper()
	b, err := Rollback(context.Background(), c.s, &artifacts.Manifest{Ledger: *c.ref}, &artifacts.Manifest{Ledger: to})
	c.check(err)
	ref := c.s.put(b)
	c.ref = &ref
	c.root, err = parseRoot(b)
	c.check(err)
}

// quickBuild is like build, but does not encode and decode the root, which is most of the cost of a
// small snapshot with a long history.
func (c *chain) quickBuild(f *market.Feed, t time.Time) {
	c.tb.Helper()
	ctx := context.Background()
	l, err := open(ctx, c.s, c.root)
	c.check(err)
	var put objects
	c.root, err = l.advance(ctx, f, c.compute(l, f, t), t, &put)
	c.check(err)
	for _, b := range put {
		c.s.put(b)
	}
}

func (c *chain) compute(l *Ledger, f *market.Feed, t time.Time) *market.Result {
	c.tb.Helper()
	c.check(l.AssignIDs(f))
	for _, a := range f.Assets {
		if id, ok := c.ids[a.Key]; ok && id != a.ID {
			c.tb.Fatalf("asset %s had id %d, has %d", a.Key, id, a.ID)
		}
		c.ids[a.Key] = a.ID
	}
	var err error
	c.past, err = l.Past(context.Background(), f, t)
	c.check(err)
	return market.Compute(f, t, c.past, &market.Settings{HistoryAssets: market.DefaultHistoryAssets})
}

// model implements the rules for prices in FEED.md, "Figures", literally: it keeps every snapshot
// that was ever built, and searches all of them.
type model struct {
	times  []time.Time
	prices []map[string]market.U128 // by key of the asset
}

func (m *model) add(t time.Time, prices map[string]market.U128) {
	m.times, m.prices = append(m.times, t), append(m.prices, prices)
}

// kept returns the indices of the snapshots before T that are kept at T.
func (m *model) kept(T time.Time) (kept []int) {
	hours, days := map[string]bool{}, map[string]bool{}
	for i, t := range m.times {
		hour, day := t.UTC().Format("2006-01-02T15"), t.UTC().Format("2006-01-02")
		firstOfHour, firstOfDay := !hours[hour], !days[day]
		hours[hour], days[day] = true, true
		age := T.Sub(t)
		if age < 48*time.Hour || age <= 90*24*time.Hour && firstOfHour || age <= 366*24*time.Hour && firstOfDay {
			kept = append(kept, i)
		}
	}
	return kept
}

// base returns the earliest price kept for an asset in [T-window, T), and its time, which is T if
// there is no such price.
func (m *model) base(kept []int, key string, T time.Time, window time.Duration) (base market.U128, at time.Time) {
	for _, i := range kept {
		if price, has := m.prices[i][key]; has && !m.times[i].Before(T.Add(-window)) {
			return price, m.times[i]
		}
	}
	return market.U128{}, T
}

// step builds the snapshot at t from prices and compares every base, and the times that are kept
// afterwards, with the model.
func (m *model) step(tb rapid.TB, c *chain, t time.Time, prices map[string]market.U128) {
	tb.Helper()
	f := feedOf(prices)
	c.build(f, t)
	m.compare(tb, c, f, t)
	m.add(t, prices)
	m.compareHeld(tb, c, t)
}

// compareHeld compares the times that the chain keeps after the snapshot at t with the model.
func (m *model) compareHeld(tb rapid.TB, c *chain, t time.Time) {
	tb.Helper()
	var want, got []time.Time
	for _, i := range m.kept(t) {
		want = append(want, m.times[i])
	}
	for _, h := range c.root.Prices {
		got = append(got, h.Time)
	}
	if !slices.EqualFunc(want, got, time.Time.Equal) {
		tb.Fatalf("at %v kept are %v, want %v", t, got, want)
	}
	want = slices.DeleteFunc(slices.Clone(m.times), func(at time.Time) bool { return t.Sub(at) >= 48*time.Hour })
	if !slices.EqualFunc(want, c.root.Totals, func(at time.Time, total Total) bool { return at.Equal(total.Time) }) {
		tb.Fatalf("at %v kept are totals %v, want %v", t, c.root.Totals, want)
	}
}

// compare compares every base of the chain's last build with the model's.
func (m *model) compare(tb rapid.TB, c *chain, f *market.Feed, t time.Time) {
	tb.Helper()
	kept := m.kept(t)
	for w, window := range market.WindowLengths {
		if len(c.past.Bases[w]) != len(f.Quotes) {
			tb.Fatalf("window %s has %d bases for %d quotes", market.Windows[w], len(c.past.Bases[w]), len(f.Quotes))
		}
		for q := range f.Quotes {
			key := f.Assets[f.Quotes[q].Asset].Key
			want, at := m.base(kept, key, t, window)
			got, age := c.past.Bases[w][q], time.Duration(c.past.Ages[w][q])*artifacts.Step
			if got != want || !at.Equal(t.Add(-age)) {
				tb.Fatalf("at %v, window %s, asset %s: base %v of %v, want %v of %v", t, market.Windows[w], key,
					got, t.Add(-age), want, at)
			}
		}
	}
}

// feedOf returns a feed with an asset and a quote for each price, and one asset without a price.
// The rows are not in the order of their ids.
func feedOf(prices map[string]market.U128) *market.Feed {
	f := &market.Feed{Assets: []market.Asset{{Key: "mute", Active: true}}}
	keys := slices.Sorted(maps.Keys(prices))
	slices.Reverse(keys)
	for _, key := range keys {
		f.Quotes = append(f.Quotes, market.Quote{Asset: len(f.Assets), Price: prices[key],
			MarketCap: market.U128{Lo: 1}})
		f.Assets = append(f.Assets, market.Asset{Key: key, Active: true})
	}
	return f
}
