package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/transparency"
)

// restoreStep is how far the sequence and numbers of a restored store exceed all known ones. It is
// more than edges can have seen since the backup, and far less than the jump that edges refuse.
const restoreStep = 1000

// RestoreConfig says what Restore restores, and to where.
type RestoreConfig struct {
	// Store is empty, or holds the remains of the store that was backed up.
	Store artifacts.Store
	// From is the backup.
	From Copy
	// Seen is the highest sequence that any edge has seen, or 0 if it is unknown.
	Seen uint64
	// KeysFrom are copies and edges' cache folders whose key sets may be newer than the store's.
	KeysFrom []Copy
	// KeysFromBackup makes Restore use the backup's key set instead of the store's, even if the
	// store has lost its own key set. The revocations in the store's set still count.
	KeysFromBackup bool
	// Progress may be nil.
	Progress builder.Progress
	Now      func() time.Time
}

// RestoreReport says what Restore found and did (STORE.md, "Backup and restore").
type RestoreReport struct {
	Snapshot string `json:"snapshot"`
	Sequence uint64 `json:"sequence"`
	// Put counts the objects that came from the backup.
	Put int `json:"put"`
	// Keys counts the keys in the resulting set. Revoked counts the revoked keys among them.
	Keys    int `json:"keys"`
	Revoked int `json:"revoked"`
	// Notes tell the operator what Restore could not determine or what it has replaced.
	Notes []string `json:"notes"`
}

// Restore publishes the snapshot of a backup. Its sequence and numbers exceed the highest ones in
// both stores and Seen by restoreStep, so edges accept them whatever they have seen since the
// backup. A number so high that edges would refuse it counts as damage.
//
// Restore never gives a key an id that was assigned to another key since the backup, and never
// publishes again a time that was published since the backup (see remember). If newer snapshots in
// the store withdraw the backup's snapshot, Restore publishes the newest snapshot that they do not
// withdraw.
//
// The newest key set in Store, KeysFrom and From comes into force, without any access that another
// set took away (see keys.Newest). If Store has lost its key set, Restore requires KeysFrom or
// KeysFromBackup, since the backup's set is likely to be older. Restore checks every object against
// its digest before putting it, and moves the pointer last. If it is killed, run it again. Lost
// files do not stop it. If it fails before it could change access, it removes the identity that it
// gave to an empty store.
func Restore(ctx context.Context, cfg RestoreConfig) (_ *RestoreReport, err error) {
	r := &restore{RestoreConfig: cfg, report: RestoreReport{Notes: []string{}}}
	if err := r.find(ctx); err != nil {
		return nil, err
	}
	if r.report.Sequence, err = r.above("sequence", r.backup.pointer.value.Sequence, r.present.pointer.value.Sequence,
		cfg.Seen); err != nil {
		return nil, err
	}
	set, put, err := r.keySet(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.dropOversized(ctx); err != nil {
		return nil, err
	}
	if r.present.identity.value.Store == "" {
		made := artifacts.Identity{Format: artifacts.Format, Store: r.id}
		if err := settle(ctx, cfg.Store, artifacts.IdentityKey, r.present.identity.version, made.Encode()); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil && r.present.identity.version == "" && !r.access {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
				defer cancel()
				_ = cfg.Store.Delete(ctx, artifacts.IdentityKey) // otherwise the next restore would continue with it
			}
		}()
	}
	if set != nil {
		if err := publish.Mark(ctx, cfg.Store, artifacts.KeysKey); err != nil {
			return nil, err
		}
	}
	if err := r.objects(ctx); err != nil {
		return nil, err
	}
	if err := r.log(ctx); err != nil {
		return nil, err
	}
	m, ref, err := r.manifest(ctx)
	if err != nil {
		return nil, err
	}
	r.access = true
	if put {
		if err := settle(ctx, cfg.Store, artifacts.KeysKey, r.present.keys.version, set.Encode()); err != nil {
			return nil, err
		}
	}
	if err := r.change(ctx, m); err != nil {
		return nil, err
	}
	head := publish.NewHead(r.present.pointer.version, &artifacts.Pointer{Store: r.id, Sequence: r.report.Sequence - 1})
	if _, err := head.Point(ctx, cfg.Store, ref, m.Time, publish.Timing{Now: cfg.Now}); err != nil {
		return nil, err
	}
	r.report.Snapshot = publish.Stamp(m.Time)
	return &r.report, nil
}

