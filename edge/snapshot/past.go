package snapshot

import (
	"slices"
	"sort"
	"time"

	"example.com/marketdata/artifacts"
)

// PastBlock is a block of the past (go doc ./artifacts, "Past").
type PastBlock struct {
	*View
	// Times are those of its snapshots, each the first of its interval.
	Times []time.Time
	// Begins holds what stands before the prices of each candle in an answer, CandleLength bytes
	// with the beginning of the interval; nil in a block of ten minutes. Points holds the same
	// for points of history in blocks of days, PointLength bytes with the snapshot's time.
	Begins, Points []byte
}

// candle is the text before the first price of a candle in an answer (INTERFACE.md, "Candles").
// The first one has no comma.
const candle = `,["2006-01-02T15:04:05Z",`

// CandleLength is the length of the text before a candle's first price.
const CandleLength = len(candle)

// Moment is the place of a snapshot in a block of the past.
type Moment struct {
	Block *PastBlock
	At    int
}

// Time returns the snapshot's time.
func (m Moment) Time() time.Time { return m.Block.Times[m.At] }

// Past returns the blocks of an interval by its number in artifacts.PastIntervals, oldest first.
func (s *Snapshot) Past(interval int) []PastBlock { return s.past[interval] }

// HasPast reports whether the snapshot has any block of the past.
func (s *Snapshot) HasPast() bool {
	return len(s.past[artifacts.TenMinutes])+len(s.past[artifacts.Hours])+len(s.past[artifacts.Days]) > 0
}

// hoursAhead is how many of the newest blocks of hours are fetched before they are asked for, with those
// of ten minutes and of days: as many as the candles reach that are answered when nobody says
// from where. The others are fetched when they are asked for, since there are many.
const hoursAhead = 8

// addPast adds the blocks of the snapshot's manifest. Like those of history they are not
// waited for.
func (s *Snapshot) addPast(m *artifacts.Manifest) {
	for i := range artifacts.PastIntervals {
		p := &artifacts.PastIntervals[i]
		for _, in := range m.Past(p) {
			b := PastBlock{View: s.newView(m, in), Times: in.Times}
			for _, o := range b.objects {
				s.cache.Spare(o)
			}
			for _, t := range in.Times {
				if i > artifacts.TenMinutes {
					b.Begins = t.Truncate(p.Step).AppendFormat(b.Begins, candle)
				}
				if i == artifacts.Days {
					b.Points = t.AppendFormat(b.Points, point)
				}
			}
			s.past[i] = append(s.past[i], b)
		}
		for n, b := range slices.Backward(s.past[i]) {
			if i == artifacts.Hours && len(s.past[i])-n > hoursAhead {
				s.pastObjects = append(s.pastObjects, b.objects...)
			} else {
				s.historyObjects = append(s.historyObjects, b.objects...)
			}
		}
	}
}

// latest returns the last snapshot of an interval's blocks at or before t; ok is false if there is none.
func (s *Snapshot) latest(interval int, t time.Time) (m Moment, ok bool) {
	blocks := s.past[interval]
	i := sort.Search(len(blocks), func(i int) bool { return blocks[i].Times[0].After(t) }) - 1
	if i < 0 {
		return m, false
	}
	times := blocks[i].Times
	return Moment{&blocks[i], sort.Search(len(times), func(j int) bool { return times[j].After(t) }) - 1}, true
}

// MomentAt returns the place of the snapshot of time t, if it is kept; rather not among the hours, most of
// which are fetched when they are asked for.
func (s *Snapshot) MomentAt(t time.Time) (m Moment, ok bool) {
	for _, i := range [...]int{artifacts.TenMinutes, artifacts.Days, artifacts.Hours} {
		if m, ok = s.latest(i, t); ok && m.Time().Equal(t) {
			return m, true
		}
	}
	return m, false
}

// PriceAt returns the latest snapshot at or before t that is kept (INTERFACE.md, "Prices at a
// time"): every one of 48 hours, before these the first of each hour of 90 days, before these the first of
// each day. ok is false if there is none, or if it is older than its interval and ten minutes.
func (s *Snapshot) PriceAt(t time.Time) (m Moment, ok bool) {
	for i := range artifacts.PastIntervals {
		p := &artifacts.PastIntervals[i]
		at := t
		if i > 0 { // younger ones are kept at the interval before
			finer := &artifacts.PastIntervals[i-1]
			youngest := s.Time.Add(-finer.Age)
			if finer.AgeItself {
				youngest = youngest.Add(-1)
			}
			if at.After(youngest) {
				at = youngest
			}
		}
		m, ok = s.latest(i, at)
		if ok && p.Keeps(s.Time, m.Time()) {
			return m, t.Sub(m.Time()) <= p.Step+artifacts.Step
		}
	}
	return m, false
}

// Today returns the first snapshot that is kept of the day of the snapshot itself, and the snapshot
// itself, which may be the same.
func (s *Snapshot) Today() (first, own Moment, ok bool) {
	own, ok = s.latest(artifacts.TenMinutes, s.Time)
	if !ok || !own.Time().Equal(s.Time) {
		return first, own, false
	}
	day := s.Time.Truncate(24 * time.Hour)
	blocks := s.past[artifacts.TenMinutes]
	for i := range blocks {
		for j, t := range blocks[i].Times {
			if !t.Before(day) {
				return Moment{&blocks[i], j}, own, true
			}
		}
	}
	return own, own, true
}
