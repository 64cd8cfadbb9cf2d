package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The items of the listings. Their fields are in the order of the tables in INTERFACE.md. For a
// snapshot created from a feed, the items are filled in and written. For a snapshot created from
// shards, they are parsed and written again.
type (
	assetItem struct {
		ID        int64  `json:"id"`
		Rank      int    `json:"rank,omitempty"`
		Name      text   `json:"name"`
		Symbol    text   `json:"symbol"`
		Slug      text   `json:"slug"`
		Logo      text   `json:"logo"`
		Explorers []text `json:"explorers"`
		Links     *links `json:"links,omitempty"` // with fields=links
	}

	links struct {
		Website    text `json:"website"`
		Whitepaper text `json:"whitepaper"`
	}

	quoteItem struct {
		ID int64 `json:"id"`
		quoteFigures
	}

	// quoteFigures are the fields that follow the id of a quote.
	quoteFigures struct {
		Name          text    `json:"name"`
		Symbol        text    `json:"symbol"`
		Slug          text    `json:"slug"`
		Logo          text    `json:"logo"`
		Price         string  `json:"price"`
		MarketCap     *string `json:"market_cap"`
		Volume        string  `json:"volume"`
		PercentChange struct {
			H1  string `json:"1h"`
			H6  string `json:"6h"`
			H12 string `json:"12h"`
			H24 string `json:"24h"`
			D7  string `json:"7d"`
			D30 string `json:"30d"`
			D90 string `json:"90d"`
			Y1  string `json:"1y"`
		} `json:"percent_change"`
		Since *string `json:"since,omitempty"`
	}

	marketItem struct {
		ID   int64 `json:"id"`
		Rank int   `json:"rank,omitempty"`
		quoteFigures
		Groups *groupsItem `json:"groups,omitempty"` // with fields=groups
	}

	groupsItem struct {
		Categories []text `json:"categories"`
		Chains     []text `json:"chains"`
	}

	exchangeItem struct {
		ID    int64         `json:"id"`
		Name  text          `json:"name"`
		Slug  text          `json:"slug"`
		Logo  text          `json:"logo"`
		Links exchangeLinks `json:"links"`
		Fees  struct {
			Maker string `json:"maker"`
			Taker string `json:"taker"`
		} `json:"fees"`
		Market *exchangeMarketItem `json:"market"`
	}

	exchangeLinks struct {
		Website  text `json:"website"`
		Twitter  text `json:"twitter"`
		Telegram text `json:"telegram"`
		Reddit   text `json:"reddit"`
		Facebook text `json:"facebook"`
		Chat     text `json:"chat"`
	}

	exchangeMarketItem struct {
		Volume   *string `json:"volume_24h"`
		Markets  *int64  `json:"markets_count"`
		Coins    *int64  `json:"coins_count"`
		DataTime *string `json:"data_time"`
	}

	categoryItem struct {
		ID     int64           `json:"id"`
		Name   text            `json:"name"`
		Slug   text            `json:"slug"`
		Market groupMarketItem `json:"market"`
	}

	chainItem struct {
		ID          int64           `json:"id"`
		Name        text            `json:"name"`
		DisplayName text            `json:"display_name"`
		Slug        text            `json:"slug"`
		EVMChainID  *int64          `json:"evm_chain_id"`
		Logo        text            `json:"logo"`
		Market      groupMarketItem `json:"market"`
	}

	groupMarketItem struct {
		MarketCap string       `json:"market_cap"`
		Volume    string       `json:"volume_24h"`
		Coins     int          `json:"coins_count"`
		Share     string       `json:"market_cap_share"`
		Time      string       `json:"snapshot_time"`
		Gainers   []gainerItem `json:"top_gainers"`
	}

	gainerItem struct {
		ID     int64 `json:"id"`
		Symbol text  `json:"symbol"`
		Name   text  `json:"name"`
		Slug   text  `json:"slug"`
		Logo   text  `json:"logo"`
	}
)

// text is a string that is encoded by Quote.
type text string

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) { return []byte(Quote(string(t))), nil }

// An item can be converted to a row of its listing.
type item interface {
	row() Row
	// check returns an error for figures that are not in the form of FEED.md, "Numbers".
	check() error
}

