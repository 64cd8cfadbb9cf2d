// Package rows finds the rows of an answer: pages, filters, orders, search and history. It copies slices of
// shards and knows nothing about HTTP; package reply builds the answer. It does not decode rows, and
// allocates nothing once its buffers have grown.
package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
)

var (
	// ErrNoView means that the snapshot does not contain the view that the query needs, because an older
	// builder published it.
	ErrNoView = errors.New("the snapshot has no view for this")
	// ErrSince means that the snapshot no longer contains all changes since the requested time.
	ErrSince = errors.New("the changes since then are not all held")

	errShort = fmt.Errorf("%w: %w: a shard has fewer rows than its view needs", shards.ErrUnavailable,
		artifacts.ErrCorrupt)
)

// Finder finds the rows of successive answers, and reuses its memory. The caller sets Places, Buffers and
// Body before Find. A Finder must not be used by several goroutines at the same time.
type Finder struct {
	// Places bounds the slots that the key's requests occupy. It may be nil.
	Places *limit.Places
	// Visited is the number of rows that searches and filters by group or change have visited since Release.
	// It determines the price of the answer, so it depends only on the query and the snapshot, not on what is
	// cached.
	Visited int
	// Buffers provides memory for a large body. If it is nil, Body is reallocated as necessary.
	Buffers *Buffers
	// Body receives the items, separated by commas. It must end with "[" before Find is called.
	Body []byte

	// Sums contains the checksums of the appended rows. Unsummed reports whether Body contains items about
	// the past. They consist of parts of rows, which have no checksums, so Sums does not identify such an
	// answer.
	Sums     []byte
	Unsummed bool
	// Total is the number of matching rows across all pages.
	Total int
	// Missing contains the values that match nothing: for each filter, their indexes in the query's list.
	Missing [Filters][]int
	// Budget bounds the time that the answer waits for shards and slots.
	Budget snapshot.Budget
	// Shards and Rows count the shards and rows that were read. Tests check that no answer reads the whole
	// directory.
	Shards, Rows int

	rows cursor // the position in the view that rows are copied from
	// quotes and markets are the views by id from which rows of /markets are composed. They are nil for
	// other endpoints. target is a position in quotes. listed is a position in markets or, for other
	// endpoints, in the list of a history window or of groups.
	quotes, markets *snapshot.View
	target, listed  cursor
	tails           bool // links or groups are appended to rows
	entries         []entry
	filters         filtering
	words           wordSearch
	past            historySearch
}

// Cursor is a position in a view. Reusing it for neighboring rows avoids looking up their shard again.
type Cursor = cursor

type cursor struct {
	view  *snapshot.View
	n     int // the number of the shard
	shard *artifacts.Shard
	row   int // the last row found
}

// Reset prepares the Finder for a query. maxWait bounds the time that the query may wait for shards. Find
// calls Reset.
func (f *Finder) Reset(maxWait time.Duration) {
	f.Sums, f.Unsummed, f.Total = f.Sums[:0], false, 0
	for by := range f.Missing {
		f.Missing[by] = f.Missing[by][:0]
	}
	f.Shards, f.Rows = 0, 0
	f.Budget = snapshot.Budget{Wait: maxWait}
	f.leave()
}

// leave drops the references that keep a snapshot in memory.
func (f *Finder) leave() {
	f.rows, f.listed, f.past.block, f.past.window, f.past.asked = cursor{}, cursor{}, cursor{}, nil, nil
	clear(f.past.search.at)
	f.past.search = pastSearch{at: f.past.search.at[:0]}
	f.quotes, f.markets, f.target = nil, nil, cursor{}
}

// Release gives up the answer's slot for a large body, and the references to its body and snapshot. It also
// frees memory that few answers need.
func (f *Finder) Release() {
	if cap(f.entries) > largeSort {
		f.entries = nil
	}
	if cap(f.words.met.ids) > largeMet {
		f.words.met = metTable{}
	}
	if f.past.large {
		f.leavePlace(limit.LargeBody)
		f.past.large = false
	}
	f.Body, f.Places, f.Buffers, f.Visited = nil, nil, nil, 0
	f.leave()
}

// Find answers the query q from the snapshot s, and appends the items to Body. It waits for shards for at most
// maxWait. s is nil before the first snapshot. The endpoint must not be Global. Find returns ErrNoView,
// ErrSince, an error that wraps shards.ErrUnavailable, or a *query.ParamError if q asks for more than a single
// answer may contain.
func (f *Finder) Find(s *snapshot.Snapshot, q *query.Query, maxWait time.Duration) error {
	f.Reset(maxWait)
	f.tails = q.Tails
	if q.Endpoint.OfThePast() && s != nil {
		if err := f.ofThePast(s, q); err != nil {
			return err
		}
	}
	if s == nil || q.Endpoint.OfThePast() && f.past.asked == nil {
		f.allMissing(q)
		return nil
	}
	if q.Endpoint == query.Changes {
		return f.changes(s.Changes(), &q.Change, q)
	}
	v := s.View(rowsOf(q.Endpoint), q.Sort)
	if q.Endpoint == query.Markets {
		f.quotes, f.markets = s.View(query.Quotes, query.SortID), s.View(query.Markets, query.SortID)
	}
	switch {
	case v == nil:
		return ErrNoView
	case q.Endpoint == query.Search:
		return f.search(s, q)
	case q.Endpoint == query.Trending:
		return f.ascending(v, 0, v.Rows)
	case q.Filtered():
		var err error
		f.Total, err = f.filtered(s, q)
		return err
	}
	f.Total = v.Rows
	first, n := page(q, f.Total)
	if q.Desc {
		return f.descending(v, first, n)
	}
	return f.ascending(v, first, n)
}

