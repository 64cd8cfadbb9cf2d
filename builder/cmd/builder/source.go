package main

import (
	"fmt"
	"time"

	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/cmdline"
)

type sourceCmd struct {
	Source string `required:"" placeholder:"SOURCE" help:"The source, with the options that you will use."`
	JSON   bool   `help:"Print the costs as one JSON object."`
}

func (c *sourceCmd) Run(e *env) error {
	e.costs = true
	src, err := e.openSource(c.Source)
	if err != nil {
		return err
	}
	costs := &provider.Costs{Source: src.String(), Parts: []provider.Cost{}}
	if s, ok := src.(*provider.Source); ok {
		if costs, err = s.Costs(e.ctx); err != nil {
			return err
		}
	}
	if c.JSON {
		return e.printJSON(costs)
	}
	return e.printCosts(costs)
}

func (e *env) printCosts(c *provider.Costs) error {
	if len(c.Parts) == 0 {
		e.print("%s: no calls that count against a quota", c.Source)
		return nil
	}
	every := func(seconds int64) string {
		if seconds == 0 {
			return "never"
		}
		return cmdline.Span((time.Duration(seconds) * time.Second).Round(time.Minute))
	}
	t := &table{}
	t.row(e.paint.Bold, "PART", "KIND", "CALLS", "EVERY", "A MONTH", "WITHIN THE QUOTA", "A MONTH")
	for _, p := range c.Parts {
		calls := comma(p.Calls)
		if !p.Measured {
			calls = "~" + calls
		}
		var paint func(string) string
		rarer := ""
		if p.Month < p.Wanted {
			rarer, paint = "more rarely", e.paint.Yellow
		}
		t.row(paint, p.Part, p.Value, calls, every(p.EverySeconds), comma(p.Wanted), every(p.AskedSeconds),
			comma(p.Month), rarer)
	}
	t.row(nil, "all", "", "", "", comma(c.Wanted), "", comma(c.Month))
	if err := t.print(e.stdout); err != nil {
		return err
	}
	quota := "no quota"
	if c.Quota > 0 {
		quota = fmt.Sprintf("quota %s calls a month, %s of them used", comma(c.Quota), comma(c.Used))
	}
	e.print("\n%s, plan %s: %s; at most %s calls a minute", c.Source, c.Plan, quota, comma(c.PerMinute))
	if c.Cache == "" && c.Quota > 0 {
		e.print("%s", e.paint.Yellow("Without a cache folder each process counts its own calls only: restarts and cron "+
			"jobs can exceed the quota. Give a folder: option cache, or --state-dir."))
	}
	return nil
}
