package render

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// How views are cut. A page of 100 rows touches two shards at most; a shard of
// 128 quotes is some 70 KiB plain, so a cold look-up of one row expands little;
// 48 shards an object keep a million assets under 2,500 objects.
const (
	RowsPerShard    = 128
	ShardsPerObject = 48
)

// Table is a collection's rows before they are cut: each row once, in the
// order of the feed, and the orders in which they are listed.
type Table struct {
	Collection string
	Rows       [][]byte
	Tails      [][]byte // assets only
	IDs        []uint64
	Orders     []Order
	// RowsPerShard is 0, or in the place of the constant a divisor of an object's rows.
	RowsPerShard int

	added arena
}

// Add adds a copy of a row.
func (t *Table) Add(id uint64, row []byte) {
	t.IDs, t.Rows = append(t.IDs, id), append(t.Rows, t.added.keep(row))
}

// Order is one sort order of a table.
type Order struct {
	Sort string
	// Keys are the rows' folded texts, in an order by text.
	Keys [][]byte
	// Sorted are the rows in this order, ties by id, if that is known already.
	Sorted []int32
	// Compare compares two rows by a key that is not a text; nil for the order by
	// id. Equal rows make a run.
	Compare func(a, b int32) int
	// Last reports a row that stands last in both directions.
	Last func(row int32) bool
	// Index: rows are looked up by this order's key, so its shards carry the
	// keys, and the run numbers of the table's other orders.
	Index bool
}

func foldKeys(n int, text func(i int) string) [][]byte {
	keys := make([][]byte, n)
	var a arena
	var buf []byte
	for i := range keys {
		buf = artifacts.AppendFold(buf[:0], []byte(text(i)))
		keys[i] = a.keep(buf)
	}
	return keys
}

// rows renders n rows into an arena.
func rows(n int, row func(dst []byte, i int) []byte) [][]byte {
	out := make([][]byte, n)
	var a arena
	var buf []byte
	for i := range out {
		buf = row(buf[:0], i)
		out[i] = a.keep(buf)
	}
	return out
}

func ids(n int, id func(i int) uint64) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = id(i)
	}
	return out
}

// Tables renders the collections of a snapshot one after another, so that only one
// collection's rows need be in memory.
func Tables(f *market.Feed, r *market.Result) iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		names := namesOf(f)
		_ = yield(assetTable(f, r, names)) && yield(quoteTable(f, r, names)) && yield(exchangeTable(f)) &&
			yield(groupTable("categories", f.Categories, r.Categories,
				func(dst []byte, l *market.ListedGroup) []byte { return categoryRow(dst, f, r, l) })) &&
			yield(groupTable("chains", f.Chains, r.Chains,
				func(dst []byte, l *market.ListedGroup) []byte { return chainRow(dst, f, r, l) })) &&
			yield(trendingTable(f, r)) && yield(searchTable(f, r))
	}
}

// names holds the assets' folded texts and the assets sorted by each. Assets and
// quotes share these orders.
type names struct{ name, symbol, slug texts }

type texts struct {
	keys   [][]byte
	sorted []int32
}

func namesOf(f *market.Feed) *names {
	n := len(f.Assets)
	id := ids(n, func(i int) uint64 { return f.Assets[i].ID })
	of := func(text func(a *market.Asset) string) texts {
		keys := foldKeys(n, func(i int) string { return text(&f.Assets[i]) })
		return texts{keys, sortRows(id, &Order{Keys: keys})}
	}
	return &names{
		name:   of(func(a *market.Asset) string { return a.Name }),
		symbol: of(func(a *market.Asset) string { return a.Symbol }),
		slug:   of(func(a *market.Asset) string { return a.Slug }),
	}
}

// quotes returns the texts of the assets that have a quote, by quote.
func (t *texts) quotes(f *market.Feed, r *market.Result) texts {
	q := texts{make([][]byte, len(f.Quotes)), make([]int32, 0, len(f.Quotes))}
	for i := range f.Quotes {
		q.keys[i] = t.keys[f.Quotes[i].Asset]
	}
	for _, a := range t.sorted {
		if i := r.QuoteOf[a]; i >= 0 {
			q.sorted = append(q.sorted, i)
		}
	}
	return q
}

