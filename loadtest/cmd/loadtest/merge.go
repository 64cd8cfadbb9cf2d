package main

import (
	"fmt"
	"text/tabwriter"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/result"
)

type mergeCmd struct {
	Runs   []string `arg:"" name:"run.json" help:"Results of one test, one from each machine."`
	Assert []string `sep:"none" placeholder:"T" help:"One more threshold for the sum, such as 'rate>=20000'; give it again for more. Those of the runs are judged again."`
	Out    string   `placeholder:"FILE" help:"Write the result as JSON; - is standard output."`
	HTML   string   `name:"html" placeholder:"FILE" help:"Write the report, one self-contained HTML file."`
}

// Run implements the command.
func (c *mergeCmd) Run(e *env) error {
	more, err := assertions(c.Assert, result.ParseAssertion)
	if err != nil {
		return err
	}
	var runs []*result.Run
	for _, name := range c.Runs {
		r, err := result.Read(name)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	m, err := result.Merge(c.Runs, runs, more)
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	m.Exit = loadtest.Exit(m)
	var files runCmd
	files.Out, files.HTML = c.Out, c.HTML
	if err := files.write(e, m); err != nil {
		return err
	}
	if c.Out == "-" {
		whyNot(e.stderr, m)
		return cmdline.Status(m.Exit)
	}
	summary(e.stdout, m)
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	for _, r := range m.Merged {
		fmt.Fprintf(w, "%s\t%.1f/s answered\tp99 %s\tsend lag p99 %s\town CPU %.0f %%\n", r.Name, r.Rate.Answered,
			result.Millis(r.P99MS), result.Millis(r.LagP99MS), 100*r.CPUShare)
	}
	w.Flush()
	return cmdline.Status(m.Exit)
}
