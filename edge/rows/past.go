package rows

import (
	"bytes"
	"fmt"
	"sort"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
)

// errPast means that a row of the past is malformed.
var errPast = fmt.Errorf("%w: %w: a row of the past is malformed, or does not have one element for each time of its block",
	shards.ErrUnavailable, artifacts.ErrCorrupt)

// The parts of an item between the asset's fields and the item's elements.
var (
	candleParts = func() (parts [len(artifacts.PastIntervals)]string) {
		for i, p := range artifacts.PastIntervals {
			parts[i] = `,"interval":"` + p.Name + `","candles":`
		}
		return parts
	}()
	pricesPart = `,"prices":`
	maxPart    = `,"window":"max","interval":"` + artifacts.PastIntervals[artifacts.Days].Name + `","points":`
)

const (
	// usualCandle is longer than most candles, and usualPrice is longer than most elements in an answer of
	// /prices.
	usualCandle = snapshot.CandleLength + 100
	usualPrice  = 180

	timeFormat = "2006-01-02T15:04:05Z"
)

// pastSearch is the state of a query for candles, for prices at given times, or for the window "max".
type pastSearch struct {
	blocks   []snapshot.PastBlock // of candles, or of days
	from, to time.Time            // the inclusive range in which the candles' intervals begin
	toText   [len(timeFormat)]byte
	at       []pastPrice
	today    [2]snapshot.Moment // for the window "max": the points after the last complete day
	n        int                // the length of today
}

// pastPrice is a requested time and the snapshot that answers for it.
type pastPrice struct {
	seconds int64
	moment  snapshot.Moment
	ok      bool
}

// beginPast prepares the Finder for a query about the past, and reports whether any asset can have an item.
func (f *Finder) beginPast(s *snapshot.Snapshot, q *query.Query) (bool, error) {
	p := &f.past.search
	*p = pastSearch{at: p.at[:0]}
	switch {
	case !s.HasPast():
		return false, nil
	case q.Endpoint == query.Prices:
		for _, seconds := range q.Past.Times {
			t := time.Unix(seconds, 0).UTC()
			m, ok := s.PriceAt(t)
			p.at = append(p.at, pastPrice{seconds, m, ok})
		}
		return true, nil
	case q.Endpoint == query.History:
		p.blocks = s.Past(artifacts.Days)
		if first, own, ok := s.Today(); ok {
			p.today, p.n = [2]snapshot.Moment{first, own}, 2
			if first == own {
				p.n = 1
			}
		}
		return true, nil
	}
	p.blocks = s.Past(q.Past.Interval)
	return true, p.candleRange(s, q)
}

// candleRange sets the range of candles: the requested range, limited to what the snapshot contains.
func (p *pastSearch) candleRange(s *snapshot.Snapshot, q *query.Query) error {
	if len(p.blocks) == 0 {
		return nil
	}
	about := &artifacts.PastIntervals[q.Past.Interval]
	step := about.Step
	last := p.blocks[len(p.blocks)-1].Times
	p.from, p.to = p.blocks[0].Times[0].Truncate(step), last[len(last)-1].Truncate(step)
	if to := time.Unix(q.Past.To, 0); q.Past.HasTo && to.Before(p.to) {
		p.to = to.Truncate(step)
	}
	from := p.to.Add(-step * time.Duration(query.DefaultCandles[q.Past.Interval]-1))
	if q.Past.HasFrom {
		from = time.Unix(q.Past.From, 0)
		if begin := from.Truncate(step); begin.Before(from) {
			from = begin.Add(step)
		}
	}
	if from.After(p.from) {
		p.from = from
	}
	// A block may contain hours that are no longer kept.
	if kept := s.Time.Add(-about.Age); about.Age > 0 && kept.After(p.from) {
		p.from = kept.Truncate(step)
		if p.from.Before(kept) {
			p.from = p.from.Add(step)
		}
	}
	if p.to.Sub(p.from)/step >= query.MaxCandles {
		return query.ErrCandles
	}
	p.to.UTC().AppendFormat(p.toText[:0], timeFormat)
	first := sort.Search(len(p.blocks), func(i int) bool {
		times := p.blocks[i].Times
		return !times[len(times)-1].Before(p.from)
	})
	end := sort.Search(len(p.blocks), func(i int) bool { return p.blocks[i].Times[0].Truncate(step).After(p.to) })
	p.blocks = p.blocks[min(first, end):end]
	return nil
}

