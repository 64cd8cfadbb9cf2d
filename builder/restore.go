package builder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
)

// restoreStep is how far above all that was found a restored store goes on:
// above what edges have seen since the backup, and far below what they refuse.
const restoreStep = 1000

// RestoreConfig says what Restore puts where.
type RestoreConfig struct {
	// Store may be empty, or what is left of the store that was backed up.
	Store artifacts.Store
	// From is the backup.
	From Copy
	// Seen is the highest sequence that any edge has seen; 0: not known.
	Seen uint64
	// KeysFromBackup puts the backup's key set in the place of one that is there.
	KeysFromBackup bool
	// Progress may be nil.
	Progress Progress
	Now      func() time.Time
}

// RestoreReport is what Restore found and did (FEED.md, "Backups").
type RestoreReport struct {
	Snapshot string `json:"snapshot"`
	Sequence uint64 `json:"sequence"`
	// Put counts the objects that came from the backup.
	Put int `json:"put"`
	// Keys counts the keys of the set that is in force now, Revoked those of
	// them that are revoked.
	Keys    int `json:"keys"`
	Revoked int `json:"revoked"`
	// Notes are what whoever restores should know.
	Notes []string `json:"notes"`
}

// Restore publishes the snapshot of a backup, under a sequence, and with a key
// set and a change record of numbers, that are above all that edges can have
// seen, so that they take them: restoreStep above the highest in either store,
// and Seen. What in the store is so far above that edges would refuse it counts
// as damage.
//
// A key set that is there stays, unless KeysFromBackup is set; either way a key
// that is revoked in one of the two sets is revoked in the result, and so is
// one that a later set has forgotten. Every object is checked against its digest
// and put, and the pointer moves last: a restore that was killed is run again.
func Restore(ctx context.Context, cfg RestoreConfig) (*RestoreReport, error) {
	r := &restore{RestoreConfig: cfg, report: RestoreReport{Notes: []string{}}}
	if err := r.find(ctx); err != nil {
		return nil, err
	}
	var err error
	if r.report.Sequence, err = r.above("sequence", r.backup.pointer.value.Sequence, r.present.pointer.value.Sequence, cfg.Seen); err != nil {
		return nil, err
	}
	keys, err := r.keySet()
	if err != nil {
		return nil, err
	}
	if r.present.identity.value.Store == "" {
		made := artifacts.Identity{Format: artifacts.Format, Store: r.id}
		if err := settle(ctx, cfg.Store, artifacts.IdentityKey, r.present.identity.version, made.Encode()); err != nil {
			return nil, err
		}
	}
	if keys != nil {
		if err := publish.Mark(ctx, cfg.Store, artifacts.KeysKey); err != nil {
			return nil, err
		}
	}
	if err := r.objects(ctx); err != nil {
		return nil, err
	}
	if keys != nil {
		if err := settle(ctx, cfg.Store, artifacts.KeysKey, r.present.keys.version, keys.Encode()); err != nil {
			return nil, err
		}
	}
	if err := r.change(ctx); err != nil {
		return nil, err
	}
	p := r.backup.pointer.value
	head := publish.NewHead(r.present.pointer.version, &artifacts.Pointer{Store: r.id, Sequence: r.report.Sequence - 1})
	if _, err := head.Point(ctx, cfg.Store, p.Manifest, p.Time, publish.Timing{Now: cfg.Now}); err != nil {
		return nil, err
	}
	r.report.Snapshot = stamp(p.Time)
	return &r.report, nil
}

type restore struct {
	RestoreConfig
	report          RestoreReport
	id              string
	backup, present moved
}

// moved are the objects of a store that move, and its identity.
type moved struct {
	identity small[artifacts.Identity]
	pointer  small[artifacts.Pointer]
	keys     small[artifacts.KeySet]
	change   small[artifacts.Change]
}

// small is an object that moves as it was found; value is zero when it is
// missing or damaged.
type small[T any] struct {
	body    []byte
	version artifacts.Version
	value   T
	damage  error
}

func (s *small[T]) read(ctx context.Context, r artifacts.Reader, key string, parse func([]byte) (*T, error)) error {
	var err error
	s.body, s.version, err = r.Get(ctx, key, artifacts.MaxKeySetSize)
	if err == nil {
		var v *T
		if v, s.damage = parse(s.body); s.damage == nil {
			s.value = *v
		}
	}
	switch {
	case errors.Is(err, artifacts.ErrNotFound):
	case artifacts.IsDamage(err), errors.Is(err, artifacts.ErrSignature):
		s.damage = err
	case err != nil:
		return fmt.Errorf("read %s: %w", key, err)
	}
	return nil
}

func (m *moved) read(ctx context.Context, r artifacts.Reader) error {
	return errors.Join(
		m.identity.read(ctx, r, artifacts.IdentityKey, artifacts.ParseIdentity),
		m.pointer.read(ctx, r, artifacts.CurrentKey, artifacts.ParsePointer),
		m.keys.read(ctx, r, artifacts.KeysKey, artifacts.ParseKeySet),
		m.change.read(ctx, r, artifacts.ChangeKey, artifacts.ParseChange),
	)
}

