// Package history makes the chain of price points for each window. The chains are a pure function
// of the ledger. Each chain is cut into blocks and has a listing of the assets that have a point in
// it (../README.md, "History").
package history

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/render"
)

// The number of intervals that a block spans. The longest window has longer blocks than the others.
// builder/README.md, "Costs", explains these numbers. While a block of the first three windows is
// in use, none of its points may be thinned out. So it may span at most 24 hours in the window 24h,
// and at most 60 days in the windows 7d and 30d.
const (
	blockPoints        = 18
	longestBlockPoints = 36
)

// shardPrices is the number of prices in a block's shard, which then has about 3.5 KB.
// builder/README.md, "Costs", explains why it is so small.
const shardPrices = 288

// trimmed is the length of the shortest window whose oldest block loses each point as soon as the
// point leaves the window. Since such windows have long steps, that costs little. Blocks in shorter
// windows keep these points.
const trimmed = 90 * 24 * time.Hour

// Builder makes the history views for the snapshot at time T.
type Builder struct {
	Reader artifacts.ObjectReader
	Root   *ledger.Root // the ledger after T
	Time   time.Time    // T
	// Put renders a table, puts its objects and returns the table's only view.
	Put func(*render.Table) (artifacts.View, error)
	// Head is the previous snapshot, whose history views are reused. It may be nil. Has reports
	// whether the store holds an object.
	Head *artifacts.Manifest
	Has  func(artifacts.Ref) bool
	// As, if set, limits the views to the points in this manifest. The ledger may have more points
	// than the manifest, after older prices were imported or a price list was repaired.
	As *artifacts.Manifest

	own []ledger.Point // the points at T
	// same is set if the head's snapshot has prices for the same assets as the one at T.
	same bool
}

// Views makes and puts the views. They are a pure function of the ledger after T. Views reuses the
// head's unchanged blocks, the earlier points of the last block, and the listing. If the head has
// no views, or its views do not match the ledger because older prices were imported or an object
// was lost, Views rebuilds the window from the ledger's prices.
func (c *Builder) Views(ctx context.Context) (all []artifacts.View, err error) {
	if c.own, err = c.Root.Points(ctx, c.Reader, c.Time); err != nil {
		return nil, err
	}
	if c.Head != nil {
		before, err := c.Root.Points(ctx, c.Reader, c.Head.Time)
		if err != nil && !artifacts.IsDamage(err) {
			return nil, err
		}
		c.same = err == nil &&
			slices.EqualFunc(before, c.own, func(a, b ledger.Point) bool { return a.ID == b.ID })
	}
	for i := range artifacts.HistoryWindows {
		w := &artifacts.HistoryWindows[i]
		views, err := c.window(ctx, w, c.follows(w))
		if artifacts.IsDamage(err) {
			views, err = c.window(ctx, w, false)
		}
		if err != nil {
			return nil, fmt.Errorf("history %s: %w", w.Name, err)
		}
		all = append(all, views...)
	}
	return all, nil
}

