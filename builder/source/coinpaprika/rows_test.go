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
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/providertest"
)

func openTest(t testing.TB, rest string) *provider.Source {
	t.Helper()
	return providertest.Open(t, Open, nil, rest)
}

// TestSample uses testdata/sample, which was made by hand in the form of the provider's answers,
// with invented names and numbers. It has the oddities of real answers: literals such as 2e-8,
// market caps of 0, coins without a rank, dead exchanges, links as lists and as single strings, a
// tag without coins, an inactive contract.
func TestSample(t *testing.T) { providertest.WantSample(t, openTest(t, "?replay=testdata/sample")) }

// TestRecorded compares a feed with the recorded answers from which it was made, digit by digit.
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
		b := must.Get(os.ReadFile(names[0]))(t)
		providertest.SameValues(t, files, c.file, providertest.Rows(t, b), c.needed, c.fields)
	}
	providertest.AllAccepted(t, files)
}

// TestDigits checks that numbers are in the feed as the provider wrote them, and are read exactly,
// to the last digit that the field has. A price that is not a number, or too long, sets the row
// aside.
func TestDigits(t *testing.T) {
	providertest.Digits(t, func(price, marketCap, volume string) provider.Market {
		return &market{
			tickers: provider.Rows(fmt.Appendf(nil,
				`[{"id":"a-a","name":"A","symbol":"A","quotes":{"USD":{"price":%s,"market_cap":%s,"volume_24h":%s}}}]`,
				price, marketCap, volume)),
		}
	})
}

// FuzzRows checks that no valid answer causes a panic or a failure, and that no row gets lost: each
// row is accepted, set aside, or has no price.
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
			coins: provider.Rows(
				[]byte(`[{"id":"a","name":"A","symbol":"A","is_active":true},{"id":"b","name":"B","symbol":"B","is_active":false}]`)),
		}
		byRank(m.tickers)
		return m
	})
}
