// Package coingecko is a source of feeds (FEED.md) with the market data of CoinGecko. The API is
// described at https://docs.coingecko.com. builder/source/README.md describes options, keys and the
// data that the API lacks. If there are keys for both a paid plan and a free account, the paid
// plan's key is used. The two have different hosts and headers.
//
// # Requests
//
//	                             demo         paid
//	/coins/markets               every time   every time    quotes, names, logos
//	  pages of 250               1            all, and an empty one
//	/coins/list, with platforms  6 hours      1 hour        assets, members of chains
//	/exchanges, pages of 250     6 hours      every time    exchanges
//	/coins/categories            a day        6 hours       categories
//	/asset_platforms             a day        6 hours       chains
//	/exchange_rates              1 hour       every time    rates
//	/coins/markets?category=…    each once a week, slow     members of categories
//	/coins/{id}                  each once a month, slow    links of assets (details=on)
//
// Each snapshot makes a few of the slow calls, for the largest categories first: one with a demo
// plan, so it takes a few days to request each category once, and thirty with a paid plan. The
// command builder source prints how many calls a month takes, and how many of them the plan's quota
// (free, demo; basic, analyst, lite, enterprise) allows.
//
// # Fields
//
// The key and the slug of a row are the provider's id (bitcoin). If the id of a coin changes, the
// service treats the coin as a new one.
//
//	assets      the coins of /coins/list, and those of /coins/markets that are
//	            missing there. symbol in upper case. logo is the image of
//	            /coins/markets or else of /coins/{id}. website, explorers and
//	            whitepaper from /coins/{id}. platforms from /coins/list. All are
//	            active.
//	quotes      current_price, market_cap and total_volume of /coins/markets, in
//	            full precision, including coins that represent others (WBTC,
//	            stETH). A coin without a price there has no quote. A
//	            market cap or a supply of 0 means that it is unknown.
//	exchanges   name, image, url. volume_24h is trade_volume_24h_btc times the
//	            current_price of bitcoin, multiplied exactly, since the provider
//	            gives volumes in bitcoin only. It is null if bitcoin has no price.
//	categories  the members are the coins of the category in /coins/markets.
//	chains      asset platforms. The members are the coins that are on the platform
//	            according to /coins/list. display_name is shortname, if there is one.
//	            Chain id and native coin come from the provider, or else from the
//	            table of well-known EVM chains in package provider. A platform
//	            that only coins name is a chain, too. Its name comes from the
//	            table, or else is its id.
//
//	rates       from /exchange_rates, which gives units per bitcoin. usd is dollars
//	            per bitcoin divided by units per bitcoin, rounded to 18 decimals.
//	            The rate of bitcoin, ether or another coin (rateCoins) is the price
//	            of that coin, if it has one.
//
// A new store takes the prices of the preceding week from sparkline_in_7d of /coins/markets, which
// has about 168 prices for each coin, without times. The last price counts as the price of the last
// full hour before the coin's last_updated, and each earlier price as the price of the preceding
// hour.
//
// The package was checked against recorded answers from 2024 to 2026 and against the provider's
// OpenAPI description.
package coingecko

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	feed "example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source/provider"
)

// name is the name of the source, of its database and of its recordings.
const name = "coingecko"

// plan describes an account: what may be requested with it, and how often.
type plan struct {
	provider.Plan
	env   string // the environment variable that contains the key
	pages int    // of /coins/markets; 0 means all

	listEvery, exchangesEvery, groupsEvery, ratesEvery time.Duration
}

const (
	publicBase = "https://api.coingecko.com/api/v3"
	paidBase   = "https://pro-api.coingecko.com/api/v3"
)

// calls estimates the number of calls that each part takes, for the market of 2026 with its 21,498
// coins.
var calls = map[string]int{"coins_markets": 87, "exchanges": 6, "categories/*": 700, "coins/*": 21_498}

