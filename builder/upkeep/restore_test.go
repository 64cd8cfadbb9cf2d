package upkeep

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

func tryRestore(ctx context.Context, s artifacts.Store, from artifacts.Reader, change ...func(*RestoreConfig),
) (*RestoreReport, error) {
	cfg := RestoreConfig{Store: s, From: Copy{from, "backup"}, Now: at(4)}
	for _, f := range change {
		f(&cfg)
	}
	return Restore(ctx, cfg)
}

// at returns a clock that always shows the middle of the given step after epoch.
func at(steps time.Duration) func() time.Time {
	return func() time.Time { return epoch.Add(steps*artifacts.Step + artifacts.Step/2) }
}

func keySet(t *testing.T, s artifacts.Reader) *artifacts.KeySet {
	t.Helper()
	return must.Get(artifacts.ParseKeySet(stored(t, s, artifacts.KeysKey)))(t)
}

func revoke(t *testing.T, s artifacts.Store, id string) {
	t.Helper()
	must.Get((&keys.Registry{Store: s}).Revoke(t.Context(), id))(t)
}

// TestRestore restores a backup to each possible remainder of a store. The published snapshot must
// be complete, its sequence and numbers must exceed all that edges have seen, no revoked key may
// come back, and the next build must publish.
func TestRestore(t *testing.T) {
	s, w, one, two := keyed(t)
	backup := memstore.New()
	backUp(t, s, backup)
	// Changes since the backup: a snapshot, a change record, one revoked key and one new key.
	mustBuild(t, s, w.Later(artifacts.Step))
	must.Get(change.Record(t.Context(), s, time.Now))(t)
	revoke(t, s, one.ID)
	three := key(t, s)
	seen, seenKeys, seenChange := head(t, s).Pointer.Sequence, keySet(t, s).Number, changeRecord(t, s).Number
	without := func(gone ...string) artifacts.Store {
		return clone(t, s, func(key artifacts.Key) bool {
			return !slices.ContainsFunc(gone, func(g string) bool { return strings.HasPrefix(key.String(), g) })
		})
	}
	with := func(key artifacts.Key, b []byte) artifacts.Store {
		c := clone(t, s, all)
		overwrite(t, c, key, b)
		return c
	}
	pointer := func(f func(p *artifacts.Pointer)) []byte {
		p := *head(t, s).Pointer
		f(&p)
		return p.Encode()
	}
	fromBackup := func(c *RestoreConfig) { c.KeysFromBackup = true }
	none := func(*RestoreConfig) {}
	// Of two edges, one has been cut off since the backup.
	edges := func(c *RestoreConfig) {
		c.KeysFrom = []Copy{{clone(t, backup, all), "cut off"}, {clone(t, s, all), "edge"}}
	}
	const stays, replaced, backups = "one- two three", "one- two", "one two"
	for _, c := range []struct {
		name   string
		store  artifacts.Store
		change func(*RestoreConfig)
		keys   string // one- means that key one is revoked
		above  uint64 // the resulting sequence is restoreStep higher
		notes  int
	}{
		{"whole", without(), none, stays, seen, 0},
		{"whole, keys of the backup", without(), fromBackup, replaced, seen, 1},
		{"whole, keys of edges", without(), edges, stays, seen, 0},
		{"nothing is left", memstore.New(), fromBackup, backups, 3, 3},
		{"nothing is left, keys of edges", memstore.New(), edges, stays, 3, 3},
		{"nothing is left, seen", memstore.New(),
			func(c *RestoreConfig) { c.Seen, c.KeysFromBackup = 77, true }, backups, 77, 3},
		{"no pointer", without("current"), none, stays, 3, 2},
		{"no pointer, no objects, seen", without("current", "objects/"), func(c *RestoreConfig) { c.Seen = seen },
			stays,
			seen, 2},
		{"no identity", without("identity"), none, stays, seen, 0},
		{"no key set", without("keys"), fromBackup, backups, seen, 1},
		{"no key set, keys of edges", without("keys"), edges, stays, seen, 1},
		{"a pointer of any bytes", with(artifacts.CurrentKey, []byte("x")), none, stays, 3, 2},
		{"a sequence beyond reason",
			with(artifacts.CurrentKey,
				pointer(func(p *artifacts.Pointer) { p.Sequence = artifacts.MaxNumber })), none, stays, 3, 3},
		{"a high sequence", with(artifacts.CurrentKey,
			pointer(func(p *artifacts.Pointer) { p.Sequence = artifacts.MaxJump })), none,
			stays, artifacts.MaxJump, 0},
		{"an identity of any bytes", with(artifacts.IdentityKey, []byte("x")), none, stays, seen, 0},
		{"a change record of any bytes", with(artifacts.ChangeKey, []byte("x")), none, stays, seen, 0},
		{"keys of any bytes, replaced", with(artifacts.KeysKey, []byte("x")), fromBackup, backups, seen, 1},
		{"keys of any bytes, keys of edges", with(artifacts.KeysKey, []byte("x")), edges, stays, seen, 1},
		// The key set stays, including its number, so that edges refuse it if they have seen a
		// later one.
		{"the backup itself", clone(t, backup, all), none, backups, 3, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			own, _, _ := c.store.Get(t.Context(), artifacts.KeysKey, artifacts.MaxKeySetSize)
			r := must.Get(tryRestore(t.Context(), c.store, backup, c.change))(t)
			verify(t, c.store)
			got := head(t, c.store)
			if r.Sequence != c.above+restoreStep || got.Pointer.Sequence != r.Sequence ||
				!reflect.DeepEqual(got.Manifest.Views, head(t, backup).Manifest.Views) || len(r.Notes) != c.notes {
				t.Errorf("report %+v; sequence %d, want %d", r, got.Pointer.Sequence, c.above+restoreStep)
			}
			set, record := keySet(t, c.store), changeRecord(t, c.store)
			put := set.Number > seenKeys && set.Number <= seenKeys+artifacts.MaxJump/2
			if put == bytes.Equal(own, stored(t, c.store, artifacts.KeysKey)) || record.Number <= seenChange ||
				set.Store != got.Pointer.Store || record.Store != set.Store {
				t.Errorf("key set %+v, change record %+v; seen were %d and %d", set.Numbered, record.Numbered,
					seenKeys, seenChange)
			}
			var names []string
			for i, made := range []keys.Created{one, two, three} {
				k := set.Find(made.ID)
				if k == nil {
					continue
				}
				name := []string{"one", "two", "three"}[i]
				if !k.Revoked.IsZero() {
					name += "-"
				}
				names = append(names, name)
			}
			if got := strings.Join(names, " "); got != c.keys || r.Keys != len(names) {
				t.Errorf("keys %s, want %s; report %+v", got, c.keys, r)
			}
			if next := mustBuild(t, c.store, w.Later(2*artifacts.Step)); next.Sequence != r.Sequence+1 {
				t.Errorf("the next sequence is %d", next.Sequence)
			}
		})
	}
}

