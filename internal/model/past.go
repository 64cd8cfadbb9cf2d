package model

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The endpoints of candles and of prices at given times.
const (
	candles = "candles"
	prices  = "prices"
	past    = "past" // names the listing of both
)

const (
	maxCandles = 1000 // of an asset
	maxPrices  = 1000 // in an answer
	windowMax  = "max"
)

// intervals are the intervals of candles, and how many of them an answer has by default.
var intervals = map[string]struct {
	step  time.Duration
	usual int64
}{"1h": {time.Hour, 168}, "1d": {24 * time.Hour, 365}}

// Quoted contains an asset's figures in one snapshot. Unknown figures are nil.
type Quoted struct{ Price, MarketCap, Volume *big.Rat }

// A Seen is a snapshot of the past: the figures, by id, of the assets that have points.
type Seen struct {
	Time   time.Time
	Assets map[int64]Quoted
}

// A Passed is an hour or a day that is over.
type Passed struct {
	Begin   time.Time
	First   Seen             // its first snapshot
	Candles map[int64]Candle // by asset

	imported map[int64]bool // during an import: the assets whose candles it creates
}

// A Candle contains an asset's prices in an hour or a day, and its figures in the last snapshot of
// that interval.
type Candle struct {
	Open, High, Low, Close *big.Rat
	Last                   Quoted
}

// Past is the remembered past: all snapshots, and the hours and days that are over.
type Past struct {
	All         []Seen // oldest first
	Hours, Days []Passed
}

// add returns the past with the given snapshot added, and with the hours and days that are over by
// the snapshot's time.
func (b *Past) add(now Seen) *Past {
	if b == nil {
		b = &Past{}
	}
	next := &Past{All: slices.Clone(b.All), Hours: slices.Clone(b.Hours), Days: slices.Clone(b.Days)}
	if len(now.Assets) > 0 {
		next.All = append(next.All, now)
	}
	next.Hours = pass(next.Hours, next.All, time.Hour, now.Time)
	next.Days = pass(next.Days, next.All, 24*time.Hour, now.Time)
	return next
}

// pass adds the intervals that have ended by now. Intervals that ended earlier never change.
func pass(had []Passed, all []Seen, step time.Duration, now time.Time) []Passed {
	for i, s := range all {
		begin := s.Time.Truncate(step)
		if slices.ContainsFunc(had, func(p Passed) bool { return p.Begin.Equal(begin) }) {
			continue
		}
		p := Passed{Begin: begin, First: s, Candles: map[int64]Candle{}}
		for _, other := range all[i:] {
			if !other.Time.Truncate(step).Equal(begin) {
				break
			}
			for id, q := range other.Assets {
				c, ok := p.Candles[id]
				p.Candles[id] = c.with(q, !ok)
			}
		}
		if !now.Before(begin.Add(step)) {
			had = append(had, p)
		}
	}
	slices.SortFunc(had, func(a, b Passed) int { return a.Begin.Compare(b.Begin) })
	return had
}

// with returns the candle with the next snapshot's figures added. isNew means that they are the
// candle's first figures.
func (c Candle) with(q Quoted, isNew bool) Candle {
	if isNew {
		c = Candle{Open: q.Price, High: q.Price, Low: q.Price}
	}
	if q.Price.Cmp(c.High) > 0 {
		c.High = q.Price
	}
	if q.Price.Cmp(c.Low) < 0 {
		c.Low = q.Price
	}
	c.Close, c.Last = q.Price, q
	return c
}

// kept returns the snapshots that can answer /prices, oldest first, and for each one the interval
// for which it is valid.
func (b *Past) kept(at time.Time) (all []Seen, steps []time.Duration) {
	add := func(s Seen, step time.Duration) { all, steps = append(all, s), append(steps, step) }
	for _, p := range b.Days {
		if at.Sub(p.First.Time) > 90*24*time.Hour {
			add(p.First, 24*time.Hour)
		}
	}
	for _, p := range b.Hours {
		if age := at.Sub(p.First.Time); age >= 48*time.Hour && age <= 90*24*time.Hour {
			add(p.First, time.Hour)
		}
	}
	for _, s := range b.All {
		if at.Sub(s.Time) < 48*time.Hour {
			add(s, 10*time.Minute)
		}
	}
	return all, steps
}

