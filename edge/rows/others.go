package rows

import (
	"bytes"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/snapshot"
)

// The following methods are for other packages, which compose answers that are not listings.

// At returns the shard that contains a row of v, and the index of the row in the shard.
func (f *Finder) At(c *Cursor, v *snapshot.View, row int) (*artifacts.Shard, int, error) {
	s, err := f.move(c, v, row/v.PerShard())
	if err == nil && row%v.PerShard() >= s.Len() {
		err = errShort
	}
	f.Rows++
	return s, row % v.PerShard(), err
}

// ByID returns the row with the given id. v must be sorted by id.
func (f *Finder) ByID(c *Cursor, v *snapshot.View, id uint64) (s *artifacts.Shard, row int, ok bool, err error) {
	f.Rows++
	return f.find(c, v, id)
}

// ByKey returns the range [start, end) of the rows of v that have the given sort key.
func (f *Finder) ByKey(c *Cursor, v *snapshot.View, key []byte) (start, end int, err error) {
	n, err := v.FindKey(key, &f.Budget)
	if err != nil || n < 0 {
		return 0, 0, err
	}
	s, err := f.move(c, v, n)
	if err != nil {
		return 0, 0, err
	}
	run, ok := s.FindKey(key)
	if !ok {
		return 0, 0, nil
	}
	a, b := s.RunRows(run)
	start, end = f.bounds(s, n*v.PerShard(), run, a, b)
	return start, end, nil
}

// EachPrice calls visit for each point of an asset in a window, oldest first.
func (f *Finder) EachPrice(c *Cursor, h *snapshot.History, id uint64, visit func(at time.Time, price []byte)) error {
	for i := range h.Blocks {
		b := &h.Blocks[i]
		s, row, ok, err := f.find(c, b.View, id)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		rest, closed := bytes.CutSuffix(s.Row(row)[artifacts.IDEnd(id):], []byte("]}"))
		rest, opened := bytes.CutPrefix(rest, []byte(pricesKey))
		if !closed || !opened {
			return errPrices
		}
		for n := 0; len(rest) > 0; n++ {
			if n >= len(b.Times) {
				return errPrices
			}
			if rest[0] != '"' {
				rest = rest[min(len(rest), len(null)+1):]
				continue
			}
			end := bytes.IndexByte(rest[1:], '"') + 1
			if end == 0 {
				return errPrices
			}
			if n >= b.First {
				visit(b.Times[n], rest[1:end])
			}
			rest = rest[min(len(rest), end+2):]
		}
	}
	return nil
}

// EachPast calls visit for each interval of the past that begins in [from, to], in Unix seconds, oldest first.
// interval is an index into artifacts.PastIntervals. firstTime is the time of the interval's first snapshot,
// moment contains the asset's figures in it, and candle is the asset's candle. moment and candle may be nil.
func (f *Finder) EachPast(c *Cursor, s *snapshot.Snapshot, interval int, from, to int64, id uint64,
	visit func(firstTime time.Time, moment, candle []byte),
) error {
	step := artifacts.PastIntervals[interval].Step
	blocks := s.Past(interval)
	for i := range blocks {
		b := &blocks[i]
		if b.Times[len(b.Times)-1].Truncate(step).Unix() < from || b.Times[0].Truncate(step).Unix() > to {
			continue
		}
		moments, candles, err := f.pastRow(c, b, id)
		if err != nil {
			return err
		}
		if moments == nil {
			continue
		}
		for _, t := range b.Times {
			var moment, candle []byte
			var ok bool
			if moment, moments, ok = artifacts.NextPast(moments); ok && candles != nil {
				candle, candles, ok = artifacts.NextPast(candles)
			}
			if !ok {
				return errPast
			}
			if begin := t.Truncate(step).Unix(); begin >= from && begin <= to {
				visit(t, moment, candle)
			}
		}
	}
	return nil
}
