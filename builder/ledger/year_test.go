package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// keptOfYear returns the times that are kept at T if a snapshot was built every ten minutes of the
// preceding year. A test may omit the other 50,000 snapshots, because the kept times do not depend
// on them (TestBasesAgainstModel).
func keptOfYear(T time.Time) (times []time.Time) {
	for t := T.Add(-dailyAge); t.Before(T); t = t.Add(artifacts.Step) {
		zone := zoneOf(T, t)
		if zone == recent || t.Truncate(time.Hour).Equal(t) && (zone == hourly || t.Truncate(day).Equal(t)) {
			times = append(times, t)
		}
	}
	return times
}

// flicker generates prices for a few assets, some of which come and go all the time, and some of
// which are absent for months.
type flicker struct {
	random *rand.Rand
	here   [24]bool
	serial uint64
}

func (f *flicker) prices() map[string]market.U128 {
	prices := map[string]market.U128{}
	for a := range f.here {
		if f.random.IntN(1<<(a/2)+1) == 0 {
			f.here[a] = !f.here[a]
		}
		if f.here[a] {
			f.serial++
			prices[fmt.Sprintf("asset-%02d", a)] = market.U128{Lo: f.serial}
		}
	}
	return prices
}

// TestYear builds the kept snapshots of a whole year and then every snapshot from one day into the
// next. Every base must equal the model's, no build may read more than two price objects per
// window, and the root must stay small.
func TestYear(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 2,700 builds take seconds")
	}
	now := time.Date(2026, 11, 20, 22, 30, 0, 0, time.UTC)
	source := &flicker{random: rand.New(rand.NewPCG(1, 2))}
	m, c := &model{}, newChain(t)
	for i, at := range keptOfYear(now) {
		prices := source.prices()
		f := feedOf(prices)
		c.quickBuild(f, at)
		if i%50 == 0 {
			m.compare(t, c, f, at)
		}
		m.add(at, prices)
	}
	ref := c.s.put(c.root.Encode())
	c.ref = &ref
	most := 0
	for range 24 {
		isPrice := map[artifacts.Key]bool{}
		for _, h := range c.root.Prices {
			for _, part := range h.Parts {
				isPrice[artifacts.ObjectKey(part.Digest)] = true
			}
		}
		clear(c.s.reads)
		m.step(t, c, now, source.prices())
		now = now.Add(artifacts.Step)
		reads := 0
		for key, n := range c.s.reads {
			if isPrice[key] {
				reads += n
			}
		}
		most = max(most, reads)
	}
	t.Logf("%d snapshots kept, root of %d bytes, at most %d price objects read", len(c.root.Prices), c.ref.Size, most)
	if limit := 2 * len(market.Windows); most < len(market.Windows) || most > limit {
		t.Errorf("a build reads %d price objects, want one to two a window, %d at most", most, limit)
	}
	if limit := int64(160 << 10); c.ref.Size > limit {
		t.Errorf("root of %d bytes, want %d at most", c.ref.Size, limit)
	}
}
