package builder

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// feedFolders writes the feeds of worlds into subfolders of a new folder, and returns its path.
func feedFolders(t *testing.T, worlds ...world) string {
	t.Helper()
	dir := t.TempDir()
	for i, w := range worlds {
		name := string(rune('a'+(i*7)%26)) + publish.Stamp(w.At) // not in time order
		ok(t, source.Write(t.Context(), filepath.Join(dir, name), source.FS(w.Feed()), nil))
	}
	return dir
}

func tryImport(t *testing.T, s artifacts.Store, rewrite bool, files ...string) (*ImportReport, error) {
	t.Helper()
	cfg := config(s, nil)
	force(&cfg)
	return must.Get(New(cfg))(t).Import(t.Context(), files, rewrite)
}

func mustImport(t *testing.T, s artifacts.Store, rewrite bool, files ...string) *ImportReport {
	t.Helper()
	return must.Get(tryImport(t, s, rewrite, files...))(t)
}

// rowsFile writes rows into a CSV file and returns its path.
func rowsFile(t *testing.T, rows ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rows.csv")
	ok(t, os.WriteFile(file, []byte("key,time,price,market_cap,volume\n"+strings.Join(rows, "\n")+"\n"), 0o600))
	return file
}

// TestImportIsBuildsInOrder compares two stores: one imports the feeds of earlier days, and the
// other built them at their times. Every later snapshot, including its past blocks, must be the
// same in both.
func TestImportIsBuildsInOrder(t *testing.T) {
	eachHistory(t, func(t *testing.T, worlds []world, dice *rand.Rand) {
		first := 1 + dice.IntN(len(worlds)-4)                // the first snapshot that both stores build
		joined := first + 1 + dice.IntN(len(worlds)-first-2) // the first snapshot that is built after the import
		worlds[first].Assets = worlds[0].Assets
		begin := worlds[first].At.Truncate(24 * time.Hour).Add(-2 * time.Hour) // groups are remembered for an hour
		older := slices.DeleteFunc(slices.Clone(worlds[:first]), func(w world) bool { return !w.At.Before(begin) })
		built, filled := memstore.New(), memstore.New()
		for _, w := range slices.Concat(older, worlds[first:joined]) {
			mustBuild(t, built, w, force)
		}
		for _, w := range worlds[first:joined] {
			mustBuild(t, filled, w, force)
		}
		before := head(t, filled)
		if len(older) > 0 {
			r := mustImport(t, filled, false, feedFolders(t, older...))
			after := head(t, filled)
			if r.SnapshotTime != publish.Stamp(worlds[joined-1].At) ||
				after.Pointer.Sequence != before.Pointer.Sequence+1 {
				t.Errorf("report %+v", r)
			}
			manifest := *after.Manifest
			manifest.Ledger = before.Manifest.Ledger
			if !reflect.DeepEqual(&manifest, before.Manifest) {
				t.Errorf("more than the ledger changed: %+v, was %+v", manifest, before.Manifest)
			}
		}
		for i, w := range worlds[joined:] {
			verify(t, filled)
			mustBuild(t, built, w, force)
			mustBuild(t, filled, w, force)
			want, got := head(t, built).Manifest, head(t, filled).Manifest
			dropChanges(want)
			dropChanges(got)
			if !reflect.DeepEqual(want.Views, got.Views) || want.Global != got.Global {
				t.Fatalf("snapshot %d after the import of %d feeds before %d is another one", i+1, len(older), joined-first)
			}
			wantRoot, gotRoot := ledgerRoot(t, built), ledgerRoot(t, filled)
			// Returns that nothing looks up may differ, and the earlier market snapshots of groups
			// are not recomputed.
			clear(wantRoot.Returns[:])
			clear(gotRoot.Returns[:])
			wantRoot.Groups, gotRoot.Groups = nil, nil
			if !reflect.DeepEqual(wantRoot, gotRoot) {
				t.Fatalf("the ledger is another one:\n%+v\nwant\n%+v", gotRoot, wantRoot)
			}
		}
	})
}

