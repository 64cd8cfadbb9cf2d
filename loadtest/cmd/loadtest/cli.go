package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/pace"
	"example.com/marketdata/loadtest/report"
	"example.com/marketdata/loadtest/result"
	"example.com/marketdata/loadtest/traffic"
	"github.com/alecthomas/kong"
)

const description = `Measures any HTTP service, so that the figures can be believed: loadtest hold --url http://127.0.0.1:80 --target 'GET /' --rate 1k
On the market-data service it sends what clients ask for, and checks the answers.

Every flag is also an environment variable, --rate is LOADTEST_RATE, and may stand in a --config file: rate: 500. "loadtest help all hold" lists the flags that few need, too.
Exit status: 0 fine, 1 failed, 2 wrong usage, 3 threshold or regression, 4 invalid run or no capacity found, 5 wrong answer, 6 ended by --abort-on.`

// cli is the command line.
type cli struct {
	Run       runCmd       `cmd:"" help:"Load a service once: at set times (open loop), or with --closed as fast as it answers."`
	Hold      holdCmd      `cmd:"" aliases:"check" help:"Load a service at one rate, and say in one sentence whether thresholds held; exit 3 when they did not."`
	Capacity  capacityCmd  `cmd:"" help:"Search for the highest rate at which thresholds hold, in three minutes at most; exit 4 when it cannot be found here."`
	Report    reportCmd    `cmd:"" help:"Draw runs as one HTML file."`
	Compare   compareCmd   `cmd:"" help:"Say what changed from one run to another; exit 3 on a regression."`
	Scenarios scenariosCmd `cmd:"" help:"List the scenarios that come with the program."`
	Schema    schemaCmd    `cmd:"" help:"Print the JSON schema of run.json."`

	cmdline.Flags
}

// target contains the flags for the service and the traffic.
type target struct {
	loadtest.Options `embed:""`
	loadtest.Load    `embed:""`
	Oracle           string `placeholder:"STORE" group:"Judgement:" help:"Recompute answers from the snapshots in this store (file:PATH or s3://…) and compare the bytes."`
}

// live contains the flags that apply during a run.
type live struct {
	AbortOn []string `sep:"none" placeholder:"C" group:"Judgement:" help:"End the run when this is true of its last five seconds, such as 'errors>1%', 'p99>2s' or 'wrong>0'; give it again for more."`
}

// results contains the flags for the results of a run.
type results struct {
	Out   string `placeholder:"FILE" group:"Results:" help:"Write the result as JSON; - is standard output."`
	HTML  string `name:"html" placeholder:"FILE" group:"Results:" help:"Write the report, one self-contained HTML file."`
	HGRM  string `hidden:"" name:"hgrm" placeholder:"FILE" group:"Results:" help:"Write the latency distribution for HdrHistogram's plotters."`
	Quiet bool   `group:"Results:" help:"Print no live line and no summary; only why the exit status is not 0."`
}

type runCmd struct {
	Rate     pace.Rate     `placeholder:"R" group:"Load:" help:"Requests a second that are due, such as 500 or 5k."`
	Duration time.Duration `aliases:"for" default:"30s" group:"Load:" help:"How long; --for is the same."`
	Stages   string        `placeholder:"D:R,…" group:"Load:" help:"Rates one after the other, DURATION:RATE or DURATION:FROM-TO; in place of --rate and --duration."`
	Closed   bool          `group:"Load:" help:"Closed loop: each connection sends again when it has its answer. For maximum throughput; its latencies are not those of independent clients."`
	Assert   []string      `aliases:"slo" sep:"none" placeholder:"T" group:"Judgement:" help:"A threshold such as 'p99<5ms', 'errors<0.1%' or 'quotes:p99.9<20ms'; give it again for more."`
	live     `embed:""`
	results  `embed:""`
	target   `embed:"" set:"check=1"`
}

type holdCmd struct {
	Rate     pace.Rate     `required:"" placeholder:"R" group:"Load:" help:"Requests a second that are due, such as 500 or 5k."`
	Duration time.Duration `aliases:"for" default:"1m" group:"Load:" help:"How long; --for is the same."`
	SLO      []string      `name:"slo" aliases:"assert" sep:"none" placeholder:"T" group:"Judgement:" help:"A threshold that must hold, such as 'p99<20ms'; give it again for more. errors<0.1% is one unless another of errors is given."`
	live     `embed:""`
	results  `embed:""`
	target   `embed:"" set:"check=1"`
}

