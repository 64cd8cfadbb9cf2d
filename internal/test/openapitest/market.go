package openapitest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
)

// now is the time of the newest snapshot of Market.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

type row = map[string]any

// The example market. Its figures are made up.
var (
	assets = []row{
		{"key": "bitcoin", "id": 1, "name": "Bitcoin", "symbol": "BTC", "slug": "bitcoin",
			"logo":      "https://img.example/1.png",
			"explorers": []string{"https://explorer.example/btc"}, "website": "https://bitcoin.example",
			"whitepaper": "https://bitcoin.example/paper.pdf"},
		{"key": "ethereum", "id": 2, "name": "Ethereum", "symbol": "ETH", "slug": "ethereum",
			"logo":      "https://img.example/2.png",
			"explorers": []string{"https://explorer.example/eth", "https://other.example/eth"},
			"website":   "https://ethereum.example"},
		{"key": "dollar", "id": 5, "name": "Dollar Token", "symbol": "USDX", "slug": "dollar-token",
			"logo": "https://img.example/5.png", "website": "https://usdx.example"},
		{"key": "salt", "id": 7, "name": "Salt & Co", "symbol": "SALT", "slug": "salt-&-co",
			"logo": "https://img.example/7.png"},
		{"key": "petal", "id": 9, "name": "Petal", "symbol": "PTL", "slug": "petal",
			"logo": "https://img.example/9.png"},
		{"key": "petal2", "id": 12, "name": "Petal Classic", "symbol": "PTL", "slug": "petal-classic"},
		{"key": "dormant", "id": 14, "name": "Dormant", "symbol": "ZZZ", "slug": "dormant", "active": false},
	}
	// Prices are in units of 1e-12, and market caps in whole dollars. rise is the daily increase
	// of both, in millionths.
	quotes = []struct {
		key              string
		price, marketCap int64
		rise             int64
		volume           string
	}{
		{"bitcoin", 64_447_198_255_415_000, 1_293_229_703_792, 1300, "21746137078.05607"},
		{"ethereum", 1_901_913_342_042_040, 229_526_976_873, -800, "9654160104.394205"},
		{"dollar", 999_818_539_383, 71_726_880_664, 1, "8580357604.02552"},
		{"salt", 73_276_591_605_288, 38_412_206_111, 2600, "1877206542.25"},
		{"petal", 41_000_125, 15_250_000, 9000, "1200345.5"},
		{"petal2", 3_700_000, 0, -40000, "12.5"},
	}
	exchanges = []row{
		{"key": "harbor", "id": 1, "name": "Harbor", "slug": "harbor", "logo": "https://img.example/h.png",
			"links": row{"website": "https://harbor.example", "chat": "https://chat.example/harbor"},
			"fees":  row{"maker": "0.1", "taker": "0.25"}, "market": row{"volume_24h": "1845213377.125",
				"markets_count": 812, "coins_count": 240, "data_time": "2026-11-21T11:58:21Z"}},
		{"key": "quay", "id": 3, "name": "Quay", "slug": "quay", "market": row{"coins_count": 12}},
		{"key": "jetty", "id": 4, "name": "Jetty", "slug": "jetty"},
		{"key": "pier", "id": 5, "name": "Pier", "slug": "pier", "fees": row{"taker": "0.3"},
			"market": row{"volume_24h": "90210.5"}},
	}
	categories = []row{
		{"key": "layer-1", "id": 1, "name": "Layer 1", "slug": "layer-1",
			"members": []string{"bitcoin", "ethereum", "salt"}},
		{"key": "stable", "id": 2, "name": "Stablecoins", "slug": "stablecoins", "members": []string{"dollar"}},
		{"key": "flowers", "id": 3, "name": "Flowers (all)", "slug": "flowers-(all)",
			"members": []string{"petal", "petal2"}},
	}
	chains = []row{
		{"key": "ethereum", "id": 1, "name": "Ethereum", "display_name": "Ethereum", "slug": "ethereum-chain",
			"evm_chain_id": 1, "native": "ethereum", "members": []string{"ethereum", "dollar", "salt", "petal"}},
		{"key": "bitcoin", "id": 2, "name": "Bitcoin", "display_name": "BTC", "slug": "bitcoin-chain",
			"native": "bitcoin", "members": []string{"bitcoin"}},
		// The chain id does not fit into 32 bits.
		{"key": "palm", "id": 3, "name": "Palm", "display_name": "Palm", "slug": "palm-chain",
			"evm_chain_id": 11297108109, "members": []string{"petal2"}},
	}
)

// files returns the example market at a given time.
func files(at time.Time) map[string][]row {
	hours := int64(now.Sub(at) / time.Hour)
	var prices []row
	for _, q := range quotes {
		then := func(n int64) int64 { return max(n-n/1000*q.rise/1000*hours/24, n/4) }
		price := then(q.price)
		r := row{"key": q.key, "price": fmt.Sprintf("%d.%012d", price/1e12, price%1e12), "volume": q.volume}
		if q.marketCap > 0 {
			r["market_cap"] = fmt.Sprintf("%d.125", then(q.marketCap))
		}
		prices = append(prices, r)
	}
	directory, listed, groups := slices.Clone(assets), exchanges, slices.Clone(categories)
	if at.Before(now) { // so that /changes has a change of each kind
		directory[len(directory)-1] = row{"key": "dormant", "id": 14, "name": "Dormant Coin", "symbol": "ZZ",
			"slug": "dormant-coin", "logo": "https://img.example/14.png", "website": "https://dormant.example",
			"platforms": row{"Palm": "1"}}
		flowers := maps.Clone(groups[2])
		flowers["members"] = []string{"petal"}
		groups[2] = flowers
	}
	if at.Before(now.Add(-time.Hour)) {
		listed = exchanges[:len(exchanges)-1]
	}
	return map[string][]row{
		"assets": directory, "quotes": prices, "exchanges": listed, "categories": groups, "chains": chains}
}

// Market publishes the example market, with a year of history and the record of the change job, to
// a store in memory.
func Market(tb testing.TB) artifacts.Store {
	tb.Helper()
	store := Unchanged(tb)
	teststore.Change(tb, store, now.Add(90*time.Second))
	return store
}

// Unchanged returns the store of Market without the record of the change job.
func Unchanged(tb testing.TB) artifacts.Store {
	tb.Helper()
	store := memstore.New()
	const day = 24 * time.Hour
	var times []time.Time
	for _, ago := range []time.Duration{
		365 * day, 90 * day, 30 * day, 7 * day, day, 12 * time.Hour, 6 * time.Hour, time.Hour, 10 * time.Minute, 0} {
		times = append(times, now.Add(-ago))
	}
	teststore.PublishAll(tb, store, files, times...)
	return store
}

// Start runs an edge on free ports until the test ends and returns its base URL. The edge uses the
// API keys of the store and, if there is one, its snapshot.
func Start(tb testing.TB, cfg edge.Config) string {
	tb.Helper()
	cfg.CacheSize, cfg.CacheDir = 8<<20, tb.TempDir()
	return testedge.Start(tb, cfg).URL
}

// Await waits until the edge at base answers with a snapshot. An edge without authentication
// accepts any key.
func Await(tb testing.TB, base, key string) {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		req := must.Get(http.NewRequestWithContext(tb.Context(), http.MethodGet, base+"/openapi/v1/global", nil))(tb)
		req.Header.Set("X-Api-Key", key)
		req.Close = true
		r := must.Get(http.DefaultClient.Do(req))(tb)
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("the edge has no snapshot: %s", r.Status)
		}
	}
}
