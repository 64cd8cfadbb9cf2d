package ledger

import (
	"context"
	"fmt"
	"maps"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// LoadIDs returns a ledger with the ids of root and nothing else. A backfill starts
// with it to build a past before that of root.
func LoadIDs(ctx context.Context, r artifacts.ObjectReader, root artifacts.Ref) (*Ledger, error) {
	from, err := ReadRoot(ctx, r, root)
	if err != nil {
		return nil, fmt.Errorf("ledger: root: %w", err)
	}
	return open(ctx, r, &Root{IDs: from.IDs})
}

// Join returns the ledger that would exist if the snapshots of past and newest had been built one
// after the other, except for the order in which ids were assigned. Both are roots. past was
// started by LoadIDs from newest and ends before the oldest price in newest.
//
// The returns of newest depend on what came before, so Join computes all returns
// again from the prices kept. historyAssets applies to a newest that a builder
// without history wrote; see Root.points.
func Join(ctx context.Context, r artifacts.ObjectReader, past, newest artifacts.Ref, historyAssets int) (*Next, error) {
	var put objects
	root, err := join(ctx, r, past, newest, historyAssets, &put)
	if err != nil {
		return nil, fmt.Errorf("ledger: join: %w", err)
	}
	return &Next{Objects: put, Root: root.encode(), After: root}, nil
}

func join(ctx context.Context, r artifacts.ObjectReader, past, newest artifacts.Ref, historyAssets int,
	put *objects) (*Root, error) {
	a, err := ReadRoot(ctx, r, past)
	if err != nil {
		return nil, err
	}
	b, err := ReadRoot(ctx, r, newest)
	if err != nil {
		return nil, err
	}
	if len(a.Prices) == 0 || len(b.Prices) == 0 || !a.Prices[len(a.Prices)-1].Time.Before(b.Prices[0].Time) {
		return nil, fmt.Errorf("the past does not end before the time from which prices are kept")
	}
	t := b.Prices[len(b.Prices)-1].Time
	h := append(a.Prices, b.Prices...).at(t)
	root := &Root{
		Format: artifacts.Format, IDs: a.IDs, Prices: h, Groups: map[string]artifacts.Ref{},
	}
	older, err := a.points(ctx, r, a.Charted, historyAssets)
	if err != nil {
		return nil, err
	}
	newer, err := b.points(ctx, r, b.Charted, historyAssets)
	if err != nil {
		return nil, err
	}
	charted := append(older, newer...).of(h)
	root.Charted = &charted
	if root.Returns, err = returnsOf(ctx, r, h, put); err != nil {
		return nil, err
	}
	before, err := (&Ledger{reader: r, root: a}).groups(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := (&Ledger{reader: r, root: b}).groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range groupCollections {
		all := maps.Clone(before[c])
		if all == nil {
			all = groups[c]
		}
		maps.Copy(all, groups[c])
		if ref, ok := putGroups(all, put); ok {
			root.Groups[c] = ref
		}
	}
	for _, total := range append(a.Totals, b.Totals...) {
		if zoneOf(t, total.Time) == recent {
			root.Totals = append(root.Totals, total)
		}
	}
	return root, nil
}

// returnsOf computes the returns of each zone's step from all snapshots kept. If
// the previous snapshot of the step is no longer kept, the one before it stands in,
// or none. That concerns only the oldest snapshot of a zone, whose returns are
// never looked up (README.md, "Why every base is exact").
func returnsOf(ctx context.Context, r artifacts.ObjectReader, h priceList, put *objects,
) (logs [zones]returnLog, err error) {
	if len(h) == 0 {
		return logs, nil
	}
	w := returnsWriter{end: h[len(h)-1].Time, put: put}
	for i := range h {
		var rows []row
		err := h[i].read(ctx, r, func(part *reader) {
			part.each(func(id uint64, price market.U128) { rows = append(rows, row{id: id, price: price}) })
		})
		if err != nil {
			return logs, err
		}
		w.add(h[:i+1], rows)
	}
	return w.close(), nil
}

// returnsWriter writes the returns of many snapshots, oldest first.
type returnsWriter struct {
	end  time.Time // returns that are too old for their zone then are left out
	put  *objects
	last [zones][]row // of the step's snapshot before
	logs [zones]returnWriter
}

// add adds the last snapshot of h, with these prices.
func (w *returnsWriter) add(h priceList, rows []row) {
	i := len(h) - 1
	for zone := range zones {
		if !h.inStep(zone, i) {
			continue
		}
		if i > 0 && w.end.Sub(h[i].Time) <= zoneAge[zone] {
			w.logs[zone].put = w.put
			w.logs[zone].add(h[i].Time, missing(rows, w.last[zone]))
		}
		w.last[zone] = rows
	}
}

func (w *returnsWriter) close() (logs [zones]returnLog) {
	for zone := range zones {
		logs[zone] = w.logs[zone].close()
	}
	return logs
}

// missing returns the rows whose asset is not in other; both ascend by id.
func missing(rows, other []row) (not []row) {
	at := 0
	for _, r := range rows {
		if at = seek(other, at, r.id); at == len(other) || other[at].id != r.id {
			not = append(not, r)
		}
	}
	return not
}