type restore struct {
	RestoreConfig
	report          RestoreReport
	id              string
	access          bool // the small objects may have been changed
	backup, present moved
}

// moved holds a store's small objects.
type moved struct {
	identity small[artifacts.Identity]
	pointer  small[artifacts.Pointer]
	keys     small[artifacts.KeySet]
	change   small[artifacts.Change]
}

// small is a small object as Restore found it. value is zero if the object is missing or damaged.
type small[T any] struct {
	body    []byte
	version artifacts.Version
	value   T
	damage  error
}

// get returns the value, or nil if the object is missing or damaged.
func (s *small[T]) get() *T {
	if s.version == "" || s.damage != nil {
		return nil
	}
	return &s.value
}

func (s *small[T]) read(
	ctx context.Context, r artifacts.ObjectReader, key artifacts.Key, parse func([]byte) (*T, error),
) error {
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

func (m *moved) read(ctx context.Context, r artifacts.ObjectReader) error {
	return errors.Join(m.identity.read(ctx, r, artifacts.IdentityKey, artifacts.ParseIdentity),
		m.pointer.read(ctx, r, artifacts.CurrentKey, artifacts.ParsePointer),
		m.keys.read(ctx, r, artifacts.KeysKey, artifacts.ParseKeySet),
		m.change.read(ctx, r, artifacts.ChangeKey, artifacts.ParseChange),
	)
}

// find reads the small objects in both stores.
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
	return r.foreign()
}

// foreign refuses a store that is not the backup's. If at least one small object belongs to the
// backup's store, any object that names another store is a stray copy, and Restore replaces it.
func (r *restore) foreign() error {
	p := &r.present
	other, own := "", false
	for _, id := range []string{p.identity.value.Store, p.pointer.value.Store, p.keys.value.Store} {
		own = own || id == r.id
		if id != "" && id != r.id {
			other = id
		}
	}
	if other == "" {
		return nil
	}
	if !own {
		return fmt.Errorf("the store is %s, but the backup is of store %s: restore it to an empty store", other, r.id)
	}
	r.note("found an object of store %s in this store, and replaced it", other)
	if id := p.identity.value.Store; id != r.id {
		p.identity.value = artifacts.Identity{}
	}
	if id := p.pointer.value.Store; id != r.id {
		p.pointer.value = artifacts.Pointer{}
	}
	if id := p.keys.value.Store; id != "" && id != r.id {
		p.keys.value, p.keys.damage = artifacts.KeySet{}, fmt.Errorf("%w: it is of store %s", artifacts.ErrCorrupt, id)
	}
	return nil
}

// above returns the sequence or number with which the restored store continues.
func (r *restore) above(what string, backup, present, seen uint64) (uint64, error) {
	highest := max(backup, seen)
	if change.Beyond(present, highest) {
		r.note("the store's %s, %d, is implausibly high and was ignored; if edges have seen it, give it as --above", what,
			present)
	} else {
		highest = max(highest, present)
	}
	if highest > artifacts.MaxNumber-restoreStep {
		return 0, fmt.Errorf("%s %d: readers accept at most 2^53", what, highest)
	}
	return highest + restoreStep, nil
}

// number returns the number with which a restored key set or change record continues. It starts
// from the result of r.above. Edges may have seen higher numbers than both stores hold, either
// after another restore or because the backup is old. So the result is at least the number that
// a set or record would get now if there were none yet, but at most MaxJump/2 above the result of
// r.above, so that edges accept the jump.
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

