package builder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// pastFeeds makes feeds for Backfill from worlds.
func pastFeeds(worlds []world) (feeds []PastFeed) {
	for _, w := range worlds {
		name := "feed-" + w.At.Format("0102T1504")
		feeds = append(feeds, PastFeed{Name: name, Time: w.At, Files: source.FS(w.Feed())})
	}
	return feeds
}

func tryBackfill(t *testing.T, s artifacts.Store, feeds []PastFeed, change ...func(*Config)) (*Report, error) {
	t.Helper()
	cfg := config(s, nil)
	for _, f := range change {
		f(&cfg)
	}
	b := must.Get(New(cfg))(t)
	return b.Backfill(t.Context(), feeds)
}

func mustBackfill(t *testing.T, s artifacts.Store, feeds []PastFeed, change ...func(*Config)) *Report {
	t.Helper()
	r := must.Get(tryBackfill(t, s, feeds, change...))(t)
	if !r.Published {
		t.Fatalf("not published: %s", r.Reason)
	}
	return r
}

// histories is the number of histories that eachHistory draws. Package ledger draws many more,
// which consist only of prices.
const histories = 5

// months draws worlds that cover several months, with gaps of all lengths. Assets and groups appear
// and disappear. The first world has all assets and groups, so ids do not depend on where a history
// starts.
func months(dice *rand.Rand) (worlds []world) {
	gaps := []time.Duration{1, 1, 2, 5, 6, 37, 144, 287, 288, 289, 1000, 4000}
	w := world{Assets: 60, At: epoch.Add(time.Duration(dice.IntN(144)) * artifacts.Step)}
	for i := range 8 + dice.IntN(8) {
		if i > 0 {
			w = w.Later(gaps[dice.IntN(len(gaps))] * artifacts.Step)
			w.Assets = 35 + dice.IntN(26)
		}
		worlds = append(worlds, w)
	}
	return worlds
}

// eachHistory calls f for each history. f may use dice for further random choices.
func eachHistory(t *testing.T, f func(t *testing.T, worlds []world, dice *rand.Rand)) {
	n := uint64(histories)
	if testing.Short() {
		n = 2
	}
	for seed := range n {
		t.Run(fmt.Sprint("history ", seed), func(t *testing.T) {
			t.Parallel()
			dice := rand.New(rand.NewPCG(seed, 1))
			f(t, months(dice), dice)
		})
	}
}

// force overrides the guard rails. It also turns files off, since only the newest snapshot of a
// backfill has any.
func force(c *Config) { c.Guards.Force, c.Files = true, files.Settings{} }

// dropChanges removes what depends on which snapshots were published before.
func dropChanges(m *artifacts.Manifest) {
	m.Changes = nil
	m.Views = slices.DeleteFunc(m.Views, func(v artifacts.View) bool { return artifacts.IsChanges(v.Collection) })
}

// TestBackfillIsBuildsInOrder checks that a backfill yields the same snapshot as successive builds,
// and so does the build after it. Retained snapshots and changes are not compared, since a backfill
// does not publish the earlier snapshots.
func TestBackfillIsBuildsInOrder(t *testing.T) {
	eachHistory(t, func(t *testing.T, worlds []world, dice *rand.Rand) {
		before := max(0, dice.IntN(2*len(worlds))-len(worlds)) // often 0
		built, filled := memstore.New(), memstore.New()
		for i, w := range worlds {
			mustBuild(t, built, w, force)
			if i < before {
				mustBuild(t, filled, w, force)
			}
		}
		r := mustBackfill(t, filled, pastFeeds(worlds[before:]), force)
		last := worlds[len(worlds)-1]
		if r.Past != len(worlds)-before-1 || r.SnapshotTime != publish.Stamp(last.At) ||
			r.Sequence != uint64(before)+1 || r.Counts["assets"] != last.Assets {
			t.Errorf("report %+v", r)
		}
		for range 2 {
			want, got := *head(t, built).Manifest, *head(t, filled).Manifest
			if before == 0 && r != nil && len(got.Retained) > 0 {
				t.Errorf("retained %v", got.Retained)
			}
			want.Retained, got.Retained = nil, nil
			dropChanges(&want)
			dropChanges(&got)
			if !bytes.Equal(want.Encode(), got.Encode()) {
				t.Fatalf("the snapshot of %v, of %d feeds with %d published before, is another one:\n%s\nwant\n%s", last.At,
					len(worlds), before, got.Encode(), want.Encode())
			}
			verify(t, filled)
			r, last = nil, last.Later(artifacts.Step)
			mustBuild(t, built, last, force)
			mustBuild(t, filled, last, force)
		}
	})
}

