package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/market"
)

// asset is one asset. A market has places, one for each row of assets.ndjson. In some places the
// asset changes over time, so that assets come and go while their number stays the same.
type asset struct {
	place  int
	tenant int64 // number of the asset in its place; -1 if it is the only one
	hash   hash
	dirty  bool // whether its market is dirty
	small  bool // whether it is in the smallest quarter, which has the odd names and slugs
}

// real returns the asset's entry in real.tsv, or nil if the asset is invented.
func (a *asset) real() *real {
	if a.place < len(reals) {
		return &reals[a.place]
	}
	return nil
}

// asset returns the present asset of a place. Of a hundred places, sixty keep their asset forever,
// and 38 replace it with a new one every two months to three years. In the other two, two assets
// take turns that last hours to days, so that each vanishes and comes back.
func (m *moment) asset(place int) asset {
	h := m.seed.with(ofPlace).with(uint64(place))
	a := asset{place: place, tenant: -1, dirty: m.dirty, small: place >= m.assets-m.assets/4}
	life := h.with(ofLife)
	switch kind := life.below(100); {
	case place < settled || kind < 60:
	case kind < 98:
		a.tenant = m.turn(life, 60*day, 3*365*day)
	default:
		a.tenant = m.turn(life, 6*hour, 10*day) % 2
	}
	a.hash = h.with(ofAsset).with(uint64(a.tenant))
	return a
}

// tag returns a string that no other asset ever has. It consists of the number of the asset's place
// and, if the place changes its asset, an underscore and the asset's number there. The separator is
// an underscore because hyphens join the words of a slug, and the tag is the last word.
func (a *asset) tag() string {
	tag := strconv.FormatInt(int64(a.place), 36)
	if a.tenant >= 0 {
		tag += "_" + strconv.FormatInt(a.tenant, 36)
	}
	return tag
}

func (a *asset) key() string { return "sim-" + a.tag() }

type assetRow struct {
	Key        string   `json:"key"`
	Name       string   `json:"name"`
	Symbol     string   `json:"symbol"`
	Slug       string   `json:"slug"`
	Logo       string   `json:"logo,omitempty"`
	Explorers  []string `json:"explorers,omitzero"`
	Website    string   `json:"website,omitempty"`
	Whitepaper string   `json:"whitepaper,omitempty"`
	Active     *bool    `json:"active,omitempty"`

	Platforms map[string]string `json:"platforms,omitempty"`
}

func (m *moment) assetRow(place int) any {
	a := m.asset(place)
	name, symbol := a.names()
	row := assetRow{Key: a.key(), Name: name, Symbol: symbol, Slug: a.slug(name)}
	links := a.hash.with(ofLinks)
	if !links.with(0).percent(4) {
		row.Logo = "https://img.sim.example/coins/" + a.tag() + ".png"
	}
	if r := a.real(); r != nil {
		for _, chain := range slices.Sorted(maps.Keys(r.contracts)) {
			row.Explorers = append(row.Explorers, "https://scan."+chain+".sim.example/token/"+r.contracts[chain])
		}
	} else if n := links.with(1).below(4); n > 0 || links.with(2).percent(50) {
		row.Explorers = []string{}
		for i := range n {
			at := links.with(2).with(i)
			row.Explorers = append(row.Explorers,
				fmt.Sprintf("https://scan.%s.sim.example/token/0x%016x%016x", at.pick(explorers[:]), at.with(1),
					at.with(2)))
		}
	}
	if links.with(3).percent(75) {
		row.Website = "https://" + a.tag() + ".sim.example/?ref=list&lang=en"
	}
	if links.with(4).percent(20) {
		row.Whitepaper = "https://docs.sim.example/" + a.tag() + "/paper.pdf"
	}
	row.Platforms = m.platforms(&a)
	if state := a.active(); state != unsaid {
		row.Active = new(state == active)
	}
	return &row
}

// What a row says about whether its asset is active. If it says nothing (unsaid), the asset is
// active.
const (
	unsaid = iota
	active
	inactive
)

func (a *asset) active() int {
	switch kind := a.hash.with(ofStatus).below(100); {
	case kind >= 80:
		return active
	case kind < 6 && a.place >= settled:
		return inactive
	}
	return unsaid
}

const (
	topCap = 19e11 * 100 // in cents: the market cap at rank 1
	maxCap = 1e13 * 100
)

// capOf returns a market cap, in cents, that is typical of an asset at the given place (0 is
// rank 1). An invented asset has only a fraction of it. Caps fall somewhat faster than 1/n with the
// rank n, as real ones do.
func capOf(place int) uint64 {
	n := uint64(place + 1)
	return topCap / n / uint64(bits.Len64(n))
}

