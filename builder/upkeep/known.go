package upkeep

import (
	"context"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
)

// known is what the readable manifests of a damaged store say about its past.
type known struct {
	// published are the ledgers of snapshots that a pointer or another manifest names; maybe are
	// those of the other manifests, which a build may have left before it published.
	published, maybe []artifacts.Ref
	times            map[artifacts.Digest]time.Time // of the published, by manifest
	// withdrawn are the times that some manifest withdraws, ascending; latest is the latest time
	// that any manifest names.
	withdrawn []time.Time
	latest    time.Time
}

// survey reads, through r, the manifests that the store lists, those of refs, which were
// published, and those that they retain.
func survey(ctx context.Context, s artifacts.Store, r artifacts.ObjectReader, refs ...artifacts.Ref) (*known, error) {
	k := &known{times: map[artifacts.Digest]time.Time{}}
	published := map[artifacts.Digest]bool{}
	for _, ref := range refs {
		published[ref.Digest] = true
	}
	lying, err := listManifests(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	refs = append(refs, lying...)
	read := map[artifacts.Digest]*artifacts.Manifest{}
	for i := 0; i < len(refs); i++ {
		d := refs[i].Digest
		if read[d] != nil {
			continue
		}
		m, err := artifacts.ReadManifest(ctx, r, refs[i])
		if artifacts.IsDamage(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		read[d] = m
		k.add(m)
		for _, ret := range m.Retained {
			published[ret.Manifest.Digest] = true
			refs = append(refs, ret.Manifest)
		}
	}
	for d, m := range read {
		if published[d] {
			k.published, k.times[d] = append(k.published, m.Ledger), m.Time
		} else {
			k.maybe = append(k.maybe, m.Ledger)
		}
	}
	slices.SortFunc(k.withdrawn, time.Time.Compare)
	k.withdrawn = slices.CompactFunc(k.withdrawn, time.Time.Equal)
	return k, nil
}

// add notes the times that m names.
func (k *known) add(m *artifacts.Manifest) {
	k.withdrawn = append(k.withdrawn, m.Withdrawn...)
	k.latest = latest(k.latest, m.Time, m.WithdrawnThrough)
	k.latest = latest(k.latest, m.Withdrawn...)
	for _, ret := range m.Retained {
		k.latest = latest(k.latest, ret.Time)
	}
}

// ids adds the ids of the readable ledgers and lets new ones begin far above them.
func (k *known) ids(ctx context.Context, r artifacts.ObjectReader, ids *ledger.IDs, now time.Time) error {
	if _, err := ids.Add(ctx, r, k.published); err != nil {
		return err
	}
	if err := ids.Reserve(ctx, r, k.maybe); err != nil {
		return err
	}
	return ids.Skip(now)
}

func latest(t time.Time, others ...time.Time) time.Time {
	return slices.MaxFunc(slices.Concat([]time.Time{t}, others), time.Time.Compare)
}

// either reads an immutable object from the first of its readers that has it undamaged.
type either []artifacts.ObjectReader

// Get implements artifacts.ObjectReader.
func (e either) Get(ctx context.Context, key artifacts.Key, limit int64) (b []byte, v artifacts.Version, err error) {
	for _, r := range e {
		b, v, err = r.Get(ctx, key, limit)
		if err == nil && key.Names(b) || err != nil && !artifacts.IsDamage(err) {
			break
		}
	}
	return b, v, err
}
