package upkeep

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// listed returns the digests of the files that the head lists, by time and name. If whole is set,
// all listed files must be intact; otherwise listed omits damaged files.
func listed(t *testing.T, s artifacts.Reader, whole bool) map[string]artifacts.Digest {
	t.Helper()
	out := map[string]artifacts.Digest{}
	sets, err := artifacts.ReadFileSets(t.Context(), s, head(t, s).Manifest)
	if err != nil && !whole {
		return out
	}
	ok(t, err)
	for i := range sets.Sets {
		l, _, err := artifacts.ReadFileList(t.Context(), s, &sets.Sets[i])
		if err != nil && !whole {
			continue
		}
		ok(t, err)
		for j := range l.Items {
			f := &l.Items[j]
			if f.Whole(func(ref artifacts.Ref) bool {
				_, err := artifacts.ReadFile(t.Context(), s, ref)
				return err != nil
			}) {
				out[fmt.Sprint(l.Time, f.Name)] = f.SHA256
			} else if whole {
				t.Errorf("%s of %v is listed, and lost", f.Name, l.Time)
			}
		}
	}
	return out
}

// TestLostFiles damages some file objects. This must not stop a backup, a restore or a build.
// Repair must solve the problem without dropping an intact file, and later builds must write the
// prices of the newest day again.
func TestLostFiles(t *testing.T) {
	whole := memstore.New()
	w := world{Assets: 40, At: epoch.Truncate(24 * time.Hour).Add(-2 * artifacts.Step)}
	for range 3 { // over midnight, so that a day's prices exist
		w = w.Later(artifacts.Step)
		mustBuild(t, whole, w, briefly)
	}
	const day = "prices/2026-07-31.parquet"
	var keys []artifacts.Key
	for _, key := range buildtest.Keys(reached(t, whole)) {
		if key.Kind() == artifacts.FileKind {
			keys = append(keys, key)
		}
	}
	for seed := range uint64(40) {
		dice := rand.New(rand.NewPCG(33, seed))
		s := clone(t, whole, all)
		for range 1 + dice.IntN(4) {
			key := keys[dice.IntN(len(keys))]
			overwrite(t, s, key, ways[dice.IntN(len(ways))].damage(stored(t, whole, key), []byte("other")))
		}
		left, before := listed(t, s, false), contents(t, s)
		hurt := len(left) < len(listed(t, whole, true)) // false if only an earlier snapshot names the lost files

		to, restored := memstore.New(), memstore.New()
		if r := backUp(t, s, to); r.Lost == 0 {
			t.Errorf("%d: the backup lacks nothing: %+v", seed, r)
		}
		r := must.Get(Restore(t.Context(), RestoreConfig{Store: restored, From: Copy{to, "backup"}, Now: at(3)}))(t)
		if got := listed(t, restored, false); !maps.Equal(got, left) ||
			!strings.Contains(fmt.Sprint(r.Notes), "lacks files") {
			t.Errorf("%d: restored %v, want %v; %v", seed, got, left, r.Notes)
		}

		if r := repair(t, s); (r.Loss != "") != hurt || r.Dropped || !maps.Equal(contents(t, s), before) {
			t.Errorf("%d: repair without the loss: %+v", seed, r)
		}
		mended := clone(t, s, all)
		if r := repair(t, mended, from("copy", whole)); len(r.Missing) > 0 {
			t.Errorf("%d: repair from a copy: %+v", seed, r)
		}
		verify(t, mended)
		if r := repair(t, s, func(c *RepairConfig) { c.DropLost = true }); r.Dropped != hurt {
			t.Errorf("%d: repair: %+v", seed, r)
		}
		if got := listed(t, s, true); !maps.Equal(got, left) {
			t.Errorf("%d: left %v, want %v", seed, got, left)
		}
		for i := range 2 { // the retained snapshot that names the lost objects is dropped
			mustBuild(t, s, w.Later(artifacts.Step<<i), briefly)
		}
		was := listed(t, whole, true)[fmt.Sprint(w.At, day)]
		is := listed(t, s, true)[fmt.Sprint(w.At.Add(2*artifacts.Step), day)]
		if was.IsZero() || was != is {
			t.Errorf("%d: %s is %v, was %v", seed, day, is, was)
		}
		collect(t, s)
		verify(t, s)
	}
}
