package rows

import (
	"cmp"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// filtering is the state of filters.
type filtering struct {
	matched [Filters][]matchedRun
	counts  [Filters]int // the numbers of rows in matched
}

// matchedRun is a run of rows that a value of a filter matches, in the filter's index view.
type matchedRun struct {
	run        uint32 // the number of the run in the view
	start, end int    // its rows
}

// The filters, in the order of X-Not-Found.
const (
	ByID = iota
	BySlug
	BySymbol
	ByCategory
	ByChain
	Filters
)

var indexSort = [Filters]query.Sort{ByID: query.SortID, BySlug: query.SortSlug, BySymbol: query.SortSymbol,
	ByCategory: query.SortCategory, ByChain: query.SortChain}

// index returns the view for looking up the values of a filter.
func index(s *snapshot.Snapshot, e query.Endpoint, by int) *snapshot.View {
	return s.View(rowsOf(e), indexSort[by])
}

// filtered appends the page of the rows that match all filters, and returns the number of matching rows. The
// filter that matches the fewest rows is the driving one: only its rows are visited.
func (f *Finder) filtered(s *snapshot.Snapshot, q *query.Query) (total int, err error) {
	driver := -1
	filters := 0
	for by, sent := range sentOf(q) {
		f.filters.matched[by], f.filters.counts[by] = f.filters.matched[by][:0], 0
		if !sent {
			continue
		}
		filters++
		if err := f.resolve(s, q, by); err != nil {
			return 0, err
		}
		if driver < 0 || f.filters.counts[by] < f.filters.counts[driver] {
			driver = by
		}
	}
	if f.filters.counts[driver] == 0 {
		return 0, nil
	}
	v := index(s, q.Endpoint, driver)
	simple := filters == 1 && f.past.asked == nil
	if simple && indexSort[driver] == q.Sort {
		return f.filters.counts[driver], f.inIndexOrder(v, q, f.filters.matched[driver], f.filters.counts[driver])
	}
	if simple && q.Sort == query.SortID && len(f.filters.matched[driver]) == 1 {
		return f.filters.counts[driver], f.inRun(v, q, f.filters.matched[driver][0])
	}
	return f.inOtherOrder(s, v, q, driver)
}

// resolve finds the runs that the values of a filter match, in ascending order, and records the values that
// match nothing. For /history, a run counts only if one of its rows has points.
func (f *Finder) resolve(s *snapshot.Snapshot, q *query.Query, by int) error {
	v := index(s, q.Endpoint, by)
	keys, n := TextsOf(q)[by], len(q.IDs)
	if by != ByID {
		n = len(keys)
	}
	for i := range n {
		var ok bool
		var err error
		if by == ByID {
			ok, err = f.resolveID(v, q.IDs[i])
		} else {
			ok, err = f.resolveKey(v, keys[i], by)
		}
		if err == nil && !ok && by >= ByCategory { // the group may be listed, but have no quoted coin
			ok, err = f.isListed(s, by, keys[i])
		}
		if err != nil {
			return err
		}
		if !ok {
			f.Missing[by] = append(f.Missing[by], i)
		}
	}
	return nil
}

// sentOf reports which filters a query has.
func sentOf(q *query.Query) [Filters]bool {
	return [Filters]bool{q.HasID, q.HasSlug, q.HasSymbol, q.HasCategory, q.HasChain}
}

// TextsOf returns the values of each text filter.
func TextsOf(q *query.Query) [Filters][][]byte {
	return [Filters][][]byte{BySlug: q.Slugs, BySymbol: q.Symbols, ByCategory: q.Categories, ByChain: q.Chains}
}

// isListed reports whether /categories or /chains lists a group with this slug.
func (f *Finder) isListed(s *snapshot.Snapshot, by int, slug []byte) (bool, error) {
	groups := query.Categories
	if by == ByChain {
		groups = query.Chains
	}
	v := s.View(groups, query.SortSlug)
	n, err := v.FindKey(slug, &f.Budget)
	if err != nil || n < 0 {
		return false, err
	}
	shard, err := f.move(&f.listed, v, n)
	if err != nil {
		return false, err
	}
	_, ok := shard.FindKey(slug)
	return ok, nil
}

// allMissing records all values as missing. It is used if there is no snapshot, or if the snapshot does not
// contain the past.
func (f *Finder) allMissing(q *query.Query) {
	for by, texts := range TextsOf(q) {
		n := len(texts)
		if by == ByID {
			n = len(q.IDs)
		}
		for i := range n {
			f.Missing[by] = append(f.Missing[by], i)
		}
	}
}

func (f *Finder) resolveID(v *snapshot.View, id int64) (bool, error) {
	if id < 1 {
		return false, nil
	}
	_, i, ok, err := f.find(&f.rows, v, uint64(id))
	if ok && f.past.asked != nil {
		ok, err = f.hasPoints(uint64(id))
	}
	if err != nil {
		return false, err
	}
	if ok {
		row := f.rows.n*v.PerShard() + i
		f.filters.matched[ByID] = append(f.filters.matched[ByID], matchedRun{uint32(row), row, row + 1})
		f.filters.counts[ByID]++
	}
	return ok, nil
}

func (f *Finder) resolveKey(v *snapshot.View, key []byte, by int) (bool, error) {
	n, err := v.FindKey(key, &f.Budget)
	if err != nil || n < 0 {
		return false, err
	}
	s, err := f.at(v, n)
	if err != nil {
		return false, err
	}
	run, ok := s.FindKey(key)
	if ok {
		a, b := s.RunRows(run)
		start, end := f.bounds(s, n*v.PerShard(), run, a, b)
		if f.past.asked != nil {
			if ok, err = f.anyHasPoints(v, start, end); !ok || err != nil {
				return false, err
			}
		}
		f.filters.matched[by] = append(f.filters.matched[by], matchedRun{uint32(s.FirstRun + run), start, end})
		f.filters.counts[by] += end - start
	}
	return ok, nil
}

// inIndexOrder appends the page of the matched rows in the order of the index. It reads only the rows that it
// appends.
func (f *Finder) inIndexOrder(v *snapshot.View, q *query.Query, runs []matchedRun, total int) error {
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
		if err := f.ascending(v, run.start+skip, m); err != nil {
			return err
		}
		skip, n = 0, n-m
	}
	return nil
}

