// Package past makes the past blocks: the prices, market caps, volumes and candles of earlier
// snapshots, at intervals of ten minutes, hours and days (go doc ./artifacts, "Past"; README.md).
// It extends the blocks of the previous snapshot. It makes an hour's candles from the hour's
// snapshots once the hour is over, and a day's candles from its hours. So it reads only the blocks
// that it extends.
package past

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/render"
)

// shardRows is the number of rows in a shard, by interval. The resulting shards have 8 to 12 KB. An
// answer needs one row of a shard.
var shardRows = [len(artifacts.PastIntervals)]int{16, 4, 3}

// Figures are the figures of one asset in a snapshot. Market caps and volumes are in units of 1e-8
// dollars, and prices in units of 1e-18 dollars.
type Figures struct {
	ID    uint64
	Price market.U128
	// A MarketCap of zero is unknown. Volume is known only if HasVolume is set.
	MarketCap, Volume market.U128
	HasVolume         bool
	// File and Line say where an import read the figures. Outside imports they are zero.
	File, Line uint32
}

// appendMoment appends the figures in the form that moments use for an element.
func (f *Figures) appendMoment(dst []byte) []byte {
	dst = append(market.AppendDecimal(append(dst, '"'), f.Price, market.PriceDecimals), `",`...)
	if f.MarketCap.IsZero() {
		dst = append(dst, "null,"...)
	} else {
		dst = append(market.AppendDecimal(append(dst, '"'), f.MarketCap, market.MoneyDecimals), `",`...)
	}
	if !f.HasVolume {
		return append(dst, "null"...)
	}
	return append(market.AppendDecimal(append(dst, '"'), f.Volume, market.MoneyDecimals), '"')
}

// Snapshot is a snapshot to add to the past.
type Snapshot struct {
	// Time is a whole multiple of ten minutes, in UTC.
	Time time.Time
	// Figures are in ascending order of id.
	Figures []Figures
}

// Builder makes the past blocks for the snapshot at time T.
type Builder struct {
	Reader artifacts.ObjectReader
	// Before are the blocks to extend, in order. They come from the previous snapshot or from an
	// import that followed it.
	Before []artifacts.View
	// Put renders a table, puts its objects and returns the table's only view.
	Put func(*render.Table) (artifacts.View, error)
	// Lost, if set, is called with the reason for each block that cannot be read. An empty block
	// then replaces it. If Lost is nil, an unreadable block is an error.
	Lost func(collection string, err error)

	// Time is T. Open sets it.
	Time time.Time

	chains [len(artifacts.PastIntervals)]chain
	last   time.Time // the newest snapshot that was added or is in a block
	fill   fill
}

// fill says what adding a column does if the block already has a column for its interval. A nil
// fill leaves that column unchanged. Otherwise add inserts missing elements, and replaces the
// elements of assets for which fill returns true.
type fill func(id uint64) (replace bool)

// Views makes and puts the blocks at T, and returns their views. newSnapshot is the snapshot at T.
// Views also adds snapshots that root keeps and that are newer than the blocks, with their prices
// only. So a store that had no blocks gets them.
func (b *Builder) Views(ctx context.Context, newSnapshot Snapshot, root *ledger.Root) ([]artifacts.View, error) {
	if b.Time.IsZero() {
		b.Open(newSnapshot.Time)
	}
	kept := root.Chain(&artifacts.HistoryWindow{Step: artifacts.Step})
	newer := kept[upTo(kept, func(t time.Time) bool { return t.After(b.last) }):]
	if err := b.remember(ctx, root, newer, newSnapshot); err != nil {
		return nil, err
	}
	// Even if the snapshot itself has no prices, it may end an hour or a day.
	if err := b.complete(ctx, newSnapshot.Time); err != nil {
		return nil, err
	}
	return b.views()
}

