package provider

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"example.com/marketdata/builder/source"
)

// Source is a provider as a source of feeds. It implements Recorder.
type Source struct {
	name      string
	collector *Collector
	market    func() Market
	plan      struct {
		Quota
		calls map[string]int
	}
}

// Market is what a provider's package says of its provider: what to ask for, and
// how the rows become those of a feed. There is one for each snapshot.
type Market interface {
	// Collect asks the round for all that Write uses.
	Collect(ctx context.Context, r *Round) error
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
	count := &quota{limit: chosen.Calls, burst: chosen.Calls / quotaDays, dir: cache, now: now, state: quotaState{Calls: map[string]int{}}}
	if cache == "" && replay == "" && !env.Costs && chosen.Calls > 0 {
		env.Log.Warn("provider: without a cache folder each process counts its own calls only, so that restarts and other processes can exceed the quota: give a folder (option cache, or --source-cache)",
			"source", o.scheme, "plan", chosen.Name, "calls_a_month", chosen.Calls)
	}
	client, err := NewClient(ClientConfig{
		Base: o.Text("base", plan.Base), KeyHeader: plan.KeyHeader, KeyPrefix: plan.KeyPrefix, Key: plan.Key,
		PerMinute: plan.PerMinute, Burst: plan.Burst, quota: count, Transport: env.Transport, Log: env.Log,
	})
	if err != nil {
		return nil, err
	}
	collector, err := NewCollector(Config{
		Source: o.scheme, Client: client, Cache: cache, Replay: replay,
		SlowCalls: plan.Slow, Log: env.Log, Now: env.Now,
	})
	if err != nil {
		return nil, err
	}
	s := &Source{name: o.String(), collector: collector, market: market}
	s.plan.Quota, s.plan.calls = chosen, plan.Calls
	collector.intervals = s.intervals
	return s, nil
}

// Quota implements source.Metered.
func (s *Source) Quota() *source.Quota {
	if s.collector.Replay != "" {
		return nil
	}
	return s.collector.Client.quota.use(s.collector.Source)
}

// Memory is what a source keeps between builds of what its provider said.
type Memory struct {
	// Provider is the name of the provider, and the database of its feeds.
	Provider string
	// Cache is the folder; "": none. Filled: it holds answers of the provider.
	Cache  string
	Filled bool
}

// Memory returns nil for a recording, which remembers nothing.
func (s *Source) Memory() *Memory {
	c := s.collector
	if c.replay != nil {
		return nil
	}
	return &Memory{Provider: c.Source, Cache: c.Config.Cache, Filled: c.cache != nil && len(c.cache.index.Parts) > 0}
}

// String returns the source's name with its options.
func (s *Source) String() string { return s.name }

func (s *Source) collect(ctx context.Context) (Market, *Round, error) {
	m := s.market()
	round, err := s.collector.Collect(ctx, func(r *Round) error { return m.Collect(ctx, r) })
	return m, round, err
}

// Files gets the present state of the market, or that of the recording. Any time
// asked for is for the builder to judge, since the provider's present is all there
// is: t only stands in for the time of a recording that has none. It fails when a
// required list is missing, and not even an hour old.
func (s *Source) Files(ctx context.Context, t time.Time) (source.Files, error) {
	m, round, err := s.collect(ctx)
	if err != nil {
		return nil, err
	}
	for _, at := range []time.Time{round.time, round.newest, t} {
		if !at.IsZero() {
			f := NewFeed(s.collector.Source, at, round.states)
			m.Write(f)
			return f, nil
		}
	}
	return nil, fmt.Errorf("%s: the recording does not say when it was made: neither has it a %s nor any row a last_updated", s.collector.Source, indexFile)
}

// Record implements Recorder.
func (s *Source) Record(ctx context.Context, dir string) error {
	_, round, err := s.collect(ctx)
	if err != nil {
		return err
	}
	return round.Record(dir)
}

// List is a part that is an array of rows.
type List struct {
	Part
	// Into gets the rows; none when the part is missing.
	Into *[]Row
	// Required: there is no feed without this list. Time is where its pages say how
	// old they are (see Part.At), if rows do not.
	Required bool
	Time     string
	// Directory: these rows are the assets. There is no feed without them either,
	// since they would be gone from the service; a recording may lack them.
	Directory bool
	// Has are members that more than half of the rows have, null or not. Without
	// one, a provider that has renamed it would change rows of ours.
	Has []string
	// Of is the directory, if it came before this list, that the rows of all pages
	// are held against; Sorted when they are asked for in the order of their ids.
	// Most, if not 0, is how many rows are asked for.
	Of     *[]Row
	Sorted bool
	Most   int
}

// Lists gets lists. It fails when a required one is missing, or a recorded one
// cannot be used.
func (r *Round) Lists(ctx context.Context, lists ...List) error {
	for _, l := range lists {
		if l.Check == nil {
			l.Check = CheckRows(l.Has...)
		}
		switch {
		case l.Required:
			l.Value = Tickers
		case l.Directory:
			l.Value = Directory
		case l.Value == Tickers:
			l.Value = Groups
		}
		if l.Of != nil {
			l.Whole = l.whole
		}
		if !l.Required {
			l.Keep = keepForever
		}
		a, err := r.Get(ctx, l.Part)
		if err != nil {
			replayed := r.c.replay != nil
			if l.Required || ctx.Err() != nil || l.Directory && !replayed || replayed && !errors.Is(err, errNotRecorded) && !errors.Is(err, errEmpty) {
				return err
			}
			continue
		}
		*l.Into = a.Rows()
		r.date(&l, a)
	}
	return nil
}

// CheckRows returns a Part.Check of an array of which more than half of the rows have
// all these members, null or not.
func CheckRows(has ...string) func(body []byte) (rows int, err error) {
	return func(body []byte) (int, error) {
		n, err := CheckArray(body)
		if err != nil || n == 0 || len(has) == 0 {
			return n, err
		}
		for _, name := range has {
			with := 0
			for _, row := range Rows(body) {
				if _, ok := row.Fields[name]; ok {
					with++
				}
			}
			if with <= n/2 {
				return 0, fmt.Errorf("%s: in %d of %d rows", name, with, n)
			}
		}
		return n, nil
	}
}

// maxMissing is how many assets, neighbours in the order of their ids, may be
// without a row. In a recorded market of 21,498 coins it is 35 at most; a page of a
// provider has hundreds.
const maxMissing = 100

// whole says what an answer lacks of the directory. An empty page, or one that is
// another's copy, ends the paging, and must not end the market.
func (l *List) whole(a *Answer) error {
	have := map[string]bool{}
	for _, row := range a.Rows() {
		have[row.Fields.ID()] = true
	}
	want := len(*l.Of)
	spare := want / 5 // not all assets are traded, but the largest are
	if l.Most > 0 && l.Most < want-spare {
		want, spare = l.Most, min(maxMissing, l.Most/20)
	}
	if len(have) < want-spare {
		return fmt.Errorf("%d rows on %d pages: want %d", len(have), len(a.Pages), want)
	}
	if !l.Sorted {
		return nil
	}
	ids := make([]string, len(*l.Of))
	for i, row := range *l.Of {
		ids[i] = row.Fields.ID()
	}
	slices.Sort(ids)
	missing := 0
	for i, id := range ids {
		if missing++; have[id] {
			missing = 0
		}
		if missing > maxMissing {
			return fmt.Errorf("no rows from %.80q to %.80q", ids[i-maxMissing], id)
		}
	}
	return nil
}
