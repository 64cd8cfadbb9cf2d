package coinpaprika

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/lab/providertest"
)

func openTest(t testing.TB, rest string) *provider.Source {
	t.Helper()
	return providertest.Open(t, open, nil, rest)
}

// TestSample compares the feed of the sample with what it ought to be.
func TestSample(t *testing.T) {
	files := providertest.Files(t, openTest(t, "?replay=testdata/sample"))
	providertest.WantRows(t, files, map[string]string{
		source.InfoFile: `{"format":1,"database":"coinpaprika","time":"2026-11-21T07:19:04Z"}`,
		source.AssetsFile: `
			{"key":"btc-bitcoin","name":"Bitcoin","symbol":"BTC","slug":"btc-bitcoin","logo":"https://static.coinpaprika.com/coin/btc-bitcoin/logo.png?rev=1","explorers":["https://explorer.example.test/btc","https://other.example.test"],"website":"https://bitcoin.example.test/","whitepaper":"https://static.coinpaprika.com/storage/cdn/whitepapers/215.pdf","active":true}
			{"key":"eth-ethereum","name":"Ethereum","symbol":"ETH","slug":"eth-ethereum","logo":"https://static.coinpaprika.com/coin/eth-ethereum/logo.png","active":true}
			{"key":"tiny-tiny-coin","name":"Tiny & <Coin>","symbol":"TINY","slug":"tiny-tiny-coin","logo":"https://static.coinpaprika.com/coin/tiny-tiny-coin/logo.png","explorers":["https://explorer.example.test/tiny"],"website":"https://tiny.example.test","active":true}
			{"key":"long-long-digits","name":"Ünïcode \"Long\"","symbol":"ŁÓNG","slug":"long-long-digits","logo":"https://static.coinpaprika.com/coin/long-long-digits/logo.png","active":true}
			{"key":"idle-idle","name":"Idle","symbol":"IDLE","slug":"idle-idle","logo":"https://static.coinpaprika.com/coin/idle-idle/logo.png","active":true}
			{"key":"dead-dead","name":"Dead","symbol":"DEAD","slug":"dead-dead","logo":"https://static.coinpaprika.com/coin/dead-dead/logo.png","active":false}
			{"key":"new-not-in-coins","name":"New","symbol":"NEW","slug":"new-not-in-coins","logo":"https://static.coinpaprika.com/coin/new-not-in-coins/logo.png"}`,
		source.QuotesFile: `
			{"key":"btc-bitcoin","price":91913.274253770001,"market_cap":1795556052680,"volume":15497171907.63}
			{"key":"eth-ethereum","price":2990.10,"market_cap":360000000000,"volume":9.99e9}
			{"key":"tiny-tiny-coin","price":2e-8,"market_cap":0,"volume":0}
			{"key":"long-long-digits","price":0.123456789012345678901234567890,"market_cap":98765432109876543210,"volume":12345678901234567890.123456789}
			{"key":"new-not-in-coins","price":1}`,
		source.ExchangesFile: `
			{"key":"grand","name":"Grand Exchange","slug":"grand","logo":"https://static.coinpaprika.com/exchanges/grand/logo.png","links":{"website":"https://grand.example.test/","twitter":"https://twitter.com/grand","telegram":"https://t.me/grand"},"market":{"volume_24h":1234567890.123456789,"markets_count":1200,"coins_count":300,"data_time":"2026-11-21T07:15:51Z"}}
			{"key":"dead/ex","name":"Dead","slug":"dead/ex","logo":"https://static.coinpaprika.com/exchanges/dead%2Fex/logo.png","links":{}}
			{"key":"zero","name":"Zero","slug":"zero","logo":"https://static.coinpaprika.com/exchanges/zero/logo.png","links":{},"market":{"volume_24h":0,"markets_count":0}}`,
		source.CategoriesFile: `
			{"key":"smart-contracts","name":"Smart Contracts","slug":"smart-contracts","members":["eth-ethereum","tiny-tiny-coin","left-the-directory"]}
			{"key":"empty","name":"Empty","slug":"empty","members":[]}
			{"key":"not-said","name":"Not Said","slug":"not-said"}`,
		source.ChainsFile: `
			{"key":"own-chain","name":"own-chain","slug":"own-chain"}
			{"key":"eth-ethereum","name":"Ethereum","slug":"eth-ethereum","members":["tiny-tiny-coin","tiny-tiny-coin"],"evm_chain_id":1,"native":"eth-ethereum"}
			{"key":"arb-arbitrum","name":"Arbitrum One","slug":"arb-arbitrum","evm_chain_id":42161,"native":"eth-ethereum"}
			{"key":"dead-dead","name":"Dead","slug":"dead-dead","native":"dead-dead"}`,
	})
	feed, report := providertest.Read(t, files)
	if len(feed.Assets) != 7 || len(feed.Quotes) != 5 || len(feed.Exchanges) != 3 || len(feed.Categories) != 3 || len(feed.Chains) != 4 {
		t.Errorf("not all rows were accepted: %+v", report)
	}
	if report.UnknownMembers != 1 || len(report.Parts) != 7 {
		t.Errorf("report %+v", report)
	}
}

