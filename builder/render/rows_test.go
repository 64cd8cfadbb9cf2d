package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/must"
	"github.com/holiman/uint256"
	"pgregory.net/rapid"
)

// TestString compares the escaping with the model, and checks that a JSON parser restores the
// string.
func TestString(t *testing.T) {
	check := func(s string) error {
		got := string(artifacts.AppendString(nil, s))
		var back string
		if err := json.Unmarshal([]byte(got), &back); err != nil || back != s {
			return fmt.Errorf("%q is written as %s, read as %q, %v", s, got, back, err)
		}
		if want := model.Quote(s); got != want {
			return fmt.Errorf("%q is written as %s, want %s", s, got, want)
		}
		return nil
	}
	for _, s := range []string{"", "plain", "\"", `\`, "\x00\x01\x1f\x7f", "\b\f\n\r\t\v", "</script>&<>",
		"\u2028\u2029", "Ünïcödé 漢字 🚀", "a\"b\\c\nd", "\ufeff"} {
		if err := check(s); err != nil {
			t.Error(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Filter(utf8.ValidString).Draw(t, "s")
		ok(t, check(s))
	})
}

func price(t *testing.T, s string) market.U128 {
	t.Helper()
	return must.Get(market.ParseDecimal([]byte(s), market.PriceDecimals, market.PriceIntDigits))(t)
}

func sum(t *testing.T, s string) market.U128 {
	t.Helper()
	return must.Get(market.ParseDecimal([]byte(s), market.MoneyDecimals, market.MoneyIntDigits))(t)
}

func wide(u market.U128) uint256.Int { return uint256.Int{u.Lo, u.Hi} }

func ptr[T any](v T) *T { return &v }

// golden is a snapshot with one row of every kind of each collection.
func golden(t *testing.T) (*market.Feed, *market.Result) {
	at := time.Date(2026, 11, 21, 7, 20, 0, 0, time.UTC)
	f := &market.Feed{
		Assets: []market.Asset{
			{ID: 1, Name: "Bit \"coin\"", Symbol: "BTC", Slug: "bitcoin", Logo: "https://l/1.png",
				Explorers: []string{"https://a", "https://b"}, Website: "https://w", Whitepaper: "https://p",
				Active: true, Platforms: []market.Platform{
					{ID: "chain", Name: "Chain", Address: "0xab"}, {ID: "z", Name: "Z!", Address: "\"x"}}},
			{ID: 9007199254740991, Name: "Étoile", Symbol: "é", Slug: "r&d(x)", Active: true,
				Platforms: []market.Platform{
					{ID: "a-b", Name: "a.b", Address: "y"}, {ID: "z", Name: "z", Address: "x"}}},
		},
		Quotes: []market.Quote{
			{Asset: 0, Price: price(t, "64250.12"), MarketCap: sum(t, "1265000000000.5"), Volume: sum(t, "0"),
				Supplies: [3]market.U128{sum(t, "19700000.5"), {}, sum(t, "21e6")}},
			{Asset: 1, Price: price(t, "1e-18")},
		},
		Exchanges: []market.Exchange{
			{ID: 3, Name: "Bare", Slug: "bare"},
			{ID: 4, Name: "Full", Slug: "full", Logo: "L", Links: [6]string{"w", "", "t", "", "f", "c"},
				Maker: sum(t, "0.1"), Taker: sum(t, "0.25"),
				Market: &market.ExchangeMarket{Volume: ptr(sum(t, "12.5")), MarketsCount: ptr(uint64(7)),
					DataTime: ptr(at.Add(-time.Second))}},
			{ID: 5, Name: "Null", Slug: "null", Market: &market.ExchangeMarket{CoinsCount: ptr(uint64(0))}},
		},
		Categories: []market.Group{{ID: 6, Name: "Group", Slug: "group", Active: true, Members: []int{0, 1}}},
		Rates:      []market.Rate{{Code: "eur", Name: "Euro", Unit: "€", Type: "fiat", USD: price(t, "1.08")}},
		Chains: []market.Group{
			{ID: 7, Name: "Chain", DisplayName: "The Chain", Slug: "chain", EVMChainID: ptr(uint64(0)), Native: 0,
				Active: true},
			{ID: 8, Name: "Other", DisplayName: "Other", Slug: "other", Native: -1, Active: true},
			{ID: 9, Name: "Unlisted", DisplayName: "U", Slug: "(A)B", Native: 1}, // platform a-b: same words
			{ID: 10, Name: "Higher", Slug: "a_b", Native: -1},
		},
	}
	r := &market.Result{
		T: at, Rank: []uint32{1, 0}, QuoteOf: []int32{0, 1}, ByID: map[uint64]int32{1: 0, 9007199254740991: 1},
		Trending:  []int32{0},
		Change24h: make([]market.Percent, 2),
	}
	for w := range r.Bases {
		r.Bases[w] = make([]market.U128, 2)
		r.Bases[w][0] = price(t, fmt.Sprint(50000+10000*(w%3)))
		r.Ages[w] = []uint16{uint16(market.WindowLengths[w] / artifacts.Step), 0}
	}
	r.Ages[3] = []uint16{129, 130} // nine tenths of 24 hours is 129.6 steps
	r.Change24h[0] = market.PercentChange(f.Quotes[0].Price, r.Bases[3][0])
	cap := wide(sum(t, "1265000000000.5"))
	r.Categories = []market.ListedGroup{{Group: 0,
		Market: market.GroupMarket{Time: at, MarketCap: cap, Coins: 2, Share: 1_000_000_000_000,
			TopGainers: []uint64{1, 77, 9007199254740991}}}}
	r.Chains = []market.ListedGroup{
		{Group: 0, Market: market.GroupMarket{Time: at.Add(-time.Hour), MarketCap: cap, Volume: cap, Coins: 1,
			Share: 1}},
		{Group: 1, Market: market.GroupMarket{Time: at}},
	}
	return f, r
}

// TestRows compares every kind of row, byte by byte, with the form that INTERFACE.md, "Envelope",
// and the tables after it require.
func TestRows(t *testing.T) {
	tables := slices.Collect(Tables(golden(t)))
	const (
		bitcoin = `"name":"Bit \"coin\"","symbol":"BTC","slug":"bitcoin","logo":"https://l/1.png"`
		etoile  = `"name":"Étoile","symbol":"é","slug":"r&d(x)","logo":""`
		quote   = `{"id":1,` + bitcoin +
			`,"price":"64250.12","market_cap":"1265000000000.5","volume":"0","percent_change":{"1h":"28.50024","6h":"7.083533333333","12h":"-8.214114285714","24h":"28.50024","7d":"7.083533333333","30d":"-8.214114285714","90d":"28.50024","1y":"7.083533333333"}}`
	)
	for collection, want := range map[string][]string{
		"assets": {
			`{"id":1,"rank":1,` + bitcoin +
				`,"explorers":["https://a","https://b"],"links":{"website":"https://w","whitepaper":"https://p"}}`,
			`{"id":9007199254740991,` + etoile + `,"explorers":[],"links":{"website":"","whitepaper":""}}`,
		},
		"quotes": {
			quote,
			`{"id":9007199254740991,` + etoile +
				`,"price":"0.000000000000000001","market_cap":null,"volume":"0","percent_change":{"1h":"0","6h":"0","12h":"0","24h":"0","7d":"0","30d":"0","90d":"0","1y":"0"},"since":"2026-11-21T07:20:00Z"}`,
		},
		"exchanges": {
			`{"id":3,"name":"Bare","slug":"bare","logo":"","links":{"website":"","twitter":"","telegram":"","reddit":"","facebook":"","chat":""},"fees":{"maker":"0","taker":"0"},"market":null}`,
			`{"id":4,"name":"Full","slug":"full","logo":"L","links":{"website":"w","twitter":"","telegram":"t","reddit":"","facebook":"f","chat":"c"},"fees":{"maker":"0.1","taker":"0.25"},"market":{"volume_24h":"12.5","markets_count":7,"coins_count":null,"data_time":"2026-11-21T07:19:59Z"}}`,
			`{"id":5,"name":"Null","slug":"null","logo":"","links":{"website":"","twitter":"","telegram":"","reddit":"","facebook":"","chat":""},"fees":{"maker":"0","taker":"0"},"market":{"volume_24h":null,"markets_count":null,"coins_count":0,"data_time":null}}`,
		},
		"categories": {
			`{"id":6,"name":"Group","slug":"group","market":{"market_cap":"1265000000000.5","volume_24h":"0","coins_count":2,"market_cap_share":"1","snapshot_time":"2026-11-21T07:20:00Z","top_gainers":[` +
				`{"id":1,"symbol":"BTC","name":"Bit \"coin\"","slug":"bitcoin","logo":"https://l/1.png"},{"id":9007199254740991,"symbol":"é","name":"Étoile","slug":"r&d(x)","logo":""}]}}`,
		},
		"chains": {
			`{"id":7,"name":"Chain","display_name":"The Chain","slug":"chain","evm_chain_id":0,"logo":"https://l/1.png","market":{"market_cap":"1265000000000.5","volume_24h":"1265000000000.5","coins_count":1,"market_cap_share":"0.000000000001","snapshot_time":"2026-11-21T06:20:00Z","top_gainers":[]}}`,
			`{"id":8,"name":"Other","display_name":"Other","slug":"other","evm_chain_id":null,"logo":"","market":{"market_cap":"0","volume_24h":"0","coins_count":0,"market_cap_share":"0","snapshot_time":"2026-11-21T07:20:00Z","top_gainers":[]}}`,
		},
		"trending": {quote},
		"coins": {
			`{"id":1,"item":{"id":"bitcoin","symbol":"btc","name":"Bit \"coin\""},"platforms":{"chain":"0xab","z":"\"x"}}`,
			`{"id":9007199254740991,"item":{"id":"r&d(x)","symbol":"é","name":"Étoile"},"platforms":{"(A)B":"y","z":"x"}}`,
		},
		"contracts": {`{"id":1}`, `{"id":1}`, `{"id":9007199254740991}`, `{"id":9007199254740991}`},
		"platforms": {
			`{"id":1,"item":{"id":"(A)B","chain_identifier":null,"name":"Unlisted","shortname":"U","native_coin_id":"r&d(x)","image":{"thumb":"","small":"","large":""}}}`,
			`{"id":2,"item":{"id":"chain","chain_identifier":0,"name":"Chain","shortname":"The Chain","native_coin_id":"bitcoin","image":{"thumb":"https://l/1.png","small":"https://l/1.png","large":"https://l/1.png"}}}`,
			`{"id":3,"item":{"id":"other","chain_identifier":null,"name":"Other","shortname":"Other","native_coin_id":null,"image":{"thumb":"","small":"","large":""}}}`,
			`{"id":4,"item":{"id":"z","chain_identifier":null,"name":"Z!","shortname":"","native_coin_id":null,"image":{"thumb":"","small":"","large":""}}}`,
		},
		"figures": {
			`{"id":1,"figures":["14250.12","19700000.5",null,"21000000"],"covered":247}`,
			`{"id":9007199254740991,"figures":["0",null,null,null],"covered":8}`,
		},
		"rates": {
			`{"id":1,"code":"eur","name":"Euro","unit":"€","type":"fiat","usd":"1.08","asset":1}`,
			`{"id":2,"code":"usd","name":"US Dollar","unit":"$","type":"fiat","usd":"1"}`,
		},
		"leaders": {`{"id":6,"top_3_coins_id":["bitcoin"],"top_3_coins":["https://l/1.png"]}`},
	} {
		for _, table := range tables {
			if table.Collection != collection {
				continue
			}
			if len(table.Rows) != len(want) {
				t.Errorf("%s: %d rows, want %d", collection, len(table.Rows), len(want))
				continue
			}
			for i, row := range table.Rows {
				got := string(row)
				if table.Tails != nil {
					got = got[:len(got)-1] + string(table.Tails[i])
				}
				if got != want[i] {
					t.Errorf("%s %d:\n got %s\nwant %s", collection, i, got, want[i])
				}
			}
		}
	}
}

var ok = must.OK
