package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// Directory is what the next snapshot's directory is compared with. Package changes makes and reads it.
type Directory struct {
	// Parts has, by collection, a power of two of parts, among which a hash distributes the ids, so that a
	// build reads and writes those alone in which something changed. nil: the next snapshot's changes begin
	// anew.
	Parts map[string][]Part `json:"parts"`
	// Withdrawn names the changes of snapshots that rollbacks took back; nil: there are none.
	Withdrawn *Withdrawn `json:"withdrawn,omitempty"`
}

// Part is an object with some of a collection's items; without any it has no object.
type Part struct {
	artifacts.Ref
	// Sum is a digest of the items.
	Sum string `json:"sum"`
}

// Withdrawn are changes that clients may have followed and that the next snapshots lead back from: of
// withdrawn snapshots, and of those that followed a rollback and are older than Through.
type Withdrawn struct {
	// After is the time of the oldest snapshot that was published again: only later changes count.
	After time.Time `json:"after"`
	// Through is the time of the newest withdrawn snapshot. A client that has it asks for later changes,
	// so the first later snapshot is the last that leads back.
	Through time.Time `json:"through"`
	// Days are the views that have the changes of withdrawn snapshots, among others.
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

// maxWithdrawn bounds Withdrawn.Days: rollbacks between two snapshots are few.
const maxWithdrawn = 100

// withdraw returns the directory d of target for when it takes the place of newest, whose directory is from.
// It has no parts if newest does not have all changes since target.
func (d *Directory) withdraw(from *Directory, newest, target *artifacts.Manifest) *Directory {
	if d == nil && from == nil {
		return nil
	}
	d, from = cmp.Or(d, &Directory{}), cmp.Or(from, &Directory{})
	to := &Withdrawn{After: target.Time, Through: newest.Time}
	all := newest.ChangesDays()
	for _, w := range []*Withdrawn{from.Withdrawn, d.Withdrawn} {
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
	if from.Parts == nil || newest.Changes == nil || newest.Changes.Since.After(to.After) ||
		len(to.Days) > maxWithdrawn {
		to.Days = nil
		return &Directory{Withdrawn: to}
	}
	return &Directory{Parts: d.Parts, Withdrawn: to}
}

// SetDirectory sets the directory that Advance takes over.
func (l *Ledger) SetDirectory(d *Directory) {
	root := *l.root
	root.Directory = d
	l.root = &root
}
