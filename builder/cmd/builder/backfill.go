package main

import (
	"fmt"
	"time"

	"example.com/marketdata/builder"
)

type backfillCmd struct {
	Feeds string `required:"" placeholder:"DIR" help:"Folder of feed folders, each with its time."`
	publishFlags
	JSON bool `help:"Print the report as one JSON object."`
}

// backfillReport is the printed report of a backfill.
type backfillReport struct {
	*builder.Report
	// Skipped names the feeds of the same ten minutes as an earlier one.
	Skipped []string `json:"skipped"`
	Error   string   `json:"error,omitempty"`
}

func (c *backfillCmd) Run(e *env) error {
	feeds, skipped, err := builder.ReadPastFeeds(e.ctx, c.Feeds)
	if err != nil {
		return fmt.Errorf("--feeds: %w", err)
	}
	for _, name := range skipped {
		e.log.Warn("left out: an earlier feed is of the same ten minutes", "feed", name)
	}
	p := e.progress()
	b, err := c.open(e, nil, true, 0, p.show)
	if err != nil {
		return err
	}
	report, err := b.Backfill(e.ctx, feeds)
	p.close()
	if c.JSON {
		full := backfillReport{Report: report, Skipped: append([]string{}, skipped...)}
		if err != nil {
			full.Error = err.Error()
		}
		if perr := e.printJSON(full); err == nil {
			err = perr
		}
		return err
	}
	if err == nil && report.Published {
		e.print("%d feeds of the past are remembered, from %s on", report.Past, feeds[0].Time.Format(time.RFC3339))
	}
	return e.printReport(report, err, false)
}
