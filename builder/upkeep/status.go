package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
)

// StatusConfig configures Status.
type StatusConfig struct {
	// Store neither signs nor verifies, so Status also sees untrusted objects.
	Store artifacts.Store
	// Trust are the keys with which Status verifies signatures. Without keys, Status reports which
	// keys claim to have signed.
	Trust artifacts.Trust
	// Grace is the grace period of the gc run that Status predicts.
	Grace time.Duration
	// Now is the clock for computing ages. If it is nil, time.Now is used.
	Now func() time.Time
}

// StatusReport describes a store. It says whether the objects of the store's views exist with the
// right size. Status does not read these objects.
type StatusReport struct {
	// Store is the store's identity, or empty if the store has none.
	Store string `json:"store"`
	// Time is the time of the report, by StatusConfig.Now.
	Time time.Time `json:"time"`
	// Snapshots are the published snapshot and the retained ones, newest first.
	Snapshots []SnapshotStatus `json:"snapshots"`
	// Withdrawn are the times withdrawn by rollbacks.
	Withdrawn []time.Time `json:"withdrawn"`
	// WithdrawnThrough is the time up to which a restore withdrew all times, or zero if no restore
	// did.
	WithdrawnThrough time.Time `json:"withdrawn_through,omitzero"`
	// Moving describes the store's small objects.
	Moving []MovingStatus `json:"moving"`
	Keys   KeyStatus      `json:"keys"`
	// Ledger describes the published snapshot's ledger. It is nil if the ledger cannot be read.
	Ledger *LedgerStatus `json:"ledger"`
	// Objects and Bytes count all manifests and objects. Free and FreeBytes count the ones that gc
	// would remove; they are zero if gc would fail.
	Objects   int   `json:"objects"`
	Bytes     int64 `json:"bytes"`
	Free      int   `json:"free"`
	FreeBytes int64 `json:"free_bytes"`
	// Problems has at most maxStatusProblems entries. Verify finds all problems, including kinds
	// that Status cannot find, since it reads everything.
	Problems []string `json:"problems"`
}

// SnapshotStatus describes a published or retained snapshot.
type SnapshotStatus struct {
	Time       time.Time `json:"time"`
	AgeSeconds int64     `json:"age_seconds"`
	Published  bool      `json:"published"`
	// Sequence is the published snapshot's sequence. It is zero for other snapshots.
	Sequence uint64 `json:"sequence,omitempty"`
	// DataAges maps each part of a live source to the age of its newest row, in seconds. Only the
	// published snapshot has it.
	DataAges map[string]int64 `json:"data_age_seconds,omitempty"`
	Manifest artifacts.Digest `json:"manifest"`
	// Counts has the number of accepted rows of each collection. It is nil if the manifest cannot be
	// read.
	Counts map[string]int `json:"counts"`
	// Objects and Bytes count the objects of the snapshot's views, including shared ones. Missing
	// counts the objects that do not exist or have another size.
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
	Missing int   `json:"missing"`

	refs []artifacts.Ref
}

// MovingStatus describes a small object.
type MovingStatus struct {
	Key   artifacts.Key `json:"key"`
	There bool          `json:"there"`
	// SignedBy are the short names of the keys that claim to have signed the object.
	SignedBy []string `json:"signed_by"`
	// Number is the sequence of current, or the number of change or keys.
	Number uint64 `json:"number,omitempty"`
	// Trusted reports whether a trusted key has signed the object. It is nil if no key was given.
	Trusted *bool `json:"trusted"`
}

// KeyStatus counts API keys.
type KeyStatus struct {
	InForce int `json:"in_force"`
	Expired int `json:"expired"`
	Revoked int `json:"revoked"`
}

// LedgerStatus describes a ledger.
type LedgerStatus struct {
	Digest artifacts.Digest `json:"digest"`
	// Snapshots is the number of snapshots whose prices are kept, from Oldest to Newest.
	Snapshots int       `json:"snapshots"`
	Oldest    time.Time `json:"oldest,omitzero"`
	Newest    time.Time `json:"newest,omitzero"`
	// IDs counts the ids ever assigned, by collection.
	IDs map[string]int `json:"ids"`
	// Objects and Bytes include the root. Missing has the same meaning as in SnapshotStatus.
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
	Missing int   `json:"missing"`
}

const maxStatusProblems = 100

