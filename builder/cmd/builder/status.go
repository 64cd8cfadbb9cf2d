package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/cmdline"
	"github.com/dustin/go-humanize"
)

type statusCmd struct {
	storeFlag
	MinAge time.Duration `former:"grace" default:"${grace}" help:"Grace period of gc, for the number of objects that it would remove."`
	JSON   bool          `help:"Print the report as one JSON object."`
}

func (c *statusCmd) Run(e *env) error {
	_, trust, err := c.keys()
	if err != nil {
		return err
	}
	store, err := c.openPlain(e, false)
	if err == nil {
		err = c.checkKnown(e, store)
	}
	if err != nil {
		return err
	}
	r, err := upkeep.Status(e.ctx, upkeep.StatusConfig{Store: store, Trust: trust, Grace: c.MinAge})
	switch {
	case err != nil:
		return err
	case c.JSON:
		err = e.printJSON(r)
	default:
		err = e.printStatus(r)
	}
	if n := len(r.Problems); err == nil && n > 0 {
		err = errors.New(count(n, "problem"))
	}
	return err
}

// collections lists the collections that the table shows, in the order of its columns.
var collections = []string{"assets", "quotes", "exchanges", "categories", "chains"}

func (e *env) printStatus(r *upkeep.StatusReport) error {
	t := &table{}
	e.snapshots(t, r)
	t.row(nil)
	e.moving(t, r)
	t.row(nil)
	t.row(nil, "API keys", fmt.Sprintf("%s in force, %s expired, %s revoked", comma(r.Keys.InForce),
		comma(r.Keys.Expired), comma(r.Keys.Revoked)))
	if l := r.Ledger; l != nil {
		text := fmt.Sprintf("prices of %s", count(l.Snapshots, "snapshot"))
		if l.Snapshots > 0 {
			text += fmt.Sprintf(" from %s to %s", l.Oldest.Format(time.RFC3339), l.Newest.Format(time.RFC3339))
		}
		paint := e.paint.Red
		if l.Missing == 0 {
			paint = nil
		}
		t.row(paint, "ledger", fmt.Sprintf("%s, %s ever, %s of %s, %s missing", text, count(l.IDs["assets"], "asset"),
			count(l.Objects, "object"), size(l.Bytes), comma(l.Missing)))
		t.row(nil, "", l.Digest)
	}
	if len(r.Snapshots) > 0 && len(r.Snapshots[0].DataAges) > 0 {
		ages := r.Snapshots[0].DataAges
		var texts []string
		for _, part := range slices.Sorted(maps.Keys(ages)) {
			texts = append(texts, part+" "+ago(ages[part]))
		}
		t.row(nil, "newest data", strings.Join(texts, ", "))
	}
	t.row(nil, "size", fmt.Sprintf("%s, %s", count(r.Objects, "object"), size(r.Bytes)))
	t.row(nil, "gc", fmt.Sprintf("would remove %s, %s", count(r.Free, "object"), size(r.FreeBytes)))
	for _, p := range r.Problems {
		t.row(e.paint.Red, "problem", p)
	}
	return t.print(e.stdout)
}

func (e *env) snapshots(t *table, r *upkeep.StatusReport) {
	damaged := slices.ContainsFunc(r.Moving,
		func(m upkeep.MovingStatus) bool { return m.Key == artifacts.CurrentKey && m.There })
	switch {
	case len(r.Snapshots) == 0 && damaged:
		t.row(e.paint.Red, "the pointer to the published snapshot cannot be read; builder restore puts back that of a "+
			"backup or of an edge's cache folder")
	case len(r.Snapshots) == 0:
		t.row(nil, noSnapshot)
	default:
		t.row(nil, "store", r.Store)
		t.row(nil)
		t.row(e.paint.Bold, "SNAPSHOT", "AGE", "STATE", "SEQUENCE", strings.ToUpper(strings.Join(collections, "\t")),
			"OBJECTS", "SIZE", "MISSING")
	}
	for _, s := range r.Snapshots {
		var paint func(string) string
		state, sequence := "retained", any("")
		if s.Published {
			state, sequence, paint = "published", s.Sequence, e.paint.Green
		}
		var counts []string
		for _, name := range collections {
			n := "?"
			if s.Counts != nil {
				n = comma(s.Counts[name])
			}
			counts = append(counts, n)
		}
		if s.Missing > 0 || s.Counts == nil {
			paint = e.paint.Red
		}
		t.row(paint, s.Time.Format(time.RFC3339), ago(s.AgeSeconds), state, sequence, strings.Join(counts, "\t"),
			comma(s.Objects), size(s.Bytes), comma(s.Missing))
	}
	for _, at := range r.Withdrawn {
		t.row(nil, at.Format(time.RFC3339), "", "withdrawn")
	}
	if at := r.WithdrawnThrough; !at.IsZero() {
		t.row(nil, at.Format(time.RFC3339), "", "withdrawn, with all before")
	}
}

// smallNames gives the display name of each small object, and the name of its number, if it has
// one.
var smallNames = map[artifacts.Key][2]string{
	artifacts.IdentityKey: {"identity"}, artifacts.CurrentKey: {"pointer", "sequence"},
	artifacts.ChangeKey: {"change record", "number"}, artifacts.KeysKey: {"key set", "number"},
}

// moving adds the small objects to the table. It writes numbers in the form in which other commands
// accept them.
func (e *env) moving(t *table, r *upkeep.StatusReport) {
	t.row(e.paint.Bold, "SMALL OBJECT", "VERSION", "SIGNATURE")
	for _, m := range r.Moving {
		var paint func(string) string
		name, version, signature := smallNames[m.Key], "", ""
		switch {
		case !m.There:
			version = "not there"
		case len(m.SignedBy) == 0:
			signature = "none"
		default:
			signature = "by " + strings.Join(m.SignedBy, ", ") + "; to check it, give --trust-key"
		}
		if m.Number > 0 {
			version = fmt.Sprintf("%s %d", name[1], m.Number)
		}
		if m.There && m.Trusted != nil {
			if *m.Trusted {
				signature, paint = "by "+strings.Join(m.SignedBy, ", ")+", trusted", e.paint.Green
			} else {
				signature, paint = strings.Trim(signature+", NOT trusted", ", "), e.paint.Red
			}
		}
		t.row(paint, name[0], version, signature)
	}
}

// ago formats an age, given in seconds. A negative age means a time in the future.
func ago(seconds int64) string {
	if seconds < 0 {
		return "in " + cmdline.Span(time.Duration(-seconds)*time.Second)
	}
	return cmdline.Span(time.Duration(seconds)*time.Second) + " ago"
}

func size(n int64) string { return humanize.IBytes(uint64(n)) }
