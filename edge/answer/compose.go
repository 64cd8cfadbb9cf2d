package answer

import (
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// The fixed parts of a body (INTERFACE.md, "Envelope").
const (
	bodyStart     = `{"code":0,"message":"OK","message_key":"OK","result":`
	listStart     = bodyStart + `{"items":[`
	listPage      = `],"page":`
	listTotal     = `,"total":`
	listTotalPage = `,"total_page":`
	listEnd       = `}}`
	boardEnd      = `]}}`
)

// work is the scratch memory of composing one answer. It is reused; its
// contents are valid until the next use.
type work struct {
	body     []byte
	coded    []byte // body in a coding
	sums     []byte // of the rows in body; see digest
	rowsEnd  int    // where what follows the rows begins in body
	notFound []byte // X-Not-Found
	cut      bool   // a value did not fit into it any more
	matched  [3][]matchedRun
	counts   [3]int
	entries  []entry

	rows  cursor // in the view that rows are taken from
	links bool
	// Of /search.
	ranges     [query.MaxWords]wordRanges
	text, name []byte
	met        metTable
	known      uint8 // the words that the assets in met are known to have, or the rarest alone
	// Of /history.
	window        *snapshot.History // nil: another endpoint, or a snapshot without it
	about         int               // number of the window
	listed, block cursor
	request       *Request // nil: the answer is made ahead of a swap
	large         bool     // it holds a place for a large body
	whole         bool     // the digest is that of the body

	budget snapshot.Budget

	key      []byte
	etag     []byte
	head     []byte
	counters *counters

	// What composing touched, for tests: no answer walks the directory.
	shards, visited int
	searched        int // rows that a search came upon; see settle
}

// cursor is the shard at hand of a view.
type cursor struct {
	view  *snapshot.View
	n     int
	shard *artifacts.Shard
	row   int // that was found last
}

func (w *work) reset() {
	w.body, w.sums, w.notFound = w.body[:0], w.sums[:0], w.notFound[:0]
	w.links, w.cut, w.whole = false, false, false
	w.shards, w.visited, w.searched = 0, 0, 0
	w.leave()
}

// leave drops what keeps a snapshot's memory alive.
func (w *work) leave() {
	w.rows, w.listed, w.block, w.window = cursor{}, cursor{}, cursor{}, nil
}

// compose writes the answer to q from s into w.body, and the values that match
// nothing into w.notFound, waiting for shards for up to wait. s is nil before
// the first snapshot. The endpoint is any but global. Errors are ErrNoView, or
// wrap shards.ErrUnavailable.
func (w *work) compose(s *snapshot.Snapshot, q *query.Query, wait time.Duration) error {
	w.reset()
	w.budget = snapshot.Budget{Wait: wait}
	w.links = q.Links
	if q.Endpoint == query.Trending || q.Endpoint == query.Search {
		w.body = append(w.body, listStart...)
		if s != nil {
			if err := w.board(s, q); err != nil {
				return err
			}
		}
		w.rowsEnd = len(w.body)
		w.body = append(w.body, boardEnd...)
		return nil
	}
	w.body = append(w.body, listStart...)
	if q.Endpoint == query.History && s != nil {
		w.window, w.about = s.History(q.Window), q.Window
	}
	total := 0
	var err error
	switch {
	case s == nil || q.Endpoint == query.History && w.window == nil:
		w.allMissing(q)
	case s.View(rowsOf(q.Endpoint), q.Sort) == nil:
		return ErrNoView
	case q.Filtered():
		total, err = w.filtered(s, q)
	default:
		v := s.View(q.Endpoint, q.Sort)
		total = v.Rows
		if first, n := page(q, total); q.Desc {
			err = w.descending(v, first, n)
		} else {
			err = w.ascending(v, first, n)
		}
	}
	if err != nil {
		return err
	}
	w.rowsEnd = len(w.body)
	w.body = append(w.body, listPage...)
	w.body = strconv.AppendInt(w.body, q.Page, 10)
	w.body = append(w.body, listTotal...)
	w.body = strconv.AppendInt(w.body, int64(total), 10)
	w.body = append(w.body, listTotalPage...)
	w.body = strconv.AppendInt(w.body, int64(max(1, (total+q.Size-1)/q.Size)), 10)
	w.body = append(w.body, listEnd...)
	return nil
}

// board appends the items of an endpoint without pages.
func (w *work) board(s *snapshot.Snapshot, q *query.Query) error {
	v := s.View(q.Endpoint, q.Sort)
	switch {
	case v == nil:
		return ErrNoView
	case q.Endpoint == query.Search:
		return w.search(s, q)
	}
	return w.ascending(v, 0, v.Rows)
}

// digest returns the digest of the body that was composed. It is that of the rows'
// sums and of what follows the rows: a shard's rows are summed up once, when it
// is parsed, and no row is read again for a tag. What stands before the rows is
// the same in every body that has any. Points of history are parts of rows, so that
// they have no sums: where there are any the digest is that of the body.
func (w *work) digest() digest {
	if w.whole {
		return digestOf(w.body)
	}
	w.sums = append(w.sums, w.body[w.rowsEnd:]...)
	return digestOf(w.sums)
}

// rowsOf returns the endpoint whose views have the rows of e.
func rowsOf(e query.Endpoint) query.Endpoint {
	if e == query.History {
		return query.Assets
	}
	return e
}

// page returns the page's rows among total.
func page(q *query.Query, total int) (first, n int) {
	if q.First >= int64(total) {
		return 0, 0
	}
	first = int(q.First)
	return first, min(q.Size, total-first)
}

// at makes shard n of v the one at hand.
func (w *work) at(v *snapshot.View, n int) (*artifacts.Shard, error) { return w.move(&w.rows, v, n) }

// move moves a cursor to shard n of v.
func (w *work) move(c *cursor, v *snapshot.View, n int) (*artifacts.Shard, error) {
	if c.shard != nil && c.view == v && c.n == n {
		return c.shard, nil
	}
	s, err := v.Shard(n, &w.budget)
	if err != nil {
		return nil, err
	}
	c.view, c.n, c.shard = v, n, s
	w.shards++
	return s, nil
}

// find returns the row with id in the view by id v.
func (w *work) find(c *cursor, v *snapshot.View, id uint64) (s *artifacts.Shard, row int, ok bool, err error) {
	n, err := v.FindID(id, &w.budget)
	if err != nil || n < 0 {
		return nil, 0, false, err
	}
	if s, err = w.move(c, v, n); err != nil {
		return nil, 0, false, err
	}
	// The blocks of a window mostly have the same assets.
	if c.row < s.Len() && s.ID(c.row) == id {
		return s, c.row, true, nil
	}
	c.row, ok = s.FindID(id)
	return s, c.row, ok, nil
}

// ascending appends n rows of v from row first on.
func (w *work) ascending(v *snapshot.View, first, n int) error {
	per := v.PerShard()
	for n > 0 {
		s, err := w.at(v, first/per)
		if err != nil {
			return err
		}
		i := first % per
		m := min(n, s.Len()-i)
		if m <= 0 {
			return errShort
		}
		w.append(s, i, i+m)
		first, n = first+m, n-m
	}
	return nil
}

// append appends rows i to j (exclusive) of s.
func (w *work) append(s *artifacts.Shard, i, j int) {
	if last := w.body[len(w.body)-1]; last != '[' {
		w.body = append(w.body, ',')
	}
	w.visited += j - i
	if !w.links {
		w.body = append(w.body, s.Slice(i, j)...)
		w.sums = append(w.sums, s.Sums(i, j)...)
		return
	}
	for ; i < j; i++ {
		row := s.Row(i)
		w.body = append(w.body, row[:len(row)-1]...)
		w.body = append(w.body, s.Tail(i)...)
		w.sums = append(append(w.sums, s.Sums(i, i+1)...), s.TailSum(i)...)
		if i+1 < j {
			w.body = append(w.body, ',')
		}
	}
}

// descending appends n rows from place first on of v read backwards: the runs
// of equal keys from the last to the first, each of them forwards, so that ties
// stay in the order of ids; rows that stand last in both directions last.
func (w *work) descending(v *snapshot.View, first, n int) error {
	per := v.PerShard()
	keyed := v.Rows - v.Last
	for n > 0 && first < keyed {
		row := keyed - 1 - first
		s, err := w.at(v, row/per)
		if err != nil {
			return err
		}
		if row%per >= s.Len() {
			return errShort
		}
		run, a, b := s.Run(row % per)
		base := row / per * per
		start, end := w.bounds(s, base, run, a, b)
		// The run takes the places keyed-end to keyed-start.
		in := first - (keyed - end)
		m := min(n, end-start-in)
		if m <= 0 || in < 0 {
			return errShort
		}
		if err := w.ascending(v, start+in, m); err != nil {
			return err
		}
		first, n = first+m, n-m
		// The runs before it that lie whole in this shard, without asking for each.
		least := min(s.Before, 1) // the first one may begin in an earlier shard
		m = w.backwards(s, least, run, n)
		first, n = first+m, n-m
	}
	return w.ascending(v, first, n)
}

// backwards appends up to n rows of the runs of s from to-1 down to from, behind
// another row, and returns how many.
func (w *work) backwards(s *artifacts.Shard, from, to, n int) (appended int) {
	if !w.links && s.Runs() == s.Len() { // every run is one row
		first := max(from, to-n)
		w.body, w.sums = s.AppendBackwards(w.body, w.sums, first, to)
		appended = max(0, to-first)
		w.visited += appended
		return appended
	}
	for j := to - 1; j >= from && appended < n; j-- {
		a, b := s.RunRows(j)
		b = min(b, a+n-appended)
		w.append(s, a, b)
		appended += b - a
	}
	return appended
}

// bounds returns the rows of a whole run from its part, rows a to b of the
// shard that begins at row base.
func (w *work) bounds(s *artifacts.Shard, base, run, a, b int) (start, end int) {
	start, end = base+a, base+b
	if run == 0 {
		start -= s.Before
	}
	if run == s.Runs()-1 {
		end += s.After
	}
	return start, end
}