// inRun appends the page of a run's rows, in ascending or descending order of ids. The rows of a run are
// sorted by id.
func (f *Finder) inRun(v *snapshot.View, q *query.Query, run matchedRun) error {
	first, n := page(q, run.end-run.start)
	if !q.Desc {
		return f.ascending(v, run.start+first, n)
	}
	for row := run.end - 1 - first; n > 0; row, n = row-1, n-1 {
		if err := f.ascending(v, row, 1); err != nil {
			return err
		}
	}
	return nil
}

// inOtherOrder visits the rows of the driving filter and keeps those that match the other filters. It
// appends the page of the matching rows in the requested order. Its cost is proportional to the rows of the
// driving filter.
func (f *Finder) inOtherOrder(
	s *snapshot.Snapshot, v *snapshot.View, q *query.Query, driver int,
) (total int, err error) {
	groups := f.groupsOf(q, driver)
	if f.filters.counts[driver]+groups.rows > largeSort {
		if err := f.enter(limit.LargeSort); err != nil {
			return 0, err
		}
		defer f.leavePlace(limit.LargeSort)
	}
	if err := f.meetGroups(s, q, driver, &groups); err != nil {
		return 0, err
	}
	o := f.requested(s, v, q, driver)
	per := v.PerShard()
	f.entries = f.entries[:0]
	for _, run := range f.filters.matched[driver] {
		for row := run.start; row < run.end; {
			shard, err := f.at(v, row/per)
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
				e := entry{id: shard.ID(i), row: row - end + i}
				if ok, err := f.matchAndPlace(&e, &o, shard, i, run.run, &groups); err != nil {
					return 0, err
				} else if ok {
					f.entries = append(f.entries, e)
				}
			}
		}
	}
	total = len(f.entries)
	f.Rows += total
	first, n := page(q, total)
	picked := pick(f.entries, first, n)
	if f.past.asked != nil {
		return total, f.appendItems(v, picked)
	}
	for _, e := range picked {
		if f.markets != nil {
			if err := f.addMarketOf(e.id, uint32(e.row)); err != nil {
				return 0, err
			}
			continue
		}
		shard, err := f.at(v, e.row/per)
		if err != nil {
			return 0, err
		}
		f.append(shard, e.row%per, e.row%per+1)
	}
	return total, nil
}

