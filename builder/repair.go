package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/render"
)

// Copy is where objects that a store has lost may be: another store, a copy of
// a folder, an edge's cache folder. Nothing in it is believed but by digest.
type Copy struct {
	artifacts.Reader
	// Name is how reports call it.
	Name string
}

// RepairConfig says what Repair works on.
type RepairConfig struct {
	// Config is that of the builds of this store. Source, when there is one, is
	// the feed of a snapshot that has lost objects: it is built again, with the
	// guard rails off, and nothing of that is put but what is missing.
	Config
	// From are asked in their order, before the source.
	From []Copy
	// AcceptLoss lets a store whose ledger cannot be mended go back to its
	// newest snapshot whose ledger is whole, or else go on without what is lost.
	AcceptLoss bool
}

// RepairReport is what Repair found and did (FEED.md, "Repair").
type RepairReport struct {
	// Snapshot is the published snapshot's time; empty in a store that has
	// none, where there is nothing to mend.
	Snapshot string   `json:"snapshot"`
	Sequence uint64   `json:"sequence"`
	Mended   []Mended `json:"mended"`
	// Missing are the problems that are left, as artifacts.Check has them.
	Missing []string `json:"missing"`
	// Loss says how builds can go on although the ledger cannot be mended, and
	// what that loses; empty when there is no need, or no way. Accepted: it is done.
	Loss     string `json:"loss,omitempty"`
	Accepted bool   `json:"accepted"`
}

// Mended is an object that was put back.
type Mended struct {
	Key string `json:"key"`
	// From is the name of the copy, or of the source, that had it.
	From string `json:"from"`
}

// rebuilds bounds how often the source is built: a manifest tells of objects
// that are lost, and a ledger's root among those of others.
const rebuilds = 3

// pointerTries bounds how often a walk over a store starts again because the
// pointer moved under it.
const pointerTries = 5

