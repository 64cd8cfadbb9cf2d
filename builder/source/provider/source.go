package provider

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/source"
)

// Source is a provider as a source of feeds.
type Source struct {
	name, scheme string
	market       func() Market
	budget       *budget
	backend      backend
	recalls      bool // the past is wanted
}

// Market is implemented by each provider's package: it asks for the parts of a snapshot
// and writes their rows as those of a feed. There is one Market for each snapshot.
type Market interface {
	// Collect asks the round for all that Write uses.
	Collect(ctx context.Context, r Round) error
	// Write writes the rows, and Feed.Before where the provider gives prices of before. It judges
	// nothing and drops nothing: the reader of the feed sets useless rows aside.
	Write(f *Feed)
}

// Plan describes an account at the provider. Options override it.
type Plan struct {
	Base string
	// KeyHeader carries KeyPrefix, such as "Bearer ", and Key, if there is a key.
	KeyHeader, KeyPrefix, Key string
	// KeyEnv names the environment variable of the key, if the provider requires one.
	KeyEnv string
	// PerMinute and Burst bound the calls in a minute, and at once.
	PerMinute, Burst int
	// Slow bounds the calls of a round for single items.
	Slow int
	// Quotas are those of the provider's plans for such an account, the cheapest first.
	Quotas []Quota
	// Calls estimates how many calls a part takes, if not one, until it has been asked
	// for. The entry of a kind of single items, KIND/*, is for all of them.
	Calls map[string]int
}

// maxSlow bounds the option slow.
const maxSlow = 10_000

// NewSource returns the source that options and plan describe. market returns a new Market.
func NewSource(o *Options, env Env, plan Plan, market func() Market) (*Source, error) {
	plan, chosen, err := choosePlan(o, plan)
	if err != nil {
		return nil, err
	}
	if plan.Slow, err = o.Number("slow", plan.Slow, 0, maxSlow); err != nil {
		return nil, err
	}
	replay, cache := o.Text("replay", ""), o.Text("cache", "")
	if cache == "" && env.Cache != "" && replay == "" {
		cache = filepath.Join(env.Cache, o.scheme)
	}
	if plan.KeyEnv != "" && replay == "" {
		if plan.Key = env.Getenv(plan.KeyEnv); plan.Key == "" && !env.Costs {
			return nil, fmt.Errorf("a key is needed, in the environment variable %s", plan.KeyEnv)
		}
	}
	now := env.Now
	if now == nil {
		now = time.Now
	}
	b := &budget{
		quota: &quota{limit: chosen.Calls, burst: chosen.Calls / quotaDays, dir: cache, now: now},
		plan:  chosen, calls: plan.Calls, slow: plan.Slow, market: market,
	}
	if cache == "" && replay == "" && !env.Costs && chosen.Calls > 0 {
		env.Log.Warn("provider: without a cache folder each process counts its own calls only, "+
			"so that restarts and other processes can exceed the quota: give a folder (option cache, or "+
			"--state-dir)", "source", o.scheme, "plan", chosen.Name, "calls_a_month", chosen.Calls)
	}
	plan.Base = o.Text("base", plan.Base)
	client, err := newClient(plan, b.quota, env.Transport, env.Log)
	if err != nil {
		return nil, err
	}
	s := &Source{name: o.String(), scheme: o.scheme, market: market, budget: b}
	log := env.Log.With("source", o.scheme)
	if replay == "" {
		c := openCache(cache, o.scheme, log)
		s.backend = &live{
			source: o.scheme, client: client, budget: b, log: log, now: now, cache: c,
		}
	} else if s.backend, err = openReplay(replay, o.scheme, log); err != nil {
		return nil, err
	}
	return s, nil
}

// notices are what providers' terms want to be shown with their data, by scheme
// (builder/source/README.md, "What it costs").
var notices = map[string]*artifacts.Notice{
	"coingecko":   {Text: "Data provided by CoinGecko", URL: "https://www.coingecko.com"},
	"coinpaprika": {Text: "Data provided by CoinPaprika", URL: "https://coinpaprika.com"},
}

// Notice implements source.Noticed.
func (s *Source) Notice() *artifacts.Notice { return notices[s.scheme] }

// Quota implements source.Metered; nil for a recording.
func (s *Source) Quota() *source.Quota { return s.backend.use() }

// Memory says where a source keeps its provider's answers between builds.
type Memory struct {
	// Provider is the name of the provider, and the database of its feeds.
	Provider string
	// Cache is the folder; "" means none. Filled says that it holds answers.
	Cache  string
	Filled bool
}

// Memory returns nil for a recording, which remembers nothing.
func (s *Source) Memory() *Memory { return s.backend.memory() }

// String returns the source's name with its options.
func (s *Source) String() string { return s.name }

// Recall implements source.Recaller.
func (s *Source) Recall(wanted bool) { s.recalls = wanted }

func (s *Source) collect(ctx context.Context) (Market, *outcome, error) {
	m := s.market()
	if r, ok := m.(source.Recaller); ok {
		r.Recall(s.recalls)
	}
	o, err := s.backend.collect(ctx, func(r Round) error { return m.Collect(ctx, r) })
	return m, o, err
}

// Files returns the present state of the market, or that of the recording. The builder judges
// whether the present is of use for t; here t only stands in for the time of a recording that has
// none. Files fails when a required list is missing, and its last good answer is too old.
func (s *Source) Files(ctx context.Context, t time.Time) (source.Files, error) {
	m, o, err := s.collect(ctx)
	if err != nil {
		return nil, err
	}
	for _, at := range []time.Time{o.time, o.newest, t} {
		if !at.IsZero() {
			f := NewFeed(s.scheme, at, o.parts)
			m.Write(f)
			return f, nil
		}
	}
	return nil, fmt.Errorf("%s: the recording does not say when it was made: it has neither a %s nor a row with "+
		"last_updated", s.scheme, indexFile)
}

// Record writes the answers that a feed would be made from now to a folder, which is
// missing or empty, so that no two recordings are mixed.
func (s *Source) Record(ctx context.Context, dir string) error {
	_, o, err := s.collect(ctx)
	if err != nil {
		return err
	}
	return o.record(dir, s.scheme)
}

// Costs says what a month of snapshots costs, and asks nobody.
func (s *Source) Costs(ctx context.Context) (*Costs, error) {
	c, err := s.budget.month(ctx)
	if err != nil {
		return nil, err
	}
	c.Source = s.scheme
	return c, nil
}

// Env is the environment of a provider's source.
type Env struct {
	Log *slog.Logger
	// Getenv returns an environment variable, such as one with a key.
	Getenv func(name string) string
	// Cache is the parent of the cache folders of sources without the option cache,
	// each named after its provider; "" means none.
	Cache string
	// Costs says that the source is opened only for Source.Costs, which needs no key.
	Costs bool
	// Transport and Now are for tests; nil: the network and the clock.
	Transport http.RoundTripper
	Now       func() time.Time
}

// Opener returns the source.Opener of a provider in this environment.
func (e Env) Opener(open func(rest string, env Env) (*Source, error)) source.Opener {
	return func(_ context.Context, rest string) (source.Source, error) { return open(rest, e) }
}
