package coingecko

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/lab/providertest"
)

func openTest(t testing.TB, rest string, vars ...string) *provider.Source {
	t.Helper()
	return providertest.Open(t, open, nil, rest, vars...)
}

// TestSample compares rows of the sample's feed with what they ought to be.
func TestSample(t *testing.T) {
	files := providertest.Files(t, openTest(t, "?replay=testdata/sample"))
	for name, lines := range map[string]string{
		source.InfoFile: `{"format":1,"database":"coingecko","time":"2026-03-30T01:58:35Z"}`,
		source.AssetsFile: `
			{"key":"0chain","name":"Zus","symbol":"ZCN","slug":"0chain"}
			{"key":"01coin","name":"01coin","symbol":"ZOC","slug":"01coin","logo":"https://coin-images.coingecko.com/coins/images/5720/large/F1nTlw9I_400x400.jpg?1696506175"}
			{"key":"bitcoin","name":"Bitcoin","symbol":"BTC","slug":"bitcoin","logo":"https://coin-images.coingecko.com/coins/images/1/large/bitcoin.png?1696501400","explorers":["https://mempool.space/","https://blockchair.com/bitcoin/","https://btc.com/","https://btc.tokenview.io/","https://www.oklink.com/btc","https://3xpl.com/bitcoin"],"website":"http://www.bitcoin.org","whitepaper":"https://bitcoin.org/bitcoin.pdf"}
			{"key":"mantle","name":"Mantle","symbol":"MNT","slug":"mantle","logo":"https://coin-images.coingecko.com/coins/images/30980/large/MNT_Token_Logo.png?1765516974"}`,
		source.QuotesFile: `
			{"key":"bitcoin","price":66600,"market_cap":1332711482255,"volume":26939113793}
			{"key":"shiba-inu","price":5.89e-06,"market_cap":3473256570,"volume":86034338}`,
		source.ExchangesFile: `
			{"key":"bybit_spot","name":"Bybit","slug":"bybit_spot","logo":"https://assets.coingecko.com/markets/images/698/small/bybit_spot.png?1706864649","links":{"website":"https://www.bybit.com"},"market":{"volume_24h":3401636766.7504543200}}
			{"key":"gdax","name":"Coinbase Exchange","slug":"gdax","logo":"https://assets.coingecko.com/markets/images/23/small/Coinbase_Coin_Primary.png?1706864258","links":{"website":"https://www.coinbase.com/"},"market":{"volume_24h":2493752415.3869356800}}`,
		source.CategoriesFile: `
			{"key":"layer-1","name":"Layer 1 (L1)","slug":"layer-1","members":["bitcoin","ethereum","left-the-directory"]}
			{"key":"meme-token","name":"Meme","slug":"meme-token"}`,
		source.ChainsFile: `
			{"key":"polygon-pos","name":"Polygon POS","slug":"polygon-pos","members":["0chain"],"display_name":"MATIC","evm_chain_id":137,"native":"matic-network"}
			{"key":"solana","name":"Solana","slug":"solana","members":["tether","bonk"],"display_name":"Solana","native":"solana"}
			{"key":"flow-evm","name":"Flow EVM","slug":"flow-evm","evm_chain_id":747,"native":"flow"}
			{"key":"ethereum","name":"Ethereum","slug":"ethereum","members":["0chain","tether","shiba-inu","pepe"],"evm_chain_id":1,"native":"ethereum"}
			{"key":"Unheard-Of","name":"Unheard-Of","slug":"Unheard-Of","members":["bonk"]}
			{"key":"arbitrum-one","name":"Arbitrum One","slug":"arbitrum-one","members":["bonk"],"evm_chain_id":42161,"native":"ethereum"}`,
	} {
		got := strings.Split(providertest.Contents(t, files, name), "\n")
		for want := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
			if want = strings.TrimSpace(want); !slices.Contains(got, want) {
				t.Errorf("%s: no row\n%s\nin\n%s", name, want, strings.Join(got, "\n"))
			}
		}
	}
	feed, report := providertest.Read(t, files)
	if len(feed.Assets) != 20 || len(feed.Quotes) != 18 || len(feed.Exchanges) != 2 || len(feed.Categories) != 2 || len(feed.Chains) != 6 {
		t.Errorf("not all rows were accepted: %+v", report)
	}
	if report.UnknownMembers != 1 || report.UnknownNatives != 2 || len(report.Parts) != 7 {
		t.Errorf("report %+v", report)
	}
}