type capacityCmd struct {
	target   `embed:"" set:"check=0.01"`
	SLO      []string      `name:"slo" sep:"none" required:"" placeholder:"T" group:"Search:" help:"A threshold that must hold, such as 'p99<5ms'; give it again for more. errors<0.1% always is one."`
	Step     time.Duration `default:"3s" group:"Search:" help:"Hold each rate this long to judge it, after a warm-up of a fifth of it."`
	Traffic  pace.Rate     `placeholder:"R" group:"Search:" help:"Say how many nodes this traffic needs, in requests a second, if a capacity is found."`
	Headroom float64       `default:"0.3" group:"Search:" help:"Share of a node's capacity that is to stay free."`
	JSON     bool          `name:"json" group:"Results:" help:"Print the result as JSON."`
	HTML     string        `name:"html" placeholder:"FILE" group:"Results:" help:"Write a report of the search, and of the step at the rate that was found."`
}

type reportCmd struct {
	Runs []string `arg:"" name:"run.json" help:"Results, as run --out writes them."`
	HTML string   `name:"html" default:"report.html" help:"Where to write the report."`
}

type compareCmd struct {
	A         string `arg:"" name:"a.json" help:"The run before."`
	B         string `arg:"" name:"b.json" help:"The run after."`
	Tolerance string `default:"5%" help:"How much worse a figure may become, such as 5% or 0.05."`
	HTML      string `name:"html" placeholder:"FILE" help:"Draw both in one report."`
}

type scenariosCmd struct{}

type schemaCmd struct{}

// env is the environment of a command.
type env struct {
	ctx            context.Context
	stdout, stderr io.Writer
	log            *slog.Logger
	screen         *screen
}

// program returns the program with its command line.
func program() cmdline.Program {
	return cmdline.Program{
		Name: "loadtest", Description: description, CLI: &cli{}, Usage: loadtest.ErrUsage,
		Groups: []string{"Service:", "Search:", "Load:", "Traffic:", "Judgement:", "Results:"},
		Run: func(ctx context.Context, parsed *kong.Context, log *slog.Logger) error {
			e := &env{ctx: ctx, stdout: parsed.Stdout, stderr: parsed.Stderr, log: log}
			e.screen = newScreen(parsed.Stderr, log)
			defer e.screen.clear()
			return parsed.Run(e)
		},
	}
}

func assertions(
	texts []string, parse func(string) (*result.Assertion, error),
) ([]*result.Assertion, error) {
	var all []*result.Assertion
	for _, t := range texts {
		a, err := parse(t)
		if err != nil {
			return nil, cmdline.Wrong("%w", err)
		}
		all = append(all, a)
	}
	return all, nil
}

// tester returns a Tester for the target. The thresholds will judge its runs.
func (t *target) tester(e *env, thresholds []*result.Assertion) (*loadtest.Tester, error) {
	opt := t.Options
	opt.Status, opt.Warn, opt.Thresholds = e.screen.show, e.screen.warn, thresholds
	if t.DirectoryRows < 1 {
		return nil, cmdline.Wrong("--directory-rows is %d: want 1 or more", t.DirectoryRows)
	}
	if t.Oracle != "" {
		if t.CheckShare == 0 {
			return nil, cmdline.Wrong("--oracle checks nothing with --check 0")
		}
		store, err := stores.OpenReader(e.ctx, t.Oracle)
		if err != nil {
			return nil, cmdline.Wrong("--oracle: %w", err)
		}
		opt.Store = store
	}
	return loadtest.New(e.ctx, opt)
}

// load returns the load without its stages.
func (t *target) load(closed bool) loadtest.Load {
	l := t.Load
	if l.Connections == 0 {
		l.Connections = 1000
		if closed {
			l.Connections = 64
		}
	}
	return l
}

// Run executes `loadtest run`.
func (c *runCmd) Run(e *env) error {
	load := c.load(c.Closed)
	var err error
	if load.Assertions, err = assertions(c.Assert, result.ParseAssertion); err != nil {
		return err
	}
	switch {
	case c.Closed && (c.Rate != 0 || c.Stages != ""):
		return cmdline.Wrong("--closed has no rate: it sends as fast as the service answers")
	case c.Closed:
		load.Duration = c.Duration
	case c.Stages != "":
		if load.Stages, err = pace.ParseStages(c.Stages); err != nil {
			return cmdline.Wrong("--stages: %w", err)
		}
	case c.Rate == 0:
		return cmdline.Wrong("give --rate, --stages or --closed")
	default:
		load.Stages = pace.Constant(float64(c.Rate), c.Duration)
		if err := pace.Check(load.Stages); err != nil {
			return cmdline.Wrong("--rate, --duration: %w", err)
		}
	}
	r, err := c.run(e, &c.live, c.Quiet, load)
	if err != nil {
		return err
	}
	if err := c.write(e, r); err != nil {
		return err
	}
	if !c.Quiet && c.Out != "-" {
		summary(e.stdout, r)
	} else {
		whyNot(e.stderr, r)
	}
	return cmdline.Status(r.Exit)
}

