package provider

import "time"

// maxAhead is how far the provider's clock may be ahead of ours. A row that claims
// to be of a later time would hide that all others stand still.
const maxAhead = 10 * time.Minute

// date notes in a list's state how old its rows are, by the provider's own times:
// last_updated, or updated_at. A recording is as old as it is.
func (r *Round) date(l *List) {
	s := &r.states[len(r.states)-1]
	s.Quotes, s.Every = l.Required, l.Every
	if r.c.replay != nil {
		return
	}
	for _, row := range *l.Into {
		for _, name := range []string{"last_updated", "updated_at"} {
			at, err := time.Parse(time.RFC3339, row.Fields.Text(name))
			if err == nil && at.After(s.Newest) && !at.After(r.time.Add(maxAhead)) {
				s.Newest = at.UTC()
			}
		}
	}
}
