package main

import (
	"errors"
	"fmt"
	"time"

	"example.com/marketdata/builder"
	"example.com/marketdata/internal/cmdline"
)

type importCmd struct {
	Files   []string `arg:"" name:"file" help:"Files .csv, .ndjson, .jsonl or .parquet with columns key, time and price, and optionally market_cap and volume; or feed folders, or folders of feed folders. See FEED.md, Importing a past."`
	Rewrite bool     `help:"Replace prices and candles that the store already has, although clients may have seen them."`
	publishFlags
	JSON bool `help:"Print the report as one JSON object."`
}

func (c *importCmd) Run(e *env) error {
	p := e.progress()
	b, err := c.open(e, nil, false, 0, p.show)
	if err != nil {
		return err
	}
	report, err := b.Import(e.ctx, c.Files, c.Rewrite)
	p.close()
	if err == nil && report.Published {
		c.renewSignatures(e.ctx, e, b.Store)
		c.remember(e, b.Store)
	}
	if c.JSON {
		full := struct {
			*builder.ImportReport
			Error string `json:"error,omitempty"`
		}{ImportReport: report}
		if err != nil {
			full.Error = err.Error()
		}
		return errors.Join(err, e.printJSON(full))
	}
	if err == nil || errors.Is(err, builder.ErrNoRow) {
		e.printImport(report)
	}
	return err
}

// zoneNames describes each zone of builder.ImportReport: its age, and how many prices the store
// keeps.
var zoneNames = [...]string{"of the last 48 hours", "of the 90 days before (one an hour)", "older (one a day)"}

// printImport prints what an import did with its rows.
func (e *env) printImport(r *builder.ImportReport) {
	if r.Published {
		e.succeeded("%s read in %s; the snapshot after %s shows them", count(r.Rows, "row"),
			cmdline.Span(time.Duration(r.DurationMS)*time.Millisecond), r.SnapshotTime)
	} else {
		e.print("nothing to do: %s read, and the store is unchanged", count(r.Rows, "row"))
	}
	for i := range r.Zones {
		if z := &r.Zones[i]; z.Kept+z.Candles > 0 {
			e.print("  %s: %s kept, %s more in candles alone", zoneNames[i], count(z.Kept, "price"), comma(z.Candles))
		}
	}
	say := func(n int, what, example string) {
		if n == 0 {
			return
		}
		if at, ok := r.Examples[example]; ok {
			what += fmt.Sprintf(", such as %s", at)
		}
		e.print("  %s: %s", count(n, "row"), what)
	}
	say(r.Same, "the store has them already", "")
	say(r.Refused, "not taken: they differ from what the store has; --rewrite replaces that", "refused")
	say(r.Early, "not taken: they lie before the first snapshot of their day or hour", "early")
	say(r.NoHistory, "not taken: their assets are not among those with history (--history-assets)", "no_history")
	say(r.Repeated, "not taken: an earlier row of the same asset falls into the same ten minutes", "")
	say(r.Newer, "not taken: newer than the published snapshot", "")
	say(r.Unusable, "set aside, for these reasons:", "")
	for _, p := range r.Problems {
		e.print("    %s: %s", p.Place, p.Reason)
	}
	for _, column := range r.Ignored {
		e.print("  not read: column %s", column)
	}
	say(r.Unknown, "no asset has their key; builder feed writes the feed with the right keys:", "")
	for _, k := range r.UnknownKeys[:min(len(r.UnknownKeys), maxShownKeys)] {
		e.print("    %s: %q, %s", k.First, k.Key, count(k.Rows, "row"))
	}
	if n := len(r.UnknownKeys) - maxShownKeys; n > 0 {
		e.print("    and %s more; --json lists the first 1,000", count(n, "key"))
	}
}

// maxShownKeys limits how many unknown keys are printed.
const maxShownKeys = 20
