package gecko

import (
	"bytes"
	_ "embed"
)

// Prefix begins the path of every endpoint.
const Prefix = "/api/v3/"

// Document describes the endpoints, in OpenAPI 3.0: the published names and types, without what is
// not supported.
//
//go:embed openapi.json
var Document []byte

// Ping is the answer to /ping, which needs no snapshot.
const Ping = `{"gecko_says":"(V3) To the Moon!"}`

// Endpoint is one of the paths below Prefix.
type Endpoint uint8

// The endpoints, in the order of endpoints.
const (
	SimplePrice Endpoint = iota
	TokenPrice
	Currencies
	CoinsList
	Markets
	CategoriesList
	Categories
	Coin
	Chart
	ChartRange
	Past
	Contract
	ContractChart
	ContractRange
	ExchangeRates
	AssetPlatforms
	ExchangesList
	Exchanges
	Trending
	Search
	Global

	// Endpoints is how many there are.
	Endpoints = iota
)

// The kinds of elements of a path that are not the same in every request.
const (
	anyCoin     = "{id}"
	anyPlatform = "{platform}"
	anyAddress  = "{address}"
)

// endpoints are the paths, a more special one before one that covers it.
var endpoints = [Endpoints]struct {
	name     string // in metrics and logs
	path     []string
	reads    paramSet
	requires param
	whole    bool // it has a whole collection
}{
	SimplePrice: {"coingecko_simple_price", split("simple/price"), readsPrice | setOf(ids, names, symbols, tokens),
		currencies, false},
	TokenPrice: {"coingecko_simple_token_price", split("simple/token_price/" + anyPlatform),
		readsPrice | setOf(addresses), addresses, false},
	Currencies: {"coingecko_simple_supported_vs_currencies", split("simple/supported_vs_currencies"), 0, none, false},
	CoinsList:  {"coingecko_coins_list", split("coins/list"), setOf(platforms), none, true},
	Markets: {"coingecko_coins_markets", split("coins/markets"), setOf(currency, ids, names, symbols, tokens, category,
		order, perPage, page, sparkline, changes, precision), currency, false},
	CategoriesList: {"coingecko_coins_categories_list", split("coins/categories/list"), 0, none, true},
	Categories:     {"coingecko_coins_categories", split("coins/categories"), setOf(order), none, true},
	Coin: {"coingecko_coins_id", split("coins/" + anyCoin), setOf(marketData, sparkline, details), none,
		false},
	Chart: {"coingecko_coins_id_market_chart", split("coins/" + anyCoin + "/market_chart"),
		setOf(currency, days, interval, precision), days, false},
	ChartRange: {"coingecko_coins_id_market_chart_range", split("coins/" + anyCoin + "/market_chart/range"),
		setOf(currency, from, to, interval, precision), from, false},
	Past: {"coingecko_coins_id_history", split("coins/" + anyCoin + "/history"), setOf(date), date, false},
	Contract: {"coingecko_coins_contract", split("coins/" + anyPlatform + "/contract/" + anyAddress),
		setOf(marketData, sparkline, details), none, false},
	ContractChart: {"coingecko_coins_contract_market_chart",
		split("coins/" + anyPlatform + "/contract/" + anyAddress + "/market_chart"),
		setOf(currency, days, interval, precision), days, false},
	ContractRange: {"coingecko_coins_contract_market_chart_range",
		split("coins/" + anyPlatform + "/contract/" + anyAddress + "/market_chart/range"),
		setOf(currency, from, to, interval, precision), from, false},
	ExchangeRates:  {"coingecko_exchange_rates", split("exchange_rates"), 0, none, false},
	AssetPlatforms: {"coingecko_asset_platforms", split("asset_platforms"), 0, none, true},
	ExchangesList:  {"coingecko_exchanges_list", split("exchanges/list"), 0, none, true},
	Exchanges:      {"coingecko_exchanges", split("exchanges"), setOf(perPage, page), none, false},
	Trending:       {"coingecko_search_trending", split("search/trending"), 0, none, false},
	Search:         {"coingecko_search", split("search"), setOf(text), text, false},
	Global:         {"coingecko_global", split("global"), 0, none, false},
}

var readsPrice = setOf(currencies, withCap, withVolume, withChange, withTime, precision)

func split(path string) (elements []string) {
	for _, e := range bytes.Split([]byte(path), slash) {
		elements = append(elements, string(e))
	}
	return elements
}

// Name returns the endpoint's name in metrics and logs.
func (e Endpoint) Name() string { return endpoints[e].name }

var slash = []byte{'/'}

// maxElements is how many elements a path has at most.
const maxElements = 6

// elementsOf returns the elements of a path below Prefix, as sent; more than maxElements are cut. A
// final slash does not count: pycoingecko sends one behind a coin.
func elementsOf(path []byte) (elements [maxElements + 1][]byte, n int) {
	path = bytes.TrimSuffix(path, slash)
	for more := true; more && n <= maxElements; n++ {
		elements[n], path, more = bytes.Cut(path, slash)
	}
	return elements, n
}

// EndpointAt returns the endpoint at a path below Prefix, compared byte by byte as sent.
func EndpointAt(path []byte) (Endpoint, bool) {
	elements, n := elementsOf(path)
	for e := range endpoints {
		want := endpoints[e].path
		same := len(want) == n
		for i := 0; same && i < n; i++ {
			same = string(elements[i]) == want[i] || want[i][0] == '{' && len(elements[i]) > 0
		}
		if same {
			return Endpoint(e), true
		}
	}
	return 0, false
}
