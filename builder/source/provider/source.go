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
	recalls      bool // whether the past is wanted
}

// Market is implemented by each provider's package. It requests the parts of a snapshot and writes
// their rows as rows of a feed. Each snapshot has a new Market.
type Market interface {
	// Collect requests everything that Write uses from the round.
	Collect(ctx context.Context, r Round) error
	// Write writes the rows, and sets Feed.Before if the provider gives earlier prices. It judges
	// no rows and drops none, since the reader of the feed sets aside rows that cannot be used.
	Write(f *Feed)
}

// Plan describes an account at the provider. Options override it.
type Plan struct {
	Base string
	// KeyHeader is the header that carries KeyPrefix, such as "Bearer ", and Key, if there is a
	// key.
	KeyHeader, KeyPrefix, Key string
	// KeyEnv is the name of the environment variable with the key, if the provider requires one.
	KeyEnv string
	// PerMinute bounds the calls in a minute, and Burst those made without a pause.
	PerMinute, Burst int
	// Slow bounds the calls of a round for single items.
	Slow int
	// Quotas are the quotas of the provider's plans for such an account, cheapest first.
	Quotas []Quota
	// Calls estimates how many calls a part takes, if not one, until it has been requested. The
	// entry of a kind of single items, KIND/*, is for all of them.
	Calls map[string]int
}

// maxSlow bounds the option slow.
const maxSlow = 10_000

// NewSource returns the source that options and plan describe. market must return a new Market.
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

// notices are the notices that providers' terms require to be shown with their data, by scheme
// (builder/source/README.md, "What it costs").
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

// Files returns the present state of the market, or the state in the recording. It does not judge
// whether the present is useful for t; the builder does. t is used only as the time of a recording
// that states none. Files returns an error if a required list is missing and its last good answer
// is too old.
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

// Record writes the answers from which a feed would be made now to the folder dir. The folder must
// be missing or empty, so that two recordings are never mixed.
func (s *Source) Record(ctx context.Context, dir string) error {
	_, o, err := s.collect(ctx)
	if err != nil {
		return err
	}
	return o.record(dir, s.scheme)
}

// Costs computes the cost of a month of snapshots, without any call to the provider.
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
	// Cache is the parent of the cache folders of sources without the option cache, each named
	// after its provider. "" means that there is none.
	Cache string
	// Costs means that the source is opened only for Source.Costs, which needs no key.
	Costs bool
	// Transport and Now are for tests. nil means the network and the clock.
	Transport http.RoundTripper
	Now       func() time.Time
}

// Opener returns the source.Opener of a provider in this environment.
func (e Env) Opener(open func(rest string, env Env) (*Source, error)) source.Opener {
	return func(_ context.Context, rest string) (source.Source, error) { return open(rest, e) }
}
