package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge/coingecko"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"github.com/getkin/kin-openapi/openapi3"
)

// recordedCoins returns recorded bodies of /coins/{id}.
func recordedCoins(t *testing.T) (all []map[string]any, raw [][]byte) {
	t.Helper()
	file := filepath.Join(teststore.RecordedFolder(t, recorded, "recorded/coingecko-misc"), "coins_id_sample.ndjson")
	for line := range bytes.Lines(must.Get(os.ReadFile(file))(t)) {
		all, raw = append(all, must.Get(strictJSON(string(line)))(t).(map[string]any)), append(raw, line)
	}
	return all, raw
}

// TestCoinGeckoReplayed lets our provider read the bodies with which CoinGecko answered for 40
// coins, also in the form in which its other endpoints would return them. It publishes the
// resulting feed, and requests the same bodies from an edge. Each has the members of CoinGecko's
// body, and no other members except those in CoinGecko's own description. The types are the same.
// Each figure and each string equals CoinGecko's exactly, is unknown here, or differs for a reason
// that COINGECKO.md gives ("Against CoinGecko's own answers").
func TestCoinGeckoReplayed(t *testing.T) {
	coins, raw := recordedCoins(t)
	bodies, list, markets := map[string][]byte{}, []any{}, []any{}
	for i, coin := range coins {
		id := coin["id"].(string)
		bodies["coins/"+id] = raw[i]
		list = append(list, map[string]any{"id": id, "symbol": coin["symbol"], "name": coin["name"],
			"platforms": coin["platforms"]})
		data := coin["market_data"].(map[string]any)
		in := func(name string) any { return data[name].(map[string]any)["usd"] }
		if in("current_price") != nil {
			markets = append(markets, map[string]any{"id": id, "symbol": coin["symbol"], "name": coin["name"],
				"image": coin["image"].(map[string]any)["large"], "current_price": in("current_price"),
				"market_cap": in("market_cap"), "total_volume": in("total_volume"),
				"circulating_supply": data["circulating_supply"], "total_supply": data["total_supply"],
				"max_supply": data["max_supply"], "last_updated": coin["last_updated"]})
		}
	}
	bodies["coins_list"], bodies["coins_markets"] = must.Get(json.Marshal(list))(t), must.Get(json.Marshal(markets))(t)
	p := newPair(t, model.Defaults(), poll)
	p.build(replay(t, bodies), time.Date(2025, 12, 22, 0, 0, 0, 0, time.UTC))
	described := must.Get(openapi3.NewLoader().LoadFromData(coingecko.Document))(t).Components.Schemas["CoinsID"].Value
	c := &comparison{differ: map[string]int{}}
	for _, coin := range coins {
		got := must.Get(strictJSON(p.get(t, "coins/"+coin["id"].(string)).body))(t)
		c.compare(t, "", coin, got, described)
	}
	for path, why := range differences {
		if c.differ[path] == 0 {
			t.Errorf("%s never differs, though %s", path, why)
		}
	}
	if c.equal < 1000 || c.unknown < 1000 {
		t.Errorf("%d values are equal, %d unknown", c.equal, c.unknown)
	}
	t.Logf("%d values are equal, %d unknown, and differ: %v", c.equal, c.unknown, c.differ)
	listed := must.Get(os.ReadFile("../../../edge/COINGECKO.md"))(t)
	for path, why := range differences {
		row := fmt.Sprintf("| `%s` | %s |", strings.TrimPrefix(path, "/"), why)
		if !bytes.Contains(listed, []byte(row)) {
			t.Errorf("COINGECKO.md has no row %s", row)
		}
	}
}

