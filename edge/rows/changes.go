package rows

import (
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// changes appends a page of the changes that match c, newest first. Without a filter, it reads only the rows
// of the page. With a filter, it reads all rows since c.Since, because the answer contains their number.
func (f *Finder) changes(held *snapshot.Changes, c *query.Change, q *query.Query) error {
	switch {
	case held == nil:
		return ErrNoView
	case c.HasSince && c.Since < held.Since.Unix():
		return ErrSince
	}
	for i := len(held.Days) - 1; i >= 0; i-- {
		day := &held.Days[i]
		first := 0
		if c.HasSince && c.Since >= day.Start {
			if c.Since >= day.End {
				break
			}
			var err error
			if first, err = f.laterThan(day, c.Since); err != nil {
				return err
			}
		}
		if err := f.changesOf(day, first, c, q); err != nil {
			return err
		}
	}
	return nil
}

// laterThan returns the first row of the day that is later than t, which must be within the day.
func (f *Finder) laterThan(day *snapshot.ChangesDay, t int64) (int, error) {
	var text [32]byte
	// Keys are times of equal length. The smallest string that is greater than a time is one byte longer.
	key := append(time.Unix(t, 0).UTC().AppendFormat(text[:0], time.RFC3339), 0)
	row, _, err := day.FindBound(key, &f.Budget)
	return row, err
}

// changesOf appends those matching rows of a day that belong to the page, and adds the number of all matching
// rows to f.Total. It ignores the rows before firstRow.
func (f *Finder) changesOf(day *snapshot.ChangesDay, firstRow int, c *query.Change, q *query.Query) error {
	if !c.Filtered() {
		from := max(q.First-int64(f.Total), 0) // the range of the page among the day's rows, counted from the newest
		to := min(q.First+int64(q.Size)-int64(f.Total), int64(day.Rows-firstRow))
		f.Total += day.Rows - firstRow
		for ; from < to; from++ {
			s, i, err := f.At(&f.rows, day.View, day.Rows-1-int(from))
			if err != nil {
				return err
			}
			f.addChange(s, i)
		}
		return nil
	}
	for row := day.Rows - 1; row >= firstRow; row-- {
		s, i, err := f.At(&f.rows, day.View, row)
		if err != nil {
			return err
		}
		f.Visited++
		_, collection, kind := artifacts.ChangeOf(artifacts.CoinItem(s.Row(i)))
		if c.HasCollection && !has(c.Collections, query.Named(&artifacts.ChangeCollections, collection)) ||
			c.HasKind && !has(c.Kinds, query.Named(&artifacts.ChangeKinds, kind)) {
			continue
		}
		if at := int64(f.Total); at >= q.First && at < q.First+int64(q.Size) {
			f.addChange(s, i)
		}
		f.Total++
	}
	return nil
}

func has(set uint8, i int) bool { return i >= 0 && set&(1<<i) != 0 }

// addChange appends the item of row i of s.
func (f *Finder) addChange(s *artifacts.Shard, i int) {
	if last := f.Body[len(f.Body)-1]; last != '[' {
		f.Body = append(f.Body, ',')
	}
	f.Body = append(f.Body, artifacts.CoinItem(s.Row(i))...)
	f.Sums = append(f.Sums, s.Sums(i, i+1)...)
}