// ofThePast prepares the Finder for an endpoint that serves past data, if the snapshot contains that data.
func (f *Finder) ofThePast(s *snapshot.Snapshot, q *query.Query) error {
	ok := false
	if q.Endpoint == query.History && q.Window != query.MaxWindow {
		f.past.window, f.past.about = s.History(q.Window), q.Window
		ok = f.past.window != nil
	} else {
		var err error
		if ok, err = f.beginPast(s, q); err != nil {
			return err
		}
	}
	if ok {
		f.past.asked = q
	}
	return nil
}

// rowsOf returns the endpoint whose views contain the rows of e.
func rowsOf(e query.Endpoint) query.Endpoint {
	if e.OfThePast() {
		return query.Assets
	}
	return e
}

// page returns the range of rows that make up the page. total is the number of all matching rows.
func page(q *query.Query, total int) (first, n int) {
	if q.First >= int64(total) {
		return 0, 0
	}
	first = int(q.First)
	return first, min(q.Size, total-first)
}

// at moves the main cursor to shard n of v.
func (f *Finder) at(v *snapshot.View, n int) (*artifacts.Shard, error) { return f.move(&f.rows, v, n) }

// move moves the cursor c to shard n of v.
func (f *Finder) move(c *cursor, v *snapshot.View, n int) (*artifacts.Shard, error) {
	if c.shard != nil && c.view == v && c.n == n {
		return c.shard, nil
	}
	s, err := v.Shard(n, &f.Budget)
	if err != nil {
		return nil, err
	}
	c.view, c.n, c.shard = v, n, s
	f.Shards++
	return s, nil
}

// find returns the row with the given id. v must be sorted by id.
func (f *Finder) find(c *cursor, v *snapshot.View, id uint64) (s *artifacts.Shard, row int, ok bool, err error) {
	n, err := v.FindID(id, &f.Budget)
	if err != nil || n < 0 {
		return nil, 0, false, err
	}
	if s, err = f.move(c, v, n); err != nil {
		return nil, 0, false, err
	}
	// The blocks of a window contain mostly the same assets, so the row is often the same as in the
	// previous block.
	if c.row < s.Len() && s.ID(c.row) == id {
		return s, c.row, true, nil
	}
	c.row, ok = s.FindID(id)
	return s, c.row, ok, nil
}

// locate is like find, but returns an error if there is no such row.
func (f *Finder) locate(c *cursor, v *snapshot.View, id uint64) (*artifacts.Shard, int, error) {
	s, row, ok, err := f.find(c, v, id)
	if err == nil && !ok {
		err = errShort
	}
	return s, row, err
}

// ascending appends n rows of v, beginning at row firstRow.
func (f *Finder) ascending(v *snapshot.View, firstRow, n int) error {
	per := v.PerShard()
	for n > 0 {
		s, err := f.at(v, firstRow/per)
		if err != nil {
			return err
		}
		i := firstRow % per
		m := min(n, s.Len()-i)
		if m <= 0 {
			return errShort
		}
		if err := f.add(v, s, i, i+m); err != nil {
			return err
		}
		firstRow, n = firstRow+m, n-m
	}
	return nil
}

