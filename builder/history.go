package builder

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/render"
)

// How many intervals a block spans, and of the longest window: README.md, "Costs", says
// why so many. Blocks of the first three windows must end before their points are
// thinned out: within 24 hours, and 60 days.
const (
	blockPoints        = 18
	longestBlockPoints = 36
)

// blockShardRows are the rows of a shard of a block, of 1y each some 500 bytes long: README.md,
// "Costs", says why so few.
const blockShardRows = 8

// trimmed is the shortest window whose points may be kept no longer than the window
// reaches back. Their oldest block loses a point that has left the window, which
// costs little at their steps; those of shorter windows keep theirs.
const trimmed = 90 * 24 * time.Hour

// history makes and puts the views of history at T: a pure function of the ledger
// after T. What the head's views already say is taken from there: blocks as they
// are, and of the last block and the listing what they had before. Where they are
// not what the ledger says (there are none yet, a past was put before them, one is
// lost), the window is made anew from the ledger's prices.
func (b *build) history(ctx context.Context, t time.Time, head *artifacts.Manifest, objects *publish.Objects, next *ledger.Next) ([]artifacts.View, error) {
	c := &charter{
		reader: b.Store, head: head, root: next.After, t: t, has: objects.Has, points: b.BlockPoints,
		put: func(table *render.Table) (artifacts.View, error) {
			views, pieces := render.Views(table)
			return views[0], b.putPieces(ctx, objects, table.Collection, views, pieces)
		},
	}
	if b.scratch != nil {
		c.reader = b.scratch
	}
	return c.views(ctx)
}

// charter makes the views of history at T.
type charter struct {
	reader artifacts.Reader
	head   *artifacts.Manifest // the snapshot before; nil if there is none
	has    func(artifacts.Ref) bool
	root   *ledger.Root // after T
	t      time.Time
	put    func(*render.Table) (artifacts.View, error)
	points int // intervals a block spans; 0: blockPoints, longestBlockPoints
	// as has the points that the views are to have, and no others that the ledger has
	// by now, from a past that was put before or since a price list is back; nil: all.
	as *artifacts.Manifest

	own  []ledger.Point // of T
	same bool           // the head's own points are of the same assets
}

