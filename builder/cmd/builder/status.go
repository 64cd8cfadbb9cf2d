package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/upkeep"
	"github.com/dustin/go-humanize"
)

type statusCmd struct {
	storeFlag
	Grace time.Duration `default:"${grace}" help:"Grace period of the gc whose work is foretold."`
	JSON  bool          `help:"Print the report as one JSON object."`
}

func (c *statusCmd) Run(e *env) error {
	_, trust, err := c.keys()
	if err != nil {
		return err
	}
	store, err := c.openPlain(e, false)
	if err != nil {
		return err
	}
	r, err := upkeep.Status(e.ctx, upkeep.StatusConfig{Store: store, Trust: trust, Grace: c.Grace})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return e.printJSON(r)
	}
	return e.printStatus(r)
}

// collections of the table, in the order of its columns.
var collections = []string{"assets", "quotes", "exchanges", "categories", "chains"}

func (e *env) printStatus(r *upkeep.StatusReport) error {
	w := statusTable{tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)}
	w.snapshots(r)
	fmt.Fprintln(w)
	w.moving(r)
	fmt.Fprintln(w)
	w.row("keys", fmt.Sprintf("%d in force, %d expired, %d revoked", r.Keys.InForce, r.Keys.Expired, r.Keys.Revoked))
	if l := r.Ledger; l != nil {
		w.row("ledger",
			fmt.Sprintf("prices of %d snapshots from %s to %s, %d assets ever, %d objects, %s, %d missing", l.Snapshots,
				l.Oldest.Format(time.RFC3339), l.Newest.Format(time.RFC3339), l.IDs["assets"], l.Objects, size(l.Bytes),
				l.Missing))
		w.row("", l.Digest)
	}
	if len(r.Snapshots) > 0 && len(r.Snapshots[0].DataAges) > 0 {
		ages := r.Snapshots[0].DataAges
		var texts []string
		for _, part := range slices.Sorted(maps.Keys(ages)) {
			texts = append(texts, fmt.Sprintf("%s %v", part, time.Duration(ages[part])*time.Second))
		}
		w.row("data", "newest row before "+strings.Join(texts, ", "))
	}
	w.row("size", fmt.Sprintf("%d objects, %s", r.Objects, size(r.Bytes)))
	w.row("gc", fmt.Sprintf("would remove %d objects, %s", r.Free, size(r.FreeBytes)))
	for _, p := range r.Problems {
		w.row("problem", p)
	}
	return w.Flush()
}

// statusTable prints a status as a table.
type statusTable struct{ *tabwriter.Writer }

func (w statusTable) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, c)
	}
	fmt.Fprintln(w)
}

func (w statusTable) snapshots(r *upkeep.StatusReport) {
	damaged := slices.ContainsFunc(r.Moving,
		func(m upkeep.MovingStatus) bool { return m.Key == artifacts.CurrentKey && m.There })
	switch {
	case len(r.Snapshots) == 0 && damaged:
		w.row("the pointer to the published snapshot cannot be read; builder restore puts back that of a backup or " +
			"of an edge's cache folder")
	case len(r.Snapshots) == 0:
		w.row(noSnapshot)
	default:
		w.row("store", r.Store)
		fmt.Fprintln(w)
		w.row("SNAPSHOT", "AGE", "STATE", "SEQUENCE", strings.ToUpper(strings.Join(collections, "\t")), "OBJECTS",
			"SIZE", "MISSING")
	}
	for _, s := range r.Snapshots {
		state, sequence := "retained", any("")
		if s.Published {
			state, sequence = "published", s.Sequence
		}
		var counts []string
		for _, name := range collections {
			n := "?"
			if s.Counts != nil {
				n = fmt.Sprint(s.Counts[name])
			}
			counts = append(counts, n)
		}
		w.row(s.Time.Format(time.RFC3339), time.Duration(s.AgeSeconds)*time.Second, state, sequence,
			strings.Join(counts, "\t"), s.Objects, size(s.Bytes), s.Missing)
	}
	for _, t := range r.Withdrawn {
		w.row(t.Format(time.RFC3339), "", "withdrawn")
	}
	if t := r.WithdrawnThrough; !t.IsZero() {
		w.row(t.Format(time.RFC3339), "", "withdrawn, with all before")
	}
}

func (w statusTable) moving(r *upkeep.StatusReport) {
	w.row("OBJECT", "NUMBER", "SIGNED BY", "TRUSTED")
	for _, m := range r.Moving {
		signers, trusted := strings.Join(m.SignedBy, ", "), "not asked"
		switch {
		case !m.There:
			signers = "not there"
		case signers == "":
			signers = "nobody"
		}
		if m.Trusted != nil {
			trusted = map[bool]string{true: "yes", false: "no"}[*m.Trusted]
		}
		w.row(m.Key, m.Number, signers, trusted)
	}
}

func size(n int64) string { return humanize.IBytes(uint64(n)) }
