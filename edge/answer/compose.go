package answer

import (
	"cmp"
	"slices"
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
	// Of /history.
	window        *snapshot.History // nil: another endpoint, or a snapshot without it
	about         int               // number of the window
	listed, block cursor
	more          Memory // for a large body; nil: none
	large         bool   // it is one of largeBodies
	whole         bool   // the digest is that of the body

	budget snapshot.Budget

	key      []byte
	etag     []byte
	head     []byte
	counters *counters

	// What composing touched, for tests: no answer walks the directory.
	shards, visited int
}

// cursor is the shard at hand of a view.
type cursor struct {
	view  *snapshot.View
	n     int
	shard *artifacts.Shard
	row   int // that was found last
}

// matchedRun is a run that a filter's value matched, in the filter's index view.
type matchedRun struct {
	run        uint32 // its number in the view
	start, end int    // its rows
}

// entry is a row that a filter matched, to be sorted in another order.
type entry struct {
	key uint64 // places it in the order asked for
	id  uint64 // and among equals
	row int    // where it stands in the driving view
}

// The filters, in the order of X-Not-Found.
const (
	byID = iota
	bySlug
	bySymbol
)

var indexSort = [3]query.Sort{query.SortID, query.SortSlug, query.SortSymbol}

func (w *work) reset() {
	w.body, w.sums, w.notFound = w.body[:0], w.sums[:0], w.notFound[:0]
	w.links, w.cut, w.whole = false, false, false
	w.shards, w.visited = 0, 0
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

// filtered appends the page of the rows that match every filter, and returns
// how many match.
func (w *work) filtered(s *snapshot.Snapshot, q *query.Query) (total int, err error) {
	driver := -1
	filters := 0
	for f, sent := range [3]bool{q.HasID, q.HasSlug, q.HasSymbol} {
		w.matched[f], w.counts[f] = w.matched[f][:0], 0
		if !sent {
			continue
		}
		filters++
		if err := w.resolve(s.View(rowsOf(q.Endpoint), indexSort[f]), q, f); err != nil {
			return 0, err
		}
		if driver < 0 || w.counts[f] < w.counts[driver] {
			driver = f
		}
	}
	if w.counts[driver] == 0 {
		return 0, nil
	}
	v := s.View(rowsOf(q.Endpoint), indexSort[driver])
	simple := filters == 1 && w.window == nil
	if simple && indexSort[driver] == q.Sort {
		return w.counts[driver], w.inIndexOrder(v, q, w.matched[driver], w.counts[driver])
	}
	if simple && q.Sort == query.SortID && len(w.matched[driver]) == 1 {
		return w.counts[driver], w.inRun(v, q, w.matched[driver][0])
	}
	return w.inOtherOrder(s, v, q, driver)
}

// resolve finds the runs that the values of filter f match, in ascending order,
// and notes the values that match none. Of /history, a run counts when one of its
// rows has points.
func (w *work) resolve(v *snapshot.View, q *query.Query, f int) error {
	missing := missingValues{w: w, name: filterNames[f]}
	if f == byID {
		for _, id := range q.IDs {
			ok, err := w.resolveID(v, id)
			if err != nil {
				return err
			}
			if !ok {
				missing.id(id)
			}
		}
		return nil
	}
	values := q.Slugs
	if f == bySymbol {
		values = q.Symbols
	}
	for _, value := range values {
		ok, err := w.resolveKey(v, value, f)
		if err != nil {
			return err
		}
		if !ok {
			missing.text(value)
		}
	}
	return nil
}

func (w *work) resolveID(v *snapshot.View, id int64) (bool, error) {
	if id < 1 {
		return false, nil
	}
	_, i, ok, err := w.find(&w.rows, v, uint64(id))
	if ok && w.window != nil {
		ok, err = w.hasPoints(uint64(id))
	}
	if err != nil {
		return false, err
	}
	if ok {
		row := w.rows.n*v.PerShard() + i
		w.matched[byID] = append(w.matched[byID], matchedRun{uint32(row), row, row + 1})
		w.counts[byID]++
	}
	return ok, nil
}

func (w *work) resolveKey(v *snapshot.View, key []byte, f int) (bool, error) {
	n, err := v.FindKey(key, &w.budget)
	if err != nil || n < 0 {
		return false, err
	}
	s, err := w.at(v, n)
	if err != nil {
		return false, err
	}
	run, ok := s.FindKey(key)
	if ok {
		a, b := s.RunRows(run)
		start, end := w.bounds(s, n*v.PerShard(), run, a, b)
		if w.window != nil {
			if ok, err = w.anyHasPoints(v, start, end); !ok || err != nil {
				return false, err
			}
		}
		w.matched[f] = append(w.matched[f], matchedRun{uint32(s.FirstRun + run), start, end})
		w.counts[f] += end - start
	}
	return ok, nil
}

// inIndexOrder appends the page of the matched runs' rows in the order of the index
// itself: it touches only what it sends.
func (w *work) inIndexOrder(v *snapshot.View, q *query.Query, runs []matchedRun, total int) error {
	skip, n := page(q, total)
	for i := range runs {
		run := runs[i]
		if q.Desc {
			run = runs[len(runs)-1-i]
		}
		length := run.end - run.start
		if skip >= length {
			skip -= length
			continue
		}
		m := min(n, length-skip)
		if m == 0 {
			break
		}
		if err := w.ascending(v, run.start+skip, m); err != nil {
			return err
		}
		skip, n = 0, n-m
	}
	return nil
}

// inRun appends the page of one run's rows in the order of ids, which is the
// run's own, forwards or backwards.
func (w *work) inRun(v *snapshot.View, q *query.Query, run matchedRun) error {
	first, n := page(q, run.end-run.start)
	if !q.Desc {
		return w.ascending(v, run.start+first, n)
	}
	for row := run.end - 1 - first; n > 0; row, n = row-1, n-1 {
		if err := w.ascending(v, row, 1); err != nil {
			return err
		}
	}
	return nil
}

// inOtherOrder visits the rows that the driving filter matched, keeps those
// that the others match too, and appends the page of them in the order asked
// for. It costs by the rows matched.
func (w *work) inOtherOrder(s *snapshot.Snapshot, v *snapshot.View, q *query.Query, driver int) (total int, err error) {
	if w.counts[driver] > largeSort {
		if err := w.budget.Enter(largeSorts); err != nil {
			return 0, err
		}
		defer func() { <-largeSorts }()
	}
	target := s.View(rowsOf(q.Endpoint), q.Sort)
	column := int(v.Columns[q.Sort])
	sameOrder := q.Sort == indexSort[driver]
	per := v.PerShard()
	w.entries = w.entries[:0]
	for _, run := range w.matched[driver] {
		for row := run.start; row < run.end; {
			shard, err := w.at(v, row/per)
			if err != nil {
				return 0, err
			}
			i := row % per
			end := min(shard.Len(), i+run.end-row)
			if end <= i {
				return 0, errShort
			}
			row += end - i
			for ; i < end; i++ {
				if !w.matchesOthers(v, shard, i, q, driver) {
					continue
				}
				if w.window != nil {
					if ok, err := w.hasPoints(shard.ID(i)); err != nil {
						return 0, err
					} else if !ok {
						continue
					}
				}
				e := entry{id: shard.ID(i), row: row - end + i}
				switch {
				case q.Sort == query.SortID:
					e.key = e.id
					if q.Desc {
						e.key = ^e.id
					}
				case sameOrder:
					e.key = place(target, run.run, q.Desc)
				default:
					e.key = place(target, shard.Ord(column, i), q.Desc)
				}
				w.entries = append(w.entries, e)
			}
		}
	}
	total = len(w.entries)
	w.visited += total
	first, n := page(q, total)
	picked := pick(w.entries, first, n)
	if w.window != nil {
		return total, w.appendItems(v, picked)
	}
	for _, e := range picked {
		shard, err := w.at(v, e.row/per)
		if err != nil {
			return 0, err
		}
		w.append(shard, e.row%per, e.row%per+1)
	}
	return total, nil
}

// place returns where a run stands in a view, as a number to sort by.
func place(v *snapshot.View, run uint32, desc bool) uint64 {
	if !desc {
		return uint64(run)
	}
	if v.Last > 0 && int(run) == v.Runs-1 {
		return 1 << 32 // behind every other
	}
	return uint64(^run)
}

// matchesOthers reports whether row i matches the filters beside the driving one.
func (w *work) matchesOthers(v *snapshot.View, s *artifacts.Shard, i int, q *query.Query, driver int) bool {
	if q.HasID && driver != byID {
		if _, ok := slices.BinarySearch(q.IDs, int64(s.ID(i))); !ok {
			return false
		}
	}
	return (!q.HasSlug || driver == bySlug || w.hasMatched(bySlug, s.Ord(int(v.Columns[query.SortSlug]), i))) &&
		(!q.HasSymbol || driver == bySymbol || w.hasMatched(bySymbol, s.Ord(int(v.Columns[query.SortSymbol]), i)))
}

func (w *work) hasMatched(f int, run uint32) bool {
	_, ok := slices.BinarySearchFunc(w.matched[f], run, func(r matchedRun, number uint32) int { return cmp.Compare(r.run, number) })
	return ok
}

func compareEntries(a, b entry) int {
	if c := cmp.Compare(a.key, b.key); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// largeSort is the number of entries above which sorting takes turns, and the
// memory for it is not kept.
const largeSort = 1 << 16

// largeSorts bounds how many requests sort many rows at once, and with it their
// memory.
var largeSorts = make(chan struct{}, 2)

// pick returns entries first to first+n in sorted order. It reorders entries,
// and sorts no more of them than the page.
func pick(entries []entry, first, n int) []entry {
	if n == 0 {
		return nil
	}
	// Narrow to the page by selection: everything before lo is before the page,
	// everything from hi on behind it.
	lo, hi := 0, len(entries)
	for rounds := 64; hi-lo > 4*n+64 && rounds > 0; rounds-- {
		a, b := partition(entries[lo:hi])
		a, b = lo+a, lo+b
		switch {
		case first+n <= a:
			hi = a
		case first >= b:
			lo = b
		case first >= a && first+n <= b:
			return entries[first : first+n] // all equal, which ids rule out
		default:
			rounds = 0 // the page lies across the pivot
			if first >= a {
				lo = a
			}
			if first+n <= b {
				hi = b
			}
		}
	}
	slices.SortFunc(entries[lo:hi], compareEntries)
	return entries[first : first+n]
}

// partition moves entries before, equal to and behind a middling one apart, and
// returns where the equal ones stand.
func partition(e []entry) (a, b int) {
	x, y, z := e[len(e)/4], e[len(e)/2], e[len(e)/4*3]
	if compareEntries(x, y) > 0 {
		x, y = y, x
	}
	if compareEntries(y, z) > 0 {
		y = z
		if compareEntries(x, y) > 0 {
			y = x
		}
	}
	lo, i, hi := 0, 0, len(e)
	for i < hi {
		switch c := compareEntries(e[i], y); {
		case c < 0:
			e[lo], e[i] = e[i], e[lo]
			lo, i = lo+1, i+1
		case c > 0:
			hi--
			e[i], e[hi] = e[hi], e[i]
		default:
			i++
		}
	}
	return lo, hi
}

var filterNames = [3]string{"id=", "slug=", "symbol="}

// allMissing notes every value: before the first snapshot none matches.
func (w *work) allMissing(q *query.Query) {
	ids := missingValues{w: w, name: filterNames[byID]}
	for _, id := range q.IDs {
		ids.id(id)
	}
	for f, values := range [3][][]byte{bySlug: q.Slugs, bySymbol: q.Symbols} {
		m := missingValues{w: w, name: filterNames[f]}
		for _, v := range values {
			m.text(v)
		}
	}
}

// maxNotFound bounds X-Not-Found, in bytes (INTERFACE.md, "Values not found").
const maxNotFound = 1 << 10

// missingValues writes one filter's part of X-Not-Found.
type missingValues struct {
	w    *work
	name string
	some bool
}

// begin appends what stands before a value and returns where to cut if the
// value does not fit.
func (m *missingValues) begin() (cut int) {
	cut = len(m.w.notFound)
	switch {
	case m.some:
		m.w.notFound = append(m.w.notFound, ',')
	default:
		if cut > 0 {
			m.w.notFound = append(m.w.notFound, '&')
		}
		m.w.notFound = append(m.w.notFound, m.name...)
	}
	m.some = true
	return cut
}

func (m *missingValues) end(cut int) {
	if len(m.w.notFound) > maxNotFound {
		m.w.notFound = m.w.notFound[:cut]
		m.w.cut = true
	}
}

func (m *missingValues) id(id int64) {
	if m.w.cut {
		return
	}
	cut := m.begin()
	m.w.notFound = strconv.AppendInt(m.w.notFound, id, 10)
	m.end(cut)
}

func (m *missingValues) text(value []byte) {
	if m.w.cut {
		return
	}
	cut := m.begin()
	m.w.notFound = query.AppendEscaped(m.w.notFound, value)
	m.end(cut)
}