// Repair puts back what is missing or damaged of all that the published
// snapshot and the retained ones need: from copies, then from builds of the
// same feed. Every object is checked against its digest before it is put, so
// that no copy can do harm. What is whole is not written. It is safe beside a
// running builder and gc, and may be killed and run again.
//
// Of a damaged change record it makes a new one. Pointer, identity and key set
// are not among what it mends: see Restore.
func Repair(ctx context.Context, cfg RepairConfig) (*RepairReport, error) {
	r := &repairer{RepairConfig: cfg, mender: newMender(cfg.Store, cfg.From)}
	for try := 1; ; try++ {
		if err := r.readPointer(ctx); err != nil || r.pointer == nil {
			return r.report(nil), err
		}
		version := r.version
		check, err := r.mend(ctx)
		if err == nil && len(r.lost) > 0 {
			// A builder may have published and gc removed what was looked for.
			if err := r.readPointer(ctx); err != nil {
				return nil, err
			}
			if r.version != version && try < pointerTries {
				continue
			}
			check, err = r.goBack(ctx, check)
		}
		if err == nil {
			err = r.changeRecord(ctx, check)
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
}

func (r *repairer) readPointer(ctx context.Context) error {
	b, version, err := r.Store.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil
	}
	if err == nil {
		r.pointer, err = artifacts.ParsePointer(b)
		r.version = version
	}
	if isDamage(err) || errors.Is(err, artifacts.ErrSignature) {
		return fmt.Errorf("read pointer: %w: builder restore puts a backup's in its place", err)
	}
	if err != nil {
		return fmt.Errorf("read pointer: %w", err)
	}
	return nil
}

func (r *repairer) report(check *artifacts.CheckReport) *RepairReport {
	out := &RepairReport{Mended: r.mended, Missing: []string{}, Loss: r.loss, Accepted: r.accepted}
	if check != nil {
		out.Snapshot, out.Sequence, out.Missing = check.Snapshot, check.Sequence, check.Problems
	}
	return out
}

// mend walks over all that is needed, which mends what copies have, makes history
// anew from the ledger, and builds the source for the rest.
func (r *repairer) mend(ctx context.Context) (*artifacts.CheckReport, error) {
	for round := 0; ; round++ {
		clear(r.lost)
		check, err := artifacts.Check(ctx, r.mender, ledger.Refs, func(done, total int) { r.Progress("repair", done, total) })
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

// changeRecord makes a damaged change record anew, from the ledger.
func (r *repairer) changeRecord(ctx context.Context, check *artifacts.CheckReport) error {
	b, _, err := r.Store.Get(ctx, artifacts.ChangeKey, artifacts.MaxPointerSize)
	if err == nil {
		_, err = artifacts.ParseChange(b)
	}
	if errors.Is(err, artifacts.ErrNotFound) || !isDamage(err) {
		return unlessDamage(err)
	}
	if _, err := Change(ctx, r.Store, r.Now); err != nil {
		return unlessDamage(err) // of a ledger that is lost
	}
	check.Problems = slices.DeleteFunc(check.Problems, func(p string) bool { return strings.HasPrefix(p, "change record: ") })
	r.mended = append(r.mended, Mended{artifacts.ChangeKey, "the ledger"})
	return nil
}

// snapshots returns the manifests that can be read, newest first, and how many
// of them, at the front, the pointer reaches. The others are what gc has left.
func (r *repairer) snapshots(ctx context.Context) (all []artifacts.Retained, reached int, err error) {
	published := artifacts.Retained{Time: r.pointer.Time, Manifest: r.pointer.Manifest}
	add := func(ret artifacts.Retained) (*artifacts.Manifest, error) {
		m, err := artifacts.ReadManifest(ctx, r.mender, ret.Manifest)
		if isDamage(err) {
			return nil, nil
		}
		if err == nil && !slices.ContainsFunc(all, func(a artifacts.Retained) bool { return a.Manifest == ret.Manifest }) {
			all = append(all, artifacts.Retained{Time: m.Time, Manifest: ret.Manifest})
		}
		return m, err
	}
	newest, err := add(published)
	if err != nil {
		return nil, 0, err
	}
	if newest != nil {
		for _, ret := range newest.Retained {
			if _, err := add(ret); err != nil {
				return nil, 0, err
			}
		}
	}
	reached = len(all)
	var lying []artifacts.Ref
	err = r.Store.List(ctx, artifacts.ManifestPrefix, func(info artifacts.Info) error {
		if d, err := artifacts.ParseManifestKey(info.Key); err == nil {
			lying = append(lying, artifacts.Ref{Digest: d, Size: info.Size})
		}
		return nil
	})
	for _, ref := range lying {
		if err == nil {
			_, err = add(artifacts.Retained{Manifest: ref})
		}
	}
	slices.SortStableFunc(all[reached:], func(a, b artifacts.Retained) int { return b.Time.Compare(a.Time) })
	return all, reached, err
}

// rebuild builds the source at the time of each snapshot that lacks something,
// on top of the snapshot before it. A feed that is not that snapshot's gives
// other objects, of which none is missing.
func (r *repairer) rebuild(ctx context.Context) error {
	all, _, err := r.snapshots(ctx)
	if err != nil {
		return err
	}
	broken, err := r.broken(ctx, all)
	if err != nil {
		return err
	}
	for _, t := range broken {
		over := &rebuilt{Store: r.Store, mender: r.mender, name: r.Source.String()}
		if i := slices.IndexFunc(all, func(a artifacts.Retained) bool { return a.Time.Before(t) }); i >= 0 {
			p := *r.pointer
			p.Time, p.Manifest = all[i].Time, all[i].Manifest
			over.pointer = p.Encode()
		}
		cfg := r.Config
		cfg.Store, cfg.Guards = over, Guards{Force: true}
		b, err := New(cfg)
		if err != nil {
			return err
		}
		b.again = true
		if _, err := b.Build(ctx, t); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.Log.Warn("the source cannot be built again", "snapshot", stamp(t), "err", err)
		}
	}
	return nil
}

// history puts back what is lost of the views of history: of each snapshot its
// ledger says all of them.
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
		if !slices.ContainsFunc(publish.Reached(m), func(ref artifacts.Ref) bool { return r.lost[artifacts.ObjectKey(ref.Digest)] }) {
			continue
		}
		root, err := ledger.ReadRoot(ctx, r.mender, m.Ledger)
		if err == nil {
			c := &charter{reader: r.mender, root: root, t: m.Time, put: func(table *render.Table) (artifacts.View, error) {
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
			_, err = c.views(ctx)
		}
		if err := unlessDamage(err); err != nil {
			return err
		}
	}
	return nil
}

// broken returns the times of the published and the retained snapshots that
// lack something, oldest first: what one lacks, the next is built upon.
func (r *repairer) broken(ctx context.Context, all []artifacts.Retained) (times []time.Time, err error) {
	wanted := []artifacts.Retained{{Time: r.pointer.Time, Manifest: r.pointer.Manifest}}
	if m, err := artifacts.ReadManifest(ctx, r.mender, r.pointer.Manifest); err == nil {
		wanted = append(wanted, m.Retained...)
	}
	for _, ret := range wanted {
		m, err := artifacts.ReadManifest(ctx, r.mender, ret.Manifest)
		var refs []artifacts.Ref
		if err == nil {
			refs, err = needs(ctx, r.mender, m)
		}
		if err != nil && !isDamage(err) {
			return nil, err
		}
		if err != nil || slices.ContainsFunc(refs, func(ref artifacts.Ref) bool { return r.lost[artifacts.ObjectKey(ref.Digest)] }) {
			times = append(times, ret.Time)
		}
	}
	slices.Reverse(times)
	return times, nil
}

// goBack publishes the newest snapshot whose ledger is whole, when that of the
// published one is not and the loss is accepted. When there is none, the published
// one goes on with what is left of its ledger.
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
		if whole, err := r.wholeLedger(ctx, newest.Ledger); whole || err != nil {
			return check, err // what is missing is of views
		}
	} else { // what it retained, as far as it can be told
		newest.Retained = slices.DeleteFunc(all, func(a artifacts.Retained) bool { return !a.Time.Before(newest.Time) })
	}
	for at, ret := range newest.Retained {
		target, err := artifacts.ReadManifest(ctx, r.mender, ret.Manifest)
		var whole bool
		if err == nil {
			whole, err = r.wholeLedger(ctx, target.Ledger)
		}
		if err != nil && !isDamage(err) {
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
		return check, unlessDamage(err)
	}
	root, what, err := ledger.Without(b, func(ref artifacts.Ref) bool { return r.lost[artifacts.ObjectKey(ref.Digest)] })
	if err != nil {
		return check, unlessDamage(err)
	}
	r.loss = fmt.Sprintf("snapshot %s stays; its ledger forgets %s: what is computed from them begins with the next that are kept; earlier snapshots, whose ledgers lack the same, can no longer be pinned", stamp(newest.Time), what)
	target := *newest
	target.Retained = nil
	return r.accept(ctx, check, head, newest, -1, target, root)
}

// accept publishes target with another ledger, if the loss is accepted.
func (r *repairer) accept(ctx context.Context, check *artifacts.CheckReport, head *publish.Head, newest *artifacts.Manifest, at int, target artifacts.Manifest, root []byte) (*artifacts.CheckReport, error) {
	if !r.AcceptLoss {
		return check, nil
	}
	if err := r.Store.Sync(ctx); err != nil {
		return nil, fmt.Errorf("sync objects: %w", err)
	}
	if _, err := publishAgain(ctx, r.Store, head, newest, at, &target, root, r.Now); err != nil {
		return nil, err
	}
	r.accepted = true
	return artifacts.Check(ctx, r.mender, ledger.Refs, nil)
}

// rootFor returns the root of the ledger with which target follows newest, and
// notes what that loses.
func (r *repairer) rootFor(ctx context.Context, newest, target *artifacts.Manifest) ([]byte, error) {
	r.loss = fmt.Sprintf("the store goes back from snapshot %s to %s; prices, totals and groups later than that are forgotten", stamp(newest.Time), stamp(target.Time))
	root, err := ledger.Rollback(ctx, r.mender, newest.Ledger, target.Ledger)
	if err == nil {
		var whole bool
		if whole, err = r.wholeRefs(ctx, root); whole || err != nil {
			return root, err
		}
	} else if !isDamage(err) {
		return nil, err
	}
	r.loss += ", and so are the ids that were given out since: other rows may get them"
	return artifacts.ReadObject(ctx, r.mender, target.Ledger)
}

// wholeLedger reports whether all of a ledger is there.
func (r *repairer) wholeLedger(ctx context.Context, ref artifacts.Ref) (bool, error) {
	root, err := artifacts.ReadObject(ctx, r.mender, ref)
	if err != nil {
		return false, unlessDamage(err)
	}
	return r.wholeRefs(ctx, root)
}

func (r *repairer) wholeRefs(ctx context.Context, root []byte) (bool, error) {
	refs, err := ledger.Refs(root)
	if err != nil {
		return false, unlessDamage(err)
	}
	for _, ref := range refs {
		if r.whole[artifacts.ObjectKey(ref.Digest)] {
			continue
		}
		if _, err := artifacts.ReadObject(ctx, r.mender, ref); err != nil {
			return false, unlessDamage(err)
		}
	}
	return true, nil
}

// isDamage reports whether err says that an object is not there, or not as it
// should be; any other error means that this is not known.
func isDamage(err error) bool {
	return errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, artifacts.ErrCorrupt) || errors.Is(err, artifacts.ErrTooLarge) || errors.Is(err, artifacts.ErrFormat)
}

