package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/history"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/render"
)

// Copy is a place that may hold lost objects: another store, a copy of a folder, or an edge's cache
// folder. Repair checks every object from a copy against its digest.
type Copy struct {
	artifacts.Reader
	// Name identifies the copy in reports.
	Name string
}

// RepairConfig configures Repair.
type RepairConfig struct {
	Store artifacts.Store
	// From are the copies, which Repair tries in this order.
	From []Copy
	// DropLost makes Repair publish the snapshot without the data that depends on lost objects, if
	// no copy has those objects.
	DropLost bool
	// Sign are the keys that sign file lists.
	Sign []artifacts.SignKey
	// Progress may be nil.
	Progress builder.Progress
	Now      func() time.Time
}

// RepairReport says what Repair found and did (STORE.md, "Repair").
type RepairReport struct {
	// Snapshot is the published snapshot's time. It is empty if the store has no snapshot, in which
	// case there is nothing to repair.
	Snapshot string   `json:"snapshot"`
	Sequence uint64   `json:"sequence"`
	Mended   []Mended `json:"mended"`
	// Missing are the remaining problems, as artifacts.Check words them.
	Missing []string `json:"missing"`
	// Loss describes the data that DropLost gives up, or would give up. It is empty if no data is
	// lost. Dropped reports whether the data was given up.
	Loss    string `json:"loss,omitempty"`
	Dropped bool   `json:"dropped"`
}

// Mended is an object that Repair put back.
type Mended struct {
	Key artifacts.Key `json:"key"`
	// From is the name of the copy that had the object, or says what the object was made from.
	From string `json:"from"`
}

// pointerTries limits how often a walk over a store starts again because the pointer moved.
const pointerTries = 5

// Repair puts back the missing and damaged objects of the published and retained snapshots. It
// takes them from copies, and rebuilds history from the ledger. It checks every object against its
// digest before putting it, so a bad copy can do no harm. It leaves intact objects alone. It is
// safe while a builder and gc run, and may be killed and run again.
//
// Repair replaces a damaged change record with a new one, and a lost or damaged identity with the
// identity that the pointer names. It also repairs the log. If Store has signing keys, Repair
// replaces a lost checkpoint with a newly signed one. It does not repair the pointer or the key
// set: see Restore.
func Repair(ctx context.Context, cfg RepairConfig) (*RepairReport, error) {
	r := &repairer{RepairConfig: cfg, mender: newMender(cfg.Store, cfg.From)}
	for try := 1; ; try++ {
		if err := r.readPointer(ctx); err != nil || r.pointer == nil {
			return r.report(nil), err
		}
		version := r.version
		check, err := r.mend(ctx)
		if err == nil {
			err = r.log(ctx) // before anything is dropped, since dropping adds to the log
		}
		if err == nil && len(r.lost)+len(r.logLeft) > 0 {
			// A builder may have published a snapshot in the meantime, and gc may then have removed
			// the missing objects.
			if err := r.readPointer(ctx); err != nil {
				return nil, err
			}
			if r.version != version && try < pointerTries {
				continue
			}
			if len(r.lost) > 0 {
				check, err = r.drop(ctx, check)
			}
		}
		if err == nil {
			err = r.changeRecord(ctx, check)
		}
		if err == nil {
			err = r.lostKeys(ctx, check)
		}
		if err == nil {
			err = r.identity(ctx, check)
		}
		if err == nil {
			err = cfg.Store.Sync(ctx)
		}
		if err != nil {
			return nil, err
		}
		return r.report(check), nil
	}
}

type repairer struct {
	RepairConfig
	*mender
	pointer *artifacts.Pointer
	version artifacts.Version
	loss    string
	dropped bool
	logLeft []string // the remaining problems of the log
}

func (r *repairer) readPointer(ctx context.Context) error {
	b, version, err := r.Store.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if errors.Is(err, artifacts.ErrNotFound) {
		return publish.CheckPointer(ctx, r.Store, nil, publish.Seen{})
	}
	if err == nil {
		r.pointer, err = artifacts.ParsePointer(b)
		r.version = version
	}
	if artifacts.IsDamage(err) || errors.Is(err, artifacts.ErrSignature) {
		return fmt.Errorf("read pointer: %w: run builder restore, which takes the pointer from a backup", err)
	}
	if err != nil {
		return fmt.Errorf("read pointer: %w", err)
	}
	return nil
}

