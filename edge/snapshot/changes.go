package snapshot

import (
	"time"

	"example.com/marketdata/artifacts"
)

// Changes contains the changes that a snapshot lists (go doc ./artifacts, "Changes").
type Changes struct {
	// Since is the time from which the changes are complete. Count is the number of changes in the snapshot
	// itself.
	Since time.Time
	Count int
	// Days lists the days with changes, oldest first.
	Days []ChangesDay
}

// ChangesDay contains the changes of a UTC day, oldest first.
type ChangesDay struct {
	*View
	// Start and End are Unix seconds. The day does not include End.
	Start, End int64
}

// Changes returns the changes that the snapshot contains, or nil if its builder did not record them.
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
