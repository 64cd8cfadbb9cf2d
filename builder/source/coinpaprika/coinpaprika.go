// Package coinpaprika is the market as CoinPaprika knows it: a source of feeds (FEED.md) that needs
// no account. Its API is described at https://docs.coinpaprika.com; options, the key of a paid plan
// and what it does not have: builder/source/README.md.
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
// Slow calls are made a few with each snapshot: eight, of the free plan, until all chains and then
// all coins with a rank have been asked for. So chains appear one after the other, and links come
// from the largest coin to the smallest. builder source prints the calls of a month, and how many
// the quota of the plan (free; starter, pro, business, enterprise) allows.
//
// # Fields
//
// The key and the slug of a row are the provider's id (btc-bitcoin), which does not change while a
// coin keeps its name and ticker. A coin whose id changes is another coin to the service.
//
//	assets      name, symbol and active from /coins, or from /tickers for a coin
//	            that is missing there. logo is where /coins/{id} says, or else
//	            where the provider's pictures of coins are. website, explorers
//	            and whitepaper from /coins/{id}.
//	quotes      price, market_cap and volume of quotes.USD in /tickers. A coin
//	            that has no price there has no quote. A market cap of 0 is not
//	            known.
//	exchanges   name; logo where the provider's pictures of exchanges are; the
//	            first of each kind of links. The market is the volume that the
//	            exchange reports (reported_volume_24h), markets, currencies and
//	            last_updated; there is none where markets_data_fetched is false.
//	categories  tags; their coins are the members.
//	chains      platforms of contracts. The members are the coins that have an
//	            active contract there. The provider says no more of a platform
//	            than its id, which is mostly that of a coin: it gives name and
//	            native coin, unless the table of well-known EVM chains in package
//	            provider has the platform. The chain id is that table's.
//
// All this was checked against recorded answers of 2019 and against the provider's description;
// what needs paid plans (/changelog/ids, mappings) is not used.
package coinpaprika

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"example.com/marketdata/builder/source/provider"
)

// name is the source's, of its database and of its recordings.
const name = "coinpaprika"

const (
	freeBase = "https://api.coinpaprika.com/v1"
	paidBase = "https://api-pro.coinpaprika.com/v1"
	keyEnv   = "COINPAPRIKA_API_KEY"
)

// calls are the calls for the platforms and ranked coins of 2026.
var calls = map[string]int{"contracts/*": 60, "coins/*": 8000}

// The plans. The provider names only the calls that may be made in a month.
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

// How long answers count as new; see the package's comment.
const (
	listEvery     = 30 * time.Minute
	contractEvery = 24 * time.Hour
	detailEvery   = 30 * 24 * time.Hour
)

// Open opens this provider; rest is the part of the source's name after the colon.
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

// market has the provider's answers, in its own terms.
type market struct {
	tickers, coins, tags, exchanges, platforms []provider.Row
	// contracts are the answers to /contracts/{platform}, and details those to /coins/{id}, by id.
	contracts, details map[string]*provider.Answer
}

// reduceDetail keeps the fields of a coin's details that asset reads.
var reduceDetail = provider.Keep("id", "logo", "links", "whitepaper")

// checkTexts is a Part.Check for an array in which more than half of the rows are texts.
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