// TestBackfillRefuses checks that a refused backfill leaves the store unchanged.
func TestBackfillRefuses(t *testing.T) {
	w := world{Assets: 60, At: epoch}
	at := func(steps ...int) (worlds []world) {
		for _, n := range steps {
			worlds = append(worlds, w.Later(time.Duration(n)*artifacts.Step))
		}
		return worlds
	}
	shrunk := at(11, 12)
	shrunk[0].Assets = 20
	jumped := at(11, 12)
	jumped[0].Movers, jumped[0].Factor = 40, 9
	broken := at(11, 12)
	broken[0].Broken = 30
	for _, c := range []struct {
		name   string
		worlds []world
		want   error
		says   string
	}{
		{"among", at(5), errNotNewer, "builder import brings"},
		{"the published one's time", at(9, 10), errNotNewer, "feed-0801T1330"},
		{"around", at(-1, 11), errNotNewer, "feed-0801T1150"},
		{"one has shrunk", shrunk, ErrGuard, "feed-0801T1350"},
		{"prices have jumped", jumped, ErrGuard, "feed-0801T1350"},
		{"too many bad rows", broken, ErrGuard, "feed-0801T1350"},
		{"none", nil, nil, "no feeds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := memstore.New()
			for i := range 11 {
				mustBuild(t, s, w.Later(time.Duration(i)*artifacts.Step))
			}
			feeds := pastFeeds(c.worlds)
			if c.name == "the published one's time" {
				feeds[1].Files = source.FS(world{Assets: 61, At: feeds[1].Time}.Feed())
			}
			before, objects := head(t, s).Pointer, contents(t, s)
			r, err := tryBackfill(t, s, feeds)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
				r.Published {
				t.Errorf("%+v, %v", r, err)
			}
			if after := head(t, s).Pointer; !reflect.DeepEqual(after, before) ||
				!reflect.DeepEqual(contents(t, s), objects) {
				t.Error("the store is not what it was")
			}
			if errors.Is(c.want, ErrGuard) {
				r := mustBackfill(t, s, pastFeeds(c.worlds), force)
				if len(r.Forced) == 0 {
					t.Errorf("forced: %+v", r)
				}
				verify(t, s)
			}
		})
	}
}