// remember adds the snapshots at these times: newSnapshot with all its figures, and the remaining
// ones with the prices that the ledger has. It omits prices that the ledger has lost.
func (b *Builder) remember(ctx context.Context, root *ledger.Root, times []time.Time, newSnapshot Snapshot) error {
	for _, t := range times {
		s := newSnapshot
		if !t.Equal(newSnapshot.Time) {
			points, err := root.Points(ctx, b.Reader, t)
			if artifacts.IsDamage(err) {
				continue
			}
			if err != nil {
				return err
			}
			s = Snapshot{Time: t, Figures: make([]Figures, len(points))}
			for i, p := range points {
				s.Figures[i] = Figures{ID: p.ID, Price: p.Price}
			}
		}
		if err := b.Add(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// upTo returns how many of the given times precede the first one for which fits returns true.
func upTo(times []time.Time, fits func(time.Time) bool) int {
	if i := slices.IndexFunc(times, fits); i >= 0 {
		return i
	}
	return len(times)
}

// Open reads the list of existing blocks. T is the time of the snapshot for which [Builder.Views]
// makes blocks. Only callers that add earlier snapshots need to call Open.
func (b *Builder) Open(T time.Time) {
	b.Time = T
	for i := range b.chains {
		c := &b.chains[i]
		*c = chain{builder: b, about: &artifacts.PastIntervals[i], perShard: shardRows[i]}
		for _, v := range b.Before {
			if c.about.Has(v.Collection) {
				c.views = append(c.views, v)
			}
		}
		if n := len(c.views); n > 0 {
			if last := slices.MaxFunc(c.views[n-1].Times, time.Time.Compare); last.After(b.last) {
				b.last = last
			}
		}
	}
}

// Add adds a snapshot. It must be newer than the snapshots in the existing blocks and all snapshots
// added so far.
func (b *Builder) Add(ctx context.Context, s Snapshot) error {
	if len(s.Figures) == 0 {
		return nil
	}
	if err := b.complete(ctx, s.Time); err != nil {
		return err
	}
	return b.add(ctx, s)
}

// add is the part of Add that follows the completion of earlier hours and days.
func (b *Builder) add(ctx context.Context, s Snapshot) error {
	b.last = s.Time
	of := column{time: s.Time, cells: make([]cell, len(s.Figures))}
	var text []byte
	for i := range s.Figures {
		from := len(text)
		text = s.Figures[i].appendMoment(text)
		of.cells[i] = cell{id: s.Figures[i].ID, moment: text[from:len(text):len(text)]}
	}
	return b.chains[artifacts.TenMinutes].add(ctx, of)
}

// complete makes the candles for the last snapshot's hour and day if these are over at t.
func (b *Builder) complete(ctx context.Context, t time.Time) error {
	if b.last.IsZero() {
		return nil
	}
	for i := artifacts.Hours; i <= artifacts.Days; i++ {
		c, finer := &b.chains[i], &b.chains[i-1]
		begin := b.last.Truncate(c.about.Step)
		if !t.Truncate(c.about.Step).After(begin) {
			break
		}
		from, err := finer.block(ctx, begin)
		if err != nil {
			return err
		}
		to, err := c.block(ctx, begin)
		if err != nil {
			return err
		}
		if of := from.interval(begin, begin.Add(c.about.Step), to); len(of.cells) > 0 {
			to.add(of, b.fill)
		}
	}
	return nil
}

// views puts the changed blocks and returns the views of all blocks that are kept.
func (b *Builder) views() (all []artifacts.View, err error) {
	for i := range b.chains {
		c := &b.chains[i]
		if err := c.close(); err != nil {
			return nil, err
		}
		for _, v := range c.views {
			if c.kept(v.Times) {
				all = append(all, v)
			}
		}
	}
	return all, nil
}

// chain holds the blocks of one interval.
type chain struct {
	builder  *Builder
	about    *artifacts.PastInterval
	perShard int
	views    []artifacts.View // blocks in the store, oldest first
	open     *block           // the block that is being extended; nil if there is none
}

// block returns the block to which t belongs, and makes it the block that is being extended. It
// closes the previous block first.
func (c *chain) block(ctx context.Context, t time.Time) (*block, error) {
	name := c.about.Block(c.about.BlockStart(t))
	if c.open != nil && c.open.collection == name {
		return c.open, nil
	}
	if err := c.close(); err != nil {
		return nil, err
	}
	c.open = &block{collection: name, about: c.about}
	if i := c.at(name); i < len(c.views) && c.views[i].Collection == name {
		err := c.open.read(ctx, c.builder.Reader, &c.views[i])
		if artifacts.IsDamage(err) && c.builder.Lost != nil {
			c.builder.Lost(name, err)
			c.open, err = &block{collection: name, about: c.about}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c.open, nil
}

// at returns the index of a block among the views, or the index where it would be inserted. Block
// names ascend with time.
func (c *chain) at(collection string) int {
	i, _ := slices.BinarySearchFunc(c.views, collection, func(v artifacts.View, name string) int {
		return bytes.Compare([]byte(v.Collection), []byte(name))
	})
	return i
}

// add adds a column to its block.
func (c *chain) add(ctx context.Context, of column) error {
	to, err := c.block(ctx, of.time)
	if err == nil {
		to.add(of, c.builder.fill)
	}
	return err
}

// close puts the block that is being extended if it has changed and one of its snapshots is kept.
func (c *chain) close() error {
	if open := c.open; open != nil && open.changed && c.kept(open.times) {
		view, err := c.builder.Put(open.table(c.perShard))
		if err != nil {
			return err
		}
		view.Times = open.times
		i := c.at(open.collection)
		if i < len(c.views) && c.views[i].Collection == open.collection {
			c.views[i] = view
		} else {
			c.views = slices.Insert(c.views, i, view)
		}
	}
	c.open = nil
	return nil
}

// kept reports whether one of the snapshots at these times is kept at T.
func (c *chain) kept(times []time.Time) bool {
	return slices.ContainsFunc(times, func(t time.Time) bool { return c.about.Keeps(c.builder.Time, t) })
}

// column is the content of a block at one time.
type column struct {
	time  time.Time
	cells []cell // in ascending order of id
}

// cell has an asset's elements. A nil element is null.
type cell struct {
	id             uint64
	moment, candle []byte
}

// block is a decoded block.
type block struct {
	collection string
	about      *artifacts.PastInterval
	times      []time.Time
	rows       []row // in ascending order of id
	changed    bool
}

// row has an asset's elements for each of the block's times. Ten-minute blocks have no candles.
type row struct {
	id               uint64
	moments, candles [][]byte
}

var errRow = errors.New("a row of the past has another form, or another number of elements than its block has times")

func (b *block) candles() bool { return b.about.Step > artifacts.Step }

// read reads a block from the store.
func (b *block) read(ctx context.Context, from artifacts.ObjectReader, v *artifacts.View) error {
	b.times = slices.Clone(v.Times)
	b.rows = make([]row, 0, v.Rows)
	return walk.Rows(ctx, from, v.Objects, func(id uint64, text []byte) error {
		moments, candles, ok := artifacts.PastRow(text)
		r := row{id: id}
		if ok {
			r.moments, ok = elements(moments, len(b.times))
		}
		if ok && b.candles() {
			r.candles, ok = elements(candles, len(b.times))
		}
		if !ok {
			return fmt.Errorf("%w: %w", artifacts.ErrCorrupt, errRow)
		}
		b.rows = append(b.rows, r)
		return nil
	})
}

// elements returns the n elements of text. ok is false if text has a different number of elements.
func elements(text []byte, n int) (all [][]byte, ok bool) {
	all = make([][]byte, n, n+1)
	for i := range all {
		if all[i], text, ok = artifacts.NextPast(text); !ok {
			return nil, false
		}
	}
	return all, len(text) == 0
}

// find returns the index of the column for the interval that contains t, or the index where it
// would be inserted.
func (b *block) find(t time.Time) (at int, ok bool) {
	return slices.BinarySearchFunc(b.times, t, func(have, t time.Time) int {
		return have.Truncate(b.about.Step).Compare(t.Truncate(b.about.Step))
	})
}

// add inserts a column in time order. If the block already has a column for its interval, fill
// decides what add changes in that column.
func (b *block) add(of column, fill fill) {
	at, had := b.find(of.time)
	if had && fill == nil {
		return
	}
	if !had {
		b.changed = true
		b.times = slices.Insert(b.times, at, of.time)
		for i := range b.rows {
			r := &b.rows[i]
			r.moments = slices.Insert(r.moments, at, nil)
			if b.candles() {
				r.candles = slices.Insert(r.candles, at, nil)
			}
		}
	}
	old := b.rows
	b.rows = make([]row, 0, max(len(old), len(of.cells)))
	for _, c := range of.cells {
		for len(old) > 0 && old[0].id < c.id {
			b.rows, old = append(b.rows, old[0]), old[1:]
		}
		r := row{id: c.id}
		if len(old) > 0 && old[0].id == c.id {
			r, old = old[0], old[1:]
		} else if r.moments = make([][]byte, len(b.times)); b.candles() {
			r.candles = make([][]byte, len(b.times))
		}
		b.set(&r, at, of.time, c, fill)
		b.rows = append(b.rows, r)
	}
	b.rows = append(b.rows, old...)
}

// set sets the elements of a row from a cell. It uses the cell's moment only if t, the time of the
// cell, is also the time of the column in the block.
func (b *block) set(r *row, at int, t time.Time, c cell, fill fill) {
	replace := fill != nil && fill(r.id)
	put := func(to *[]byte, element []byte) {
		if element != nil && (*to == nil || replace && !bytes.Equal(*to, element)) {
			*to, b.changed = element, true
		}
	}
	if b.times[at].Equal(t) {
		put(&r.moments[at], c.moment)
	}
	if b.candles() {
		put(&r.candles[at], c.candle)
	}
}

// interval returns a column for coarser, a block with longer intervals. The column covers the time
// from begin to end, which is one of these intervals and is over. Its candles are made from all of
// b's snapshots in that time. If coarser already has a column for the interval, the moments come
// from the snapshot of that column, and otherwise from the first snapshot.
func (b *block) interval(begin, end time.Time, coarser *block) (of column) {
	from := upTo(b.times, func(t time.Time) bool { return !t.Before(begin) })
	past := upTo(b.times, func(t time.Time) bool { return !t.Before(end) })
	if from == past {
		return of
	}
	of.time = b.times[from]
	moment := from
	if at, had := coarser.find(begin); had {
		of.time = coarser.times[at]
		moment = slices.IndexFunc(b.times, of.time.Equal)
	}
	of.cells = make([]cell, 0, len(b.rows))
	for i := range b.rows {
		r := &b.rows[i]
		c := cell{id: r.id}
		if moment >= 0 {
			c.moment = r.moments[moment]
		}
		var merged candle
		for at := from; at < past; at++ {
			if b.candles() {
				merged.add(r.candles[at])
			} else {
				merged.add(r.moments[at])
			}
		}
		if c.candle = merged.text(); c.candle != nil {
			of.cells = append(of.cells, c)
		}
	}
	return of
}

// candle is a candle under construction.
type candle struct {
	open, high, low, close []byte // quoted, as JSON
	figures                []byte // market cap and volume, as in an element
}

// add adds the next element, which is a moment or the candle of a shorter interval. It ignores nil.
func (c *candle) add(element []byte) {
	if element == nil {
		return
	}
	open, rest, _ := bytes.Cut(element, []byte(","))
	high, low, last := open, open, open
	if bytes.Count(rest, []byte(",")) > 1 { // a candle has four prices, a moment has one
		high, rest, _ = bytes.Cut(rest, []byte(","))
		low, rest, _ = bytes.Cut(rest, []byte(","))
		last, rest, _ = bytes.Cut(rest, []byte(","))
	}
	if c.open == nil {
		c.open, c.high, c.low = open, high, low
	}
	if less(c.high, high) {
		c.high = high
	}
	if less(low, c.low) {
		c.low = low
	}
	c.close, c.figures = last, rest
}

// text returns the candle as an element, or nil if it has no price.
func (c *candle) text() []byte {
	if c.open == nil {
		return nil
	}
	return bytes.Join([][]byte{c.open, c.high, c.low, c.close, c.figures}, []byte(","))
}

// less reports whether the decimal x is less than y. Both are quoted, not negative, and without
// superfluous zeros, as the builder writes them. If they have the same number of digits before the
// decimal point, comparing their bytes gives their order.
func less(x, y []byte) bool {
	x, y = bytes.Trim(x, `"`), bytes.Trim(y, `"`)
	point := func(s []byte) int {
		if i := bytes.IndexByte(s, '.'); i >= 0 {
			return i
		}
		return len(s)
	}
	if i, j := point(x), point(y); i != j {
		return i < j
	}
	return bytes.Compare(x, y) < 0
}

// table renders the block's rows.
func (b *block) table(perShard int) *render.Table {
	t := &render.Table{Collection: b.collection, Orders: []render.Order{{Sort: "id"}}, RowsPerShard: perShard}
	var text []byte
	for i := range b.rows {
		r := &b.rows[i]
		text = artifacts.AppendPastRow(text[:0], r.id, r.moments, r.candles)
		t.Add(r.id, text)
	}
	return t
}
