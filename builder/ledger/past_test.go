package ledger

import (
	"fmt"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"pgregory.net/rapid"
)

// nextTime draws a time after now: the next step, a time a few steps later, a gap of any size, or a
// time for which an earlier snapshot is just inside, at, or just outside the limit of a window or a
// zone.
func nextTime(rt *rapid.T, m *model, now time.Time) time.Time {
	step := artifacts.Step
	switch rapid.IntRange(0, 9).Draw(rt, "gap") {
	case 0, 1, 2, 3:
		return now.Add(step)
	case 4:
		return now.Add(time.Duration(rapid.IntRange(2, 12).Draw(rt, "marks")) * step)
	case 5:
		return now.Add(time.Duration(rapid.IntRange(1, 60).Draw(rt, "hours")) * time.Hour)
	case 6:
		return now.Add(time.Duration(rapid.IntRange(1, 120).Draw(rt, "days")) * day)
	case 7:
		return now.Add(time.Duration(rapid.IntRange(1, 400*144).Draw(rt, "any")) * step)
	}
	borders := append([]time.Duration{recentAge, hourlyAge, dailyAge}, market.WindowLengths[:]...)
	from := rapid.SampledFrom(m.times).Draw(rt, "from")
	border := rapid.SampledFrom(borders).Draw(rt, "border")
	next := from.Add(border + time.Duration(rapid.IntRange(-1, 1).Draw(rt, "off"))*step)
	if !next.After(now) {
		return now.Add(step)
	}
	return next
}

// TestBasesAgainstModel builds histories with gaps, times at the limits of windows and zones,
// assets that come and go, and rollbacks. It compares every base of every build, and the times that
// are kept, with the model's. A key must keep its id forever.
func TestBasesAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m, c := &model{}, newChain(rt)
		var refs []artifacts.Ref // the roots, by snapshot of the model
		now := time.Date(2025, 12, 31, 20, 0, 0, 0,
			time.UTC).Add(time.Duration(rapid.IntRange(0, 30).Draw(rt, "start")) * artifacts.Step)
		here := make([]bool, rapid.IntRange(1, 5).Draw(rt, "assets"))
		serial := uint64(0)
		for i := range rapid.IntRange(1, 60).Draw(rt, "builds") {
			if i > 0 {
				now = nextTime(rt, m, now)
			}
			prices := map[string]market.U128{}
			for a := range here {
				if rapid.IntRange(0, 3).Draw(rt, "turn") == 0 {
					here[a] = !here[a]
				}
				if here[a] {
					serial++ // each price occurs only once, so that no base can be mistaken for another
					prices[fmt.Sprintf("asset-%d", a)] = market.U128{Lo: serial * uint64(min(1, serial%6))}
				}
			}
			m.step(rt, c, now, prices)
			refs = append(refs, *c.ref)
			if rapid.IntRange(0, 15).Draw(rt, "rollback") == 0 {
				to := rapid.IntRange(max(0, len(refs)-8), len(refs)-1).Draw(rt, "to")
				c.rollback(refs[to])
				refs, now = append(refs[:to], *c.ref), m.times[to]
				m.times, m.prices = m.times[:to+1], m.prices[:to+1]
			}
		}
	})
}
