package model

import (
	"math/big"
	"strconv"
	"time"
)

// A Snapshot is what the service says of one time.
type Snapshot struct {
	Time time.Time

	database      string
	lists         map[string][]row // by collection, by id
	board         []string         // items of the trending board
	total, volume *big.Rat

	orders map[string][]row           // listings already put in order
	values map[string]map[string]bool // what each filter finds in a listing
	files  Files                      // what it was built from
	state  state                      // what its build handed on
}

// A row is one item of a listing: what it is found and ordered by, and its
// JSON.
type row struct {
	id                 int64
	name, symbol, slug string   // folded
	asSymbol, asSlug   string   // as the feed has them
	rank               int      // of assets, 0: none
	marketCap, volume  *big.Rat // of groups; volume of exchanges, nil: null
	json               string
	withLinks          string // of assets: the same with fields=links
}

func newRow(id int64, name, symbol, slug string) row {
	return row{id: id, name: Fold(name), symbol: Fold(symbol), slug: Fold(slug), asSymbol: symbol, asSlug: slug}
}

// Known is what can be asked for in a listing, for whoever makes up questions:
// its ids, and its slugs and symbols as the feed has them.
func (s *Snapshot) Known(collection string) (ids []int64, slugs, symbols []string) {
	if s == nil {
		return nil, nil, nil
	}
	for _, r := range s.lists[collection] {
		ids = append(ids, r.id)
		slugs = append(slugs, r.asSlug)
		symbols = append(symbols, r.asSymbol)
	}
	return ids, slugs, symbols
}

// render writes all the listings of a snapshot.
func render(f *feed, st state, settings Settings, at time.Time) *Snapshot {
	s := &Snapshot{Time: at, database: f.database, lists: map[string][]row{}}
	directory := map[string]*asset{}
	for _, a := range f.assets {
		directory[a.key] = a
		r := newRow(a.id, a.name, a.symbol, a.slug)
		r.rank = a.rank
		r.json = object(assetFields(a)...)
		r.withLinks = object(append(assetFields(a), field{"links", object(
			field{"website", quote(a.website)},
			field{"whitepaper", quote(a.whitepaper)},
		)})...)
		s.lists[assets] = append(s.lists[assets], r)
		if a.price != nil {
			r.json, r.withLinks = quoteItem(a), ""
			s.lists[quotes] = append(s.lists[quotes], r)
		}
	}
	for _, a := range trending(f.assets, settings) {
		s.board = append(s.board, quoteItem(a))
	}
	for _, e := range f.exchanges {
		r := newRow(e.id, e.name, "", e.slug)
		r.json = exchangeItem(e)
		if e.market != nil {
			r.volume = e.market.volume
		}
		s.lists[exchanges] = append(s.lists[exchanges], r)
	}
	for _, collection := range []string{categories, chains} {
		for _, g := range visibleGroups(f, st, collection) {
			market := st.groups[collection][g.key]
			r := newRow(g.id, g.name, "", g.slug)
			r.marketCap, r.volume = market.marketCap, market.volume
			if collection == categories {
				r.json = object(
					field{"id", integer(g.id)},
					field{"name", quote(g.name)},
					field{"slug", quote(g.slug)},
					field{"market", groupMarket(market, directory)},
				)
			} else {
				logo := ""
				if native := directory[g.native]; native != nil {
					logo = native.logo
				}
				r.json = object(
					field{"id", integer(g.id)},
					field{"name", quote(g.name)},
					field{"display_name", quote(g.displayName)},
					field{"slug", quote(g.slug)},
					field{"evm_chain_id", integerOrNull(g.evmChainID)},
					field{"logo", quote(logo)},
					field{"market", groupMarket(market, directory)},
				)
			}
			s.lists[collection] = append(s.lists[collection], r)
		}
	}
	return s
}

