package model

import (
	"math/big"
	"slices"
	"time"
)

// render creates a snapshot with the rows of a feed.
func render(f *feed, st state, settings Settings, at time.Time) *Snapshot {
	s := &Snapshot{Time: at, Database: f.database, Notice: settings.Notice, Lists: map[string][]Row{}}
	add := func(collection string, i item) { s.Lists[collection] = append(s.Lists[collection], i.row()) }
	directory := map[string]*asset{}
	inCategories, inChains := slugsByMember(f, st, categories), slugsByMember(f, st, chains)
	for _, a := range f.assets {
		directory[a.key] = a
		i := &assetItem{
			ID: a.id, Rank: a.rank, Name: text(a.name), Symbol: text(a.symbol), Slug: text(a.slug), Logo: text(a.logo),
			Explorers: []text{}, Links: &links{text(a.website), text(a.whitepaper)},
		}
		for _, e := range a.explorers {
			i.Explorers = append(i.Explorers, text(e))
		}
		add(assets, i)
		if a.price != nil {
			add(quotes, newQuote(a))
			add(markets, &marketItem{a.id, a.rank, newFigures(a), groupsOf(a, inCategories, inChains)})
		}
	}
	for _, a := range board(f.assets, settings) {
		add(trending, newQuote(a))
	}
	for _, e := range f.exchanges {
		i := &exchangeItem{ID: e.id, Name: text(e.name), Slug: text(e.slug), Logo: text(e.logo), Links: e.links}
		i.Fees.Maker, i.Fees.Taker = decimal(e.maker, feePlaces), decimal(e.taker, feePlaces)
		if m := e.market; m != nil {
			i.Market = &exchangeMarketItem{
				decimalOrNull(m.volume, amountPlaces), m.markets, m.coins, timeOrNull(m.dataTime)}
		}
		add(exchanges, i)
	}
	for _, g := range visibleGroups(f, st, categories) {
		add(categories,
			&categoryItem{g.id, text(g.name), text(g.slug), newGroupMarket(st.groups[categories][g.key], directory)})
	}
	for _, g := range visibleGroups(f, st, chains) {
		logo := ""
		if native := directory[g.native]; native != nil {
			logo = native.logo
		}
		add(chains, &chainItem{g.id, text(g.name), text(g.displayName), text(g.slug), g.evmChainID, text(logo),
			newGroupMarket(st.groups[chains][g.key], directory)})
	}
	return s
}

func newQuote(a *asset) *quoteItem { return &quoteItem{a.id, newFigures(a)} }

func newFigures(a *asset) quoteFigures {
	i := quoteFigures{
		Name: text(a.name), Symbol: text(a.symbol), Slug: text(a.slug), Logo: text(a.logo),
		Price: decimal(a.price, pricePlaces), MarketCap: decimalOrNull(a.marketCap, amountPlaces),
		Volume: decimal(a.volume, amountPlaces),
	}
	c := &i.PercentChange
	for n, to := range []*string{&c.H1, &c.H6, &c.H12, &c.H24, &c.D7, &c.D30, &c.D90, &c.Y1} {
		*to = decimal(a.changes[n], percentPlaces)
	}
	if !a.since.IsZero() {
		since := timestamp(a.since)
		i.Since = &since
	}
	return i
}

// slugsByMember returns, by the key of an asset, the slugs of the visible groups in a collection
// that have it as a member, sorted as bytes.
func slugsByMember(f *feed, st state, collection string) map[string][]text {
	slugs := map[string][]text{}
	for _, g := range visibleGroups(f, st, collection) {
		members := slices.Clone(g.members)
		slices.Sort(members)
		for _, key := range slices.Compact(members) {
			slugs[key] = append(slugs[key], text(g.slug))
		}
	}
	for _, of := range slugs {
		slices.Sort(of)
	}
	return slugs
}

// groupsOf returns the groups of an asset. An inactive asset has none.
func groupsOf(a *asset, inCategories, inChains map[string][]text) *groupsItem {
	i := &groupsItem{[]text{}, []text{}}
	if a.active {
		i.Categories, i.Chains = append(i.Categories, inCategories[a.key]...), append(i.Chains, inChains[a.key]...)
	}
	return i
}

func newGroupMarket(m groupSnapshot, directory map[string]*asset) groupMarketItem {
	i := groupMarketItem{
		MarketCap: decimal(m.marketCap, amountPlaces), Volume: decimal(m.volume, amountPlaces), Coins: m.coins,
		Share: decimal(m.share, sharePlaces),
		Time:  timestamp(m.time), Gainers: []gainerItem{},
	}
	for _, key := range m.gainers {
		if a := directory[key]; a != nil {
			i.Gainers = append(i.Gainers, gainerItem{a.id, text(a.symbol), text(a.name), text(a.slug), text(a.logo)})
		}
	}
	return i
}

func decimalOrNull(x *big.Rat, places int) *string {
	if x == nil {
		return nil
	}
	s := decimal(x, places)
	return &s
}

func timeOrNull(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := timestamp(*t)
	return &s
}
