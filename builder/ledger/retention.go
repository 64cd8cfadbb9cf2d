package ledger

import "time"

// The ledger thins prices with age, in three zones (FEED.md, "Figures"). Each zone has a step,
// which says what it keeps: every snapshot, the first of each UTC hour, or the first of each UTC
// day.
//
// A snapshot belongs to a step if it is the first one built in its hour or day. This never changes
// after the snapshot is built. So the snapshots in a step form a chain that grows only at its end,
// and the first snapshot of a day is also the first of an hour.
const (
	recent = iota // T - t < 48 h: every snapshot
	hourly        // older, T - t <= 90 d: the first of each UTC hour
	daily         // older still, T - t <= 366 d: the first of each UTC day
	zones         // the number of zones, and the zone of snapshots that are no longer kept
)

const (
	day       = 24 * time.Hour
	recentAge = 48 * time.Hour // exclusive
	hourlyAge = 90 * day       // inclusive
	dailyAge  = 366 * day      // inclusive
)

// zoneOf returns the zone to which a snapshot taken at t belongs as of T.
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

// inStep reports whether a snapshot at time t belongs to a zone's step. prev is the time of the
// previous snapshot.
func inStep(zone int, prev, t time.Time) bool {
	switch zone {
	case recent:
		return true
	case hourly:
		return !prev.Truncate(time.Hour).Equal(t.Truncate(time.Hour))
	}
	return !prev.Truncate(day).Equal(t.Truncate(day))
}

// inStep reports whether snapshot i belongs to a zone's step.
func (h priceList) inStep(zone, i int) bool {
	return i == 0 || inStep(zone, h[i-1].Time, h[i].Time)
}

// at returns the entries that are still kept at T.
func (h priceList) at(T time.Time) priceList {
	var kept priceList
	for i := range h {
		if zone := zoneOf(T, h[i].Time); zone < zones && h.inStep(zone, i) {
			kept = append(kept, h[i])
		}
	}
	return kept
}

// last returns the newest snapshot of a zone's step, or nil if there is none.
func (h priceList) last(zone int) *priceSet {
	for i := len(h) - 1; i >= 0; i-- {
		if h.inStep(zone, i) {
			return &h[i]
		}
	}
	return nil
}
