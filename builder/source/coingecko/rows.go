package coingecko

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"example.com/marketdata/builder/source/provider"
)

// Write implements provider.Market.
func (m *market) Write(f *provider.Feed) {
	m.writeAssets(f)
	f.Quotes.AddRows(m.markets, quote)
	m.writeExchanges(f)
	f.Categories.AddRows(m.categories, func(category provider.Fields) []provider.Field {
		return provider.Named(category, provider.Strings("members", idsOf(m.members[category.Text("id")].Rows())))
	})
	m.writeChains(f)
}

func (m *market) writeAssets(f *provider.Feed) {
	priced := make(map[string]provider.Fields, len(m.markets))
	for _, row := range m.markets {
		if id := row.Fields.Text("id"); id != "" {
			priced[id] = row.Fields
		}
	}
	f.Assets.AddRows(m.coins, func(coin provider.Fields) []provider.Field {
		id := coin.Text("id")
		defer delete(priced, id)
		return m.asset(coin, priced[id])
	})
	for _, row := range m.markets {
		// What is no object, or has no id, is set aside among the quotes.
		id := row.Fields.Text("id")
		if _, missing := priced[id]; missing {
			f.Assets.Add(m.asset(row.Fields, row.Fields)...)
			delete(priced, id)
		}
	}
}

// asset is an asset's row; coin is a row of /coins/list or of /coins/markets,
// priced the latter if there is one.
func (m *market) asset(coin, priced provider.Fields) []provider.Field {
	detail := m.details[coin.Text("id")].Object()
	links := detail.Object("links")
	logo := provider.Raw("logo", priced.Get("image"))
	if priced.Text("image") == "" {
		logo = provider.String("logo", detail.Object("image").Text("large"))
	}
	return []provider.Field{
		provider.Raw("key", coin.Get("id")),
		provider.Raw("name", coin.Get("name")),
		provider.String("symbol", strings.ToUpper(coin.Text("symbol"))).Or(provider.Raw("symbol", coin.Get("symbol"))),
		provider.Raw("slug", coin.Get("id")),
		logo,
		provider.Strings("explorers", links.Texts("blockchain_site")),
		provider.First("website", links.Texts("homepage")),
		provider.String("whitepaper", links.Text("whitepaper")),
	}
}

// quote is a quote's row; none of a coin that is not traded.
func quote(coin provider.Fields) []provider.Field {
	if coin.Get("current_price") == nil && coin.Text("id") != "" {
		return nil
	}
	return []provider.Field{
		provider.Raw("key", coin.Get("id")),
		provider.Raw("price", coin.Get("current_price")),
		provider.Raw("market_cap", coin.Get("market_cap")),
		provider.Raw("volume", coin.Get("total_volume")),
	}
}

func (m *market) writeExchanges(f *provider.Feed) {
	bitcoin := m.price("bitcoin")
	f.Exchanges.AddRows(m.exchanges, func(exchange provider.Fields) []provider.Field {
		return provider.Named(exchange,
			provider.Raw("logo", exchange.Get("image")),
			provider.Struct("links", provider.Raw("website", exchange.Get("url"))),
			provider.Struct("market", provider.Raw("volume_24h", product(exchange.Get("trade_volume_24h_btc"), bitcoin))),
		)
	})
}

func (m *market) price(id string) json.RawMessage {
	for _, row := range m.markets {
		if row.Fields.Text("id") == id {
			return row.Fields.Get("current_price")
		}
	}
	return nil
}

// maxFactor bounds the length of a number that is multiplied: a longer one is
// none that a provider writes.
const maxFactor = 200

// product multiplies two numbers exactly. It returns nil when one is missing or
// is too long, and a when a is no number: that is for the reader to judge.
func product(a, b json.RawMessage) json.RawMessage {
	switch {
	case a == nil || !isNumber(a):
		return a
	case b == nil || !isNumber(b) || len(a) > maxFactor || len(b) > maxFactor:
		return nil
	}
	x, _, errX := apd.NewFromString(string(a))
	y, _, errY := apd.NewFromString(string(b))
	if errX != nil || errY != nil {
		return nil
	}
	exact := apd.BaseContext.WithPrecision(2 * maxFactor)
	if cond, err := exact.Mul(x, x, y); err != nil || cond.Any() {
		return nil
	}
	return x.Append(nil, 'G')
}

func isNumber(raw json.RawMessage) bool {
	return raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9'
}

func (m *market) writeChains(f *provider.Feed) {
	members := m.onPlatforms()
	f.Chains.AddRows(m.platforms, func(platform provider.Fields) []provider.Field {
		id := platform.Text("id")
		defer delete(members, id)
		evm, _ := provider.CoinGeckoChain(id)
		return provider.Named(platform,
			provider.Strings("members", members[id]),
			provider.String("display_name", platform.Text("shortname")),
			provider.Integer("evm_chain_id", platform.Get("chain_identifier")).Or(provider.Number("evm_chain_id", evm.ID)),
			provider.String("native", cmp.Or(platform.Text("native_coin_id"), evm.Native)),
		)
	})
	for _, id := range slices.Sorted(maps.Keys(members)) {
		evm, _ := provider.CoinGeckoChain(id)
		f.Chains.Add(
			provider.String("key", id),
			provider.String("name", cmp.Or(evm.Name, id)),
			provider.String("slug", id),
			provider.Strings("members", members[id]),
			provider.Number("evm_chain_id", evm.ID),
			provider.String("native", evm.Native),
		)
	}
}

// onPlatforms lists the coins that are on each platform, by /coins/list.
func (m *market) onPlatforms() map[string][]string {
	on := map[string][]string{}
	for _, coin := range m.coins {
		id := coin.Fields.Text("id")
		if id == "" {
			continue
		}
		for platform := range coin.Fields.Object("platforms") {
			if platform != "" {
				on[platform] = append(on[platform], id)
			}
		}
	}
	return on
}
