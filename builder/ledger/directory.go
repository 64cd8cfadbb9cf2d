package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// Directory describes what is listed at a snapshot, so that the next build can tell what changed.
// Package changes makes and reads it.
type Directory struct {
	// Parts holds each collection's items. The number of parts is a power of two. A hash
	// distributes the ids among the parts, so a build reads and writes only parts in which
	// something changed. If Parts is nil, the record of changes starts over with the next snapshot.
	Parts map[string][]Part `json:"parts"`
	// Withdrawn names the changes of withdrawn snapshots. It is nil if there are none.
	Withdrawn *Withdrawn `json:"withdrawn,omitempty"`
}

// Part holds some of a collection's items. A part without items has no object, and its Size is 0.
type Part struct {
	artifacts.Ref
	// Sum is a digest of the items.
	Sum string `json:"sum"`
}

// Withdrawn names changes that clients may have applied and that a rollback has undone. The next
// snapshots repeat them, so that these clients return to the published state. The changes include
// those from snapshots that were built after a rollback and are not later than Through.
type Withdrawn struct {
	// After is the time of the oldest snapshot that was published again. Only later changes count.
	After time.Time `json:"after"`
	// Through is the time of the newest withdrawn snapshot. A client that has this snapshot
	// requests only changes after it, so the first snapshot after Through must repeat the withdrawn
	// changes. Later snapshots need not.
	Through time.Time `json:"through"`
	// Days are the views that contain the changes from withdrawn snapshots. They may also contain
	// other changes.
	Days []artifacts.View `json:"days"`
}

func (d *Directory) refs() (refs []artifacts.Ref) {
	if d == nil {
		return nil
	}
	for _, c := range slices.Sorted(maps.Keys(d.Parts)) {
		for _, p := range d.Parts[c] {
			if p.Size > 0 {
				refs = append(refs, p.Ref)
			}
		}
	}
	if d.Withdrawn != nil {
		for i := range d.Withdrawn.Days {
			for _, o := range d.Withdrawn.Days[i].Objects {
				refs = append(refs, o.Ref)
			}
		}
	}
	return refs
}

// maxWithdrawn bounds Withdrawn.Days. Rollbacks are rare, so few of them happen between two
// snapshots.
const maxWithdrawn = 100

// withdraw returns the directory for target, which is published again and replaces newest. d is the
// directory of target, and newestDirectory is the directory of newest. The result has no parts if
// newest does not list all changes since target.
func (d *Directory) withdraw(newestDirectory *Directory, newest, target *artifacts.Manifest) *Directory {
	if d == nil && newestDirectory == nil {
		return nil
	}
	d, newestDirectory = cmp.Or(d, &Directory{}), cmp.Or(newestDirectory, &Directory{})
	to := &Withdrawn{After: target.Time, Through: newest.Time}
	all := newest.ChangesDays()
	for _, w := range []*Withdrawn{newestDirectory.Withdrawn, d.Withdrawn} {
		if w == nil {
			continue
		}
		if w.After.Before(to.After) {
			to.After = w.After
		}
		if w.Through.After(to.Through) {
			to.Through = w.Through
		}
		for i := range w.Days {
			all = append(all, &w.Days[i])
		}
	}
	for _, v := range all {
		same := func(w artifacts.View) bool {
			return v.Collection == w.Collection && slices.Equal(v.Objects, w.Objects)
		}
		day, _ := v.ChangesDay()
		if day.Add(24*time.Hour).After(to.After) && !slices.ContainsFunc(to.Days, same) {
			to.Days = append(to.Days, *v)
		}
	}
	if newestDirectory.Parts == nil || newest.Changes == nil || newest.Changes.Since.After(to.After) ||
		len(to.Days) > maxWithdrawn {
		to.Days = nil
		return &Directory{Withdrawn: to}
	}
	return &Directory{Parts: d.Parts, Withdrawn: to}
}

// SetDirectory sets the directory that Advance copies into the next root.
func (l *Ledger) SetDirectory(d *Directory) {
	root := *l.root
	root.Directory = d
	l.root = &root
}