// Status describes a store. It reads the small objects, the manifests and the ledger root, lists
// the other objects, and writes nothing. It returns an error only if the store does not respond or
// the context ends; the report describes damage.
func Status(ctx context.Context, cfg StatusConfig) (*StatusReport, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &status{cfg: cfg, StatusReport: &StatusReport{
		Time: cfg.Now().UTC(), Snapshots: []SnapshotStatus{}, Withdrawn: []time.Time{}, Problems: []string{},
	}, size: map[artifacts.Digest]int64{}}
	if err := s.moving(ctx); err != nil {
		return nil, err
	}
	if err := s.list(ctx); err != nil {
		return nil, err
	}
	return s.StatusReport, nil
}

type status struct {
	cfg StatusConfig
	*StatusReport
	ledger []artifacts.Ref
	// size is the listed size of each needed object, or -1 if it is not listed.
	size map[artifacts.Digest]int64
}

// problem adds err to the report if it is a damage error, and otherwise returns it.
func (s *status) problem(what string, err error) error {
	if err == nil || !artifacts.IsDamage(err) && !errors.Is(err, publish.ErrLost) &&
		!errors.Is(err, artifacts.ErrSignature) {
		return err
	}
	if len(s.Problems) < maxStatusProblems {
		s.Problems = append(s.Problems, fmt.Sprintf("%s: %v", what, err))
	}
	return nil
}

// moving reads the small objects, and the objects that the pointer names.
func (s *status) moving(ctx context.Context) error {
	for _, key := range smallKeys {
		m := MovingStatus{Key: key, SignedBy: []string{}}
		b, _, err := s.cfg.Store.Get(ctx, key, artifacts.MaxKeySetSize)
		if m.There = !errors.Is(err, artifacts.ErrNotFound); !m.There {
			err = publish.CheckMissing(ctx, s.cfg.Store, key)
		} else if err == nil {
			ids, _ := artifacts.SignedBy(b)
			for _, id := range ids {
				m.SignedBy = append(m.SignedBy, strings.Trim(id, `"`))
			}
			if s.cfg.Trust != nil {
				err = s.cfg.Trust.Verify(key, b)
				trusted := err == nil
				m.Trusted = &trusted
			}
			err = cmp.Or(s.parse(ctx, &m, b), err)
		}
		s.Moving = append(s.Moving, m)
		if err := s.problem(key.String(), err); err != nil {
			return err
		}
	}
	return nil
}

// parse parses a small object and reads the objects that it names.
func (s *status) parse(ctx context.Context, m *MovingStatus, b []byte) error {
	n, err := artifacts.ParseNumbered(m.Key, b)
	if err != nil {
		return err
	}
	m.Number = n.Number
	var below error
	switch m.Key { // ParseNumbered has parsed b, so parsing it again cannot fail
	case artifacts.CurrentKey:
		p, _ := artifacts.ParsePointer(b)
		below = s.published(ctx, p)
	case artifacts.KeysKey:
		set, _ := artifacts.ParseKeySet(b)
		s.keys(set)
	}
	s.Store = cmp.Or(s.Store, n.Store)
	if n.Store != "" && n.Store != s.Store {
		return errors.Join(fmt.Errorf("%w: it is of store %s", artifacts.ErrCorrupt, n.Store), below)
	}
	return below
}

func (s *status) keys(set *artifacts.KeySet) {
	for i := range set.Keys {
		switch k := &set.Keys[i]; {
		case !k.Revoked.IsZero():
			s.Keys.Revoked++
		case k.InForce(s.Time):
			s.Keys.InForce++
		default:
			s.Keys.Expired++
		}
	}
}

