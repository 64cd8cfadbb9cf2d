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
	recalls      bool // whether earlier prices are wanted
}

// Market is implemented by each provider's package. It requests the parts of a snapshot and writes
// their rows as rows of a feed. Each snapshot has a new Market.
type Market interface {
	// Collect requests everything that Write uses from the round.
	Collect(ctx context.Context, r Round) error
	// Write writes the rows, and sets Feed.Before if the provider has earlier prices. It does not
	// judge rows and drops none, since the feed reader sets aside rows that cannot be used.
	Write(f *Feed)
}

// Plan describes an account with the provider. Options can override it.
type Plan struct {
	Base string
	// KeyHeader is the header that carries KeyPrefix, such as "Bearer ", and Key, if there is a
	// key.
	KeyHeader, KeyPrefix, Key string
	// KeyEnv is the name of the environment variable with the key, if the provider requires one.
	KeyEnv string
	// PerMinute limits the calls in a minute, and Burst limits the calls made without a pause.
	PerMinute, Burst int
	// Slow limits the calls for individual items in a round.
	Slow int
	// Quotas are the quotas of the provider's plans for such an account, cheapest first.
	Quotas []Quota
	// Calls estimates how many calls a part takes, for use until the part has been requested. A
	// part without an entry is assumed to have one page. The entry KIND/* is for all individual
	// items of a kind together.
	Calls map[string]int
}

// maxSlow is the maximum value of the slow option.
const maxSlow = 10_000

// NewSource returns the source that o and plan describe. Each call of market must return a new
// Market.
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

// notices maps the scheme of a provider to the notice that its terms require to be shown with its
// data (builder/source/README.md, "What it costs").
var notices = map[string]*artifacts.Notice{
	"coingecko":   {Text: "Data provided by CoinGecko", URL: "https://www.coingecko.com"},
	"coinpaprika": {Text: "Data provided by CoinPaprika", URL: "https://coinpaprika.com"},
}

// Notice implements source.Noticed.
func (s *Source) Notice() *artifacts.Notice { return notices[s.scheme] }

// Quota implements source.Metered. It returns nil for a recording.
func (s *Source) Quota() *source.Quota { return s.backend.use() }

// Memory describes where a source keeps its provider's answers between builds.
type Memory struct {
	// Provider is the name of the provider, which is also the name of its feeds' database.
	Provider string
	// Cache is the folder, or "" if there is none. Filled reports whether it holds answers.
	Cache  string
	Filled bool
}

// Memory describes the cache of a live source. It returns nil for a recording, which has no cache.
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

// Files returns the present state of the market, or the recorded state. It does not check whether
// the present state is suitable for t; the builder does. t is used only as the time of a recording
// that does not state its own. Files returns an error if a required list is unavailable and its
// last good answer is missing or too old.
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

// Record collects the answers for a feed, as Files does, and writes them to the folder dir. The
// caller must ensure that dir is missing or empty, so that two recordings are never mixed.
func (s *Source) Record(ctx context.Context, dir string) error {
	_, o, err := s.collect(ctx)
	if err != nil {
		return err
	}
	return o.record(dir, s.scheme)
}

// Costs computes what a month of snapshots costs, without calling the provider.
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
	// Getenv returns the value of an environment variable, such as one that contains a key.
	Getenv func(name string) string
	// Cache is the parent of the cache folders of sources for which the cache option is not set.
	// Each cache folder is named after its provider. If Cache is "", these sources have no cache
	// folder.
	Cache string
	// Costs means that the source is opened only for Source.Costs, which needs no key.
	Costs bool
	// Transport and Now are for tests. nil means the network and the clock.
	Transport http.RoundTripper
	Now       func() time.Time
}

// Opener returns a source.Opener that opens a provider in this environment.
func (e Env) Opener(open func(rest string, env Env) (*Source, error)) source.Opener {
	return func(_ context.Context, rest string) (source.Source, error) { return open(rest, e) }
}