func (t texts) order(sort string, index bool) Order {
	return Order{Sort: sort, Index: index, Keys: t.keys, Sorted: t.sorted}
}

func assetTable(f *market.Feed, r *market.Result, of *names) *Table {
	n := len(f.Assets)
	unranked := func(i int32) bool { return r.Rank[i] == 0 }
	return &Table{
		Collection: "assets",
		Rows:       rows(n, func(dst []byte, i int) []byte { return assetRow(dst, &f.Assets[i], r.Rank[i]) }),
		Tails:      rows(n, func(dst []byte, i int) []byte { return assetTail(dst, &f.Assets[i]) }),
		IDs:        ids(n, func(i int) uint64 { return f.Assets[i].ID }),
		Orders: []Order{
			{Sort: "id", Index: true}, of.name.order("name", true), of.symbol.order("symbol", true),
			of.slug.order("slug", true),
			// Rank 0 minus 1 is the highest number, so unranked rows come last.
			{Sort: "rank", Last: unranked,
				Compare: func(a, b int32) int { return cmp.Compare(r.Rank[a]-1, r.Rank[b]-1) }},
		},
	}
}

func quoteTable(f *market.Feed, r *market.Result, of *names) *Table {
	n := len(f.Quotes)
	return &Table{
		Collection: "quotes",
		Rows:       rows(n, func(dst []byte, i int) []byte { return quoteRow(dst, f, r, i) }),
		IDs:        ids(n, func(i int) uint64 { return f.Assets[f.Quotes[i].Asset].ID }),
		Orders: []Order{
			{Sort: "id", Index: true}, of.name.quotes(f, r).order("name", false),
			of.symbol.quotes(f, r).order("symbol", true), of.slug.quotes(f, r).order("slug", true),
		},
	}
}

func exchangeTable(f *market.Feed) *Table {
	n := len(f.Exchanges)
	volume := func(i int32) *market.U128 {
		if m := f.Exchanges[i].Market; m != nil {
			return m.Volume
		}
		return nil
	}
	return &Table{
		Collection: "exchanges",
		Rows:       rows(n, func(dst []byte, i int) []byte { return exchangeRow(dst, &f.Exchanges[i]) }),
		IDs:        ids(n, func(i int) uint64 { return f.Exchanges[i].ID }),
		Orders: []Order{
			{Sort: "id", Index: true},
			{Sort: "name", Keys: foldKeys(n, func(i int) string { return f.Exchanges[i].Name })},
			{Sort: "slug", Index: true, Keys: foldKeys(n, func(i int) string { return f.Exchanges[i].Slug })},
			// A missing market sorts like a missing volume: below zero.
			{Sort: "volume", Compare: func(a, b int32) int {
				va, vb := volume(a), volume(b)
				switch {
				case va == nil && vb == nil:
					return 0
				case va == nil:
					return -1
				case vb == nil:
					return 1
				}
				return va.Cmp(*vb)
			}},
		},
	}
}

func groupTable(collection string, groups []market.Group, listed []market.ListedGroup,
	row func(dst []byte, l *market.ListedGroup) []byte) *Table {
	n := len(listed)
	group := func(i int) *market.Group { return &groups[listed[i].Group] }
	return &Table{
		Collection: collection,
		Rows:       rows(n, func(dst []byte, i int) []byte { return row(dst, &listed[i]) }),
		IDs:        ids(n, func(i int) uint64 { return group(i).ID }),
		Orders: []Order{
			{Sort: "id", Index: true},
			{Sort: "name", Keys: foldKeys(n, func(i int) string { return group(i).Name })},
			{Sort: "slug", Index: true, Keys: foldKeys(n, func(i int) string { return group(i).Slug })},
			{Sort: "market_cap",
				Compare: func(a, b int32) int { return listed[a].Market.MarketCap.Cmp(&listed[b].Market.MarketCap) }},
			{Sort: "volume_24h",
				Compare: func(a, b int32) int { return listed[a].Market.Volume.Cmp(&listed[b].Market.Volume) }},
		},
	}
}

