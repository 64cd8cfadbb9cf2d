package upkeep

import (
	"context"
	"fmt"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
)

// goBack makes builds possible again after the published ledger was lost, if the loss is accepted:
// it publishes the newest snapshot whose ledger is whole. If there is none, the published snapshot
// stays and goes on with the rest of its ledger.
func (r *repairer) goBack(ctx context.Context, check *artifacts.CheckReport) (*artifacts.CheckReport, error) {
	all, reached, err := r.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	head, newest := publish.NewHead(r.version, r.pointer), &artifacts.Manifest{Time: r.pointer.Time}
	if reached > 0 && all[0].Manifest == r.pointer.Manifest {
		if newest, err = artifacts.ReadManifest(ctx, r.mender, r.pointer.Manifest); err != nil {
			return nil, err
		}
		if whole, err := r.wholeLedger(ctx, newest.Ledger); err != nil {
			return check, err
		} else if whole { // what is missing is of views, or of files
			return r.withoutFiles(ctx, check, head, newest)
		}
	} else if err := r.retainedBefore(ctx, newest, all); err != nil {
		return nil, err
	}
	for at, ret := range newest.Retained {
		target, err := artifacts.ReadManifest(ctx, r.mender, ret.Manifest)
		var whole bool
		if err == nil {
			whole, err = r.wholeLedger(ctx, target.Ledger)
		}
		if err != nil && !artifacts.IsDamage(err) {
			return nil, err
		}
		if !whole {
			continue
		}
		root, err := r.rootFor(ctx, newest, target)
		if err != nil {
			return nil, err
		}
		return r.accept(ctx, check, head, newest, at, *target, root)
	}
	b, err := artifacts.ReadObject(ctx, r.mender, newest.Ledger)
	if err != nil {
		return check, publish.UnlessDamage(err)
	}
	root, what, err := ledger.Without(b, r.lacks)
	if err != nil {
		return check, publish.UnlessDamage(err)
	}
	r.loss = fmt.Sprintf("snapshot %s stays; its ledger forgets %s: what is computed from them begins with the next"+
		" that are kept; earlier snapshots, whose ledgers lack the same, can no longer be pinned",
		publish.Stamp(newest.Time), what)
	target := *newest
	target.Retained = nil
	return r.accept(ctx, check, head, newest, -1, target, &ledger.Next{Root: root})
}

// retainedBefore reconstructs what the published snapshot, whose manifest is lost, retained and
// withdrew. A snapshot that another one retains was published; one that another withdraws stays
// withdrawn. The last rollbacks left no trace, so every time up to now counts as withdrawn.
func (r *repairer) retainedBefore(ctx context.Context, newest *artifacts.Manifest, all []artifacts.Retained) error {
	k, err := survey(ctx, r.Store, r.mender)
	if err != nil {
		return err
	}
	newest.Retained = slices.DeleteFunc(all, func(a artifacts.Retained) bool {
		_, published := k.times[a.Manifest.Digest]
		return !published || !a.Time.Before(newest.Time) || slices.ContainsFunc(k.withdrawn, a.Time.Equal)
	})
	newest.Withdrawn = slices.DeleteFunc(k.withdrawn, newest.Time.Equal)
	newest.WithdrawnThrough = latest(newest.Time, k.latest, r.Now().UTC().Truncate(artifacts.Step))
	r.notes = append(r.notes,
		fmt.Sprintf("the manifest of snapshot %s is lost: what rollbacks withdrew cannot be told, so that"+
			" with --accept-loss every time up to %s counts as withdrawn,"+
			" and only snapshots are gone back to that others retain",
			publish.Stamp(newest.Time), publish.Stamp(newest.WithdrawnThrough)))
	return nil
}

// accept publishes target with another ledger, if the loss is accepted.
func (r *repairer) accept(ctx context.Context, check *artifacts.CheckReport, head *publish.Head,
	newest *artifacts.Manifest, at int, target artifacts.Manifest, book *ledger.Next,
) (*artifacts.CheckReport, error) {
	if !r.AcceptLoss {
		return check, nil
	}
	if _, err := putLedger(ctx, r.Store, book); err != nil {
		return nil, err
	}
	if _, err := publishAgain(ctx, r.Store, head, newest, at, &target, book.Root, r.Now); err != nil {
		return nil, err
	}
	r.accepted = true
	return artifacts.Check(ctx, r.mender, ledger.Refs, nil)
}

// withoutFiles publishes the same snapshot without the lost files, if there are any and the loss is
// accepted.
func (r *repairer) withoutFiles(ctx context.Context, check *artifacts.CheckReport, head *publish.Head,
	newest *artifacts.Manifest,
) (*artifacts.CheckReport, error) {
	target, put := *newest, r.Store.Put
	if !r.AcceptLoss {
		put = func(context.Context, artifacts.Key, []byte) error { return nil }
	}
	named, lost, err := files.Without(ctx, r.mender, newest, r.lacksFile, r.Files.Sign, putFile(put))
	if err != nil || lost == "" {
		return check, err
	}
	target.Files = named
	r.loss = fmt.Sprintf("snapshot %s stays, and no longer lists %s; earlier ones do while they are retained",
		publish.Stamp(newest.Time), lost)
	root, err := artifacts.ReadObject(ctx, r.mender, newest.Ledger)
	if err != nil {
		return nil, err
	}
	return r.accept(ctx, check, head, newest, -1, target, &ledger.Next{Root: root})
}

// rootFor returns the ledger with which target follows newest. It notes the loss.
func (r *repairer) rootFor(ctx context.Context, newest, target *artifacts.Manifest) (*ledger.Next, error) {
	r.loss = fmt.Sprintf("the store goes back from snapshot %s to %s; prices, totals and groups later than that are"+
		" forgotten", publish.Stamp(newest.Time), publish.Stamp(target.Time))
	root, err := ledger.Rollback(ctx, r.mender, newest.Ledger, target.Ledger)
	if err == nil {
		var whole bool
		if whole, err = r.wholeRefs(ctx, root); whole || err != nil {
			return &ledger.Next{Root: root}, err
		}
	} else if !artifacts.IsDamage(err) {
		return nil, err
	}
	ids, err := ledger.GatherIDs(ctx, r.mender, target.Ledger)
	if err != nil {
		return nil, err
	}
	// The pointer names this manifest, so its snapshot was published even if it cannot be read.
	k, err := survey(ctx, r.Store, r.mender, r.pointer.Manifest)
	if err == nil {
		err = k.ids(ctx, r.mender, ids, r.Now())
	}
	if err != nil {
		return nil, err
	}
	r.loss += ", and so are ids that were given out since and cannot be read:" +
		" their rows get new ones, far above those that are known"
	return ids.Ledger(ctx, r.mender, target.Ledger)
}

// wholeLedger reports whether the store holds every object of a ledger.
func (r *repairer) wholeLedger(ctx context.Context, ref artifacts.Ref) (bool, error) {
	root, err := artifacts.ReadObject(ctx, r.mender, ref)
	if err != nil {
		return false, publish.UnlessDamage(err)
	}
	return r.wholeRefs(ctx, root)
}

func (r *repairer) wholeRefs(ctx context.Context, root []byte) (bool, error) {
	refs, err := ledger.Refs(root)
	if err != nil {
		return false, publish.UnlessDamage(err)
	}
	for _, ref := range refs {
		if r.whole[artifacts.ObjectKey(ref.Digest)] {
			continue
		}
		if _, err := artifacts.ReadObject(ctx, r.mender, ref); err != nil {
			return false, publish.UnlessDamage(err)
		}
	}
	return true, nil
}
