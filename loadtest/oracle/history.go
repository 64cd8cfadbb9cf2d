package oracle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
)

// block contains the prices of assets at some times.
type block struct {
	name   string
	times  []time.Time
	shards []*artifacts.Shard // by id
}

// row returns the prices of an asset at the times of the block, or nil if there are none.
func (b *block) row(s *Snapshot, id int64) []*string {
	i := sort.Search(len(b.shards), func(i int) bool { return b.shards[i].ID(0) > uint64(id) }) - 1
	if i < 0 {
		return nil
	}
	row, ok := b.shards[i].FindID(uint64(id))
	if !ok {
		return nil
	}
	named, prices, err := model.ReadPrices(b.shards[i].Row(row), len(b.times))
	if err == nil && named != id {
		err = fmt.Errorf("id %d is in the place of %d", named, id)
	}
	if err != nil {
		s.fault(b.name, err)
		return nil
	}
	return prices
}

// history adds the windows of a snapshot to s. The blocks determine which assets have points, and the
// listings must agree with them.
func (s *Snapshot) history(ctx context.Context, store artifacts.Reader, m *artifacts.Manifest) error {
	s.Series = map[string]*model.Series{}
	own := map[int64]string{} // the prices in the snapshot itself
	for i := range artifacts.HistoryWindows {
		view, views := m.History(&artifacts.HistoryWindows[i])
		if view == nil {
			continue
		}
		shards, err := read(ctx, store, view)
		if err != nil {
			return err
		}
		listing := (&block{shards: shards}).ids()
		var blocks []*block
		for _, v := range views {
			shards, err := read(ctx, store, v)
			if err != nil {
				return err
			}
			blocks = append(blocks, &block{v.Collection, v.Times, shards})
		}
		if latest, ok := m.Latest(); ok && i == 0 {
			last := blocks[len(blocks)-1]
			for _, id := range last.ids() {
				if prices := last.row(s, id); prices != nil && prices[len(latest.Times)-1] != nil {
					own[id] = *prices[len(latest.Times)-1]
				}
			}
		}
		w := model.FindWindow(artifacts.HistoryWindows[i].Name)
		inWindow := func(t time.Time) bool { return w.Has(t, s.Time) }
		series := &model.Series{Listed: map[int64]bool{}}
		series.Points = func(id int64) (points []model.Point) {
			for _, b := range blocks {
				for i, p := range b.row(s, id) {
					if p != nil && inWindow(b.times[i]) && b.times[i].Before(s.Time) {
						points = append(points, model.Point{Time: b.times[i], Price: *p})
					}
				}
			}
			if p, ok := own[id]; ok {
				points = append(points, model.Point{Time: s.Time, Price: p})
			}
			return points
		}
		for _, b := range blocks {
			for _, id := range b.ids() {
				// A row always has a price, but possibly only at a time before the window.
				some := inWindow(b.times[0])
				if !some {
					for i, p := range b.row(s, id) {
						some = some || p != nil && inWindow(b.times[i])
					}
				}
				if some {
					series.Listed[id] = true
				}
			}
		}
		if want := slices.Sorted(maps.Keys(series.Listed)); !slices.Equal(listing, want) {
			s.fault(view.Collection, fmt.Errorf("%d ids are listed, %d have points", len(listing), len(want)))
		}
		for id := range own {
			series.Listed[id] = true
		}
		s.Series[w.Name] = series
	}
	return nil
}

// ids returns the ids of all rows.
func (b *block) ids() (ids []int64) {
	for _, shard := range b.shards {
		for i := range shard.Len() {
			ids = append(ids, int64(shard.ID(i)))
		}
	}
	return ids
}
