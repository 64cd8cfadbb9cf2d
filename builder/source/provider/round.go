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
	// Lists collects lists. It returns an error if a required list is missing, or if a recorded one
	// cannot be used.
	Lists(ctx context.Context, lists ...List) error
	// Each returns the answers to the parts of one kind that are requested one by one. The result
	// is by id, and has only the available answers. part returns the part of an id. A live round
	// has a limited number of calls for such parts. It first requests those that were never
	// requested, in the given order, then those with the oldest answers, and last those that failed
	// before.
	Each(ctx context.Context, kind string, ids []string, part func(id string) Part) (map[string]*Answer, error)
}

// backend runs rounds, either live or from a recording.
type backend interface {
	// collect runs ask with a new round and returns what the round has collected. It returns an
	// outcome even if the round failed, unless the round could not begin.
	collect(ctx context.Context, ask func(r Round) error) (*outcome, error)
	// use returns the quota's use, and memory describes what is kept between rounds. Both return
	// nil for a replay.
	use() *source.Quota
	memory() *Memory
}

// outcome is the result of a round.
type outcome struct {
	// time is the present, or the time of the recording; it is zero if the recording does not state
	// it. newest is the newest time of a row in a recorded required list, which is used instead.
	time, newest time.Time
	// parts has an entry for each list, and for each kind requested one by one.
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

// times calls note for each time that a list's rows or pages state.
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

// dryRun makes no requests. It is called for each list, and once for each kind requested one by
// one.
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
