package main

import (
	"errors"
	"fmt"
	"time"

	"example.com/marketdata/builder"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/internal/cmdline"
)

type backfillCmd struct {
	Feeds  string         `required:"" xor:"from" placeholder:"DIR" help:"Folder of feed folders, each with its time."`
	Source string         `required:"" xor:"from" placeholder:"SOURCE" help:"Instead, a simulated market, sim:…: its year before --time, as if it had been built at every ten-minute mark."`
	Time   cmdline.Moment `placeholder:"T" help:"End of a simulated market's year, rounded down to ten minutes; by default now."`
	publishFlags
	JSON bool `help:"Print the report as one JSON object."`
}

func (c *backfillCmd) Validate() error {
	if c.Source == "" && !c.Time.IsZero() {
		return errors.New("--time: only with --source, since each of --feeds has its own")
	}
	return c.publishFlags.Validate()
}

// feeds returns the feeds to take, the names of those left out, and the simulated market; nil: there is
// none.
func (c *backfillCmd) feeds(e *env) (feeds []builder.PastFeed, skipped []string, src source.Source, err error) {
	if c.Source == "" {
		if feeds, skipped, err = builder.ReadPastFeeds(e.ctx, c.Feeds); err != nil {
			err = fmt.Errorf("--feeds: %w", err)
		}
		return feeds, skipped, nil, err
	}
	if src, err = e.openSource(c.Source); err != nil {
		return nil, nil, nil, err
	}
	if _, ok := src.(*sim.Market); !ok {
		return nil, nil, nil, cmdline.Wrong("--source %s: want sim:…, since no other source knows its past", src)
	}
	end := c.Time.Time
	if end.IsZero() {
		end = time.Now()
	}
	feeds, err = builder.PastOf(e.ctx, src, end)
	return feeds, nil, src, err
}

func (c *backfillCmd) Run(e *env) error {
	feeds, skipped, src, err := c.feeds(e)
	if err != nil {
		return err
	}
	for _, name := range skipped {
		e.log.Warn("left out: an earlier feed is of the same ten minutes", "feed", name)
	}
	p := e.progress()
	b, err := c.open(e, src, true, 0, p.show)
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
