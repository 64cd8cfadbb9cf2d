package upkeep

import (
	"context"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/history"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/render"
)

// rebuilds bounds how often the source is built again: a manifest that is back names further lost
// objects, and so does the root of a ledger.
const rebuilds = 3

// snapshots returns the readable manifests, newest first. The first reached of them are those that
// the pointer reaches; gc has not yet removed the others.
func (r *repairer) snapshots(ctx context.Context) (all []artifacts.Retained, reached int, err error) {
	add := func(ret artifacts.Retained, m *artifacts.Manifest, err error) error {
		if err == nil && !slices.ContainsFunc(all,
			func(a artifacts.Retained) bool { return a.Manifest == ret.Manifest }) {
			all = append(all, artifacts.Retained{Time: m.Time, Manifest: ret.Manifest})
		}
		return publish.UnlessDamage(err)
	}
	if err := eachSnapshot(ctx, r.mender, r.pointer, add); err != nil {
		return nil, 0, err
	}
	reached = len(all)
	lying, err := listManifests(ctx, r.Store, nil)
	for _, ref := range lying {
		if err == nil {
			m, lost := artifacts.ReadManifest(ctx, r.mender, ref)
			err = add(artifacts.Retained{Manifest: ref}, m, lost)
		}
	}
	slices.SortStableFunc(all[reached:], func(a, b artifacts.Retained) int { return b.Time.Compare(a.Time) })
	return all, reached, err
}

// rebuild builds the source at the time of each incomplete snapshot, on top of the snapshot before
// it. The feed of another snapshot gives other objects; none of those is missing, so none is put.
func (r *repairer) rebuild(ctx context.Context) error {
	all, _, err := r.snapshots(ctx)
	if err != nil {
		return err
	}
	broken, err := r.broken(ctx)
	if err != nil {
		return err
	}
	for _, t := range broken {
		over := &rebuilt{Store: r.Store, mender: r.mender, name: r.Source.String()}
		over.identity = artifacts.Identity{Format: artifacts.Format, Store: r.pointer.Store}
		if i := slices.IndexFunc(all, func(a artifacts.Retained) bool { return a.Time.Before(t) }); i >= 0 {
			p := *r.pointer
			p.Time, p.Manifest = all[i].Time, all[i].Manifest
			over.pointer = p.Encode()
			over.identity.Had = []artifacts.Key{artifacts.CurrentKey}
		}
		cfg := r.Config
		cfg.Store, cfg.Guards, cfg.PutAll = over, builder.Guards{Force: true}, true
		b, err := builder.New(cfg)
		if err != nil {
			return err
		}
		if _, err := b.Build(ctx, t); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.Log.Warn("the source cannot be built again", "snapshot", publish.Stamp(t), "err", err)
		}
	}
	return nil
}

// history puts back lost objects of history. A snapshot's manifest says which points its views
// have, and its ledger has their prices.
func (r *repairer) history(ctx context.Context) error {
	all, reached, err := r.snapshots(ctx)
	if err != nil {
		return err
	}
	for _, ret := range all[:reached] {
		m, err := artifacts.ReadManifest(ctx, r.mender, ret.Manifest)
		if err != nil {
			return err
		}
		m.Views = slices.DeleteFunc(m.Views, func(v artifacts.View) bool { return !artifacts.IsHistory(v.Collection) })
		if !slices.ContainsFunc(publish.Reached(m), r.lacks) {
			continue
		}
		root, err := ledger.ReadRoot(ctx, r.mender, m.Ledger)
		if err == nil {
			h := &history.Builder{Reader: r.mender, Root: root, Time: m.Time, As: m,
				Put: func(table *render.Table) (artifacts.View, error) {
					views, pieces := render.Views(table)
					for i := range pieces {
						body, _ := pieces[i].Bytes()
						if key := artifacts.ObjectKey(artifacts.Sum(body)); r.lost[key] {
							if err := r.put(ctx, key, body, "the ledger"); err != nil {
								return artifacts.View{}, err
							}
						}
					}
					return views[0], nil
				}}
			_, err = h.Views(ctx)
		}
		if err := publish.UnlessDamage(err); err != nil {
			return err
		}
	}
	return nil
}

// broken returns the times of the incomplete snapshots that the pointer reaches, oldest first: a
// snapshot is built on top of the one before.
func (r *repairer) broken(ctx context.Context) (times []time.Time, err error) {
	err = eachSnapshot(ctx, r.mender, r.pointer, func(ret artifacts.Retained, m *artifacts.Manifest, err error) error {
		var refs []artifacts.Ref
		if err == nil {
			refs, err = needs(ctx, r.mender, m)
		}
		lacks := slices.ContainsFunc(refs, r.lacks)
		if err == nil {
			var own []artifacts.File
			own, err = r.ownFiles(ctx, m)
			lacks = lacks || slices.ContainsFunc(own, func(f artifacts.File) bool { return !f.Whole(r.lacksFile) })
		}
		if err != nil || lacks {
			times = append(times, ret.Time)
		}
		return publish.UnlessDamage(err)
	})
	slices.Reverse(times)
	return times, err
}

// ownFiles are the files that were written with a snapshot.
func (r *repairer) ownFiles(ctx context.Context, m *artifacts.Manifest) ([]artifacts.File, error) {
	sets, err := artifacts.ReadFileSets(ctx, r.mender, m)
	if err != nil || sets.Find(m.Time) == nil {
		return nil, err
	}
	l, _, err := artifacts.ReadFileList(ctx, r.mender, sets.Find(m.Time))
	if err != nil {
		return nil, err
	}
	return l.Items, nil
}

// rebuilt is the store of a repeated build: it looks as it did before the snapshot. Of what the
// build writes, it puts the lost objects and ignores the rest.
type rebuilt struct {
	artifacts.Store
	mender   *mender
	name     string
	identity artifacts.Identity
	pointer  []byte // nil: there is no snapshot before
}

func (s *rebuilt) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	switch {
	case key.Immutable():
		return s.mender.Get(ctx, key, limit)
	case key == artifacts.CurrentKey && s.pointer != nil:
		return s.pointer, "before", nil
	case key == artifacts.IdentityKey:
		return s.identity.Encode(), "before", nil
	}
	return nil, "", artifacts.ErrNotFound
}

func (s *rebuilt) List(ctx context.Context, prefix string, f func(artifacts.Info) error) error {
	if s.pointer == nil {
		return nil // the snapshot is the first one
	}
	return s.Store.List(ctx, prefix, f)
}

func (s *rebuilt) GetIf(ctx context.Context, key artifacts.Key, _ artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	return s.Get(ctx, key, limit)
}

func (s *rebuilt) Put(ctx context.Context, key artifacts.Key, data []byte) error {
	s.mender.mu.Lock()
	lost := s.mender.lost[key]
	s.mender.mu.Unlock()
	if lost && key.Names(data) {
		return s.mender.put(ctx, key, data, s.name)
	}
	return nil
}

func (s *rebuilt) Sync(context.Context) error { return nil }
func (s *rebuilt) Swap(context.Context, artifacts.Key, artifacts.Version, []byte) (artifacts.Version, error) {
	return "after", nil
}
func (s *rebuilt) Delete(context.Context, artifacts.Key) error { return nil }
func (s *rebuilt) SelfTest(context.Context) error              { return nil }
