package upkeep

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// grown fills a store with three snapshots and returns the world of the newest. Each snapshot adds
// assets, so each build writes an object of every kind. The store still holds the first snapshot,
// although only two are retained.
func grown(t *testing.T, s artifacts.Store) world {
	t.Helper()
	w := world{Assets: 40, At: epoch}
	for range 3 {
		w = w.Later(artifacts.Step)
		w.Assets += 5
		mustBuild(t, s, w, briefly)
	}
	return w
}

func briefly(c *builder.Config) { c.Retain = 0 }

// key creates an API key.
func key(t *testing.T, s artifacts.Store) keys.Created {
	t.Helper()
	return must.Get((&keys.Registry{Store: s}).Create(t.Context(), keys.Request{Name: "client", Rate: 1, Burst: 1}))(t)
}

// keyed returns a store with three snapshots, two keys and a change record.
func keyed(t *testing.T) (s *memstore.Store, w world, one, two keys.Created) {
	t.Helper()
	s = memstore.New()
	w = grown(t, s)
	one, two = key(t, s), key(t, s)
	must.Get(change.Record(t.Context(), s, time.Now))(t)
	return s, w, one, two
}

// part is one object of a store. edge reports whether an edge's cache folder has it, too.
type part struct {
	kind string
	key  artifacts.Key
	edge bool
	// without is the outcome if no copy has the object.
	without outcome
}

// An outcome says what it takes to repair a store that has lost an object, if no copy has it.
type outcome string

const (
	built    outcome = "--drop-lost, next build" // the next build makes it again
	dropped  outcome = "--drop-lost"             // repair drops it, and what depends on it
	restored outcome = "a backup"                // only a backup helps
)

// parts returns one object of each kind.
func parts(t *testing.T, s artifacts.Store) []part {
	t.Helper()
	h := head(t, s)
	m := h.Manifest
	before := must.Get(artifacts.ReadManifest(t.Context(), s, m.Retained[0].Manifest))(t)
	root := must.Get(ledger.ReadRoot(t.Context(), s, m.Ledger))(t)
	key := func(r artifacts.Ref) artifacts.Key { return artifacts.ObjectKey(r.Digest) }
	ids, returns := root.IDs["assets"].Segments, root.Returns[0].Segments
	shared := m.View("exchanges", "volume").Objects[0].Ref
	if shared != before.View("exchanges", "volume").Objects[0].Ref {
		t.Fatal("no view is shared")
	}
	sets := must.Get(artifacts.ReadFileSets(t.Context(), s, m))(t)
	own, _, err := artifacts.ReadFileList(t.Context(), s, sets.Find(m.Time))
	ok(t, err)
	return []part{
		{"sets of files", artifacts.FileKey(m.Files.Digest), false, dropped},
		{"list of files", artifacts.FileKey(sets.Find(m.Time).Files.Digest), false, dropped},
		{"chunk of a file", artifacts.FileKey(own.Find("quotes.parquet").Chunks[0]), false, dropped},
		{"manifest", artifacts.ManifestKey(h.Pointer.Manifest.Digest), true, restored},
		{"manifest, retained", artifacts.ManifestKey(m.Retained[0].Manifest.Digest), true, dropped},
		{"view", key(m.View("assets", "rank").Objects[0].Ref), true, built},
		{"view of words", key(m.View(artifacts.SearchCollection, artifacts.SearchSort).Objects[0].Ref), true, built},
		{"view, retained", key(before.View("assets", "rank").Objects[0].Ref), true, dropped},
		{"view, shared", key(shared), true, built}, // the retained snapshot is dropped, too
		{"ledger root", key(m.Ledger), false, restored},
		{"ledger root, retained", key(before.Ledger), false, dropped},
		{"ids", key(ids[len(ids)-1]), false, restored},
		{"prices", key(root.Prices[len(root.Prices)-1].Parts[0]), false, dropped},
		{"prices, first", key(root.Prices[0].Parts[0]), false, dropped},
		{"returns", key(returns[len(returns)-1].Ref), false, dropped},
		{"groups", key(root.Groups["categories"]), false, dropped},
	}
}

// ways are the ways to damage an object. other is the content of another object of the store.
var ways = []struct {
	name   string
	damage func(b, other []byte) []byte
}{
	{"deleted", func(b, other []byte) []byte { return nil }},
	{"cut", func(b, other []byte) []byte { return b[:len(b)/2] }},
	{"flipped", func(b, other []byte) []byte { b[len(b)/2] ^= 4; return b }},
	{"exchanged", func(b, other []byte) []byte { return other }},
}