// Said returns the figures of an asset in the snapshot at time t, if they are remembered.
func (b *Past) Said(t time.Time, id int64) (q Quoted) {
	if b == nil {
		return q
	}
	all := slices.Clone(b.All)
	for _, p := range slices.Concat(b.Hours, b.Days) {
		all = append(all, p.First)
	}
	for _, s := range all {
		if s.Time.Equal(t) {
			return s.Assets[id]
		}
	}
	return q
}

// priceAt returns the snapshot that provides the price at time t, or nil if there is none.
func (b *Past) priceAt(at, t time.Time) *Seen {
	all, steps := b.kept(at)
	for i, s := range slices.Backward(all) {
		if s.Time.After(t) {
			continue
		}
		if t.Sub(s.Time) > steps[i]+10*time.Minute {
			return nil
		}
		return &s
	}
	return nil
}

// candleRange returns the hours or days that a request asks for, by default the newest ones.
// tooMany reports that there are more than allowed.
func (b *Past) candleRange(q *Query, at time.Time) (in []Passed, tooMany bool) {
	step := intervals[q.Interval].step
	all := b.Days
	if q.Interval == "1h" {
		all = slices.DeleteFunc(slices.Clone(b.Hours),
			func(p Passed) bool { return p.Begin.Before(at.Add(-90 * 24 * time.Hour)) })
	}
	if len(all) == 0 {
		return nil, false
	}
	to := all[len(all)-1].Begin
	if asked := time.Unix(q.To, 0).UTC(); q.HasTo && asked.Before(to) {
		to = asked.Truncate(step)
	}
	from := to.Add(-step * time.Duration(intervals[q.Interval].usual-1))
	if q.HasFrom {
		from = time.Unix(q.From, 0).UTC()
	}
	if from.Before(all[0].Begin) {
		from = all[0].Begin
	}
	if begin := from.Truncate(step); begin.Before(from) {
		from = begin.Add(step)
	}
	if to.Sub(from)/step >= maxCandles {
		return nil, true
	}
	outside := func(p Passed) bool { return p.Begin.Before(from) || p.Begin.After(to) }
	return slices.DeleteFunc(slices.Clone(all), outside), false
}

// amount formats a figure, or returns nil if it is not known.
func amount(x *big.Rat, places int) *string {
	if x == nil {
		return nil
	}
	text := decimal(x, places)
	return &text
}

// The items of /candles and /prices.
type (
	candleItem struct {
		ID       int64       `json:"id"`
		Name     text        `json:"name"`
		Symbol   text        `json:"symbol"`
		Slug     text        `json:"slug"`
		Interval string      `json:"interval"`
		Candles  [][]*string `json:"candles"`
	}
	priceItem struct {
		ID     int64     `json:"id"`
		Name   text      `json:"name"`
		Symbol text      `json:"symbol"`
		Slug   text      `json:"slug"`
		Prices []priceAt `json:"prices"`
	}
	priceAt struct {
		Time         string  `json:"time"`
		SnapshotTime *string `json:"snapshot_time"`
		Price        *string `json:"price"`
		MarketCap    *string `json:"market_cap"`
		Volume       *string `json:"volume"`
	}
)

func (i *candleItem) row() Row { return newRow(i.ID, i.Name, i.Symbol, i.Slug, i) }
func (i *priceItem) row() Row  { return newRow(i.ID, i.Name, i.Symbol, i.Slug, i) }

