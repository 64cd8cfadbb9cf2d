package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/transparency"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"golang.org/x/mod/sumdb/tlog"
)

// logged is a store with a log, and the list of leaves that the log must have.
type logged struct {
	t     *testing.T
	dice  *rand.Rand
	s     *memstore.Store
	clock *buildtest.Clock
	keys  []artifacts.SignKey // the keys that sign now
	trust artifacts.Trust     // all keys that have ever signed

	step     time.Duration // the time between snapshots
	at       time.Time
	sequence uint64
	model    []string
	lags     bool // whether the last leaf may be missing from the log
	did      []string
}

func newLogged(t *testing.T, seed uint64, step time.Duration) *logged {
	s, clock := buildtest.StoreWithClock()
	k := buildtest.Key(1)
	return &logged{t: t, dice: rand.New(rand.NewPCG(32, seed)), s: s, clock: clock, keys: []artifacts.SignKey{k},
		trust: artifacts.Trust{k.Trust()}, step: step, at: epoch}
}

// open returns the store as the builder opens it. If fault is set, one of the calls on which the
// log depends fails: it is either refused, or applied but reported as failed. In half of the cases
// all later calls fail as well, as if the process had died.
func (l *logged) open(fault bool) artifacts.Store {
	if !fault {
		return buildtest.Signed(l.s, l.keys...)
	}
	wait, lose, dies := l.dice.IntN(14), l.dice.IntN(2) == 0, l.dice.IntN(2) == 0
	met := false
	return buildtest.Signed(faultstore.New(l.s, func(op faultstore.Op) faultstore.Decision {
		ours := op.Key == artifacts.CurrentKey || strings.HasPrefix(op.Key.String(), "log/") ||
			op.Kind == faultstore.Sync
		if met && dies {
			return faultstore.Refuse
		}
		if !ours || met {
			return faultstore.Pass
		}
		wait--
		if met = wait < 0; !met {
			return faultstore.Pass
		}
		if lose {
			return faultstore.Lose
		}
		return faultstore.Refuse
	}), l.keys...)
}

// do runs an operation, and then compares the log with the model.
func (l *logged) do(what string, fault bool, op func(artifacts.Store) error) {
	l.t.Helper()
	late := l.unlogged()
	err := op(l.open(fault))
	l.did = append(l.did, fmt.Sprintf("%s, fault %v: %v", what, fault, err))
	if err != nil && !fault {
		l.t.Fatalf("%s", strings.Join(l.did, "\n"))
	}
	p := head(l.t, l.s).Pointer
	if len(late) > 0 && len(buildtest.CheckLog(l.t, l.s, l.keys...)) > len(l.model) {
		l.model, l.lags = append(l.model, late...), false // these leaves are written before the pointer moves
	}
	if p != nil && p.Sequence != l.sequence {
		if p.Sequence != l.sequence+1 {
			l.t.Fatalf("sequence %d after %d", p.Sequence, l.sequence)
		}
		l.sequence, l.model, l.lags = p.Sequence, append(l.model, buildtest.Leaf(p)), fault
		if p.Log == nil || p.Log.Size != int64(len(l.model)) {
			l.t.Fatalf("the pointer's log is %+v, after %d publications", p.Log, len(l.model))
		}
	}
	if len(l.model) < 40 || len(l.model)%97 == 0 {
		buildtest.SameLog(l.t, l.s, l.model, l.lags, l.keys...)
	}
	if l.t.Failed() {
		l.t.Fatalf("%s", strings.Join(l.did, "\n"))
	}
}

func (l *logged) build(fault bool) {
	l.at = l.at.Add(l.step)
	l.clock.Pass(l.step)
	l.do("build", fault, func(s artifacts.Store) error {
		_, err := l.tryBuild(s)
		return err
	})
}

