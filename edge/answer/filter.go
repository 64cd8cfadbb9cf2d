package answer

import (
	"cmp"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// matchedRun is a run that a filter's value matched, in the filter's index view.
type matchedRun struct {
	run        uint32 // its number in the view
	start, end int    // its rows
}

// The filters, in the order of X-Not-Found.
const (
	byID = iota
	bySlug
	bySymbol
)

var indexSort = [3]query.Sort{query.SortID, query.SortSlug, query.SortSymbol}

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
		if err := w.enter(limit.LargeSort); err != nil {
			return 0, err
		}
		defer w.leavePlace(limit.LargeSort)
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

// largeSort is the number of entries above which sorting takes turns, and the
// memory for it is not kept.
const largeSort = 1 << 16

var filterNames = [3]string{"id=", "slug=", "symbol="}
