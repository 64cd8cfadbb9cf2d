package render

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"sync"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// These constants determine how views are cut. A page of 100 rows touches at most two shards. A
// shard of 128 quotes has about 70 KiB decompressed, so little is decompressed to look up a single
// row. With 72 shards per object, a million assets need fewer than 2,500 objects.
const (
	RowsPerShard    = 128
	ShardsPerObject = 72
)

// Table holds a collection's rows before they are cut. It has each row once, in feed order, and the
// orders in which views list the rows.
type Table struct {
	Collection string
	Rows       [][]byte
	Tails      [][]byte // nil if the collection has no tails
	IDs        []uint64
	Orders     []Order
	// TailsByID means that only the view by id has the tails.
	TailsByID bool
	// Members lists views that contain only some of the rows.
	Members []Members
	// RowsPerShard replaces the package's constant of the same name if it is not 0. It must divide
	// the number of rows in an object.
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
	// Keys are the rows' folded texts, if this is an order by text.
	Keys [][]byte
	// Sorted are the rows in this order, with ties broken by id. It is nil if they are not sorted
	// yet.
	Sorted   []int32
	prefixes []uint64 // of Sorted
	// Compare compares two rows by a key that is not text. It is nil for an order by text or by id.
	// Equal rows form a run.
	Compare func(a, b int32) int
	// Prefix, if not nil, returns a number for each row. The order of these numbers never
	// contradicts Compare and decides most comparisons.
	Prefix func(row int32) uint64
	// Last, if not nil, reports whether a row comes last in both directions.
	Last func(row int32) bool
	// Index means that rows are looked up by this order's key. Therefore, its shards contain the
	// keys, and the run numbers in the table's other orders.
	Index bool
	// RowsPerShard, if not 0, replaces the table's RowsPerShard for this order.
	RowsPerShard int
}

// Members lists rows of a table by group. Each group is a run.
type Members struct {
	Sort string
	Keys [][]byte // by run, ascending
	Rows []int32  // by run, each run in order of id
	// Starts are the indexes in Rows at which the runs start. The last element is the end.
	Starts []int32
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

// rows renders n rows and returns them.
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

// Tables renders the collections of a snapshot except those of Directory, one after another, so
// only one collection's rows need to be in memory.
func Tables(f *market.Feed, r *market.Result) iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		names := namesOf(f)
		_ = yield(assetTable(f, r, names)) && yield(quoteTable(f, r, names)) && yield(marketTable(f, r)) &&
			yield(exchangeTable(f)) &&
			yield(groupTable("categories", f.Categories, r.Categories,
				func(dst []byte, l *market.ListedGroup) []byte { return categoryRow(dst, f, r, l) })) &&
			yield(groupTable("chains", f.Chains, r.Chains,
				func(dst []byte, l *market.ListedGroup) []byte { return chainRow(dst, f, r, l) })) &&
			yield(trendingTable(f, r)) && yield(searchTable(f, r)) &&
			yield(figureTable(f, r)) && yield(rateTable(f)) && yield(leaderTable(f, r))
	}
}

// names holds the folded names, symbols and slugs of the assets and, for each of the three, the
// assets in its order. The tables of assets and quotes share these orders.
type names struct{ name, symbol, slug texts }

type texts struct {
	keys     [][]byte
	sorted   []int32
	prefixes []uint64 // of sorted
}

func namesOf(f *market.Feed) *names {
	n := len(f.Assets)
	id := ids(n, func(i int) uint64 { return f.Assets[i].ID })
	of := func(text func(a *market.Asset) string) texts {
		keys := foldKeys(n, func(i int) string { return text(&f.Assets[i]) })
		sorted, prefixes := sortRows(id, &Order{Keys: keys})
		return texts{keys, sorted, prefixes}
	}
	return &names{
		name:   of(func(a *market.Asset) string { return a.Name }),
		symbol: of(func(a *market.Asset) string { return a.Symbol }),
		slug:   of(func(a *market.Asset) string { return a.Slug }),
	}
}

// quotes returns the texts of the assets that have a quote, by quote.
func (t *texts) quotes(f *market.Feed, r *market.Result) texts {
	n := len(f.Quotes)
	q := texts{make([][]byte, n), make([]int32, 0, n), make([]uint64, 0, n)}
	for i := range f.Quotes {
		q.keys[i] = t.keys[f.Quotes[i].Asset]
	}
	for at, a := range t.sorted {
		if i := r.QuoteOf[a]; i >= 0 {
			q.sorted, q.prefixes = append(q.sorted, i), append(q.prefixes, t.prefixes[at])
		}
	}
	return q
}