// Run executes `loadtest hold`.
func (c *holdCmd) Run(e *env) error {
	load := c.load(false)
	asked := c.SLO
	if !slices.ContainsFunc(asked, func(s string) bool { return strings.HasPrefix(strings.TrimSpace(s), "errors") }) {
		asked = append(slices.Clone(asked), "errors<0.1%")
	}
	var err error
	if load.Assertions, err = assertions(asked, result.ParseAssertion); err != nil {
		return err
	}
	load.Stages = pace.Constant(float64(c.Rate), c.Duration)
	if err := pace.Check(load.Stages); err != nil {
		return cmdline.Wrong("--rate, --duration: %w", err)
	}
	r, err := c.run(e, &c.live, c.Quiet, load)
	if err != nil {
		return err
	}
	if r.Exit == loadtest.ExitInvalid && !r.Limited() {
		r.Exit = loadtest.ExitThreshold // the service was too slow for this rate, so it did not hold it
	}
	if err := c.write(e, r); err != nil {
		return err
	}
	if c.Out != "-" && !c.Quiet {
		fmt.Fprintln(e.stdout, r.Verdict())
		wrongAnswers(e.stderr, r)
	} else {
		whyNot(e.stderr, r)
	}
	return cmdline.Status(r.Exit)
}

// run loads the service and shows the progress.
func (t *target) run(e *env, live *live, quiet bool, load loadtest.Load) (*result.Run, error) {
	if quiet {
		e.screen = newScreen(io.Discard, slog.New(slog.DiscardHandler))
	}
	var err error
	if load.AbortOn, err = assertions(live.AbortOn, result.ParseAbort); err != nil {
		return nil, err
	}
	tester, err := t.tester(e, load.Assertions)
	if err != nil {
		return nil, err
	}
	load.Tick = e.screen.tick
	r, err := tester.Run(e.ctx, load)
	if err != nil {
		return nil, err
	}
	e.screen.clear()
	return r, nil
}

func (c *results) write(e *env, r *result.Run) error {
	for _, f := range []struct {
		name string
		make func() ([]byte, error)
	}{
		{c.Out, r.Encode},
		{c.HGRM, r.HGRM},
		{c.HTML, func() ([]byte, error) { return report.HTML(r) }},
	} {
		if f.name == "" {
			continue
		}
		b, err := f.make()
		if err != nil {
			return err
		}
		if err := writeFile(e, f.name, b); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(e *env, name string, b []byte) error {
	if name == "-" {
		_, err := e.stdout.Write(b)
		return err
	}
	return os.WriteFile(name, b, 0o644)
}

// Run executes `loadtest report`.
func (c *reportCmd) Run(e *env) error {
	var runs []*result.Run
	for _, name := range c.Runs {
		r, err := result.Read(name)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	b, err := report.HTML(runs...)
	if err != nil {
		return err
	}
	return writeFile(e, c.HTML, b)
}

// Run executes `loadtest compare`.
func (c *compareCmd) Run(e *env) error {
	tolerance, err := parseShare(c.Tolerance)
	if err != nil {
		return cmdline.Wrong("--tolerance: %w", err)
	}
	a, err := result.Read(c.A)
	if err != nil {
		return err
	}
	b, err := result.Read(c.B)
	if err != nil {
		return err
	}
	cmp, err := result.Compare(a, b, tolerance)
	if err != nil {
		return err
	}
	if c.HTML != "" {
		page, err := report.CompareHTML(cmp)
		if err != nil {
			return err
		}
		if err := writeFile(e, c.HTML, page); err != nil {
			return err
		}
	}
	changes(e.stdout, cmp)
	if cmp.Regression {
		return cmdline.Status(loadtest.ExitThreshold)
	}
	return nil
}

func parseShare(s string) (float64, error) {
	text, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(text, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 100) {
		return 0, fmt.Errorf("%q: want a share such as 5%% or 0.05", s)
	}
	return v, nil
}

// Run executes `loadtest scenarios`.
func (c *scenariosCmd) Run(e *env) error {
	for _, name := range traffic.Scenarios() {
		s, err := traffic.LoadScenario(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "%-10s %s\n", name, s.Description)
	}
	return nil
}

// Run executes `loadtest schema`.
func (c *schemaCmd) Run(e *env) error {
	_, err := e.stdout.Write(result.Schema)
	return err
}