// The plans. The package comment lists their requests.
var (
	keyless = plan{
		Plan: provider.Plan{
			Base: publicBase, PerMinute: 5, Burst: 1, Slow: 1, Quotas: []provider.Quota{{Name: "free"}}, Calls: calls,
		},
		pages: 1, listEvery: 6 * time.Hour, exchangesEvery: 6 * time.Hour, groupsEvery: 24 * time.Hour,
		ratesEvery: time.Hour,
	}
	demo = plan{
		Plan: provider.Plan{
			Base: publicBase, KeyHeader: "x-cg-demo-api-key", PerMinute: 30, Burst: 10, Slow: 1,
			Quotas: []provider.Quota{{Name: "demo", Calls: 10_000}}, Calls: calls,
		}, env: "COINGECKO_DEMO_API_KEY",
		pages: 1, listEvery: 6 * time.Hour, exchangesEvery: 6 * time.Hour, groupsEvery: 24 * time.Hour,
		ratesEvery: time.Hour,
	}
	paid = plan{
		Plan: provider.Plan{Base: paidBase, KeyHeader: "x-cg-pro-api-key", PerMinute: 250, Burst: 10, Slow: 30,
			Quotas: []provider.Quota{
				{Name: "basic", Calls: 100_000, PerMinute: 250}, {Name: "analyst", Calls: 500_000, PerMinute: 500},
				{Name: "lite", Calls: 2_000_000, PerMinute: 500}, {Name: "enterprise", PerMinute: 500},
			}, Calls: calls}, env: "COINGECKO_PRO_API_KEY",
		listEvery: time.Hour, groupsEvery: 6 * time.Hour,
	}
)

const (
	pageSize = 250 // the maximum that the provider allows

	membersEvery = 7 * 24 * time.Hour
	detailEvery  = 30 * 24 * time.Hour
)

// Open opens this provider. rest is the part of the source's name after the colon.
func Open(rest string, env provider.Env) (*provider.Source, error) {
	o, err := provider.ParseOptions(name, rest, map[string]string{"details": "on|off", "pages": "N|all"})
	if err != nil {
		return nil, err
	}
	p := planOf(env.Getenv)
	replay := o.Text("replay", "") != ""
	if p.env == "" && !replay {
		env.Log.Info("coingecko: asking without a key, which is slow", "keys", demo.env+", "+paid.env)
	}
	if o.Text("pages", "") == "all" {
		p.pages = 0
	} else if p.pages, err = o.Number("pages", p.pages, 1, provider.MaxPages); err != nil {
		return nil, fmt.Errorf("%w, or all", err)
	}
	details := o.Text("details", "off")
	if details != "on" && details != "off" {
		return nil, fmt.Errorf("details=%.80s: want on or off", details)
	}
	return provider.NewSource(o, env, p.Plan,
		func() provider.Market { return &market{plan: p, detailed: details == "on" || replay} })
}

// planOf returns the first of the plans paid and demo for which there is a key, with this key. If
// there is no key, planOf returns keyless.
func planOf(getenv func(string) string) plan {
	for _, p := range []plan{paid, demo} {
		if p.Key = getenv(p.env); p.Key != "" {
			return p
		}
	}
	return keyless
}

// market holds the provider's answers in their original form.
type market struct {
	plan     plan
	detailed bool // whether to request details
	recalls  bool // whether to request the prices of the preceding week

	// markets are the rows of all pages of /coins/markets, with each coin once.
	markets, coins, exchanges, categories, platforms, rates []provider.Row
	// members has the answers to /coins/markets?category=ID, and details has the answers to
	// /coins/{id}, both by id.
	members, details map[string]*provider.Answer
}

// pricesQuery returns a query for coins with prices. For all coins it sorts by id, so that no coin
// moves from one page to another while the pages are read. It includes coins that represent others
// (WBTC, stETH), which the provider omits by default.
func pricesQuery(all bool) url.Values {
	q := url.Values{
		"vs_currency": {"usd"}, "per_page": {strconv.Itoa(pageSize)}, "precision": {"full"},
		"order": {"market_cap_desc"}, "include_rehypothecated": {"true"},
	}
	if all {
		q.Set("order", "id_asc")
	}
	return q
}

