package ledger

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// Past returns what the snapshot at T needs from the ledger: the base of every quote for each
// window, and each group's newest market snapshot. Every asset in the feed must have its id
// (AssignIDs). T is a multiple of ten minutes and later than every snapshot in the ledger.
//
// Past reads the prices of at most nine snapshots: the first one kept in each window, and the first
// one in the last 48 hours. Windows that start with the same snapshot share one slice of bases.
func (l *Ledger) Past(ctx context.Context, f *market.Feed, t time.Time) (*market.Past, error) {
	if err := l.checkTime(t); err != nil {
		return nil, err
	}
	past := &market.Past{}
	var err error
	if past.Bases, past.Ages, err = l.bases(ctx, f, t); err != nil {
		return nil, fmt.Errorf("ledger: prices: %w", err)
	}
	if past.Groups, err = l.groups(ctx); err != nil {
		return nil, fmt.Errorf("ledger: groups: %w", err)
	}
	return past, nil
}

// stretch is the time from one kept snapshot to T.
type stretch struct {
	first *priceSet
	// earliest holds each quote's earliest price in the stretch. ages holds that price's age at T
	// in steps of ten minutes; an age of 0 means that there is no such price. A price may be zero.
	earliest []market.U128
	ages     []uint16
}

func newStretch(first *priceSet, quotes int) *stretch {
	return &stretch{first, make([]market.U128, quotes), make([]uint16, quotes)}
}

func (s *stretch) offer(quote int32, price market.U128, age uint16) {
	if s.ages[quote] == 0 {
		s.earliest[quote], s.ages[quote] = price, age
	}
}

// ageAt returns the number of steps from snapshotTime to t. snapshotTime must be at most a year
// before t.
func ageAt(t, snapshotTime time.Time) uint16 { return uint16(t.Sub(snapshotTime) / artifacts.Step) }

// bases determines, for each window, the earliest kept price of every quote and its age. Both are
// zero if the quote's own price is the only one.
//
// The first snapshot kept in a window has a price for nearly every quote. For the remaining quotes,
// the earliest price is where the asset first came back. If that happened in the first snapshot's
// zone, the returns for the zone's step contain it: the snapshots kept in the zone form a chain for
// that step without a gap, and the quote is missing at its start. Otherwise the earliest price is
// in a younger zone, which also forms a stretch: from the first snapshot in the last 90 days, or
// from the first in the last 48 hours. The window 90d starts at the former, so only the latter is
// added to the windows' starts.
func (l *Ledger) bases(ctx context.Context, f *market.Feed, t time.Time,
) (bases [8][]market.U128, ages [8][]uint16, err error) {
	rows, err := l.sorted(f)
	if err != nil {
		return bases, ages, err
	}
	h := l.root.Prices.at(t)
	first := func(fits func(time.Time) bool) int {
		return sort.Search(len(h), func(i int) bool { return fits(h[i].Time) })
	}
	begin := [len(bases)]int{}
	for w, length := range market.WindowLengths {
		begin[w] = first(func(kept time.Time) bool { return !kept.Before(t.Add(-length)) })
	}
	begins := append(begin[:], first(func(kept time.Time) bool { return zoneOf(t, kept) == recent }))
	slices.Sort(begins)
	begins = slices.Compact(begins)

	stretches := map[int]*stretch{len(h): newStretch(nil, len(rows))}
	for zone := range zones {
		var here []*stretch // oldest first
		for _, i := range begins {
			if i < len(h) && zoneOf(t, h[i].Time) == zone {
				stretches[i] = newStretch(&h[i], len(rows))
				here = append(here, stretches[i])
			}
		}
		if err := l.search(ctx, t, zone, here, rows); err != nil {
			return bases, ages, err
		}
		younger := stretches[first(func(kept time.Time) bool { return zoneOf(t, kept) < zone })]
		for _, s := range here {
			for q, age := range younger.ages {
				if age > 0 {
					s.offer(int32(q), younger.earliest[q], age)
				}
			}
		}
	}
	for w, i := range begin {
		bases[w], ages[w] = stretches[i].earliest, stretches[i].ages
	}
	return bases, ages, nil
}

// search offers the prices kept in a zone to the given stretches, which are those that start in
// that zone, oldest first.
func (l *Ledger) search(ctx context.Context, t time.Time, zone int, stretches []*stretch, rows []row) error {
	for _, s := range stretches {
		age := ageAt(t, s.first.Time)
		err := l.eachPrice(ctx, s.first, rows, func(i int, price market.U128) { s.offer(rows[i].quote, price, age) })
		if err != nil {
			return err
		}
	}
	for _, segment := range l.root.Returns[zone].Segments {
		if len(stretches) == 0 || !segment.Newest.After(stretches[0].first.Time) {
			continue
		}
		b, err := artifacts.ReadObject(ctx, l.reader, segment.Ref)
		if err != nil {
			return err
		}
		err = readReturns(b, rows, func(at time.Time) func(int, market.U128) {
			// Each of stretches[:n] contains the batch.
			n := sort.Search(len(stretches), func(i int) bool { return !stretches[i].first.Time.Before(at) })
			if zoneOf(t, at) != zone {
				n = 0
			}
			age := ageAt(t, at)
			return func(i int, price market.U128) {
				for _, s := range stretches[:n] {
					s.offer(rows[i].quote, price, age)
				}
			}
		})
		if err != nil {
			return fmt.Errorf("object %s: %w", segment.Digest, err)
		}
	}
	return nil
}

// eachPrice calls f with the index and the price of each row whose asset has a price in a kept
// snapshot.
func (l *Ledger) eachPrice(ctx context.Context, h *priceSet, rows []row, f func(i int, price market.U128)) error {
	return h.read(ctx, l.reader, func(part *reader) { part.rows(rows, f) })
}

// read calls f for each object with prices.
func (h *priceSet) read(ctx context.Context, from artifacts.ObjectReader, f func(part *reader)) error {
	for _, part := range h.Parts {
		b, err := artifacts.ReadObject(ctx, from, part)
		if err != nil {
			return err
		}
		r := reader{b: b}
		f(&r)
		if r.bad || len(r.b) > 0 {
			return fmt.Errorf("object %s: %w: not a part of a snapshot's prices", part.Digest, artifacts.ErrCorrupt)
		}
	}
	return nil
}

// Days returns, in ascending order, the UTC days for which the ledger keeps prices. It includes
// only days that lie entirely between begin and end.
func (l *Ledger) Days(begin, end time.Time) (days []time.Time) {
	for i := range l.root.Prices {
		day := l.root.Prices[i].Time.Truncate(24 * time.Hour)
		if !day.Before(begin) && day.Before(end.Truncate(24*time.Hour)) && !slices.Contains(days, day) {
			days = append(days, day)
		}
	}
	return days
}

// EachPrice calls f with every price that the ledger keeps for a UTC day, ordered by time, then by
// id.
func (l *Ledger) EachPrice(ctx context.Context, day time.Time, f func(t time.Time, id uint64, price market.U128),
) error {
	for i := range l.root.Prices {
		p := &l.root.Prices[i]
		if !p.Time.Truncate(24 * time.Hour).Equal(day) {
			continue
		}
		err := p.read(ctx, l.reader, func(part *reader) {
			part.each(func(id uint64, price market.U128) { f(p.Time, id, price) })
		})
		if err != nil {
			return fmt.Errorf("ledger: prices: %w", err)
		}
	}
	return nil
}