// requested describes the requested order, and the views that provide the columns for filtering and
// sorting.
type requested struct {
	q         *query.Query
	driver    int
	driving   *snapshot.View
	target    *snapshot.View // the view in the requested order
	matched   *snapshot.View // has the columns for filtering; unless it is the driving view, rows are looked up by id
	placed    *snapshot.View // has the column for sorting; rows are looked up in the same way
	sameOrder bool           // the driving view has the requested order
	byRank    bool           // the requested order is by rank, and the rows of the driving view contain the rank
}

func (f *Finder) requested(s *snapshot.Snapshot, v *snapshot.View, q *query.Query, driver int) requested {
	o := requested{q: q, driver: driver, driving: v, target: s.View(rowsOf(q.Endpoint), q.Sort), matched: v,
		placed: v, sameOrder: q.Sort == indexSort[driver]}
	if f.markets == nil {
		return o
	}
	// The columns for strings are in quotes, and the columns for numbers are in markets. The views of group
	// members have no columns.
	byText := driver == BySlug || driver == BySymbol
	o.byRank = !byText && q.Sort == query.SortRank
	if !byText && (q.HasSlug || q.HasSymbol) {
		o.matched = f.quotes
	}
	if q.Sort.ByText() && !byText {
		o.placed = f.quotes
	} else if !q.Sort.ByText() && driver != ByID {
		o.placed = f.markets
	}
	return o
}

// in finds an asset's row in v. The asset is the one in row i of shard, a shard of the driving view.
func (f *Finder) in(
	o *requested, v *snapshot.View, shard *artifacts.Shard, i int,
) (*artifacts.Shard, int, error) {
	if v == o.driving {
		return shard, i, nil
	}
	c := &f.listed
	if v == f.quotes {
		c = &f.target
	}
	return f.locate(c, v, shard.ID(i))
}

// matchAndPlace reports whether row i of the driving view's shard also matches the other filters, and sets
// e.key. runNumber is the number of the row's run. For /markets, it sets e.row to the rank.
func (f *Finder) matchAndPlace(
	e *entry, o *requested, shard *artifacts.Shard, i int, runNumber uint32, groups *metGroups,
) (ok bool, err error) {
	if groups.met && !f.words.met.firstMatch(e.id, groups.words) {
		return false, nil
	}
	s, at, err := f.in(o, o.matched, shard, i)
	if err != nil || !f.matchesOthers(o.matched, s, at, o.q, o.driver) {
		return false, err
	}
	if f.past.asked != nil {
		if ok, err := f.hasPoints(e.id); !ok || err != nil {
			return false, err
		}
	}
	if f.markets != nil {
		rank, err := f.rank(o.driving, shard, i)
		if err != nil {
			return false, err
		}
		e.row = int(rank)
	}
	switch {
	case o.q.Sort == query.SortID:
		e.key = e.id
		if o.q.Desc {
			e.key = ^e.id
		}
	case o.sameOrder:
		e.key = place(o.target, runNumber, o.q.Desc)
	case o.byRank:
		runNumber = uint32(o.target.Runs - 1) // the last run contains the rows without a rank
		if e.row > 0 {
			runNumber = uint32(e.row - 1)
		}
		e.key = place(o.target, runNumber, o.q.Desc)
	default:
		if s, at, err = f.in(o, o.placed, shard, i); err != nil {
			return false, err
		}
		e.key = place(o.target, s.Ord(int(o.placed.Columns[o.q.Sort]), at), o.q.Desc)
	}
	return true, nil
}

