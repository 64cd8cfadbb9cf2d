package builder

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/fstest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
)

// epoch is the time of the first feed of most tests.
var epoch = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// world makes small feeds that look like a market: the same for equal fields.
type world struct {
	assets int
	seed   uint64
	at     time.Time
	// broken rows are added to assets.ndjson.
	broken int
	// factor multiplies the prices of the first movers assets.
	movers, factor int
}

// feed writes the world's files.
func (w world) feed() fstest.MapFS {
	dice := rand.New(rand.NewPCG(w.seed, uint64(w.at.Unix())))
	var assets, quotes, exchanges, categories, chains bytes.Buffer
	for i := range w.assets {
		fmt.Fprintf(&assets, `{"key":"coin-%d","name":"Coin %d","symbol":"C%d","slug":"coin-%d","logo":"https://img.example/%d.png","website":"https://coin%d.example","active":%v}`+"\n",
			i, i, i-i%5/4, i, i, i, i%17 != 16)
		if i%11 == 10 {
			continue // without a quote
		}
		price := 1 + i*13%997
		if i < w.movers {
			price *= w.factor
		}
		fmt.Fprintf(&quotes, `{"key":"coin-%d","price":"%d.%06d","market_cap":%d,"volume":"%d.5"}`+"\n",
			i, price, dice.IntN(1_000_000), (w.assets-i)*1_000_000+dice.IntN(1000), dice.IntN(100_000_000))
	}
	for i := range w.broken {
		fmt.Fprintf(&assets, `{"key":"broken-%d"}`+"\n", i)
	}
	for i := range w.assets/20 + 1 {
		fmt.Fprintf(&exchanges, `{"key":"x%d","name":"Exchange %d","slug":"x%d","fees":{"maker":"0.1"},"market":{"volume_24h":"%d"}}`+"\n", i, i, i, i*1000)
		fmt.Fprintf(&categories, `{"key":"g%d","name":"Group %d","slug":"group-%d","members":["coin-%d","coin-%d","gone"]}`+"\n", i, i, i, i, i*2)
		fmt.Fprintf(&chains, `{"key":"n%d","name":"Chain %d","slug":"chain-%d","members":["coin-%d"],"native":"coin-%d"}`+"\n", i, i, i, i*3%w.assets, i)
	}
	return fstest.MapFS{
		source.InfoFile:       {Data: fmt.Appendf(nil, `{"format":1,"database":"test","time":%q}`, w.at.Format(time.RFC3339))},
		source.AssetsFile:     {Data: assets.Bytes()},
		source.QuotesFile:     {Data: quotes.Bytes()},
		source.ExchangesFile:  {Data: exchanges.Bytes()},
		source.CategoriesFile: {Data: categories.Bytes()},
		source.ChainsFile:     {Data: chains.Bytes()},
	}
}

// Files makes a world the Source of its own feed.
func (w world) Files(context.Context, time.Time) (source.Files, error) {
	return source.FS(w.feed()), nil
}
func (w world) String() string { return "test world" }

// given is a source of files that are there already.
type given struct{ files source.Files }

func (g given) Files(context.Context, time.Time) (source.Files, error) { return g.files, nil }
func (g given) String() string                                         { return "given" }

// later is the same world d later: prices have moved a little.
func (w world) later(d time.Duration) world { w.at = w.at.Add(d); return w }

// discard drops what is logged.
var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

// config is a Builder's with the defaults of the command.
func config(s artifacts.Store, src source.Source) Config {
	floor := func(units uint64) market.U128 { return market.U128{Lo: units * 100_000_000} }
	return Config{
		Store: s, Source: src, Retain: DefaultRetain, Guards: DefaultGuards, Log: discard,
		Settings: market.Settings{TrendingMinMarketCap: floor(10_000_000), TrendingMinVolume: floor(1_000_000), HistoryAssets: market.DefaultHistoryAssets},
	}
}

// tryBuild builds the world's snapshot.
func tryBuild(ctx context.Context, s artifacts.Store, w source.Source, change ...func(*Config)) (*Report, error) {
	cfg := config(s, w)
	for _, f := range change {
		f(&cfg)
	}
	b, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return b.Build(ctx, time.Time{})
}

// mustBuild builds and publishes the world's snapshot.
func mustBuild(t *testing.T, s artifacts.Store, w source.Source, change ...func(*Config)) *Report {
	t.Helper()
	r, err := tryBuild(t.Context(), s, w, change...)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Published {
		t.Fatalf("snapshot %s was not published: %s", r.SnapshotTime, r.Reason)
	}
	return r
}

// verify fails the test when anything that the pointer reaches is not as it
// should be, and returns what is there.
func verify(t *testing.T, r artifacts.Reader) *artifacts.CheckReport {
	t.Helper()
	report, err := artifacts.Check(t.Context(), r, ledger.Refs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Problems) > 0 {
		t.Fatalf("the store is broken: %q", report.Problems)
	}
	return report
}