// unlogged returns, in order, the leaves of the retained and published snapshots that were
// published without signatures.
func (l *logged) unlogged() (leaves []string) {
	h := head(l.t, l.s)
	if h.Pointer == nil || h.Pointer.Log != nil {
		return nil
	}
	if l.lags && len(buildtest.CheckLog(l.t, l.s, l.keys...)) < len(l.model) { // nothing has written the last leaf
		l.model, l.lags = l.model[:len(l.model)-1], false
	}
	for _, ret := range slices.Backward(h.Manifest.Retained) {
		leaves = append(leaves, buildtest.Leaf(&artifacts.Pointer{Time: ret.Time, Manifest: ret.Manifest}))
	}
	leaves = append(leaves, buildtest.Leaf(h.Pointer))
	return slices.DeleteFunc(leaves, func(leaf string) bool { return slices.Contains(l.model, leaf) })
}

// unsigned stops signing, publishes a snapshot, and starts signing again.
func (l *logged) unsigned() {
	resign := func(keys ...artifacts.SignKey) {
		for _, key := range signed.Renewed {
			b, _, err := l.s.Get(l.t.Context(), key, 1<<20)
			if err == nil && (len(keys) > 0 || key != artifacts.CheckpointKey) {
				overwrite(l.t, l.s, key, artifacts.Sign(key, artifacts.Unsigned(b), keys...))
			}
		}
	}
	resign()
	for range 1 + l.dice.IntN(3) {
		l.at = l.at.Add(l.step)
		l.clock.Pass(l.step)
		l.did = append(l.did, "build unsigned")
		must.Get(l.tryBuild(l.s))(l.t)
	}
	l.sequence = head(l.t, l.s).Pointer.Sequence
	if p := must.Get(Verify(l.t.Context(), l.s, nil))(l.t).Problems; len(p) > 0 {
		l.t.Errorf("published unsigned: %q", p)
	}
	resign(l.keys...)
}

func (l *logged) tryBuild(s artifacts.Store) (*builder.Report, error) {
	return tryBuild(l.t.Context(), s, world{Assets: 10, Seed: 1, At: l.at}, func(cfg *builder.Config) {
		cfg.Guards.Force, cfg.Retain, cfg.Now = true, min(8*l.step, builder.MaxRetain), l.clock.Now
	})
}

func (l *logged) rollback(fault bool) {
	h := head(l.t, l.s)
	if h.Manifest == nil || len(h.Manifest.Retained) == 0 {
		return
	}
	to := h.Manifest.Retained[l.dice.IntN(len(h.Manifest.Retained))].Time
	l.do("rollback", fault, func(s artifacts.Store) error {
		_, err := Rollback(l.t.Context(), s, to, l.clock.Now)
		return err
	})
}

func (l *logged) gc() {
	l.do("gc", false, func(s artifacts.Store) error {
		_, err := Collect(l.t.Context(), GCConfig{Store: s, Grace: DefaultGrace, Log: discard})
		return err
	})
}

// rotate adds a new key, or removes the old one.
func (l *logged) rotate() {
	if len(l.keys) > 1 {
		l.keys = l.keys[1:]
	} else {
		next := buildtest.Key(byte(len(l.trust) + 1))
		l.keys, l.trust = append(slices.Clone(l.keys), next), append(l.trust, next.Trust())
	}
	l.do("rotate", false, func(s artifacts.Store) error {
		_, err := signed.Renew(l.t.Context(), s, l.keys)
		return err
	})
}

