// Package coingecko is the market as CoinGecko knows it: a source of feeds
// (FEED.md). Its API is described at https://docs.coingecko.com.
//
//	coingecko:                       ask the API of the account's plan
//	coingecko:?pages=4               the 1,000 largest coins; pages=all: every one
//	coingecko:?cache=DIR             keep the last good answers in a folder too
//	coingecko:?replay=DIR            build from a recording (package provider)
//	coingecko:?slow=20               up to so many slow calls a build; see below
//	coingecko:?details=on            ask for links of coins, which is slow
//	coingecko:?rate=60               no more than so many calls a minute
//	coingecko:?base=https://HOST/api/v3
//
// The environment variable COINGECKO_PRO_API_KEY is the key of a paid plan,
// COINGECKO_DEMO_API_KEY that of a free account; the former wins. The two have
// different hosts and headers. Without a key the API answers a few calls a
// minute.
//
// # What is asked
//
//	                             demo         paid
//	/coins/markets               every time   every time    quotes, names, logos
//	  pages of 250               1            all
//	/coins/list, with platforms  6 hours      1 hour        assets, members of chains
//	/exchanges, pages of 250     6 hours      every time    exchanges
//	/coins/categories            a day        6 hours       categories
//	/asset_platforms             a day        6 hours       chains
//	/coins/markets?category=…    each once a week, slow     members of categories
//	/coins/{id}                  each once a month, slow    links of assets (details=on)
//
// Slow calls are made a few with each snapshot, largest category first: one of a
// demo plan, so that the first round takes some days, and thirty of a paid one.
// A demo plan has 10,000 calls a month and these are some 9,500; a paid plan
// with all pages makes some 400,000.
//
// # What becomes of it
//
// The key and the slug of a row are the provider's id (bitcoin). A coin whose id
// changes is another coin to the service.
//
//	assets      the coins of /coins/list, and those of /coins/markets that are
//	            missing there. symbol in upper case. logo is the image of
//	            /coins/markets or else of /coins/{id}. website, explorers and
//	            whitepaper from /coins/{id}. All are active.
//	quotes      current_price, market_cap and total_volume of /coins/markets, in
//	            full precision. A coin that has no price there has no quote. A
//	            market cap of 0 is not known.
//	exchanges   name, image, url. volume_24h is trade_volume_24h_btc times the
//	            current_price of bitcoin, multiplied exactly: the provider gives
//	            volumes in bitcoin only. It is null when bitcoin has no price.
//	categories  the members are the coins of the category in /coins/markets.
//	chains      asset platforms. The members are the coins that /coins/list says
//	            are on the platform. display_name is shortname, if there is one.
//	            Chain id and native coin are the provider's, or else those of the
//	            table of well-known EVM chains in package provider. Platforms
//	            that only coins name are chains too, with the table's name or
//	            their id.
//
// The provider does not have: fees of exchanges (0), and, but for a call for each
// exchange, which are not made: their links other than the website (""), numbers
// of markets and coins and the time of the aggregate (null); whether a category
// is disabled (active).
//
// All this was checked against recorded answers of 2024 to 2026 and against the
// provider's OpenAPI description.
package coingecko

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
)

// name is the source's, of its database and of its recordings.
const name = "coingecko"

// plan is what an account may ask, and how.
type plan struct {
	base, header string
	env          string // the variable with the key
	rate, burst  int    // calls a minute, and at once
	pages        int    // of markets; 0: all
	slow         int    // slow calls a round

	listEvery, exchangesEvery, groupsEvery time.Duration
}

const (
	publicBase = "https://api.coingecko.com/api/v3"
	paidBase   = "https://pro-api.coingecko.com/api/v3"
)

// The plans; what they cost in calls is in the package's comment.
var (
	keyless = plan{
		base: publicBase, rate: 5, burst: 5, pages: 1, slow: 1,
		listEvery: 6 * time.Hour, exchangesEvery: 6 * time.Hour, groupsEvery: 24 * time.Hour,
	}
	demo = plan{
		base: publicBase, header: "x-cg-demo-api-key", env: "COINGECKO_DEMO_API_KEY", rate: 30, burst: 10, pages: 1, slow: 1,
		listEvery: 6 * time.Hour, exchangesEvery: 6 * time.Hour, groupsEvery: 24 * time.Hour,
	}
	paid = plan{
		base: paidBase, header: "x-cg-pro-api-key", env: "COINGECKO_PRO_API_KEY", rate: 250, burst: 10, slow: 30,
		listEvery: time.Hour, groupsEvery: 6 * time.Hour,
	}
)

