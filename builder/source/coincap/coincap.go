// Package coincap is a source of feeds (FEED.md) with the market data of CoinCap. The API, version
// 3, is described at https://pro.coincap.io/api-docs. builder/source/README.md describes options,
// the key and the data that the API lacks.
//
// # Requests
//
//	/assets, pages of 2,000           every time              assets, quotes, chains
//	/exchanges, pages of 2,000        every half hour         exchanges
//
// Each list takes about two calls, including the empty page at its end. The plans count credits,
// and larger answers cost more credits. The quota (free; paid, with the quota option) counts calls.
//
// # Fields
//
// The key and the slug of a row are the provider's id (bitcoin, binance).
//
//	assets      name, symbol; explorer is the only link. All are active.
//	            platforms from tokens, on the chains below. If a chain has several
//	            addresses, the first counts.
//	quotes      priceUsd, marketCapUsd and volumeUsd24Hr, which are strings, with
//	            all their digits. supply is the circulating supply, maxSupply the
//	            maximum.
//	chains      the EVM chains of package provider's table on which an asset has
//	            tokens. The members are these assets. The key is the chain id.
//	exchanges   name, exchangeUrl; volumeUsd, tradingPairs and updated.
//
// The package was written from the provider's description, and checked against answers made by hand
// from that description.
package coincap

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"time"

	"example.com/marketdata/builder/source/provider"
)

// name is the name of the source, of its database and of its recordings.
const name = "coincap"

var plan = provider.Plan{
	Base: "https://rest.coincap.io/v3", KeyHeader: "Authorization", KeyPrefix: "Bearer ", KeyEnv: "COINCAP_API_KEY",
	PerMinute: 60, Burst: 5,
	Quotas: []provider.Quota{{Name: "free", Calls: 2500}, {Name: "paid"}},
	Calls:  map[string]int{"assets": 2, "exchanges": 2},
}

const exchangesEvery = 30 * time.Minute

// Open opens this provider. rest is the part of the source's name after the colon.
func Open(rest string, env provider.Env) (*provider.Source, error) {
	o, err := provider.ParseOptions(name, rest, nil)
	if err != nil {
		return nil, err
	}
	return provider.NewSource(o, env, plan, func() provider.Market { return &market{} })
}

// market holds the provider's answers in their original form.
type market struct{ assets, exchanges []provider.Row }

// Collect implements provider.Market.
func (m *market) Collect(ctx context.Context, r provider.Round) error {
	page := url.Values{"limit": {"2000"}} // the maximum that the provider allows
	return r.Lists(ctx, provider.List{
		Required: true, Time: "timestamp", Has: []string{"priceUsd"}, Into: &m.assets,
		Part: provider.Part{
			Name: "assets", Path: "/assets", Query: page, Pager: provider.Offset("offset", 0, 1), At: "data",
		},
	},
		provider.List{
			Has: []string{"exchangeId", "name"}, Into: &m.exchanges,
			Part: provider.Part{
				Name: "exchanges", Value: provider.Exchanges, Path: "/exchanges", Query: page,
				Pager: provider.Offset("offset", 0, 1), At: "data", Every: exchangesEvery,
			},
		},
	)
}

// Write implements provider.Market.
func (m *market) Write(f *provider.Feed) {
	f.Assets.AddRows(m.assets, func(asset provider.Fields) []provider.Field {
		var explorers []string
		if url := asset.Text("explorer"); url != "" {
			explorers = append(explorers, url)
		}
		return provider.Named(asset, provider.Raw("symbol", asset.Get("symbol")),
			provider.Strings("explorers", explorers),
			provider.Platforms(func(add func(name string, address json.RawMessage)) {
				tokens := asset.Object("tokens")
				for id := range tokens {
					if _, ok := provider.EVMChainByID(id); ok && len(tokens.List(id)) > 0 {
						add(id, tokens.List(id)[0])
					}
				}
			}))
	})
	f.Quotes.AddRows(m.assets, func(asset provider.Fields) []provider.Field {
		return provider.Quote(asset, asset.Get("priceUsd"), asset.Get("marketCapUsd"), asset.Get("volumeUsd24Hr"),
			[3]string{"supply", "", "maxSupply"})
	})
	f.Exchanges.AddRows(m.exchanges, func(exchange provider.Fields) []provider.Field {
		id := exchange.Get("exchangeId")
		return []provider.Field{
			provider.Raw("key", id), provider.Raw("name", exchange.Get("name")), provider.Raw("slug", id),
			provider.Struct("links", provider.Raw("website", exchange.Get("exchangeUrl"))),
			provider.Struct("market", provider.Raw("volume_24h", exchange.Get("volumeUsd")),
				provider.Integer("markets_count", exchange.Get("tradingPairs")),
				provider.DataTime("data_time", exchange.Get("updated")),
			),
		}
	})
	m.writeChains(f)
}

// writeChains writes the chains on which assets have tokens, in the order of their ids. It omits
// other chains, since the provider does not name them.
func (m *market) writeChains(f *provider.Feed) {
	members := map[string][]string{}
	for _, asset := range m.assets {
		if id := asset.Fields.ID(); id != "" {
			for chain := range asset.Fields.Object("tokens") {
				members[chain] = append(members[chain], id)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		if chain, ok := provider.EVMChainByID(id); ok {
			f.Chains.Add(provider.String("key", id), provider.String("name", chain.Name), provider.String("slug", id),
				provider.Strings("members", members[id]), provider.Number("evm_chain_id", chain.ID),
			)
		}
	}
}