// differences lists the paths whose values differ from CoinGecko's, with the reasons.
var differences = map[string]string{
	"/last_updated":                            "the snapshot's time, not the coin's",
	"/market_data/last_updated":                "the snapshot's time, not the coin's",
	"/market_cap_rank":                         "by the caps of the snapshot",
	"/market_data/market_cap_rank":             "by the caps of the snapshot",
	"/market_data/fully_diluted_valuation/usd": "price × supply, exact; CoinGecko's is rounded, and lags",
	"/image/thumb":                             "the large one: a snapshot keeps one size",
	"/image/small":                             "the large one: a snapshot keeps one size",
	"/links/homepage":                          "the first one",
	"/web_slug":                                "the id, which is usually the same",
	"/asset_platform_id":                       "null if there are several: a snapshot does not record the first one",
	"/block_time_in_minutes":                   "0",
	"/watchlist_portfolio_users":               "0",
	"/market_data/total_supply":                "null without a price: supplies are part of quotes",
	"/market_data/max_supply":                  "null without a price: supplies are part of quotes",
	"/preview_listing":                         "false",
}

// kept lists the paths of the values that a snapshot keeps. A market cap or supply of 0 is unknown
// (FEED.md, "Figures").
var kept = map[string]bool{"/id": true, "/symbol": true, "/name": true, "/image/large": true,
	"/localization/en": true, "/links/homepage": true, "/links/whitepaper": true, "/links/blockchain_site": true,
	"/market_data/current_price/usd": true, "/market_data/market_cap/usd": true,
	"/market_data/total_volume/usd": true, "/market_data/circulating_supply": true,
	"/market_data/total_supply": true, "/market_data/max_supply": true}

// comparison counts the results of comparing values.
type comparison struct {
	equal, unknown int
	differ         map[string]int
}

// byName reports whether the member at path is a map by language, currency or platform. Our maps
// have only English, and only the currencies of the rates.
func byName(path string) bool {
	switch path {
	case "/localization", "/description", "/platforms", "/detail_platforms":
		return true
	}
	return strings.HasPrefix(path, "/detail_platforms/") || // not all have a geckoterminal_url
		strings.HasPrefix(path, "/market_data/") && strings.Count(path, "/") == 2
}

// compare compares a recorded value with ours, and checks both against the description.
func (c *comparison) compare(t *testing.T, path string, want, got any, described *openapi3.Schema) {
	t.Helper()
	switch theirs := want.(type) {
	case map[string]any:
		ours, ok := got.(map[string]any)
		if !ok {
			if got != nil || path != "/market_data/total_value_locked" {
				t.Errorf("%s: %v, want an object", path, got)
			}
			return
		}
		for name, v := range ours {
			_, have := theirs[name]
			if !have && !byName(path) && (described == nil || described.Properties[name] == nil) {
				t.Errorf("%s/%s: %v, which they do not have", path, name, v)
			}
		}
		for name, v := range theirs {
			inner, have := ours[name]
			if !have && !byName(path) {
				t.Errorf("%s has no %s", path, name)
			}
			if !have {
				c.unknown++
				continue
			}
			var property *openapi3.Schema
			if described != nil && described.Properties[name] != nil {
				property = described.Properties[name].Value
			}
			c.compare(t, path+"/"+name, v, inner, property)
		}
		return
	case json.Number:
		places := 18
		if amount.MatchString(strings.TrimSuffix(path, "/usd")) {
			places = 8 // FEED.md, "Numbers"
		}
		if text, err := model.Decimal(theirs.String(), places, 28); err == nil {
			want = json.Number(text)
		}
	}
	switch unknown := got == nil || got == "" || reflect.DeepEqual(got, []any{}); {
	case reflect.DeepEqual(want, got):
		c.equal++
	case unknown && !(kept[path] && want != nil && want != json.Number("0")):
		c.unknown++
	case want != nil && got != nil && reflect.TypeOf(want) != reflect.TypeOf(got):
		t.Errorf("%s: %v, want the type of %v", path, got, want)
	case differences[path] == "":
		t.Errorf("%s: %v, want %v", path, got, want)
	default:
		c.differ[path]++
	}
}

