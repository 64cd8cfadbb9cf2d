package ledger

import "time"

// Prices thin out with age, in three zones (FEED.md, "Figures"). What is
// kept in a zone is its step: every snapshot, the first of each UTC hour, the
// first of each UTC day.
//
// Whether a snapshot is of a step is settled when it is built: it is unless one
// of the same hour or day was built before. So the snapshots of a step are a
// chain that only grows at its end, and each of the first in a day is the first
// in an hour too.
const (
	recent = iota // T - t < 48 h: every snapshot
	hourly        // of those older, T - t <= 90 d: the first of each UTC hour
	daily         // of those older still, T - t <= 366 d: the first of each UTC day
	zones         // how many there are; and the zone of what is kept no more
)

const (
	day       = 24 * time.Hour
	recentAge = 48 * time.Hour // exclusive
	hourlyAge = 90 * day       // inclusive
	dailyAge  = 366 * day      // inclusive
)

// zoneOf returns the zone that a snapshot of time t is in at T.
func zoneOf(T, t time.Time) int {
	switch age := T.Sub(t); {
	case age < recentAge:
		return recent
	case age <= hourlyAge:
		return hourly
	case age <= dailyAge:
		return daily
	}
	return zones
}

// inStep reports whether a snapshot of time t is of a zone's step, when prev is
// the time of the one before it.
func inStep(zone int, prev, t time.Time) bool {
	switch zone {
	case recent:
		return true
	case hourly:
		return !prev.Truncate(time.Hour).Equal(t.Truncate(time.Hour))
	}
	return !prev.Truncate(day).Equal(t.Truncate(day))
}

// inStep reports whether snapshot i is of a zone's step.
func (h priceList) inStep(zone, i int) bool {
	return i == 0 || inStep(zone, h[i-1].Time, h[i].Time)
}

// at returns what of the list is kept at T.
func (h priceList) at(T time.Time) priceList {
	var kept priceList
	for i := range h {
		if zone := zoneOf(T, h[i].Time); zone < zones && h.inStep(zone, i) {
			kept = append(kept, h[i])
		}
	}
	return kept
}

// last returns the newest snapshot of a zone's step; nil if there is none.
func (h priceList) last(zone int) *priceSet {
	for i := len(h) - 1; i >= 0; i-- {
		if h.inStep(zone, i) {
			return &h[i]
		}
	}
	return nil
}