// add appends the rows [i, j) of s, a shard of v. If the request is for /markets, it appends the
// corresponding rows of /markets instead.
func (f *Finder) add(v *snapshot.View, s *artifacts.Shard, i, j int) error {
	if f.markets == nil {
		f.append(s, i, j)
		return nil
	}
	for ; i < j; i++ {
		rank, err := f.rank(v, s, i)
		if err != nil {
			return err
		}
		if v.Endpoint == query.Quotes {
			err = f.addMarket(s, i, rank)
		} else {
			err = f.addMarketOf(s.ID(i), rank)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rank returns the rank of the asset in row i of s, or 0 if it has none. s is a shard of v, which is a view
// of markets or of quotes.
func (f *Finder) rank(v *snapshot.View, s *artifacts.Shard, i int) (uint32, error) {
	if v.Endpoint == query.Quotes {
		var err error
		if s, i, err = f.locate(&f.listed, f.markets, s.ID(i)); err != nil {
			return 0, err
		}
	}
	return artifacts.SearchRank(s.Row(i)), nil
}

// addMarketOf is like addMarket, for the quote of an asset.
func (f *Finder) addMarketOf(id uint64, rank uint32) error {
	s, i, err := f.locate(&f.target, f.quotes, id)
	if err != nil {
		return err
	}
	return f.addMarket(s, i, rank)
}

// addMarket appends a row of /markets. It consists of the quote in row i of s, the rank unless it is 0, and
// the asset's groups if the request asks for them.
func (f *Finder) addMarket(s *artifacts.Shard, i int, rank uint32) error {
	var groups *artifacts.Shard
	g := 0
	if f.tails {
		var err error
		if groups, g, err = f.locate(&f.listed, f.markets, s.ID(i)); err != nil {
			return err
		}
	}
	if last := f.Body[len(f.Body)-1]; last != '[' {
		f.Body = append(f.Body, ',')
	}
	f.Rows++
	row := s.Row(i)
	at := artifacts.IDEnd(s.ID(i))
	f.Body, f.Sums = append(f.Body, row[:at]...), append(f.Sums, s.Sums(i, i+1)...)
	if rank > 0 { // without a rank, the row and its checksum equal those of /quotes
		f.Body = strconv.AppendUint(append(f.Body, `,"rank":`...), uint64(rank), 10)
		f.Sums = binary.LittleEndian.AppendUint32(f.Sums, rank)
	}
	if groups == nil {
		f.Body = append(f.Body, row[at:]...)
		return nil
	}
	f.Body = append(append(f.Body, row[at:len(row)-1]...), groups.Tail(g)...)
	f.Sums = append(f.Sums, groups.TailSum(g)...)
	return nil
}

// append appends the rows [i, j) of s.
func (f *Finder) append(s *artifacts.Shard, i, j int) {
	if last := f.Body[len(f.Body)-1]; last != '[' {
		f.Body = append(f.Body, ',')
	}
	f.Rows += j - i
	if !f.tails {
		f.Body = append(f.Body, s.Slice(i, j)...)
		f.Sums = append(f.Sums, s.Sums(i, j)...)
		return
	}
	for ; i < j; i++ {
		row := s.Row(i)
		f.Body = append(f.Body, row[:len(row)-1]...)
		f.Body = append(f.Body, s.Tail(i)...)
		f.Sums = append(append(f.Sums, s.Sums(i, i+1)...), s.TailSum(i)...)
		if i+1 < j {
			f.Body = append(f.Body, ',')
		}
	}
}

// descending appends n rows of v in descending order, beginning at the given position. It reads the runs of
// equal keys from last to first, but each run forwards, so that ties stay sorted by id. Rows without a value
// come last in either direction.
func (f *Finder) descending(v *snapshot.View, first, n int) error {
	per := v.PerShard()
	keyed := v.Rows - v.Last
	for n > 0 && first < keyed {
		row := keyed - 1 - first
		s, err := f.at(v, row/per)
		if err != nil {
			return err
		}
		if row%per >= s.Len() {
			return errShort
		}
		run, a, b := s.Run(row % per)
		base := row / per * per
		start, end := f.bounds(s, base, run, a, b)
		// The run occupies the positions [keyed-end, keyed-start).
		in := first - (keyed - end)
		m := min(n, end-start-in)
		if m <= 0 || in < 0 {
			return errShort
		}
		if err := f.ascending(v, start+in, m); err != nil {
			return err
		}
		first, n = first+m, n-m
		// Now append the preceding runs that lie entirely in this shard.
		least := min(s.Before, 1) // the first may begin in an earlier shard
		if m, err = f.backwards(v, s, least, run, n); err != nil {
			return err
		}
		first, n = first+m, n-m
	}
	return f.ascending(v, first, n)
}

// backwards appends up to n rows of the runs [from, to) of s, a shard of v, in descending order of runs,
// and returns the number of rows appended. The body must already contain a row.
func (f *Finder) backwards(
	v *snapshot.View, s *artifacts.Shard, from, to, n int,
) (appended int, err error) {
	if !f.tails && s.Runs() == s.Len() && f.markets == nil { // each run consists of one row
		first := max(from, to-n)
		f.Body, f.Sums = s.AppendBackwards(f.Body, f.Sums, first, to)
		appended = max(0, to-first)
		f.Rows += appended
		return appended, nil
	}
	for j := to - 1; j >= from && appended < n; j-- {
		a, b := s.RunRows(j)
		b = min(b, a+n-appended)
		if err := f.add(v, s, a, b); err != nil {
			return appended, err
		}
		appended += b - a
	}
	return appended, nil
}

// bounds returns the range of rows that a run occupies in the view. The rows [a, b) of shard s are the part
// of the run in that shard. base is the index of the shard's first row in the view.
func (f *Finder) bounds(s *artifacts.Shard, base, run, a, b int) (start, end int) {
	start, end = base+a, base+b
	if run == 0 {
		start -= s.Before
	}
	if run == s.Runs()-1 {
		end += s.After
	}
	return start, end
}