// withPast returns rows of assets as items of /candles or /prices. If refused is not nil, it is the
// answer instead.
func (s *Snapshot) withPast(q *Query, rows []*Row) (items []*Row, refused *Answer) {
	past := s.Past
	var in []Passed
	tooMany, at := len(rows)*len(q.Times) > maxPrices, "time"
	if q.Endpoint == candles && past != nil {
		in, tooMany = past.candleRange(q, s.Time)
		at = "from"
	}
	if tooMany {
		a := badRequest(at)
		return nil, &a
	}
	for _, r := range rows {
		var item Row
		if q.Endpoint == candles {
			i := &candleItem{ID: r.ID, Name: text(r.asName), Symbol: text(r.asSymbol), Slug: text(r.asSlug),
				Interval: q.Interval, Candles: [][]*string{}}
			for _, p := range in {
				if c, ok := p.Candles[r.ID]; ok {
					begin := timestamp(p.Begin)
					all := []*string{&begin}
					for _, price := range []*big.Rat{c.Open, c.High, c.Low, c.Close} {
						all = append(all, amount(price, pricePlaces))
					}
					i.Candles = append(i.Candles, append(all, amount(c.Last.MarketCap, amountPlaces),
						amount(c.Last.Volume, amountPlaces)))
				}
			}
			item = i.row()
		} else {
			i := &priceItem{ID: r.ID, Name: text(r.asName), Symbol: text(r.asSymbol), Slug: text(r.asSlug)}
			for _, seconds := range q.Times {
				t := time.Unix(seconds, 0).UTC()
				p := priceAt{Time: timestamp(t)}
				if at := past.priceAt(s.Time, t); at != nil {
					if f, ok := at.Assets[r.ID]; ok {
						time := timestamp(at.Time)
						p.SnapshotTime, p.Price = &time, amount(f.Price, pricePlaces)
						p.MarketCap, p.Volume = amount(f.MarketCap, amountPlaces), amount(f.Volume, amountPlaces)
					}
				}
				i.Prices = append(i.Prices, p)
			}
			item = i.row()
		}
		items = append(items, &item)
	}
	return items, nil
}

// max returns the window "max": the first price of each day, and the price in the snapshot itself.
func (b *Past) max(at time.Time) *Series {
	var chain []Seen
	for _, p := range b.Days {
		chain = append(chain, p.First)
	}
	if n := len(b.All); n > 0 && b.All[n-1].Time.Equal(at) { // The snapshot at that time has points.
		today := slices.IndexFunc(b.All, func(s Seen) bool { return !s.Time.Before(at.Truncate(24 * time.Hour)) })
		if chain = append(chain, b.All[today]); today < n-1 {
			chain = append(chain, b.All[n-1])
		}
	}
	s := &Series{Listed: map[int64]bool{}}
	for _, of := range chain {
		for id := range of.Assets {
			s.Listed[id] = true
		}
	}
	s.Points = func(id int64) (points []Point) {
		for _, of := range chain {
			if q, ok := of.Assets[id]; ok {
				points = append(points, Point{of.Time, decimal(q.Price, pricePlaces)})
			}
		}
		return points
	}
	return s
}

// Hourly returns an asset's points in a window. From the first kept hour on, these are the first
// price of each hour and all prices of the current hour.
func (s *Snapshot) Hourly(window string, id int64) (points []Point) {
	var hours []Seen
	if s.Past != nil {
		for _, p := range s.Past.Hours {
			if s.Time.Sub(p.Begin) <= 90*24*time.Hour {
				hours = append(hours, p.First)
			}
		}
	}
	if of := s.SeriesOf(window); of != nil {
		points = of.Points(id)
	}
	if len(hours) == 0 {
		return points
	}
	points = slices.DeleteFunc(points, func(p Point) bool { return !p.Time.Before(hours[0].Time.Truncate(time.Hour)) })
	for _, of := range s.Past.All {
		if of.Time.Truncate(time.Hour).Equal(s.Time.Truncate(time.Hour)) {
			hours = append(hours, of)
		}
	}
	for _, of := range hours {
		if q, ok := of.Assets[id]; ok {
			points = append(points, Point{of.Time, decimal(q.Price, pricePlaces)})
		}
	}
	return points
}