// published reads the manifests that are reachable from the pointer, and the ledger root.
func (s *status) published(ctx context.Context, p *artifacts.Pointer) error {
	m, err := artifacts.ReadManifest(ctx, s.cfg.Store, p.Manifest)
	s.Snapshots = append(s.Snapshots, s.snapshot(p.Time, p.Manifest, m))
	s.Snapshots[0].Published, s.Snapshots[0].Sequence = true, p.Sequence
	for part, t := range p.DataTimes {
		if s.Snapshots[0].DataAges == nil {
			s.Snapshots[0].DataAges = map[string]int64{}
		}
		s.Snapshots[0].DataAges[part] = int64(s.Time.Sub(t) / time.Second)
	}
	late, lerr := logLate(ctx, s.cfg.Store, p, s.Time)
	s.Problems = append(s.Problems, late...)
	if lerr := s.problem("log", lerr); lerr != nil {
		return lerr
	}
	if err != nil {
		return err
	}
	s.Withdrawn, s.WithdrawnThrough = append(s.Withdrawn, m.Withdrawn...), m.WithdrawnThrough
	retained, errs := make([]SnapshotStatus, len(m.Retained)), make([]error, len(m.Retained))
	err = walk.Parallel(ctx, len(m.Retained), func(ctx context.Context, i int) error {
		var old *artifacts.Manifest
		old, errs[i] = artifacts.ReadManifest(ctx, s.cfg.Store, m.Retained[i].Manifest)
		retained[i] = s.snapshot(m.Retained[i].Time, m.Retained[i].Manifest, old)
		return publish.UnlessDamage(errs[i])
	})
	if err != nil {
		return err
	}
	s.Snapshots = append(s.Snapshots, retained...)
	for i, err := range errs {
		_ = s.problem("snapshot "+publish.Stamp(retained[i].Time), err) // any other error has already ended the walk
	}
	if err := s.problem("current", publish.CheckPointer(ctx, s.cfg.Store, p, publish.Seen{})); err != nil {
		return err
	}
	root, err := ledger.ReadRoot(ctx, s.cfg.Store, m.Ledger)
	if err != nil {
		return s.problem("ledger", err)
	}
	s.ledger = append(root.Refs(), m.Ledger)
	l := &LedgerStatus{Digest: m.Ledger.Digest, Snapshots: len(root.Prices), IDs: map[string]int{}}
	if n := len(root.Prices); n > 0 {
		l.Oldest, l.Newest = root.Prices[0].Time, root.Prices[n-1].Time
	}
	for c, ids := range root.IDs {
		l.IDs[c] = ids.Count
	}
	s.Ledger = l
	return nil
}

// snapshot describes a snapshot. m is nil if its manifest cannot be read.
func (s *status) snapshot(t time.Time, ref artifacts.Ref, m *artifacts.Manifest) SnapshotStatus {
	one := SnapshotStatus{Time: t, AgeSeconds: int64(s.Time.Sub(t) / time.Second), Manifest: ref.Digest}
	if m != nil {
		one.Counts = m.Counts
		for i := range m.Views {
			for _, o := range m.Views[i].Objects {
				one.refs = append(one.refs, o.Ref)
			}
		}
	}
	return one
}

// list counts the existing and missing objects, and the objects that gc would remove.
func (s *status) list(ctx context.Context) error {
	need := func(refs []artifacts.Ref) {
		for _, ref := range refs {
			s.size[ref.Digest] = -1
		}
	}
	need(s.ledger)
	for i := range s.Snapshots {
		need(s.Snapshots[i].refs)
	}
	c, err := newCollector(ctx, GCConfig{Store: s.cfg.Store, Grace: s.cfg.Grace, DryRun: true, Now: s.cfg.Now})
	if err == nil {
		err = c.markYoung(ctx)
	}
	if err == nil {
		err = c.markPublished(ctx)
	}
	collects := err == nil && c.report.Snapshot
	if err := cmp.Or(s.problem("gc would stop", err), s.problem("files", c.filesErr)); err != nil {
		return err
	}
	for _, prefix := range []string{artifacts.ManifestPrefix, artifacts.ObjectPrefix, artifacts.FilePrefix} {
		err := s.cfg.Store.List(ctx, prefix, func(info artifacts.Info) error {
			s.Objects++
			s.Bytes += info.Size
			if collects && info.Modified.Before(c.before) && c.unmarked(info.Key) {
				s.Free++
				s.FreeBytes += info.Size
			}
			if d := info.Key.Digest(); info.Key.Kind() == artifacts.ObjectKind && s.size[d] != 0 {
				s.size[d] = info.Size
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("list %s: %w", prefix, err)
		}
	}
	count := func(of string, refs []artifacts.Ref, objects *int, bytes *int64, missing *int) {
		for _, ref := range refs {
			*objects++
			*bytes += ref.Size
			if s.size[ref.Digest] != ref.Size {
				*missing++
			}
		}
		if *missing > 0 {
			_ = s.problem(of, fmt.Errorf("%w: %d objects; builder verify names them", artifacts.ErrNotFound, *missing))
		}
	}
	for i := range s.Snapshots {
		one := &s.Snapshots[i]
		count("snapshot "+publish.Stamp(one.Time), one.refs, &one.Objects, &one.Bytes, &one.Missing)
	}
	if l := s.Ledger; l != nil {
		count("ledger", s.ledger, &l.Objects, &l.Bytes, &l.Missing)
	}
	return nil
}
