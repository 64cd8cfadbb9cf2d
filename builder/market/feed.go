package market

import (
	"bytes"
	"time"
	"unicode"

	"example.com/marketdata/artifacts"
)

const (
	// MaxID is the highest possible id (FEED.md, "Files").
	MaxID = 1<<53 - 1
	// MaxNewID is the highest id that a feed may give to a new key. The 2^32 ids above it are left
	// for the builder to assign.
	MaxNewID = MaxID - 1<<32
)

// Feed is the state of a market at one moment, as a source provides it. It holds only accepted
// rows, in reading order. Numbers are rounded to their field's decimals (FEED.md, "Numbers").
type Feed struct {
	// Database names the database from which the rows come (feed.json).
	Database string
	// Time is the feed's own time. The builder rounds it down to ten minutes.
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
	ID         uint64 // 0 means not assigned yet
	Name       string
	Symbol     string
	Slug       string
	Logo       string
	Explorers  []string
	Website    string
	Whitepaper string
	Active     bool
	// Platforms has each platform once, in ascending order of ID.
	Platforms []Platform
}

// Platform is a platform on which an asset has a contract.
type Platform struct {
	ID      string // the slug of Name; see PlatformID
	Name    string // as in the feed
	Address string // as artifacts.AppendAddress writes it
}

// PlatformID returns the slug of a platform's name: its words in lower case, joined by hyphens, or
// "" if the name has no words. The slug of a slug is the slug itself.
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

// Quote is one accepted row of quotes.ndjson. Asset is an index into Feed.Assets.
type Quote struct {
	Asset     int
	Price     U128 // 18 decimals
	MarketCap U128 // 8 decimals; 0 means unknown
	Volume    U128 // 8 decimals
	// Supplies are amounts of coins in the order of SupplyNames, with 8 decimals. 0 means unknown.
	Supplies [len(SupplyNames)]U128
}

// SupplyNames are the names of a quote's supply fields.
var SupplyNames = [3]string{"circulating_supply", "total_supply", "max_supply"}

// Rate is one accepted row of rates.ndjson.
type Rate struct {
	Code string
	Name string
	Unit string
	Type string // one of RateTypes
	USD  U128   // the value of one unit, with 18 decimals; greater than 0
	// Asset is the index of the asset whose price is the rate, or -1 if there is no such asset.
	Asset int
}

// RateTypes are the kinds of rates. The first is the default.
var RateTypes = []string{"fiat", "crypto", "commodity"}

// USD is the code of the currency in which a feed's figures are given.
const USD = "usd"

// DollarRate is the rate of the US dollar, for a feed without one.
var DollarRate = Rate{Code: USD, Name: "US Dollar", Unit: "$", Type: RateTypes[0], USD: U128{Lo: 1e18}, Asset: -1}

// Exchange is one accepted row of exchanges.ndjson.
type Exchange struct {
	Key          string
	ID           uint64 // 0 means not assigned yet
	Name         string
	Slug         string
	Logo         string
	Links        [6]string // in the order of ExchangeLinks
	Maker, Taker U128      // 8 decimals
	Market       *ExchangeMarket
}

// ExchangeLinks are the six keys of an exchange's links, in the order of answers.
var ExchangeLinks = [6]string{"website", "twitter", "telegram", "reddit", "facebook", "chat"}

// ExchangeMarket is an exchange's 24-hour aggregate. A nil field is null in answers.
type ExchangeMarket struct {
	Volume       *U128 // 8 decimals
	MarketsCount *uint64
	CoinsCount   *uint64
	DataTime     *time.Time // UTC, whole seconds
}

// Group is one accepted row of categories.ndjson or chains.ndjson.
type Group struct {
	Key     string
	ID      uint64 // 0 means not assigned yet
	Name    string
	Slug    string
	Active  bool  // the status is active, not disabled or deleted
	Members []int // indices into Feed.Assets, each once, ascending

	// The remaining fields are set only for chains.
	DisplayName string
	EVMChainID  *uint64
	Native      int // index into Feed.Assets, or -1 if there is none
}
