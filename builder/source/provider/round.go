package provider

import (
	"context"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/builder/source"
)

// Round answers a Market's questions for one snapshot. There are three kinds: a live
// round asks the provider, a replay reads a recording, and a dry run only notes the
// questions, to reckon what they cost.
type Round interface {
	// Lists collects lists. It fails when a required one is missing, or a recorded one
	// cannot be used.
	Lists(ctx context.Context, lists ...List) error
	// Each returns the answers to parts of one kind that are asked for one by one, by id, as far as
	// there are any; part describes the part of an id. A live round has a limited number of calls
	// for such parts. It asks first for those never asked for, in the order given, then for those
	// with the oldest answers, and last for those that failed before.
	Each(ctx context.Context, kind string, ids []string, part func(id string) Part) (map[string]*Answer, error)
}

// backend runs rounds: live or replay.
type backend interface {
	// collect runs ask with a new round and returns what the round has collected. A
	// round that failed has an outcome too, unless it could not begin.
	collect(ctx context.Context, ask func(r Round) error) (*outcome, error)
	// use is the quota's use, and memory what is kept between rounds; nil for replay.
	use() *source.Quota
	memory() *Memory
}

// outcome is what a round has collected.
type outcome struct {
	// time is now, or when the recording was made; zero means that it does not say.
	// newest is the newest time of a row in a recorded required list, which stands in.
	time, newest time.Time
	// parts has a line for each list and each kind asked for one by one.
	parts []source.Part
	// used are the answers that the market received, by part.
	used map[string]usedAnswer
}

type usedAnswer struct {
	part   *Part
	answer *Answer
}

func newOutcome(t time.Time) outcome { return outcome{time: t, used: map[string]usedAnswer{}} }

// record writes the answers to a folder, as a recording.
func (o *outcome) record(dir, source string) error {
	f := emptyFolder(dir, source)
	for _, name := range slices.Sorted(maps.Keys(o.used)) {
		if err := f.save(o.used[name].part, o.used[name].answer, false); err != nil {
			return err
		}
	}
	return f.commit(o.time)
}

// times calls note for each time that a list's rows or pages say they are from.
func (l *List) times(a *Answer, note func(t time.Time)) {
	for _, row := range *l.Into {
		note(Time(row.Fields.Get("last_updated")).UTC())
		note(Time(row.Fields.Get("updated_at")).UTC())
	}
	for _, page := range a.Pages {
		if raw, err := at(page.Body, l.Time); l.Time != "" && err == nil {
			note(Time(raw).UTC())
		}
	}
}

// dryRun asks nobody. It is called for each list and once for each kind asked for one by one.
type dryRun func(p *Part, kind bool)

// Lists implements Round.
func (d dryRun) Lists(_ context.Context, lists ...List) error {
	for i := range lists {
		lists[i].prepare()
		d(&lists[i].Part, false)
	}
	return nil
}

// Each implements Round.
func (d dryRun) Each(_ context.Context, kind string, _ []string, part func(string) Part) (map[string]*Answer, error) {
	p := part("")
	p.Name, p.Value = kind+"/*", Details
	d(&p, true)
	return nil, nil
}
