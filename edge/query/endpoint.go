package query

import "example.com/marketdata/artifacts"

// Endpoint is one of the listings of the interface. Its zero value is
// Assets.
type Endpoint uint8

// The endpoints, in the order of INTERFACE.md.
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

	// Endpoints is how many there are.
	Endpoints = iota
)

// Name returns the last element of the endpoint's path, which is also the name
// of its collection in a manifest; that of history is the assets', as
// are those of candles and prices. Changes have one for each day.
func (e Endpoint) Name() string { return endpoints[e].name }

// OfThePast reports an endpoint whose items are of assets that the request names, and of their past.
func (e Endpoint) OfThePast() bool { return e == History || e == Candles || e == Prices }

// HasCSV reports an endpoint whose answers are also tables (INTERFACE.md, "CSV").
func (e Endpoint) HasCSV() bool { return e == Markets || e.OfThePast() }

// EndpointNamed returns the endpoint with that name.
func EndpointNamed(name []byte) (Endpoint, bool) {
	for e := range endpoints {
		if string(name) == endpoints[e].name {
			return Endpoint(e), true
		}
	}
	return 0, false
}

// String is Name.
func (e Endpoint) String() string { return e.Name() }

// Sort is a key that rows are sorted by. Its zero value is SortID.
type Sort uint8

// The sort keys of all endpoints, in the order of sortNames. Those by text stand between SortName
// and SortSlug (ByText). Trending and Search have one of their own each, and
// Markets two for the members of groups, which cannot be asked for.
const (
	SortID Sort = iota
	SortName
	SortSymbol
	SortSlug
	SortRank
	SortVolume // of an exchange, "volume"
	SortMarketCap
	SortVolume24h // of a group, "volume_24h"
	SortBoard
	SortWord
	SortPrice
	SortChange1h
	SortChange24h
	SortChange7d
	SortChange30d
	SortCategory
	SortChain

	// Sorts is how many there are.
	Sorts = iota
)

var sortNames = [Sorts]string{"id", "name", "symbol", "slug", "rank", "volume", "market_cap", "volume_24h", "board",
	artifacts.SearchSort, "price", "percent_change.1h", "percent_change.24h", "percent_change.7d", "percent_change.30d",
	artifacts.GroupSorts[0].Sort, artifacts.GroupSorts[1].Sort}

// Name returns the key as it stands in a request, which is also the name of
// the view's order in a manifest.
func (s Sort) Name() string { return sortNames[s] }

// ByText reports whether the order is that of a text.
func (s Sort) ByText() bool { return s >= SortName && s <= SortSlug }

// figure reports whether the order is that of a figure of a quote, which descends in /markets unless a
// request says otherwise (INTERFACE.md, "Markets").
func (s Sort) figure() bool {
	return s == SortVolume || s == SortMarketCap || s >= SortPrice && s <= SortChange30d
}

// String is Name.
func (s Sort) String() string { return s.Name() }

// SortKeys returns the keys that the endpoint's sort parameter takes. The
// caller must not change them.
func (e Endpoint) SortKeys() []Sort { return endpoints[e].sorts }

var endpoints = [Endpoints]struct {
	name    string
	reads   paramSet
	sorts   []Sort
	sort    Sort // when none is asked for
	desc    bool
	errSort *ParamError
	// field is what fields may add.
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

// readsList are the parameters that every listing with pages reads, in one of
// its paging modes at least.
var readsList = setOf(paramID, paramSlug, paramPage, paramSize, paramLimit, paramOffset, paramSort)

var groupSorts = []Sort{SortID, SortName, SortSlug, SortMarketCap, SortVolume24h}

const groupSortNames = "id, name, slug, market_cap or volume_24h"