func (c *charter) views(ctx context.Context) (all []artifacts.View, err error) {
	if c.own, err = c.root.Points(ctx, c.reader, c.t); err != nil {
		return nil, err
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

// chain returns the times of a window's points at T, block by block. The last block
// whose points are all older than the window is the first that is left out.
func (c *charter) chain(w *artifacts.HistoryWindow) (blocks [][]time.Time) {
	if c.as != nil {
		_, views := c.as.History(w)
		for _, v := range views {
			blocks = append(blocks, v.Times)
		}
		return blocks
	}
	first := w.First(c.t)
	times := c.root.Chain(w)
	for from := 0; from < len(times); {
		start, to := c.blockStart(w, times[from]), from+1
		for to < len(times) && c.blockStart(w, times[to]).Equal(start) {
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

// blockStart is the beginning of the block that a point belongs to.
func (c *charter) blockStart(w *artifacts.HistoryWindow, t time.Time) time.Time {
	points := blockPoints
	switch {
	case c.points > 0:
		points = c.points
	case w.Length > trimmed:
		points = longestBlockPoints
	}
	length := int64(w.Step/time.Second) * int64(points)
	back := t.Unix() % length
	if back < 0 {
		back += length
	}
	return time.Unix(t.Unix()-back, 0)
}

// follows reports whether the head's chain of a window, T added, is the ledger's,
// and all its objects are there.
func (c *charter) follows(w *artifacts.HistoryWindow) bool {
	if c.head == nil {
		return false
	}
	listed, blocks := c.head.History(w)
	if listed == nil {
		return false
	}
	var have []time.Time
	for _, v := range append(blocks, listed) {
		have = append(have, v.Times...)
		if slices.ContainsFunc(v.Objects, func(o artifacts.ViewObject) bool { return !c.has(o.Ref) }) {
			return false
		}
	}
	want := slices.Concat(c.chain(w)...)
	if n := len(want); n > 0 && want[n-1].Equal(c.t) {
		want = want[:n-1]
	}
	// What the head has beside it must have left the window: a past that was put
	// before, and gave no points itself, takes points away.
	older := len(have) - len(want)
	return older >= 0 && slices.EqualFunc(have[older:], want, time.Time.Equal) && (older == 0 || have[older-1].Before(w.First(c.t)))
}

// window makes a window's listing and blocks; from the head's if it follows them.
func (c *charter) window(ctx context.Context, w *artifacts.HistoryWindow, follows bool) ([]artifacts.View, error) {
	var list listing
	var listed *artifacts.View
	var err error
	views := []artifacts.View{{}} // the listing's place
	added := false
	if follows {
		listed, _ = c.head.History(w)
	}
	for _, times := range c.chain(w) {
		name := w.Block(c.blockStart(w, times[0]))
		var old *artifacts.View
		if follows {
			old = c.head.View(name, "id")
		}
		if old != nil && slices.EqualFunc(old.Times, times, time.Time.Equal) {
			views = append(views, *old)
			continue
		}
		block, err := c.block(ctx, old, times)
		if err != nil {
			return nil, err
		}
		// Where no others are listed than those that have a point at T, it says what the
		// listing will: to read that one takes a sixth of the time.
		if follows && !added && len(block.columns) > 0 && !(c.same && listed.Rows == len(c.own)) {
			if list, err = c.listed(ctx, listed); err != nil {
				return nil, err
			}
		}
		for i, points := range block.columns {
			list, added = list.add(points, block.times[block.kept+i].Unix()), true
		}
		if len(block.times) == 0 {
			continue
		}
		view, err := c.put(block.table(name))
		if err != nil {
			return nil, err
		}
		view.Times = block.times
		views = append(views, view)
	}
	first := w.First(c.t)
	if follows && !added {
		if c.same && first.Equal(w.First(c.head.Time)) {
			views[0] = *listed
			return views, nil
		}
		if list, err = c.listed(ctx, listed); err != nil {
			return nil, err
		}
	}
	if list = list.from(first.Unix()).add(c.own, 0); len(list) == 0 {
		return views[1:], nil
	}
	views[0], err = c.put(list.table(w.Collection()))
	return views, err
}

// block is a block of history to be written: of its points the first ones that the
// head's block has, and the columns of the others.
type block struct {
	times   []time.Time
	old     []oldRow
	drop    int // points of old's that are left out
	kept    int // that are not
	columns [][]ledger.Point
}

type oldRow struct {
	id     uint64
	prices []byte // the elements of the array
}

// block gathers the points of times: what old has of them, which may be nil, and
// the others from the ledger. What the ledger has lost is left out; builder repair
// puts it back, and the next snapshot asks again.
func (c *charter) block(ctx context.Context, old *artifacts.View, times []time.Time) (*block, error) {
	out := &block{}
	if old != nil {
		out.kept = len(times)
		if times[len(times)-1].Equal(c.t) {
			out.kept--
		}
		if out.drop = len(old.Times) - out.kept; out.drop < 0 || !slices.EqualFunc(old.Times[out.drop:], times[:out.kept], time.Time.Equal) {
			return nil, fmt.Errorf("%w: block %s is cut otherwise", artifacts.ErrCorrupt, old.Collection)
		}
		out.old = make([]oldRow, 0, old.Rows)
		err := eachRow(ctx, c.reader, old, func(id uint64, row []byte) error {
			at := bytes.IndexByte(row, '[')
			if at < 0 || !bytes.HasSuffix(row, []byte("]}")) {
				return fmt.Errorf("%w: a row of %s", artifacts.ErrCorrupt, old.Collection)
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
		if !t.Equal(c.t) {
			var err error
			if points, err = c.root.Points(ctx, c.reader, t); err != nil {
				if artifacts.IsDamage(err) {
					continue
				}
				return nil, err
			}
		}
		out.times, out.columns = append(out.times, t), append(out.columns, points)
	}
	if old != nil && old.Times[len(old.Times)-1].Equal(c.head.Time) && len(out.columns) == 1 {
		had := slices.DeleteFunc(slices.Clone(out.old), func(r oldRow) bool { return bytes.HasSuffix(r.prices, null) })
		c.same = slices.EqualFunc(had, c.own, func(r oldRow, p ledger.Point) bool { return r.id == p.ID })
	}
	return out, nil
}

var null = []byte("null")

// table writes the block's rows.
func (b *block) table(collection string) *render.Table {
	t := &render.Table{Collection: collection, Orders: []render.Order{{Sort: "id"}}, RowsPerShard: blockShardRows}
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
			text[len(text)-1] = ']' // the last comma
			t.IDs, t.Rows = append(t.IDs, id), append(t.Rows, bytes.Clone(append(text, '}')))
		}
	}
}

// listing are assets with a point in a window, in ascending order of id, with the
// time of the newest in its chain, in seconds since 1970; 0: of T only.
type listing []listedAsset

type listedAsset struct {
	id   uint64
	last int64
}

// add returns the listing with the assets of points, whose newest is at last
// unless that is 0.
func (l listing) add(points []ledger.Point, last int64) listing {
	out := make(listing, 0, max(len(l), len(points)))
	for _, p := range points {
		for len(l) > 0 && l[0].id < p.ID {
			out, l = append(out, l[0]), l[1:]
		}
		a := listedAsset{p.ID, last}
		if len(l) > 0 && l[0].id == p.ID {
			if last == 0 {
				a = l[0]
			}
			l = l[1:]
		}
		out = append(out, a)
	}
	return append(out, l...)
}

// from returns the assets whose newest point is not older than first.
func (l listing) from(first int64) listing {
	return slices.DeleteFunc(l, func(a listedAsset) bool { return a.last == 0 || a.last < first })
}

const lastField = `,"last":"`

func (l listing) table(collection string) *render.Table {
	t := &render.Table{Collection: collection, Orders: []render.Order{{Sort: "id"}}}
	t.IDs, t.Rows = make([]uint64, len(l)), make([][]byte, len(l))
	var row []byte
	for i, a := range l {
		row = strconv.AppendUint(append(row[:0], `{"id":`...), a.id, 10)
		if a.last != 0 {
			row = append(time.Unix(a.last, 0).UTC().AppendFormat(append(row, lastField...), time.RFC3339), '"')
		}
		t.IDs[i], t.Rows[i] = a.id, bytes.Clone(append(row, '}'))
	}
	return t
}

// listed reads a listing.
func (c *charter) listed(ctx context.Context, v *artifacts.View) (list listing, err error) {
	list = make(listing, 0, v.Rows)
	var text []byte // as most rows have it
	var t time.Time
	err = eachRow(ctx, c.reader, v, func(id uint64, row []byte) (err error) {
		a := listedAsset{id: id}
		if _, last, ok := bytes.Cut(row, []byte(lastField)); ok {
			if !bytes.Equal(last, text) {
				if t, err = time.Parse(time.RFC3339, string(bytes.TrimSuffix(last, []byte(`"}`)))); err != nil {
					return fmt.Errorf("%w: a row of %s: %w", artifacts.ErrCorrupt, v.Collection, err)
				}
				text = last
			}
			a.last = t.Unix()
		}
		list = append(list, a)
		return nil
	})
	return list, err
}

// eachRow calls f for each row of a view.
func eachRow(ctx context.Context, r artifacts.Reader, v *artifacts.View, f func(id uint64, row []byte) error) error {
	for _, o := range v.Objects {
		if err := eachObjectRow(ctx, r, o.Ref, f); err != nil {
			return err
		}
	}
	return nil
}
