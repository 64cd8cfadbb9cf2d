package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// partRows is the maximum number of rows in one price object. A snapshot with more prices has
// several objects, so none comes near artifacts.MaxObjectSize.
const partRows = 1 << 18

// Next is the ledger after a snapshot, as Advance returns it.
type Next struct {
	// Objects are the new objects that the root names. The caller stores each one under its digest
	// before it stores the root.
	Objects [][]byte
	// Root is the encoded root, which is itself an object. After is the same root, decoded.
	Root  []byte
	After *Root
}

// objects collects the objects to store.
type objects [][]byte

func (o *objects) add(b []byte) artifacts.Ref {
	*o = append(*o, b)
	return artifacts.RefOf(b)
}

// Advance returns the ledger after the snapshot at T. It adds the feed's ids and prices and the
// figures in res, and drops entries that are too old at T. Equal ledgers, feeds and times produce
// equal bytes.
//
// Advance reads the prices of at most three snapshots: the newest one and, if T begins an hour or a
// day, the first ones of the previous hour and day.
func (l *Ledger) Advance(ctx context.Context, f *market.Feed, res *market.Result, t time.Time) (*Next, error) {
	if err := l.checkTime(t); err != nil {
		return nil, err
	}
	var put objects
	root, err := l.advance(ctx, f, res, t.UTC(), &put)
	if err != nil {
		return nil, err
	}
	return &Next{Objects: put, Root: root.Encode(), After: root}, nil
}

func (l *Ledger) advance(ctx context.Context, f *market.Feed, res *market.Result, t time.Time,
	put *objects) (*Root, error) {
	root := &Root{Format: artifacts.Format, IDs: map[string]idSegments{}, Groups: map[string]artifacts.Ref{},
		Directory: l.root.Directory}
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

// putPrices adds a snapshot's prices, in parts of partRows rows, to the given objects.
func putPrices(rows []row, t time.Time, put *objects) priceSet {
	h := priceSet{Time: t}
	for part := range slices.Chunk(rows, partRows) {
		h.Parts = append(h.Parts, put.add(appendRows(nil, part)))
	}
	return h
}
