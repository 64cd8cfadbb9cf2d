package coinmarketcap

import (
	"encoding/json"

	feed "example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source/provider"
)

// Write implements provider.Market.
func (m *market) Write(f *provider.Feed) {
	f.Assets.AddRows(m.active, m.asset)
	f.Assets.AddRows(m.inactive, m.asset)
	f.Assets.AddRows(provider.Missing(m.listings, m.active, m.inactive), m.asset)
	f.Quotes.AddRows(m.listings, quote)
	f.Exchanges.AddRows(m.exchanges, m.exchange)
	f.Categories.AddRows(m.categories, func(category provider.Fields) []provider.Field {
		return provider.Named(category, provider.Strings("members", provider.IDs(m.members[category.ID()].Rows())))
	})
	m.writeChains(f)
}

// row returns a row that begins with the usual fields.
func row(of provider.Fields, more ...provider.Field) []provider.Field {
	return append([]provider.Field{
		provider.Key("key", of.Get("id")), provider.Raw("name", of.Get("name")), provider.Raw("slug", of.Get("slug")),
	}, more...)
}

// logo returns a field with the info's logo, or else with the URL that begins with base and names
// the id.
func logo(info provider.Fields, base, id string) provider.Field {
	if id == "" {
		return provider.Raw("logo", nil)
	}
	return provider.String("logo", info.Text("logo")).Or(provider.String("logo", base+id+".png"))
}

// asset returns the row of an asset. coin is a row of the map, or a row of the listings, which has
// no is_active.
func (m *market) asset(coin provider.Fields) []provider.Field {
	info := m.infos[coin.ID()]
	urls := info.Object("urls")
	active := coin.Get("is_active")
	switch string(active) {
	case "1":
		active = []byte("true")
	case "0", "-1":
		active = []byte("false")
	}
	return row(coin, provider.Raw("symbol", coin.Get("symbol")), logo(info, coinLogo, coin.ID()),
		provider.Strings("explorers", urls.Texts("explorer")), provider.First("website", urls.Texts("website")),
		provider.First("whitepaper", urls.Texts("technical_doc")), provider.Raw("active", active),
		provider.Platforms(func(add func(name string, address json.RawMessage)) {
			platform := coin.Object("platform")
			add(platform.Text("slug"), platform.Get("token_address"))
		}),
	)
}

func quote(coin provider.Fields) []provider.Field {
	usd := coin.Object("quote").Object("USD")
	return provider.Quote(coin, usd.Get("price"), usd.Get("market_cap"), usd.Get("volume_24h"), feed.SupplyNames)
}

func (m *market) exchange(of provider.Fields) []provider.Field {
	info := m.exchangeInfos[of.ID()]
	var links []provider.Field
	for _, kind := range []string{"website", "twitter", "chat"} {
		links = append(links, provider.First(kind, info.Object("urls").Texts(kind)))
	}
	return row(of, logo(info, exchangeLogo, of.ID()), provider.Struct("links", links...), provider.Struct("market",
		provider.Raw("volume_24h", of.Object("quote").Object("USD").Get("volume_24h")),
		provider.Raw("markets_count", of.Get("num_market_pairs")),
		provider.DataTime("data_time", of.Get("last_updated")),
	),
	)
}

// writeChains writes the platforms in the order in which the map names them.
func (m *market) writeChains(f *provider.Feed) {
	var platforms []provider.Fields
	members := map[string][]string{}
	for _, coin := range m.active {
		platform := coin.Fields.Object("platform")
		id, coin := platform.ID(), coin.Fields.ID()
		if id == "" || coin == "" {
			continue
		}
		if members[id] == nil {
			platforms = append(platforms, platform)
		}
		members[id] = append(members[id], coin)
	}
	for _, platform := range platforms {
		id := platform.ID()
		f.Chains.Add(row(platform, provider.Strings("members", members[id]), provider.String("native", id))...)
	}
}