// chain returns the times of a window's points at T, block by block. It omits blocks whose points
// are all older than the window.
func (c *Builder) chain(w *artifacts.HistoryWindow) (blocks [][]time.Time) {
	if c.As != nil {
		_, views := c.As.History(w)
		for _, v := range views {
			blocks = append(blocks, v.Times)
		}
		return blocks
	}
	first := w.First(c.Time)
	times := c.Root.Chain(w)
	for from := 0; from < len(times); {
		start, to := blockStart(w, times[from]), from+1
		for to < len(times) && blockStart(w, times[to]).Equal(start) {
			to++
		}
		block := times[from:to]
		if from = to; block[len(block)-1].Before(first) {
			continue
		}
		if w.Length >= trimmed {
			block = slices.DeleteFunc(block, func(at time.Time) bool { return at.Before(first) })
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// span returns the number of intervals that a block of a window spans.
func span(w *artifacts.HistoryWindow) int {
	if w.Length > trimmed {
		return longestBlockPoints
	}
	return blockPoints
}

// blockStart returns the start of the block to which a point belongs.
func blockStart(w *artifacts.HistoryWindow, t time.Time) time.Time {
	length := int64(w.Step/time.Second) * int64(span(w))
	back := t.Unix() % length
	if back < 0 {
		back += length
	}
	return time.Unix(t.Unix()-back, 0)
}

// follows reports whether the head's chain for a window, with T added, equals the ledger's chain,
// and whether the store holds all its objects.
func (c *Builder) follows(w *artifacts.HistoryWindow) bool {
	if c.Head == nil {
		return false
	}
	listed, blocks := c.Head.History(w)
	if listed == nil {
		return false
	}
	var have []time.Time
	for _, v := range append(blocks, listed) {
		have = append(have, v.Times...)
		if slices.ContainsFunc(v.Objects, func(o artifacts.ViewObject) bool { return !c.Has(o.Ref) }) {
			return false
		}
	}
	want := slices.Concat(c.chain(w)...)
	if n := len(want); n > 0 && want[n-1].Equal(c.Time) {
		want = want[:n-1]
	}
	// Any further points of the head must have left the window. They may also be missing from the
	// ledger because an import added older snapshots that contributed no points themselves.
	older := len(have) - len(want)
	return older >= 0 && slices.EqualFunc(have[older:], want, time.Time.Equal) &&
		(older == 0 || have[older-1].Before(w.First(c.Time)))
}

// plan says how to make the views of a window.
type plan struct {
	listed *artifacts.View // the head's listing, if the head's views are reused
	last   int64           // the chain's newest point when that listing was made, in Unix seconds
	// stays is set if the listing is unchanged: T adds no point and none leaves the window, or T
	// adds a point for each listed asset, as the head did.
	stays  bool
	blocks []plannedBlock
}

type plannedBlock struct {
	name  string
	times []time.Time
	old   *artifacts.View // the head's view of this block, if it is reused; else nil
	stays bool            // old already has exactly these times
}

// plan returns the plan for a window. If reuse is set, it reuses the head's views.
func (c *Builder) plan(w *artifacts.HistoryWindow, reuse bool) (p plan) {
	if reuse {
		var old []*artifacts.View
		if p.listed, old = c.Head.History(w); len(old) > 0 {
			p.last = lastPoint(old[len(old)-1])
		}
		p.stays = w.First(c.Time).Equal(w.First(c.Head.Time))
	}
	for _, times := range c.chain(w) {
		b := plannedBlock{name: w.Block(blockStart(w, times[0])), times: times}
		if reuse {
			b.old = c.Head.View(b.name, "id")
			b.stays = b.old != nil && slices.EqualFunc(b.old.Times, times, time.Time.Equal)
			if times[len(times)-1].Equal(c.Time) {
				p.stays = c.same && p.listed.Rows == len(c.own) && p.last == c.Head.Time.Unix()
			}
		}
		p.blocks = append(p.blocks, b)
	}
	return p
}

// window makes a window's listing and blocks.
func (c *Builder) window(ctx context.Context, w *artifacts.HistoryWindow, reuse bool) ([]artifacts.View, error) {
	p := c.plan(w, reuse)
	var list listing
	if reuse && !p.stays {
		var err error
		if list, err = c.read(ctx, p.listed, p.last); err != nil {
			return nil, err
		}
	}
	views := []artifacts.View{{}} // the listing goes here
	for _, b := range p.blocks {
		if b.stays {
			views = append(views, *b.old)
			continue
		}
		block, err := c.block(ctx, b.old, b.times)
		if err != nil {
			return nil, err
		}
		if !p.stays {
			for i, points := range block.columns {
				list = list.add(points, block.times[block.kept+i].Unix())
			}
		}
		if len(block.times) == 0 {
			continue
		}
		view, err := c.Put(block.table(b.name, shardPrices/span(w)))
		if err != nil {
			return nil, err
		}
		view.Times = block.times
		views = append(views, view)
	}
	if p.stays {
		views[0] = *p.listed
	} else {
		var err error
		newest := lastPoint(&views[len(views)-1])
		if views[0], err = c.Put(list.from(w.First(c.Time).Unix()).table(w.Collection(), newest)); err != nil {
			return nil, err
		}
	}
	if views[0].Rows == 0 && len(c.own) == 0 {
		return views[1:], nil
	}
	return views, nil
}

// lastPoint returns the time of a block's last point in Unix seconds, or 0 if there is none.
func lastPoint(block *artifacts.View) int64 {
	if block == nil || len(block.Times) == 0 {
		return 0
	}
	return block.Times[len(block.Times)-1].Unix()
}

// block is a history block to be written. It has the points of the head's block, followed by
// columns of new points.
type block struct {
	times   []time.Time
	old     []oldRow
	drop    int // number of points at the front of old that are omitted
	kept    int // number of points of old that remain
	columns [][]ledger.Point
}

type oldRow struct {
	id     uint64
	prices []byte // the array's elements, in JSON
}

// block gathers the points for the given times. It takes them from oldView, if that is not nil, and
// the rest from the ledger. It omits points that the ledger has lost. After builder repair has
// restored them, the next snapshot includes them.
func (c *Builder) block(ctx context.Context, oldView *artifacts.View, times []time.Time) (*block, error) {
	out := &block{}
	if oldView != nil {
		out.kept = len(times)
		if times[len(times)-1].Equal(c.Time) {
			out.kept--
		}
		if out.drop = len(oldView.Times) - out.kept; out.drop < 0 ||
			!slices.EqualFunc(oldView.Times[out.drop:], times[:out.kept],
				time.Time.Equal) {
			return nil, fmt.Errorf("%w: block %s has other times than the ledger", artifacts.ErrCorrupt,
				oldView.Collection)
		}
		out.old = make([]oldRow, 0, oldView.Rows)
		err := walk.Rows(ctx, c.Reader, oldView.Objects, func(id uint64, row []byte) error {
			at := bytes.IndexByte(row, '[')
			if at < 0 || !bytes.HasSuffix(row, []byte("]}")) {
				return fmt.Errorf("%w: a row of %s", artifacts.ErrCorrupt, oldView.Collection)
			}
			out.old = append(out.old, oldRow{id, row[at+1 : len(row)-2]})
			return nil
		})
		if err != nil {
			return nil, err
		}
		out.times = slices.Clone(times[:out.kept])
	}
	for _, t := range times[out.kept:] {
		points := c.own
		if !t.Equal(c.Time) {
			var err error
			if points, err = c.Root.Points(ctx, c.Reader, t); err != nil {
				if artifacts.IsDamage(err) {
					continue
				}
				return nil, err
			}
		}
		out.times, out.columns = append(out.times, t), append(out.columns, points)
	}
	return out, nil
}

var null = []byte("null")

// table renders the block's rows.
func (b *block) table(collection string, perShard int) *render.Table {
	t := &render.Table{Collection: collection, Orders: []render.Order{{Sort: "id"}}, RowsPerShard: perShard}
	old, columns := b.old, slices.Clone(b.columns)
	var text []byte
	for {
		id := uint64(0)
		if len(old) > 0 {
			id = old[0].id
		}
		for _, points := range columns {
			if len(points) > 0 && (id == 0 || points[0].ID < id) {
				id = points[0].ID
			}
		}
		if id == 0 {
			return t
		}
		text = append(strconv.AppendUint(append(text[:0], `{"id":`...), id, 10), `,"prices":[`...)
		some := false
		if len(old) > 0 && old[0].id == id {
			kept := old[0].prices
			for range b.drop {
				_, kept, _ = bytes.Cut(kept, []byte(","))
			}
			some = bytes.IndexByte(kept, '"') >= 0
			text, old = append(append(text, kept...), ','), old[1:]
		} else {
			for range b.kept {
				text = append(append(text, null...), ',')
			}
		}
		for i, points := range columns {
			if len(points) > 0 && points[0].ID == id {
				text = append(market.AppendDecimal(append(text, '"'), points[0].Price, market.PriceDecimals), '"', ',')
				columns[i], some = points[1:], true
			} else {
				text = append(append(text, null...), ',')
			}
		}
		if some {
			text[len(text)-1] = ']' // replaces the last comma
			t.Add(id, append(text, '}'))
		}
	}
}

// listing holds the assets with a point in a window's chain, in ascending order of id, and the time
// of each asset's newest point in Unix seconds.
type listing []listedAsset

type listedAsset struct {
	id   uint64
	last int64
}

// add returns the listing with the assets in points added. pointTime is the time of these points.
func (l listing) add(points []ledger.Point, pointTime int64) listing {
	out := make(listing, 0, max(len(l), len(points)))
	for _, p := range points {
		for len(l) > 0 && l[0].id < p.ID {
			out, l = append(out, l[0]), l[1:]
		}
		if len(l) > 0 && l[0].id == p.ID {
			l = l[1:]
		}
		out = append(out, listedAsset{p.ID, pointTime})
	}
	return append(out, l...)
}

// from returns the assets whose newest point is not older than cutoff, in Unix seconds.
func (l listing) from(cutoff int64) listing {
	return slices.DeleteFunc(l, func(a listedAsset) bool { return a.last < cutoff })
}

const lastField = `,"last":"`

// table renders the listing's rows. A row omits the time if it is the time of the chain's newest
// point, as is the case for most assets.
func (l listing) table(collection string, newest int64) *render.Table {
	t := &render.Table{Collection: collection, Orders: []render.Order{{Sort: "id"}}}
	var row []byte
	for _, a := range l {
		row = strconv.AppendUint(append(row[:0], `{"id":`...), a.id, 10)
		if a.last != newest {
			row = append(time.Unix(a.last, 0).UTC().AppendFormat(append(row, lastField...), time.RFC3339), '"')
		}
		t.Add(a.id, append(row, '}'))
	}
	return t
}

// read reads a listing. newest is the time of the chain's newest point.
func (c *Builder) read(ctx context.Context, v *artifacts.View, newest int64) (list listing, err error) {
	list = make(listing, 0, v.Rows)
	err = walk.Rows(ctx, c.Reader, v.Objects, func(id uint64, row []byte) error {
		a := listedAsset{id, newest}
		if _, last, ok := bytes.Cut(row, []byte(lastField)); ok {
			t, err := time.Parse(time.RFC3339, string(bytes.TrimSuffix(last, []byte(`"}`))))
			if err != nil {
				return fmt.Errorf("%w: a row of %s: %w", artifacts.ErrCorrupt, v.Collection, err)
			}
			a.last = t.Unix()
		}
		list = append(list, a)
		return nil
	})
	return list, err
}
