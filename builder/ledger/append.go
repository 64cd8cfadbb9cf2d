package ledger

import (
	"context"
	"fmt"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// Appender makes a ledger of many snapshots for a fraction of the cost of as many calls of
// [Ledger.Advance], since it writes what every snapshot changes only at the end. It remembers no
// groups, and keeps all snapshots: the next Advance drops what is too old.
type Appender struct {
	ledger  *Ledger
	root    *Root
	put     objects
	returns returnsWriter
}

// Append starts with the ids of l, which remembers no snapshot. end is the newest time that the
// ledger will have: returns that nobody looks up from then on are left out.
func (l *Ledger) Append(end time.Time) *Appender {
	a := &Appender{ledger: l, root: &Root{
		Format: artifacts.Format, IDs: map[string]idSegments{}, Groups: map[string]artifacts.Ref{},
	}}
	a.returns = returnsWriter{end: end, put: &a.put}
	return a
}

// Add adds the prices and the total of the snapshot at t, later than those before; its assets
// have their ids. It returns the new objects, which the caller stores.
func (a *Appender) Add(ctx context.Context, f *market.Feed, res *market.Result, t time.Time) ([][]byte, error) {
	rows, err := a.ledger.sorted(f)
	if err != nil {
		return nil, err
	}
	a.root.Prices = append(a.root.Prices, putPrices(rows, t, &a.put))
	if err := a.root.chart(ctx, a.ledger.reader, a.root.Charted, rows, f, res, &a.put); err != nil {
		return nil, fmt.Errorf("ledger: history: %w", err)
	}
	a.returns.add(a.root.Prices, rows)
	if zoneOf(a.returns.end, t) == recent {
		a.root.Totals = append(a.root.Totals, Total{Time: t, MarketCap: res.TotalMarketCap.Dec()})
	}
	done := a.put
	a.put = nil
	return done, nil
}

// Points returns the points of the snapshot that was added last, as [Root.Points] does.
func (a *Appender) Points(ctx context.Context, r artifacts.ObjectReader, t time.Time) ([]Point, error) {
	return a.root.Points(ctx, r, t)
}

// Close returns the ledger with the objects that are not stored yet.
func (a *Appender) Close() *Next {
	for _, c := range collections {
		a.root.IDs[c] = a.ledger.ids[c].store(&a.put)
	}
	a.root.Returns = a.returns.close()
	return &Next{Objects: a.put, Root: a.root.encode(), After: a.root}
}
