package main

import (
	"fmt"
	"time"

	"example.com/marketdata/builder"
)

type backfillCmd struct {
	Feeds string `required:"" placeholder:"DIR" help:"Folder that contains the feed folders. Each feed states its time."`
	publishFlags
	JSON bool `help:"Print the report as one JSON object."`
}

func (c *backfillCmd) Run(e *env) error {
	feeds, skipped, err := builder.ReadPastFeeds(e.ctx, c.Feeds)
	if err != nil {
		return fmt.Errorf("--feeds: %w", err)
	}
	for _, name := range skipped {
		e.log.Warn("a feed is left out, since an earlier one falls into the same ten minutes", "feed", name)
	}
	p := e.progress()
	b, err := c.open(e, nil, true, 0, p.show)
	if err != nil {
		return err
	}
	report, err := b.Backfill(e.ctx, feeds)
	p.close()
	if err == nil && report.Kept > 0 && !c.JSON {
		e.print("keeps prices of %s of %s, from %s on", comma(report.Kept), count(len(feeds), "feed"),
			report.KeptFrom.Format(time.RFC3339))
	}
	return e.printReport(report, append([]string{}, skipped...), err, c.JSON)
}