// parsePast parses the parameters of /candles and /prices.
func (q *Query) parsePast(r *parser) {
	moment := func(name, text string) int64 {
		t, ok := readMoment(text)
		if !ok {
			r.blame(name)
		}
		return t.Unix()
	}
	if q.Endpoint == candles {
		if q.Interval = Fold(r.parameters["interval"]); q.Interval == "" {
			q.Interval = "1h"
		}
		if intervals[q.Interval].step == 0 {
			r.blame("interval")
		}
		if r.sent("from") {
			q.From, q.HasFrom = moment("from", r.parameters["from"]), true
		}
		if r.sent("to") {
			q.To, q.HasTo = moment("to", r.parameters["to"]), true
		}
		if q.HasFrom && q.HasTo && q.From > q.To {
			r.blame("from")
		}
		return
	}
	for i, e := range r.elements("time") {
		if e != "" {
			q.Times = append(q.Times, moment("time: element "+strconv.Itoa(i+1)+" ", e))
		}
	}
	if len(q.Times) == 0 {
		r.blame("time")
	}
}

var (
	unixSeconds = regexp.MustCompile(`^-?[0-9]+$`)
	momentForm  = regexp.MustCompile(
		`^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]+)?([Zz]|[-+ ][0-9]{2}:[0-9]{2})?$`)
)

// readMoment parses a time in the forms that parameters accept: Unix seconds, or RFC 3339. In the
// latter, seconds that are zero and the zone UTC are optional, and a blank may replace the + of a
// zone. readMoment truncates fractions of a second.
func readMoment(text string) (time.Time, bool) {
	if unixSeconds.MatchString(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		t := time.Unix(n, 0).UTC()
		return t, err == nil && t.Year() >= 1 && t.Year() <= 9999 && n > -1<<40 && n < 1<<40
	}
	part := momentForm.FindStringSubmatch(text)
	if part == nil || part[3] == "" && part[4] != "" || len(text) > 45 {
		return time.Time{}, false
	}
	zone := strings.Replace(strings.ToUpper(cmp.Or(part[5], "Z")), " ", "+", 1)
	t, err := time.Parse(time.RFC3339, part[1]+"T"+part[2]+cmp.Or(part[3], ":00")+part[4]+zone)
	return t.UTC().Truncate(time.Second), err == nil
}

// check verifies the rules that every item follows in any snapshot: candles ascend, and no price of
// a candle is above its highest price or below its lowest.
func (i *candleItem) check() error {
	step := intervals[i.Interval].step
	last := ""
	for _, c := range i.Candles {
		if len(c) != 7 || slices.Contains(c[:5], nil) || !IsTime(*c[0]) || *c[0] <= last {
			return fmt.Errorf("a candle behind %q has other elements", last)
		}
		last = *c[0]
		if t, _ := time.Parse(TimeFormat, last); step == 0 || !t.Equal(t.Truncate(step)) {
			return fmt.Errorf("a candle of %s at %q", i.Interval, last)
		}
		err := errors.Join(figures(pricePlaces, false, *c[1], *c[2], *c[3], *c[4]), amounts(c[5], c[6]))
		if err != nil {
			return err
		}
		open, high, low, end := exactly(*c[1]), exactly(*c[2]), exactly(*c[3]), exactly(*c[4])
		for _, price := range []*big.Rat{open, low, end} {
			if price.Cmp(high) > 0 || price.Cmp(low) < 0 {
				return fmt.Errorf("the candle at %q has a price outside its range", last)
			}
		}
	}
	return nil
}

// exactly returns the value of a decimal that has already been checked.
func exactly(text string) *big.Rat {
	x, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("model: not a decimal: " + text)
	}
	return x
}

// check verifies the rules that every item follows: each price comes from a snapshot that is not
// later than the requested time.
func (i *priceItem) check() error {
	for _, p := range i.Prices {
		if !IsTime(p.Time) || (p.SnapshotTime == nil) != (p.Price == nil) ||
			p.Price == nil && (p.MarketCap != nil || p.Volume != nil) {
			return fmt.Errorf("the price at %q has other members", p.Time)
		}
		if p.Price == nil {
			continue
		}
		if !IsSnapshotTime(*p.SnapshotTime) || *p.SnapshotTime > p.Time {
			return fmt.Errorf("the price at %q is of %q", p.Time, *p.SnapshotTime)
		}
		err := errors.Join(figures(pricePlaces, false, *p.Price), amounts(p.MarketCap, p.Volume))
		if err != nil {
			return err
		}
	}
	return nil
}
