package coingecko

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	prices "example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/providertest"
)

func openTest(t testing.TB, rest string, vars ...string) *provider.Source {
	t.Helper()
	return providertest.Open(t, Open, nil, rest, vars...)
}

func TestSample(t *testing.T) { providertest.WantSample(t, openTest(t, "?replay=testdata/sample")) }

// recordings returns folders to replay: one with recorded answers of every kind, and one for each
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
		ok(t, err)
		dirs[filepath.Base(day)] = dir
	}
	dirs["another program's fixtures"], dirs["the provider's examples"] = fixtures(t), examples(t)
	return dirs
}

// fixtures makes a recording from the fixtures of a client library. Each file has three extra lines
// before the body.
func fixtures(t *testing.T) string {
	dir := t.TempDir()
	for name, file := range map[string]string{
		"coins_markets": "GetMarkets", "coins_list": "GetAssets", "exchanges": "GetExchanges",
		"categories":      "GetMarketDataCategories",
		"asset_platforms": "GetAssetPlatforms",
	} {
		b, err := os.ReadFile(filepath.Join(providertest.Recorded(t, "recorded/coingecko-fixtures"), file+".txt"))
		ok(t, err)
		lines := strings.SplitAfterN(string(b), "\n", 4)
		ok(t, os.WriteFile(filepath.Join(dir, name+".json"), []byte(lines[3]), 0o644))
	}
	return dir
}

// example returns the example answer in the provider's OpenAPI description.
func example(t *testing.T, path string) []byte {
	dir := providertest.Recorded(t, "recorded/coingecko-openapi")
	b := must.Get(os.ReadFile(filepath.Join(dir, "demo-api.json")))(t)
	doc, _ := provider.Object(b)
	answer := doc.Object("paths").Object(path).Object("get").Object("responses").Object("200")
	return answer.Object("content").Object("application/json").Get("example")
}

// examples makes a recording from the example answers in the provider's OpenAPI description.
func examples(t *testing.T) string {
	dir := t.TempDir()
	for name, path := range map[string]string{
		"coins_markets": "/coins/markets", "coins_list": "/coins/list", "exchanges": "/exchanges",
		"categories":      "/coins/categories",
		"asset_platforms": "/asset_platforms",
	} {
		body := example(t, path)
		if _, err := provider.CheckArray(body); err != nil {
			t.Fatalf("the example of %s: %v", path, err)
		}
		ok(t, os.WriteFile(filepath.Join(dir, name+".json"), body, 0o644))
	}
	return dir
}

func TestRecordedRowByRow(t *testing.T) {
	for label, dir := range recordings(t) {
		t.Run(label, func(t *testing.T) { compareRowByRow(t, dir) })
	}
}

// compareRowByRow compares a feed with the recorded answers from which it was made, digit by digit.
func compareRowByRow(t *testing.T, dir string) {
	files := providertest.Files(t, openTest(t, "?replay="+dir))
	for _, c := range []struct {
		answer, file, needed string
		fields               map[string]string
	}{
		{"coins_markets", source.AssetsFile, "", map[string]string{"name": "name", "slug": "id", "logo": "image"}},
		{"coins_list", source.AssetsFile, "", map[string]string{"name": "name", "slug": "id"}},
		{"coins_markets", source.QuotesFile, "current_price", map[string]string{
			"price": "current_price", "market_cap": "market_cap", "volume": "total_volume",
		}},
		{"exchanges", source.ExchangesFile, "", map[string]string{
			"name": "name", "slug": "id", "logo": "image", "links.website": "url",
		}},
		{"categories", source.CategoriesFile, "", map[string]string{"name": "name", "slug": "id"}},
		{"asset_platforms", source.ChainsFile, "", map[string]string{"name": "name", "slug": "id"}},
	} {
		b, err := os.ReadFile(filepath.Join(dir, c.answer+".json"))
		if os.IsNotExist(err) {
			continue
		}
		ok(t, err)
		providertest.SameValues(t, files, c.file, providertest.Rows(t, b), c.needed, c.fields)
	}
	providertest.AllAccepted(t, files)
}

