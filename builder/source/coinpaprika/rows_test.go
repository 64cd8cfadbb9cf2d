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
	if len(feed.Assets) != 7 || len(feed.Quotes) != 5 || len(feed.Exchanges) != 3 || len(feed.Categories) != 3 ||
		len(feed.Chains) != 4 {
		t.Errorf("not all rows were accepted: %+v", report)
	}
	if report.UnknownMembers != 1 || len(report.Parts) != 7 {
		t.Errorf("report %+v", report)
	}
}

// TestRecorded compares the feed of recorded answers with them, digit by digit.
func TestRecorded(t *testing.T) {
	dir := providertest.Recorded(t, "recorded/coinpaprika-2019")
	files := providertest.Files(t, openTest(t, "?replay="+dir))
	for _, c := range []struct {
		answer, file, needed string
		fields               map[string]string
	}{
		{"coins", source.AssetsFile, "", map[string]string{
			"name": "name", "symbol": "symbol", "slug": "id", "active": "is_active",
		}},
		{"tickers", source.QuotesFile, "quotes.USD.price", map[string]string{
			"price": "quotes.USD.price", "market_cap": "quotes.USD.market_cap", "volume": "quotes.USD.volume_24h",
		}},
		{"exchanges", source.ExchangesFile, "", map[string]string{"name": "name", "slug": "id"}},
		{"tags", source.CategoriesFile, "", map[string]string{"name": "name", "slug": "id", "members": "coins"}},
	} {
		names, err := filepath.Glob(filepath.Join(dir, c.answer+"*.json"))
		if err != nil || len(names) != 1 {
			t.Fatalf("%s: %v, %v", c.answer, names, err)
		}
		b, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		providertest.SameValues(t, files, c.file, providertest.Rows(t, b), c.needed, c.fields)
	}
	providertest.AllAccepted(t, files)
}

// TestDigits: whatever a provider writes for a number is in the feed as it was
// written, and becomes the number that it is, to the last digit that the field
// takes; what is none, or too long, sets the row aside.
func TestDigits(t *testing.T) {
	providertest.Digits(t, func(price, marketCap, volume string) provider.Market {
		return &market{
			tickers: provider.Rows(fmt.Appendf(nil,
				`[{"id":"a-a","name":"A","symbol":"A","quotes":{"USD":{"price":%s,"market_cap":%s,"volume_24h":%s}}}]`,
				price, marketCap, volume)),
		}
	})
}

// FuzzRows: no answer that passes for one makes anything panic or fail, and no
// row gets lost: each is accepted, set aside, or has no price.
func FuzzRows(f *testing.F) {
	files := []string{
		"tickers", "coins", "exchanges", "tags", "contracts", "contracts/eth-ethereum", "coins/btc-bitcoin",
	}
	odd := []string{
		`[null,5,"x",[],{}]`,
		`[{"id":"a","name":null,"quotes":{"USD":{"price":1e-9999}},"links":[[]],"coins":{},"logo":7}]`,
		`[{"id":"\ud800"}]`, "[{\"id\":\"\xff\"}]", `[]`, `{"links":{"website":{}},"whitepaper":[],"logo":null}`,
	}
	providertest.FuzzRows(f, files, odd, func(t *testing.T, answers [][]byte) {
		m := &market{
			tickers: provider.Rows(answers[0]), coins: provider.Rows(answers[1]), exchanges: provider.Rows(answers[2]),
			tags: provider.Rows(answers[3]), platforms: provider.Rows(answers[4]),
			contracts: map[string]*provider.Answer{}, details: map[string]*provider.Answer{},
		}
		for _, id := range platformsOf(m.platforms) {
			m.contracts[id] = providertest.Answer(answers[5])
		}
		for _, id := range byRank(m.tickers) {
			m.details[id] = providertest.Answer(reduceDetail(answers[6]))
		}
		feed := provider.NewFeed(name, time.Unix(1, 0), nil)
		m.Write(feed)
		if feed.Exchanges.Rows() != len(m.exchanges) || feed.Categories.Rows() != len(m.tags) ||
			feed.Chains.Rows() != len(m.platforms) ||
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
			tickers: provider.Rows([]byte(`[{"id":"b","name":"B","symbol":"B","rank":2,"quotes":{"USD":{"price":2}}},` +
				row + `]`)),
			coins: provider.Rows([]byte(`[{"id":"a","name":"A","symbol":"A","is_active":true},{"id":"b","name":"B","symbol":"B","is_active":false}]`)),
		}
		byRank(m.tickers)
		return m
	})
}
