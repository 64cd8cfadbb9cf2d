package main

import (
	"encoding/json"
	"fmt"

	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/report"
	"example.com/marketdata/loadtest/result"
)

// Run implements the command.
func (c *capacityCmd) Run(e *env) error {
	objective, err := assertions(append(c.SLO, "errors<0.1%"))
	if err != nil {
		return err
	}
	if !(c.Headroom >= 0 && c.Headroom < 1) {
		return badUsage("--headroom is %v: want a share from 0 to below 1", c.Headroom)
	}
	t, err := c.tester(e)
	if err != nil {
		return err
	}
	var best *result.Run
	load := c.load(false)
	load.Tick = e.screen.tick
	found, err := t.Capacity(e.ctx, loadtest.Search{
		Objective: objective, Start: c.Start, Max: max(c.Max, c.Start), Precision: c.Precision, Step: c.Step, Confirm: c.Confirm, Load: load,
		Tried: func(try loadtest.Try) {
			if try.Held {
				best = try.Run
			}
			e.screen.clear()
			fmt.Fprintf(e.stderr, "%9.4g/s  p50 %-9s p99 %-9s %s\n", try.Rate, report.Millis(try.Run.Due.P50MS), report.Millis(try.Run.Due.P99MS), try.Why)
		},
	})
	if err != nil {
		return err
	}
	e.screen.clear()
	if c.HTML != "" && best != nil {
		b, err := report.HTML(best)
		if err != nil {
			return err
		}
		if err := writeFile(e, c.HTML, b); err != nil {
			return err
		}
	}
	nodes := 0
	if c.Traffic > 0 {
		nodes = found.NodesFor(c.Traffic, c.Headroom)
	}
	if c.JSON {
		b, err := json.MarshalIndent(struct {
			*loadtest.Capacity
			NodesNeeded int `json:"nodes_needed,omitempty"`
		}{found, nodes}, "", " ")
		if err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "%s\n", b)
	} else {
		c.print(e, found, nodes)
	}
	for _, try := range found.Tries {
		if try.Run.Checks.Wrong > 0 {
			return status(loadtest.ExitWrong)
		}
	}
	if found.Rate == 0 {
		if found.AtLeast {
			return status(loadtest.ExitInvalid)
		}
		return status(loadtest.ExitThreshold)
	}
	return nil
}

func (c *capacityCmd) print(e *env, found *loadtest.Capacity, nodes int) {
	if found.Rate == 0 {
		fmt.Fprintln(e.stdout, "No rate held the objective.")
		return
	}
	atLeast := ""
	if found.AtLeast {
		atLeast = "at least "
	}
	fmt.Fprintf(e.stdout, "Capacity: %s%.4g requests/s over %d nodes, %.4g each.\n", atLeast, found.Rate, found.Nodes, found.Rate/float64(found.Nodes))
	if found.AtLeast {
		fmt.Fprintln(e.stdout, "The search ended before the service's limit: at --max, or where the load tester itself could do no more.")
	}
	if nodes > 0 {
		fmt.Fprintf(e.stdout, "%.4g requests/s need %d nodes: each keeps %.0f %% of its capacity free, and one may be away.\n", c.Traffic, nodes, 100*c.Headroom)
	}
}
