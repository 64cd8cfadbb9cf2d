package marketdata

import "time"

// The queries contain the parameters of the endpoints. A zero value is not sent; an empty non-nil list
// matches nothing. Lists may contain up to 100 values. Page and Size select page mode; Limit and Offset
// select offset mode. At is the time of the snapshot to answer from, such as Answer.SnapshotTime of an
// earlier answer.

// AssetsQuery holds the parameters of Client.Assets.
type AssetsQuery struct {
	ID            []int64
	Slug, Symbol  []string
	Page, Size    int // Size up to 100
	Limit, Offset int
	Sort          string   // "id", "name", "symbol", "slug", "rank", with ":asc" or ":desc"
	Fields        []string // "links"
	At            time.Time
}

// QuotesQuery holds the parameters of Client.Quotes.
type QuotesQuery struct {
	ID            []int64
	Slug, Symbol  []string
	Page, Size    int // Size up to 100
	Limit, Offset int
	Sort          string // "id", "name", "symbol", "slug", with ":asc" or ":desc"
	At            time.Time
}

// MarketsQuery holds the parameters of Client.Markets.
type MarketsQuery struct {
	ID              []int64
	Slug, Symbol    []string
	Category, Chain []string // slugs
	Page, Size      int      // Size up to 100
	Limit, Offset   int
	Sort            string   // "rank", "market_cap:desc", "percent_change.24h:desc", …
	Fields          []string // "groups"
	At              time.Time
}

// TrendingQuery holds the parameters of Client.Trending.
type TrendingQuery struct {
	By string // "gainers"
	At time.Time
}

// ExchangesQuery holds the parameters of Client.Exchanges.
type ExchangesQuery struct {
	ID            []int64
	Slug          []string
	Page, Size    int // Size up to 100
	Limit, Offset int
	Sort          string // "id", "name", "slug", "volume", with ":asc" or ":desc"
	At            time.Time
}

// GlobalQuery holds the parameters of Client.Global.
type GlobalQuery struct{ At time.Time }

// CategoriesQuery holds the parameters of Client.Categories.
type CategoriesQuery struct {
	ID            []int64
	Slug          []string
	Page, Size    int // Size up to 100
	Limit, Offset int
	Sort          string // "id", "name", "slug", "market_cap", "volume_24h", with ":asc" or ":desc"
	At            time.Time
}

// ChainsQuery holds the parameters of Client.Chains.
type ChainsQuery CategoriesQuery

// HistoryQuery holds the parameters of Client.History. One of ID, Slug and Symbol is required.
type HistoryQuery struct {
	ID            []int64
	Slug, Symbol  []string
	Window        string // "24h", "7d", "30d", "90d", "1y", "max"; default "7d"
	Page, Size    int    // Size up to 20
	Limit, Offset int
	At            time.Time
}

// CandlesQuery holds the parameters of Client.Candles. One of ID, Slug and Symbol is required.
type CandlesQuery struct {
	ID            []int64
	Slug, Symbol  []string
	Interval      string    // "1h", "1d"; default "1h"
	From, To      time.Time // range in which candles begin, inclusive; default: the newest 168 hours or 365 days
	Page, Size    int       // Size up to 20
	Limit, Offset int
	At            time.Time
}

// PricesQuery holds the parameters of Client.Prices. Time and one of ID, Slug and Symbol are required.
type PricesQuery struct {
	ID            []int64
	Slug, Symbol  []string
	Time          []time.Time // up to 100; their number times the number of assets on a page is at most 1,000
	Page, Size    int         // Size up to 100
	Limit, Offset int
	At            time.Time
}

// ChangesQuery holds the parameters of Client.Changes.
type ChangesQuery struct {
	Since         time.Time // only changes of later snapshots; default: all available changes
	Collection    []string  // "assets", "categories", "chains", "exchanges"
	Kind          []string  // "added", "back", "changed", "removed"
	Page, Size    int       // Size up to 100
	Limit, Offset int
	At            time.Time
}

// SearchQuery holds the parameters of Client.Search besides the words.
type SearchQuery struct{ At time.Time }

// PagesQuery covers the queries for the listings that Pages and Rows can read.
type PagesQuery interface {
	AssetsQuery | QuotesQuery | MarketsQuery | ExchangesQuery | CategoriesQuery | ChainsQuery | HistoryQuery |
		CandlesQuery | PricesQuery | ChangesQuery
}
