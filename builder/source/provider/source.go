package provider

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"example.com/marketdata/builder/source"
)

// Source is a provider as a source of feeds.
type Source struct {
	name, scheme string
	market       func() Market
	budget       *budget
	backend      backend
}

// Market is what a provider's package says of its provider: what to ask for, and
// how the rows become those of a feed. There is one for each snapshot.
type Market interface {
	// Collect asks the round for all that Write uses.
	Collect(ctx context.Context, r Round) error
	// Write writes the rows. It judges nothing and drops nothing: a row that is of
	// no use stays as it is, for the reader of the feed to set aside.
	Write(f *Feed)
}

// Plan is what an account at the provider may ask, unless options say otherwise.
type Plan struct {
	Base string
	// KeyHeader is sent with each request: KeyPrefix, such as "Bearer ", and Key;
	// without a key nothing is.
	KeyHeader, KeyPrefix, Key string
	// KeyEnv names the environment variable of a key that the provider always wants:
	// Key is then read from there, and without it there is no source.
	KeyEnv string
	// PerMinute and Burst are how many calls may be made in a minute, and at once.
	PerMinute, Burst int
	// Slow is how many calls a round may make for parts asked for one by one.
	Slow int
	// Quotas are those of the plans that the account may be of, the cheapest first.
	Quotas []Quota
	// Calls are how many calls parts take by experience, where that is not one: what
	// costs are reckoned with before a part was asked for. That of a kind asked for
	// one by one, KIND/*, is for all of them.
	Calls map[string]int
}

// maxSlow bounds the option slow.
const maxSlow = 10_000

// NewSource returns the source that options and plan describe. market returns an
// empty market.
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
			"--source-cache)",
			"source", o.scheme, "plan", chosen.Name, "calls_a_month", chosen.Calls)
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
		s.backend = &live{source: o.scheme, client: client, budget: b, log: log, now: now, cache: c}
	} else if s.backend, err = openReplay(replay, o.scheme, log); err != nil {
		return nil, err
	}
	return s, nil
}

// Quota implements source.Metered; nil for a recording.
func (s *Source) Quota() *source.Quota { return s.backend.use() }

// Memory is what a source keeps between builds of what its provider said.
type Memory struct {
	// Provider is the name of the provider, and the database of its feeds.
	Provider string
	// Cache is the folder; "": none. Filled: it holds answers of the provider.
	Cache  string
	Filled bool
}

// Memory returns nil for a recording, which remembers nothing.
func (s *Source) Memory() *Memory { return s.backend.memory() }

// String returns the source's name with its options.
func (s *Source) String() string { return s.name }

func (s *Source) collect(ctx context.Context) (Market, *outcome, error) {
	m := s.market()
	o, err := s.backend.collect(ctx, func(r Round) error { return m.Collect(ctx, r) })
	return m, o, err
}

// Files returns the present state of the market, or that of the recording. The builder
// judges whether the present is of use for t; here t only stands in for the time of a
// recording that has none. Files fails when a required list is missing, and its last
// good answer is too old.
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
		"last_updated",
		s.scheme, indexFile)
}

// Record writes the answers that a feed would be made from now to a folder, which must
// be missing or empty.
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