// recordings are folders to replay: the recorded answers, and those of each
// recorded day.
func recordings(t *testing.T) map[string]string {
	dirs := map[string]string{"2025-03": providertest.Recorded(t, "recorded/coingecko-misc")}
	days, err := filepath.Glob(filepath.Join(providertest.Recorded(t, "recorded/coingecko-markets-daily"), "*.json"))
	if err != nil || len(days) == 0 {
		t.Fatalf("no recorded days: %v", err)
	}
	for _, day := range days {
		dir := t.TempDir()
		b, err := os.ReadFile(day)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "coins_markets.json"), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		dirs[filepath.Base(day)] = dir
	}
	dirs["another program's fixtures"], dirs["the provider's examples"] = fixtures(t), examples(t)
	return dirs
}

// fixtures makes a recording of those of a client library: each file has three
// lines of its own before the body.
func fixtures(t *testing.T) string {
	dir := t.TempDir()
	for name, file := range map[string]string{
		"coins_markets": "GetMarkets", "coins_list": "GetAssets", "exchanges": "GetExchanges", "categories": "GetMarketDataCategories",
		"asset_platforms": "GetAssetPlatforms",
	} {
		b, err := os.ReadFile(filepath.Join(providertest.Recorded(t, "recorded/coingecko-fixtures"), file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfterN(string(b), "\n", 4)
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(lines[3]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// examples makes a recording of those in the provider's OpenAPI description.
func examples(t *testing.T) string {
	b, err := os.ReadFile(filepath.Join(providertest.Recorded(t, "recorded/coingecko-openapi"), "demo-api.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, _ := provider.Object(b)
	dir := t.TempDir()
	for name, path := range map[string]string{
		"coins_markets": "/coins/markets", "coins_list": "/coins/list", "exchanges": "/exchanges", "categories": "/coins/categories",
		"asset_platforms": "/asset_platforms",
	} {
		answer := doc.Object("paths").Object(path).Object("get").Object("responses").Object("200")
		body := answer.Object("content").Object("application/json").Get("example")
		if _, err := provider.CheckArray(body); err != nil {
			t.Fatalf("the example of %s: %v", path, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSampleRowByRow(t *testing.T) { compareRowByRow(t, "testdata/sample") }

func TestRecordedRowByRow(t *testing.T) {
	for label, dir := range recordings(t) {
		t.Run(label, func(t *testing.T) { compareRowByRow(t, dir) })
	}
}

// compareRowByRow reads recorded answers once more, in the plainest way there is,
// and compares every row of the feed with the provider's, digit by digit.
func compareRowByRow(t *testing.T, dir string) {
	files := providertest.Files(t, openTest(t, "?replay="+dir))
	raw := func(name string) []any {
		b, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return providertest.Rows(t, b)
	}
	assets := map[string]map[string]any{}
	for _, row := range providertest.NDJSON(t, files, source.AssetsFile) {
		assets[row["key"].(string)] = row
	}
	quotes := map[string]map[string]any{}
	for _, row := range providertest.NDJSON(t, files, source.QuotesFile) {
		quotes[row["key"].(string)] = row
	}
	markets := raw("coins_markets")
	var bitcoin *big.Rat
	priced := 0
	for _, c := range markets {
		c := c.(map[string]any)
		id := c["id"].(string)
		asset, quote := assets[id], quotes[id]
		if asset["name"] != c["name"] || asset["symbol"] != strings.ToUpper(c["symbol"].(string)) || asset["slug"] != id || asset["logo"] != c["image"] {
			t.Errorf("coin %v became %v", c, asset)
		}
		if c["current_price"] == nil {
			if quote != nil {
				t.Errorf("%s has a quote and no price", id)
			}
			continue
		}
		priced++
		if quote["price"] != c["current_price"] || quote["market_cap"] != c["market_cap"] || quote["volume"] != c["total_volume"] {
			t.Errorf("coin %v became %v", c, quote)
		}
		if id == "bitcoin" {
			bitcoin, _ = new(big.Rat).SetString(c["current_price"].(json.Number).String())
		}
	}
	for _, c := range raw("coins_list") {
		c := c.(map[string]any)
		if row := assets[c["id"].(string)]; row["name"] != c["name"] || row["symbol"] != strings.ToUpper(c["symbol"].(string)) {
			t.Errorf("coin %v became %v", c, row)
		}
	}
	if len(quotes) != priced || len(assets) < len(markets) {
		t.Errorf("%d assets and %d quotes from %d coins with %d prices", len(assets), len(quotes), len(markets), priced)
	}

	exchanges := providertest.NDJSON(t, files, source.ExchangesFile)
	for i, e := range raw("exchanges") {
		e, row := e.(map[string]any), exchanges[i]
		if row["key"] != e["id"] || row["slug"] != e["id"] || row["name"] != e["name"] || row["logo"] != e["image"] || row["links"].(map[string]any)["website"] != e["url"] {
			t.Errorf("exchange %v became %v", e, row)
		}
		got, _ := new(big.Rat).SetString(row["market"].(map[string]any)["volume_24h"].(json.Number).String())
		btc, _ := new(big.Rat).SetString(e["trade_volume_24h_btc"].(json.Number).String())
		if got.Cmp(btc.Mul(btc, bitcoin)) != 0 {
			t.Errorf("exchange %v: volume %v", e["id"], row["market"])
		}
	}

	categories := providertest.NDJSON(t, files, source.CategoriesFile)
	for i, c := range raw("categories") {
		c, row := c.(map[string]any), categories[i]
		if row["key"] != c["id"] || row["slug"] != c["id"] || row["name"] != c["name"] {
			t.Errorf("category %v became %v", c, row)
		}
	}
	chains := providertest.NDJSON(t, files, source.ChainsFile)
	for i, c := range raw("asset_platforms") {
		c, row := c.(map[string]any), chains[i]
		if row["key"] != c["id"] || row["slug"] != c["id"] || row["name"] != c["name"] ||
			c["chain_identifier"] != nil && row["evm_chain_id"] != c["chain_identifier"] || c["native_coin_id"] != nil && row["native"] != c["native_coin_id"] {
			t.Errorf("platform %v became %v", c, row)
		}
	}

	feed, report := providertest.Read(t, files)
	for _, f := range report.Files {
		if f.Rejected > 0 {
			t.Errorf("set aside: %v", f.Rejections)
		}
	}
	if len(feed.Assets) != len(assets) || len(feed.Quotes) != len(quotes) || len(feed.Exchanges) != len(exchanges) {
		t.Errorf("accepted %d assets, %d quotes, %d exchanges", len(feed.Assets), len(feed.Quotes), len(feed.Exchanges))
	}
}

// TestRecordedDetails compares what becomes of recorded details of coins with
// what another program made of the same bodies.
func TestRecordedDetails(t *testing.T) {
	bodies, err := os.ReadFile(providertest.Recorded(t, "recorded/coingecko-misc/coins_id_sample.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(providertest.Recorded(t, "coingecko-2025/assets.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	m := &market{details: map[string]*provider.Answer{}}
	for body := range strings.Lines(string(bodies)) {
		var coin struct{ ID, Symbol, Name string }
		if err := json.Unmarshal([]byte(body), &coin); err != nil {
			t.Fatal(err)
		}
		row, err := json.Marshal(map[string]string{"id": coin.ID, "symbol": coin.Symbol, "name": coin.Name})
		if err != nil {
			t.Fatal(err)
		}
		m.coins = append(m.coins, provider.Rows([]byte("["+string(row)+"]"))...)
		m.details[coin.ID] = providertest.Answer(reduceDetail([]byte(body)))
	}
	feed := provider.NewFeed(name, time.Unix(1, 0), nil)
	m.Write(feed)
	ours := map[string]map[string]any{}
	for _, row := range providertest.NDJSON(t, feed, source.AssetsFile) {
		ours[row["key"].(string)] = row
	}
	compared := 0
	for line := range strings.Lines(string(made)) {
		var theirs map[string]any
		if err := json.Unmarshal([]byte(line), &theirs); err != nil {
			t.Fatal(err)
		}
		row, ok := ours[theirs["key"].(string)]
		if !ok {
			continue
		}
		compared++
		for _, field := range []string{"name", "symbol", "logo", "website", "whitepaper"} {
			if got, _ := row[field].(string); got != theirs[field] {
				t.Errorf("%s: %s %q, want %q", row["key"], field, got, theirs[field])
			}
		}
		got, _ := row["explorers"].([]any)
		if want := theirs["explorers"].([]any); !slices.Equal(got, want) {
			t.Errorf("%s: explorers %v, want %v", row["key"], got, want)
		}
	}
	if compared != len(ours) || compared < 40 {
		t.Errorf("%d of %d compared", compared, len(ours))
	}
}

// TestDigits: whatever a provider writes for a number is in the feed as it was
// written, and becomes the number that it is, to the last digit that the field
// takes; what is none, or too long, sets the row aside.
func TestDigits(t *testing.T) {
	providertest.Digits(t, func(price, marketCap, volume string) provider.Market {
		return &market{markets: provider.Rows(fmt.Appendf(nil, `[{"id":"a","name":"A","symbol":"a","current_price":%s,"market_cap":%s,"total_volume":%s}]`, price, marketCap, volume))}
	})
}

// FuzzRows: no answer that passes for one makes anything panic or fail, and no
// row gets lost: each is accepted, set aside, or has no price.
func FuzzRows(f *testing.F) {
	files := []string{"coins_markets", "coins_list", "exchanges", "categories", "asset_platforms", "categories/layer-1.1", "coins/bitcoin"}
	odd := []string{
		`[null,5,"x",[],{}]`, `[{"id":"bitcoin","name":null,"symbol":{},"current_price":1e-9999,"platforms":{"":1,"x":null},"chain_identifier":-1,"trade_volume_24h_btc":1e99}]`,
		`[{"id":"\ud800","symbol":"\udfff"}]`, "[{\"id\":\"\xff\"}]", `[]`, `{"links":{"homepage":{}},"image":[],"logo":null}`,
	}
	providertest.FuzzRows(f, files, odd, func(t *testing.T, answers [][]byte) {
		m := &market{
			markets: providertest.Answer(answers[0], answers[0]).Rows(), coins: provider.Rows(answers[1]), exchanges: provider.Rows(answers[2]),
			categories: provider.Rows(answers[3]), platforms: provider.Rows(answers[4]),
			members: map[string]*provider.Answer{}, details: map[string]*provider.Answer{},
		}
		for _, id := range provider.IDs(m.categories) {
			m.members[id] = providertest.Answer(reduceMembers(answers[5]), answers[5])
		}
		for _, id := range provider.IDs(m.markets) {
			m.details[id] = providertest.Answer(reduceDetail(answers[6]))
		}
		feed := provider.NewFeed(name, time.Unix(1, 0), nil)
		m.Write(feed)
		if feed.Exchanges.Rows() != len(m.exchanges) || feed.Categories.Rows() != len(m.categories) || feed.Chains.Rows() < len(m.platforms) ||
			feed.Assets.Rows() < len(m.coins) || feed.Quotes.Rows() > len(m.markets) {
			t.Error("rows got lost, or came from nowhere")
		}
		providertest.CheckRead(t, feed)
	})
}

func TestNastyRows(t *testing.T) {
	const (
		good = `{"id":"a","symbol":"a","name":"A","image":"https://x.test/a.png","current_price":1,"market_cap":1,"total_volume":1}`
		one  = "1000000000000000000"
	)
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	providertest.NastyRows(t, [][]string{
		{good, one},
		{with(`"current_price":1,`, ``), ""},
		{with(`"current_price":1`, `"current_price":[]`), "", "price: "},
		{with(`"market_cap":1`, `"market_cap":null`), one},
		{with(`"id":"a"`, `"id":null`), "", "key: missing"},
		{with(`"id":"a"`, `"id":["a"]`), "", "key: "},
		{with(`"symbol":"a"`, `"symbol":"ß$ıſ"`), one},
		{with(`"symbol":"a"`, `"symbol":5`), "", "symbol: ", "key: no asset"},
		{with(`"symbol":"a"`, `"symbol":"\udc00"`), "", "not JSON", "key: no asset"},
		{with(`"name":"A"`, `"name":""`), "", "name: missing", "key: no asset"},
		{with(`"https://x.test/a.png"`, `{}`), one},
		{"null", "", "not a JSON object"},
		{"5e5", "", "not a JSON object"},
		{"{}", "", "key: missing"},
		{good + "," + good, one, "key: seen before in this file"},
	}, func(row string) provider.Market {
		return &market{markets: provider.Rows([]byte(`[{"id":"b","symbol":"b","name":"B","current_price":2},` + row + `]`))}
	})
}