func repair(t *testing.T, s artifacts.Store, change ...func(*RepairConfig)) *RepairReport {
	t.Helper()
	return must.Get(tryRepair(t.Context(), s, change...))(t)
}

func tryRepair(ctx context.Context, s artifacts.Store, change ...func(*RepairConfig)) (*RepairReport, error) {
	cfg := RepairConfig{Store: s, Progress: func(string, int, int) {}, Now: at(3)}
	for _, f := range change {
		f(&cfg)
	}
	return Repair(ctx, cfg)
}

func from(name string, r artifacts.Reader) func(*RepairConfig) {
	return func(c *RepairConfig) { c.From = append(c.From, Copy{r, name}) }
}

// TestRepair damages one object of each kind in each way, and repairs the store from each copy. If
// a copy has the object, the store must then be complete, and the next build must publish. If no
// copy has it, the report must name the object, and the store must be unchanged. It must then
// become complete by what STORE.md, "Repair" says for this object: the next build, --drop-lost, or
// a restore.
func TestRepair(t *testing.T) {
	whole := memstore.New()
	w := grown(t, whole)
	views := map[artifacts.Key]bool{}
	m := head(t, whole).Manifest
	for _, ret := range append(m.Retained, artifacts.Retained{Manifest: head(t, whole).Pointer.Manifest}) {
		m := must.Get(artifacts.ReadManifest(t.Context(), whole, ret.Manifest))(t)
		for _, v := range m.Views {
			for _, o := range v.Objects {
				views[artifacts.ObjectKey(o.Digest)] = true
			}
		}
	}
	copies := []struct {
		name string
		use  func(*RepairConfig)
		has  func(part) bool
	}{
		{"copy", from("copy", clone(t, whole, all)), func(part) bool { return true }},
		{"edge", from("edge",
			clone(t, whole, func(key artifacts.Key) bool {
				return views[key] || key.Kind() == artifacts.ManifestKind
			})), func(p part) bool { return p.edge }},
		{"nothing", func(*RepairConfig) {}, func(part) bool { return false }},
	}
	outcomes := map[string]string{}
	all := parts(t, whole)
	for i, p := range all {
		for j, way := range ways {
			if testing.Short() && j != i%len(ways) {
				continue
			}
			for _, source := range copies {
				name := fmt.Sprintf("%s, %s, %s", p.kind, way.name, source.name)
				t.Run(name, func(t *testing.T) {
					s := clone(t, whole, func(artifacts.Key) bool { return true })
					other := all[(i+1)%len(all)].key
					overwrite(t, s, p.key, way.damage(stored(t, s, p.key), stored(t, s, other)))
					before := contents(t, s)
					r := repair(t, s, source.use)
					if source.has(p) {
						if len(r.Missing) > 0 || len(r.Mended) != 1 || r.Mended[0].Key != p.key || r.Loss != "" {
							t.Fatalf("report %+v, want %s mended", r, p.key)
						}
						verify(t, s)
						mustBuild(t, s, w.Later(artifacts.Step))
						verify(t, s)
						outcomes[p.kind+source.name] = "mended"
						return
					}
					if len(r.Mended) > 0 || !slices.ContainsFunc(r.Missing,
						func(m string) bool { return strings.Contains(m, p.key.String()) }) || r.Dropped {
						t.Fatalf("report %+v, want %s missing", r, p.key)
					}
					if after := contents(t, s); !maps.Equal(before, after) {
						t.Error("what cannot be mended was changed")
					}
					if (r.Loss != "") != (p.without != restored) ||
						strings.Contains(fmt.Sprint(r.Missing), "builder restore") != (p.without == restored) {
						t.Fatalf("report %+v", r)
					}
					goOn(t, s, whole, w, p, r.Loss)
					outcomes[p.kind+source.name] = string(p.without)
				})
			}
		}
	}
	var table bytes.Buffer
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, p := range all {
		fmt.Fprintf(tab, "%s", p.kind)
		for _, source := range copies {
			fmt.Fprintf(tab, "\t%s: %s", source.name, outcomes[p.kind+source.name])
		}
		fmt.Fprintln(tab)
	}
	tab.Flush()
	t.Logf("deleted, cut, flipped or exchanged:\n%s", &table)
}