// startCap returns the asset's initial market cap, in cents. Invented assets stay below the largest
// real ones, and are never among the ten whose prices must not be lost (FEED.md, "Guard rails").
func (a *asset) startCap() uint64 {
	if r := a.real(); r != nil {
		return r.cap()
	}
	return capOf(a.place) * a.hash.with(ofCap).between(2, 20) / 100
}

// stable reports whether the asset is pegged to the dollar.
func (a *asset) stable() bool {
	if r := a.real(); r != nil {
		return r.pegged()
	}
	return a.hash.with(ofPrice).below(100) < 3
}

// figures are an asset's price, market cap, volume and circulating supply.
type figures struct {
	price             uint64 // × 10^exp
	exp               int
	marketCap, volume uint64 // in cents
	supply            uint64 // × 10^supplyExp
	supplyExp         int
}

// figures returns the asset's figures. A price follows the market, its sector and its own random
// walk. The market cap moves with the price, since the supply stays the same. Tiny prices belong to
// small assets, so that supplies are plausible.
func (m *moment) figures(a *asset) (f figures) {
	r, way := a.real(), a.hash // way determines the random walk of the price
	if r != nil && r.like >= 0 {
		way = m.asset(r.like).hash
	}
	kind, start := way.with(ofKind), way.with(ofPrice)
	volatility := int64(kind.with(3).between(50, 125))
	switch v := kind.with(2).below(100); {
	case r != nil:
		volatility /= 2
	case v < 60:
	case v < 90:
		volatility *= 2
	default:
		volatility *= 4
	}
	digits, exp := start.with(1).between(100_000_000, 999_999_999), 0
	factor, sector := m.market, m.sector[kind.with(4).below(sectors)]
	switch v := start.below(100); {
	case a.stable():
		digits, exp, volatility, factor, sector = 100_000_000, -8, 1, unit, unit
	case r != nil:
		digits, exp = r.digits, r.exp
		if a.place < 2 || r.like >= 0 { // in no sector, so that the largest coins keep their order
			sector = unit
		}
	case a.place < 100: // prices from 0.01
		exp = -10 + int(start.with(0).below(3))
	case v < 13: // prices from 1e-12
		exp = -20 + int(start.with(0).below(4))
	case v < 70: // prices from 1e-8
		exp = -16 + int(start.with(0).below(8))
	default: // prices from 1
		exp = -8 + int(start.with(0).below(4))
	}
	own := start.walk(m.unix, volatility)
	turnover := a.hash.with(ofVolume)
	percent := turnover.between(6, 100) // the volume is percent² × 1e-5 of the market cap, about 4%
	if r != nil {
		percent = turnover.between(40, 80)
	}
	if a.stable() {
		own, percent = unit+(own-unit)/8, 2*percent
	}
	factor = factor * sector / unit * own / unit
	marketCap := a.startCap()
	if f.supply, f.supplyExp = supplyOf(marketCap, digits, exp); r != nil {
		f.supply, f.supplyExp = r.supplies[0], 0
	}
	f.price, f.exp = times(digits, factor), exp
	f.marketCap = min(maxCap, times(marketCap, factor))
	f.volume = min(maxCap, times(f.marketCap/1000*percent*percent/100, turnover.walk(m.unix, 100)))
	return f
}

// lost reports whether the asset has no quote now. Of a hundred assets, four never have one, and
// three lose theirs from time to time for hours to days.
func (m *moment) lost(a *asset) bool {
	h := a.hash.with(ofLoss)
	switch kind := h.below(100); {
	case a.place < settled:
		return false
	case kind < 4:
		return true
	case kind < 7:
		return h.with(2).with(uint64(m.turn(h, 8*hour, 5*day))).percent(25)
	}
	return false
}

type quoteRow struct {
	Key       string          `json:"key"`
	Price     json.RawMessage `json:"price"`
	MarketCap json.RawMessage `json:"market_cap,omitempty"`
	Volume    json.RawMessage `json:"volume,omitempty"`

	Circulating json.RawMessage `json:"circulating_supply,omitempty"`
	Total       json.RawMessage `json:"total_supply,omitempty"`
	Max         json.RawMessage `json:"max_supply,omitempty"`
}

func (m *moment) quoteRow(place int) any {
	a := m.asset(place)
	if m.lost(&a) {
		return nil
	}
	f := m.figures(&a)
	style := a.hash.with(ofStyle)
	row := quoteRow{Key: a.key(), Price: spell(f.price, f.exp, 8, style.with(0))}
	row.addSupplies(&a, f.supply, f.supplyExp)
	switch kind := style.with(1).below(100); {
	case kind >= 15 || place < settled:
		row.MarketCap = spell(f.marketCap, -2, 10, style.with(2))
	case kind < 5:
		row.MarketCap = json.RawMessage(`null`)
	case kind < 9:
		row.MarketCap = json.RawMessage(`"0.0"`)
	case kind < 10:
		row.MarketCap = json.RawMessage(`0`)
	}
	switch kind := style.with(3).below(100); {
	case kind >= 12 || place < settled:
		row.Volume = spell(f.volume, -2, 10, style.with(4))
	case kind < 6:
		row.Volume = json.RawMessage(`"0"`)
	case kind < 8:
		row.Volume = json.RawMessage(`null`)
	}
	return &row
}