// TestLogHistories checks that, whatever fails, the log contains each publication once, in order,
// and nothing else, and that it continues every checkpoint that it ever had. A snapshot that was
// published unsigned must be added by the next signed publication, if it is still retained.
func TestLogHistories(t *testing.T) {
	for seed := range uint64(rounds(15, 30)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { // determining whether a swap took effect takes time
				l := newLogged(t, seed, artifacts.Step)
				var kept []tlog.Tree
				for range 30 {
					switch n := l.dice.IntN(20); {
					case n == 0:
						l.unsigned()
					case n < 7:
						l.build(false)
					case n < 13:
						l.build(true)
					case n < 16:
						l.rollback(n == 13)
					case n < 18:
						l.gc()
					default:
						l.rotate()
					}
					if b, _, err := l.s.Get(t.Context(), artifacts.CheckpointKey, 1<<12); err == nil {
						kept = append(kept, buildtest.Checkpoint(t, b, l.keys...))
					}
				}
				l.build(false)
				for _, older := range kept {
					buildtest.Continues(t, l.s, older, l.keys...)
				}
				if p := must.Get(Verify(t.Context(), l.open(false), nil))(t).Problems; len(p) > 0 {
					t.Errorf("%q\n%s", p, strings.Join(l.did, "\n"))
				}
			})
		})
	}
}

// TestLogBehind makes the write of a leaf fail after the pointer has moved. Verify and Status must
// report this after a minute, but not earlier. Repair or the next build must write the leaf.
func TestLogBehind(t *testing.T) {
	for _, c := range []struct {
		ago    time.Duration
		behind bool
	}{{2 * time.Minute, true}, {time.Hour, true}, {0, false}} {
		mem, keys := memstore.New(), []artifacts.SignKey{buildtest.Key(1)}
		faults := faultstore.New(mem, nil)
		s := buildtest.Signed(faults, keys...)
		build := func(i int) *builder.Report {
			w := world{Assets: 10, Seed: 1, At: epoch.Add(time.Duration(i) * artifacts.Step)}
			return mustBuild(t, s, w, func(cfg *builder.Config) {
				cfg.Guards.Force = true
				cfg.Now = func() time.Time { return time.Now().Add(-c.ago) }
			})
		}
		problems := func() []string {
			verified := must.Get(Verify(t.Context(), s, nil))(t).Problems
			status := must.Get(Status(t.Context(), StatusConfig{Store: mem, Grace: DefaultGrace}))(t).Problems
			if !slices.Equal(verified, status) {
				t.Errorf("verify says %q, status %q", verified, status)
			}
			return verified
		}
		build(0)
		if p := problems(); len(p) > 0 {
			t.Errorf("%q", p)
		}
		faults.SetHook(func(op faultstore.Op) faultstore.Decision {
			if op.Kind == faultstore.Swap && op.Key == artifacts.CheckpointKey {
				return faultstore.Refuse
			}
			return faultstore.Pass
		})
		if r := build(1); !strings.Contains(r.LogError, "log/checkpoint") {
			t.Errorf("the report has %q", r.LogError)
		}
		faults.SetHook(nil)
		p := problems()
		if (len(p) == 1 && strings.Contains(p[0], "log: it lacks snapshot")) != c.behind || len(p) > 1 {
			t.Errorf("%v later: %q", c.ago, p)
		}
		if c.ago == time.Hour {
			must.Get(Repair(t.Context(), RepairConfig{Store: s, Now: time.Now}))(t)
		} else if r := build(2); r.LogError != "" {
			t.Error(r.LogError)
		}
		if p := problems(); len(p) > 0 {
			t.Errorf("afterwards: %q", p)
		}
	}
}