// metGroups describes the use of f.words.met for filters by group.
type metGroups struct {
	met    bool          // f.words.met is in use
	others [Filters]bool // filters by group, other than the driving one
	words  uint8         // a bit for each filter in others, set once its rows have been read
	rows   int           // the number of rows to read for the filters in others
}

// groupsOf returns the groups to read before the rows of the driving filter.
func (f *Finder) groupsOf(q *query.Query, driver int) (g metGroups) {
	for by, sent := range sentOf(q) {
		if sent && by >= ByCategory && by != driver {
			g.met, g.others[by] = true, true
			g.rows += f.filters.counts[by]
		}
	}
	// An asset may be in several of the groups, but the answer must contain it only once.
	if driver >= ByCategory && len(f.filters.matched[driver]) > 1 {
		g.met = true
	}
	return g
}

// meetGroups reads the members of the groups in filters other than the driving one. These rows count toward
// the price, and so do the rows of the driving filter if it filters by group.
func (f *Finder) meetGroups(s *snapshot.Snapshot, q *query.Query, driver int, g *metGroups) error {
	if driver < ByCategory && !g.met {
		return nil
	}
	rows := g.rows
	if driver >= ByCategory {
		rows += f.filters.counts[driver]
	}
	f.Visited += rows
	if !g.met {
		return nil
	}
	f.words.met.reset(max(g.rows, f.filters.counts[driver]))
	for by, other := range g.others {
		if !other {
			continue
		}
		v := index(s, q.Endpoint, by)
		word := uint8(1) << by
		for _, run := range f.filters.matched[by] {
			err := f.eachShard(v, wordRange{start: run.start, end: run.end},
				func(shard *artifacts.Shard, from, to int) error {
					for i := from; i < to; i++ {
						f.words.met.mark(shard.ID(i), g.words, word)
					}
					return nil
				})
			if err != nil {
				return err
			}
		}
		g.words |= word
	}
	return nil
}

// place returns the position of a run in a view, as a sort key.
func place(v *snapshot.View, run uint32, desc bool) uint64 {
	if !desc {
		return uint64(run)
	}
	if v.Last > 0 && int(run) == v.Runs-1 {
		return 1 << 32 // after all other rows
	}
	return uint64(^run)
}

// matchesOthers reports whether row i matches the filters by id, slug and symbol other than the driving one.
func (f *Finder) matchesOthers(v *snapshot.View, s *artifacts.Shard, i int, q *query.Query, driver int) bool {
	if q.HasID && driver != ByID {
		if _, ok := slices.BinarySearch(q.IDs, int64(s.ID(i))); !ok {
			return false
		}
	}
	return (!q.HasSlug || driver == BySlug || f.hasMatched(BySlug, s.Ord(int(v.Columns[query.SortSlug]), i))) &&
		(!q.HasSymbol || driver == BySymbol || f.hasMatched(BySymbol, s.Ord(int(v.Columns[query.SortSymbol]), i)))
}

func (f *Finder) hasMatched(by int, run uint32) bool {
	_, ok := slices.BinarySearchFunc(f.filters.matched[by], run,
		func(r matchedRun, number uint32) int { return cmp.Compare(r.run, number) })
	return ok
}

// largeSort is the number of entries above which a sort needs a slot and frees its memory afterwards.
const largeSort = 1 << 16
