package main

import (
	"encoding/json"
	"fmt"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/report"
	"example.com/marketdata/loadtest/result"
)

// Run executes `loadtest capacity`.
func (c *capacityCmd) Run(e *env) error {
	thresholds, err := assertions(append(c.SLO, "errors<0.1%"), result.ParseAssertion)
	if err != nil {
		return err
	}
	if !(c.Headroom >= 0 && c.Headroom < 1) {
		return cmdline.Wrong("--headroom is %v: want a share from 0 to below 1", c.Headroom)
	}
	t, err := c.tester(e, thresholds)
	if err != nil {
		return err
	}
	load := c.load(false)
	load.Tick = e.screen.tick
	found, err := t.Capacity(e.ctx, loadtest.Search{
		Thresholds: thresholds, Step: c.Step, Load: load,
		Tried: func(try loadtest.Try) {
			e.screen.clear()
			loop, verdict := "open", string(try.Verdict)
			if try.Connections > 0 {
				loop = fmt.Sprintf("closed, %d connections", try.Connections)
				if try.Verdict == loadtest.Held {
					verdict = "not judged" // thresholds are for the open loop
				}
			}
			fmt.Fprintf(e.stderr, "%9.0f/s  p50 %-9s p99 %-9s %-24s %s", try.Rate, result.Millis(try.Run.Due.P50MS),
				result.Millis(try.Run.Due.P99MS), loop, verdict)
			if try.Why != "" {
				fmt.Fprintf(e.stderr, ": %s", try.Why)
			}
			fmt.Fprintln(e.stderr)
		},
	})
	if err != nil {
		return err
	}
	e.screen.clear()
	if c.HTML != "" {
		b, err := report.CapacityHTML(found)
		if err != nil {
			return err
		}
		if err := writeFile(e, c.HTML, b); err != nil {
			return err
		}
	}
	nodes := found.NodesFor(float64(c.Traffic), c.Headroom)
	if c.Traffic <= 0 {
		nodes = 0
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
		fmt.Fprintln(e.stdout, found)
		if nodes > 0 {
			fmt.Fprintf(e.stdout, "%.0f requests/s need %d nodes: each keeps %.0f %% of its capacity free, and one may be away.\n",
				c.Traffic, nodes, 100*c.Headroom)
		}
	}
	return cmdline.Status(found.Exit())
}
