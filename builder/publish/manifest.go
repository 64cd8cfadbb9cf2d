package publish

import (
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// Withdraw sets the withdrawn times of next: those to which a rollback could still go, after
// next's oldest snapshot. It leaves out the times that next itself publishes.
func Withdraw(next *artifacts.Manifest, withdrawn []time.Time, through time.Time) {
	oldest := next.Oldest()
	next.Withdrawn = slices.DeleteFunc(slices.Clone(withdrawn), func(t time.Time) bool {
		return !t.After(oldest) || t.Equal(next.Time) || Retains(next, t)
	})
	slices.SortFunc(next.Withdrawn, time.Time.Compare)
	next.Withdrawn = slices.CompactFunc(next.Withdrawn, time.Time.Equal)
	if next.WithdrawnThrough = (time.Time{}); through.After(oldest) {
		next.WithdrawnThrough = through
	}
}

// Retains reports whether m retains a snapshot of time t.
func Retains(m *artifacts.Manifest, t time.Time) bool {
	return slices.ContainsFunc(m.Retained, func(ret artifacts.Retained) bool { return ret.Time.Equal(t) })
}

// Stamp is a snapshot's time as reports and messages write it.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