func (r *repairer) report(check *artifacts.CheckReport) *RepairReport {
	out := &RepairReport{Mended: r.mended, Missing: []string{}, Loss: r.loss, Dropped: r.dropped}
	if check != nil {
		out.Snapshot, out.Sequence, out.Missing = check.Snapshot, check.Sequence, append(check.Problems, r.logLeft...)
	}
	return out
}

// mend reads everything that is reachable from the pointer. Reading a lost object also puts it
// back, if a copy has it. mend also rebuilds history from the ledger. A manifest that was put back
// can name further lost objects, so mend repeats these steps.
func (r *repairer) mend(ctx context.Context) (*artifacts.CheckReport, error) {
	for {
		clear(r.lost)
		check, err := artifacts.Check(ctx, r.mender, ledger.Refs,
			func(done, total int) { r.Progress.Show("repair", done, total) })
		if err != nil || len(r.lost) == 0 {
			return check, err
		}
		before := len(r.mended)
		if err := r.history(ctx); err != nil {
			return nil, err
		}
		if len(r.mended) == before {
			return check, nil
		}
	}
}

// history puts back lost objects of the history views. A snapshot's manifest says which points its
// views have, and its ledger has the prices at those points.
func (r *repairer) history(ctx context.Context) error {
	return eachSnapshot(ctx, r.mender, r.pointer, func(_ artifacts.Retained, m *artifacts.Manifest, err error) error {
		if err != nil {
			return publish.UnlessDamage(err)
		}
		m.Views = slices.DeleteFunc(m.Views, func(v artifacts.View) bool {
			return !artifacts.IsHistory(v.Collection) || artifacts.IsPast(v.Collection) // not in the ledger
		})
		if !slices.ContainsFunc(publish.Reached(m), r.lacks) {
			return nil
		}
		root, err := ledger.ReadRoot(ctx, r.mender, m.Ledger)
		if err == nil {
			h := &history.Builder{Reader: r.mender, Root: root, Time: m.Time, As: m,
				Put: func(table *render.Table) (artifacts.View, error) { return r.putLost(ctx, table) }}
			_, err = h.Views(ctx)
		}
		return publish.UnlessDamage(err)
	})
}

// putLost puts a view's lost objects.
func (r *repairer) putLost(ctx context.Context, table *render.Table) (artifacts.View, error) {
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
}

// beyondRepair adds a problem to a check report, which tells the operator to restore a backup.
func beyondRepair(check *artifacts.CheckReport, err error) (*artifacts.CheckReport, error) {
	check.Problems = append(check.Problems,
		"no build can continue without the manifest, the ledger's root and its ids: restore a backup with builder restore")
	return check, publish.UnlessDamage(err)
}