func unlessDamage(err error) error {
	if isDamage(err) {
		return nil
	}
	return err
}

// mender reads a store whose immutable objects may be damaged or missing. Such
// a one it takes from a copy, puts in its place, and returns. It is an
// artifacts.Reader, so that Check, walking through it, leaves a store that is as
// whole as the copies allow.
type mender struct {
	store artifacts.Store
	from  []Copy
	// restoring: every object is put, those that are there too, so that gc
	// leaves them alone until the pointer reaches them; and the pointer is this
	// one, beside which nothing moves.
	restoring []byte

	mu     sync.Mutex
	lost   map[string]bool // what is damaged or missing, and in no copy
	whole  map[string]bool // what was found to be whole, or mended
	mended []Mended
}

func newMender(s artifacts.Store, from []Copy) *mender {
	return &mender{store: s, from: from, lost: map[string]bool{}, whole: map[string]bool{}, mended: []Mended{}}
}

// Get implements artifacts.Reader.
func (m *mender) Get(ctx context.Context, key string, limit int64) ([]byte, artifacts.Version, error) {
	if !immutable(key) {
		switch {
		case m.restoring == nil:
			return m.store.Get(ctx, key, limit)
		case key == artifacts.CurrentKey:
			return m.restoring, "", nil
		}
		return nil, "", artifacts.ErrNotFound
	}
	b, v, err := m.store.Get(ctx, key, limit)
	switch {
	case err == nil && artifacts.Names(key, b):
		if m.restoring != nil {
			err = m.store.Put(ctx, key, b)
		}
		m.found(key)
		return b, v, err
	case err != nil && !isDamage(err):
		return nil, "", err
	}
	var unasked error
	for _, c := range m.from {
		have, _, cerr := c.Get(ctx, key, limit)
		if cerr == nil && artifacts.Names(key, have) {
			return have, "", m.put(ctx, key, have, c.Name)
		}
		if cerr != nil && !isDamage(cerr) {
			unasked = cmp.Or(unasked, fmt.Errorf("%s: %w", c.Name, cerr))
		}
	}
	if unasked != nil { // it may be there
		return nil, "", unasked
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost[key] = true
	return b, v, err
}

// GetIf implements artifacts.Reader.
func (m *mender) GetIf(ctx context.Context, key string, _ artifacts.Version, limit int64) ([]byte, artifacts.Version, error) {
	return m.Get(ctx, key, limit)
}

// put puts an object back.
func (m *mender) put(ctx context.Context, key string, b []byte, from string) error {
	if err := m.store.Put(ctx, key, b); err != nil {
		return fmt.Errorf("put %s back: %w", key, err)
	}
	m.found(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mended = append(m.mended, Mended{key, from})
	return nil
}

func (m *mender) found(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.whole[key] = true
	delete(m.lost, key)
}

func immutable(key string) bool {
	return strings.HasPrefix(key, artifacts.ObjectPrefix) || strings.HasPrefix(key, artifacts.ManifestPrefix)
}

// rebuilt is what a build of the same feed works on: the store as it was before
// the snapshot. Of what the build writes, what is lost is put, and nothing else
// happens.
type rebuilt struct {
	artifacts.Store
	mender  *mender
	name    string
	pointer []byte // nil: there is no snapshot before
}

func (s *rebuilt) Get(ctx context.Context, key string, limit int64) ([]byte, artifacts.Version, error) {
	switch {
	case immutable(key):
		return s.mender.Get(ctx, key, limit)
	case key == artifacts.CurrentKey && s.pointer != nil:
		return s.pointer, "before", nil
	}
	return nil, "", artifacts.ErrNotFound
}

func (s *rebuilt) GetIf(ctx context.Context, key string, _ artifacts.Version, limit int64) ([]byte, artifacts.Version, error) {
	return s.Get(ctx, key, limit)
}

func (s *rebuilt) Put(ctx context.Context, key string, data []byte) error {
	s.mender.mu.Lock()
	lost := s.mender.lost[key]
	s.mender.mu.Unlock()
	if lost && artifacts.Names(key, data) {
		return s.mender.put(ctx, key, data, s.name)
	}
	return nil
}

func (s *rebuilt) Sync(context.Context) error { return nil }
func (s *rebuilt) Swap(context.Context, string, artifacts.Version, []byte) (artifacts.Version, error) {
	return "after", nil
}
func (s *rebuilt) Delete(context.Context, string) error { return nil }
func (s *rebuilt) SelfTest(context.Context) error       { return nil }