const (
	pageSize = 250 // the most that the provider gives
	maxSlow  = 10_000

	membersEvery = 7 * 24 * time.Hour
	detailEvery  = 30 * 24 * time.Hour
	// slowKeep is how much longer facts stand in that hardly ever change.
	slowKeep = 30 * 24 * time.Hour
)

// Source is CoinGecko as a source of feeds.
type Source struct {
	name      string
	collector *provider.Collector
	plan      plan
	details   bool
}

// Opener returns what opens the source; see the package's comment for what may
// stand behind coingecko:. It is a source.Opener.
func Opener(env provider.Env) source.Opener {
	return func(_ context.Context, rest string) (source.Source, error) { return open(rest, env) }
}

func open(rest string, env provider.Env) (*Source, error) {
	o, err := provider.ParseOptions(name, rest, map[string]string{
		"base": "URL", "cache": "DIR", "details": "on|off", "pages": "N|all", "rate": "N", "replay": "DIR", "slow": "N",
	})
	if err != nil {
		return nil, err
	}
	p, key := planOf(env.Getenv)
	replay := o.Text("replay", "")
	if p.env == "" && replay == "" {
		env.Log.Info("coingecko: asking without a key, which is slow", "keys", demo.env+", "+paid.env)
	}
	p.base = o.Text("base", p.base)
	if p.rate, err = o.Number("rate", p.rate, 1, 100_000); err != nil {
		return nil, err
	}
	if p.slow, err = o.Number("slow", p.slow, 0, maxSlow); err != nil {
		return nil, err
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
	client, err := provider.NewClient(provider.ClientConfig{
		Base: p.base, KeyHeader: p.header, Key: key,
		PerMinute: p.rate, Burst: p.burst, Transport: env.Transport, Log: env.Log,
	})
	if err != nil {
		return nil, err
	}
	collector, err := provider.NewCollector(provider.Config{
		Source: name, Client: client, Cache: o.Text("cache", ""), Replay: replay,
		SlowCalls: p.slow, Log: env.Log, Now: env.Now,
	})
	if err != nil {
		return nil, err
	}
	return &Source{o.String(), collector, p, details == "on" || replay != ""}, nil
}

func planOf(getenv func(string) string) (plan, string) {
	for _, p := range []plan{paid, demo} {
		if key := getenv(p.env); key != "" {
			return p, key
		}
	}
	return keyless, ""
}

// String returns the source's name with its options.
func (s *Source) String() string { return s.name }

// Files gets the present state of the market, or that of the recording. Any
// time asked for is the builder's affair: the provider's present is all there
// is. It fails when there are no markets, not even from an hour ago.
func (s *Source) Files(ctx context.Context, t time.Time) (source.Files, error) {
	m, round, err := s.collect(ctx)
	if err != nil {
		return nil, err
	}
	return m.feed(round, t)
}

// Record writes the answers that a snapshot would be made from now to a folder,
// as they were sent. It implements provider.Recorder.
func (s *Source) Record(ctx context.Context, dir string) error {
	_, round, err := s.collect(ctx)
	if err != nil {
		return err
	}
	return round.Record(dir)
}

// market is what the provider said, in its own words.
type market struct {
	// markets are the rows of all pages, each coin's once.
	markets, coins, exchanges, categories, platforms []provider.Row
	// members are the pages of /coins/markets?category=ID, and details the
	// answers to /coins/{id}, by id.
	members map[string][]provider.Page
	details map[string][]provider.Page
}

func (s *Source) collect(ctx context.Context) (*market, *provider.Round, error) {
	m := &market{}
	round, err := s.collector.Collect(ctx, func(r *provider.Round) error { return m.collect(ctx, r, s) })
	return m, round, err
}

// marketsQuery asks for coins with prices. All of them are best asked for by
// id: no coin moves from one page to another while they are read.
func marketsQuery(all bool) url.Values {
	q := url.Values{"vs_currency": {"usd"}, "per_page": {strconv.Itoa(pageSize)}, "precision": {"full"}, "order": {"market_cap_desc"}}
	if all {
		q.Set("order", "id_asc")
	}
	return q
}

func (m *market) collect(ctx context.Context, r *provider.Round, s *Source) error {
	p := &s.plan
	for _, ask := range []struct {
		part     provider.Part
		into     *[]provider.Row
		required bool
	}{
		{provider.Part{Name: "coins_markets", Path: "/coins/markets", Query: marketsQuery(p.pages == 0), PageSize: pageSize, Pages: p.pages}, &m.markets, true},
		{provider.Part{Name: "coins_list", Path: "/coins/list", Query: url.Values{"include_platform": {"true"}}, Every: p.listEvery}, &m.coins, false},
		{provider.Part{Name: "exchanges", Path: "/exchanges", Query: url.Values{"per_page": {strconv.Itoa(pageSize)}}, PageSize: pageSize, Every: p.exchangesEvery}, &m.exchanges, false},
		{provider.Part{Name: "asset_platforms", Path: "/asset_platforms", Every: p.groupsEvery}, &m.platforms, false},
		{provider.Part{Name: "categories", Path: "/coins/categories", Every: p.groupsEvery}, &m.categories, false},
	} {
		ask.part.Check = provider.CheckArray
		a, err := r.Get(ctx, ask.part)
		switch {
		case err == nil:
			*ask.into = distinct(a.Pages)
		case ask.required || ctx.Err() != nil:
			return err
		}
	}
	ids := idsOf(m.categories)
	parts := make([]provider.Part, len(ids))
	for i, id := range ids {
		q := marketsQuery(false)
		q.Del("precision")
		q.Set("category", id)
		parts[i] = provider.Part{
			Name: "categories/" + id, Path: "/coins/markets", Query: q, PageSize: pageSize,
			Every: membersEvery, Keep: slowKeep, Check: provider.CheckArray, MayBeEmpty: true, Reduce: reduceMembers,
		}
	}
	var err error
	if m.members, err = each(ctx, r, "categories", ids, parts); err != nil || !s.details {
		return err
	}
	ids = idsOf(slices.Concat(m.markets, m.coins))
	parts = make([]provider.Part, len(ids))
	for i, id := range ids {
		parts[i] = provider.Part{
			Name: "coins/" + id, Path: "/coins/" + provider.Escape(id), Query: detailQuery,
			Every: detailEvery, Keep: slowKeep, Check: provider.CheckObject, Reduce: reduceDetail,
		}
	}
	m.details, err = each(ctx, r, "coins", ids, parts)
	return err
}

// detailQuery leaves out what is most of a coin's details and not used.
var detailQuery = func() url.Values {
	q := url.Values{}
	for _, part := range []string{"localization", "tickers", "market_data", "community_data", "developer_data"} {
		q.Set(part, "false")
	}
	return q
}()

func each(ctx context.Context, r *provider.Round, kind string, ids []string, parts []provider.Part) (map[string][]provider.Page, error) {
	answers, err := r.GetEach(ctx, kind, parts)
	if err != nil {
		return nil, err
	}
	pages := make(map[string][]provider.Page, len(answers))
	for i, id := range ids {
		if a := answers[parts[i].Name]; a != nil {
			pages[id] = a.Pages
		}
	}
	return pages, nil
}

// distinct gives the rows of all pages. A row of an id that an earlier page had
// is left out: the coin moved between two requests.
func distinct(pages []provider.Page) []provider.Row {
	var list []provider.Row
	seen := map[string]bool{}
	for _, page := range pages {
		rows := provider.Rows(page.Body)
		for _, row := range rows {
			if !seen[row.Fields.Text("id")] {
				list = append(list, row)
			}
		}
		for _, row := range rows {
			if id := row.Fields.Text("id"); id != "" {
				seen[id] = true
			}
		}
	}
	return list
}

// idsOf lists the ids of rows, each once.
func idsOf(rows []provider.Row) []string {
	seen := map[string]bool{"": true}
	var ids []string
	for _, row := range rows {
		if id := row.Fields.Text("id"); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

var errNoTime = errors.New("the recording does not say when it was made: neither has it a recording.json nor any coin a last_updated")

// feed writes the feed. t is what stands in for the time of a recording that
// has none.
func (m *market) feed(r *provider.Round, t time.Time) (*provider.Feed, error) {
	at := r.Time()
	if at.IsZero() {
		at = m.newest()
	}
	if at.IsZero() {
		at = t
	}
	if at.IsZero() {
		return nil, fmt.Errorf("%s: %w", name, errNoTime)
	}
	f := provider.NewFeed(name, at, r.Parts())
	m.write(f)
	return f, nil
}

// newest is the latest last_updated of the coins; zero when there is none.
func (m *market) newest() (t time.Time) {
	for _, row := range m.markets {
		if at, err := time.Parse(time.RFC3339, row.Fields.Text("last_updated")); err == nil && at.After(t) {
			t = at
		}
	}
	return t
}

// sortedKeys is the keys of a set in their order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
