// Package coinpaprika is the market as CoinPaprika knows it: a source of feeds
// (FEED.md) that needs no account. Its API is described at
// https://docs.coinpaprika.com.
//
//	coinpaprika:                      ask the free API, or with a key the paid one
//	coinpaprika:?cache=DIR            keep the last good answers in a folder too
//	coinpaprika:?replay=DIR           build from a recording (package provider)
//	coinpaprika:?slow=20              up to so many slow calls a build; see below
//	coinpaprika:?rate=60              no more than so many calls a minute
//	coinpaprika:?base=https://HOST/v1 ask another server
//
// The environment variable COINPAPRIKA_API_KEY is the key of a paid plan.
//
// # What is asked
//
//	/tickers                          for each snapshot       quotes
//	/coins                            every half hour         assets
//	/tags?additional_fields=coins     every half hour         categories
//	/exchanges                        every half hour         exchanges
//	/contracts                        every half hour         chains
//	/contracts/{platform}             each once a day, slow   members of chains
//	/coins/{id}                       each once a month, slow links of assets
//
// Slow calls are made a few with each snapshot: eight, of the free plan, until
// all chains and then all coins with a rank have been asked for. So chains
// appear one after the other, and links come from the largest coin to the
// smallest. All in all that is some 16,000 calls a month; the free plan has
// 20,000.
//
// # What becomes of it
//
// The key and the slug of a row are the provider's id (btc-bitcoin), which does
// not change while a coin keeps its name and ticker. A coin whose id changes is
// another coin to the service.
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
// The provider does not have: fees of exchanges (0), telegram, reddit, facebook
// and chat of most exchanges (""), display names of chains (the name), chain ids
// of chains beyond the table (null), whether a category is disabled (active).
//
// All this was checked against recorded answers of 2019 and against the
// provider's description; what needs paid plans (/changelog/ids, mappings) is
// not used.
package coinpaprika

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
)

// name is the source's, of its database and of its recordings.
const name = "coinpaprika"

const (
	freeBase = "https://api.coinpaprika.com/v1"
	paidBase = "https://api-pro.coinpaprika.com/v1"
	keyEnv   = "COINPAPRIKA_API_KEY"

	// freeRate and paidRate are calls a minute; the provider names only
	// what may be made in a month.
	freeRate, paidRate = 300, 600
	burst              = 10
	freeSlow, paidSlow = 8, 60
	maxSlow            = 10_000
)

// How long answers count as new; see the package's comment.
const (
	listEvery     = 30 * time.Minute
	contractEvery = 24 * time.Hour
	detailEvery   = 30 * 24 * time.Hour
	// slowKeep is how much longer facts stand in that hardly ever change.
	slowKeep = 30 * 24 * time.Hour
)

// Source is CoinPaprika as a source of feeds.
type Source struct {
	name      string
	collector *provider.Collector
}

// Opener returns what opens the source; see the package's comment for what may
// stand behind coinpaprika:. It is a source.Opener.
func Opener(env provider.Env) source.Opener {
	return func(_ context.Context, rest string) (source.Source, error) { return open(rest, env) }
}

func open(rest string, env provider.Env) (*Source, error) {
	o, err := provider.ParseOptions(name, rest, map[string]string{
		"base": "URL", "cache": "DIR", "rate": "N", "replay": "DIR", "slow": "N",
	})
	if err != nil {
		return nil, err
	}
	key := env.Getenv(keyEnv)
	base, perMinute, slow := freeBase, freeRate, freeSlow
	if key != "" {
		base, perMinute, slow = paidBase, paidRate, paidSlow
	}
	if perMinute, err = o.Number("rate", perMinute, 1, 100_000); err != nil {
		return nil, err
	}
	if slow, err = o.Number("slow", slow, 0, maxSlow); err != nil {
		return nil, err
	}
	client, err := provider.NewClient(provider.ClientConfig{
		Base: o.Text("base", base), KeyHeader: "Authorization", Key: key,
		PerMinute: perMinute, Burst: burst, Transport: env.Transport, Log: env.Log,
	})
	if err != nil {
		return nil, err
	}
	collector, err := provider.NewCollector(provider.Config{
		Source: name, Client: client, Cache: o.Text("cache", ""), Replay: o.Text("replay", ""),
		SlowCalls: slow, Log: env.Log, Now: env.Now,
	})
	if err != nil {
		return nil, err
	}
	return &Source{o.String(), collector}, nil
}

// String returns the source's name with its options.
func (s *Source) String() string { return s.name }

// Files gets the present state of the market, or that of the recording. Any
// time asked for is the builder's affair: the provider's present is all there
// is. It fails when there are no tickers, not even from an hour ago.
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
	tickers, coins, tags, exchanges, platforms []provider.Row
	// contracts are the answers to /contracts/{platform}, and details those to
	// /coins/{id}, by id.
	contracts, details map[string][]byte
}

func list(part, path string, query url.Values, every time.Duration) provider.Part {
	return provider.Part{Name: part, Path: path, Query: query, Every: every, Check: provider.CheckArray}
}

func (s *Source) collect(ctx context.Context) (*market, *provider.Round, error) {
	m := &market{}
	round, err := s.collector.Collect(ctx, func(r *provider.Round) error { return m.collect(ctx, r) })
	return m, round, err
}

func (m *market) collect(ctx context.Context, r *provider.Round) error {
	usd := url.Values{"quotes": {"USD"}}
	for _, p := range []struct {
		part     provider.Part
		into     *[]provider.Row
		required bool
	}{
		{list("tickers", "/tickers", usd, 0), &m.tickers, true},
		{list("coins", "/coins", nil, listEvery), &m.coins, false},
		{list("exchanges", "/exchanges", usd, listEvery), &m.exchanges, false},
		{list("tags", "/tags", url.Values{"additional_fields": {"coins"}}, listEvery), &m.tags, false},
		{list("contracts", "/contracts", nil, listEvery), &m.platforms, false},
	} {
		a, err := r.Get(ctx, p.part)
		switch {
		case err == nil:
			*p.into = provider.Rows(a.Pages[0].Body)
		case p.required || ctx.Err() != nil:
			return err
		}
	}
	var err error
	if m.contracts, err = each(ctx, r, "contracts", platformsOf(m.platforms), contractEvery, provider.CheckArray, nil); err != nil {
		return err
	}
	m.details, err = each(ctx, r, "coins", byRank(m.tickers), detailEvery, provider.CheckObject, reduceDetail)
	return err
}

// each asks for /kind/{id} of the ids.
func each(ctx context.Context, r *provider.Round, kind string, ids []string, every time.Duration, check func([]byte) (int, error), reduce func([]byte) []byte) (map[string][]byte, error) {
	parts := make([]provider.Part, len(ids))
	for i, id := range ids {
		parts[i] = provider.Part{
			Name: kind + "/" + id, Path: "/" + kind + "/" + provider.Escape(id),
			Every: every, Keep: slowKeep, Check: check, MayBeEmpty: true, Reduce: reduce,
		}
	}
	answers, err := r.GetEach(ctx, kind, parts)
	if err != nil {
		return nil, err
	}
	bodies := make(map[string][]byte, len(answers))
	for i, id := range ids {
		if a := answers[parts[i].Name]; a != nil && !a.Gone {
			bodies[id] = a.Pages[0].Body
		}
	}
	return bodies, nil
}

var errNoTime = errors.New("the recording does not say when it was made: neither has it a recording.json nor any ticker a last_updated")

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
