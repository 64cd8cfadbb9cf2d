// Package ledger is what the builder remembers between builds, which otherwise
// know nothing of each other: the ids given out, the prices kept, the newest
// market snapshots of groups and the totals (FEED.md, "Figures"). It is stored
// as immutable objects that a root names; the root is reached
// from the snapshot's manifest, so that both appear together or not at all.
//
// A build loads the ledger of the published snapshot, asks it for what takes
// part in the new one ([Ledger.AssignIDs], [Ledger.Past]), and puts the ledger
// after T ([Ledger.Advance]) beside the new snapshot:
//
//	l, err := ledger.Load(ctx, store, root)
//	err = l.AssignIDs(feed)
//	past, err := l.Past(ctx, feed, t)
//	res := market.Compute(feed, t, past, settings)
//	next, err := l.Advance(ctx, feed, res, t)
//
// The layout of the objects, and why every base is exact, are in README.md.
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

// Ledger is a ledger as it was after some snapshot. It is not safe for
// concurrent use, and serves one build.
type Ledger struct {
	reader artifacts.Reader
	root   *Root
	ids    map[string]*idLog

	// rows are the prices of feed in ascending order of id; see sorted.
	rows []row
	feed *market.Feed
}

// Load reads the ledger that root names, or begins an empty one when root is
// nil. It reads all ids; prices are read by Past and Advance as they need
// them, through r. Bytes that are not what their names promise give
// artifacts.ErrCorrupt.
func Load(ctx context.Context, r artifacts.Reader, root *artifacts.Ref) (*Ledger, error) {
	if root == nil {
		return open(ctx, r, &Root{})
	}
	from, err := ReadRoot(ctx, r, *root)
	if err != nil {
		return nil, fmt.Errorf("ledger: root: %w", err)
	}
	return open(ctx, r, from)
}

func open(ctx context.Context, r artifacts.Reader, root *Root) (*Ledger, error) {
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

// Totals returns the total market caps of the last 48 hours before and with
// the ledger's newest snapshot, oldest first. The caller must not change it.
func (l *Ledger) Totals() []Total { return l.root.Totals }

// sorted returns the feed's prices in ascending order of id. The order is the
// same for Past and Advance, so it is kept.
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

// newest returns the time of the newest snapshot that the ledger holds; ok is
// false when it holds none.
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

// Rollback returns the root of a ledger that remembers the prices, groups and
// totals of target and the ids of newest, so that an id that was ever given
// out stays its key's. Both are roots; newest is the published one, and target
// that of a snapshot before. All objects that it names are those of the two.
func Rollback(ctx context.Context, r artifacts.Reader, newest, target artifacts.Ref) ([]byte, error) {
	from, err := ReadRoot(ctx, r, newest)
	if err != nil {
		return nil, fmt.Errorf("ledger: newest root: %w", err)
	}
	to, err := ReadRoot(ctx, r, target)
	if err != nil {
		return nil, fmt.Errorf("ledger: target root: %w", err)
	}
	to.IDs = from.IDs
	return to.encode(), nil
}

// Without returns a ledger's root without the prices, returns and groups that are
// lost, and says which. Ids have no substitute: when one of theirs is lost, the
// error is artifacts.ErrCorrupt.
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
			if slices.ContainsFunc(left[i].Parts, lost) { // who gave points is not known any more
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
		if log.Segments = slices.DeleteFunc(log.Segments, func(s returnSegment) bool { return lost(s.Ref) }); len(log.Segments) < n {
			gone = append(gone, "returns")
		}
	}
	for _, c := range groupCollections {
		if ref, ok := l.Groups[c]; ok && lost(ref) {
			delete(l.Groups, c)
			gone = append(gone, c)
		}
	}
	return l.encode(), strings.Join(gone, ", "), nil
}
