package artifacts

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

const (
	// ChangesSort names the only view of a day's changes.
	ChangesSort = "time"
	// MaxChanges bounds the number of changes that a snapshot lists.
	MaxChanges = 100_000
	// ChangesKept is how long the changes of a day stay listed after the day has ended.
	ChangesKept = 30 * 24 * time.Hour
)

// ChangeCollections and ChangeKinds are the collections and kinds that a change can have, each in
// byte order.
var (
	ChangeCollections = [...]string{"assets", "categories", "chains", "exchanges"}
	ChangeKinds       = [...]string{"added", "back", "changed", "removed"}
)

// Changes describes the changes that a snapshot lists.
type Changes struct {
	// Since is the oldest T from which the list is complete: it has every change after Since.
	Since time.Time `json:"since"`
	// Count is the number of changes between the preceding snapshot and this one.
	Count int `json:"count"`
}

const (
	changesPrefix = "changes/"
	changesDay    = changesPrefix + time.DateOnly
)

// ChangesOf returns the name of the collection that has the changes of t's UTC day.
func ChangesOf(t time.Time) string { return t.UTC().Format(changesDay) }

// IsChanges reports whether a collection has the changes of one day.
func IsChanges(collection string) bool { return strings.HasPrefix(collection, changesPrefix) }

// ChangesDay returns the start of the day whose changes the view lists.
func (v *View) ChangesDay() (time.Time, error) { return time.Parse(changesDay, v.Collection) }

// ChangesDays returns the views of the days with changes, oldest first.
func (m *Manifest) ChangesDays() (days []*View) {
	for i := range m.Views {
		if v := &m.Views[i]; IsChanges(v.Collection) {
			days = append(days, v)
		}
	}
	return days
}

// checkChanges checks the properties that readers of changes rely on.
func (m *Manifest) checkChanges() error {
	if m.Changes == nil {
		return nil
	}
	if err := checkSnapshotTime(&m.Changes.Since); err != nil {
		return fmt.Errorf("changes: since: %w", err)
	}
	if m.Changes.Since.After(m.Time) || m.Changes.Count < 0 {
		return fmt.Errorf("%d changes since %v: want at least 0, and a time not after the snapshot",
			m.Changes.Count, m.Changes.Since)
	}
	var last time.Time
	rows := 0
	for _, v := range m.ChangesDays() {
		day, err := v.ChangesDay()
		if err != nil || v.Sort != ChangesSort || v.Rows == 0 || !day.After(last) || day.After(m.Time) {
			return fmt.Errorf("view %s/%s: not the changes of a later day", v.Collection, v.Sort)
		}
		last = day
		rows += v.Rows
	}
	if rows > MaxChanges {
		return fmt.Errorf("%d changes, at most %d are read", rows, MaxChanges)
	}
	return nil
}

const (
	changeTime       = `{"time":"`
	changeCollection = `","collection":"`
	changeKind       = `","kind":"`
)

// AppendChange appends the item of a change up to and including its kind. The caller appends the
// remaining members and the closing brace.
func AppendChange(dst []byte, t time.Time, collection, kind string) []byte {
	dst = t.UTC().AppendFormat(append(dst, changeTime...), time.RFC3339)
	dst = append(append(dst, changeCollection...), collection...)
	return append(append(append(dst, changeKind...), kind...), '"')
}

// ChangeOf returns the time, collection and kind that AppendChange wrote, without parsing the rest
// of the item. All three are nil if the item is too short to have this form.
func ChangeOf(item []byte) (t, collection, kind []byte) {
	const from, to = len(changeTime), len(changeTime) + len("2006-01-02T15:04:05Z")
	if len(item) < to+len(changeCollection) {
		return nil, nil, nil
	}
	collection, rest, _ := bytes.Cut(item[to+len(changeCollection):], []byte(changeKind))
	kind, _, _ = bytes.Cut(rest, []byte{'"'})
	return item[from:to], collection, kind
}
