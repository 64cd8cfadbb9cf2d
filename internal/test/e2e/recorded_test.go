package e2e

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/model/coingecko"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"pgregory.net/rapid"
)

// recorded is the folder of the recorded market data, which is next to the project.
const recorded = "../../../../shared/data"

var feedFiles = []string{
	"feed.json", "assets.ndjson", "quotes.ndjson", "exchanges.ndjson", "categories.ndjson", "chains.ndjson"}

// readFolder reads the files of a feed folder.
func readFolder(t *testing.T, folder string) model.Files {
	t.Helper()
	files := model.Files{}
	for _, name := range feedFiles {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if os.IsNotExist(err) {
			continue
		}
		must.OK(t, err)
		files[name] = string(b)
	}
	return files
}

// TestRecordedDirectory builds a recorded directory of twenty thousand assets and requests pages of
// it, in order and at random. It requests every page only in a long run.
func TestRecordedDirectory(t *testing.T) {
	p := newPair(t, model.Defaults(), poll)
	files := readFolder(t, teststore.RecordedFolder(t, recorded, "coingecko-2025"))
	if !p.build(files, time.Time{}) {
		t.Fatal("nothing was published")
	}
	p.change(time.Minute)
	nth := 17
	if asked {
		nth = 1
	}
	p.askWhole(nth)
	checkProperty(t, 1, func(t *rapid.T) { p.in(t).askAll(t, 300) })
	all, c := shapes(t), coingecko.NewCoins(p.world.Newest(), p.world.Changed())
	for _, target := range []string{"coins/list?include_platform=1", "coins/categories", "exchanges?per_page=250",
		"asset_platforms", "global", "coins/markets?vs_currency=usd&per_page=250&page=40"} {
		p.checkCoins(all, c, target)
	}
}

// TestRecordedMoments follows a recorded market over two dozen moments.
func TestRecordedMoments(t *testing.T) {
	folder := teststore.RecordedFolder(t, recorded, "top1000-2026")
	moments, err := filepath.Glob(filepath.Join(folder, "*", "feed.json"))
	if err != nil || len(moments) == 0 {
		t.Fatalf("no moments in %s: %v", folder, err)
	}
	slices.Sort(moments) // the names of the folders are their times
	p := newPair(t, model.Defaults(), poll)
	var feeds []model.Files
	for _, moment := range moments {
		feeds = append(feeds, readFolder(t, filepath.Dir(moment)))
		if !p.build(feeds[len(feeds)-1], time.Time{}) {
			t.Fatalf("%s: nothing was published", moment)
		}
		p.change(time.Minute)
		p.askWhole(3)
	}
	p.comparePast(feeds)
	checkProperty(t, 1, func(t *rapid.T) { p.in(t).askAll(t, 300) })
}

// TestSimulatedYear follows a smaller version of the simulated market of `make run`, in which not
// all assets have a history.
func TestSimulatedYear(t *testing.T) {
	ctx, end := context.Background(), time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	src := must.Get(sim.Open(ctx, "?assets=400&seed=1"))(t)
	settings := model.Defaults()
	settings.History = 150
	p := newPair(t, settings, poll)
	for _, ago := range local.Year {
		from := must.Get(src.Files(ctx, end.Add(-ago)))(t)
		files := model.Files{}
		for _, name := range feedFiles {
			files[name] = string(must.Get(io.ReadAll(must.Get(from.Open(ctx, name))(t)))(t))
		}
		p.build(files, end.Add(-ago))
		p.askHistory(1)
	}
	p.askWhole(2)
	p.verify()
}