// TestRecordedDetails compares the rows made from recorded details of coins with the rows that
// another program made from the same answers.
func TestRecordedDetails(t *testing.T) {
	bodies := must.Get(os.ReadFile(providertest.Recorded(t, "recorded/coingecko-misc/coins_id_sample.ndjson")))(t)
	made := must.Get(os.ReadFile(providertest.Recorded(t, "coingecko-2025/assets.ndjson")))(t)
	m := &market{details: map[string]*provider.Answer{}}
	for body := range strings.Lines(string(bodies)) {
		var coin struct{ ID, Symbol, Name string }
		ok(t, json.Unmarshal([]byte(body), &coin))
		row := must.Get(json.Marshal(map[string]string{"id": coin.ID, "symbol": coin.Symbol, "name": coin.Name}))(t)
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
		ok(t, json.Unmarshal([]byte(line), &theirs))
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

// TestDigits checks that numbers are in the feed as the provider wrote them, and are read exactly,
// to the last digit that the field has. A price that is not a number, or too long, sets the row
// aside.
func TestDigits(t *testing.T) {
	providertest.Digits(t, func(price, marketCap, volume string) provider.Market {
		return &market{
			markets: provider.Rows(fmt.Appendf(nil,
				`[{"id":"a","name":"A","symbol":"a","current_price":%s,"market_cap":%s,"total_volume":%s}]`, price,
				marketCap, volume)),
		}
	})
}

// TestVolumeInBitcoin checks that both factors may be strings. If a factor cannot be parsed, there
// is no volume but a warning, and the volume is never the other factor (l2beat 2804, eliza 20504:
// the provider sometimes writes numbers as strings).
func TestVolumeInBitcoin(t *testing.T) {
	for _, c := range []struct{ volume, price, want, warned string }{
		{`"2.5"`, "90000", "225000", ""}, {"2.5", `"90000"`, "225000", ""}, {`"1e-1"`, `"0.5"`, "0.05", ""},
		{`"N/A"`, "90000", "", "N/A * 90000"}, {"2.5", `"?"`, "", "2.5 * ?"}, {"null", "90000", "", ""},
	} {
		m := &market{
			markets: provider.Rows(fmt.Appendf(nil,
				`[{"id":"bitcoin","name":"Bitcoin","symbol":"btc","current_price":%s}]`, c.price)),
			exchanges: provider.Rows(fmt.Appendf(nil, `[{"id":"x","name":"X","trade_volume_24h_btc":%s}]`, c.volume)),
		}
		f := provider.NewFeed(name, time.Unix(1, 0), nil)
		m.Write(f)
		feed, report := providertest.Read(t, f)
		got, warned := "", ""
		if v := feed.Exchanges[0].Market.Volume; v != nil {
			got = string(prices.AppendDecimal(nil, *v, prices.MoneyDecimals))
		}
		for _, w := range report.Files[2].Warnings {
			warned += strings.Trim(w.Value, `"`)
		}
		if got != c.want || warned != c.warned {
			t.Errorf("%s of %s: %q, warned of %q", c.volume, c.price, got, warned)
		}
	}
}

// TestRateCoins checks that a rate refers to a coin if the coin has a price above 0 that the reader
// accepts. Otherwise the rate has the value that the provider states. A fraction of a coin never
// refers to the coin.
func TestRateCoins(t *testing.T) {
	for _, c := range []struct{ code, coin, price, want string }{
		{"eth", "ethereum", "3000", "ethereum"}, {"yfi", "yearn-finance", `"5e3"`, "yearn-finance"},
		{"eth", "ethereum", "0", ""}, {"eth", "ethereum", "null", ""}, {"eth", "ethereum", `"?"`, ""},
		{"eth", "ether", "3000", ""}, {"sats", "bitcoin", "90000", ""}, {"eur", "eur", "1", ""},
	} {
		m := &market{
			markets: provider.Rows(fmt.Appendf(nil, `[{"id":%q,"name":"A","symbol":"a","current_price":%s}]`, c.coin,
				c.price)),
			rates: provider.Rows(fmt.Appendf(nil,
				`[{"id":"usd","value":90000},{"id":%q,"name":"A","unit":"A","value":30,"type":"crypto"}]`, c.code)),
		}
		f := provider.NewFeed(name, time.Unix(1, 0), nil)
		m.Write(f)
		var got any
		for _, row := range providertest.NDJSON(t, f, source.RatesFile) {
			if row["code"] == c.code {
				got = row["asset"]
			}
		}
		if text, _ := got.(string); text != c.want {
			t.Errorf("%s with %s at %s: asset %v, want %q", c.code, c.coin, c.price, got, c.want)
		}
	}
}

// FuzzRows checks that no valid answer causes a panic or a failure, and that no row gets lost: each
// row is accepted, set aside, or has no price.
func FuzzRows(f *testing.F) {
	files := []string{
		"coins_markets", "coins_list", "exchanges", "categories", "asset_platforms", "categories/layer-1.1",
		"coins/bitcoin",
	}
	odd := []string{
		`[null,5,"x",[],{}]`,
		`[{"id":"bitcoin","name":null,"symbol":{},"current_price":1e-9999,"platforms":{"":1,"x":null},"chain_identifier":-1,"trade_volume_24h_btc":1e99}]`,
		`[{"id":"\ud800","symbol":"\udfff"}]`, "[{\"id\":\"\xff\"}]", `[]`,
		`{"links":{"homepage":{}},"image":[],"logo":null}`,
	}
	providertest.FuzzRows(f, files, odd, func(t *testing.T, answers [][]byte) {
		m := &market{
			markets: providertest.Answer(answers[0], answers[0]).Rows(), coins: provider.Rows(answers[1]),
			exchanges:  provider.Rows(answers[2]),
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
		if feed.Exchanges.Rows() != len(m.exchanges) || feed.Categories.Rows() != len(m.categories) ||
			feed.Chains.Rows() < len(m.platforms) ||
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
		return &market{
			markets: provider.Rows([]byte(`[{"id":"b","symbol":"b","name":"B","current_price":2},` + row + `]`)),
		}
	})
}

var ok = must.OK

// TestFirstSnapshotWithoutAKey checks that a rate of five requests a minute (row D9), which leaves
// no time for seven pages of exchanges, does not keep rates and categories out of the first
// snapshot. A request that was not sent is not a failure and is not put off, and the exchanges
// follow as soon as they fit. The other rates are just below and above. All answers are recorded
// ones or the provider's examples.
func TestFirstSnapshotWithoutAKey(t *testing.T) {
	p := providertest.New()
	misc := providertest.Recorded(t, "recorded/coingecko-misc")
	set := func(path string, body any) { p.Set(api+path, must.Get(json.Marshal(body))(t)) }
	for _, path := range []string{"/exchange_rates", "/asset_platforms"} {
		p.Set(api+path, example(t, path))
	}
	for _, name := range []string{"categories", "coins_markets"} {
		path := map[string]string{"categories": "/coins/categories", "coins_markets": "/coins/markets"}[name]
		p.Set(api+path, must.Get(os.ReadFile(filepath.Join(misc, name+".json")))(t))
	}
	set("/coins/list", providertest.Rows(t, p.Answer(api+"/coins/markets")))
	exchanges := providertest.Rows(t, must.Get(os.ReadFile(filepath.Join(misc, "exchanges.json")))(t))
	for i := range 6 {
		set(fmt.Sprintf("/exchanges?page=%d", i+1), exchanges[i*16:(i+1)*16])
	}
	set("/exchanges?page=7", []any{})
	never := 100
	for rate, first := range map[string]int{"": 1, "?rate=6": 1, "?rate=10": 0, "?rate=4": never} { // with exchanges
		synctest.Test(t, func(t *testing.T) {
			s := over(t, p.Transport(), rate)
			for i := range 10 {
				began := time.Now()
				files := providertest.Files(t, s)
				all := providertest.All(t, files)
				if took := time.Since(began); took > 2*time.Minute || all["rates.ndjson"] == "" ||
					strings.Count(all["categories.ndjson"], "\n") != 529 {
					t.Errorf("%s: snapshot %d after %v, rates %q", rate, i, took, all["rates.ndjson"])
				}
				for _, part := range files.(source.Provenance).Parts() {
					if part.Failures > 0 {
						t.Errorf("%s: snapshot %d: %+v", rate, i, part)
					}
				}
				if got := all["exchanges.ndjson"] != ""; got != (i >= first) {
					t.Errorf("%s: snapshot %d has exchanges: %v", rate, i, got)
				}
				time.Sleep(10*time.Minute - time.Since(began))
			}
			// One more attempt than necessary is allowed, since the number of pages was unknown at
			// first.
			if n := strings.Count(strings.Join(p.Asked(), " "), "exchanges?"); n > 7+6 {
				t.Errorf("%s: asked for %d pages of exchanges", rate, n)
			}
		})
	}
}
