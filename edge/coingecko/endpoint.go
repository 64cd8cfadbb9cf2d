package coingecko

import (
	"bytes"
	_ "embed"
	"strings"
)

// Prefix is the prefix of every endpoint's path.
const Prefix = "/api/v3/"

// Document describes the endpoints in OpenAPI 3.0. It uses CoinGecko's published names and types, and leaves
// out the unsupported parts.
//
//go:embed openapi.json
var Document []byte

// Ping is the answer to /ping, which needs no snapshot.
const Ping = `{"gecko_says":"(V3) To the Moon!"}`

// Endpoint is an endpoint below Prefix.
type Endpoint uint8

// The endpoints, in the order of the table endpoints.
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
	OHLC
	OHLCRange
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

	// Endpoints is the number of endpoints.
	Endpoints = iota
)

// endpoints describes each endpoint. If two patterns match a path, the more specific one comes first.
var endpoints = [Endpoints]struct {
	path     string // {…} matches any element
	answer   func(*composer)
	reads    paramSet
	requires param
	whole    bool // the answer contains a whole collection
}{
	SimplePrice: {path: "simple/price", answer: (*composer).simplePrice,
		reads: readsPrice | setOf(ids, names, symbols, tokens), requires: currencies},
	TokenPrice: {path: "simple/token_price/{platform}", answer: (*composer).simplePrice,
		reads: readsPrice | setOf(addresses), requires: addresses},
	Currencies: {path: "simple/supported_vs_currencies", answer: (*composer).currencies},
	CoinsList:  {path: "coins/list", answer: (*composer).coinsList, reads: setOf(platforms), whole: true},
	Markets: {path: "coins/markets", answer: (*composer).markets, reads: setOf(currency, ids, names, symbols, tokens,
		category, order, perPage, page, sparkline, changes, precision), requires: currency},
	CategoriesList: {path: "coins/categories/list", answer: (*composer).categories, whole: true},
	Categories:     {path: "coins/categories", answer: (*composer).categories, reads: setOf(order), whole: true},
	Coin:           {path: "coins/{id}", answer: (*composer).coin, reads: readsCoin},
	Chart:          {path: "coins/{id}/market_chart", answer: (*composer).chart, reads: readsChart, requires: days},
	ChartRange: {path: "coins/{id}/market_chart/range", answer: (*composer).chart, reads: readsRange,
		requires: from},
	Past: {path: "coins/{id}/history", answer: (*composer).day, reads: setOf(date), requires: date},
	OHLC: {path: "coins/{id}/ohlc", answer: (*composer).ohlc, reads: readsChart, requires: days},
	OHLCRange: {path: "coins/{id}/ohlc/range", answer: (*composer).ohlc, reads: setOf(currency, from, to, interval),
		requires: from},
	Contract: {path: "coins/{platform}/contract/{address}", answer: (*composer).coin, reads: readsCoin},
	ContractChart: {path: "coins/{platform}/contract/{address}/market_chart", answer: (*composer).chart,
		reads: readsChart, requires: days},
	ContractRange: {path: "coins/{platform}/contract/{address}/market_chart/range", answer: (*composer).chart,
		reads: readsRange, requires: from},
	ExchangeRates:  {path: "exchange_rates", answer: (*composer).exchangeRates},
	AssetPlatforms: {path: "asset_platforms", answer: (*composer).assetPlatforms, whole: true},
	ExchangesList:  {path: "exchanges/list", answer: (*composer).exchangesList, whole: true},
	Exchanges:      {path: "exchanges", answer: (*composer).exchanges, reads: setOf(perPage, page)},
	Trending:       {path: "search/trending", answer: (*composer).trending},
	Search:         {path: "search", answer: (*composer).search, reads: setOf(text), requires: text},
	Global:         {path: "global", answer: (*composer).global},
}

var (
	readsPrice = setOf(currencies, withCap, withVolume, withChange, withTime, precision)
	readsCoin  = setOf(marketData, sparkline, details)
	readsChart = setOf(currency, days, interval, precision)
	readsRange = setOf(currency, from, to, interval, precision)
)

// routes contains the names of the endpoints, such as coingecko_coins_id_history.
var routes = func() (list [Endpoints]string) {
	short := strings.NewReplacer("/{platform}", "", "/{address}", "", "{id}", "id", "/", "_")
	for e := range endpoints {
		list[e] = "coingecko_" + short.Replace(endpoints[e].path)
	}
	return list
}()

// aboutOne reports whether the path of the endpoint names a coin.
func (e Endpoint) aboutOne() bool { return e >= Coin && e <= ContractRange }

// Name returns the endpoint's name in metrics and logs.
func (e Endpoint) Name() string { return routes[e] }

// EndpointAt returns the endpoint at a path below Prefix. It compares paths byte by byte as sent, except that
// it ignores a final slash, which pycoingecko sends after a coin.
func EndpointAt(path []byte) (Endpoint, bool) {
	if _, theirs := match(notACoin, path); theirs {
		return 0, false
	}
	for e := range endpoints {
		if _, ok := match(endpoints[e].path, path); ok {
			return Endpoint(e), true
		}
	}
	return 0, false
}

// notACoin is the path of an endpoint of CoinGecko that this package does not serve. It matches the pattern
// for a coin's path.
const notACoin = "coins/top_gainers_losers"

var slash = []byte{'/'}

// match compares a path with a pattern. It returns the elements of path, as sent, that match {…}.
func match(pattern string, path []byte) (variable [2][]byte, ok bool) {
	path = bytes.TrimSuffix(path, slash)
	from := strings.IndexByte(pattern, '{')
	if from < 0 {
		return variable, string(path) == pattern
	}
	if len(path) < from || string(path[:from]) != pattern[:from] {
		return variable, false
	}
	pattern, path = pattern[from:], path[from:]
	for n, more := 0, true; more; {
		var want string
		var element []byte
		var rest bool
		want, pattern, more = strings.Cut(pattern, "/")
		element, path, rest = bytes.Cut(path, slash)
		switch {
		case rest != more:
			return variable, false
		case want[0] == '{' && len(element) > 0:
			variable[n] = element
			n++
		case string(element) != want:
			return variable, false
		}
	}
	return variable, true
}
