package query

import "example.com/marketdata/artifacts"

// Endpoint is an endpoint of the API that returns data. The zero value is Assets.
type Endpoint uint8

// The endpoints, in the same order as in INTERFACE.md.
const (
	Assets Endpoint = iota
	Quotes
	Markets
	Trending
	Exchanges
	Global
	Categories
	Chains
	History
	Search
	Candles
	Prices
	Changes

	// Endpoints is the number of endpoints.
	Endpoints = iota
)

// Name returns the last element of the endpoint's path. For most endpoints it is also the name of the
// collection in a manifest. History, candles and prices use the collection of assets, and changes use
// one collection per day.
func (e Endpoint) Name() string { return endpoints[e].name }

// OfThePast reports whether the endpoint returns past data of the assets that the request names.
func (e Endpoint) OfThePast() bool { return e == History || e == Candles || e == Prices }

// HasCSV reports whether the endpoint also returns tables (INTERFACE.md, "CSV").
func (e Endpoint) HasCSV() bool { return e == Markets || e.OfThePast() }

// EndpointNamed returns the endpoint with a name.
func EndpointNamed(name []byte) (Endpoint, bool) {
	for e := range endpoints {
		if string(name) == endpoints[e].name {
			return Endpoint(e), true
		}
	}
	return 0, false
}

// String returns the endpoint's name.
func (e Endpoint) String() string { return e.Name() }

// Sort is a sort key. The zero value is SortID.
type Sort uint8

// The sort keys of all endpoints, in the order of sortNames. The keys from SortName to SortSlug are strings
// (see ByText). SortBoard and SortWord are the only orders of Trending and Search. SortCategory and SortChain
// are the orders of group members in Markets; requests cannot select these four keys.
const (
	SortID Sort = iota
	SortName
	SortSymbol
	SortSlug
	SortRank
	SortVolume // the volume of a quote, or of an exchange
	SortMarketCap
	SortVolume24h // the volume of a category or chain
	SortBoard
	SortWord
	SortPrice
	SortChange1h
	SortChange24h
	SortChange7d
	SortChange30d
	SortCategory
	SortChain

	// Sorts is the number of sort keys.
	Sorts = iota
)

var sortNames = [Sorts]string{"id", "name", "symbol", "slug", "rank", "volume", "market_cap", "volume_24h", "board",
	artifacts.SearchSort, "price", "percent_change.1h", "percent_change.24h", "percent_change.7d", "percent_change.30d",
	artifacts.GroupSorts[0].Sort, artifacts.GroupSorts[1].Sort}

// Name returns the key's name in requests. It is also the name of the view's order in a manifest.
func (s Sort) Name() string { return sortNames[s] }

// ByText reports whether the key is a string.
func (s Sort) ByText() bool { return s >= SortName && s <= SortSlug }

// figure reports whether the key is a number of a quote. In /markets, such keys sort in descending order
// unless the request states the direction (INTERFACE.md, "Markets").
func (s Sort) figure() bool {
	return s == SortVolume || s == SortMarketCap || s >= SortPrice && s <= SortChange30d
}

// String returns the name of the key.
func (s Sort) String() string { return s.Name() }

// SortKeys returns the keys that the endpoint's "sort" parameter accepts. The caller must not change the slice.
func (e Endpoint) SortKeys() []Sort { return endpoints[e].sorts }

var endpoints = [Endpoints]struct {
	name    string
	reads   paramSet
	sorts   []Sort
	sort    Sort // the default
	desc    bool
	errSort *ParamError
	// field is the optional field that the "fields" parameter can add.
	field     string
	errFields *ParamError
}{
	Assets: {name: "assets", reads: readsList | setOf(paramSymbol, paramFields),
		sorts:   []Sort{SortID, SortName, SortSymbol, SortSlug, SortRank},
		errSort: sortError("id, name, symbol, slug or rank"), field: "links", errFields: errLinksCount},
	Quotes: {name: "quotes", reads: readsList | setOf(paramSymbol),
		sorts:   []Sort{SortID, SortName, SortSymbol, SortSlug},
		errSort: sortError("id, name, symbol or slug")},
	Trending: {name: "trending", reads: setOf(paramBy)},
	Exchanges: {name: "exchanges", reads: readsList, sorts: []Sort{SortID, SortName, SortSlug, SortVolume},
		errSort: sortError("id, name, slug or volume")},
	Global: {name: "global"},
	Categories: {name: "categories", reads: readsList, sorts: groupSorts, sort: SortMarketCap, desc: true,
		errSort: sortError(groupSortNames)},
	Chains: {name: "chains", reads: readsList, sorts: groupSorts, sort: SortMarketCap, desc: true,
		errSort: sortError(groupSortNames)},
	History: {name: "history", reads: readsList&^setOf(paramSort) | setOf(paramSymbol, paramWindow)},
	Search:  {name: artifacts.SearchCollection, reads: setOf(paramQ)},
	Candles: {name: "candles", reads: readsList&^setOf(paramSort) |
		setOf(paramSymbol, paramInterval, paramFrom, paramTo)},
	Prices: {name: "prices", reads: readsList&^setOf(paramSort) | setOf(paramSymbol, paramTime)},
	Changes: {name: "changes", reads: setOf(paramPage, paramSize, paramLimit, paramOffset,
		paramSince, paramCollection, paramKind)},
	Markets: {name: artifacts.MarketsCollection,
		reads: readsList | setOf(paramSymbol, paramCategory, paramChain, paramFields),
		sorts: []Sort{SortRank, SortMarketCap, SortVolume, SortPrice, SortChange1h, SortChange24h, SortChange7d,
			SortChange30d, SortID, SortName, SortSymbol, SortSlug},
		sort: SortRank,
		errSort: sortError("rank, market_cap, volume, price, percent_change.1h, percent_change.24h, percent_change.7d, " +
			"percent_change.30d, id, name, symbol or slug"), field: "groups", errFields: errGroupsCount},
}

// readsList contains the parameters of every listing with pages. Some of them are read in only one of
// the two paging modes.
var readsList = setOf(paramID, paramSlug, paramPage, paramSize, paramLimit, paramOffset, paramSort)

var groupSorts = []Sort{SortID, SortName, SortSlug, SortMarketCap, SortVolume24h}

const groupSortNames = "id, name, slug, market_cap or volume_24h"
