package upkeep

import (
	"errors"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// TestIdentity checks that all small objects of a store name the same store, even if several
// writers begin at the same time, and that a record that replaces a lost one has a number at least
// as high as the lost record's.
func TestIdentity(t *testing.T) {
	s, ctx := memstore.New(), t.Context()
	var ids [8]string
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			var err error
			if ids[i], err = publish.Identity(ctx, s); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	registry := &keys.Registry{Store: s}
	create := func() error {
		_, err := registry.Create(ctx, keys.Request{Name: "n", Rate: 1, Burst: 1})
		return err
	}
	change := func() artifacts.Numbered {
		c := must.Get(change.Record(ctx, s, time.Now))(t)
		return c.Numbered
	}
	ok(t, create())
	mustBuild(t, s, world{Assets: 20, At: epoch})
	first, set := change(), keySet(t, s)
	mine := ids[0]
	lose := func(names ...artifacts.Key) {
		for _, lost := range names {
			ok(t, s.Delete(ctx, lost))
		}
		if second := change(); second.Store != mine || second.Number < first.Number ||
			second.Number > first.Number+artifacts.MaxJump {
			t.Errorf("change record %+v after %+v was lost", second, first)
		}
		must.Get(registry.RevokeAll(ctx))(t)
		if err := create(); err != nil || keySet(t, s).Number < set.Number {
			t.Errorf("key set %d after %d was lost, %v", keySet(t, s).Number, set.Number, err)
		}
	}
	for _, id := range append(ids[1:], head(t, s).Pointer.Store, first.Store, set.Store) {
		if id != ids[0] {
			t.Errorf("store %s beside %s", id, ids[0])
		}
	}
	lose(artifacts.IdentityKey, artifacts.ChangeKey, artifacts.KeysKey)
	// A restore raises the numbers by more than the clock does in several days.
	backup := memstore.New()
	backUp(t, s, backup)
	must.Get(tryRestore(ctx, s, backup, func(c *RestoreConfig) { c.Now = time.Now }))(t)
	first, set = changeRecord(t, s).Numbered, keySet(t, s)
	lose(artifacts.ChangeKey, artifacts.KeysKey)
	// Restore the same backup again, over the state that was backed up.
	again := clone(t, backup, func(artifacts.Key) bool { return true })
	if _, err := tryRestore(ctx, again, backup,
		func(c *RestoreConfig) {
			c.Seen, c.Now, c.KeysFromBackup = head(t, s).Pointer.Sequence, time.Now, true
		}); err != nil ||
		changeRecord(t, again).Number <= first.Number || keySet(t, again).Number <= set.Number {
		t.Errorf("change record %d after %d, key set %d after %d, %v", changeRecord(t, again).Number, first.Number,
			keySet(t, again).Number, set.Number, err)
	}
	// The age of a backup raises the numbers, too.
	days := func() time.Time { return time.Now().AddDate(0, 0, 10) }
	first.Number += 10 * 24 * 12
	ok(t, s.Delete(ctx, artifacts.ChangeKey))
	if _, err := tryRestore(ctx, s, backup, func(c *RestoreConfig) { c.Now = days }); err != nil ||
		changeRecord(t, s).Number < first.Number {
		t.Errorf("change record %d after %d was lost, %v", changeRecord(t, s).Number, first.Number, err)
	}

	set.Store, set.Number = "ffffffffffffffffffffffffffffffff", 1<<40
	overwrite(t, s, artifacts.KeysKey, set.Encode())
	if err := create(); !errors.Is(err, artifacts.ErrCorrupt) {
		t.Errorf("a key in the set of another store: %v", err)
	}
}