// TestRestoreRefuses checks that a restore that cannot be right returns an error and leaves the
// pointer alone.
func TestRestoreRefuses(t *testing.T) {
	s, w, _, _ := keyed(t)
	backup, other := memstore.New(), memstore.New()
	backUp(t, s, backup)
	mustBuild(t, other, w)
	strange, _, _, _ := keyed(t)
	broken, badKeys := clone(t, backup, all), clone(t, s, all)
	overwrite(t, broken, artifacts.ObjectKey(head(t, backup).Manifest.Ledger.Digest), []byte("x"))
	overwrite(t, badKeys, artifacts.KeysKey, []byte("x"))
	keyless := clone(t, backup, func(key artifacts.Key) bool { return key != artifacts.KeysKey })
	none, fromBackup := func(*RestoreConfig) {}, func(c *RestoreConfig) { c.KeysFromBackup = true }
	for _, c := range []struct {
		name        string
		store, from artifacts.Store
		change      func(*RestoreConfig)
		says        string
	}{
		{"over another store", other, backup, none, "but the backup is of store"},
		{"of an empty backup", s, memstore.New(), none, "holds no snapshot"},
		{"of a damaged backup", memstore.New(), broken, fromBackup, "is incomplete"},
		{"without keys", memstore.New(), backup, none, "--keys-from"},
		{"keys of another store", memstore.New(), backup,
			func(c *RestoreConfig) { c.KeysFrom = []Copy{{strange, "edge"}} }, "its key set is of store"},
		{"keys that are not there", s, backup,
			func(c *RestoreConfig) { c.KeysFrom = []Copy{{memstore.New(), "edge"}} }, "edge: "},
		{"keys of any bytes", badKeys, backup, none, "--keys-from-backup"},
		{"a backup without keys", s, keyless, fromBackup, "holds no key set"},
		{"seen beyond all numbers", s, backup, func(c *RestoreConfig) { c.Seen = artifacts.MaxNumber }, "2^53"},
	} {
		before := stored0(t, c.store)
		if r, err := tryRestore(t.Context(), c.store, c.from, c.change); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v; want %q", c.name, r, err, c.says)
		}
		if stored0(t, c.store) != before {
			t.Errorf("%s: the pointer moved", c.name)
		}
	}
}

// stored0 returns the pointer's bytes, or "" if there is no pointer.
func stored0(t *testing.T, s artifacts.Reader) string {
	b, _, err := s.Get(t.Context(), artifacts.CurrentKey, artifacts.MaxPointerSize)
	if err != nil && !errors.Is(err, artifacts.ErrNotFound) {
		t.Fatal(err)
	}
	return string(b)
}