// TestProofsOfAYear makes proofs at random times during a year of snapshots, with rollbacks, gc and
// a key rotation. All proofs must be valid at the end of the year, when their snapshots no longer
// exist.
func TestProofsOfAYear(t *testing.T) {
	proofs, year := rounds(500, 1000), rounds(365, 365*2)
	l := newLogged(t, 0, 24*time.Hour*365/time.Duration(year))
	l.step = l.step.Truncate(artifacts.Step)
	var files [][]byte
	for day := range year {
		switch {
		case day%41 == 40:
			l.rollback(false)
		case day%17 == 16:
			l.gc()
		}
		if day == year/2 || day == year/2+3 {
			l.rotate()
		}
		l.build(false)
		h := head(t, l.s)
		for len(files) < proofs*(day+1)/year {
			all := append([]artifacts.Retained{{Time: h.Pointer.Time}}, h.Manifest.Retained...)
			at, asset := all[l.dice.IntN(len(all))].Time, 1+uint64(l.dice.IntN(10))
			p, err := Prove(t.Context(), l.open(false), at, asset)
			if err != nil {
				t.Fatalf("asset %d at %v: %v", asset, at, err)
			}
			files = append(files, p.Encode())
		}
	}
	buildtest.SameLog(t, l.s, l.model, false, l.keys...)
	gone := 0
	log := must.Get(transparency.Open(t.Context(), l.open(false)))(t)
	for _, file := range files {
		p, cp, err := transparency.Verify(file, l.trust)
		if err != nil {
			t.Fatal(err)
		}
		digest := artifacts.Sum(p.Manifest)
		if l.model[p.Leaf] != transparency.Leaf(p.Time, digest) || !strings.HasPrefix(p.Row, `{"id":`) {
			t.Fatalf("leaf %d is %s, the proof is of %v, %s", p.Leaf, l.model[p.Leaf], p.Time, p.Row)
		}
		if _, _, err := l.s.Get(t.Context(), artifacts.ManifestKey(digest), artifacts.MaxManifestSize); err != nil {
			gone++
		}
		_, _, older := transparency.Verify(file, l.trust[:1])
		_, _, newer := transparency.Verify(file, l.trust[1:])
		if older != nil && newer != nil || cp.N < int64(year/2) && older != nil {
			t.Fatalf("leaf %d of %d: by the first key %v, by the second %v", p.Leaf, cp.N, older, newer)
		}
		ok(t, log.Continues(cp))
	}
	t.Logf("%d proofs, %d of snapshots that are gone, %d leaves", len(files), gone, len(l.model))
	if len(files) < proofs || gone < proofs/2 {
		t.Errorf("%d proofs, of %d the snapshot is gone", len(files), gone)
	}
	_, err := Prove(t.Context(), l.open(false), epoch.Add(l.step), 1)
	if err == nil || !strings.Contains(err.Error(), "not retained") {
		t.Errorf("a snapshot that is gone: %v", err)
	}
}

// TestChangedProof changes each byte of a proof while its checksum stays, and each byte of its
// contents with the checksum recomputed. By day it changes only every fifth byte.
func TestChangedProof(t *testing.T) {
	l := newLogged(t, 1, artifacts.Step)
	for range 5 {
		l.build(false)
	}
	// Use only one signature, since signatures by unknown keys are ignored.
	p := must.Get(Prove(t.Context(), l.open(false), l.at.Add(-2*l.step), 3))(t)
	file := p.Encode()
	t.Logf("%d bytes, of them object %d, manifest %d", len(file), len(p.Object), len(p.Manifest))
	if p, cp, err := transparency.Verify(file, l.trust); err != nil || p.Leaf != 2 || cp.N != 5 {
		t.Fatalf("%+v, %v", cp, err)
	}
	stride := rounds(5, 1)
	for i := 0; i < len(file); i += stride {
		changed := bytes.Clone(file)
		changed[i] ^= 1 << l.dice.IntN(8)
		if _, _, err := transparency.Verify(changed, l.trust); err == nil {
			t.Fatalf("byte %d, %q for %q, is not noticed", i, changed[i], file[i])
		}
	}
	forge := func(name string, n int, change func(f *transparency.Proof, i int)) {
		for i := 0; i < n; i += min(stride, 1+n/100) {
			f := *p
			change(&f, i)
			if _, _, err := transparency.Verify(f.Encode(), l.trust); err == nil {
				t.Fatalf("byte %d of %s is not noticed", i, name)
			}
		}
	}
	flip := func(b []byte, i int) []byte { b = bytes.Clone(b); b[i] ^= 1; return b }
	forge("row", len(p.Row), func(f *transparency.Proof, i int) { f.Row = string(flip([]byte(f.Row), i)) })
	forge("object", len(p.Object), func(f *transparency.Proof, i int) { f.Object = flip(f.Object, i) })
	forge("manifest", len(p.Manifest), func(f *transparency.Proof, i int) { f.Manifest = flip(f.Manifest, i) })
	forge("inclusion", 32*len(p.Inclusion), func(f *transparency.Proof, i int) {
		f.Inclusion = slices.Clone(f.Inclusion)
		f.Inclusion[i/32][i%32] ^= 1
	})
	forge("checkpoint", len(p.Checkpoint), func(f *transparency.Proof, i int) {
		f.Checkpoint = string(flip([]byte(f.Checkpoint), i))
	})
	forge("leaf", 1, func(f *transparency.Proof, _ int) { f.Leaf++ })
	forge("time", 1, func(f *transparency.Proof, _ int) { f.Time = f.Time.Add(artifacts.Step) })
	forge("asset", 1, func(f *transparency.Proof, _ int) { f.Asset++ })
	forge("shard", 1, func(f *transparency.Proof, _ int) { f.Shard++ })
	if _, _, err := transparency.Verify(file, artifacts.Trust{buildtest.Key(9).Trust()}); !errors.Is(err,
		artifacts.ErrSignature) {
		t.Errorf("by another key: %v", err)
	}
}