// A Row is one item of a listing: the values by which it is found and sorted, and its JSON.
type Row struct {
	ID                 int64
	Name, Symbol, Slug string              // folded; only assets and quotes have a Symbol
	Rank               int                 // assets only; 0 if it has none
	MarketCap, Volume  *big.Rat            // of groups and markets; exchanges have only Volume, which is nil for null
	Day                *big.Rat            // the 24-hour change of quotes
	Figures            map[string]*big.Rat // markets only: the price and the changes by which they are sorted
	Groups             map[string][]string // markets only: the folded slugs, by filter
	JSON               string
	WithTail           string // JSON of assets with fields=links, and of markets with fields=groups

	asName, asSymbol, asSlug string   // unchanged from the feed
	words                    []string // words of an asset's name
}

func newRow(id int64, name, symbol, slug text, i item) Row {
	return Row{
		ID: id, Name: Fold(string(name)), Symbol: Fold(string(symbol)), Slug: Fold(string(slug)), asName: string(name),
		asSymbol: string(symbol), asSlug: string(slug),
		JSON: write(i),
	}
}

func write(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("model: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (i *assetItem) row() Row {
	bare := *i
	bare.Links = nil
	r := newRow(i.ID, i.Name, i.Symbol, i.Slug, &bare)
	r.Rank, r.words = i.Rank, nameWords(r.asName)
	if i.Links != nil {
		r.WithTail = r.JSON[:len(r.JSON)-1] + `,"links":` + write(i.Links) + "}" // links come last.
	}
	return r
}

func (i *quoteItem) row() Row {
	r := newRow(i.ID, i.Name, i.Symbol, i.Slug, i)
	r.Day = number(i.PercentChange.H24)
	return r
}

func (i *marketItem) row() Row {
	bare := *i
	bare.Groups = nil
	r := newRow(i.ID, i.Name, i.Symbol, i.Slug, &bare)
	r.Rank, r.Volume = i.Rank, number(i.Volume)
	if i.MarketCap != nil {
		r.MarketCap = number(*i.MarketCap)
	}
	c := &i.PercentChange
	r.Figures = map[string]*big.Rat{"price": number(i.Price), "percent_change.1h": number(c.H1),
		"percent_change.24h": number(c.H24), "percent_change.7d": number(c.D7), "percent_change.30d": number(c.D30)}
	if i.Groups != nil {
		r.WithTail = r.JSON[:len(r.JSON)-1] + `,"groups":` + write(i.Groups) + "}" // groups come last.
		fold := func(slugs []text) (folded []string) {
			for _, s := range slugs {
				folded = append(folded, Fold(string(s)))
			}
			return folded
		}
		r.Groups = map[string][]string{"category": fold(i.Groups.Categories), "chain": fold(i.Groups.Chains)}
	}
	return r
}

func (i *exchangeItem) row() Row {
	r := newRow(i.ID, i.Name, "", i.Slug, i)
	if i.Market != nil && i.Market.Volume != nil {
		r.Volume = number(*i.Market.Volume)
	}
	return r
}

func (i *categoryItem) row() Row { return i.Market.row(newRow(i.ID, i.Name, "", i.Slug, i)) }
func (i *chainItem) row() Row    { return i.Market.row(newRow(i.ID, i.Name, "", i.Slug, i)) }

func (m *groupMarketItem) row(r Row) Row {
	r.MarketCap, r.Volume = number(m.MarketCap), number(m.Volume)
	return r
}

// number returns the value of a decimal, or nil if s is not one.
func number(s string) *big.Rat {
	if !isDecimal(s, -1, true) {
		return nil
	}
	v, _ := new(big.Rat).SetString(s)
	return v
}

var decimalText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$`)

// isDecimal reports whether s is a decimal in the form that FEED.md ("Numbers") defines, with at
// most the given number of decimal places. If places is negative, there is no limit.
func isDecimal(s string, places int, signed bool) bool {
	_, fraction, _ := strings.Cut(s, ".")
	return decimalText.MatchString(s) && s != "-0" && (places < 0 || len(fraction) <= places) && (signed || s[0] != '-')
}

// figures returns an error for the first value that is not a decimal.
func figures(places int, signed bool, all ...string) error {
	for _, s := range all {
		if !isDecimal(s, places, signed) {
			return fmt.Errorf("%q is not a decimal of at most %d places in plain notation", s, places)
		}
	}
	return nil
}

// amounts returns an error for the first value that is neither an amount nor nil.
func amounts(all ...*string) error {
	for _, s := range all {
		if s != nil && !isDecimal(*s, amountPlaces, false) {
			return figures(amountPlaces, false, *s)
		}
	}
	return nil
}

func (i *assetItem) check() error {
	if i.Explorers == nil {
		return errors.New("explorers is null")
	}
	return nil
}

func (i *marketItem) check() error {
	if g := i.Groups; g != nil && (g.Categories == nil || g.Chains == nil ||
		!slices.IsSorted(g.Categories) || !slices.IsSorted(g.Chains)) {
		return errors.New("groups are null or not sorted")
	}
	return i.quoteFigures.check()
}

func (i *quoteFigures) check() error {
	if i.MarketCap != nil && *i.MarketCap == "0" {
		return errors.New("market_cap is 0, which stands for unknown and is null")
	}
	if i.Since != nil && !IsTime(*i.Since) {
		return fmt.Errorf("since is %q", *i.Since)
	}
	c := &i.PercentChange
	return errors.Join(figures(pricePlaces, false, i.Price), amounts(&i.Volume, i.MarketCap),
		figures(percentPlaces, true, c.H1, c.H6, c.H12, c.H24, c.D7, c.D30, c.D90, c.Y1))
}

func (i *exchangeItem) check() error {
	err := figures(feePlaces, false, i.Fees.Maker, i.Fees.Taker)
	if m := i.Market; m != nil {
		err = errors.Join(err, amounts(m.Volume))
		if m.DataTime != nil && !IsTime(*m.DataTime) {
			err = errors.Join(err, fmt.Errorf("data_time is %q", *m.DataTime))
		}
	}
	return err
}

func (i *categoryItem) check() error { return i.Market.check() }
func (i *chainItem) check() error    { return i.Market.check() }

func (m *groupMarketItem) check() error {
	err := errors.Join(amounts(&m.MarketCap, &m.Volume), figures(sharePlaces, false, m.Share))
	if len(m.Gainers) > 3 || m.Gainers == nil || !IsTime(m.Time) {
		err = errors.Join(err, fmt.Errorf("%d top gainers at %q", len(m.Gainers), m.Time))
	}
	return err
}

// ReadRow parses an item of a listing ([Query.Items]) or of trending. published is the item as
// stored in a shard, including its tail, or as sent in an answer. The error says how the item
// deviates from the documents. If the item cannot be parsed at all, the ID of the row is 0.
func ReadRow(listing string, published []byte) (Row, error) {
	collection, window, _ := strings.Cut(listing, " ")
	i := map[string]func() item{
		assets: func() item { return &assetItem{} }, quotes: func() item { return &quoteItem{} },
		trending: func() item { return &quoteItem{} }, markets: func() item { return &marketItem{} },
		history: func() item { return &historyItem{} }, candles: func() item { return &candleItem{} },
		prices: func() item { return &priceItem{} }, exchanges: func() item { return &exchangeItem{} },
		categories: func() item { return &categoryItem{} }, chains: func() item { return &chainItem{} },
	}[collection]()
	if err := json.Unmarshal(published, i); err != nil {
		return Row{}, err
	}
	r := i.row()
	if r.ID < 1 || r.ID > maxInteger || r.Rank < 0 {
		return Row{}, fmt.Errorf("id or rank of %.100s", published)
	}
	want := r.WithTail
	if want == "" {
		want = r.JSON
	}
	if err := i.check(); err != nil {
		return r, fmt.Errorf("id %d: %w", r.ID, err)
	}
	if h, ok := i.(*historyItem); ok && h.Window != window {
		return r, fmt.Errorf("id %d: window %s, asked was %s", r.ID, h.Window, window)
	}
	if want != string(published) {
		return r, fmt.Errorf("id %d: %s", r.ID, Difference(string(published), want))
	}
	return r, nil
}

// Difference describes where two strings begin to differ.
func Difference(got, want string) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	around := func(s string) string { return s[min(max(0, at-60), len(s)):min(at+60, len(s))] }
	return fmt.Sprintf("differs at byte %d (%d bytes, want %d): got …%s…, want …%s…", at, len(got), len(want),
		around(got), around(want))
}

// TimeFormat is the format of times, in UTC, in responses and in the X-Snapshot-Time header.
const TimeFormat = "2006-01-02T15:04:05Z"

// IsTime reports whether s is a time in the format of the service.
func IsTime(s string) bool {
	t, err := time.Parse(TimeFormat, s)
	return err == nil && t.Format(TimeFormat) == s
}

// IsSnapshotTime reports whether s is a time that a snapshot can have: a whole multiple of ten
// minutes (INTERFACE.md, "Pinned paging").
func IsSnapshotTime(s string) bool {
	t, err := time.Parse(TimeFormat, s)
	return err == nil && IsTime(s) && t.Equal(t.Truncate(10*time.Minute))
}