// TestRestoreBeside runs gc just before a restore moves the pointer. gc must not remove the old
// objects that only the backup's snapshots need.
func TestRestoreBeside(t *testing.T) {
	s, c := storeWithClock()
	w, backup := grown(t, s), memstore.New()
	backUp(t, s, backup)
	for range 2 {
		w = w.Later(2 * time.Hour)
		mustBuild(t, s, w)
	}
	c.Pass(3 * time.Hour)
	collected := false
	_, err := tryRestore(t.Context(), tap(s, func(op string, key artifacts.Key) {
		if op == "swap" && key == artifacts.CurrentKey {
			collect(t, s)
			collected = true
		}
	}), backup)
	if err != nil || !collected {
		t.Fatal(err)
	}
	verify(t, s)
}

// TestRestoreForgotten checks that a restore revokes a key that the store's full set no longer
// lists. Such a key was no longer valid, so the backup's set must not bring it back.
func TestRestoreForgotten(t *testing.T) {
	s, _, one, two := keyed(t)
	backup := memstore.New()
	backUp(t, s, backup)
	set := keySet(t, s)
	set.Keys = set.Keys[1:]
	set.Number++
	overwrite(t, s, artifacts.KeysKey, set.Encode())
	must.Get(tryRestore(t.Context(), s, backup, func(c *RestoreConfig) { c.KeysFromBackup = true }))(t)
	if got := keySet(t, s); got.Find(one.ID).Revoked.IsZero() || !got.Find(two.ID).Revoked.IsZero() {
		t.Errorf("keys %+v", got.Keys)
	}
}

// TestRestoreFaults makes each call of a restore fail. The published snapshot must stay, or be the
// complete snapshot of the backup. A revoked key must stay revoked, and the next restore must
// succeed.
func TestRestoreFaults(t *testing.T) {
	s, _, one, _ := keyed(t)
	backup := memstore.New()
	backUp(t, s, backup)
	revoke(t, s, one.ID)
	for i, p := range parts(t, s) {
		overwrite(t, s, p.key, ways[i%len(ways)].damage(stored(t, s, p.key), []byte("other")))
	}
	fromBackup := func(c *RestoreConfig) { c.KeysFromBackup = true }
	everyFault(t, func(t *testing.T) artifacts.Store { return clone(t, s, all) }, few,
		func(t *testing.T, s artifacts.Store) error {
			_, err := tryRestore(context.Background(), s, backup, fromBackup)
			return err
		}, func(t *testing.T, s artifacts.Store, _ fault, err error) {
			got := head0(t, s).Sequence
			if got != 3 && got != 3+restoreStep || err == nil && got == 3 {
				t.Errorf("sequence %d, %v", got, err)
			}
			if got != 3 {
				verify(t, s)
			}
			if keySet(t, s).Find(one.ID).Revoked.IsZero() {
				t.Error("a revoked key came back")
			}
			must.Get(tryRestore(t.Context(), s, backup, fromBackup))(t)
			verify(t, s)
			if keySet(t, s).Find(one.ID).Revoked.IsZero() {
				t.Error("a revoked key came back with the next restore")
			}
		})
}

// TestRestoreSigned checks that a backup keeps the store's signatures, that restored objects are
// signed again, and that objects without a trusted signature count as damaged.
func TestRestoreSigned(t *testing.T) {
	sign := must.Get(artifacts.NewSignKey(rand.Reader))(t)
	other := must.Get(artifacts.NewSignKey(rand.Reader))(t)
	trust := artifacts.Trust{sign.Trust()}
	open := func(plain artifacts.Store) artifacts.Store {
		return signed.Store(plain, []artifacts.SignKey{sign}, trust)
	}
	s, backup := open(memstore.New()), memstore.New()
	grown(t, s)
	made := key(t, s)
	backUp(t, s, backup)
	from := signed.Reader(backup, trust)
	verify(t, from)
	forged := clone(t, backup, all)
	for _, key := range signed.Cells {
		if key != artifacts.ChangeKey {
			overwrite(t, forged, key, artifacts.Sign(key, artifacts.Unsigned(stored(t, backup, key)), other))
		}
	}
	for name, to := range map[string]*memstore.Store{"empty": memstore.New(), "whole": clone(t, backup, all),
		"signed by others": forged} {
		if _, err := tryRestore(t.Context(), open(to), from,
			func(c *RestoreConfig) { c.KeysFromBackup = true }); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		verify(t, signed.Reader(to, trust))
		if got := keySet(t, signed.Reader(to, trust)); got.Find(made.ID) == nil {
			t.Errorf("%s: key set %+v", name, got)
		}
		if _, _, err := signed.Reader(to, trust).Get(t.Context(), artifacts.IdentityKey,
			artifacts.MaxPointerSize); err != nil {
			t.Errorf("%s: identity: %v", name, err)
		}
	}
}
