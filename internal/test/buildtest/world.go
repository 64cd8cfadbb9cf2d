// Package buildtest provides helpers for tests of the builder and its upkeep: feeds of a small
// market, stores with a clock or with faults, and functions that inspect a store.
package buildtest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing/fstest"
	"time"

	"example.com/marketdata/builder/source"
)

// Epoch is the time of the first feed of most tests.
var Epoch = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// Discard is a logger that discards everything.
var Discard = slog.New(slog.DiscardHandler)

// World generates small, realistic feeds. Equal fields produce equal feeds.
type World struct {
	Assets int
	Seed   uint64
	At     time.Time
	// Broken is the number of invalid rows to add to assets.ndjson.
	Broken int
	// Factor multiplies the prices of the first assets, and Movers is the number of these assets.
	Movers, Factor int
}

// Later returns the same world at a later time, with slightly different prices.
func (w World) Later(d time.Duration) World { w.At = w.At.Add(d); return w }

// Files implements source.Source.
func (w World) Files(context.Context, time.Time) (source.Files, error) {
	return source.FS(w.Feed()), nil
}

// String implements source.Source.
func (w World) String() string { return "test world" }

// Feed returns the world's files.
func (w World) Feed() fstest.MapFS {
	dice := rand.New(rand.NewPCG(w.Seed, uint64(w.At.Unix())))
	var assets, quotes, exchanges, categories, chains bytes.Buffer
	for i := range w.Assets {
		fmt.Fprintf(&assets, `{"key":"coin-%d","name":"Coin %[1]d","symbol":"C%d","slug":"coin-%[1]d",`+
			`"logo":"https://img.example/%[1]d.png","website":"https://coin%[1]d.example","active":%[3]v,`+
			`"platforms":{"chain-0":"0x%040[1]X"}}`+"\n", i, i-i%5/4, i%17 != 16)
		if i%11 == 10 {
			continue // without a quote
		}
		price := 1 + i*13%997
		if i < w.Movers {
			price *= w.Factor
		}
		fmt.Fprintf(&quotes, `{"key":"coin-%d","price":"%d.%06d","market_cap":%d,"volume":"%d.5","max_supply":21e6}`+"\n",
			i, price, dice.IntN(1_000_000), (w.Assets-i)*1_000_000+dice.IntN(1000), dice.IntN(100_000_000))
	}
	for i := range w.Broken {
		fmt.Fprintf(&assets, `{"key":"broken-%d"}`+"\n", i)
	}
	for i := range w.Assets/20 + 1 {
		fmt.Fprintf(&exchanges, `{"key":"x%d","name":"Exchange %[1]d","slug":"x%[1]d","fees":{"maker":"0.1"},"market":{"volume_24h":"%d"}}`+"\n",
			i, i*1000)
		fmt.Fprintf(&categories, `{"key":"g%d","name":"Group %[1]d","slug":"group-%[1]d","members":["coin-%[1]d","coin-%d","gone"]}`+"\n",
			i, i*2)
		fmt.Fprintf(&chains, `{"key":"n%d","name":"Chain %[1]d","slug":"chain-%[1]d","members":["coin-%d"],"native":"coin-%[1]d"}`+"\n",
			i, i*3%w.Assets)
	}
	return Files(w.At, map[string][]byte{
		source.AssetsFile: assets.Bytes(), source.QuotesFile: quotes.Bytes(), source.ExchangesFile: exchanges.Bytes(),
		source.CategoriesFile: categories.Bytes(), source.ChainsFile: chains.Bytes(),
		source.RatesFile: []byte(`{"code":"eur","usd":"1.08"}`),
	})
}

// Files returns a feed with the given time and files.
func Files(at time.Time, files map[string][]byte) fstest.MapFS {
	info := fmt.Appendf(nil, `{"format":1,"database":"test","time":%q}`, at.Format(time.RFC3339))
	feed := fstest.MapFS{source.InfoFile: {Data: info}}
	for name, b := range files {
		feed[name] = &fstest.MapFile{Data: b}
	}
	return feed
}

// Given is a source with a fixed feed.
type Given struct{ Feed source.Files }

// Files implements source.Source.
func (g Given) Files(context.Context, time.Time) (source.Files, error) { return g.Feed, nil }

// String implements source.Source.
func (g Given) String() string { return "given" }
