package provider

import (
	"encoding/json"
	"time"
)

// maxAhead is how far the provider's clock may be ahead of ours. A row that claims
// to be of a later time would hide that all others stand still.
const maxAhead = 10 * time.Minute

// date notes in a list's state how old its rows are, by the provider's own times:
// last_updated or updated_at of a row, Time of a page. A recording is as old as it
// is; of one that does not say its own time, the newest of a required list stands
// in.
func (r *Round) date(l *List, a *Answer) {
	s := &r.states[len(r.states)-1]
	s.Quotes = l.Required
	note := func(raw json.RawMessage) {
		t := Time(raw).UTC()
		if l.Required && t.After(r.newest) {
			r.newest = t
		}
		if r.c.replay == nil && t.After(s.Newest) && !t.After(r.time.Add(maxAhead)) {
			s.Newest = t
		}
	}
	for _, row := range *l.Into {
		note(row.Fields.Get("last_updated"))
		note(row.Fields.Get("updated_at"))
	}
	for _, page := range a.Pages {
		if raw, err := at(page.Body, l.Time); l.Time != "" && err == nil {
			note(raw)
		}
	}
	if s.Untimed = l.Required && r.c.replay == nil && s.Newest.IsZero(); s.Untimed {
		r.c.Log.Warn("provider: no row says when it was updated, so that nothing tells how old prices are",
			"source", r.c.Source, "part", l.Name)
	}
}
