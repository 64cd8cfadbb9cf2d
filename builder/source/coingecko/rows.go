package coingecko

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"example.com/marketdata/builder/source/provider"
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
	priced := make(map[string]provider.Fields, len(m.markets))
	for _, row := range m.markets {
		if id := row.Fields.Text("id"); id != "" {
			priced[id] = row.Fields
		}
	}
	for _, coin := range m.coins {
		if coin.Fields == nil {
			f.Assets.AddRaw(coin.Raw)
			continue
		}
		id := coin.Fields.Text("id")
		m.writeAsset(f, coin.Fields, priced[id])
		delete(priced, id)
	}
	for _, row := range m.markets {
		// What is no object, or has no id, is set aside among the quotes.
		id := row.Fields.Text("id")
		if _, missing := priced[id]; missing {
			m.writeAsset(f, row.Fields, row.Fields)
			delete(priced, id)
		}
	}
}

// writeAsset adds an asset; coin is a row of /coins/list or of /coins/markets,
// priced the latter if there is one.
func (m *market) writeAsset(f *provider.Feed, coin, priced provider.Fields) {
	detail := m.detail(coin.Text("id"))
	links := detail.Object("links")
	logo := priced.Get("image")
	if provider.Text(logo) == "" {
		logo = provider.String("", detail.Object("image").Text("large")).Value()
	}
	f.Assets.Add(
		provider.Raw("key", coin.Get("id")),
		provider.Raw("name", coin.Get("name")),
		provider.Raw("symbol", upper(coin.Get("symbol"))),
		provider.Raw("slug", coin.Get("id")),
		provider.Raw("logo", logo),
		provider.Strings("explorers", texts(links.List("blockchain_site"))),
		provider.String("website", first(texts(links.List("homepage")))),
		provider.String("whitepaper", links.Text("whitepaper")),
	)
}

func (m *market) detail(id string) provider.Fields {
	pages := m.details[id]
	if len(pages) == 0 {
		return nil
	}
	detail, _ := provider.Object(pages[0].Body)
	return detail
}

// upper is a ticker as it is written everywhere but in this provider's answers.
// What is no text stays as it is.
func upper(raw json.RawMessage) json.RawMessage {
	if s := provider.Text(raw); s != "" {
		return provider.String("", strings.ToUpper(s)).Value()
	}
	return raw
}

// texts are the strings of a list that are not empty, each once.
func texts(list []json.RawMessage) (out []string) {
	for _, raw := range list {
		if s := provider.Text(raw); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
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
	return keepFields(body, detail, "id", "links", "image")
}

func keepFields(body []byte, of provider.Fields, names ...string) []byte {
	kept := map[string]json.RawMessage{}
	for _, name := range names {
		if raw := of.Get(name); raw != nil {
			kept[name] = raw
		}
	}
	b, err := json.Marshal(kept)
	if err != nil {
		return body
	}
	return b
}

// reduceMembers keeps of the rows of a category's page what writeCategories
// reads: the ids.
func reduceMembers(body []byte) []byte {
	kept := []json.RawMessage{}
	for _, row := range provider.Rows(body) {
		kept = append(kept, keepFields(row.Raw, row.Fields, "id"))
	}
	b, err := json.Marshal(kept)
	if err != nil {
		return body
	}
	return b
}

func (m *market) writeQuotes(f *provider.Feed) {
	for _, row := range m.markets {
		coin := row.Fields
		switch {
		case coin == nil:
			f.Quotes.AddRaw(row.Raw)
		case coin.Get("current_price") == nil && coin.Text("id") != "":
			// Not traded.
		default:
			f.Quotes.Add(
				provider.Raw("key", coin.Get("id")),
				provider.Raw("price", coin.Get("current_price")),
				provider.Raw("market_cap", coin.Get("market_cap")),
				provider.Raw("volume", coin.Get("total_volume")),
			)
		}
	}
}

func (m *market) writeExchanges(f *provider.Feed) {
	bitcoin := m.price("bitcoin")
	for _, row := range m.exchanges {
		exchange := row.Fields
		if exchange == nil {
			f.Exchanges.AddRaw(row.Raw)
			continue
		}
		f.Exchanges.Add(
			provider.Raw("key", exchange.Get("id")),
			provider.Raw("name", exchange.Get("name")),
			provider.Raw("slug", exchange.Get("id")),
			provider.Raw("logo", exchange.Get("image")),
			provider.Struct("links", provider.Raw("website", exchange.Get("url"))),
			provider.Struct("market", provider.Raw("volume_24h", product(exchange.Get("trade_volume_24h_btc"), bitcoin))),
		)
	}
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

func (m *market) writeCategories(f *provider.Feed) {
	for _, row := range m.categories {
		category := row.Fields
		if category == nil {
			f.Categories.AddRaw(row.Raw)
			continue
		}
		var members []string
		for _, page := range m.members[category.Text("id")] {
			members = append(members, idsOf(provider.Rows(page.Body))...)
		}
		f.Categories.Add(
			provider.Raw("key", category.Get("id")),
			provider.Raw("name", category.Get("name")),
			provider.Raw("slug", category.Get("id")),
			provider.Strings("members", members),
		)
	}
}

func (m *market) writeChains(f *provider.Feed) {
	members := m.onPlatforms()
	for _, row := range m.platforms {
		platform := row.Fields
		if platform == nil {
			f.Chains.AddRaw(row.Raw)
			continue
		}
		id := platform.Text("id")
		evmID, native := platform.Get("chain_identifier"), platform.Text("native_coin_id")
		if evm, ok := provider.CoinGeckoChain(id); ok {
			if evmID == nil {
				evmID = number(evm.ID)
			}
			if native == "" {
				native = evm.Native
			}
		}
		f.Chains.Add(
			provider.Raw("key", platform.Get("id")),
			provider.Raw("name", platform.Get("name")),
			provider.Raw("slug", platform.Get("id")),
			provider.Strings("members", members[id]),
			provider.String("display_name", platform.Text("shortname")),
			provider.Raw("evm_chain_id", evmID),
			provider.String("native", native),
		)
		delete(members, id)
	}
	for _, id := range sortedKeys(members) {
		chain, evmID := id, json.RawMessage(nil)
		evm, ok := provider.CoinGeckoChain(id)
		if ok {
			chain, evmID = evm.Name, number(evm.ID)
		}
		f.Chains.Add(
			provider.String("key", id),
			provider.String("name", chain),
			provider.String("slug", id),
			provider.Strings("members", members[id]),
			provider.Raw("evm_chain_id", evmID),
			provider.String("native", evm.Native),
		)
	}
}

func number(n uint64) json.RawMessage { return strconv.AppendUint(nil, n, 10) }

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