// TestBackfillStopped checks that if a guard rail stops a feed, the feeds before it are kept. A
// forced backfill of the rest must yield the same snapshot as a backfill of all feeds. Repeating
// the backfill, or building the newest feed, must change nothing. The folder for temporary files
// must then be empty.
func TestBackfillStopped(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	w := world{Assets: 40, At: epoch}
	worlds := []world{w, w.Later(time.Hour), w.Later(2 * time.Hour), w.Later(3 * time.Hour)}
	worlds[2].Broken = 30
	s, whole := memstore.New(), memstore.New()
	r, err := tryBackfill(t, s, pastFeeds(worlds))
	if !errors.Is(err, ErrGuard) || !strings.Contains(err.Error(), "feeds from feed-0801T1400 on") ||
		!r.Published || r.Past != 1 || !head(t, s).Pointer.Time.Equal(worlds[1].At) {
		t.Errorf("%+v, %v", r, err)
	}
	verify(t, s)
	mustBackfill(t, s, pastFeeds(worlds[2:]), force)
	mustBackfill(t, whole, pastFeeds(worlds), force)
	if a, b := head(t, s).Manifest, head(t, whole).Manifest; a.Ledger != b.Ledger ||
		!reflect.DeepEqual(a.Views, b.Views) {
		t.Error("in two steps it is another snapshot")
	}
	before := head(t, whole).Pointer
	r, err = tryBackfill(t, whole, pastFeeds(worlds), force)
	if err != nil || r.Published || r.Reason == "" || !reflect.DeepEqual(head(t, whole).Pointer, before) {
		t.Errorf("a second time: %+v, %v", r, err)
	}
	if r, err := tryBuild(t.Context(), whole, worlds[3], force); err != nil || r.Published {
		t.Errorf("a build of the newest feed: %+v, %v", r, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBackfillFaults makes each store call of a backfill and of an import fail, alone or with all
// later calls. The failing call is either refused, or applied but reported as failed. The pointer
// must be the old or the new one, and everything reachable from it must be intact.
func TestBackfillFaults(t *testing.T) {
	w := world{Assets: 12, At: epoch}
	newer := pastFeeds([]world{w.Later(time.Hour), w.Later(2 * time.Hour), w.Later(3 * time.Hour)})
	older := feedFolders(t, w.Later(-50*time.Hour), w.Later(-30*time.Hour), w.Later(-29*time.Hour))
	for name, try := range map[string]func(t *testing.T, s artifacts.Store) (published bool, err error){
		"backfill": func(t *testing.T, s artifacts.Store) (bool, error) {
			r, err := tryBackfill(t, s, newer)
			return r.Published, err
		},
		"import": func(t *testing.T, s artifacts.Store) (bool, error) {
			r, err := tryImport(t, s, false, older)
			return r.Published, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			built := memstore.New()
			mustBuild(t, built, w)
			before := head(t, built).Pointer
			everyFault(t, func(t *testing.T) artifacts.Store { return clone(t, built, all) }, fewPuts,
				func(t *testing.T, s artifacts.Store) error {
					published, err := try(t, s)
					if err == nil && !published {
						t.Errorf("neither published nor failed")
					}
					return err
				}, func(t *testing.T, s artifacts.Store, _ fault, err error) {
					now := head(t, s).Pointer
					moved := now.Sequence == before.Sequence+1
					if err == nil && !moved || !moved && !reflect.DeepEqual(now, before) {
						t.Errorf("%v; the pointer moved: %v", err, moved)
					}
					verify(t, s)
					if !moved {
						if published, err := try(t, s); err != nil || !published {
							t.Errorf("a second time: published %v, %v", published, err)
						}
						verify(t, s)
					}
				})
		})
	}
}

// TestBackfillLoses checks that a backfill or an import reports the loss if a build publishes a
// snapshot in the meantime.
func TestBackfillLoses(t *testing.T) {
	w := world{Assets: 12, At: epoch}
	newer := pastFeeds([]world{w.Later(time.Hour), w.Later(2 * time.Hour)})
	older := feedFolders(t, w.Later(-30*time.Hour))
	for name, try := range map[string]func(s artifacts.Store) (published bool, err error){
		"backfill": func(s artifacts.Store) (bool, error) {
			r, err := tryBackfill(t, s, newer)
			return r.Published, err
		},
		"import": func(s artifacts.Store) (bool, error) {
			r, err := tryImport(t, s, false, older)
			return r.Published, err
		},
	} {
		inner := memstore.New()
		mustBuild(t, inner, w)
		swapping := false
		published, err := try(faultstore.New(inner, func(op faultstore.Op) faultstore.Decision {
			if op.Kind == faultstore.Swap && op.Key == artifacts.CurrentKey && !swapping {
				swapping = true
				mustBuild(t, inner, w.Later(artifacts.Step))
			}
			return faultstore.Pass
		}))
		var lost *publish.LostError
		if !errors.As(err, &lost) || published || head(t, inner).Pointer.Sequence != 2 {
			t.Errorf("%s: published %v, %v", name, published, err)
		}
		verify(t, inner)
	}
}

func TestReadPastFeeds(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, w world) {
		t.Helper()
		ok(t, source.Write(t.Context(), filepath.Join(dir, name), source.FS(w.Feed()), nil))
	}
	if _, _, err := ReadPastFeeds(t.Context(), filepath.Join(dir, "away")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if _, _, err := ReadPastFeeds(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "holds no feeds") {
		t.Errorf("an empty folder: %v", err)
	}
	w := world{Assets: 5, At: epoch}
	put("b", w.Later(9*time.Minute))
	put("c", w.Later(9*time.Minute))
	put("z", w.Later(2*time.Minute))
	put("a", w.Later(time.Hour))
	put("y", w.Later(-time.Second))
	put(".hidden", w)
	ok(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("feeds"), 0o644))
	ok(t, os.Symlink("a", filepath.Join(dir, "linked")))
	feeds, skipped, err := ReadPastFeeds(t.Context(), dir)
	ok(t, err)
	var got []string
	for _, f := range feeds {
		got = append(got, f.Name+" "+publish.Stamp(f.Time))
		if b, err := f.Files.Open(t.Context(), source.AssetsFile); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		} else if n, err := io.Copy(io.Discard, b); n == 0 || err != nil || b.Close() != nil {
			t.Errorf("%s: %d bytes, %v", f.Name, n, err)
		}
	}
	if want := []string{
		"y 2026-08-01T11:50:00Z", "z 2026-08-01T12:00:00Z", "a 2026-08-01T13:00:00Z"}; !slices.Equal(got,
		want) || !slices.Equal(skipped, []string{"b", "c", "linked"}) {
		t.Errorf("feeds %q, skipped %q", got, skipped)
	}
	ok(t, os.Mkdir(filepath.Join(dir, "half"), 0o755))
	if _, _, err := ReadPastFeeds(t.Context(), dir); err == nil ||
		!strings.Contains(err.Error(), "feed half: feed.json: missing") {
		t.Errorf("a folder that is no feed: %v", err)
	}
}

// TestBackfillKept checks that the report counts the feeds with prices kept in the ledger: every
// feed of the last 48 hours, and before that the first feed of each hour or day (FEED.md,
// "Figures").
func TestBackfillKept(t *testing.T) {
	for _, c := range []struct {
		feeds int
		step  time.Duration
		kept  int
	}{{1825, 24 * time.Hour, 367}, {40, artifacts.Step, 40}, {200, 30 * time.Minute, 96 + 52}} {
		var worlds []world
		for i := range c.feeds {
			worlds = append(worlds, world{Assets: 3, At: epoch.Truncate(24 * time.Hour).Add(time.Duration(i) * c.step)})
		}
		r := mustBackfill(t, memstore.New(), pastFeeds(worlds), force)
		if r.Kept != c.kept {
			t.Errorf("of %d feeds, one every %v, %d are kept, from %v; want %d", c.feeds, c.step, r.Kept, r.KeptFrom,
				c.kept)
		}
	}
}