func TestSampleRowByRow(t *testing.T) { compareRowByRow(t, "testdata/sample") }

func TestRecordedRowByRow(t *testing.T) {
	compareRowByRow(t, providertest.Recorded(t, "recorded/coinpaprika-2019"))
}

// compareRowByRow reads recorded answers once more, in the plainest way there is,
// and compares every row of the feed with the provider's, digit by digit.
func compareRowByRow(t *testing.T, dir string) {
	files := providertest.Files(t, openTest(t, "?replay="+dir))
	raw := func(prefix string) []any {
		names, err := filepath.Glob(filepath.Join(dir, prefix+"*.json"))
		if err != nil || len(names) != 1 {
			t.Fatalf("%s: %v, %v", prefix, names, err)
		}
		b, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		return providertest.Rows(t, b)
	}
	coins, tickers := raw("coins"), raw("tickers")

	assets := map[string]map[string]any{}
	for _, row := range providertest.NDJSON(t, files, source.AssetsFile) {
		assets[row["key"].(string)] = row
	}
	seen := 0
	for _, list := range [][]any{coins, tickers} {
		for _, c := range list {
			c := c.(map[string]any)
			row := assets[c["id"].(string)]
			if row == nil || row["name"] != c["name"] || row["symbol"] != c["symbol"] || row["slug"] != c["id"] {
				t.Fatalf("coin %v became %v", c, row)
			}
			if active, said := c["is_active"]; said {
				seen++
				if row["active"] != active {
					t.Errorf("coin %v became %v", c, row)
				}
			}
		}
	}
	if seen != len(coins) || len(assets) < seen {
		t.Errorf("%d assets from %d coins", len(assets), seen)
	}

	quotes := map[string]map[string]any{}
	for _, row := range providertest.NDJSON(t, files, source.QuotesFile) {
		quotes[row["key"].(string)] = row
	}
	priced := 0
	for _, c := range tickers {
		c := c.(map[string]any)
		usd := c["quotes"].(map[string]any)["USD"].(map[string]any)
		row, ok := quotes[c["id"].(string)]
		if usd["price"] == nil {
			if ok {
				t.Errorf("%v has a quote and no price", c["id"])
			}
			continue
		}
		priced++
		if row["price"] != usd["price"] || row["market_cap"] != usd["market_cap"] || row["volume"] != usd["volume_24h"] {
			t.Errorf("ticker %v became %v", c, row)
		}
	}
	if priced != len(quotes) {
		t.Errorf("%d quotes from %d prices", len(quotes), priced)
	}

	exchanges := providertest.NDJSON(t, files, source.ExchangesFile)
	for i, e := range raw("exchanges") {
		e, row := e.(map[string]any), exchanges[i]
		if row["key"] != e["id"] || row["slug"] != e["id"] || row["name"] != e["name"] {
			t.Fatalf("exchange %v became %v", e, row)
		}
		market, has := row["market"].(map[string]any)
		if has == (e["markets_data_fetched"] == false) {
			t.Errorf("exchange %v: market %v", e["id"], market)
		}
		usd := e["quotes"].(map[string]any)["USD"].(map[string]any)
		if has && (market["volume_24h"] != usd["reported_volume_24h"] || market["markets_count"] != e["markets"] ||
			market["coins_count"] != e["currencies"] || market["data_time"] != e["last_updated"]) {
			t.Errorf("exchange %v became %v", e, row)
		}
		for kind, urls := range mapOf(e["links"]) {
			if list, ok := urls.([]any); ok && len(list) > 0 && row["links"].(map[string]any)[kind] != list[0] {
				t.Errorf("exchange %v: links %v", e, row["links"])
			}
		}
	}

	categories := providertest.NDJSON(t, files, source.CategoriesFile)
	for i, tag := range raw("tags") {
		tag, row := tag.(map[string]any), categories[i]
		if row["key"] != tag["id"] || row["slug"] != tag["id"] || row["name"] != tag["name"] || fmt.Sprint(row["members"]) != fmt.Sprint(tag["coins"]) {
			t.Errorf("tag %v became %v", tag, row)
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

func mapOf(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// TestDigits: whatever a provider writes for a number is in the feed as it was
// written, and becomes the number that it is, to the last digit that the field
// takes; what is none, or too long, sets the row aside.
func TestDigits(t *testing.T) {
	providertest.Digits(t, func(price, marketCap, volume string) provider.Market {
		return &market{tickers: provider.Rows(fmt.Appendf(nil, `[{"id":"a-a","name":"A","symbol":"A","quotes":{"USD":{"price":%s,"market_cap":%s,"volume_24h":%s}}}]`, price, marketCap, volume))}
	})
}

// FuzzRows: no answer that passes for one makes anything panic or fail, and no
// row gets lost: each is accepted, set aside, or has no price.
func FuzzRows(f *testing.F) {
	files := []string{"tickers", "coins", "exchanges", "tags", "contracts", "contracts/eth-ethereum", "coins/btc-bitcoin"}
	odd := []string{
		`[null,5,"x",[],{}]`, `[{"id":"a","name":null,"quotes":{"USD":{"price":1e-9999}},"links":[[]],"coins":{},"logo":7}]`,
		`[{"id":"\ud800"}]`, "[{\"id\":\"\xff\"}]", `[]`, `{"links":{"website":{}},"whitepaper":[],"logo":null}`,
	}
	providertest.FuzzRows(f, files, odd, func(t *testing.T, answers [][]byte) {
		m := &market{
			tickers: provider.Rows(answers[0]), coins: provider.Rows(answers[1]), exchanges: provider.Rows(answers[2]),
			tags: provider.Rows(answers[3]), platforms: provider.Rows(answers[4]), contracts: map[string]*provider.Answer{}, details: map[string]*provider.Answer{},
		}
		for _, id := range platformsOf(m.platforms) {
			m.contracts[id] = providertest.Answer(answers[5])
		}
		for _, id := range byRank(m.tickers) {
			m.details[id] = providertest.Answer(reduceDetail(answers[6]))
		}
		feed := provider.NewFeed(name, time.Unix(1, 0), nil)
		m.Write(feed)
		if feed.Exchanges.Rows() != len(m.exchanges) || feed.Categories.Rows() != len(m.tags) || feed.Chains.Rows() != len(m.platforms) ||
			feed.Assets.Rows() < len(m.coins) || feed.Quotes.Rows() > len(m.tickers) {
			t.Error("rows got lost, or came from nowhere")
		}
		providertest.CheckRead(t, feed)
	})
}

func TestNastyRows(t *testing.T) {
	const (
		usd  = `{"USD":{"price":1,"volume_24h":1,"market_cap":1}}`
		good = `{"id":"a","name":"A","symbol":"A","rank":1,"quotes":` + usd + `}`
		one  = "1000000000000000000"
	)
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	providertest.NastyRows(t, [][]string{
		{good, one},
		{with(`"price":1,`, ``), ""},
		{with(`"USD"`, `"EUR"`), ""},
		{with(usd, `null`), ""},
		{with(usd, `[]`), ""},
		{with(`"price":1`, `"price":{}`), "", "price: "},
		{with(`"volume_24h":1`, `"volume_24h":""`), one},
		{with(`"price":1`, `"price":""`), ""},
		{with(`"id":"a"`, `"id":null`), "", "key: missing"},
		{with(`"id":"a"`, `"id":7`), ""}, // another coin
		{with(`"id":"a"`, `"id":"\ud800"`), "", "not JSON"},
		{with(`"rank":1`, `"rank":"first"`), one},
		{with(`"rank":1`, `"rank":-1e9`), one},
		{"null", "", "not a JSON object"},
		{"[]", "", "not a JSON object"},
		{`"a"`, "", "not a JSON object"},
		{"{}", "", "key: missing"},
		{good + "," + good, one, "key: seen before in this file"},
	}, func(row string) provider.Market {
		m := &market{
			tickers: provider.Rows([]byte(`[{"id":"b","name":"B","symbol":"B","rank":2,"quotes":{"USD":{"price":2}}},` + row + `]`)),
			coins:   provider.Rows([]byte(`[{"id":"a","name":"A","symbol":"A","is_active":true},{"id":"b","name":"B","symbol":"B","is_active":false}]`)),
		}
		byRank(m.tickers)
		return m
	})
}