// TestRewrittenLog checks that a holder of the key who can write to the store can create another
// history, but that anyone who keeps a checkpoint of the first history detects this.
func TestRewrittenLog(t *testing.T) {
	l := newLogged(t, 2, artifacts.Step)
	for range 3 {
		l.build(false)
	}
	early := buildtest.Clone(t, l.s, all)
	for range 4 {
		l.build(false)
	}
	kept := must.Get(transparency.Trusted(stored(t, l.s, artifacts.CheckpointKey), l.trust))(t)
	other := *l
	other.s, other.sequence, other.model, other.at = early, 3, slices.Clone(l.model[:3]), l.at.Add(-3*l.step)
	for n := range 8 {
		other.build(false)
		log := must.Get(transparency.Open(t.Context(), other.open(false)))(t)
		if err := log.Continues(kept); !errors.Is(err, transparency.ErrRewritten) {
			t.Errorf("another history of %d leaves: %v", 4+n, err)
		}
	}
	log := must.Get(transparency.Open(t.Context(), l.open(false)))(t)
	ok(t, log.Continues(kept))
}

// TestLogIsChecked checks that verify detects a change to any byte of the log, an old copy of the
// pointer or the checkpoint, and a missing leaf.
func TestLogIsChecked(t *testing.T) {
	l := newLogged(t, 3, artifacts.Step)
	l.build(false)
	older := clone(t, l.s, all)
	for range 3 {
		l.build(false)
	}
	problems := func(s artifacts.Store) []string {
		t.Helper()
		return must.Get(Verify(t.Context(), buildtest.Signed(s), nil))(t).Problems
	}
	if p := problems(l.s); len(p) > 0 {
		t.Fatalf("%q", p)
	}
	for _, name := range []string{"log/tile/0/000.p/4", "log/tile/entries/000.p/4"} {
		key := artifacts.MustKey(name)
		b := stored(t, l.s, key)
		for i := range len(b) {
			changed := clone(t, l.s, all)
			overwrite(t, changed, key, slices.Concat(b[:i], []byte{b[i] ^ 1}, b[i+1:]))
			if p := problems(changed); len(p) != 1 {
				t.Fatalf("byte %d of %s: %q", i, key, p)
			}
		}
		gone := clone(t, l.s, func(k artifacts.Key) bool { return k != key })
		if p := problems(gone); len(p) != 1 || !strings.Contains(p[0], key.String()) {
			t.Errorf("without %s: %q", key, p)
		}
	}
	for _, key := range []artifacts.Key{artifacts.CurrentKey, artifacts.CheckpointKey} {
		mixed := clone(t, l.s, all)
		overwrite(t, mixed, key, stored(t, older, key))
		if p := problems(mixed); len(p) == 0 || !strings.Contains(strings.Join(p, "\n"), "log") {
			t.Errorf("an older %s: %q", key, p)
		}
	}
	gone := clone(t, l.s, func(key artifacts.Key) bool { return key != artifacts.CheckpointKey })
	if p := problems(gone); len(p) == 0 {
		t.Error("a lost checkpoint is not noticed")
	}
}

