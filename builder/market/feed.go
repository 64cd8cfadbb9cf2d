package market

import (
	"bytes"
	"time"
	"unicode"

	"example.com/marketdata/artifacts"
)

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
	Rates      []Rate
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
	// Platforms has each platform once, by ID ascending.
	Platforms []Platform
}

// Platform is where an asset has a contract.
type Platform struct {
	ID      string // Name as a slug; see PlatformID
	Name    string // as the feed gives it
	Address string // as artifacts.AppendAddress writes it
}

// PlatformID returns the slug of a platform's name: its words in lower case, joined by hyphens; ""
// if it has none. The slug of a slug is itself.
func PlatformID(name string) string {
	var id []byte
	for word, rest := artifacts.NextWord([]byte(name)); word != nil; word, rest = artifacts.NextWord(rest) {
		if id != nil {
			id = append(id, '-')
		}
		id = append(id, bytes.Map(unicode.ToLower, word)...)
	}
	return string(id)
}

// Quote is one accepted row of quotes.ndjson; Asset is an index into Feed.Assets.
type Quote struct {
	Asset     int
	Price     U128 // 18 decimals
	MarketCap U128 // 8 decimals; zero: unknown
	Volume    U128 // 8 decimals
	// Supplies are numbers of coins in the order of SupplyNames, 8 decimals; zero: unknown.
	Supplies [len(SupplyNames)]U128
}

// SupplyNames are the fields of a quote's supplies.
var SupplyNames = [3]string{"circulating_supply", "total_supply", "max_supply"}

// Rate is one accepted row of rates.ndjson.
type Rate struct {
	Code string
	Name string
	Unit string
	Type string // of RateTypes
	USD  U128   // 18 decimals, above 0: what a unit is worth
	// Asset is the index of the asset whose price that is; -1: it is of none.
	Asset int
}

// RateTypes are the kinds of rates; the first is the default.
var RateTypes = []string{"fiat", "crypto", "commodity"}

// USD is the code of the currency in which a feed's figures are; DollarRate is its rate where the
// feed has none.
const USD = "usd"

var DollarRate = Rate{Code: USD, Name: "US Dollar", Unit: "$", Type: RateTypes[0], USD: U128{Lo: 1e18}, Asset: -1}

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
