package provider

import (
	"context"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/builder/source"
)

// Round answers a Market's requests for one snapshot. There are three kinds: a live round asks the
// provider, a replay reads a recording, and a dry run only notes the requests, to compute their
// cost.
type Round interface {
	// Lists collects the rows of lists. It returns an error if a required list is missing, if a
	// live round lacks the directory, or if a recorded list cannot be used.
	Lists(ctx context.Context, lists ...List) error
	// Each requests the parts of one kind one by one, and returns the available answers by id.
	// partOf returns the part for an id. A live round has a limited number of calls for such parts.
	// It first requests the parts that were never requested, in the given order, then the parts
	// with the oldest answers, and last the parts that failed before.
	Each(ctx context.Context, kind string, ids []string, partOf func(id string) Part) (map[string]*Answer, error)
}

// backend runs rounds, either live or from a recording.
type backend interface {
	// collect calls fn with a new round and returns what the round has collected. It returns an
	// outcome even if the round fails, unless the round cannot begin.
	collect(ctx context.Context, fn func(r Round) error) (*outcome, error)
	// use returns how much of the quota is used, and memory describes what is kept between rounds.
	// Both return nil for a replay.
	use() *source.Quota
	memory() *Memory
}

// outcome is the result of a round.
type outcome struct {
	// time is the present, or the time of the recording; it is zero if the recording does not state
	// it. newest is the latest time of any row in the recording's required lists. It is used if
	// time is zero.
	time, newest time.Time
	// parts has an entry for each list and for each kind of individual item.
	parts []source.Part
	// used holds the answers that the market received, by part name.
	used map[string]usedAnswer
}

type usedAnswer struct {
	part   *Part
	answer *Answer
}

func newOutcome(t time.Time) outcome { return outcome{time: t, used: map[string]usedAnswer{}} }

// record writes the answers to the folder dir as a recording.
func (o *outcome) record(dir, source string) error {
	f := emptyFolder(dir, source)
	for _, name := range slices.Sorted(maps.Keys(o.used)) {
		if err := f.save(o.used[name].part, o.used[name].answer, false); err != nil {
			return err
		}
	}
	return f.commit(o.time)
}

// eachTime calls note once for each time that a list's rows and pages state. A time that is absent
// or invalid is zero.
func (l *List) eachTime(a *Answer, note func(t time.Time)) {
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

// dryRun is a Round that makes no requests. It calls the function for each list, with kind false,
// and once for each kind of individual item, with kind true.
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