// keySet returns the key set that will come into force, or nil if there is none. mustPut reports
// whether the set must be put. The store's own set keeps its number if no newer set takes access
// away. An edge that has seen a later set then refuses it.
func (r *restore) keySet(ctx context.Context) (set *artifacts.KeySet, mustPut bool, err error) {
	own, backup := r.present.keys.get(), r.backup.keys.get()
	copies, err := r.copiedKeys(ctx)
	if err != nil {
		return nil, false, err
	}
	switch {
	case backup == nil && r.KeysFromBackup && r.backup.keys.damage != nil:
		return nil, false, fmt.Errorf("%s: %w", r.From.Name, r.backup.keys.damage)
	case backup == nil && r.KeysFromBackup:
		return nil, false, fmt.Errorf("%s holds no key set", r.From.Name)
	case own != nil, r.KeysFromBackup, len(copies) > 0:
	case backup == nil && r.backup.keys.damage == nil && r.present.keys.damage == nil:
		return nil, false, nil
	default:
		return nil, false, errMayBeOlder
	}
	sets, others := slices.Concat([]*artifacts.KeySet{own}, copies, []*artifacts.KeySet{backup}), []*artifacts.KeySet{}
	if r.KeysFromBackup {
		sets[0], others = nil, append(others, own)
	}
	at, set, changed := keys.Newest(r.Now(), sets, others...)
	r.report.Keys = len(set.Keys)
	for i := range set.Keys {
		if !set.Keys[i].Revoked.IsZero() {
			r.report.Revoked++
		}
	}
	var copied artifacts.Numbered // the highest number of the other sets
	for _, s := range sets[1:] {
		if s != nil && s.Number > copied.Number {
			copied = s.Numbered
		}
	}
	switch {
	case at == len(sets)-1:
		r.note("the key set is the backup's, number %d: revoke again the keys that were revoked since", set.Number)
	case at > 0:
		r.note("the key set is number %d, of %s", set.Number, r.KeysFrom[at-1].Name)
	case !changed && own.Store != "" && (copied.Number == 0 || !change.Beyond(own.Number, copied.Number)):
		return set, false, nil
	}
	set.Numbered, err = r.number("key set's number", copied, r.present.keys.value.Numbered)
	return set, true, err
}

// errMayBeOlder is returned because Restore uses the backup's key set only if told to.
var errMayBeOlder = errors.New("the store's key set is lost or damaged, and with an older one revoked keys would work" +
	" again: give each edge's cache folder, or a folder with a copy of its file keys, as --keys-from, and the newest set" +
	" wins; --keys-from-backup takes the backup's, if no edge has any")

