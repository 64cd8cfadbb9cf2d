package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// Price is the price of an asset at an earlier time.
type Price struct {
	ID    uint64
	Price market.U128
}

// Import adds prices of earlier times to a ledger, as if snapshots with these prices had been built
// at those times. Existing prices do not change, unless Rewrite is set. All prices of an added
// snapshot are history points. Every field except Rewrite and Changed must be set.
type Import struct {
	// Ledger is the ledger to extend. T is the time of its newest snapshot or, if it is empty, of
	// the snapshot that will follow the import. An import keeps the prices that a build at T would
	// keep.
	Ledger  *Ledger
	T       time.Time
	Rewrite bool
	// Put stores an object.
	Put func([]byte) error
	// Changed is set when a price has been added or replaced.
	Changed bool

	root    *Root
	objects objects
	old     priceList // prices in Ledger that have not been copied to root yet
	charted priceList
	returns returnsWriter
}

// ErrOldLedger is returned for a ledger written by a builder without history.
var ErrOldLedger = errors.New("a builder without history wrote the ledger: build once, then import")

// Open prepares the import. It must be called before Add.
func (im *Import) Open() error {
	from := im.Ledger.root
	if from.Charted == nil && len(from.Prices) > 0 {
		return ErrOldLedger
	}
	im.root = &Root{Format: artifacts.Format, IDs: from.IDs, Groups: from.Groups, Totals: slices.Clone(from.Totals),
		Directory: from.Directory}
	if im.root.IDs == nil {
		im.root.IDs, im.root.Groups = map[string]idSegments{}, map[string]artifacts.Ref{}
	}
	im.old = from.Prices
	im.returns = returnsWriter{end: im.T, put: &im.objects}
	return nil
}

// Times returns the times of the snapshots that the ledger keeps, oldest first.
func (l *Root) Times() (times []time.Time) {
	for i := range l.Prices {
		times = append(times, l.Prices[i].Time)
	}
	return times
}

func (l *Ledger) Root() *Root { return l.root }

// Add adds prices in ascending order of id. t must be later than all times added so far, and not
// later than T. total is the market cap of the whole market at t, in units of 1e-8 dollars, or ""
// if it is unknown.
func (im *Import) Add(ctx context.Context, t time.Time, prices []Price, total string) error {
	if err := im.take(ctx, t); err != nil {
		return err
	}
	rows := make([]row, len(prices))
	for i, p := range prices {
		rows[i] = row{id: p.ID, price: p.Price}
	}
	list := append(im.root.Prices, priceSet{Time: t})
	if len(im.old) > 0 && im.old[0].Time.Equal(t) {
		return im.merge(ctx, t, rows)
	}
	if zone := zoneOf(im.T, t); zone == zones || !list.inStep(zone, len(list)-1) {
		return nil
	}
	im.Changed = true
	list[len(list)-1] = putPrices(rows, t, &im.objects)
	im.root.Prices = list
	im.returns.add(list, rows)
	if total != "" && zoneOf(im.T, t) == recent {
		at, _ := slices.BinarySearchFunc(im.root.Totals, t, func(a Total, t time.Time) int { return a.Time.Compare(t) })
		im.root.Totals = slices.Insert(im.root.Totals, at, Total{Time: t, MarketCap: total})
	}
	return im.flush()
}

// merge adds rows to the prices that the ledger already keeps for time t.
func (im *Import) merge(ctx context.Context, t time.Time, rows []row) error {
	old := im.old[0]
	im.old = im.old[1:]
	had, err := old.rows(ctx, im.Ledger.reader)
	if err != nil {
		return err
	}
	all, changed := mergeRows(had, rows, im.Rewrite)
	set := old
	if changed {
		im.Changed = true
		set = putPrices(all, t, &im.objects)
	}
	im.root.Prices = append(im.root.Prices, set)
	im.returns.add(im.root.Prices, all)
	if c := im.Ledger.root.Charted.find(t); c != nil {
		points, err := c.rows(ctx, im.Ledger.reader)
		if err != nil {
			return err
		}
		some := *c
		if points, changed = mergeRows(points, pricesOf(all, rows), im.Rewrite); changed {
			im.Changed = true
			some = putPrices(points, t, &im.objects)
		}
		im.charted = append(im.charted, some)
	}
	return im.flush()
}

// pricesOf returns a copy of assets with the prices from priceRows, which must contain each of
// these assets.
func pricesOf(priceRows, assets []row) []row {
	rows, at := slices.Clone(assets), 0
	for i := range rows {
		at = seek(priceRows, at, rows[i].id)
		rows[i].price = priceRows[at].price
	}
	return rows
}

// take copies the ledger's snapshots that are earlier than t to the new root.
func (im *Import) take(ctx context.Context, t time.Time) error {
	for len(im.old) > 0 && im.old[0].Time.Before(t) {
		old := im.old[0]
		im.old = im.old[1:]
		rows, err := old.rows(ctx, im.Ledger.reader)
		if err != nil {
			return err
		}
		im.root.Prices = append(im.root.Prices, old)
		im.returns.add(im.root.Prices, rows)
		if c := im.Ledger.root.Charted.find(old.Time); c != nil {
			im.charted = append(im.charted, *c)
		}
	}
	return nil
}

// flush stores the new objects and removes them from memory.
func (im *Import) flush() error {
	for _, o := range im.objects {
		if err := im.Put(o); err != nil {
			return err
		}
	}
	im.objects = im.objects[:0]
	return nil
}

// Close returns the ledger after the import. pastBlocks are the past blocks that the next snapshot
// extends.
func (im *Import) Close(ctx context.Context, pastBlocks []artifacts.View) (*Ledger, error) {
	if err := im.take(ctx, im.T.Add(artifacts.Step)); err != nil {
		return nil, err
	}
	im.root.Charted, im.root.Returns, im.root.Past = &im.charted, im.returns.close(), pastBlocks
	if err := im.flush(); err != nil {
		return nil, err
	}
	return &Ledger{reader: im.Ledger.reader, root: im.root, ids: im.Ledger.ids}, nil
}

// rows reads the snapshot's prices in ascending order of id.
func (p *priceSet) rows(ctx context.Context, r artifacts.ObjectReader) (rows []row, err error) {
	err = p.read(ctx, r, func(part *reader) {
		part.each(func(id uint64, price market.U128) { rows = append(rows, row{id: id, price: price}) })
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: prices of %s: %w", p.Time.Format(time.RFC3339), err)
	}
	return rows, nil
}

// mergeRows merges oldRows and newRows, which are both in ascending order of id. If an asset is in
// both, the price in oldRows remains, unless replace is set. changed reports whether the result
// differs from oldRows.
func mergeRows(oldRows, newRows []row, replace bool) (all []row, changed bool) {
	all = make([]row, 0, len(oldRows)+len(newRows))
	for _, r := range newRows {
		for len(oldRows) > 0 && oldRows[0].id < r.id {
			all, oldRows = append(all, oldRows[0]), oldRows[1:]
		}
		if len(oldRows) > 0 && oldRows[0].id == r.id {
			if !replace {
				r = oldRows[0]
			}
			changed = changed || r.price != oldRows[0].price
			oldRows = oldRows[1:]
		} else {
			changed = true
		}
		all = append(all, r)
	}
	return append(all, oldRows...), changed
}
