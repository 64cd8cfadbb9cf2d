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
	// Times contains the times of the snapshots. Each snapshot is the first of an interval.
	Times []time.Time
	// Begins contains the bytes that precede each candle's prices, including the beginning of the interval,
	// CandleLength bytes per candle. It is nil in a ten-minute block. Points contains the bytes that
	// precede each history point's price, including the snapshot's time, PointLength bytes per point. Only
	// daily blocks have Points.
	Begins, Points []byte
}

// candle is the format of the bytes that precede a candle's first price in an answer (INTERFACE.md,
// "Candles"). The first candle has no comma.
const candle = `,["2006-01-02T15:04:05Z",`

// CandleLength is the number of bytes that precede a candle's first price.
const CandleLength = len(candle)

// Moment is the position of a snapshot in a block of the past.
type Moment struct {
	Block *PastBlock
	At    int
}

// Time returns the snapshot's time.
func (m Moment) Time() time.Time { return m.Block.Times[m.At] }

// Past returns the blocks of an interval, oldest first. interval is an index into artifacts.PastIntervals.
func (s *Snapshot) Past(interval int) []PastBlock { return s.past[interval] }

// HasPast reports whether the snapshot contains any block of the past.
func (s *Snapshot) HasPast() bool {
	return len(s.past[artifacts.TenMinutes])+len(s.past[artifacts.Hours])+len(s.past[artifacts.Days]) > 0
}

// hoursAhead is the number of hourly blocks, newest first, that are prefetched together with the ten-minute
// and daily blocks. They cover the default range of /candles. All other hourly blocks are fetched when a
// request needs them, since there are many.
const hoursAhead = 8

// addPast adds the blocks of the manifest. As with history, the snapshot does not wait for them.
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

// latest returns the last snapshot at or before t in the blocks of an interval. ok is false if there is none.
func (s *Snapshot) latest(interval int, t time.Time) (m Moment, ok bool) {
	blocks := s.past[interval]
	i := sort.Search(len(blocks), func(i int) bool { return blocks[i].Times[0].After(t) }) - 1
	if i < 0 {
		return m, false
	}
	times := blocks[i].Times
	return Moment{&blocks[i], sort.Search(len(times), func(j int) bool { return times[j].After(t) }) - 1}, true
}

// MomentAt returns the position of the snapshot at time t, if it is kept. It tries the hourly blocks last,
// because most of them have to be fetched.
func (s *Snapshot) MomentAt(t time.Time) (m Moment, ok bool) {
	for _, i := range [...]int{artifacts.TenMinutes, artifacts.Days, artifacts.Hours} {
		if m, ok = s.latest(i, t); ok && m.Time().Equal(t) {
			return m, true
		}
	}
	return m, false
}

// PriceAt returns the latest kept snapshot at or before t (INTERFACE.md, "Prices at a time"). The kept
// snapshots are all snapshots of the last 48 hours, the first of each hour of the last 90 days, and the first
// of each day. ok is false if there is no such snapshot, or if it precedes t by more than its interval plus ten
// minutes.
func (s *Snapshot) PriceAt(t time.Time) (m Moment, ok bool) {
	for i := range artifacts.PastIntervals {
		p := &artifacts.PastIntervals[i]
		at := t
		if i > 0 { // newer snapshots are kept at the finer interval
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

// Today returns the first kept snapshot of the current day, and the snapshot itself, which may be the same.
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
