package marketdata

import (
	"encoding/json"
	"fmt"
	"math/big"
	"time"
)

// Decimal is an exact decimal number as the service sends it, in plain notation without an
// exponent. A float64 cannot represent it exactly, but Rat can.
type Decimal string

// Rat returns the exact number. It returns false if d is not a decimal number.
func (d Decimal) Rat() (*big.Rat, bool) { return new(big.Rat).SetString(string(d)) }

// Page is one page of a listing.
type Page[T any] struct {
	Items     []T   `json:"items"`
	Page      int64 `json:"page"`
	Total     int64 `json:"total"` // matching rows in the answer's snapshot
	TotalPage int64 `json:"total_page"`
	// Since is the oldest time from which the changes are complete. Only Changes sets it.
	Since *time.Time `json:"since,omitempty"`
}

// Items is a result without pages.
type Items[T any] struct {
	Items []T `json:"items"`
}

// Asset is an entry of the directory. Unrelated assets may share a symbol, so join by ID.
type Asset struct {
	ID        int64       `json:"id"`
	Rank      *int64      `json:"rank,omitempty"` // by market cap, from 1; nil when there is none
	Name      string      `json:"name"`
	Symbol    string      `json:"symbol"`
	Slug      string      `json:"slug"`
	Logo      string      `json:"logo"`
	Explorers []string    `json:"explorers"`
	Links     *AssetLinks `json:"links,omitempty"` // with AssetsQuery.Fields "links" only
}

// AssetLinks contains URLs. A URL is "" if it is unknown.
type AssetLinks struct {
	Website    string `json:"website"`
	Whitepaper string `json:"whitepaper"`
}

// Quote is an asset's market data, in US dollars.
type Quote struct {
	ID            int64              `json:"id"`
	Name          string             `json:"name"`
	Symbol        string             `json:"symbol"`
	Slug          string             `json:"slug"`
	Logo          string             `json:"logo"`
	Price         Decimal            `json:"price"`
	MarketCap     *Decimal           `json:"market_cap"` // nil when unknown
	Volume        Decimal            `json:"volume"`     // over 24 hours
	PercentChange map[string]Decimal `json:"percent_change"`
	// Since is the time from which changes over longer windows are measured. It is nil if a whole year is
	// covered.
	Since *time.Time `json:"since,omitempty"`
}

// Market is a quote with its asset's rank.
type Market struct {
	Quote
	Rank   *int64        `json:"rank,omitempty"`   // by market cap, from 1; nil when there is none
	Groups *MarketGroups `json:"groups,omitempty"` // with MarketsQuery.Fields "groups" only
}

// MarketGroups contains the slugs of the listed groups that an asset belongs to.
type MarketGroups struct {
	Categories []string `json:"categories"`
	Chains     []string `json:"chains"`
}

// Exchange is a trading venue. Slugs of exchanges are not unique.
type Exchange struct {
	ID    int64             `json:"id"`
	Name  string            `json:"name"`
	Slug  string            `json:"slug"`
	Logo  string            `json:"logo"`
	Links map[string]string `json:"links"` // "" when there is none
	Fees  struct {
		Maker Decimal `json:"maker"`
		Taker Decimal `json:"taker"`
	} `json:"fees"`
	Market *ExchangeMarket `json:"market"` // nil if there is no aggregate
}

// ExchangeMarket is an exchange's 24-hour aggregate. A nil value is unknown.
type ExchangeMarket struct {
	Volume24h    *Decimal   `json:"volume_24h"`
	MarketsCount *int64     `json:"markets_count"`
	CoinsCount   *int64     `json:"coins_count"`
	DataTime     *time.Time `json:"data_time"`
}

// Global contains the totals over active assets with a known market cap.
type Global struct {
	TotalMarketCap       Decimal   `json:"total_market_cap"`
	TotalVolume24h       Decimal   `json:"total_volume_24h"`
	MarketCapChange24hPc *Decimal  `json:"total_market_cap_change_percentage_24h"` // nil if not available
	DataTime             time.Time `json:"data_time"`
	Notice               *Notice   `json:"notice,omitempty"` // nil if there is none
}

// Notice is a remark about all data in a snapshot. Show it together with the data.
type Notice struct {
	Text string `json:"text"`
	URL  string `json:"url"` // "" if there is no link
}

// Category is a group of assets.
type Category struct {
	ID     int64       `json:"id"`
	Name   string      `json:"name"`
	Slug   string      `json:"slug"`
	Market GroupMarket `json:"market"`
}

// Chain is a blockchain with the assets on it.
type Chain struct {
	ID          int64       `json:"id"`
	Name        string      `json:"name"`
	DisplayName string      `json:"display_name"`
	Slug        string      `json:"slug"`
	EVMChainID  *int64      `json:"evm_chain_id"` // EIP-155; nil for chains without one
	Logo        string      `json:"logo"`
	Market      GroupMarket `json:"market"`
}