// copiedKeys reads the key sets in KeysFrom. A set that cannot be used is an error, since it may be
// the newest.
func (r *restore) copiedKeys(ctx context.Context) ([]*artifacts.KeySet, error) {
	var sets []*artifacts.KeySet
	for _, from := range r.KeysFrom {
		set, err := keys.Copied(ctx, from)
		if err == nil && set.Store != "" && set.Store != r.id {
			err = fmt.Errorf("its key set is of store %s, the backup of %s", set.Store, r.id)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from.Name, err)
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// dropOversized deletes the cells whose versions cannot be read, since they could not be swapped.
// It deletes the key set only if another one will replace it.
func (r *restore) dropOversized(ctx context.Context) error {
	p := &r.present
	for _, cell := range []struct {
		key    artifacts.Key
		damage error
	}{{artifacts.IdentityKey, p.identity.damage}, {artifacts.CurrentKey, p.pointer.damage},
		{artifacts.ChangeKey, p.change.damage}, {artifacts.KeysKey, p.keys.damage}} {
		if _, err := publish.DropOversized(ctx, r.Store, cell.key, cell.damage); err != nil {
			return err
		}
	}
	return nil
}

// objects puts all objects of the backup's snapshots.
func (r *restore) objects(ctx context.Context) error {
	m := newMender(r.Store, []Copy{r.From})
	m.restoring = r.backup.pointer.body
	check, err := artifacts.Check(ctx, m, ledger.Refs,
		func(done, total int) { r.Progress.Show("restore", done, total) })
	if err != nil {
		return err
	}
	n := len(check.Problems)
	if !check.OnlyFiles() {
		return fmt.Errorf("%s is incomplete, so nothing is published: %d problems, the first: %s", r.From.Name, n,
			check.Problems[0])
	}
	if n > 0 {
		r.note("%s lacks files: %d problems, the first: %s; see builder repair", r.From.Name, n, check.Problems[0])
	}
	r.report.Put = len(m.mended)
	return nil
}

// log extends the store's log to its longest known state, so that the restored snapshot becomes the
// next leaf in the log to which existing checkpoints belong.
func (r *restore) log(ctx context.Context) error {
	if !signed.Signs(r.Store) {
		return nil
	}
	// If a builder died before writing a leaf, the leaf is in the pointer.
	settle := func(p *artifacts.Pointer) error {
		if p.Store != r.id || p.Log == nil {
			return nil
		}
		_, err := transparency.Settle(ctx, r.Store, r.id, p)
		if errors.Is(err, transparency.ErrBehind) {
			return nil
		}
		return publish.UnlessDamage(err)
	}
	if err := settle(&r.present.pointer.value); err != nil {
		return err
	}
	theirs, err := transparency.Open(ctx, r.From)
	ours, oursErr := transparency.Open(ctx, r.Store)
	if errors.Is(err, artifacts.ErrNotFound) {
		if errors.Is(oursErr, artifacts.ErrNotFound) && r.backup.pointer.value.Log != nil {
			r.note("the log is lost and begins again: anyone who keeps a checkpoint will notice")
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.From.Name, err)
	}
	switch {
	case errors.Is(oursErr, artifacts.ErrNotFound):
		r.note("the log continues after the backup's %d leaves: anyone who keeps a later checkpoint will notice", theirs.N)
	case oursErr != nil:
		return oursErr
	case ours.N >= theirs.N:
		return ours.Continues(theirs.Checkpoint)
	}
	if err := theirs.CopyTo(ctx, r.Store, artifacts.Unsigned(theirs.Note)); err != nil {
		return err
	}
	return settle(&r.backup.pointer.value)
}

// memory is what a restored snapshot must know about publications since its backup.
type memory struct {
	ids *ledger.IDs
	// The times in withdrawn, and all times up to and including through, must not be published
	// again.
	withdrawn []time.Time
	through   time.Time
	// wasWithdrawn reports whether the snapshot at time t has been withdrawn since the backup.
	// known is false if this cannot be determined.
	wasWithdrawn func(t time.Time) (withdrawn, known bool)
}

// remember determines what was published since the backup. It consults the newest snapshot, if that
// is known and readable. Otherwise it treats every time up to now as published, and makes new ids
// start far above the backup's.
func (r *restore) remember(ctx context.Context, backup *artifacts.Manifest) (*memory, error) {
	ids, err := ledger.GatherIDs(ctx, r.Store, backup.Ledger)
	if err != nil {
		return nil, err
	}
	mem := &memory{ids: ids}
	newest, why := &r.backup.pointer.value, ""
	old, present := newest.Sequence, &r.present.pointer.value
	trusted := present.Store != "" && !change.Beyond(present.Sequence, max(old, r.Seen))
	if trusted && present.Sequence > old {
		newest = present
	} else if r.Seen == 0 {
		why = fmt.Sprintf("the store has no sign of anything newer than sequence %d"+
			" (--above %d would say that no edge has seen more)", old, old)
	}
	if newest.Sequence < r.Seen {
		why = fmt.Sprintf("edges have seen sequence %d, and what is left is %d", r.Seen, newest.Sequence)
	}
	if why == "" {
		err := r.rememberNewest(ctx, mem, newest)
		if !artifacts.IsDamage(err) {
			return mem, err
		}
		why = fmt.Sprintf("the manifest or the ledger of sequence %d cannot be read", newest.Sequence)
	}
	mem.through = r.Now().UTC().Truncate(artifacts.Step)
	if trusted {
		mem.withdrawn, mem.through = append(mem.withdrawn, present.Time), latest(mem.through, present.Time)
	}
	mem.wasWithdrawn = func(time.Time) (withdrawn, known bool) { return false, false }
	r.note("what was published since the backup cannot be told, since %s: every time up to %s counts as withdrawn,"+
		" and new ids begin far above those of the backup", why, publish.Stamp(mem.through))
	return mem, ids.Skip(r.Now())
}

// rememberNewest implements remember for a known newest snapshot. It returns a damage error if that
// snapshot cannot be read.
func (r *restore) rememberNewest(ctx context.Context, mem *memory, newest *artifacts.Pointer) error {
	m, err := artifacts.ReadManifest(ctx, r.Store, newest.Manifest)
	if err != nil {
		return err
	}
	root, err := ledger.ReadRoot(ctx, r.Store, m.Ledger)
	if err != nil {
		return err
	}
	if err := mem.ids.Add(ctx, r.Store, m.Ledger); err != nil {
		return err
	}
	mem.withdrawn = append(slices.Clone(m.Withdrawn), m.Time)
	for _, ret := range m.Retained {
		mem.withdrawn = append(mem.withdrawn, ret.Time)
	}
	mem.through = latest(m.Time, append(m.Withdrawn, m.WithdrawnThrough)...)
	mem.wasWithdrawn = func(t time.Time) (bool, bool) {
		if t.Equal(m.Time) || publish.Retains(m, t) {
			return false, true
		}
		if t.After(m.Time) || slices.ContainsFunc(m.Withdrawn, t.Equal) {
			return true, true
		}
		built, known := root.Remembers(t)
		// For times up to WithdrawnThrough, root may be wrong: a restore that could not determine
		// what was withdrawn may have put back a ledger from before a rollback.
		return !built, known && t.After(m.WithdrawnThrough)
	}
	return nil
}

// manifest makes and puts the manifest to publish, and its ledger.
func (r *restore) manifest(ctx context.Context) (*artifacts.Manifest, artifacts.Ref, error) {
	var ref artifacts.Ref
	p := &r.backup.pointer.value
	newest, err := artifacts.ReadManifest(ctx, r.Store, p.Manifest)
	if err != nil {
		return nil, ref, err
	}
	mem, err := r.remember(ctx, newest)
	if err != nil {
		return nil, ref, err
	}
	all := append([]artifacts.Retained{{Time: p.Time, Manifest: p.Manifest}}, newest.Retained...)
	all = slices.DeleteFunc(all, func(ret artifacts.Retained) bool {
		withdrawn, known := mem.wasWithdrawn(ret.Time)
		if withdrawn && known {
			r.note("snapshot %s was withdrawn since the backup, and stays withdrawn", publish.Stamp(ret.Time))
			mem.withdrawn = append(mem.withdrawn, ret.Time)
		}
		return withdrawn && known
	})
	if len(all) == 0 {
		return nil, ref, fmt.Errorf("every snapshot of %s was withdrawn since: restore another backup,"+
			" or mend the store with builder repair", r.From.Name)
	}
	if _, known := mem.wasWithdrawn(all[0].Time); !known {
		r.note("whether a rollback withdrew snapshot %s since the backup cannot be told", publish.Stamp(all[0].Time))
	}
	target, err := artifacts.ReadManifest(ctx, r.Store, all[0].Manifest)
	if err != nil {
		return nil, ref, err
	}
	next := *target
	next.Retained = slices.DeleteFunc(all[1:], func(ret artifacts.Retained) bool {
		return !slices.Contains(target.Retained, ret)
	})
	publish.Withdraw(&next, append(mem.withdrawn, newest.Withdrawn...), latest(mem.through, newest.WithdrawnThrough))
	book, err := mem.ids.Ledger(ctx, r.Store, target.Ledger)
	if err != nil {
		return nil, ref, err
	}
	next.Ledger, err = putLedger(ctx, r.Store, book)
	if err != nil {
		return nil, ref, err
	}
	body := next.Encode()
	ref = artifacts.RefOf(body)
	if ref.Size > artifacts.MaxManifestSize {
		return nil, ref, fmt.Errorf("manifest has %d bytes; readers take %d", ref.Size, artifacts.MaxManifestSize)
	}
	if err := r.Store.Put(ctx, artifacts.ManifestKey(ref.Digest), body); err != nil {
		return nil, ref, fmt.Errorf("put manifest: %w", err)
	}
	if err := r.Store.Sync(ctx); err != nil {
		return nil, ref, fmt.Errorf("sync manifest: %w", err)
	}
	return &next, ref, nil
}

// change records the change in the restored totals. If neither store had a record, it leaves this
// to the change job.
func (r *restore) change(ctx context.Context, m *artifacts.Manifest) error {
	before := [2]artifacts.Numbered{r.backup.change.value.Numbered, r.present.change.value.Numbered}
	if before[0].Number == 0 && before[1].Number == 0 {
		return nil
	}
	c, err := change.At(ctx, r.Store, m, r.Now)
	if err != nil {
		return err
	}
	if c.Numbered, err = r.number("change record's number", before[0], before[1]); err != nil {
		return err
	}
	c.Sequence = r.report.Sequence
	return settle(ctx, r.Store, artifacts.ChangeKey, r.present.change.version, c.Encode())
}

func latest(t time.Time, others ...time.Time) time.Time {
	return slices.MaxFunc(slices.Concat([]time.Time{t}, others), time.Time.Compare)
}