// trendingTable returns the trending board. Its only order is the computed one.
func trendingTable(f *market.Feed, r *market.Result) *Table {
	n := len(r.Trending)
	return &Table{
		Collection: "trending",
		Rows:       rows(n, func(dst []byte, i int) []byte { return quoteRow(dst, f, r, int(r.Trending[i])) }),
		IDs:        ids(n, func(i int) uint64 { return f.Assets[f.Quotes[r.Trending[i]].Asset].ID }),
		Orders:     []Order{{Sort: "board", Compare: func(a, b int32) int { return cmp.Compare(a, b) }}},
	}
}

// searchTable returns a row for each asset and each distinct word of its name.
func searchTable(f *market.Feed, r *market.Result) *Table {
	t := &Table{Collection: artifacts.SearchCollection}
	var keys [][]byte
	var a arena
	var row, word []byte
	for i := range f.Assets {
		id, first := f.Assets[i].ID, len(keys)
		row = artifacts.AppendSearchRow(row[:0], id, r.Rank[i])
		var kept []byte // the row, once it has a word
		for next, rest := artifacts.NextWord([]byte(f.Assets[i].Name)); next != nil; next,
			rest = artifacts.NextWord(rest) {
			word = artifacts.AppendFold(word[:0], next)
			if slices.ContainsFunc(keys[first:], func(k []byte) bool { return bytes.Equal(k, word) }) {
				continue
			}
			if kept == nil {
				kept = a.keep(row)
			}
			keys, t.Rows, t.IDs = append(keys, a.keep(word)), append(t.Rows, kept), append(t.IDs, id)
		}
	}
	t.Orders = []Order{{Sort: artifacts.SearchSort, Index: true, Keys: keys}}
	return t
}

// sorted holds the rows in one order, and each row's run.
type sorted struct {
	*Order
	order    []int32
	runOf    []uint32 // by row
	runStart []int32  // by run, and a last one for the end
	last     int
}

// compare returns the order's comparison of two rows, without ties; nil for the
// order by id.
func (o *Order) compare() func(a, b int32) int {
	if o.Keys != nil {
		return func(a, b int32) int { return bytes.Compare(o.Keys[a], o.Keys[b]) }
	}
	return o.Compare
}

// sortRows returns the rows in an order, ties by id. It compares the first 8 bytes
// of keys, or ids, which lie side by side in memory, and looks up whole keys only
// to break ties: that costs many times more.
func sortRows(ids []uint64, o *Order) []int32 {
	type entry struct {
		prefix uint64
		row    int32
	}
	entries := make([]entry, len(ids))
	compare := o.compare()
	for i := range entries {
		entries[i].row = int32(i)
		switch {
		case o.Keys != nil:
			var prefix [8]byte
			copy(prefix[:], o.Keys[i])
			entries[i].prefix = binary.BigEndian.Uint64(prefix[:])
		case compare == nil:
			entries[i].prefix = ids[i]
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		if compare != nil {
			if c := compare(a.row, b.row); c != 0 {
				return c
			}
		}
		return cmp.Compare(ids[a.row], ids[b.row])
	})
	order := make([]int32, len(entries))
	for i, e := range entries {
		order[i] = e.row
	}
	return order
}

func (t *Table) sort(o *Order) *sorted {
	s := &sorted{Order: o, order: o.Sorted, runOf: make([]uint32, len(t.Rows))}
	if s.order == nil {
		s.order = sortRows(t.IDs, o)
	}
	compare := o.compare()
	for i, row := range s.order {
		// In the order by id each row is its own run.
		if i == 0 || compare == nil || compare(s.order[i-1], row) != 0 {
			s.runStart = append(s.runStart, int32(i))
		}
		s.runOf[row] = uint32(len(s.runStart) - 1)
		if o.Last != nil && o.Last(row) {
			s.last++
		}
	}
	s.runStart = append(s.runStart, int32(len(s.order)))
	return s
}

// Piece is one object of a view. The caller stores it and then enters it in the
// manifest.
type Piece struct {
	View   int // index into the views it came with
	Object int // index into the view's objects
	Rows   int
	build  func() ([]byte, artifacts.Fence)
}

