package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
)

// Copy is a place that may have lost objects: another store, a copy of a folder, the cache folder
// of an edge. Repair checks every object that it takes from there against its digest.
type Copy struct {
	artifacts.Reader
	// Name is its name in reports.
	Name string
}

// RepairConfig says what Repair works on.
type RepairConfig struct {
	// Config is that of the store's builds. Source, if set, is the feed of an incomplete snapshot.
	// It is built again without guard rails, and only missing objects are put.
	builder.Config
	// From are asked in this order, before the source.
	From []Copy
	// AcceptLoss lets a store whose ledger cannot be repaired go back to its newest snapshot with
	// a whole ledger, or else go on without the lost part; and one that has lost files, without them.
	AcceptLoss bool
}

// RepairReport is what Repair found and did (FEED.md, "Repair").
type RepairReport struct {
	// Snapshot is the published snapshot's time; empty in a store without one, where there is
	// nothing to repair.
	Snapshot string   `json:"snapshot"`
	Sequence uint64   `json:"sequence"`
	Mended   []Mended `json:"mended"`
	// Missing are the remaining problems, as artifacts.Check words them.
	Missing []string `json:"missing"`
	// Loss says how builds can go on with a ledger or files that cannot be repaired, and what is lost
	// then; empty if there is no need or no way. Accepted says that this was done.
	Loss     string `json:"loss,omitempty"`
	Accepted bool   `json:"accepted"`
	// Notes are what could not be determined.
	Notes []string `json:"notes,omitempty"`
}

// Mended is an object that was put back.
type Mended struct {
	Key artifacts.Key `json:"key"`
	// From is the name of the copy or of the source that had it.
	From string `json:"from"`
}

// pointerTries bounds how often a walk over a store starts again because the pointer moved.
const pointerTries = 5

// Repair puts back the missing and damaged objects of the published snapshot and of those it
// retains: from copies, then from builds of the same feed. It checks every object against its
// digest before it puts it, so that no copy can do harm, and leaves whole objects alone. It is
// safe beside a running builder and gc, and may be killed and run again.
//
// Repair replaces a damaged change record by a new one, and the identity by that of the pointer.
// It mends the log (transparency.Mend), and with the store's keys signs a lost checkpoint again. It
// does not repair pointer and key set: see Restore.
func Repair(ctx context.Context, cfg RepairConfig) (*RepairReport, error) {
	r := &repairer{RepairConfig: cfg, mender: newMender(cfg.Store, cfg.From)}
	for try := 1; ; try++ {
		if err := r.readPointer(ctx); err != nil || r.pointer == nil {
			return r.report(nil), err
		}
		version := r.version
		check, err := r.mend(ctx)
		if err == nil {
			err = r.log(ctx) // before a loss is accepted, which appends to it
		}
		if err == nil && len(r.lost)+len(r.logLeft) > 0 {
			// A builder may have published a snapshot, and gc removed the missing objects since.
			if err := r.readPointer(ctx); err != nil {
				return nil, err
			}
			if r.version != version && try < pointerTries {
				continue
			}
			if len(r.lost) > 0 {
				check, err = r.goBack(ctx, check)
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
	pointer  *artifacts.Pointer
	version  artifacts.Version
	loss     string
	accepted bool
	notes    []string
	logLeft  []string // what stays wrong with the log
}

func (r *repairer) readPointer(ctx context.Context) error {
	b, version, err := r.Store.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if errors.Is(err, artifacts.ErrNotFound) {
		return publish.CheckLost(ctx, r.Store)
	}
	if err == nil {
		r.pointer, err = artifacts.ParsePointer(b)
		r.version = version
	}
	if artifacts.IsDamage(err) || errors.Is(err, artifacts.ErrSignature) {
		return fmt.Errorf("read pointer: %w: builder restore puts a backup's in its place", err)
	}
	if err != nil {
		return fmt.Errorf("read pointer: %w", err)
	}
	return nil
}

func (r *repairer) report(check *artifacts.CheckReport) *RepairReport {
	out := &RepairReport{Mended: r.mended, Missing: []string{}, Loss: r.loss, Accepted: r.accepted, Notes: r.notes}
	if check != nil {
		out.Snapshot, out.Sequence, out.Missing = check.Snapshot, check.Sequence, append(check.Problems, r.logLeft...)
	}
	return out
}

// mend reads everything that the pointer reaches, which repairs what the copies have. It makes
// history from the ledger and builds the source for the rest.
func (r *repairer) mend(ctx context.Context) (*artifacts.CheckReport, error) {
	for round := 0; ; round++ {
		clear(r.lost)
		check, err := artifacts.Check(ctx, r.mender, ledger.Refs,
			func(done, total int) { r.Progress.Show("repair", done, total) })
		if err != nil || len(r.lost) == 0 || round == rebuilds {
			return check, err
		}
		before := len(r.mended)
		if err := r.history(ctx); err != nil {
			return nil, err
		}
		if r.Source != nil {
			if err := r.rebuild(ctx); err != nil {
				return nil, err
			}
		}
		if len(r.mended) == before {
			return check, nil
		}
	}
}

// lostKeys reports a key set that is missing.
func (r *repairer) lostKeys(ctx context.Context, check *artifacts.CheckReport) error {
	_, _, err := r.Store.Get(ctx, artifacts.KeysKey, artifacts.MaxKeySetSize)
	if !errors.Is(err, artifacts.ErrNotFound) {
		return nil // the check has seen it
	}
	if err = publish.CheckMissing(ctx, r.Store, artifacts.KeysKey); errors.Is(err, publish.ErrLost) {
		check.Problems = append(check.Problems, err.Error()+"; builder keys restore puts it back")
		return nil
	}
	return err
}

// identity replaces a missing or damaged identity by one made from the pointer.
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

// changeRecord replaces a damaged change record by one made from the ledger.
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
	if artifacts.IsDamage(err) { // the ledger is lost, too
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