// spoil damages each object in keys in a random way.
func (l *logged) spoil(s artifacts.Store, keys []artifacts.Key) {
	for _, key := range keys {
		way := ways[l.dice.IntN(len(ways))]
		overwrite(l.t, s, key, way.damage(stored(l.t, s, key), stored(l.t, l.s, artifacts.CurrentKey)))
	}
}

// TestRepairLog damages any combination of a log's newest objects, or removes the whole log. Verify
// must name the damaged objects. Repair must restore the newest objects even without a copy, and
// the whole log from an older backup and the retained snapshots. Then the log must continue. Only
// if the whole log is lost and there is no copy, the report must say that it is missing.
func TestRepairLog(t *testing.T) {
	histories := uint64(3)
	if testing.Short() {
		histories = 1
	}
	for seed := range histories {
		l := newLogged(t, 100+seed, artifacts.Step)
		for range 8 {
			switch l.dice.IntN(8) {
			case 0:
				l.unsigned()
			case 1:
				l.rollback(false)
			}
			l.build(false)
		}
		backup := memstore.New()
		must.Get(Backup(t.Context(), BackupConfig{From: l.open(false), To: backup}))(t)
		for range 3 {
			l.build(false)
		}
		n := len(l.model)
		newest := []artifacts.Key{artifacts.CheckpointKey, artifacts.MustKey(fmt.Sprintf("log/tile/0/000.p/%d", n)),
			artifacts.MustKey(fmt.Sprintf("log/tile/entries/000.p/%d", n))}
		liar := clone(t, l.s, all)
		l.spoil(liar, slices.Collect(maps.Keys(buildtest.Log(t, liar))))
		for subset := range 1<<len(newest) + 1 {
			s, damaged, gone := clone(t, l.s, all), newest, subset == 1<<len(newest)
			if gone {
				s = clone(t, l.s, func(key artifacts.Key) bool { return !strings.HasPrefix(key.String(), "log/") })
			} else {
				damaged = slices.DeleteFunc(slices.Clone(newest),
					func(key artifacts.Key) bool { return subset>>slices.Index(newest, key)&1 == 0 })
				l.spoil(s, damaged)
			}
			found := strings.Join(must.Get(Verify(t.Context(), buildtest.Signed(s), nil))(t).Problems, "\n")
			if (found == "") != (len(damaged) == 0) || found != "" && !slices.ContainsFunc(damaged,
				func(key artifacts.Key) bool { return strings.Contains(found, key.String()) }) {
				t.Fatalf("%q are damaged, verify says %q", damaged, found)
			}
			for name, use := range map[string]func(*RepairConfig){
				"nothing": func(*RepairConfig) {}, "backup": from("backup", backup),
				"copy": func(c *RepairConfig) { from("liar", liar)(c); from("copy", l.s)(c) },
			} {
				now := *l
				now.s, now.model = clone(t, s, all), slices.Clone(l.model)
				r := repair(t, now.open(false), use)
				if gone && name == "nothing" {
					if len(r.Missing) == 0 || !strings.Contains(r.Missing[0], "log") || len(r.Mended) > 0 {
						t.Fatalf("a log that is gone: %+v", r)
					}
					continue
				}
				if len(r.Missing) > 0 || len(r.Mended) != len(damaged) {
					t.Fatalf("%q are damaged, %s mends %q and leaves %q", damaged, name, r.Mended, r.Missing)
				}
				buildtest.SameLog(t, now.s, l.model, false)
				now.build(false)
			}
		}
	}
}

