// Package coinpaprika is a source of feeds (FEED.md) with the market data of CoinPaprika. No
// account is needed. The API is described at https://docs.coinpaprika.com. builder/source/README.md
// describes options, the key of a paid plan and the data that the API lacks.
//
// # Requests
//
//	/tickers                          for each snapshot       quotes
//	/coins                            every half hour         assets
//	/tags?additional_fields=coins     every half hour         categories
//	/exchanges                        every half hour         exchanges
//	/contracts                        every half hour         chains
//	/contracts/{platform}             each once a day, slow   members of chains
//	/coins/{id}                       each once a month, slow links of assets
//
// Each snapshot makes a few of the slow calls, eight with the free plan, first for all chains and
// then for all coins with a rank. So chains appear one after another, and links appear from the
// largest coin to the smallest. The command builder source prints how many calls a month takes, and
// how many of them the plan's quota (free; starter, pro, business, enterprise) allows.
//
// # Fields
//
// The key and the slug of a row are the provider's id (btc-bitcoin), which does not change while a
// coin keeps its name and ticker. If the id of a coin changes, the service treats the coin as a new
// one.
//
//	assets      name, symbol and active from /coins, or from /tickers for a coin
//	            that is missing there. logo from /coins/{id}, or else the
//	            provider's usual URL for logos of coins. website, explorers
//	            and whitepaper from /coins/{id}.
//	quotes      price, market_cap and volume of quotes.USD in /tickers. A coin
//	            without a price there has no quote. A market cap of 0 means
//	            that it is unknown.
//	exchanges   name; logo at the provider's usual URL for logos of
//	            exchanges; the first link of each kind. The market has the volume
//	            that the exchange reports (reported_volume_24h), markets,
//	            currencies and last_updated. There is no market if
//	            markets_data_fetched is false.
//	categories  tags; their coins are the members.
//	chains      platforms of contracts. The members are the coins that have an
//	            active contract there. The provider gives only the id of a
//	            platform, which is usually the id of a coin. This coin is the
//	            native coin and gives the chain its name, unless the table of
//	            well-known EVM chains in package provider has the platform. The
//	            chain id comes from the table.
//
// The package was checked against recorded answers from 2019 and against the provider's
// description. It does not use endpoints that need a paid plan (/changelog/ids, mappings).
package coinpaprika

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"example.com/marketdata/builder/source/provider"
)

// name is the name of the source, of its database and of its recordings.
const name = "coinpaprika"

const (
	freeBase = "https://api.coinpaprika.com/v1"
	paidBase = "https://api-pro.coinpaprika.com/v1"
	keyEnv   = "COINPAPRIKA_API_KEY"
)

// calls estimates the number of calls that each part takes, for the platforms and ranked coins of
// 2026.
var calls = map[string]int{"contracts/*": 60, "coins/*": 8000}

// The plans. The provider states only how many calls a month they allow.
var (
	free = provider.Plan{
		Base: freeBase, PerMinute: 300, Burst: 10, Slow: 8, Quotas: []provider.Quota{{Name: "free", Calls: 20_000}},
		Calls: calls,
	}
	paid = provider.Plan{Base: paidBase, KeyHeader: "Authorization", PerMinute: 600, Burst: 10, Slow: 60,
		Quotas: []provider.Quota{
			{Name: "starter", Calls: 400_000}, {Name: "pro", Calls: 500_000}, {Name: "business", Calls: 5_000_000},
			{Name: "enterprise"},
		}, Calls: calls}
)

// The times for which an answer counts as new. The package comment lists the requests.
const (
	listEvery     = 30 * time.Minute
	contractEvery = 24 * time.Hour
	detailEvery   = 30 * 24 * time.Hour
)

// Open opens this provider. rest is the part of the source's name after the colon.
func Open(rest string, env provider.Env) (*provider.Source, error) {
	o, err := provider.ParseOptions(name, rest, nil)
	if err != nil {
		return nil, err
	}
	plan := free
	if key := env.Getenv(keyEnv); key != "" {
		plan = paid
		plan.Key = key
	}
	return provider.NewSource(o, env, plan, func() provider.Market { return &market{} })
}

// market holds the provider's answers in their original form.
type market struct {
	tickers, coins, tags, exchanges, platforms []provider.Row
	// contracts has the answers to /contracts/{platform}, and details has the answers to
	// /coins/{id}, both by id.
	contracts, details map[string]*provider.Answer
}

// reduceDetail keeps the fields of a coin's details that the row of an asset needs.
var reduceDetail = provider.Keep("id", "logo", "links", "whitepaper")

// checkTexts is a Part.Check for an array in which more than half of the rows must be strings.
func checkTexts(body []byte) (rows int, err error) {
	n, err := provider.CheckArray(body)
	if err != nil {
		return 0, err
	}
	texts := 0
	for _, row := range provider.Rows(body) {
		if provider.Text(row.Raw) != "" {
			texts++
		}
	}
	if n > 0 && texts <= n/2 {
		return 0, fmt.Errorf("%d of %d rows are texts", texts, n)
	}
	return n, nil
}

// Collect implements provider.Market.
func (m *market) Collect(ctx context.Context, r provider.Round) error {
	usd, named := url.Values{"quotes": {"USD"}}, []string{"id", "name"}
	err := r.Lists(ctx, provider.List{
		Required: true, Into: &m.tickers, Part: provider.Part{Name: "tickers", Path: "/tickers", Query: usd},
	},
		provider.List{
			Directory: true, Has: []string{"is_active"}, Into: &m.coins,
			Part: provider.Part{Name: "coins", Path: "/coins", Every: listEvery},
		},
		provider.List{
			Has: named, Into: &m.exchanges,
			Part: provider.Part{
				Name: "exchanges", Value: provider.Exchanges, Path: "/exchanges", Query: usd, Every: listEvery,
			},
		},
		provider.List{
			Has: named, Into: &m.tags,
			Part: provider.Part{
				Name: "tags", Path: "/tags", Query: url.Values{"additional_fields": {"coins"}}, Every: listEvery,
			},
		},
		provider.List{
			Into: &m.platforms,
			Part: provider.Part{Name: "contracts", Path: "/contracts", Every: listEvery, Check: checkTexts},
		},
	)
	if err != nil {
		return err
	}
	m.contracts, err = r.Each(ctx, "contracts", platformsOf(m.platforms), func(id string) provider.Part {
		return provider.Part{
			Path: "/contracts/" + provider.Escape(id), Every: contractEvery, Check: provider.CheckRows("id"),
		}
	})
	if err != nil {
		return err
	}
	m.details, err = r.Each(ctx, "coins", byRank(m.tickers), func(id string) provider.Part {
		return provider.Part{
			Path: "/coins/" + provider.Escape(id), Every: detailEvery, Check: provider.CheckObject,
			Reduce: reduceDetail,
		}
	})
	return err
}