// goOn repairs a store that has lost p, which no copy has, and then builds the next snapshot.
func goOn(t *testing.T, s, saved artifacts.Store, w world, p part, loss string) {
	t.Helper()
	switch p.without {
	case built, dropped:
		r := repair(t, s, func(c *RepairConfig) { c.DropLost = true })
		if !r.Dropped || r.Loss != loss || r.Snapshot != publish.Stamp(w.At) ||
			(len(r.Missing) > 0) != (p.without == built) {
			t.Fatalf("report %+v", r)
		}
	case restored:
		must.Get(Restore(t.Context(), RestoreConfig{Store: s, From: Copy{saved, "backup"}, Now: at(3)}))(t)
		w = w.Later(10 * artifacts.Step) // every T up to now counts as withdrawn
	}
	mustBuild(t, s, w.Later(artifacts.Step))
	verify(t, s)
	l := must.Get(ledger.Load(t.Context(), s, &head(t, s).Manifest.Ledger))(t)
	if _, ok := l.Known("assets", fmt.Sprintf("coin-%d", w.Assets-1)); !ok {
		t.Error("the newest asset has no id")
	}
}

// head0 reads only the pointer, since its manifest may be lost.
func head0(t *testing.T, s artifacts.Reader) *artifacts.Pointer {
	t.Helper()
	return must.Get(artifacts.ParsePointer(stored(t, s, artifacts.CurrentKey)))(t)
}

// TestRepairAll repairs a store in which only the small objects are left. In the first copy every
// object is damaged. Each of the other two copies has half of the objects.
func TestRepairAll(t *testing.T) {
	whole := memstore.New()
	grown(t, whole)
	half := func(odd bool) artifacts.Reader {
		return clone(t, whole, func(key artifacts.Key) bool { return (key.Digest()[31]%2 == 1) == odd })
	}
	s := clone(t, whole, func(key artifacts.Key) bool { return moving[key] })
	liar := memstore.New()
	for key, b := range contents(t, whole) {
		overwrite(t, liar, key, append([]byte(b)[1:], 'x'))
	}
	if r := repair(t, s, from("liar", liar), from("odd", half(true)), from("even", half(false))); len(r.Missing) > 0 ||
		len(r.Mended) != len(reached(t, whole)) {
		t.Errorf("report %+v", r)
	}
	verify(t, s)
}

// TestRepairMoving checks that a damaged change record is made again, and that for a damaged
// pointer or key set the report says what to do.
func TestRepairMoving(t *testing.T) {
	whole, _, _, _ := keyed(t)
	for key, want := range map[artifacts.Key]string{artifacts.ChangeKey: "", artifacts.KeysKey: "key set",
		artifacts.CurrentKey: "builder restore"} {
		for _, way := range ways[1:] {
			s := clone(t, whole, all)
			overwrite(t, s, key, way.damage(stored(t, s, key), stored(t, whole, artifacts.IdentityKey)))
			r, err := tryRepair(t.Context(), s, from("copy", whole))
			said := fmt.Sprint(err)
			if err == nil {
				said = strings.Join(r.Missing, "")
			}
			if !strings.Contains(said, want) || want == "" &&
				(err != nil || said != "" || changeRecord(t, s).Value != changeRecord(t, whole).Value) {
				t.Errorf("%s, %s: %+v, %v", key, way.name, r, err)
			}
		}
	}
	if r, err := tryRepair(t.Context(), memstore.New()); err != nil || r.Snapshot != "" {
		t.Errorf("without a snapshot: %+v, %v", r, err)
	}
}

// TestRepairFaults makes each call of a repair fail, either once or together with all later calls.
// The pointer must stay, and the next repair must complete the work.
func TestRepairFaults(t *testing.T) {
	whole := memstore.New()
	grown(t, buildtest.Signed(whole))
	copied, leaves := clone(t, whole, all), buildtest.CheckLog(t, whole)
	broken := func(t *testing.T) artifacts.Store {
		s := clone(t, whole, all)
		for i, p := range parts(t, whole) {
			b := stored(t, s, p.key)
			overwrite(t, s, p.key, ways[i%len(ways)].damage(b, []byte("other")))
		}
		for i, key := range []string{"checkpoint", "tile/0/000.p/3", "tile/entries/000.p/3"} {
			b := stored(t, s, artifacts.MustKey("log/"+key))
			overwrite(t, s, artifacts.MustKey("log/"+key), ways[i].damage(b, nil))
		}
		return s
	}
	everyFault(t, broken, few, func(t *testing.T, s artifacts.Store) error {
		r, err := tryRepair(t.Context(), buildtest.Signed(s), from("copy", copied))
		if err == nil && len(r.Missing) > 0 {
			err = fmt.Errorf("missing: %q", r.Missing)
		}
		return err
	}, func(t *testing.T, s artifacts.Store, _ fault, err error) {
		if !reflect.DeepEqual(head0(t, s), head0(t, whole)) {
			t.Error("the pointer moved")
		}
		if err != nil {
			repair(t, buildtest.Signed(s), from("copy", copied))
		}
		verify(t, s)
		buildtest.SameLog(t, s, leaves, false)
	})
}