// TestCoinGeckoMembers: our answers have all members that CoinGecko's other answers have, whether
// recorded or given as examples in its own description.
func TestCoinGeckoMembers(t *testing.T) {
	folder := teststore.RecordedFolder(t, recorded, "recorded")
	p := smallPair(t)
	for name, target := range map[string]string{
		"GetAssetCategories": "coins/categories/list", "GetAssetPlatforms": "asset_platforms",
		"GetAssets": "coins/list?include_platform=true", "GetExchanges": "exchanges", "GetGlobalData": "global",
		"GetMarketDataCategories": "coins/categories", "GetMarkets": "coins/markets?vs_currency=usd",
	} {
		body := must.Get(os.ReadFile(filepath.Join(folder, "coingecko-fixtures", name+".txt")))(t)
		_, fixture, _ := strings.Cut(string(body), "\nfalse\n")
		members(t, target, must.Get(strictJSON(fixture))(t), must.Get(strictJSON(p.get(t, target).body))(t))
	}
	var theirs struct {
		Paths map[string]struct {
			Get struct {
				Responses map[string]struct {
					Content map[string]struct {
						Example  any
						Examples map[string]struct{ Value any }
					}
				}
			}
		}
	}
	description := must.Get(os.ReadFile(filepath.Join(folder, "coingecko-openapi/demo-api.json")))(t)
	must.OK(t, json.Unmarshal(description, &theirs))
	compared := 0
	for path, target := range map[string]string{
		"/coins/{id}": "coins/bitcoin?sparkline=true&include_categories_details=true", "/search": "search?query=btc",
		"/coins/{id}/history": "coins/bitcoin/history?date=21-11-2026", "/exchanges": "exchanges", "/global": "global",
		"/coins/{id}/market_chart":                "coins/bitcoin/market_chart?vs_currency=usd&days=1",
		"/coins/{id}/ohlc":                        "coins/bitcoin/ohlc?vs_currency=usd&days=1",
		"/coins/list":                             "coins/list?include_platform=1",
		"/coins/{id}/contract/{contract_address}": "coins/ethereum/contract/0xAb", "/exchange_rates": "exchange_rates",
		"/search/trending": "search/trending", "/coins/categories": "coins/categories",
		"/coins/markets":   "coins/markets?vs_currency=usd&sparkline=1&price_change_percentage=1h,24h,7d,14d,30d,200d,1y",
		"/asset_platforms": "asset_platforms",
	} {
		content := theirs.Paths[path].Get.Responses["200"].Content["application/json"]
		examples := []any{content.Example}
		for _, e := range content.Examples {
			examples = append(examples, e.Value)
		}
		var ours any
		must.OK(t, json.Unmarshal([]byte(p.get(t, target).body), &ours))
		for _, example := range examples {
			if example != nil {
				compared++
				members(t, target, example, ours)
			}
		}
	}
	if compared < 5 {
		t.Errorf("only %d examples", compared)
	}
}

// members checks that ours has the names of each object in theirs. It compares only the first
// elements of lists, and ignores the names in maps by language, currency or id.
func members(t *testing.T, path string, theirs, ours any) {
	t.Helper()
	switch theirs := theirs.(type) {
	case []any:
		if list, ok := ours.([]any); ok && len(list) > 0 && len(theirs) > 0 {
			members(t, path+"/0", theirs[0], list[0])
		}
	case map[string]any:
		object, ok := ours.(map[string]any)
		if !ok {
			return // it is null
		}
		_, currencies := theirs["btc"]
		_, languages := theirs["en"]
		for _, name := range slices.Sorted(maps.Keys(theirs)) {
			inner, have := object[name]
			if !have && !currencies && !languages && !strings.HasSuffix(path, "platforms") &&
				name != "geckoterminal_url" { // not all recorded objects have it
				t.Errorf("%s has no %s", path, name)
			}
			members(t, path+"/"+name, theirs[name], inner)
		}
	}
}