// marketsQuery returns the same query as pricesQuery, extended by the prices of the preceding week
// if they are wanted.
func (m *market) marketsQuery(all bool) url.Values {
	q := pricesQuery(all)
	if m.recalls {
		q.Set("sparkline", "true")
	}
	return q
}

// Recall implements source.Recaller.
func (m *market) Recall(wanted bool) { m.recalls = wanted }

// detailQuery omits most of a coin's details, since this package does not use them.
var detailQuery = url.Values{
	"localization": {"false"}, "tickers": {"false"}, "market_data": {"false"}, "community_data": {"false"},
	"developer_data": {"false"},
}

var (
	// reduceMembers keeps the fields of a category's coins that Write reads. reduceDetail keeps the
	// fields of a coin's details that the row of an asset needs.
	reduceMembers = provider.Keep("id")
	reduceDetail  = provider.Keep("id", "links", "image")
)

// checkRates is a Part.Check for rates. It returns an error if they cannot be converted to dollars.
func checkRates(body []byte) (int, error) {
	if n, err := provider.CheckObject(body); err != nil {
		return n, err
	}
	rows := provider.Rows(body)
	for _, row := range rows {
		value := row.Fields.Get("value")
		if row.Fields.Text("id") == feed.USD && provider.Quotient(value, value) != nil {
			return len(rows), nil
		}
	}
	return 0, errors.New("want an object with usd.value, above 0")
}

// Collect implements provider.Market.
func (m *market) Collect(ctx context.Context, r provider.Round) error {
	p, named := &m.plan, []string{"id", "name"}
	err := r.Lists(ctx, provider.List{
		Directory: true, Has: named, Into: &m.coins,
		Part: provider.Part{
			Name: "coins_list", Path: "/coins/list", Query: url.Values{"include_platform": {"true"}},
			Every: p.listEvery,
		},
	},
		provider.List{
			Required: true, Into: &m.markets, Of: &m.coins, Sorted: p.pages == 0, Most: p.pages * pageSize,
			Part: provider.Part{
				Name: "coins_markets", Path: "/coins/markets", Query: m.marketsQuery(p.pages == 0),
				Pager: provider.Numbered("page", 1), Pages: p.pages,
			},
		},
		provider.List{
			Has: named, Into: &m.exchanges,
			Part: provider.Part{
				Name: "exchanges", Value: provider.Exchanges, Path: "/exchanges",
				Query: url.Values{"per_page": {strconv.Itoa(pageSize)}}, Pager: provider.Numbered("page", 1),
				Every: p.exchangesEvery,
			},
		},
		provider.List{
			Has: []string{"id"}, Into: &m.platforms,
			Part: provider.Part{Name: "asset_platforms", Path: "/asset_platforms", Every: p.groupsEvery},
		},
		provider.List{
			Has: named, Into: &m.categories,
			Part: provider.Part{Name: "categories", Path: "/coins/categories", Every: p.groupsEvery},
		},
		provider.List{
			Into: &m.rates,
			Part: provider.Part{
				Name: "exchange_rates", Path: "/exchange_rates", At: "rates", Every: p.ratesEvery, Check: checkRates,
			},
		},
	)
	if err != nil {
		return err
	}
	m.members, err = r.Each(ctx, "categories", provider.IDs(m.categories), func(id string) provider.Part {
		q := pricesQuery(false)
		q.Del("precision")
		q.Set("category", id)
		return provider.Part{
			Path: "/coins/markets", Query: q, Pager: provider.Numbered("page", pageSize/2), Every: membersEvery,
			Check: provider.CheckRows("id"), Reduce: reduceMembers,
		}
	})
	if err != nil || !m.detailed {
		return err
	}
	ids := provider.IDs(slices.Concat(m.markets, m.coins))
	m.details, err = r.Each(ctx, "coins", ids, func(id string) provider.Part {
		return provider.Part{
			Path: "/coins/" + provider.Escape(id), Query: detailQuery, Every: detailEvery, Check: provider.CheckObject,
			Reduce: reduceDetail,
		}
	})
	return err
}