func (t texts) order(sort string, index bool) Order {
	return Order{Sort: sort, Index: index, Keys: t.keys, Sorted: t.sorted, prefixes: t.prefixes}
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
			// Rank 0 minus 1 wraps around to the highest number, so unranked rows come last.
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
		var kept []byte // the row, once the asset has a word
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

// sorted holds the rows of a table in one order, and each row's run.
type sorted struct {
	*Order
	order    []int32
	runOf    []uint32 // by row
	runStart []int32  // by run; the last element is the end
	runKeys  [][]byte // by run, for members only
	last     int
}

// runAt returns the run of the row at position i.
func (s *sorted) runAt(i int) int {
	run, found := slices.BinarySearch(s.runStart, int32(i))
	if found {
		return run
	}
	return run - 1
}

// key returns the key of a run, or nil if the view has no keys.
func (s *sorted) key(run int) []byte {
	switch {
	case s.runKeys != nil:
		return s.runKeys[run]
	case s.Index && s.Keys != nil:
		return s.Keys[s.order[s.runStart[run]]]
	}
	return nil
}

// compare returns the comparison of two rows in this order, without breaking ties. It is nil for
// the order by id.
func (o *Order) compare() func(a, b int32) int {
	if o.Keys != nil {
		return func(a, b int32) int { return bytes.Compare(o.Keys[a], o.Keys[b]) }
	}
	return o.Compare
}

// entry is a row to be sorted.
type entry struct {
	prefix uint64
	row    int32
}

// sortRows returns the rows in an order, with ties broken by id, and their prefixes. It compares
// prefixes, which are the first 8 bytes of keys, ids, or numbers from Prefix. It looks up whole
// keys only to break ties, since that is many times slower: they are scattered in memory.
func sortRows(ids []uint64, o *Order) (order []int32, prefixes []uint64) {
	entries := make([]entry, len(ids))
	compare := o.compare()
	for i := range entries {
		entries[i].row = int32(i)
		switch {
		case o.Keys != nil:
			var prefix [8]byte
			copy(prefix[:], o.Keys[i])
			entries[i].prefix = binary.BigEndian.Uint64(prefix[:])
		case o.Prefix != nil:
			entries[i].prefix = o.Prefix(int32(i))
		case compare == nil:
			entries[i].prefix = ids[i]
		}
	}
	entries = byPrefix(entries)
	for i := 0; i < len(entries); {
		j := i + 1
		for j < len(entries) && entries[j].prefix == entries[i].prefix {
			j++
		}
		slices.SortFunc(entries[i:j], func(a, b entry) int {
			if compare != nil {
				if c := compare(a.row, b.row); c != 0 {
					return c
				}
			}
			return cmp.Compare(ids[a.row], ids[b.row])
		})
		i = j
	}
	order, prefixes = make([]int32, len(entries)), make([]uint64, len(entries))
	for i, e := range entries {
		order[i], prefixes[i] = e.row, e.prefix
	}
	return order, prefixes
}

// byPrefix sorts entries by prefix. It uses a radix sort, because comparing numbers was the most
// expensive part of sorting in a build.
func byPrefix(from []entry) []entry {
	to := make([]entry, len(from))
	for shift := 0; shift < 64; shift += 8 {
		var next [257]int
		for i := range from {
			next[from[i].prefix>>shift&0xff+1]++
		}
		if slices.Contains(next[:], len(from)) {
			continue // this byte is the same in all entries
		}
		for b := range 256 {
			next[b+1] += next[b]
		}
		for _, e := range from {
			b := e.prefix >> shift & 0xff
			to[next[b]] = e
			next[b]++
		}
		from, to = to, from
	}
	return from
}

func (t *Table) sort(o *Order) *sorted {
	s := &sorted{Order: o, order: o.Sorted, runOf: make([]uint32, len(t.Rows))}
	prefixes := o.prefixes
	if s.order == nil {
		s.order, prefixes = sortRows(t.IDs, o)
	}
	compare := o.compare()
	for i, row := range s.order {
		// In the order by id each row is its own run.
		if i == 0 || compare == nil || prefixes[i] != prefixes[i-1] || compare(s.order[i-1], row) != 0 {
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

// Piece is one object of a view. The caller stores it and then enters it in the view.
type Piece struct {
	View   int // index into the views that were returned with it
	Object int // index into the view's objects
	Rows   int
	build  func() ([]byte, artifacts.Fence)
}

// Bytes makes the object. This is expensive. Several goroutines may call Bytes concurrently for
// different pieces.
func (p *Piece) Bytes() ([]byte, artifacts.Fence) { return p.build() }

// Views sorts and cuts a table. It returns the manifest's views, whose objects have not been filled
// in yet, and the pieces that fill them.
func Views(t *Table) ([]artifacts.View, []Piece) {
	var views []artifacts.View
	var pieces []Piece
	orders := make([]*sorted, len(t.Orders))
	for i := range t.Orders {
		orders[i] = t.sort(&t.Orders[i])
	}
	// If there are several orders, the index views contain the run numbers in all orders except the
	// one by id.
	var columns []*sorted
	var names []string
	for _, s := range orders {
		if s.Sort != "id" && len(orders) > 1 {
			columns, names = append(columns, s), append(names, s.Sort)
		}
	}
	for _, s := range orders {
		c := &cutter{t: t, s: s, tails: t.Tails}
		if t.TailsByID && s.Sort != "id" {
			c.tails = nil
		}
		var columnNames []string
		if s.Index {
			c.columns, columnNames = columns, names
		}
		views, pieces = c.view(views, pieces, columnNames)
	}
	for i := range t.Members {
		m := &t.Members[i]
		c := &cutter{t: t, s: &sorted{Order: &Order{Sort: m.Sort}, order: m.Rows, runStart: m.Starts, runKeys: m.Keys}}
		views, pieces = c.view(views, pieces, nil)
	}
	return views, pieces
}

// cutter makes the shards and objects of one view.
type cutter struct {
	t       *Table
	s       *sorted
	tails   [][]byte
	columns []*sorted
}

// view appends the view and its pieces.
func (c *cutter) view(views []artifacts.View, pieces []Piece, columns []string) ([]artifacts.View, []Piece) {
	s := c.s
	v := artifacts.View{Collection: c.t.Collection, Sort: s.Sort, Rows: len(s.order), Runs: len(s.runStart) - 1,
		Last: s.last, Columns: columns, RowsPerShard: cmp.Or(s.RowsPerShard, c.t.RowsPerShard)}
	const per = RowsPerShard * ShardsPerObject
	v.Objects = make([]artifacts.ViewObject, (v.Rows+per-1)/per)
	for o := range v.Objects {
		from, to := o*per, min((o+1)*per, v.Rows)
		pieces = append(pieces, Piece{View: len(views), Object: o, Rows: to - from,
			build: func() ([]byte, artifacts.Fence) { return c.object(from, to) }})
	}
	return append(views, v), pieces
}

// buffers holds memory that is reused between objects. The buffers grow to several megabytes.
type buffers struct {
	object artifacts.Object
	plain  []byte
}

var freeBuffers = sync.Pool{New: func() any { return new(buffers) }}

func (c *cutter) object(from, to int) ([]byte, artifacts.Fence) {
	free := freeBuffers.Get().(*buffers)
	defer freeBuffers.Put(free)
	o := &free.object
	o.Reset()
	var shard artifacts.ShardRows
	rows := cmp.Or(c.s.RowsPerShard, c.t.RowsPerShard, RowsPerShard)
	for i := from; i < to; i += rows {
		j := min(i+rows, to)
		c.shard(&shard, i, j)
		free.plain = artifacts.AppendShard(free.plain[:0], &shard)
		o.Add(free.plain, j-i, c.fence(i))
	}
	return o.Bytes(), c.fence(from)
}

func (c *cutter) fence(i int) artifacts.Fence {
	if c.s.Sort == "id" {
		return artifacts.Fence{ID: c.t.IDs[c.s.order[i]]}
	}
	return artifacts.Fence{Key: string(c.s.key(c.s.runAt(i)))}
}

// shard puts the rows at positions [from, to) of the order into dst, and reuses its memory.
func (c *cutter) shard(dst *artifacts.ShardRows, from, to int) {
	order, runStart := c.s.order, c.s.runStart
	run := c.s.runAt(from)
	dst.FirstRun, dst.Before = run, from-int(runStart[run])
	dst.RunLens, dst.Keys, dst.Rows, dst.Tails = dst.RunLens[:0], dst.Keys[:0], dst.Rows[:0], dst.Tails[:0]
	if dst.Ords == nil && c.columns != nil {
		dst.Ords = make([][]uint32, len(c.columns))
	}
	for k, col := range c.columns {
		dst.Ords[k] = dst.Ords[k][:0]
		for _, row := range order[from:to] {
			dst.Ords[k] = append(dst.Ords[k], col.runOf[row])
		}
	}
	for _, row := range order[from:to] {
		dst.Rows = append(dst.Rows, c.t.Rows[row])
		if c.tails != nil {
			dst.Tails = append(dst.Tails, c.tails[row])
		}
	}
	for i := from; i < to; run++ {
		end := min(int(runStart[run+1]), to)
		if key := c.s.key(run); key != nil {
			dst.Keys = append(dst.Keys, key)
		}
		dst.RunLens, i = append(dst.RunLens, end-i), end
	}
	dst.After = int(runStart[run]) - to
}