// TestImportSays checks that an import counts each row once, and that it names the first of the
// rows that it does not take.
func TestImportSays(t *testing.T) {
	s := memstore.New()
	feed := func(at string) given {
		return given{Feed: source.Memory{
			source.InfoFile: []byte(`{"format":1,"database":"d","time":"` + at + `"}`),
			source.AssetsFile: []byte(`{"key":"a","name":"A","symbol":"A","slug":"a"}
				{"key":"b","name":"B","symbol":"B","slug":"b"}`),
			source.QuotesFile: []byte(`{"key":"a","price":5}`),
		}}
	}
	if _, err := tryImport(t, s, false, rowsFile(t)); err == nil || !strings.Contains(err.Error(), "build one first") {
		t.Errorf("into an empty store: %v", err)
	}
	for _, at := range []string{"2026-08-01T12:00:00Z", "2026-08-01T13:10:00Z", "2026-08-02T12:00:00Z"} {
		mustBuild(t, s, feed(at), force)
	}
	rows := []string{
		"b,2026-08-01T13:20:00Z,7,,",   // line 2: within the last 48 hours
		"b,2026-07-20 10:05,3,30,1",    // 3: the price of an hour
		"b,2026-07-20 10:59:59,4,,",    // 4: only in the candle of that hour
		"b,2026-07-20 10:09,9,,",       // 5: the same ten minutes as line 3
		"b,2026-01-05,1,,",             // 6: the price of a day
		"a,2026-08-01T12:00:00Z,5.0,,", // 7: the store has the day's candle, made from two prices
		"a,2026-08-02T12:00:00Z,5,,0",  // 8: the store has this price
		"b,2026-08-01T11:00:00Z,1,,",   // 9: earlier than the day's first snapshot
		"b,2026-08-02T12:10:00Z,1,,",   // 10: newer than the published snapshot
		"c,2026-01-05,1,,",             // 11: unknown asset
		"b,yesterday,1,,",              // 12: invalid time
		"b,2026-01-06,-1,,",            // 13: invalid price
		"b,2026-01-06,1,lots,",         // 14: taken without its invalid market cap
		"b,1767744000000,1,,",          // 15: time in milliseconds
		"b,2026-01-07,1",               // 16: missing cells
	}
	file := rowsFile(t, rows...)
	r := mustImport(t, s, false, file)
	want := map[string]int{"rows": 15, "unusable": 4, "unknown": 1, "newer": 1, "repeated": 1, "recent": 1, "hours": 1,
		"hour candles": 1, "days": 2, "day candles": 0, "same": 1, "refused": 1, "early": 1, "no history": 0}
	got := map[string]int{"rows": r.Rows, "unusable": r.Unusable, "unknown": r.Unknown, "newer": r.Newer,
		"repeated": r.Repeated, "recent": r.Zones[0].Kept, "hours": r.Zones[1].Kept, "hour candles": r.Zones[1].Candles,
		"days": r.Zones[2].Kept, "day candles": r.Zones[2].Candles, "same": r.Same, "refused": r.Refused,
		"early": r.Early, "no history": r.NoHistory}
	if !reflect.DeepEqual(got, want) || !r.Published {
		t.Errorf("report %v, want %v; %+v", got, want, r)
	}
	var problems []string
	for _, p := range r.Problems {
		problems = append(problems, strings.TrimPrefix(p.Place.String(), file)+" "+p.Reason)
	}
	for i, says := range []string{":12 time \"yesterday\": want a time", ":13 price \"-1\": negative",
		":14 market_cap \"lots\": not a decimal", ":15 time \"1767744000000\": these look like milliseconds",
		":16 it has 3 cells"} {
		if i >= len(problems) || !strings.HasPrefix(problems[i], says) {
			t.Errorf("problem %d of %q: want %q", i, problems, says)
		}
	}
	if k := r.UnknownKeys; len(k) != 1 || k[0].Key != "c" || k[0].First.Line != 11 {
		t.Errorf("unknown keys %+v", k)
	}
	if r.Examples["refused"].Line != 7 || r.Examples["early"].Line != 9 {
		t.Errorf("examples %+v", r.Examples)
	}
	verify(t, s)
	if r := mustImport(t, s, false, file); r.Published || r.Same != 6 {
		t.Errorf("a second time: %+v", r)
	}
	if r := mustImport(t, s, true, rowsFile(t, rows[5])); !r.Published || r.Zones[0].Kept != 1 {
		t.Errorf("rewritten: %+v", r)
	}
	if r := mustImport(t, s, true, rowsFile(t, rows[5])); r.Published {
		t.Errorf("rewritten with the same: %+v", r)
	}
	verify(t, s)
}

