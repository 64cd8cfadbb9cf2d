package model

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"time"
)

// A PastRow is a row of an import.
type PastRow struct {
	Key  string
	Time time.Time
	Quoted
}

// RowsOf returns the rows of a feed and the total of its market caps, or nil if no market cap is
// known.
func RowsOf(files Files) (rows []PastRow, total *big.Rat, err error) {
	f, _, err := readFeed(files, nil)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range f.assets {
		if a.price != nil {
			rows = append(rows, PastRow{a.key, f.time, Quoted{a.price, a.marketCap, a.volume}})
		}
	}
	if total, _ = totals(f.assets); total.Sign() == 0 {
		total = nil
	}
	return rows, total, nil
}

// Import adds past rows as if snapshots with them had been built (FEED.md, "Importing a past").
// totals contains the totals of whole feeds, by the times of their snapshots. The newest snapshot
// does not change.
func (w *World) Import(rows []PastRow, totals map[time.Time]*big.Rat) {
	newest := w.Newest()
	im := &importing{World: w, at: newest.Time}
	im.past = &Past{}
	if w.past != nil {
		im.past = w.past.clone()
	}
	im.kept = nil
	for _, m := range w.kept {
		m.prices, m.history = maps.Clone(m.prices), maps.Clone(m.history)
		im.kept = append(im.kept, m)
	}
	im.firsts()
	im.limit()
	byMark := map[time.Time][]PastRow{}
	for _, r := range rows {
		if mark := r.Time.UTC().Truncate(10 * time.Minute); !mark.After(im.at) {
			byMark[mark] = append(byMark[mark], r)
		}
	}
	for _, mark := range slices.SortedFunc(maps.Keys(byMark), time.Time.Compare) {
		im.moment(mark, byMark[mark], totals[mark])
	}
	im.pass()
	w.state = state{ids: w.ids, kept: thin(im.kept, im.at), groups: w.groups, past: im.past}
	newest.state = w.state // The published snapshot does not change, so a rollback discards the import.
}

func (b *Past) clone() *Past {
	next := &Past{}
	for _, s := range b.All {
		s.Assets = maps.Clone(s.Assets)
		next.All = append(next.All, s)
	}
	of := func(all []Passed) (clone []Passed) {
		for _, p := range all {
			p.First.Assets, p.Candles = maps.Clone(p.First.Assets), maps.Clone(p.Candles)
			clone = append(clone, p)
		}
		return clone
	}
	next.Hours, next.Days = of(b.Hours), of(b.Days)
	return next
}

// importing is the state of an import while it runs.
type importing struct {
	*World
	past *Past
	kept []moment
	at   time.Time
	// the first snapshots by hour and by day, from each of the two sources in firsts
	first   []map[time.Time]time.Time
	allowed map[string]bool // the assets that may have history; nil means all
}

// firsts finds, for each hour and day, the time of the oldest snapshot that is still remembered,
// and the time of the oldest snapshot that has figures for any asset. No imported row of the same
// hour or day may be earlier.
func (im *importing) firsts() {
	var kept, seen []time.Time
	for _, m := range im.kept {
		kept = append(kept, m.time)
	}
	for _, s := range im.past.All {
		if im.at.Sub(s.Time) < 48*time.Hour {
			seen = append(seen, s.Time)
		}
	}
	for _, p := range im.past.Hours {
		if im.at.Sub(p.First.Time) <= 90*24*time.Hour {
			seen = append(seen, p.First.Time)
		}
	}
	for _, p := range im.past.Days {
		seen = append(seen, p.First.Time)
	}
	im.first = []map[time.Time]time.Time{}
	for _, times := range [][]time.Time{kept, seen} {
		for _, step := range []time.Duration{time.Hour, 24 * time.Hour} {
			first := map[time.Time]time.Time{}
			for _, t := range times {
				if had, ok := first[t.Truncate(step)]; !ok || t.Before(had) {
					first[t.Truncate(step)] = t
				}
			}
			im.first = append(im.first, first)
		}
	}
}

// isEarly reports whether a time is before the first snapshot of its hour or day.
func (im *importing) isEarly(mark time.Time) bool {
	for i, first := range im.first {
		if t, ok := first[mark.Truncate([]time.Duration{time.Hour, 24 * time.Hour}[i%2])]; ok && mark.Before(t) {
			return true
		}
	}
	return false
}

// isKept reports whether a price at the given time is kept. From a certain age on, only the first
// price of an hour is kept, and later only the first price of a day.
func (im *importing) isKept(mark time.Time) bool {
	isFirst := func(i int, step time.Duration) bool {
		for _, first := range []map[time.Time]time.Time{im.first[i], im.first[i+2]} {
			if t, ok := first[mark.Truncate(step)]; ok && !t.Equal(mark) {
				return false
			}
		}
		return true
	}
	age := im.at.Sub(mark)
	return age < 48*time.Hour || age <= 90*24*time.Hour && isFirst(0, time.Hour) || isFirst(1, 24*time.Hour)
}

