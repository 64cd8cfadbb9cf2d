package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// restoreStep is added to the number of a restored set, so that the result exceeds the numbers that
// edges have seen since the copy was made.
const restoreStep = 1000

// Newest returns the index of the set with the highest number, or of the first such set, and a copy
// of that set without any access that another set has removed. In the copy, each key is revoked, or
// expires, as early as in any of the sets. A key is also revoked if a set in moreSets lacks it and
// is not older than the newest set, since a set forgets only keys that are no longer valid. changed
// reports whether the copy differs from the set. Newest ignores nil sets. If all are nil, it
// returns -1.
func Newest(now time.Time, sets []*artifacts.KeySet, moreSets ...*artifacts.KeySet,
) (at int, newest *artifacts.KeySet, changed bool) {
	at = -1
	for i, set := range sets {
		if set != nil && (at < 0 || set.Number > sets[at].Number) {
			at = i
		}
	}
	if at < 0 {
		return at, nil, false
	}
	set := *sets[at]
	set.Keys = slices.Clone(set.Keys)
	earlier := func(t *time.Time, other time.Time) {
		if !other.IsZero() && (t.IsZero() || other.Before(*t)) {
			*t, changed = other, true
		}
	}
	for i, other := range slices.Concat(sets, moreSets) {
		if other == nil || i == at {
			continue
		}
		theirs := make(map[artifacts.Digest]artifacts.KeyEntry, len(other.Keys))
		for _, k := range other.Keys {
			theirs[k.Hash] = k
		}
		later := i >= len(sets) && other.Number >= set.Number
		for i := range set.Keys {
			k := &set.Keys[i]
			their, known := theirs[k.Hash]
			if !known && later {
				their.Revoked = seconds(now)
			}
			earlier(&k.Revoked, their.Revoked)
			earlier(&k.Expires, their.Expires)
		}
	}
	return at, &set, changed
}

// Copied reads the key set from a copy of a store or from an edge's cache folder.
func Copied(ctx context.Context, from artifacts.ObjectReader) (*artifacts.KeySet, error) {
	b, _, err := from.Get(ctx, artifacts.KeysKey, artifacts.MaxKeySetSize)
	if err != nil {
		return nil, err
	}
	return artifacts.ParseKeySet(b)
}

// Restore replaces a key set that is missing or older than the copies. The new set is the newest
// copy, without any access that another copy has removed. Its number is higher than highestSeen,
// the highest number that edges are known to have seen. Restore returns the set that is then in
// force. It refuses a store without objects, since edges would take it for a new store. It also
// refuses a copy that belongs to another store.
func (r *Registry) Restore(ctx context.Context, copies []*artifacts.KeySet, highestSeen uint64,
) (*artifacts.KeySet, error) {
	if err := r.mayRestore(ctx, copies); err != nil {
		return nil, fmt.Errorf("restore keys: %w", err)
	}
	var restored *artifacts.KeySet
	err := r.update(ctx, true, func(set *artifacts.KeySet) (bool, error) {
		restored = set
		sets := append([]*artifacts.KeySet{set}, copies...)
		if set.Number == 0 && len(set.Keys) == 0 {
			sets[0] = nil // missing
		}
		at, newest, changed := Newest(r.now(), sets)
		if at == 0 && !changed && set.Number > highestSeen {
			return true, nil
		}
		if newest != nil {
			*set = *newest
		}
		set.Number = min(max(set.Number, highestSeen)+restoreStep, artifacts.MaxNumber-1)
		return false, nil
	})
	if err != nil {
		return nil, fmt.Errorf("restore keys: %w", err)
	}
	return restored, nil
}

// mayRestore checks whether the copies may be restored to the store. It writes nothing.
func (r *Registry) mayRestore(ctx context.Context, copies []*artifacts.KeySet) error {
	id := ""
	for _, key := range []artifacts.Key{artifacts.IdentityKey, artifacts.CurrentKey} {
		b, _, err := r.Store.Get(ctx, key, artifacts.MaxPointerSize)
		if errors.Is(err, artifacts.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		n, err := artifacts.ParseNumbered(key, b)
		if err != nil {
			return err
		}
		if id = n.Store; id != "" {
			break
		}
	}
	if id == "" {
		return errors.New("nothing is left of the store: builder restore puts it back from a backup, with --keys-from for" +
			" the newest keys")
	}
	for _, c := range copies {
		if c.Store != "" && c.Store != id {
			return fmt.Errorf("%w: a copy is of store %s, this is store %s", artifacts.ErrCorrupt, c.Store, id)
		}
	}
	return nil
}