// TestImportRewritesAtTheBorder rewrites rows of the day of T - 90 days. The store keeps some hours
// of that day, but not others. The day's candle must cover all rows, and importing them again must
// change nothing.
func TestImportRewritesAtTheBorder(t *testing.T) {
	s := memstore.New()
	at := func(text string) given {
		return given{Feed: source.Memory{
			source.InfoFile:   []byte(`{"format":1,"database":"d","time":"` + text + `"}`),
			source.AssetsFile: []byte(`{"key":"a","id":1,"name":"A","symbol":"A","slug":"a"}`),
			source.QuotesFile: []byte(`{"key":"a","price":10}`),
		}}
	}
	mustBuild(t, s, at("2024-08-28T18:10:00Z"), force)
	file := rowsFile(t, "a,2024-05-30T17:00:00Z,1000,,", "a,2024-05-30T18:00:00Z,8,,", "a,2024-05-30T18:20:00Z,7,,",
		"a,2024-08-10,30,,")
	if first, again := mustImport(t, s, true, file), mustImport(t, s, true, file); !first.Published || again.Published {
		t.Errorf("published %v, again %v", first.Published, again.Published)
	}
	mustBuild(t, s, at("2024-08-28T18:20:00Z"), force)
	for _, v := range head(t, s).Manifest.Past(&artifacts.PastIntervals[artifacts.Days]) {
		ok(t, walk.Rows(t.Context(), s, v.Objects, func(_ uint64, row []byte) error {
			_, candles, _ := artifacts.PastRow(row)
			if c, _, _ := artifacts.NextPast(candles); v.Times[0].Month() == time.May &&
				string(c) != `"1000","1000","7","7",null,null` {
				t.Errorf("the candle is %s", c)
			}
			return nil
		}))
	}
}

// TestFound checks a store that begins with a year of a simulated market. The points at every kept
// time must equal the market's feed for that time, and the next build must succeed.
func TestFound(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 20, 0, 0, time.UTC)
	src := must.Get(sim.Open(t.Context(), "?assets=40&seed=3&past=year"))(t)
	s := memstore.New()
	cfg := config(s, src)
	force(&cfg)
	cfg.Settings.HistoryAssets = 30
	b := must.Get(New(cfg))(t)
	if r := must.Get(b.Build(t.Context(), at.Add(time.Minute)))(t); !r.Published {
		t.Fatalf("%+v", r)
	}
	verify(t, s)
	root := ledgerRoot(t, s)
	now := must.Get(ledger.Load(t.Context(), s, &head(t, s).Manifest.Ledger))(t)
	days, times := 0, root.Times()
	for i, mark := range times {
		if mark.Equal(mark.Truncate(24 * time.Hour)) {
			days++
		}
		if i%29 != 0 && i < len(times)-1 {
			continue
		}
		feed, _, err := source.Read(t.Context(), must.Get(src.Files(t.Context(), mark))(t), source.ReadOptions{})
		ok(t, err)
		prices := map[uint64]market.U128{}
		for _, q := range feed.Quotes {
			if id, known := now.Known("assets", feed.Assets[q.Asset].Key); known {
				prices[id] = q.Price
			}
		}
		points := must.Get(root.Points(t.Context(), s, mark))(t)
		for _, p := range points {
			if prices[p.ID] != p.Price {
				t.Errorf("%v: asset %d cost %v, want %v", mark, p.ID, p.Price, prices[p.ID])
			}
		}
		if len(points) < 25 || len(points) > 30 {
			t.Errorf("%v: %d points", mark, len(points))
		}
	}
	if days != 366 || len(times) != 288+88*24+276 {
		t.Errorf("%d snapshots, %d of them at midnight", len(times), days)
	}
	must.Get(b.Build(t.Context(), at.Add(10*time.Minute)))(t)
	verify(t, s)
}