// GroupMarket is the aggregate over a group's coins. MarketCapShare, from 0 to 1, is the group's
// share of the sum over all groups. A coin counts once for each of its groups.
type GroupMarket struct {
	MarketCap      Decimal   `json:"market_cap"`
	Volume24h      Decimal   `json:"volume_24h"`
	CoinsCount     int64     `json:"coins_count"`
	MarketCapShare Decimal   `json:"market_cap_share"`
	SnapshotTime   time.Time `json:"snapshot_time"`
	TopGainers     []Gainer  `json:"top_gainers"`
}

// Gainer is one of a group's coins.
type Gainer struct {
	ID     int64  `json:"id"`
	Symbol string `json:"symbol"`
	Name   string `json:"name"`
	Slug   string `json:"slug"`
	Logo   string `json:"logo"`
}

// History contains an asset's prices in a window, oldest point first.
type History struct {
	ID       int64   `json:"id"`
	Name     string  `json:"name"`
	Symbol   string  `json:"symbol"`
	Slug     string  `json:"slug"`
	Window   string  `json:"window"`
	Interval string  `json:"interval"`
	Points   []Point `json:"points"`
}

// Point is a price at a time. In JSON it is [time, price].
type Point struct {
	Time  time.Time
	Price Decimal
}

// UnmarshalJSON reads [time, price].
func (p *Point) UnmarshalJSON(b []byte) error { return elements(b, &p.Time, &p.Price) }

// MarshalJSON writes [time, price].
func (p Point) MarshalJSON() ([]byte, error) { return json.Marshal([]any{p.Time, p.Price}) }

// CandleSeries contains an asset's candles, oldest first.
type CandleSeries struct {
	ID       int64    `json:"id"`
	Name     string   `json:"name"`
	Symbol   string   `json:"symbol"`
	Slug     string   `json:"slug"`
	Interval string   `json:"interval"`
	Candles  []Candle `json:"candles"`
}

// Candle contains the prices of the hour or day that begins at Time. MarketCap and Volume come from the last
// snapshot in it. In JSON, a candle is an array of these fields in this order.
type Candle struct {
	Time                   time.Time
	Open, High, Low, Close Decimal
	MarketCap, Volume      *Decimal // nil when unknown
}

// UnmarshalJSON reads [time, open, high, low, close, market cap, volume].
func (c *Candle) UnmarshalJSON(b []byte) error {
	return elements(b, &c.Time, &c.Open, &c.High, &c.Low, &c.Close, &c.MarketCap, &c.Volume)
}

// MarshalJSON writes what UnmarshalJSON reads.
func (c Candle) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{c.Time, c.Open, c.High, c.Low, c.Close, c.MarketCap, c.Volume})
}

// elements decodes the first elements of an array, which may have more elements in a later version.
func elements(b []byte, to ...any) error {
	var all []json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	if len(all) < len(to) {
		return fmt.Errorf("an array of %d elements, want %d", len(all), len(to))
	}
	for i, value := range to {
		if err := json.Unmarshal(all[i], value); err != nil {
			return err
		}
	}
	return nil
}

// PriceSeries contains an asset's prices, in the order of the requested times.
type PriceSeries struct {
	ID     int64     `json:"id"`
	Name   string    `json:"name"`
	Symbol string    `json:"symbol"`
	Slug   string    `json:"slug"`
	Prices []PriceAt `json:"prices"`
}

// PriceAt is an asset's price at Time, taken from the snapshot of SnapshotTime. Other fields are nil if
// the service has no data.
type PriceAt struct {
	Time         time.Time  `json:"time"`
	SnapshotTime *time.Time `json:"snapshot_time"`
	Price        *Decimal   `json:"price"`
	MarketCap    *Decimal   `json:"market_cap"`
	Volume       *Decimal   `json:"volume"`
}

// Change is a change of a directory item. Name, Symbol and Slug have their values after the change or, for
// a removed item, their last values.
type Change struct {
	Time       time.Time `json:"time"`       // of the snapshot that shows the change
	Collection string    `json:"collection"` // "assets", "categories", "chains", "exchanges"
	Kind       string    `json:"kind"`       // "added", "back", "changed", "removed"
	ID         int64     `json:"id"`
	Name       string    `json:"name"`
	Symbol     string    `json:"symbol,omitempty"` // of assets only
	Slug       string    `json:"slug"`
	// Fields contains the changed fields by name. It is present only for the kind "changed".
	Fields map[string]ChangedField `json:"fields,omitempty"`
}

// ChangedField contains the old and new values of a field. They are nil if the service does not state them;
// in that case, read the item again.
type ChangedField struct {
	Old *string `json:"old,omitempty"`
	New *string `json:"new,omitempty"`
}
