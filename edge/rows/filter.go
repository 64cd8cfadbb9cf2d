package rows

import (
	"cmp"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// filtering is what filters need.
type filtering struct {
	matched [Filters][]matchedRun
	counts  [Filters]int // rows of matched
}

// matchedRun is a run of rows that a filter's value matches, in the filter's index view.
type matchedRun struct {
	run        uint32 // its number in the view
	start, end int    // its rows
}

// The filters, in the order of X-Not-Found.
const (
	ByID = iota
	BySlug
	BySymbol
	Filters
)

var indexSort = [Filters]query.Sort{ByID: query.SortID, BySlug: query.SortSlug, BySymbol: query.SortSymbol}

// filtered appends the page of the rows that match every filter, and returns how many match. The
// filter with the fewest rows drives: only its rows are visited.
func (f *Finder) filtered(s *snapshot.Snapshot, q *query.Query) (total int, err error) {
	driver := -1
	filters := 0
	for by, sent := range [Filters]bool{q.HasID, q.HasSlug, q.HasSymbol} {
		f.matched[by], f.counts[by] = f.matched[by][:0], 0
		if !sent {
			continue
		}
		filters++
		if err := f.resolve(s.View(rowsOf(q.Endpoint), indexSort[by]), q, by); err != nil {
			return 0, err
		}
		if driver < 0 || f.counts[by] < f.counts[driver] {
			driver = by
		}
	}
	if f.counts[driver] == 0 {
		return 0, nil
	}
	v := s.View(rowsOf(q.Endpoint), indexSort[driver])
	simple := filters == 1 && f.window == nil
	if simple && indexSort[driver] == q.Sort {
		return f.counts[driver], f.inIndexOrder(v, q, f.matched[driver], f.counts[driver])
	}
	if simple && q.Sort == query.SortID && len(f.matched[driver]) == 1 {
		return f.counts[driver], f.inRun(v, q, f.matched[driver][0])
	}
	return f.inOtherOrder(s, v, q, driver)
}

// resolve finds the runs that a filter's values match, in ascending order, and notes the values
// that match nothing. For /history, a run counts if one of its rows has points.
func (f *Finder) resolve(v *snapshot.View, q *query.Query, by int) error {
	n := len(q.IDs)
	var keys [][]byte
	if by != ByID {
		keys = q.Slugs
		if by == BySymbol {
			keys = q.Symbols
		}
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
		if err != nil {
			return err
		}
		if !ok {
			f.Missing[by] = append(f.Missing[by], i)
		}
	}
	return nil
}

// allMissing notes every value: before the first snapshot none matches.
func (f *Finder) allMissing(q *query.Query) {
	for by, n := range [Filters]int{ByID: len(q.IDs), BySlug: len(q.Slugs), BySymbol: len(q.Symbols)} {
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
	if ok && f.window != nil {
		ok, err = f.hasPoints(uint64(id))
	}
	if err != nil {
		return false, err
	}
	if ok {
		row := f.rows.n*v.PerShard() + i
		f.matched[ByID] = append(f.matched[ByID], matchedRun{uint32(row), row, row + 1})
		f.counts[ByID]++
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
		if f.window != nil {
			if ok, err = f.anyHasPoints(v, start, end); !ok || err != nil {
				return false, err
			}
		}
		f.matched[by] = append(f.matched[by], matchedRun{uint32(s.FirstRun + run), start, end})
		f.counts[by] += end - start
	}
	return ok, nil
}

// inIndexOrder appends the page of the matched runs' rows in the order of the index itself. It
// touches only the rows it appends.
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

// inRun appends the page of one run's rows by id, forwards or backwards. A run is in order of id.
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

// inOtherOrder visits the rows that the driving filter matches, keeps those that match the other
// filters too, and appends the page of them in the requested order. Its cost grows with the rows
// matched.
func (f *Finder) inOtherOrder(
	s *snapshot.Snapshot, v *snapshot.View, q *query.Query, driver int,
) (total int, err error) {
	if f.counts[driver] > largeSort {
		if err := f.enter(limit.LargeSort); err != nil {
			return 0, err
		}
		defer f.leavePlace(limit.LargeSort)
	}
	target := s.View(rowsOf(q.Endpoint), q.Sort)
	column := int(v.Columns[q.Sort])
	sameOrder := q.Sort == indexSort[driver]
	per := v.PerShard()
	f.entries = f.entries[:0]
	for _, run := range f.matched[driver] {
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
				if !f.matchesOthers(v, shard, i, q, driver) {
					continue
				}
				if f.window != nil {
					if ok, err := f.hasPoints(shard.ID(i)); err != nil {
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
				f.entries = append(f.entries, e)
			}
		}
	}
	total = len(f.entries)
	f.Rows += total
	first, n := page(q, total)
	picked := pick(f.entries, first, n)
	if f.window != nil {
		return total, f.appendItems(v, picked)
	}
	for _, e := range picked {
		shard, err := f.at(v, e.row/per)
		if err != nil {
			return 0, err
		}
		f.append(shard, e.row%per, e.row%per+1)
	}
	return total, nil
}

// place returns where a run stands in a view, as a number to sort by.
func place(v *snapshot.View, run uint32, desc bool) uint64 {
	if !desc {
		return uint64(run)
	}
	if v.Last > 0 && int(run) == v.Runs-1 {
		return 1 << 32 // after every other
	}
	return uint64(^run)
}

// matchesOthers reports whether row i matches the filters other than the driving one.
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
	_, ok := slices.BinarySearchFunc(f.matched[by], run,
		func(r matchedRun, number uint32) int { return cmp.Compare(r.run, number) })
	return ok
}

// largeSort is the number of entries above which sorts take turns and free their memory.
const largeSort = 1 << 16
