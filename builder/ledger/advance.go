package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// partRows bounds the rows of one price object. A snapshot with more prices
// has several, so that none comes near artifacts.MaxObjectSize.
const partRows = 1 << 18

// Next is the ledger after a snapshot.
type Next struct {
	// Objects are those that the root names and the ledger before did not
	// write. Each is to be put under its digest before the root.
	Objects [][]byte
	// Root is the root's stored form, an object as well, and After what it says.
	Root  []byte
	After *Root
}

// objects gathers what is to be put.
type objects [][]byte

func (o *objects) add(b []byte) artifacts.Ref {
	*o = append(*o, b)
	return artifacts.Ref{Digest: artifacts.Sum(b), Size: int64(len(b))}
}

// Advance returns the ledger after the snapshot at T: with the feed's ids and
// prices, and with res, what was computed from it and from Past. What is too
// old at T is left out. Equal ledgers, feeds and times give equal bytes.
//
// It reads the prices of three snapshots at most: the newest one, and at the
// first snapshot of an hour or a day the first of the hour or day before.
func (l *Ledger) Advance(ctx context.Context, f *market.Feed, res *market.Result, t time.Time) (*Next, error) {
	if err := l.checkTime(t); err != nil {
		return nil, err
	}
	var put objects
	root, err := l.advance(ctx, f, res, t.UTC(), &put)
	if err != nil {
		return nil, err
	}
	return &Next{Objects: put, Root: root.encode(), After: root}, nil
}

func (l *Ledger) advance(ctx context.Context, f *market.Feed, res *market.Result, t time.Time, put *objects) (*Root, error) {
	root := &Root{Format: artifacts.Format, IDs: map[string]idSegments{}, Groups: map[string]artifacts.Ref{}}
	for _, c := range collections {
		root.IDs[c] = l.ids[c].store(put)
	}
	rows, err := l.sorted(f)
	if err != nil {
		return nil, err
	}
	root.Prices = append(l.root.Prices.at(t), putPrices(rows, t, put))
	if err := root.chart(ctx, l.reader, l.root.Charted, rows, f, res, put); err != nil {
		return nil, fmt.Errorf("ledger: history: %w", err)
	}
	for zone := range zones {
		back, err := l.returned(ctx, zone, rows, t)
		if err == nil {
			root.Returns[zone], err = l.advanceReturns(ctx, zone, t, back, put)
		}
		if err != nil {
			return nil, fmt.Errorf("ledger: returns: %w", err)
		}
	}
	for _, c := range groupCollections {
		if ref, ok := putGroups(res.Groups[c], put); ok {
			root.Groups[c] = ref
		}
	}
	for _, total := range l.root.Totals {
		if zoneOf(t, total.Time) == recent {
			root.Totals = append(root.Totals, total)
		}
	}
	root.Totals = append(root.Totals, Total{Time: t, MarketCap: res.TotalMarketCap.Dec()})
	return root, nil
}

// putPrices adds a snapshot of prices, in parts.
func putPrices(rows []row, t time.Time, put *objects) priceSet {
	h := priceSet{Time: t}
	for part := range slices.Chunk(rows, partRows) {
		h.Parts = append(h.Parts, put.add(appendRows(nil, part)))
	}
	return h
}