// spell writes digits × 10^exp, rounded down to the given number of significant digits, in one of
// the forms that a feed may use: as a JSON number or a string, with an exponent or without.
func spell(digits uint64, exp, significant int, style hash) json.RawMessage {
	if digits == 0 {
		exp = 0
	}
	text := strconv.AppendUint(make([]byte, 0, 24), digits, 10)
	if cut := len(text) - significant; cut > 0 {
		text, exp = text[:significant], exp+cut
	}
	for len(text) > 1 && text[len(text)-1] == '0' {
		text, exp = text[:len(text)-1], exp+1
	}
	switch style.below(16) {
	case 0:
		return plain(nil, text, exp)
	case 1:
		return scientific(nil, text, exp)
	case 2:
		return append(scientific([]byte{'"'}, text, exp), '"')
	}
	return append(plain([]byte{'"'}, text, exp), '"')
}

// plain appends digits × 10^exp without an exponent.
func plain(to, digits []byte, exp int) []byte {
	point := len(digits) + exp
	switch {
	case digits[0] == '0':
		return append(to, '0')
	case exp >= 0:
		return append(append(to, digits...), zeros[:exp]...)
	case point <= 0:
		return append(append(append(to, "0."...), zeros[:-point]...), digits...)
	}
	return append(append(append(to, digits[:point]...), '.'), digits[point:]...)
}

const zeros = "00000000000000000000000000000000"

// scientific appends digits × 10^exp as d.dd…e±x.
func scientific(to, digits []byte, exp int) []byte {
	if to = append(to, digits[0]); len(digits) > 1 {
		to = append(append(to, '.'), digits[1:]...)
	}
	if to, exp = append(to, 'e'), exp+len(digits)-1; exp >= 0 {
		to = append(to, '+')
	}
	return strconv.AppendInt(to, int64(exp), 10)
}

// Past implements source.Remembered. It returns the states in the year before m that the store
// would have kept if a snapshot had been built at every ten-minute mark.
func (m *moment) Past(ctx context.Context) iter.Seq2[*market.Feed, error] {
	if !m.year {
		return nil
	}
	return func(yield func(*market.Feed, error) bool) {
		T := m.time.Truncate(artifacts.Step)
		var marks []time.Time
		for t := T.Add(-year); t.Before(T); t = t.Add(artifacts.Step) {
			for i := range artifacts.PastIntervals {
				if p := &artifacts.PastIntervals[i]; p.Keeps(T, t) && t.Truncate(p.Step).Equal(t) {
					marks = append(marks, t)
					break
				}
			}
		}
		for some := range slices.Chunk(marks, runtime.GOMAXPROCS(0)) {
			feeds := make([]*market.Feed, len(some))
			err := walk.Parallel(ctx, len(some), func(ctx context.Context, i int) (err error) {
				feeds[i], err = m.at(some[i]).prices(ctx)
				return err
			})
			for _, feed := range feeds {
				if !yield(feed, err) || err != nil {
					return
				}
			}
		}
	}
}

// year is how far a market's past goes back, which is as far as the longest window.
const year = 366 * 24 * time.Hour

// prices returns the market's assets and quotes, without writing and reading files.
func (m *moment) prices(ctx context.Context) (*market.Feed, error) {
	feed := &market.Feed{
		Database: m.database(), Time: m.time,
		Assets: make([]market.Asset, 0, m.assets), Quotes: make([]market.Quote, 0, m.assets),
	}
	for place := range m.assets {
		if place%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		a := m.asset(place)
		feed.Assets = append(feed.Assets, market.Asset{Key: a.key(), Active: a.active() != inactive})
		row, ok := m.quoteRow(place).(*quoteRow)
		if !ok {
			continue
		}
		quote := market.Quote{Asset: place}
		var errs [3]error
		quote.Price, errs[0] = number(row.Price, market.PriceDecimals, market.PriceIntDigits)
		quote.MarketCap, errs[1] = number(row.MarketCap, market.MoneyDecimals, market.MoneyIntDigits)
		quote.Volume, errs[2] = number(row.Volume, market.MoneyDecimals, market.MoneyIntDigits)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("asset %s: %w", a.key(), err)
		}
		feed.Quotes = append(feed.Quotes, quote)
	}
	return feed, nil
}

// number parses a number that spell wrote. null and an empty value are zero.
func number(text json.RawMessage, decimals, intDigits int) (market.U128, error) {
	if len(text) == 0 || text[0] == 'n' {
		return market.U128{}, nil
	}
	return market.ParseDecimal(bytes.Trim(text, `"`), decimals, intDigits)
}
