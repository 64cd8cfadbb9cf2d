package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"example.com/marketdata/builder/market"
)

// recorded is the folder of the recorded market data. It is outside the project and may be missing.
const recorded = "../../../shared/data"

// recordedFeed returns a recorded feed's files, or skips the test.
func recordedFeed(t testing.TB, name string) fstest.MapFS {
	dir := filepath.Join(recorded, name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the recorded data is not beside the project: %v", err)
	}
	return loadFeed(t, dir)
}

func loadFeed(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := filepath.Glob(filepath.Join(dir, "*json"))
	if err != nil || len(names) < 3 {
		t.Fatalf("%s holds %v: %v", dir, names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		ok(t, err)
		files[filepath.Base(name)] = &fstest.MapFile{Data: b}
	}
	return files
}

// rowsOf checks the number of rows of each file, and returns the numbers of rows that were set
// aside.
func rowsOf(t *testing.T, report *Report, want map[string]int) (rejected map[string]int) {
	t.Helper()
	rejected = map[string]int{}
	for _, f := range report.Files {
		if f.Rows != want[f.Name] {
			t.Errorf("%s: %d rows, want %d", f.Name, f.Rows, want[f.Name])
		}
		if f.Rejected > 0 {
			rejected[f.Name] = f.Rejected
		}
	}
	return rejected
}

// TestSample reads the real data that is part of the project.
func TestSample(t *testing.T) {
	files := loadFeed(t, "testdata/feed")
	compareWithModel(t, files, nil)
	feed, report := mustRead(t, FS(files), ReadOptions{})
	if rejected := rowsOf(t, report,
		map[string]int{AssetsFile: 100, QuotesFile: 100, ChainsFile: 257}); len(rejected) > 0 {
		t.Errorf("set aside %v", report.Files)
	}
	same(t, feed.Assets[0], market.Asset{
		Key: "bitcoin", Name: "Bitcoin", Symbol: "BTC", Slug: "bitcoin", Active: true,
		Logo: "https://coin-images.coingecko.com/coins/images/1/large/bitcoin.png?1696501400",
	})
	same(t, feed.Quotes[0], market.Quote{
		Asset: 0, Price: decimal(t, "66600", 18), MarketCap: decimal(t, "1332711482255", 8),
		Volume: decimal(t, "26939113793", 8),
	})
	natives := 0
	for _, c := range feed.Chains {
		if c.Native >= 0 {
			natives++
		}
	}
	if natives != 7 {
		t.Errorf("%d chains have a native coin, want 7", natives)
	}
}

// TestRecordedFeed reads the recording of a whole market.
func TestRecordedFeed(t *testing.T) {
	files := recordedFeed(t, "coingecko-2025")
	if !testing.Short() { // short tests are for the race detector, and the slow model has no goroutines
		compareWithModel(t, files, nil)
	}
	feed, report := mustRead(t, FS(files), ReadOptions{})
	rejected := rowsOf(t, report, map[string]int{
		AssetsFile: 21498, QuotesFile: 19596, ExchangesFile: 1102, CategoriesFile: 633, ChainsFile: 316,
	})
	// The rejected rows are assets without a symbol or with another asset's slug, their quotes, and
	// a repeated category.
	same(t, rejected[AssetsFile], 57)
	same(t, rejected[QuotesFile], 49)
	same(t, rejected[CategoriesFile], 1)
	if len(rejected) != 3 {
		t.Errorf("set aside %v", rejected)
	}
	tiny, unknown := 0, 0
	for _, q := range feed.Quotes {
		if q.Price == u(1) {
			tiny++
		}
		if q.MarketCap.IsZero() {
			unknown++
		}
	}
	if tiny == 0 || unknown < 7000 {
		t.Errorf("%d prices of 1e-18, %d unknown market caps", tiny, unknown)
	}
}
