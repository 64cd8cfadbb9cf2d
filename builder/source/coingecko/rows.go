package coingecko

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	feed "example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source/provider"
)

// Write implements provider.Market.
func (m *market) Write(f *provider.Feed) {
	m.writeAssets(f)
	f.Quotes.AddRows(m.markets, quote)
	m.writeExchanges(f)
	f.Categories.AddRows(m.categories, func(category provider.Fields) []provider.Field {
		return provider.Named(category,
			provider.Strings("members", provider.IDs(m.members[category.Text("id")].Rows())))
	})
	m.writeChains(f)
	m.writeRates(f)
	if m.recalls {
		f.Before = m.week()
	}
}

// maxWeek is the maximum number of prices taken from a sparkline. Older prices are ignored.
const maxWeek = 7*24 + 1

// week returns the prices of the preceding week, with one feed for each hour, oldest first.
func (m *market) week() (hours []*feed.Feed) {
	byHour := map[time.Time]*feed.Feed{}
	for _, row := range m.markets {
		last, err := time.Parse(time.RFC3339, row.Fields.Text("last_updated"))
		if err != nil {
			continue
		}
		prices := row.Fields.Object("sparkline_in_7d").List("price")
		for i, text := range slices.Backward(prices[max(0, len(prices)-maxWeek):]) {
			at := last.UTC().Truncate(time.Hour).Add(-time.Duration(min(len(prices), maxWeek)-1-i) * time.Hour)
			price, err := feed.ParseDecimal(text, feed.PriceDecimals, feed.PriceIntDigits)
			if err != nil {
				continue
			}
			h := byHour[at]
			if h == nil {
				h = &feed.Feed{Time: at}
				byHour[at] = h
			}
			h.Quotes = append(h.Quotes, feed.Quote{Asset: len(h.Assets), Price: price})
			h.Assets = append(h.Assets, feed.Asset{Key: row.Fields.Text("id"), Active: true})
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(byHour), time.Time.Compare) {
		hours = append(hours, byHour[at])
	}
	return hours
}

// bitcoin is the id of the coin in which the provider states rates and the volumes of exchanges.
const bitcoin = "bitcoin"

// rateCoins maps the codes of rates to coins. It omits fractions of a coin (sats, bits), since the
// value of a rate that names an asset is the price of one whole coin.
var rateCoins = map[string]string{
	"btc": bitcoin, "eth": "ethereum", "bch": "bitcoin-cash", "bnb": "binancecoin", "dot": "polkadot", "eos": "eos",
	"link": "chainlink", "ltc": "litecoin", "sol": "solana", "xlm": "stellar", "xrp": "ripple", "yfi": "yearn-finance",
}

// writeRates writes the value of each unit in dollars: dollars per bitcoin divided by units per
// bitcoin. If the unit is a coin with a price, the rate refers to the coin instead, because the
// coin's price is newer and the service keeps its history.
func (m *market) writeRates(f *provider.Feed) {
	var dollars json.RawMessage
	for _, row := range m.rates {
		if row.Fields.Text("id") == feed.USD {
			dollars = row.Fields.Get("value")
		}
	}
	f.Rates.AddRows(m.rates, func(rate provider.Fields) []provider.Field {
		worth := provider.Raw("usd", provider.Quotient(dollars, rate.Get("value")))
		coin := rateCoins[rate.Text("id")]
		if price := m.price(coin); coin != "" && provider.Quotient(price, price) != nil { // above 0
			worth = provider.String("asset", coin)
		}
		return []provider.Field{
			provider.Raw("code", rate.Get("id")), worth, provider.Raw("name", rate.Get("name")),
			provider.Raw("unit", rate.Get("unit")), provider.Raw("type", rate.Get("type")),
		}
	})
}

func (m *market) writeAssets(f *provider.Feed) {
	priced := make(map[string]provider.Fields, len(m.markets))
	for _, row := range m.markets {
		priced[row.Fields.ID()] = row.Fields
	}
	asset := func(coin provider.Fields) []provider.Field { return m.asset(coin, priced[coin.ID()]) }
	f.Assets.AddRows(m.coins, asset)
	f.Assets.AddRows(provider.Missing(m.markets, m.coins), asset)
}

// asset returns the row of an asset. coin is a row of /coins/list or of /coins/markets. marketRow
// is the row of /coins/markets, if there is one.
func (m *market) asset(coin, marketRow provider.Fields) []provider.Field {
	detail := m.details[coin.Text("id")].Object()
	links := detail.Object("links")
	logo := provider.Raw("logo", marketRow.Get("image"))
	if marketRow.Text("image") == "" {
		logo = provider.String("logo", detail.Object("image").Text("large"))
	}
	return []provider.Field{
		provider.Key("key", coin.Get("id")),
		provider.Raw("name", coin.Get("name")),
		provider.String("symbol", strings.ToUpper(coin.Text("symbol"))).Or(provider.Raw("symbol", coin.Get("symbol"))),
		provider.Key("slug", coin.Get("id")),
		logo,
		provider.Strings("explorers", links.Texts("blockchain_site")),
		provider.First("website", links.Texts("homepage")),
		provider.String("whitepaper", links.Text("whitepaper")),
		provider.Raw("platforms", coin.Get("platforms")),
	}
}

func quote(coin provider.Fields) []provider.Field {
	return provider.Quote(coin, coin.Get("current_price"), coin.Get("market_cap"), coin.Get("total_volume"),
		feed.SupplyNames)
}

func (m *market) writeExchanges(f *provider.Feed) {
	price := m.price(bitcoin)
	f.Exchanges.AddRows(m.exchanges, func(exchange provider.Fields) []provider.Field {
		return provider.Named(exchange, provider.Raw("logo", exchange.Get("image")),
			provider.Struct("links", provider.Raw("website", exchange.Get("url"))), provider.Struct("market",
				provider.Raw("volume_24h", provider.Product(exchange.Get("trade_volume_24h_btc"), price))),
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

func (m *market) writeChains(f *provider.Feed) {
	members := m.onPlatforms()
	f.Chains.AddRows(m.platforms, func(platform provider.Fields) []provider.Field {
		id := platform.Text("id")
		defer delete(members, id)
		evm := provider.CoinGeckoChains[id]
		return provider.Named(platform, provider.Strings("members", members[id]),
			provider.String("display_name", platform.Text("shortname")), provider.Integer("evm_chain_id",
				platform.Get("chain_identifier")).Or(provider.Number("evm_chain_id", evm.ID)),
			provider.String("native", cmp.Or(platform.Text("native_coin_id"), evm.Native)),
		)
	})
	for _, id := range slices.Sorted(maps.Keys(members)) {
		evm := provider.CoinGeckoChains[id]
		f.Chains.Add(provider.String("key", id), provider.String("name", cmp.Or(evm.Name, id)),
			provider.String("slug", id), provider.Strings("members", members[id]),
			provider.Number("evm_chain_id", evm.ID), provider.String("native", evm.Native),
		)
	}
}

// onPlatforms returns the coins on each platform, according to /coins/list.
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
