// Package coinmarketcap is a source of feeds (FEED.md) with the market data of CoinMarketCap. The
// API is described at https://coinmarketcap.com/api/documentation. builder/source/README.md
// describes options, the key and the data that the API lacks.
//
// # Requests
//
//	/v1/cryptocurrency/listings/latest     every time             quotes
//	/v1/cryptocurrency/map, all statuses   every 6 hours          assets, chains
//	/v1/exchange/listings/latest           every hour             exchanges
//	/v1/cryptocurrency/categories          every day              categories
//	/v1/cryptocurrency/category            each once a week, slow members of categories
//	/v2/cryptocurrency/info, 100 coins     each once a week, slow links of assets
//	/v1/exchange/info, 100 exchanges       each once a week, slow links of exchanges
//
// The plans count credits: one for each call, and one for each further 200 coins in it. So all
// coins, about 9,000, cost 46 times as much as 200 coins, which is the default. The command builder
// source prints how many calls a month takes, and how many of them the plan's quota (basic;
// hobbyist, startup, standard, professional, enterprise) allows. Each snapshot makes two of the
// slow calls. Some plans lack the listings of exchanges, or categories; these lists are then
// missing.
//
// # Fields
//
// The key of a row is the provider's id, a number, which stays the same when a coin changes its
// name. The slug comes from the provider, too.
//
//	assets      name, symbol and is_active from the map, or from the listings for a
//	            coin that is missing there. logo, explorers, website and whitepaper
//	            (technical_doc) from the info. If a coin has no info, logo is
//	            the provider's usual URL for logos.
//	quotes      price, market_cap and volume_24h of quote.USD.
//	exchanges   name; links of the info; volume_24h of quote.USD, num_market_pairs
//	            and last_updated.
//	categories  name; the id is also the slug, since there is no other. The members
//	            are the coins of the category.
//	chains      the platforms that the map names. The members are the coins on them.
//	            The id of a platform is the id of its native coin.
//
// The package was written from the provider's description, and checked against answers made by hand
// from that description.
package coinmarketcap

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/builder/source/provider"
)

// name is the name of the source, of its database and of its recordings.
const name = "coinmarketcap"

var plan = provider.Plan{
	Base: "https://pro-api.coinmarketcap.com", KeyHeader: "X-CMC_PRO_API_KEY", KeyEnv: "COINMARKETCAP_API_KEY",
	PerMinute: 30, Burst: 5, Slow: 2,
	Quotas: []provider.Quota{
		{Name: "basic", Calls: 10_000}, {Name: "hobbyist", Calls: 150_000, PerMinute: 60},
		{Name: "startup", Calls: 450_000, PerMinute: 120},
		{Name: "standard", Calls: 2_000_000, PerMinute: 300}, {Name: "professional", Calls: 5_000_000, PerMinute: 600},
		{Name: "enterprise", PerMinute: 600},
	},
	Calls: map[string]int{
		"listings": 46, "map": 3, "map_inactive": 5, "exchanges": 6, "categories": 3, "category/*": 400, "info/*": 400,
		"exchange_info/*": 20,
	},
}

const (
	pageSize     = 5000 // the maximum that the provider allows
	categorySize = 1000 // the same, for the coins of a category
	batch        = 100  // number of coins or exchanges whose info costs one credit
	defaultCoins = 200  // number of quotes that cost one credit
	rowsPerCall  = 200  // number of rows of any other list that cost one credit
	coinLogo     = "https://s2.coinmarketcap.com/static/img/coins/64x64/"
	exchangeLogo = "https://s2.coinmarketcap.com/static/img/exchanges/64x64/"

	mapEvery        = 6 * time.Hour
	exchangesEvery  = time.Hour
	categoriesEvery = 24 * time.Hour
	slowEvery       = 7 * 24 * time.Hour
)

// Open opens this provider. rest is the part of the source's name after the colon.
func Open(rest string, env provider.Env) (*provider.Source, error) {
	o, err := provider.ParseOptions(name, rest, map[string]string{"coins": "N|all"})
	if err != nil {
		return nil, err
	}
	coins := 0
	if o.Text("coins", "") != "all" {
		if coins, err = o.Number("coins", defaultCoins, 1, pageSize*provider.MaxPages); err != nil {
			return nil, fmt.Errorf("%w, or all", err)
		}
	}
	return provider.NewSource(o, env, plan, func() provider.Market { return &market{wanted: coins} })
}

