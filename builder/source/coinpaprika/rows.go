package coinpaprika

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"example.com/marketdata/builder/source/provider"
)

// Where the provider's pictures are, by id.
const (
	coinLogo     = "https://static.coinpaprika.com/coin/"
	exchangeLogo = "https://static.coinpaprika.com/exchanges/"
)

// write turns the provider's rows into the feed's. It sets nothing aside: a row
// that is of no use stays as it is, for the reader of the feed to say so.
func (m *market) write(f *provider.Feed) {
	m.writeAssets(f)
	m.writeQuotes(f)
	m.writeExchanges(f)
	m.writeCategories(f)
	m.writeChains(f)
}

func (m *market) writeAssets(f *provider.Feed) {
	known := map[string]bool{}
	for _, coin := range m.coins {
		if coin.Fields == nil {
			f.Assets.AddRaw(coin.Raw)
			continue
		}
		known[coin.Fields.Text("id")] = true
		m.writeAsset(f, coin.Fields)
	}
	for _, ticker := range m.tickers {
		// What is no object, or has no id, is set aside among the quotes.
		if id := ticker.Fields.Text("id"); id != "" && !known[id] {
			m.writeAsset(f, ticker.Fields)
		}
	}
}

// writeAsset adds an asset; coin is a row of /coins, or one of /tickers, which
// has no is_active.
func (m *market) writeAsset(f *provider.Feed, coin provider.Fields) {
	id := coin.Text("id")
	detail, _ := provider.Object(m.details[id])
	logo := detail.Text("logo")
	if logo == "" && id != "" {
		logo = coinLogo + provider.Escape(id) + "/logo.png"
	}
	f.Assets.Add(
		provider.Raw("key", coin.Get("id")),
		provider.Raw("name", coin.Get("name")),
		provider.Raw("symbol", coin.Get("symbol")),
		provider.Raw("slug", coin.Get("id")),
		provider.String("logo", logo),
		provider.Strings("explorers", links(detail, "explorer")),
		provider.String("website", first(links(detail, "website"))),
		provider.String("whitepaper", detail.Object("whitepaper").Text("link")),
		provider.Raw("active", coin.Get("is_active")),
	)
}

// links are those of one kind that a coin or an exchange has: links is an
// object from kinds to URLs or arrays of them, or an array of objects with type
// and url.
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

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// reduceDetail keeps of a coin's details what writeAsset reads.
func reduceDetail(body []byte) []byte {
	detail, ok := provider.Object(body)
	if !ok {
		return body
	}
	kept := map[string]json.RawMessage{}
	for _, name := range []string{"id", "logo", "links", "whitepaper"} {
		if raw := detail.Get(name); raw != nil {
			kept[name] = raw
		}
	}
	b, err := json.Marshal(kept)
	if err != nil {
		return body
	}
	return b
}

func (m *market) writeQuotes(f *provider.Feed) {
	for _, row := range m.tickers {
		ticker := row.Fields
		if ticker == nil {
			f.Quotes.AddRaw(row.Raw)
			continue
		}
		usd := ticker.Object("quotes").Object("USD")
		if usd.Get("price") == nil && ticker.Text("id") != "" {
			continue // not traded
		}
		f.Quotes.Add(
			provider.Raw("key", ticker.Get("id")),
			provider.Raw("price", usd.Get("price")),
			provider.Raw("market_cap", usd.Get("market_cap")),
			provider.Raw("volume", usd.Get("volume_24h")),
		)
	}
}

func (m *market) writeExchanges(f *provider.Feed) {
	for _, row := range m.exchanges {
		exchange := row.Fields
		if exchange == nil {
			f.Exchanges.AddRaw(row.Raw)
			continue
		}
		var urls []provider.Field
		for _, kind := range []string{"website", "twitter", "telegram", "reddit", "facebook", "chat"} {
			urls = append(urls, provider.String(kind, first(links(exchange, kind))))
		}
		logo := ""
		if id := exchange.Text("id"); id != "" {
			logo = exchangeLogo + provider.Escape(id) + "/logo.png"
		}
		market := provider.Raw("market", nil)
		if string(exchange.Get("markets_data_fetched")) != "false" {
			market = provider.Struct("market",
				provider.Raw("volume_24h", exchange.Object("quotes").Object("USD").Get("reported_volume_24h")),
				provider.Raw("markets_count", exchange.Get("markets")),
				provider.Raw("coins_count", exchange.Get("currencies")),
				provider.Raw("data_time", exchange.Get("last_updated")),
			)
		}
		f.Exchanges.Add(
			provider.Raw("key", exchange.Get("id")),
			provider.Raw("name", exchange.Get("name")),
			provider.Raw("slug", exchange.Get("id")),
			provider.String("logo", logo),
			provider.Struct("links", urls...),
			market,
		)
	}
}

func (m *market) writeCategories(f *provider.Feed) {
	for _, row := range m.tags {
		tag := row.Fields
		if tag == nil {
			f.Categories.AddRaw(row.Raw)
			continue
		}
		f.Categories.Add(
			provider.Raw("key", tag.Get("id")),
			provider.Raw("name", tag.Get("name")),
			provider.Raw("slug", tag.Get("id")),
			provider.Raw("members", tag.Get("coins")),
		)
	}
}

func (m *market) writeChains(f *provider.Feed) {
	names := m.names()
	for _, row := range m.platforms {
		id := provider.Text(row.Raw)
		if id == "" {
			// Not an id: as a row it has no key, which is for the reader to say.
			f.Chains.AddRaw(row.Raw)
			continue
		}
		chain, native := id, ""
		if _, ok := names[id]; ok {
			chain, native = names[id], id
		}
		evm, wellKnown := provider.CoinPaprikaChain(id)
		var evmID json.RawMessage
		if wellKnown {
			chain, native = evm.Name, evm.Native
			evmID = strconv.AppendUint(nil, evm.ID, 10)
		}
		f.Chains.Add(
			provider.String("key", id),
			provider.String("name", chain),
			provider.String("slug", id),
			provider.Strings("members", contractors(m.contracts[id])),
			provider.Raw("evm_chain_id", evmID),
			provider.String("native", native),
		)
	}
}

// contractors are the coins that have an active contract on a platform.
func contractors(body []byte) (ids []string) {
	for _, contract := range provider.Rows(body) {
		if id := contract.Fields.Text("id"); id != "" && string(contract.Fields.Get("active")) != "false" {
			ids = append(ids, id)
		}
	}
	return ids
}

// names are those of all coins, by id.
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

// platformsOf lists the platforms, those first that are well known.
func platformsOf(rows []provider.Row) (ids []string) {
	for _, row := range rows {
		if id := provider.Text(row.Raw); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.SortStableFunc(ids, func(a, b string) int {
		_, aKnown := provider.CoinPaprikaChain(a)
		_, bKnown := provider.CoinPaprikaChain(b)
		switch {
		case aKnown && !bKnown:
			return -1
		case bKnown && !aKnown:
			return 1
		}
		return 0
	})
	return ids
}

// byRank lists the coins that have a rank, in its order.
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

// newest is the latest last_updated of the tickers; zero when there is none.
func (m *market) newest() (t time.Time) {
	for _, ticker := range m.tickers {
		if at, err := time.Parse(time.RFC3339, ticker.Fields.Text("last_updated")); err == nil && at.After(t) {
			t = at
		}
	}
	return t
}