// appendPastItems appends the items for the assets in the picked rows of v.
func (f *Finder) appendPastItems(v *snapshot.View, q *query.Query, picked []entry) error {
	p := &f.past.search
	if len(p.at)*len(picked) > query.MaxPrices {
		return query.ErrPrices
	}
	elements := len(p.at) * usualPrice
	for i := range p.blocks {
		elements += len(p.blocks[i].Times) * usualCandle
	}
	if err := f.Grow(len(picked) * (elements + usualItem)); err != nil {
		return err
	}
	for _, e := range picked {
		s, err := f.at(v, e.row/v.PerShard())
		if err != nil {
			return err
		}
		id := s.ID(e.row % v.PerShard())
		if err := f.beginItem(s, e.row%v.PerShard()); err != nil {
			return err
		}
		switch q.Endpoint {
		case query.Candles:
			f.Body = append(f.Body, candleParts[q.Past.Interval]...)
			err = f.appendElements(func() error { return f.appendCandles(id) })
		case query.Prices:
			f.Body = append(f.Body, pricesPart...)
			err = f.appendElements(func() error { return f.appendPrices(id) })
		default:
			f.Body = append(f.Body, maxPart...)
			err = f.appendElements(func() error { return f.appendMax(id) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendElements calls appendAll, which appends elements, each after a comma. Then appendElements turns them
// into an array and ends the item.
func (f *Finder) appendElements(appendAll func() error) error {
	first := len(f.Body)
	if err := appendAll(); err != nil {
		return err
	}
	if len(f.Body) == first {
		f.Body = append(f.Body, ',')
	}
	f.Body[first] = '[' // overwrites the comma before the first element
	f.Body = append(f.Body, itemEnd...)
	return nil
}

// pastRow returns an asset's moments and candles in a block. Both are nil if it has none there.
func (f *Finder) pastRow(c *Cursor, b *snapshot.PastBlock, id uint64) (moments, candles []byte, err error) {
	s, row, ok, err := f.find(c, b.View, id)
	if err != nil || !ok {
		return nil, nil, err
	}
	if moments, candles, ok = artifacts.PastRow(s.Row(row)); !ok {
		return nil, nil, errPast
	}
	return moments, candles, nil
}

// appendCandles appends the asset's candles in the range.
func (f *Finder) appendCandles(id uint64) error {
	p := &f.past.search
	for i := range p.blocks {
		b := &p.blocks[i]
		_, rest, err := f.pastRow(&f.past.block, b, id)
		if err != nil {
			return err
		}
		if rest == nil {
			continue
		}
		// Only the first and the last block can reach beyond the range.
		whole := i > 0 && i < len(p.blocks)-1
		for n, t := range b.Times {
			element, more, ok := artifacts.NextPast(rest)
			if !ok {
				return errPast
			}
			rest = more
			if element == nil || !whole && !p.has(t, b, n) {
				continue
			}
			f.Body = append(f.Body, b.Begins[n*snapshot.CandleLength:][:snapshot.CandleLength]...)
			f.Body = append(append(f.Body, element...), ']')
		}
	}
	return nil
}

// has reports whether the candle of the interval that contains t is in the range.
func (p *pastSearch) has(t time.Time, b *snapshot.PastBlock, n int) bool {
	if t.Before(p.from) {
		return false
	}
	// For years up to 9999, formatted times sort like the times themselves.
	begin := b.Begins[n*snapshot.CandleLength:][len(`,["`):][:len(timeFormat)]
	return bytes.Compare(begin, p.toText[:]) <= 0
}

// Moment returns the asset's figures in a snapshot of the past, in the form of artifacts.NextPast, or nil if
// there are none.
func (f *Finder) Moment(c *Cursor, m snapshot.Moment, id uint64) ([]byte, error) {
	rest, _, err := f.pastRow(c, m.Block, id)
	if rest == nil || err != nil {
		return nil, err
	}
	var element []byte
	for range m.At + 1 {
		var ok bool
		if element, rest, ok = artifacts.NextPast(rest); !ok {
			return nil, errPast
		}
	}
	return element, nil
}

// appendPrices appends the asset's prices at the requested times.
func (f *Finder) appendPrices(id uint64) error {
	for i := range f.past.search.at {
		at := &f.past.search.at[i]
		f.Body = time.Unix(at.seconds, 0).UTC().AppendFormat(append(f.Body, `,{"time":"`...), timeFormat)
		var element []byte
		var err error
		if at.ok {
			if element, err = f.Moment(&f.past.block, at.moment, id); err != nil {
				return err
			}
		}
		if element == nil {
			f.Body = append(f.Body, `","snapshot_time":null,"price":null,"market_cap":null,"volume":null}`...)
			continue
		}
		price, rest, _ := bytes.Cut(element, comma)
		marketCap, volume, ok := bytes.Cut(rest, comma)
		if !ok {
			return errPast
		}
		f.Body = at.moment.Time().AppendFormat(append(f.Body, `","snapshot_time":"`...), timeFormat)
		f.Body = append(append(f.Body, `","price":`...), price...)
		f.Body = append(append(f.Body, `,"market_cap":`...), marketCap...)
		f.Body = append(append(append(f.Body, `,"volume":`...), volume...), '}')
	}
	return nil
}

var comma = []byte{','}

// appendMax appends the asset's points in the window "max".
func (f *Finder) appendMax(id uint64) error {
	p := &f.past.search
	for i := range p.blocks {
		b := &p.blocks[i]
		rest, _, err := f.pastRow(&f.past.block, b, id)
		if err != nil {
			return err
		}
		if rest == nil {
			continue
		}
		for n := range b.Times {
			element, more, ok := artifacts.NextPast(rest)
			if !ok {
				return errPast
			}
			if rest = more; element != nil {
				f.appendPoint(b.Points[n*snapshot.PointLength:][:snapshot.PointLength], element)
			}
		}
	}
	for _, m := range p.today[:p.n] {
		element, err := f.Moment(&f.past.block, m, id)
		if err != nil {
			return err
		}
		if element != nil {
			var text [snapshot.PointLength]byte
			f.appendPoint(m.Time().AppendFormat(text[:0], `,["`+timeFormat+`","`), element)
		}
	}
	return nil
}

// appendPoint appends a point. prefix contains the bytes before the price, and element is the moment with the
// price.
func (f *Finder) appendPoint(prefix, element []byte) {
	price, _, _ := bytes.Cut(element, comma)
	f.Body = append(append(f.Body, prefix...), price[1:]...) // prefix ends with the opening quote
	f.Body = append(f.Body, ']')
}

// hasMax reports whether the asset has a point in the window "max".
func (f *Finder) hasMax(id uint64) (bool, error) {
	p := &f.past.search
	for i := p.n - 1; i >= 0; i-- {
		if element, err := f.Moment(&f.past.block, p.today[i], id); element != nil || err != nil {
			return element != nil, err
		}
	}
	for i := len(p.blocks) - 1; i >= 0; i-- {
		rest, _, err := f.pastRow(&f.past.block, &p.blocks[i], id)
		for len(rest) > 0 && err == nil {
			element, more, ok := artifacts.NextPast(rest)
			if !ok {
				return false, errPast
			}
			if rest = more; element != nil {
				return true, nil
			}
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}
