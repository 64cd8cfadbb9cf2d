package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// IDs merges the ids that several ledgers of one store assigned, for instance those of a backup and
// those left in a damaged store. None of these ids will be assigned to another key.
type IDs struct {
	logs map[string]*idLog
	seen map[artifacts.Digest]bool // segments whose entries are in logs
}

// GatherIDs starts with the ids of one ledger. All of them must be readable.
func GatherIDs(ctx context.Context, r artifacts.ObjectReader, root artifacts.Ref) (*IDs, error) {
	l, err := LoadIDs(ctx, r, root)
	if err != nil {
		return nil, err
	}
	g := &IDs{logs: l.ids, seen: map[artifacts.Digest]bool{}}
	for _, ids := range l.root.IDs {
		for _, ref := range ids.Segments {
			g.seen[ref.Digest] = true
		}
	}
	return g, nil
}

// claim is a ledger's statement that an id belongs to a key.
type claim struct {
	id  uint64
	key string
}

// Add merges the ids of other published ledgers, as far as they can be read; whole is false if a
// part cannot. Where two ledgers disagree about an id or a key, Add reserves the ids concerned, so
// that they are never assigned again. Ids already merged stay as they are.
func (g *IDs) Add(ctx context.Context, r artifacts.ObjectReader, roots []artifacts.Ref) (whole bool, err error) {
	return g.take(ctx, r, roots, (*idLog).adopt)
}

// Reserve reserves the ids of ledgers that may never have been published, because
// a lost ledger may have assigned the same ids to other keys.
func (g *IDs) Reserve(ctx context.Context, r artifacts.ObjectReader, roots []artifacts.Ref) error {
	_, err := g.take(ctx, r, roots, (*idLog).reserve)
	return err
}

func (g *IDs) take(
	ctx context.Context, r artifacts.ObjectReader, roots []artifacts.Ref, add func(*idLog, map[claim]bool) error,
) (whole bool, err error) {
	whole = true
	claims := map[string]map[claim]bool{}
	for _, ref := range roots {
		root, err := ReadRoot(ctx, r, ref)
		if err == nil {
			err = g.read(ctx, r, root, claims)
		}
		if err != nil && !artifacts.IsDamage(err) {
			return false, err
		}
		whole = whole && err == nil
	}
	for _, c := range collections {
		if err := add(g.logs[c], claims[c]); err != nil {
			return false, fmt.Errorf("ids of %s: %w", c, err)
		}
	}
	return whole, nil
}

// read adds the entries of a root's segments to claims. It skips damaged segments
// and returns the last damage.
func (g *IDs) read(ctx context.Context, r artifacts.ObjectReader, root *Root, claims map[string]map[claim]bool,
) (damage error) {
	for _, c := range collections {
		if claims[c] == nil {
			claims[c] = map[claim]bool{}
		}
		for _, ref := range root.IDs[c].Segments {
			if g.seen[ref.Digest] {
				continue
			}
			b, err := artifacts.ReadObject(ctx, r, ref)
			log := newIDLog(0)
			if err == nil {
				err = log.load(b)
			}
			if err != nil && !artifacts.IsDamage(err) {
				return err
			}
			if err != nil {
				damage = err
				continue
			}
			g.seen[ref.Digest] = true
			for id, key := range log.byID {
				claims[c][claim{id, key}] = true
			}
		}
	}
	return damage
}

// adopt adds undisputed claims and reserves the other ids.
func (l *idLog) adopt(claims map[claim]bool) error {
	keys, ids := map[uint64]int{}, map[string]int{}
	for c := range claims {
		keys[c.id]++
		ids[c.key]++
	}
	return l.giveAll(claims, func(c claim) bool {
		_, known := l.byKey[c.key]
		return !known && keys[c.id] == 1 && ids[c.key] == 1
	})
}

func (l *idLog) reserve(claims map[claim]bool) error {
	return l.giveAll(claims, func(claim) bool { return false })
}

// giveAll assigns each free id to the key that claims it, if may allows it, and
// otherwise reserves the id.
func (l *idLog) giveAll(claims map[claim]bool, may func(claim) bool) error {
	order := func(a, b claim) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.key, b.key)) }
	for _, c := range slices.SortedFunc(maps.Keys(claims), order) {
		if l.byID[c.id] != "" {
			continue
		}
		key := c.key
		if !may(c) {
			key = reservedKey(c.id)
		}
		if err := l.give(c.id, key); err != nil {
			return err
		}
	}
	return nil
}

// reservedKey returns the key under which an id is reserved. It is longer than any
// key of a feed. It is an ordinary entry, so earlier releases keep it too.
func reservedKey(id uint64) string { return fmt.Sprintf("(reserved)%0300d", id) }

// Skip assumes that at most stepIDs ids were assigned in each step since skipEpoch.
const stepIDs = 1 << 20

var skipEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Skip makes new ids start above every id that can have been assigned until now. It
// leaves a gap above the highest known id and for each step since 2026, so that a
// later Skip from the same ids starts above the ids assigned after this one. New ids
// start at market.MaxNewID at most, which leaves 2^32.
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

// Ledger returns the ledger of target with these ids.
func (g *IDs) Ledger(ctx context.Context, r artifacts.ObjectReader, target artifacts.Ref) (*Next, error) {
	root, err := ReadRoot(ctx, r, target)
	if err != nil {
		return nil, fmt.Errorf("ledger: target root: %w", err)
	}
	var put objects
	root.IDs = map[string]idSegments{}
	for _, c := range collections {
		root.IDs[c] = g.logs[c].store(&put)
	}
	return &Next{Objects: put, Root: root.encode(), After: root}, nil
}

// Remembers reports whether a snapshot of time t was built and not rolled back. known is false if
// the ledger cannot tell: t is too old or later than the newest snapshot.
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
	// The first snapshot of each step is kept, so none was built before it in its step.
	i := slices.IndexFunc(h, func(p priceSet) bool { return !p.Time.Before(t.Truncate(step)) })
	return false, h[i].Time.After(t)
}
