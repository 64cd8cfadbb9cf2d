package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// LoadIDs returns a ledger that contains only the ids of root.
func LoadIDs(ctx context.Context, r artifacts.ObjectReader, root artifacts.Ref) (*Ledger, error) {
	from, err := ReadRoot(ctx, r, root)
	if err != nil {
		return nil, fmt.Errorf("ledger: root: %w", err)
	}
	return open(ctx, r, &Root{IDs: from.IDs})
}

// IDs merges the ids that several ledgers of one store assigned, for example the store's ledger and
// a backup's. None of these ids will be assigned to another key.
type IDs struct{ logs map[string]*idLog }

// GatherIDs returns an IDs with the ids from one ledger.
func GatherIDs(ctx context.Context, r artifacts.ObjectReader, root artifacts.Ref) (*IDs, error) {
	l, err := LoadIDs(ctx, r, root)
	if err != nil {
		return nil, err
	}
	return &IDs{l.ids}, nil
}

// Add adds the ids from another published ledger. Keys in g keep their ids. If the other ledger
// gave a different id to the same key, Add reserves that id, so no other key gets it.
func (g *IDs) Add(ctx context.Context, r artifacts.ObjectReader, root artifacts.Ref) error {
	l, err := LoadIDs(ctx, r, root)
	if err != nil {
		return err
	}
	for _, c := range collections {
		own, other := g.logs[c], l.ids[c]
		for _, id := range slices.Sorted(maps.Keys(other.byID)) {
			if own.byID[id] != "" {
				continue
			}
			key := other.byID[id]
			if _, known := own.byKey[key]; known {
				key = reservedKey(id)
			}
			if err := own.give(id, key); err != nil {
				return fmt.Errorf("ids of %s: %w", c, err)
			}
		}
	}
	return nil
}

// reservedKey returns the key under which an id is reserved. It is longer than any key in a feed.
// The entry has the ordinary form, so earlier releases also keep it.
func reservedKey(id uint64) string { return fmt.Sprintf("(reserved)%0300d", id) }

// stepIDs is the number of ids that Skip reserves for each ten minutes since skipEpoch.
const stepIDs = 1 << 20

var skipEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Skip makes new ids start above every id that may have been assigned until now. It reserves an id
// that is stepIDs above the highest known id, or above stepIDs times the number of ten-minute steps
// since 2026, whichever is higher. So a later Skip from the same ids starts above the ids assigned
// after this one. New ids start at market.MaxNewID at most, which leaves 2^32 ids.
func (g *IDs) Skip(now time.Time) error {
	past := uint64(max(0, now.Sub(skipEpoch)/artifacts.Step)) * stepIDs
	for _, c := range collections {
		l := g.logs[c]
		id := min(max(l.highest, past)+stepIDs, market.MaxNewID)
		if l.byID[id] != "" {
			continue
		}
		if err := l.give(id, reservedKey(id)); err != nil {
			return fmt.Errorf("ids of %s: %w", c, err)
		}
	}
	return nil
}

// Ledger returns the ledger of target with the ids in g. It lacks the directory, because it cannot
// tell what changed in the snapshots that were published after target.
func (g *IDs) Ledger(ctx context.Context, r artifacts.ObjectReader, target artifacts.Ref) (*Next, error) {
	root, err := ReadRoot(ctx, r, target)
	if err != nil {
		return nil, fmt.Errorf("ledger: target root: %w", err)
	}
	var put objects
	root.IDs, root.Directory = map[string]idSegments{}, nil
	for _, c := range collections {
		root.IDs[c] = g.logs[c].store(&put)
	}
	return &Next{Objects: put, Root: root.Encode(), After: root}, nil
}

// Remembers reports whether a snapshot at time t was built and not rolled back. known is false if
// the ledger cannot tell, because t is too old or is later than the newest snapshot.
func (l *Root) Remembers(t time.Time) (built, known bool) {
	h := l.Prices
	if len(h) == 0 || t.Before(h[0].Time) || t.After(h[len(h)-1].Time) {
		return false, false
	}
	if h.find(t) != nil {
		return true, true
	}
	step := map[int]time.Duration{recent: artifacts.Step, hourly: time.Hour, daily: day}[zoneOf(h[len(h)-1].Time, t)]
	if step == 0 {
		return false, false
	}
	// The first snapshot of each step is kept, so no earlier one was built in its step.
	i := slices.IndexFunc(h, func(p priceSet) bool { return !p.Time.Before(t.Truncate(step)) })
	return false, h[i].Time.After(t)
}
