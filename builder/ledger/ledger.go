// Package ledger stores what the builder remembers between builds: the ids that it has assigned,
// the prices that it keeps, the newest market snapshot of each group, and the totals (FEED.md,
// "Figures"). A ledger consists of immutable objects that a root names. The snapshot's manifest
// names the root, so the snapshot and its ledger appear together or not at all.
//
// A build loads the ledger of the published snapshot, reads ids and base prices from it
// ([Ledger.AssignIDs], [Ledger.Past]), and stores the ledger at T ([Ledger.Advance]) with the new
// snapshot:
//
//	l, err := ledger.Load(ctx, store, root)
//	err = l.AssignIDs(feed)
//	past, err := l.Past(ctx, feed, t)
//	res := market.Compute(feed, t, past, settings)
//	next, err := l.Advance(ctx, feed, res, t)
//
// README.md describes the layout of the objects and explains why every base is exact.
package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// Ledger is the ledger after one snapshot. It serves one build and is not safe for concurrent use.
type Ledger struct {
	reader artifacts.ObjectReader
	root   *Root
	ids    map[string]*idLog

	// rows caches the result of sorted for feed.
	rows []row
	feed *market.Feed
}

// Load reads the ledger that root names; if root is nil, the ledger is empty. Load reads all ids.
// Past and Advance read prices through r as they need them. Load returns artifacts.ErrCorrupt if an
// object does not match its digest.
func Load(ctx context.Context, r artifacts.ObjectReader, root *artifacts.Ref) (*Ledger, error) {
	if root == nil {
		return open(ctx, r, &Root{})
	}
	from, err := ReadRoot(ctx, r, *root)
	if err != nil {
		return nil, fmt.Errorf("ledger: root: %w", err)
	}
	return open(ctx, r, from)
}

func open(ctx context.Context, r artifacts.ObjectReader, root *Root) (*Ledger, error) {
	l := &Ledger{reader: r, root: root, ids: map[string]*idLog{}}
	for _, c := range collections {
		log, err := loadIDs(ctx, r, root.IDs[c])
		if err != nil {
			return nil, fmt.Errorf("ledger: ids of %s: %w", c, err)
		}
		l.ids[c] = log
	}
	return l, nil
}

// sorted returns the feed's prices in ascending order of id. It caches the result, since Past and
// Advance both need it.
func (l *Ledger) sorted(f *market.Feed) ([]row, error) {
	if l.feed == f {
		return l.rows, nil
	}
	rows, err := sortedRows(f)
	if err != nil {
		return nil, err
	}
	l.rows, l.feed = rows, f
	return rows, nil
}

// newest returns the time of the ledger's newest snapshot. ok is false if the ledger is empty.
func (l *Ledger) newest() (t time.Time, ok bool) {
	if n := len(l.root.Prices); n > 0 {
		return l.root.Prices[n-1].Time, true
	}
	return t, false
}

func (l *Ledger) checkTime(t time.Time) error {
	if !t.Equal(t.Truncate(artifacts.Step)) {
		return fmt.Errorf("ledger: time %v is no multiple of ten minutes", t)
	}
	if last, ok := l.newest(); ok && !last.Before(t) {
		return fmt.Errorf("ledger: time %v is not later than the newest snapshot, of %v", t, last)
	}
	return nil
}

// Rollback returns an encoded root with the prices, groups, totals and directory of target and the
// ids of newest, so that every assigned id stays with its key. newest is the published snapshot,
// and target is an earlier one. The result names only objects that one of the two ledgers names.
func Rollback(ctx context.Context, r artifacts.ObjectReader, newest, target *artifacts.Manifest) ([]byte, error) {
	from, err := ReadRoot(ctx, r, newest.Ledger)
	if err != nil {
		return nil, fmt.Errorf("ledger: newest root: %w", err)
	}
	to, err := ReadRoot(ctx, r, target.Ledger)
	if err != nil {
		return nil, fmt.Errorf("ledger: target root: %w", err)
	}
	to.IDs = from.IDs
	to.Directory = to.Directory.withdraw(from.Directory, newest, target)
	return to.Encode(), nil
}

// Without returns the encoded root b with its lost objects removed, and a description of what was
// removed. Prices, returns, groups, the directory and candles can be removed. Ids cannot be
// replaced: if a segment of ids is lost, Without returns artifacts.ErrCorrupt.
func Without(b []byte, lost func(artifacts.Ref) bool) (root []byte, what string, err error) {
	l, err := parseRoot(b)
	if err != nil {
		return nil, "", err
	}
	for c, ids := range l.IDs {
		if slices.ContainsFunc(ids.Segments, lost) {
			return nil, "", fmt.Errorf("%w: ids of %s are lost", artifacts.ErrCorrupt, c)
		}
	}
	var gone []string
	l.Prices = slices.DeleteFunc(l.Prices, func(p priceSet) bool {
		if !slices.ContainsFunc(p.Parts, lost) {
			return false
		}
		gone = append(gone, "prices of "+p.Time.Format(time.RFC3339))
		return true
	})
	if l.Charted != nil {
		left := slices.DeleteFunc(*l.Charted, func(p priceSet) bool { return l.Prices.find(p.Time) == nil })
		for i := range left {
			if slices.ContainsFunc(left[i].Parts, lost) { // without these parts, nothing says which assets have points
				left[i].Parts = nil
				gone = append(gone, "history of "+left[i].Time.Format(time.RFC3339))
			}
		}
		l.Charted = &left
	}
	if n := len(gone); n > 3 {
		gone = []string{fmt.Sprintf("prices of %d snapshots", n)}
	}
	for i := range l.Returns {
		log := &l.Returns[i]
		n := len(log.Segments)
		if log.Segments = slices.DeleteFunc(log.Segments,
			func(s returnSegment) bool { return lost(s.Ref) }); len(log.Segments) < n {
			gone = append(gone, "returns")
		}
	}
	for _, c := range groupCollections {
		if ref, ok := l.Groups[c]; ok && lost(ref) {
			delete(l.Groups, c)
			gone = append(gone, c)
		}
	}
	if slices.ContainsFunc(l.Directory.refs(), lost) {
		l.Directory = nil
		gone = append(gone, "the previous directory")
	}
	n := len(l.Past)
	if l.Past = slices.DeleteFunc(l.Past, func(v artifacts.View) bool {
		return slices.ContainsFunc(v.Objects, func(o artifacts.ViewObject) bool { return lost(o.Ref) })
	}); len(l.Past) < n {
		gone = append(gone, "candles")
	}
	return l.Encode(), strings.Join(gone, ", "), nil
}
