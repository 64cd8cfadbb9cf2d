package snapshot

import (
	"time"

	"example.com/marketdata/artifacts"
)

// Changes are the changes that a snapshot holds (go doc ./artifacts, "Changes").
type Changes struct {
	// Since is from when they are complete, and Count how many the snapshot itself has.
	Since time.Time
	Count int
	// Days are those with changes, oldest first.
	Days []ChangesDay
}

// ChangesDay has the changes of a UTC day, oldest first.
type ChangesDay struct {
	*View
	// Start and End are in Unix seconds, End excluded.
	Start, End int64
}

// Changes returns the changes that the snapshot holds, nil if its builder did not record any.
func (s *Snapshot) Changes() *Changes { return s.changes }

func (s *Snapshot) addChanges(m *artifacts.Manifest) {
	if m.Changes == nil {
		return
	}
	s.changes = &Changes{Since: m.Changes.Since, Count: m.Changes.Count}
	for _, in := range m.ChangesDays() {
		day, _ := in.ChangesDay()
		v := s.newView(m, in)
		s.objects = append(s.objects, v.objects...)
		s.changes.Days = append(s.changes.Days, ChangesDay{v, day.Unix(), day.AddDate(0, 0, 1).Unix()})
	}
}