// drop describes the data that depends on lost objects. With DropLost, it publishes the same
// snapshot without this data: prices, returns and groups from the ledger, files, and retained
// snapshots. If the manifest, the ledger root or ids are lost, only a backup can help. drop also
// deletes damaged objects. A build skips objects that exist with the right size, so without this
// deletion the next build would not write the lost views again.
func (r *repairer) drop(ctx context.Context, check *artifacts.CheckReport) (*artifacts.CheckReport, error) {
	newest, err := artifacts.ReadManifest(ctx, r.mender, r.pointer.Manifest)
	if err != nil {
		return beyondRepair(check, err)
	}
	root, err := artifacts.ReadObject(ctx, r.mender, newest.Ledger)
	var gone []string
	say := func(format, what string) {
		if what != "" {
			gone = append(gone, fmt.Sprintf(format, what))
		}
	}
	if err == nil {
		var what string
		root, what, err = ledger.Without(root, r.lacks)
		say("its ledger drops %s: figures computed from them begin with the next ones that are kept", what)
	}
	if err != nil {
		return beyondRepair(check, err)
	}
	put := r.Store.Put
	if !r.DropLost {
		put = func(context.Context, artifacts.Key, []byte) error { return nil }
	}
	target := *newest
	var what string
	if target.Files, what, err = files.Without(ctx, r.mender, newest, r.lacksFile, r.Sign, putFile(put)); err != nil {
		return nil, err
	}
	say("it no longer lists %s", what)
	target.Retained = nil
	var unpinned []artifacts.Retained
	err = eachSnapshot(ctx, r.mender, r.pointer, func(ret artifacts.Retained, m *artifacts.Manifest, err error) error {
		var refs []artifacts.Ref
		if err == nil {
			refs, err = needs(ctx, r.mender, m)
		}
		switch {
		case ret.Manifest == r.pointer.Manifest:
		case err != nil || slices.ContainsFunc(refs, r.lacks):
			unpinned = append(unpinned, ret)
		default:
			target.Retained = append(target.Retained, ret)
		}
		return publish.UnlessDamage(err)
	})
	if len(unpinned) > 0 {
		say("snapshots that can no longer be pinned: %s", stamps(unpinned))
	}
	again := len(gone) > 0
	if slices.ContainsFunc(publish.Reached(newest), r.lacks) {
		say("its lost views are missing until %s", "the next build")
	}
	if err != nil || len(gone) == 0 {
		return check, err
	}
	r.loss = fmt.Sprintf("snapshot %s stays; %s", publish.Stamp(newest.Time), strings.Join(gone, "; "))
	if !r.DropLost {
		return check, nil
	}
	r.dropped = true
	for key := range r.lost {
		if err := r.Store.Delete(ctx, key); err != nil {
			return nil, err
		}
	}
	if !again {
		return check, nil
	}
	if _, err := publishAgain(ctx, r.Store, publish.NewHead(r.version, r.pointer), newest, -1, &target, root,
		r.Now); err != nil {
		return nil, err
	}
	return artifacts.Check(ctx, r.mender, ledger.Refs, nil)
}

// lostKeys reports a lost key set as a problem.
func (r *repairer) lostKeys(ctx context.Context, check *artifacts.CheckReport) error {
	_, _, err := r.Store.Get(ctx, artifacts.KeysKey, artifacts.MaxKeySetSize)
	if !errors.Is(err, artifacts.ErrNotFound) {
		return nil // the check has reported every other problem
	}
	if err = publish.CheckMissing(ctx, r.Store, artifacts.KeysKey); errors.Is(err, publish.ErrLost) {
		check.Problems = append(check.Problems, err.Error()+"; builder keys restore puts it back")
		return nil
	}
	return err
}

// identity replaces a missing or damaged identity with one made from the pointer.
func (r *repairer) identity(ctx context.Context, check *artifacts.CheckReport) error {
	b, version, err := r.Store.Get(ctx, artifacts.IdentityKey, artifacts.MaxPointerSize)
	if err == nil {
		_, err = artifacts.ParseIdentity(b)
	}
	if err == nil || !artifacts.IsDamage(err) {
		return err
	}
	if _, err := publish.DropOversized(ctx, r.Store, artifacts.IdentityKey, err); err != nil {
		return err
	}
	made, err := publish.KnownIdentity(ctx, r.Store)
	if err != nil {
		return err
	}
	if err := settle(ctx, r.Store, artifacts.IdentityKey, version, made.Encode()); err != nil {
		return err
	}
	check.Problems = slices.DeleteFunc(check.Problems,
		func(p string) bool { return strings.HasPrefix(p, "identity: ") })
	r.mended = append(r.mended, Mended{artifacts.IdentityKey, "the pointer"})
	return nil
}

// changeRecord replaces a damaged change record with one made from the ledger.
func (r *repairer) changeRecord(ctx context.Context, check *artifacts.CheckReport) error {
	b, _, err := r.Store.Get(ctx, artifacts.ChangeKey, artifacts.MaxPointerSize)
	if err == nil {
		_, err = artifacts.ParseChange(b)
	}
	if err == nil || errors.Is(err, artifacts.ErrNotFound) {
		return nil
	}
	if artifacts.IsDamage(err) {
		_, err = change.Record(ctx, r.Store, r.Now)
	}
	if artifacts.IsDamage(err) { // the ledger is lost as well
		return nil
	}
	if err != nil {
		return err
	}
	check.Problems = slices.DeleteFunc(check.Problems,
		func(p string) bool { return strings.HasPrefix(p, "change record: ") })
	r.mended = append(r.mended, Mended{artifacts.ChangeKey, "the ledger"})
	return nil
}