func assetFields(a *asset) []field {
	all := []field{{"id", integer(a.id)}}
	if a.rank > 0 {
		all = append(all, field{"rank", strconv.Itoa(a.rank)})
	}
	var explorers []string
	for _, e := range a.explorers {
		explorers = append(explorers, quote(e))
	}
	return append(all,
		field{"name", quote(a.name)},
		field{"symbol", quote(a.symbol)},
		field{"slug", quote(a.slug)},
		field{"logo", quote(a.logo)},
		field{"explorers", array(explorers)},
	)
}

func quoteItem(a *asset) string {
	var changes []field
	for i, w := range windows {
		changes = append(changes, field{w.name, decimalString(a.changes[i], percentPlaces)})
	}
	return object(
		field{"id", integer(a.id)},
		field{"name", quote(a.name)},
		field{"symbol", quote(a.symbol)},
		field{"slug", quote(a.slug)},
		field{"logo", quote(a.logo)},
		field{"price", decimalString(a.price, pricePlaces)},
		field{"market_cap", decimalString(a.marketCap, amountPlaces)},
		field{"volume", decimalString(a.volume, amountPlaces)},
		field{"percent_change", object(changes...)},
	)
}

func exchangeItem(e *exchange) string {
	var links []field
	for _, kind := range linkKinds {
		links = append(links, field{kind, quote(e.links[kind])})
	}
	market := "null"
	if m := e.market; m != nil {
		market = object(
			field{"volume_24h", decimalString(m.volume, amountPlaces)},
			field{"markets_count", integerOrNull(m.markets)},
			field{"coins_count", integerOrNull(m.coins)},
			field{"data_time", timeOrNull(m.dataTime)},
		)
	}
	return object(
		field{"id", integer(e.id)},
		field{"name", quote(e.name)},
		field{"slug", quote(e.slug)},
		field{"logo", quote(e.logo)},
		field{"links", object(links...)},
		field{"fees", object(
			field{"maker", decimalString(e.maker, feePlaces)},
			field{"taker", decimalString(e.taker, feePlaces)},
		)},
		field{"market", market},
	)
}

func groupMarket(m groupSnapshot, directory map[string]*asset) string {
	var gainers []string
	for _, key := range m.gainers {
		if a := directory[key]; a != nil {
			gainers = append(gainers, object(
				field{"id", integer(a.id)},
				field{"symbol", quote(a.symbol)},
				field{"name", quote(a.name)},
				field{"slug", quote(a.slug)},
				field{"logo", quote(a.logo)},
			))
		}
	}
	return object(
		field{"market_cap", decimalString(m.marketCap, amountPlaces)},
		field{"volume_24h", decimalString(m.volume, amountPlaces)},
		field{"coins_count", strconv.Itoa(m.coins)},
		field{"market_cap_share", decimalString(m.share, sharePlaces)},
		field{"snapshot_time", quote(timestamp(m.time))},
		field{"top_gainers", array(gainers)},
	)
}

// globalResult is the result of /global: the totals of the snapshot and the
// change record in force.
func (s *Snapshot) globalResult(c *change) string {
	percentage := "null"
	if c != nil && c.database == s.database {
		percentage = decimalString(c.percent, percentPlaces)
	}
	return object(
		field{"total_market_cap", decimalString(s.total, amountPlaces)},
		field{"total_volume_24h", decimalString(s.volume, amountPlaces)},
		field{"total_market_cap_change_percentage_24h", percentage},
		field{"data_time", quote(timestamp(s.Time))},
	)
}

// decimalString is a decimal as a JSON string; null when it is nil.
func decimalString(x *big.Rat, places int) string {
	if x == nil {
		return "null"
	}
	return quote(decimal(x, places))
}

func integer(n int64) string { return strconv.FormatInt(n, 10) }

func integerOrNull(n *int64) string {
	if n == nil {
		return "null"
	}
	return integer(*n)
}

func timeOrNull(t *time.Time) string {
	if t == nil {
		return "null"
	}
	return quote(timestamp(*t))
}

// timestamp writes a time as the service does: RFC3339, UTC, whole seconds.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
