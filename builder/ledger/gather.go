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

// IDs are the ids that several ledgers of one store gave out: of a backup and of
// what is left of the store, say. No id of theirs is given to another key.
type IDs struct {
	logs map[string]*idLog
	seen map[artifacts.Digest]bool // segments whose entries are in logs
}

// GatherIDs begins with the ids of a ledger, all of which must be readable.
func GatherIDs(ctx context.Context, r artifacts.Reader, root artifacts.Ref) (*IDs, error) {
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

// claim is what a ledger says of an id.
type claim struct {
	id  uint64
	key string
}

// Add takes over the ids of other ledgers that were published, as far as they can be
// read; whole is false when something cannot. Where two of them disagree about an id or
// a key, the ids in question are reserved, so that they are never given out again; what
// is known already stays.
func (g *IDs) Add(ctx context.Context, r artifacts.Reader, roots []artifacts.Ref) (whole bool, err error) {
	return g.take(ctx, r, roots, (*idLog).adopt)
}

// Reserve reserves the ids of ledgers that may never have been published: another one,
// which is lost, may have given the same ids to other keys.
func (g *IDs) Reserve(ctx context.Context, r artifacts.Reader, roots []artifacts.Ref) error {
	_, err := g.take(ctx, r, roots, (*idLog).reserve)
	return err
}

func (g *IDs) take(
	ctx context.Context, r artifacts.Reader, roots []artifacts.Ref, add func(*idLog, map[claim]bool) error,
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

// read adds to claims what a root's segments say. It reads all that it can, and
// returns the last damage.
func (g *IDs) read(
	ctx context.Context, r artifacts.Reader, root *Root, claims map[string]map[claim]bool,
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

// adopt adds what nobody disputes, and reserves the other ids.
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

// giveAll gives ids that nobody has to the keys that are to have them, and reserves
// the others.
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

// reservedKey is the key of an id that no row may have. It is longer than a key of
// a feed can be, and an entry like others: earlier releases keep it, too.
func reservedKey(id uint64) string { return fmt.Sprintf("(reserved)%0300d", id) }

// stepIDs is how many ids are taken to be given out in a step at most, and skipEpoch
// when they are taken to have begun.
const stepIDs = 1 << 20

var skipEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Skip has new ids begin above all that can have been given out until now: so far above
// the highest that is known, and so many for each step since 2026, that a later Skip from
// the same ids begins above what was given out behind this one. They begin at
// market.MaxNewID at most, above which 2^32 are left.
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

// Ledger returns the ledger that remembers what target does, and these ids.
func (g *IDs) Ledger(ctx context.Context, r artifacts.Reader, target artifacts.Ref) (*Next, error) {
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

// Remembers reports whether a snapshot of time t was built and not taken back
// since, as far as the ledger can tell: known is false for a time that it has
// forgotten, or that is later than its newest.
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
	// Of each step the first is kept: one before it was not there when it was built.
	i := slices.IndexFunc(h, func(p priceSet) bool { return !p.Time.Before(t.Truncate(step)) })
	return false, h[i].Time.After(t)
}