// Bytes makes the object. It is expensive, and safe to call for several pieces at
// once.
func (p *Piece) Bytes() ([]byte, artifacts.Fence) { return p.build() }

// Views sorts and cuts a table. It returns the manifest's views, whose objects are
// still empty, and the pieces that fill them.
func Views(t *Table) ([]artifacts.View, []Piece) {
	var views []artifacts.View
	var pieces []Piece
	orders := make([]*sorted, len(t.Orders))
	for i := range t.Orders {
		orders[i] = t.sort(&t.Orders[i])
	}
	// All orders except the one by id number their runs for the index views.
	var columns []*sorted
	var names []string
	for _, s := range orders {
		if s.Sort != "id" && t.Collection != "trending" && t.Collection != artifacts.SearchCollection {
			columns, names = append(columns, s), append(names, s.Sort)
		}
	}
	for _, s := range orders {
		v := artifacts.View{Collection: t.Collection, Sort: s.Sort, Rows: len(t.Rows), Runs: len(s.runStart) - 1,
			Last: s.last, RowsPerShard: t.RowsPerShard}
		c := &cutter{t: t, s: s}
		if s.Index {
			v.Columns, c.columns = names, columns
		}
		const per = RowsPerShard * ShardsPerObject
		v.Objects = make([]artifacts.ViewObject, (v.Rows+per-1)/per)
		for o := range v.Objects {
			from, to := o*per, min((o+1)*per, v.Rows)
			pieces = append(pieces, Piece{View: len(views), Object: o, Rows: to - from,
				build: func() ([]byte, artifacts.Fence) { return c.object(from, to) }})
		}
		views = append(views, v)
	}
	return views, pieces
}

// cutter makes shards and objects of one view.
type cutter struct {
	t       *Table
	s       *sorted
	columns []*sorted
}

func (c *cutter) object(from, to int) ([]byte, artifacts.Fence) {
	var o artifacts.Object
	var plain []byte
	var shard artifacts.ShardRows
	rows := cmp.Or(c.t.RowsPerShard, RowsPerShard)
	for i := from; i < to; i += rows {
		j := min(i+rows, to)
		c.shard(&shard, i, j)
		plain = artifacts.AppendShard(plain[:0], &shard)
		o.Add(plain, j-i, c.fence(i))
	}
	return o.Bytes(), c.fence(from)
}

func (c *cutter) fence(i int) artifacts.Fence {
	row := c.s.order[i]
	switch {
	case c.s.Sort == "id":
		return artifacts.Fence{ID: c.t.IDs[row]}
	case c.s.Index:
		return artifacts.Fence{Key: string(c.s.Keys[row])}
	}
	return artifacts.Fence{}
}

// shard fills in with the order's rows from (inclusive) to to (exclusive). It reuses
// in's memory.
func (c *cutter) shard(in *artifacts.ShardRows, from, to int) {
	order, runOf, runStart := c.s.order, c.s.runOf, c.s.runStart
	first, last := runOf[order[from]], runOf[order[to-1]]
	in.FirstRun, in.Before, in.After = int(first), from-int(runStart[first]), int(runStart[last+1])-to
	in.RunLens, in.Keys, in.Rows, in.Tails = in.RunLens[:0], in.Keys[:0], in.Rows[:0], in.Tails[:0]
	if in.Ords == nil && c.columns != nil {
		in.Ords = make([][]uint32, len(c.columns))
	}
	for k, col := range c.columns {
		in.Ords[k] = in.Ords[k][:0]
		for _, row := range order[from:to] {
			in.Ords[k] = append(in.Ords[k], col.runOf[row])
		}
	}
	for i := from; i < to; i++ {
		row := order[i]
		if i == from || runOf[order[i-1]] != runOf[row] {
			in.RunLens = append(in.RunLens, 0)
			if c.s.Index && c.s.Keys != nil {
				in.Keys = append(in.Keys, c.s.Keys[row])
			}
		}
		in.RunLens[len(in.RunLens)-1]++
		in.Rows = append(in.Rows, c.t.Rows[row])
		if c.t.Tails != nil {
			in.Tails = append(in.Tails, c.t.Tails[row])
		}
	}
}
