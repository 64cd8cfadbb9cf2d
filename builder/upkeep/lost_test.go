package upkeep

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// TestLostPointer checks that no command begins a new store, or deletes anything, in a store that
// has lost its pointer, whatever else is lost. Otherwise ids would be given to other assets.
func TestLostPointer(t *testing.T) {
	for name, c := range map[string]struct {
		builds int
		change bool
		lost   []artifacts.Key
	}{
		"one snapshot":              {1, false, nil},
		"three snapshots":           {3, false, nil},
		"one, and the identity":     {1, false, []artifacts.Key{artifacts.IdentityKey}},
		"three, and the identity":   {3, false, []artifacts.Key{artifacts.IdentityKey}},
		"identity, with the record": {1, true, []artifacts.Key{artifacts.IdentityKey}},
	} {
		t.Run(name, func(t *testing.T) {
			s, ctx := memstore.New(), t.Context()
			for i := range c.builds {
				mustBuild(t, s, world{Assets: 20 + i, At: epoch.Add(time.Duration(i) * artifacts.Step)})
			}
			if c.change {
				must.Get(change.Record(ctx, s, time.Now))(t)
			}
			left := clone(t, s, func(key artifacts.Key) bool {
				lost := key == artifacts.CurrentKey
				for _, other := range c.lost {
					lost = lost || key == other
				}
				return !lost
			})
			before := contents(t, left)
			for step, do := range map[string]func() error{
				"build": func() error {
					_, err := tryBuild(ctx, left, world{Assets: 30, At: epoch.Add(9 * artifacts.Step)})
					return err
				},
				"change": func() error { _, err := change.Record(ctx, left, time.Now); return err },
				"gc": func() error {
					_, err := Collect(ctx, GCConfig{Store: left, Log: discard})
					return err
				},
				"backup": func() error {
					_, err := Backup(ctx, BackupConfig{From: left, To: memstore.New()})
					return err
				},
				"repair": func() error { _, err := tryRepair(ctx, left); return err },
			} {
				if err := do(); !errors.Is(err, publish.ErrLost) {
					t.Errorf("%s: %v, want %v", step, err, publish.ErrLost)
				}
			}
			if after := contents(t, left); len(after) != len(before) {
				t.Errorf("%d objects after %d", len(after), len(before))
			}
		})
	}
}

// TestOlderPointer checks that a pointer counts as an old copy if its sequence is below the change
// record's, or below the last one seen. A sequence far above the record's is damage. After a
// rollback, the sequence continues.
func TestOlderPointer(t *testing.T) {
	s, ctx := memstore.New(), t.Context()
	mustBuild(t, s, world{Assets: 20, At: epoch})
	old := head(t, s).Pointer
	mustBuild(t, s, world{Assets: 20, At: epoch.Add(artifacts.Step)})
	must.Get(change.Record(ctx, s, time.Now))(t)
	newest, far := head(t, s).Pointer, *old
	far.Sequence = newest.Sequence + artifacts.MaxJump + 1
	must.Get(Rollback(ctx, s, epoch, time.Now))(t)
	back := head(t, s).Pointer
	seen := publish.Seen{Store: old.Store, Sequence: back.Sequence + 1}
	other := publish.Seen{Store: strings.Repeat("0", 32), Sequence: back.Sequence + 1}
	for _, c := range []struct {
		name string
		p    *artifacts.Pointer
		seen publish.Seen
		want error
	}{
		{"an old copy", old, publish.Seen{}, publish.ErrLost}, {"withdrawn", newest, publish.Seen{}, publish.ErrLost},
		{"rolled back", back, publish.Seen{}, nil}, {"seen", back, seen, publish.ErrLost},
		{"another's", back, other, nil}, {"no jump", &far, publish.Seen{}, nil},
	} {
		if err := publish.CheckPointer(ctx, s, c.p, c.seen); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	far.Sequence = back.Sequence + artifacts.MaxJump + 1
	if err := publish.CheckPointer(ctx, s, &far, publish.Seen{}); !errors.Is(err, artifacts.ErrCorrupt) {
		t.Errorf("a jump: %v", err)
	}
	if err := publish.CheckPointer(ctx, memstore.New(), nil, seen); !errors.Is(err, publish.ErrLost) {
		t.Errorf("nothing is left: %v", err)
	}
}

// TestLostIdentityAndKeys checks a store that has lost its identity together with its key set,
// which the identity would have shown to be missing. verify, status and repair must report the
// loss, no command may replace the lost keys with a new one, and a build must not hide the loss.
func TestLostIdentityAndKeys(t *testing.T) {
	for name, c := range map[string]struct{ change, builds bool }{
		"without a change record": {false, false}, "with one": {true, false}, "after a build": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, w, one, _ := keyed(t)
			ctx := t.Context()
			if !c.change {
				ok(t, s.Delete(ctx, artifacts.ChangeKey))
			}
			set := keySet(t, s)
			for _, lost := range []artifacts.Key{artifacts.IdentityKey, artifacts.KeysKey} {
				ok(t, s.Delete(ctx, lost))
			}
			if c.builds {
				mustBuild(t, s, w.Later(artifacts.Step))
			}
			says := func(problems []string) bool {
				return slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, "keys: ") })
			}
			if r := must.Get(Verify(ctx, s, nil))(t); !says(r.Problems) {
				t.Errorf("verify: %q", r.Problems)
			}
			if r := must.Get(Status(ctx, StatusConfig{Store: s}))(t); !says(r.Problems) {
				t.Errorf("status: %q", r.Problems)
			}
			registry := &keys.Registry{Store: s}
			if _, err := registry.Create(ctx, keys.Request{Name: "n", Rate: 1, Burst: 1}); !errors.Is(err,
				publish.ErrLost) {
				t.Errorf("a new key: %v", err)
			}
			if r := must.Get(tryRepair(ctx, s))(t); !says(r.Missing) {
				t.Errorf("repair: %q", r.Missing)
			}
			must.Get(registry.Restore(ctx, []*artifacts.KeySet{set}, 0))(t)
			if keySet(t, s).Find(one.ID) == nil {
				t.Error("the key set is not back")
			}
			verify(t, s)
		})
	}
}
