package coinpaprika

import (
	"cmp"
	"slices"
	"strconv"

	feed "example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source/provider"
)

// The URLs of the provider's logos, up to the id.
const (
	coinLogo     = "https://static.coinpaprika.com/coin/"
	exchangeLogo = "https://static.coinpaprika.com/exchanges/"
)

// Write implements provider.Market.
func (m *market) Write(f *provider.Feed) {
	f.Assets.AddRows(m.coins, m.asset)
	f.Assets.AddRows(provider.Missing(m.tickers, m.coins), m.asset)
	f.Quotes.AddRows(m.tickers, quote)
	f.Exchanges.AddRows(m.exchanges, exchange)
	f.Categories.AddRows(m.tags, func(tag provider.Fields) []provider.Field {
		return provider.Named(tag, provider.Raw("members", tag.Get("coins")))
	})
	m.writeChains(f)
}

// asset returns the row of an asset. coin is a row of /coins, or a row of /tickers, which has no
// is_active.
func (m *market) asset(coin provider.Fields) []provider.Field {
	detail := m.details[coin.Text("id")].Object()
	return []provider.Field{
		provider.Key("key", coin.Get("id")),
		provider.Raw("name", coin.Get("name")),
		provider.Raw("symbol", coin.Get("symbol")),
		provider.Key("slug", coin.Get("id")),
		provider.String("logo", detail.Text("logo")).Or(logo(coinLogo, coin)),
		provider.Strings("explorers", links(detail, "explorer")),
		provider.First("website", links(detail, "website")),
		provider.String("whitepaper", detail.Object("whitepaper").Text("link")),
		provider.Raw("active", coin.Get("is_active")),
	}
}

// logo returns a field with the URL of a row's logo. base is the part of the URL before the row's
// id.
func logo(base string, of provider.Fields) provider.Field {
	id := of.Text("id")
	if id == "" {
		return provider.Raw("logo", nil)
	}
	return provider.String("logo", base+provider.Escape(id)+"/logo.png")
}

// links returns the URLs of one kind from the member "links" of a coin or an exchange. This member
// is either an object that maps kinds to URLs or to arrays of URLs, or an array of objects with the
// members "type" and "url".
func links(of provider.Fields, kind string) (urls []string) {
	add := func(url string) {
		if url != "" && !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	add(of.Object("links").Text(kind))
	for _, raw := range of.Object("links").List(kind) {
		add(provider.Text(raw))
	}
	for _, raw := range of.List("links") {
		if link, _ := provider.Object(raw); link.Text("type") == kind {
			add(link.Text("url"))
		}
	}
	return urls
}

func quote(ticker provider.Fields) []provider.Field {
	usd := ticker.Object("quotes").Object("USD")
	return provider.Quote(ticker, usd.Get("price"), usd.Get("market_cap"), usd.Get("volume_24h"), feed.SupplyNames)
}

func exchange(of provider.Fields) []provider.Field {
	var urls []provider.Field
	for _, kind := range []string{"website", "twitter", "telegram", "reddit", "facebook", "chat"} {
		urls = append(urls, provider.First(kind, links(of, kind)))
	}
	market := provider.Raw("market", nil)
	if string(of.Get("markets_data_fetched")) != "false" {
		market = provider.Struct("market",
			provider.Raw("volume_24h", of.Object("quotes").Object("USD").Get("reported_volume_24h")),
			provider.Raw("markets_count", of.Get("markets")), provider.Raw("coins_count", of.Get("currencies")),
			provider.DataTime("data_time", of.Get("last_updated")),
		)
	}
	return provider.Named(of, logo(exchangeLogo, of), provider.Struct("links", urls...), market)
}

func (m *market) writeChains(f *provider.Feed) {
	names := m.names()
	for _, row := range m.platforms {
		id := provider.Text(row.Raw)
		if id == "" {
			// Without an id the row has no key, so the feed reader sets it aside.
			f.Chains.AddRaw(row.Raw)
			continue
		}
		native := ""
		if names[id] != "" {
			native = id
		}
		evm, wellKnown := provider.CoinPaprikaChains[id]
		if wellKnown {
			native = evm.Native
		}
		f.Chains.Add(provider.String("key", id), provider.String("name", cmp.Or(evm.Name, names[id], id)),
			provider.String("slug", id), provider.Strings("members", contractors(m.contracts[id].Rows())),
			provider.Number("evm_chain_id", evm.ID), provider.String("native", native),
		)
	}
}

// contractors returns the coins that have an active contract on a platform.
func contractors(contracts []provider.Row) (ids []string) {
	for _, contract := range contracts {
		if id := contract.Fields.Text("id"); id != "" && string(contract.Fields.Get("active")) != "false" {
			ids = append(ids, id)
		}
	}
	return ids
}

// names returns the names of all coins, by id.
func (m *market) names() map[string]string {
	names := map[string]string{}
	for _, rows := range [][]provider.Row{m.coins, m.tickers} {
		for _, coin := range rows {
			if id, name := coin.Fields.Text("id"), coin.Fields.Text("name"); id != "" && name != "" && names[id] == "" {
				names[id] = name
			}
		}
	}
	return names
}

// platformsOf returns the platforms, the well-known ones first.
func platformsOf(rows []provider.Row) (ids []string) {
	var others []string
	for _, row := range rows {
		id, into := provider.Text(row.Raw), &others
		if _, known := provider.CoinPaprikaChains[id]; known {
			into = &ids
		}
		if id != "" && !slices.Contains(*into, id) {
			*into = append(*into, id)
		}
	}
	return append(ids, others...)
}

// byRank returns the coins that have a rank, in order of rank.
func byRank(tickers []provider.Row) []string {
	type ranked struct {
		rank uint64
		id   string
	}
	var list []ranked
	seen := map[string]bool{}
	for _, ticker := range tickers {
		rank, err := strconv.ParseUint(string(ticker.Fields.Get("rank")), 10, 64)
		if id := ticker.Fields.Text("id"); err == nil && rank > 0 && id != "" && !seen[id] {
			seen[id] = true
			list = append(list, ranked{rank, id})
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.id
	}
	return ids
}
