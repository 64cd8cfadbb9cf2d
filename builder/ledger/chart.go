package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// Point is the price of an asset in a snapshot.
type Point struct {
	ID    uint64
	Price market.U128
	// Quote is the index of the asset's quote in the feed of the newest snapshot. It is set only
	// while the ledger that Advance made for that snapshot is in memory. Otherwise it is 0.
	Quote int32
}

// Chain returns the times of a window's points, as far back as prices are kept. These are the times
// of the first kept snapshot of each interval, except for snapshots in which no asset has a point.
func (l *Root) Chain(w *artifacts.HistoryWindow) (times []time.Time) {
	for i := range l.Prices {
		p := &l.Prices[i]
		if i > 0 && l.Prices[i-1].Time.Truncate(w.Step).Equal(p.Time.Truncate(w.Step)) {
			continue
		}
		if len(l.charted(p).Parts) > 0 {
			times = append(times, p.Time)
		}
	}
	return times
}

// Points returns the points of the snapshot at time t in ascending order of id. It returns none if
// the ledger does not keep that snapshot.
func (l *Root) Points(ctx context.Context, r artifacts.ObjectReader, t time.Time) ([]Point, error) {
	p := l.Prices.find(t)
	if p == nil {
		return nil, nil
	}
	if l.own != nil && p == &l.Prices[len(l.Prices)-1] {
		points := make([]Point, len(l.own))
		for i := range l.own {
			points[i] = Point{l.own[i].id, l.own[i].price, l.own[i].quote}
		}
		return points, nil
	}
	var points []Point
	err := l.charted(p).read(ctx, r, func(part *reader) {
		part.each(func(id uint64, price market.U128) { points = append(points, Point{ID: id, Price: price}) })
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: history: %w", err)
	}
	return points, nil
}

// charted returns the objects with a kept snapshot's points. If Charted does not list the snapshot,
// every price is a point.
func (l *Root) charted(p *priceSet) *priceSet {
	if l.Charted != nil {
		if c := l.Charted.find(p.Time); c != nil {
			return c
		}
	}
	return p
}

// chart sets Charted to those entries of the previous root that are still kept, and to the points
// at T. rows are the prices at T; oldCharted is the previous root's Charted.
func (l *Root) chart(ctx context.Context, r artifacts.ObjectReader, oldCharted *priceList, rows []row, f *market.Feed,
	res *market.Result, put *objects) error {
	last := len(l.Prices) - 1
	kept := &Root{Prices: l.Prices[:last]}
	charted, err := kept.points(ctx, r, oldCharted, res.HistoryAssets)
	if err != nil {
		return err
	}
	l.own = members(rows, f, res)
	if len(l.own) < len(rows) {
		charted = append(charted, putPrices(l.own, l.Prices[last].Time, put))
	}
	l.Charted = &charted
	return nil
}

// points returns the entries of charted whose snapshots are still kept. If charted is nil, a
// builder without history wrote the root, which does not say which assets have points. In this case
// all prices of a snapshot count as points if it has at most n prices, and none do otherwise.
func (l *Root) points(ctx context.Context, r artifacts.ObjectReader, charted *priceList, n int) (priceList, error) {
	if charted != nil {
		return charted.of(l.Prices), nil
	}
	asked := map[time.Time]bool{} // snapshots in no chain need no entry
	for i := range artifacts.HistoryWindows {
		for _, t := range l.Chain(&artifacts.HistoryWindows[i]) {
			asked[t] = true
		}
	}
	var none priceList
	for i := range l.Prices {
		p := &l.Prices[i]
		if !asked[p.Time] {
			continue
		}
		more, err := p.moreThan(ctx, r, n)
		if err != nil {
			return nil, err
		}
		if more {
			none = append(none, priceSet{Time: p.Time})
		}
	}
	return none, nil
}

// moreThan reports whether the snapshot has more than n prices.
func (p *priceSet) moreThan(ctx context.Context, r artifacts.ObjectReader, n int) (bool, error) {
	if len(p.Parts) == 0 {
		return false, nil
	}
	count := (len(p.Parts) - 1) * partRows
	last := p.Parts[len(p.Parts)-1]
	if most := int64(binary.MaxVarintLen64 + (n-count)*maxRowBytes); count >= n || last.Size > most {
		return true, nil
	}
	b, err := artifacts.ReadObject(ctx, r, last)
	if err != nil {
		return false, err
	}
	rows := reader{b: b}
	return count+int(rows.uint(uint64(len(b)))) > n, nil
}

// Members returns the ids of the feed's assets that get history points, in ascending order.
func Members(f *market.Feed, res *market.Result) (ids []uint64) {
	rows, err := sortedRows(f)
	if err != nil {
		return nil // Advance reports the error
	}
	for _, r := range members(rows, f, res) {
		ids = append(ids, r.id)
	}
	return ids
}

// members returns the rows that become history points. These are the rows of the first
// res.HistoryAssets assets by rank and, if fewer assets have a rank, of the unranked ones with the
// lowest ids. rows are the feed's prices in ascending order of id.
func members(rows []row, f *market.Feed, res *market.Result) []row {
	n := res.HistoryAssets
	if n >= len(rows) {
		return rows
	}
	rank := func(r *row) int { return int(res.Rank[f.Quotes[r.quote].Asset]) }
	unranked := n // how many assets without a rank still get points
	for i := range rows {
		if at := rank(&rows[i]); 0 < at && at <= n {
			unranked--
		}
	}
	in := make([]row, 0, n)
	for i := range rows {
		at := rank(&rows[i])
		if at == 0 {
			unranked--
		}
		if 0 < at && at <= n || at == 0 && unranked >= 0 {
			in = append(in, rows[i])
		}
	}
	return in
}

// find returns the snapshot at time t, or nil if l does not list it.
func (l priceList) find(t time.Time) *priceSet {
	i, ok := slices.BinarySearchFunc(l, t, func(p priceSet, t time.Time) int { return p.Time.Compare(t) })
	if !ok {
		return nil
	}
	return &l[i]
}

// of returns the entries of l whose times are in h.
func (l priceList) of(h priceList) (kept priceList) {
	for i := range l {
		if h.find(l[i].Time) != nil {
			kept = append(kept, l[i])
		}
	}
	return kept
}