// TestLogAfterRestore checks that a restored store continues the longest known log.
func TestLogAfterRestore(t *testing.T) {
	for _, c := range []struct {
		name  string
		lose  func(key artifacts.Key) bool
		after int // number of leaves that are continued; 6 exist, and the backup has 4
	}{
		{"pointer", func(key artifacts.Key) bool { return key == artifacts.CurrentKey }, 6},
		{"checkpoint", func(key artifacts.Key) bool { return key == artifacts.CheckpointKey }, 6},
		{"pointer and log", func(key artifacts.Key) bool {
			return key == artifacts.CurrentKey || strings.HasPrefix(key.String(), "log/")
		}, 4},
		{"tiles", func(key artifacts.Key) bool {
			return key == artifacts.CurrentKey || strings.HasPrefix(key.String(), artifacts.TilePrefix)
		}, -1},
		{"all", all, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLogged(t, 4, artifacts.Step)
			for range 4 {
				l.build(false)
			}
			backup := memstore.New()
			must.Get(Backup(t.Context(), BackupConfig{From: l.open(false), To: backup}))(t)
			if p := must.Get(Verify(t.Context(), buildtest.Signed(backup), nil))(t).Problems; len(p) > 0 {
				t.Errorf("the backup: %q", p)
			}
			for range 2 {
				l.build(false)
			}
			must.Get(Backup(context.Background(), BackupConfig{From: l.open(false), To: clone(t, backup, all)}))(t)
			left := clone(t, l.s, func(key artifacts.Key) bool { return !c.lose(key) })
			r, err := Restore(t.Context(), RestoreConfig{Store: buildtest.Signed(left), Now: l.clock.Now, Seen: 6,
				From: Copy{signed.Reader(backup, l.trust), "backup"}})
			if c.after < 0 {
				if !artifacts.IsDamage(err) {
					t.Errorf("%+v, %v", r, err)
				}
				return
			}
			ok(t, err)
			h := must.Get(publish.ReadHead(t.Context(), left))(t)
			buildtest.SameLog(t, left, append(slices.Clone(l.model[:c.after]), buildtest.Leaf(h.Pointer)), false)
			if p := must.Get(Verify(t.Context(), buildtest.Signed(left), nil))(t).Problems; len(p) > 0 {
				t.Errorf("%q", p)
			}
		})
	}
}

// TestLogRestoreFaults makes each call of a restore that restores the log fail. The next restore
// must succeed, and the log must have the backup's leaves and one leaf for each publication since.
func TestLogRestoreFaults(t *testing.T) {
	l := newLogged(t, 5, artifacts.Step)
	for range 3 {
		l.build(false)
	}
	backup := memstore.New()
	must.Get(Backup(t.Context(), BackupConfig{From: l.open(false), To: backup}))(t)
	again := func(s artifacts.Store) error {
		_, err := Restore(t.Context(), RestoreConfig{Store: buildtest.Signed(s), Now: l.clock.Now, Seen: 3,
			From: Copy{signed.Reader(backup, l.trust), "backup"}})
		return err
	}
	skip := func(call int, kind faultstore.Kind) bool { return kind == faultstore.Get && call%10 != 0 }
	left := func(key artifacts.Key) bool { return key.Immutable() || key == artifacts.IdentityKey }
	everyFault(t, func(t *testing.T) artifacts.Store { return clone(t, l.s, left) }, skip,
		func(_ *testing.T, s artifacts.Store) error { return again(s) },
		func(t *testing.T, s artifacts.Store, _ fault, _ error) {
			ok(t, again(s))
			p, leaves := head(t, s).Pointer, buildtest.CheckLog(t, s)
			if n := len(leaves); n < 4 || n > 5 || !slices.Equal(leaves[:3], l.model) || int64(n) != p.Log.Size ||
				leaves[n-1] != buildtest.Leaf(p) {
				t.Errorf("%q, of %q and %+v", leaves, l.model, p)
			}
		})
}
