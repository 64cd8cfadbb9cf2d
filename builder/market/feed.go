package market

import "time"

const (
	// MaxID is the highest id there can be (FEED.md, "Files").
	MaxID = 1<<53 - 1
	// MaxNewID is the highest id that a feed may bring for a new key. The 2^32 ids
	// above it are left for the builder to assign.
	MaxNewID = MaxID - 1<<32
)

// Feed is the state of a market at one moment, as a source provides it. It holds
// only accepted rows, in the order in which they were read. Numbers are rounded to
// their field's decimals (FEED.md, "Numbers").
type Feed struct {
	// Database names the database the rows come from (feed.json).
	Database string
	// Time is the feed's own time; the builder rounds it down to ten minutes.
	Time time.Time

	Assets     []Asset
	Quotes     []Quote
	Exchanges  []Exchange
	Categories []Group
	Chains     []Group
}

// Asset is one accepted row of assets.ndjson.
type Asset struct {
	Key        string
	ID         uint64 // 0: to be assigned
	Name       string
	Symbol     string
	Slug       string
	Logo       string
	Explorers  []string
	Website    string
	Whitepaper string
	Active     bool
}

// Quote is one accepted row of quotes.ndjson; Asset is an index into Feed.Assets.
type Quote struct {
	Asset     int
	Price     U128 // 18 decimals
	MarketCap U128 // 8 decimals; zero: unknown
	Volume    U128 // 8 decimals
}

// Exchange is one accepted row of exchanges.ndjson.
type Exchange struct {
	Key          string
	ID           uint64 // 0: to be assigned
	Name         string
	Slug         string
	Logo         string
	Links        [6]string // in the order of ExchangeLinks
	Maker, Taker U128      // 8 decimals
	Market       *ExchangeMarket
}

// ExchangeLinks are the six keys of an exchange's links, in their order.
var ExchangeLinks = [6]string{"website", "twitter", "telegram", "reddit", "facebook", "chat"}

// ExchangeMarket is an exchange's 24-hour aggregate; nil fields are null.
type ExchangeMarket struct {
	Volume       *U128 // 8 decimals
	MarketsCount *uint64
	CoinsCount   *uint64
	DataTime     *time.Time // UTC, whole seconds
}

// Group is one accepted row of categories.ndjson or chains.ndjson.
type Group struct {
	Key     string
	ID      uint64 // 0: to be assigned
	Name    string
	Slug    string
	Active  bool  // status active, as against disabled or deleted
	Members []int // indices into Feed.Assets, each once, ascending

	// Chains only.
	DisplayName string
	EVMChainID  *uint64
	Native      int // index into Feed.Assets, -1 without one
}
