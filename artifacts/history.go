package artifacts

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// HistoryWindow is a window of /history (INTERFACE.md, "History").
type HistoryWindow struct {
	// Name is the window's name in requests and answers. Interval is the spacing of its points,
	// as responses contain it ("10m").
	Name, Interval string
	// Length is how far the window reaches back. Step is the length of its intervals, which begin
	// at whole multiples of Step since 1970-01-01T00:00:00Z.
	Length, Step time.Duration
}

// HistoryWindows are the windows of /history, shortest first.
var HistoryWindows = [...]HistoryWindow{
	{"24h", "10m", 24 * time.Hour, 10 * time.Minute},
	{"7d", "1h", 7 * 24 * time.Hour, time.Hour},
	{"30d", "4h", 30 * 24 * time.Hour, 4 * time.Hour},
	{"90d", "12h", 90 * 24 * time.Hour, 12 * time.Hour},
	{"1y", "1d", 365 * 24 * time.Hour, 24 * time.Hour},
}

// First returns the earliest time that a point can have in the window of the snapshot at t: the
// start of the first interval that begins in [t − Length, t].
func (w *HistoryWindow) First(t time.Time) time.Time {
	from := t.Add(-w.Length)
	if first := from.Truncate(w.Step); first.Equal(from) {
		return first
	}
	return from.Truncate(w.Step).Add(w.Step)
}

// Collection returns the name of the collection that lists the assets with a point in the window.
func (w *HistoryWindow) Collection() string { return historyPrefix + w.Name }

// Block returns the name of the collection that has the window's points from start on.
func (w *HistoryWindow) Block(start time.Time) string {
	return historyPrefix + w.Name + "/" + start.UTC().Format(time.RFC3339)
}

const historyPrefix = "history/"

// IsHistory reports whether a collection belongs to history. An edge can answer all other requests
// from a snapshot whose history is missing.
func IsHistory(collection string) bool { return strings.HasPrefix(collection, historyPrefix) }

// History returns the views of a window: the list of assets with points, and the blocks, oldest
// first. listed is nil if the snapshot has no history.
func (m *Manifest) History(w *HistoryWindow) (listed *View, blocks []*View) {
	if listed = m.View(w.Collection(), "id"); listed == nil {
		return nil, nil
	}
	for i := range m.Views {
		if v := &m.Views[i]; strings.HasPrefix(v.Collection, w.Collection()+"/") {
			blocks = append(blocks, v)
		}
	}
	return listed, blocks
}

// checkHistory checks the properties that readers of history rely on: the points of a window's
// blocks ascend in time, in the order in which the manifest lists the views.
func (m *Manifest) checkHistory() error {
	for i := range HistoryWindows {
		w := &HistoryWindows[i]
		var last time.Time
		_, blocks := m.History(w)
		for _, v := range blocks {
			if v.Sort != "id" || len(v.Times) == 0 {
				return fmt.Errorf("view %s/%s: not by id, or without times", v.Collection, v.Sort)
			}
			for j := range v.Times {
				if err := checkSnapshotTime(&v.Times[j]); err != nil {
					return fmt.Errorf("view %s: %w", v.Collection, err)
				}
				if t := v.Times[j]; !t.After(last) || t.After(m.Time) {
					return fmt.Errorf("view %s: the point of %v is out of order", v.Collection, t)
				}
				last = v.Times[j]
			}
		}
	}
	return nil
}

// Latest returns the block whose last point is from the snapshot itself. This is the newest
// block of the shortest window, which has a point for every snapshot. ok is false if the snapshot
// has no points of its own.
func (m *Manifest) Latest() (v *View, ok bool) {
	_, blocks := m.History(&HistoryWindows[0])
	if len(blocks) == 0 {
		return nil, false
	}
	v = blocks[len(blocks)-1]
	return v, slices.ContainsFunc(v.Times[len(v.Times)-1:], m.Time.Equal)
}