// limit determines which assets may have history if the maximum number of assets already has it.
func (im *importing) limit() {
	for _, m := range im.kept {
		if m.time.Equal(im.at) && len(m.history) >= im.settings.History {
			im.allowed = map[string]bool{}
			for key, in := range m.history {
				im.allowed[key] = in
			}
		}
	}
}

// moment imports the rows that belong to one ten-minute mark.
func (im *importing) moment(mark time.Time, rows []PastRow, total *big.Rat) {
	slices.SortStableFunc(rows, func(a, b PastRow) int { return a.Time.Compare(b.Time) })
	of := map[int64]PastRow{} // the earliest row of each asset
	for _, r := range rows {
		id, known := im.ids[assets][r.Key]
		if _, had := of[id]; known && !had {
			of[id] = r
		}
	}
	ids := slices.SortedFunc(maps.Keys(of), cmp.Compare[int64])
	ids = slices.DeleteFunc(ids, func(id int64) bool { return im.allowed != nil && !im.allowed[of[id].Key] })
	ids = ids[:min(len(ids), im.settings.History)]
	if im.isEarly(mark) {
		return // The first snapshot of an hour or day stays the first.
	}
	ids = slices.DeleteFunc(ids, func(id int64) bool { return im.has(mark, id) })
	if len(ids) == 0 {
		return
	}
	seen := Seen{Time: mark, Assets: map[int64]Quoted{}}
	i, had := slices.BinarySearchFunc(im.past.All, mark, func(s Seen, t time.Time) int { return s.Time.Compare(t) })
	if had {
		seen = im.past.All[i]
	} else {
		im.past.All = slices.Insert(im.past.All, i, seen)
	}
	j, had := slices.BinarySearchFunc(im.kept, mark, func(m moment, t time.Time) int { return m.time.Compare(t) })
	if !had && !im.isKept(mark) {
		j = -1
	} else if !had {
		im.kept = slices.Insert(im.kept, j, moment{time: mark, prices: map[string]*big.Rat{},
			history: map[string]bool{}, total: total})
	}
	for _, id := range ids {
		r := of[id]
		if r.MarketCap != nil && r.MarketCap.Sign() == 0 {
			r.MarketCap = nil
		}
		seen.Assets[id] = r.Quoted
		if j >= 0 {
			if im.kept[j].prices[r.Key] == nil {
				im.kept[j].prices[r.Key] = r.Price
			}
			im.kept[j].history[r.Key] = true
		}
		im.extend(im.past.Hours, time.Hour, mark, id, r.Quoted)
		im.extend(im.past.Days, 24*time.Hour, mark, id, r.Quoted)
	}
}

// has reports whether the store has an asset's figures at the given time, or the asset's candle for
// the day or hour that contains that time.
func (im *importing) has(mark time.Time, id int64) bool {
	for _, p := range im.past.Days {
		if _, ok := p.Candles[id]; ok && p.Begin.Equal(mark.Truncate(24*time.Hour)) && !p.growing(id) {
			return true
		}
	}
	for _, p := range im.past.Hours {
		_, ok := p.Candles[id]
		if ok && p.Begin.Equal(mark.Truncate(time.Hour)) && im.at.Sub(mark) <= 90*24*time.Hour && !p.growing(id) {
			return true
		}
	}
	for _, s := range im.past.All {
		if _, ok := s.Assets[id]; ok && s.Time.Equal(mark) && im.at.Sub(mark) < 48*time.Hour {
			return true
		}
	}
	return false
}

// growing reports whether this import is creating the candle of the asset.
func (p *Passed) growing(id int64) bool { return p.imported[id] }

// extend adds figures to an hour or day that was already over before the import.
func (im *importing) extend(all []Passed, step time.Duration, mark time.Time, id int64, q Quoted) {
	for i := range all {
		p := &all[i]
		if !p.Begin.Equal(mark.Truncate(step)) {
			continue
		}
		if p.First.Time.Equal(mark) {
			p.First.Assets[id] = q
		}
		c, had := p.Candles[id]
		if had && !p.growing(id) {
			return // The hour is so old that the store no longer has its snapshots.
		}
		p.Candles[id] = c.with(q, !had)
		if p.imported == nil {
			p.imported = map[int64]bool{}
		}
		p.imported[id] = true
	}
}

// pass creates the hours and days that had no snapshot before, and ends the import.
func (im *importing) pass() {
	b := im.past
	b.Hours, b.Days = pass(b.Hours, b.All, time.Hour, im.at), pass(b.Days, b.All, 24*time.Hour, im.at)
	for _, all := range [][]Passed{b.Hours, b.Days} {
		for i := range all {
			all[i].imported = nil
		}
	}
}
