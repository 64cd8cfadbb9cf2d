package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/transparency"
)

// Prove returns a proof that the snapshot at time t, with its row for the asset's quote, was
// published. The snapshot must be published or retained, since the proof contains some of its
// objects.
func Prove(ctx context.Context, r artifacts.ObjectReader, t time.Time, asset uint64) (*transparency.Proof, error) {
	log, err := transparency.Open(ctx, r)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil, errors.New("the store has no log: a log begins with the first signed publication")
	}
	if err != nil {
		return nil, err
	}
	head, err := publish.ReadHead(ctx, r)
	if err != nil {
		return nil, publish.Mendable(err)
	}
	if head.Manifest == nil {
		return nil, errors.New("the store holds no snapshot")
	}
	all := append([]artifacts.Retained{{Time: head.Pointer.Time, Manifest: head.Pointer.Manifest}},
		head.Manifest.Retained...)
	at := slices.IndexFunc(all, func(ret artifacts.Retained) bool { return ret.Time.Equal(t) })
	if at < 0 {
		return nil, fmt.Errorf("snapshot %s is not retained, so its rows may be gone: want one of %s; an earlier proof of it"+
			" stays valid", publish.Stamp(t), stamps(all))
	}
	index := int64(-1)
	err = log.Each(func(i int64, leaf string) bool {
		if leaf == transparency.Leaf(t, all[at].Manifest.Digest) {
			index = i
		}
		return index < 0
	})
	if err != nil {
		return nil, err
	}
	if index < 0 {
		return nil, fmt.Errorf("snapshot %s is not in the log: either it was published before the log began, or the next"+
			" publication adds it", publish.Stamp(t))
	}
	p := &transparency.Proof{Format: artifacts.Format, Time: t.UTC(), Asset: asset}
	if err = log.Prove(p, index); err != nil {
		return nil, err
	}
	if p.Manifest, _, err = r.Get(ctx, artifacts.ManifestKey(all[at].Manifest.Digest),
		all[at].Manifest.Size); err != nil {
		return nil, err
	}
	return p, proveRow(ctx, r, p)
}

// proveRow adds the row, with its shard and object, to a proof.
func proveRow(ctx context.Context, r artifacts.ObjectReader, p *transparency.Proof) error {
	m, err := artifacts.ParseManifest(p.Manifest)
	if err != nil {
		return err
	}
	if view := m.View(transparency.Collection, transparency.Sort); view != nil {
		for _, o := range slices.Backward(view.Objects) {
			if o.First.ID > p.Asset {
				continue
			}
			if p.Object, err = artifacts.ReadObject(ctx, r, o.Ref); err != nil {
				return err
			}
			shards, err := artifacts.ParseObject(p.Object)
			if err != nil {
				return err
			}
			for i, s := range shards {
				if row, ok := s.FindID(p.Asset); ok {
					p.Shard, p.Row = i, string(s.Row(row))
					return nil
				}
			}
			break
		}
	}
	return fmt.Errorf("snapshot %s has no quote of asset %d", publish.Stamp(p.Time), p.Asset)
}
