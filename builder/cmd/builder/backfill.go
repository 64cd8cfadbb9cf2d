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

// Help is printed by backfill --help.
func (backfillCmd) Help() string {
	return `Brings feeds of the past, each a folder in DIR as builder feed writes them, into the ledger, so that a new service has its windows, board and changes on the first day.

On a store without a snapshot, and when all feeds are newer than the published one, the newest feed's snapshot is published and the others are remembered, as if each had been built at its time. When all feeds are older than anything the store remembers, they are put before that: what is published stays as it is, and the next snapshot has the longer past. Feeds among what the store remembers are refused.

Each feed's time is rounded down to ten minutes, and of several with the same time the earliest counts. How much is kept of the past is what builds would have kept: every snapshot of the last 48 hours, the first of each hour up to 90 days, the first of each day up to 366. The guard rails hold for each feed against the one before. Ids are given out in order of time and stay for ever. All of it takes effect at once or not at all; but when a guard rail stops a feed that is newer than what is published, the feeds before it are kept, with status 1, and the message says which feeds to go on with. If a builder publishes meanwhile the backfill fails and changes nothing: stop builder run for as long as it takes. Intermediate results lie in the folder for temporary files (TMPDIR), as large as the prices kept.

Examples:

    builder backfill --feeds /var/lib/market/feeds --store file:/var/lib/market/store
    builder backfill --feeds feeds --store 's3://market/v1?endpoint=http://127.0.0.1:9000&region=us-east-1' --json`
}

// backfillReport is what is printed of a backfill.
type backfillReport struct {
	*builder.Report
	// Skipped names the feeds that lie within the same ten minutes as an earlier
	// one.
	Skipped []string `json:"skipped"`
	Error   string   `json:"error,omitempty"`
}

// Run is called by kong.
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
