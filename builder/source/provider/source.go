package provider

import (
	"context"
	"fmt"
	"time"

	"example.com/marketdata/builder/source"
)

// Source is a provider as a source of feeds. It implements Recorder.
type Source struct {
	name      string
	collector *Collector
	market    func() Market
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
	// KeyHeader and Key are sent with each request; without a key nothing is.
	KeyHeader, Key string
	// PerMinute and Burst are how many calls may be made in a minute, and at once.
	PerMinute, Burst int
	// Slow is how many calls a round may make for parts asked for one by one.
	Slow int
}

// maxSlow bounds the option slow.
const maxSlow = 10_000

// NewSource returns the source that options and plan describe. market returns an
// empty market.
func NewSource(o *Options, env Env, plan Plan, market func() Market) (*Source, error) {
	var err error
	if plan.PerMinute, err = o.Number("rate", plan.PerMinute, 1, 100_000); err != nil {
		return nil, err
	}
	if plan.Slow, err = o.Number("slow", plan.Slow, 0, maxSlow); err != nil {
		return nil, err
	}
	client, err := NewClient(ClientConfig{
		Base: o.Text("base", plan.Base), KeyHeader: plan.KeyHeader, Key: plan.Key,
		PerMinute: plan.PerMinute, Burst: plan.Burst, Transport: env.Transport, Log: env.Log,
	})
	if err != nil {
		return nil, err
	}
	collector, err := NewCollector(Config{
		Source: o.scheme, Client: client, Cache: o.Text("cache", ""), Replay: o.Text("replay", ""),
		SlowCalls: plan.Slow, Log: env.Log, Now: env.Now,
	})
	if err != nil {
		return nil, err
	}
	return &Source{o.String(), collector, market}, nil
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
	// Required: there is no feed without this list. The newest last_updated of its
	// rows is the time of a recording that does not say its own.
	Required bool
}

// Lists gets lists. It fails when a required one is missing.
func (r *Round) Lists(ctx context.Context, lists ...List) error {
	for _, l := range lists {
		l.Check = CheckArray
		a, err := r.Get(ctx, l.Part)
		if err != nil {
			if l.Required || ctx.Err() != nil {
				return err
			}
			continue
		}
		*l.Into = a.Rows()
		r.date(&l)
		if !l.Required {
			continue
		}
		for _, row := range *l.Into {
			if at, err := time.Parse(time.RFC3339, row.Fields.Text("last_updated")); err == nil && at.After(r.newest) {
				r.newest = at
			}
		}
	}
	return nil
}