// market holds the provider's answers in their original form.
type market struct {
	wanted int // number of coins with quotes; 0 means all

	listings, active, inactive, exchanges, categories []provider.Row
	// members has the answers to /category, by the category's id.
	members map[string]*provider.Answer
	// infos and exchangeInfos have the info of individual coins and exchanges, by id.
	infos, exchangeInfos map[string]provider.Fields
}

// list returns a part that comes in pages and has its rows in the member "data" of each answer. A
// call costs one credit for every rowsPerCall rows. The provider charges nothing for a call to a
// map endpoint, but our quota counts it as one credit.
func list(name, path string, limit int, every time.Duration, more ...string) provider.Part {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	p := provider.Part{
		Name: name, Path: path, Query: q, At: "data", Pager: provider.Offset("start", 1, 1), Every: every,
	}
	if !strings.HasSuffix(path, "/map") {
		p.Cost, p.RowsPerCall = (limit+rowsPerCall-1)/rowsPerCall, rowsPerCall
	}
	return p
}

// Collect implements provider.Market.
func (m *market) Collect(ctx context.Context, r provider.Round) error {
	limit := pageSize
	if m.wanted > 0 {
		limit = min(limit, m.wanted)
	}
	listings := list("listings", "/v1/cryptocurrency/listings/latest", limit, 0, "convert", "USD")
	listings.Pages = (m.wanted + limit - 1) / limit
	inactive := list("map_inactive", "/v1/cryptocurrency/map", pageSize, mapEvery, "listing_status",
		"inactive,untracked")
	inactive.MayBeEmpty = true
	exchanges := list("exchanges", "/v1/exchange/listings/latest", pageSize, exchangesEvery, "convert", "USD")
	exchanges.Value = provider.Exchanges
	is, named := []string{"is_active"}, []string{"id", "name"}
	err := r.Lists(ctx, provider.List{
		Directory: true, Has: is, Into: &m.active,
		Part: list("map", "/v1/cryptocurrency/map", pageSize, mapEvery, "listing_status", "active"),
	},
		provider.List{Directory: true, Has: is, Into: &m.inactive, Part: inactive},
		provider.List{Required: true, Of: &m.active, Most: m.wanted, Into: &m.listings, Part: listings},
		provider.List{Has: named, Into: &m.exchanges, Part: exchanges},
		provider.List{
			Has: named, Into: &m.categories,
			Part: list("categories", "/v1/cryptocurrency/categories", pageSize, categoriesEvery),
		},
	)
	if err != nil {
		return err
	}
	m.members, err = r.Each(ctx, "category", provider.IDs(m.categories), func(id string) provider.Part {
		p := list("", "/v1/cryptocurrency/category", categorySize, slowEvery, "id", id)
		p.Pager, p.At = provider.Offset("start", 1, categorySize/2), "data.coins"
		p.Check, p.Reduce = provider.CheckRows("id"), provider.Keep("id")
		return p
	})
	if err != nil {
		return err
	}
	if m.infos, err = infos(ctx, r, "info", "/v2/cryptocurrency/info",
		slices.Concat(m.listings, m.active)); err != nil {
		return err
	}
	m.exchangeInfos, err = infos(ctx, r, "exchange_info", "/v1/exchange/info", m.exchanges)
	return err
}

// infos requests the info of individual rows. It groups ids into batches that stay the same when
// rows come and go, and requests the batches of the first rows first.
func infos(ctx context.Context, r provider.Round, kind, path string,
	rows []provider.Row) (map[string]provider.Fields, error) {
	var batches []string
	ids := map[string][]string{}
	for _, id := range provider.IDs(rows) {
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			continue
		}
		b := strconv.FormatUint(n/batch, 10)
		if ids[b] == nil {
			batches = append(batches, b)
		}
		ids[b] = append(ids[b], id)
	}
	answers, err := r.Each(ctx, kind, batches, func(b string) provider.Part {
		q := url.Values{"id": {strings.Join(ids[b], ",")}}
		if kind == "info" {
			q.Set("skip_invalid", "true")
		}
		return provider.Part{
			Path: path, Query: q, At: "data", Every: slowEvery, Check: provider.CheckObject,
			Reduce: provider.KeepOf("logo", "urls"),
		}
	})
	of := map[string]provider.Fields{}
	for _, a := range answers {
		for id, raw := range a.Object() {
			of[id], _ = provider.Object(raw)
		}
	}
	return of, err
}