// find reads what both stores say of themselves.
func (r *restore) find(ctx context.Context) error {
	if err := r.backup.read(ctx, r.From); err != nil {
		return fmt.Errorf("%s: %w", r.From.Name, err)
	}
	if err := r.backup.pointer.damage; err != nil {
		return fmt.Errorf("%s: %w", r.From.Name, err)
	}
	if r.id = r.backup.pointer.value.Store; r.id == "" {
		return fmt.Errorf("%s holds no snapshot", r.From.Name)
	}
	if err := r.present.read(ctx, r.Store); err != nil {
		return err
	}
	for _, id := range []string{r.present.identity.value.Store, r.present.pointer.value.Store, r.present.keys.value.Store} {
		if id != "" && id != r.id {
			return fmt.Errorf("the store is %s, and the backup that of another, %s: restore it into an empty one", id, r.id)
		}
	}
	return nil
}

// above returns the sequence or number to go on with.
func (r *restore) above(what string, backup, present, seen uint64) (uint64, error) {
	highest := max(backup, seen)
	if present > highest+artifacts.MaxJump {
		r.note("the store's %s, %d, is beyond reason and was passed over; if edges have seen it, give it as --seen", what, present)
	} else {
		highest = max(highest, present)
	}
	if highest > artifacts.MaxNumber-restoreStep {
		return 0, fmt.Errorf("%s %d: readers take up to 2^53", what, highest)
	}
	return highest + restoreStep, nil
}

// number is above for a key set or a change record. Edges can have seen more than
// both stores have, after another restore, or when the backup is old: so it is not
// below that of one that was lost, as far as edges take the jump.
func (r *restore) number(what string, backup, present artifacts.Numbered) (artifacts.Numbered, error) {
	lost := artifacts.Numbered{}.Next(r.id, r.Now(), r.report.Sequence)
	if backup.Number == 0 && present.Number == 0 {
		return lost, nil
	}
	if backup.Number == 0 {
		backup = present
	}
	n, err := r.above(what, backup.Number, present.Number, r.Seen)
	return artifacts.Numbered{Store: r.id, Number: max(n, min(lost.Number, n+artifacts.MaxJump/2))}, err
}

func (r *restore) note(format string, args ...any) {
	r.report.Notes = append(r.report.Notes, fmt.Sprintf(format, args...))
}

// keySet returns the key set that is to be in force, nil when neither store has
// one.
func (r *restore) keySet() (*artifacts.KeySet, error) {
	backup, present := &r.backup.keys, &r.present.keys
	missing := present.value.Format == 0
	fromBackup := r.KeysFromBackup || missing
	switch {
	case present.damage != nil && !r.KeysFromBackup:
		return nil, fmt.Errorf("the key set that is there is damaged: %w: --keys-from-backup puts the backup's in its place", present.damage)
	case fromBackup && backup.damage != nil:
		return nil, fmt.Errorf("%s: %w", r.From.Name, backup.damage)
	case r.KeysFromBackup && backup.value.Format == 0:
		return nil, fmt.Errorf("%s holds no key set", r.From.Name)
	case fromBackup && backup.value.Format == 0:
		return nil, nil
	case missing:
		r.note("the key set is the backup's: revoke again what was revoked since")
	}
	set, other := &present.value, &backup.value
	if fromBackup {
		set, other = other, set
	}
	revoked, known := map[artifacts.Digest]time.Time{}, map[artifacts.Digest]bool{}
	for _, k := range other.Keys {
		revoked[k.Hash], known[k.Hash] = k.Revoked, true
	}
	// A set forgets nothing but what is out of force.
	later := fromBackup && !missing && other.Number >= set.Number
	for i := range set.Keys {
		k := &set.Keys[i]
		if k.Revoked.IsZero() {
			k.Revoked = revoked[k.Hash]
		}
		if k.Revoked.IsZero() && later && !known[k.Hash] {
			k.Revoked = r.Now().UTC().Truncate(time.Second)
		}
		if !k.Revoked.IsZero() {
			r.report.Revoked++
		}
	}
	r.report.Keys = len(set.Keys)
	var err error
	set.Numbered, err = r.number("key set's number", backup.value.Numbered, present.value.Numbered)
	return set, err
}

// objects puts everything that the backup's snapshots need.
func (r *restore) objects(ctx context.Context) error {
	m := newMender(r.Store, []Copy{r.From})
	m.restoring = r.backup.pointer.body
	check, err := artifacts.Check(ctx, m, ledger.Refs, func(done, total int) { r.Progress.show("restore", done, total) })
	if err != nil {
		return err
	}
	if n := len(check.Problems); n > 0 {
		return fmt.Errorf("%s is not whole, nothing is published: %d problems, the first: %s", r.From.Name, n, check.Problems[0])
	}
	r.report.Put = len(m.mended)
	if err := r.Store.Sync(ctx); err != nil {
		return fmt.Errorf("sync objects: %w", err)
	}
	return nil
}

// change records the change of the restored totals. When there was no record,
// that is left to the change job.
func (r *restore) change(ctx context.Context) error {
	before := [2]artifacts.Numbered{r.backup.change.value.Numbered, r.present.change.value.Numbered}
	if before[0].Number == 0 && before[1].Number == 0 {
		return nil
	}
	m, err := artifacts.ReadManifest(ctx, r.Store, r.backup.pointer.value.Manifest)
	if err != nil {
		return err
	}
	c, err := changeAt(ctx, r.Store, m, r.Now)
	if err != nil {
		return err
	}
	if c.Numbered, err = r.number("change record's number", before[0], before[1]); err != nil {
		return err
	}
	return settle(ctx, r.Store, artifacts.ChangeKey, r.present.change.version, c.Encode())
}
