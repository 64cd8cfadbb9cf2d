// Package loadtest load-tests an HTTP service in a way that makes the figures trustworthy. In an
// open loop, it measures latencies from when requests were due. It detects when the load tester itself was
// the limit, and checks the answers under load. It generates realistic requests for the market-data API; for
// any other service, it sends the requests of a targets file.
//
//	t, err := loadtest.New(ctx, loadtest.Options{URLs: []string{"http://127.0.0.1:8080"}, Keys: []string{key}})
//	...
//
//	run, err := t.Run(ctx, loadtest.Load{
//		Stages: pace.Constant(20000, time.Minute), Arrivals: pace.Poisson, Connections: 500})
//
// The README explains the figures. The subpackages are pace (when requests are due), client (HTTP/1.1),
// engine (the loops), traffic (the requests), streams (event streams), check and oracle (whether the answers
// are correct), result (figures, validity, thresholds, comparison) and report (HTML).
package loadtest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/pace"
	"example.com/marketdata/loadtest/result"
	"example.com/marketdata/loadtest/streams"
	"example.com/marketdata/loadtest/traffic"
)

// ErrUsage marks errors in the options, in contrast to errors of a run.
var ErrUsage = errors.New("usage")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUsage, fmt.Errorf(format, args...))
}

// Options define the service, the traffic, and how much to check. The struct tags define the command's flags.
type Options struct {
	URLs     []string `name:"url" sep:"none" placeholder:"URL" group:"Service:" help:"Base URL of a node; give it again for more, which then get requests in turn."`
	Keys     []string `name:"key" placeholder:"KEY" group:"Service:" help:"API key, sent as X-Api-Key; several, with commas or the flag given again, take turns."`
	KeysFile string   `name:"keys-file" placeholder:"FILE" group:"Service:" help:"More keys: one a line, or what builder keys create prints with --json."`
	Headers  []string `name:"header" sep:"none" placeholder:"FIELD" group:"Service:" help:"Send this header field with every request, such as 'Authorization: Bearer x'; give it again for more."`
	Insecure bool     `hidden:"" group:"Service:" help:"Take any TLS certificate."`
	// Scenario is "mixed" by default. It is ignored if there are targets.
	Scenario string `default:"mixed" group:"Traffic:" help:"Traffic: a scenario that comes with the program (see scenarios), or a YAML file."`
	// TargetsFile and Targets are mutually exclusive. Without URLs, requests go to the host that the targets
	// name.
	TargetsFile string   `name:"targets" placeholder:"FILE" group:"Traffic:" help:"Send the requests of a file in vegeta's format instead, in turn."`
	Targets     []string `name:"target" sep:"none" placeholder:"REQUEST" group:"Traffic:" help:"Send this request instead, such as 'GET /path'; give it again for more. A full URL also counts as a --url."`
	// DirectoryRows is 20,000 by default.
	DirectoryRows int     `hidden:"" default:"20000" group:"Traffic:" help:"Read at most this many rows of each listing, to choose requests from."`
	Seed          uint64  `hidden:"" default:"1" group:"Traffic:" help:"Seed of traffic and arrivals."`
	CheckShare    float64 `hidden:"" name:"check" default:"${check}" group:"Judgement:" help:"Check this share of the answers, 0 to 1."`
	Label         string  `hidden:"" placeholder:"TEXT" group:"Results:" help:"Name the run in reports."`
	// Store is the store from which the oracle reads the snapshots. If it is nil, there is no oracle.
	Store artifacts.Reader `kong:"-"`
	// Thresholds are the thresholds that will judge the runs. New returns an error if one names a class that
	// the traffic does not have.
	Thresholds []*result.Assertion `kong:"-"`
	// Status, if not nil, is called with a description of each step before and after the load. Warn, if not
	// nil, is called from another goroutine with problems that probably spoil the run.
	Status, Warn func(text string) `kong:"-"`
}

// Load configures the load of a run.
type Load struct {
	Connections int           `placeholder:"N" group:"Load:" help:"Connections at most, over all nodes; in a closed loop exactly. Default: 1000, closed 64."`
	Timeout     time.Duration `hidden:"" default:"10s" group:"Load:" help:"Give a request up after this long."`
	Warmup      time.Duration `default:"0s" group:"Load:" help:"Do not count requests that are due this early."`
	Streams     int           `hidden:"" placeholder:"N" group:"Load:" help:"Hold so many streams of events beside the load, over all nodes and keys; with --oracle they tell how late events are."`
	Arrivals    pace.Arrivals `hidden:"" default:"poisson" enum:"poisson,uniform" group:"Load:" help:"How requests lie in time: poisson or uniform."`
	// Stages and Arrivals define an open loop. Without stages, the loop is closed and lasts for Duration.
	Stages     []pace.Stage        `kong:"-"`
	Duration   time.Duration       `kong:"-"`
	Assertions []*result.Assertion `kong:"-"`
	// AbortOn are conditions that result.ParseAbort has parsed. The load ends when one of them is true over
	// the last five seconds.
	AbortOn []*result.Assertion `kong:"-"`
	// Tick, if not nil, is called at the end of each second.
	Tick func(*Progress) `kong:"-"`
}

const defaultRows = 20_000

// Tester loads a service. Its runs are independent of each other.
type Tester struct {
	opt       Options
	endpoints []*client.Endpoint
	scenario  *traffic.Scenario
	dir       *traffic.Directory
	targets   []traffic.Target
	name      string // the name of the traffic
	warned    atomic.Bool
}

// New checks the options, and reads the directory of the service if the traffic needs it.
func New(ctx context.Context, opt Options) (*Tester, error) {
	if opt.Status == nil {
		opt.Status = func(string) {}
	}
	if opt.Warn == nil {
		opt.Warn = func(string) {}
	}
	if opt.DirectoryRows == 0 {
		opt.DirectoryRows = defaultRows
	}
	if !(opt.CheckShare >= 0 && opt.CheckShare <= 1) {
		return nil, usage("share of answers to check is %v: want 0 to 1", opt.CheckShare)
	}
	t := &Tester{opt: opt}
	if err := t.prepare(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if t.targets != nil {
		return t, nil
	}
	key := ""
	if len(t.opt.Keys) > 0 {
		key = t.opt.Keys[0]
	}
	var err error
	t.dir, err = traffic.ReadDirectory(
		ctx, t.endpoints[0], key, opt.DirectoryRows, func(endpoint string, read, total int) {
			opt.Status(fmt.Sprintf("reading the directory: /%s %d of %d", endpoint, read, total))
		})
	if err != nil {
		return nil, err
	}
	var left []string
	if t.scenario, left = t.scenario.For(t.dir); len(left) > 0 {
		text := fmt.Sprintf("scenario %s: left out, since the service lists no rows to ask for: %s", t.name,
			strings.Join(left, ", "))
		if len(t.scenario.Mix) == 0 {
			return nil, usage("%s: nothing is left", text)
		}
		opt.Warn(text)
	}
	if err := t.checkClasses(t.opt.Thresholds); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return t, nil
}

// prepare sets up everything that depends only on the options.
func (t *Tester) prepare() (err error) {
	if t.opt.Keys, err = t.opt.keys(); err != nil {
		return err
	}
	fields, err := t.opt.header()
	if err != nil {
		return err
	}
	t.addresses()
	if err := t.readTargets(fields); err != nil {
		return err
	}
	if len(t.opt.URLs) == 0 {
		return errors.New("no URL to load")
	}
	lines := ""
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		lines += fields[name] + "\r\n"
	}
	for _, u := range t.opt.URLs {
		e, err := client.ParseEndpoint(u, t.opt.Insecure)
		if err != nil {
			return err
		}
		e.Header = lines
		t.endpoints = append(t.endpoints, e)
	}
	if t.targets == nil {
		if t.scenario, err = traffic.LoadScenario(cmp.Or(t.opt.Scenario, "mixed")); err != nil {
			return err
		}
		t.name = t.scenario.Name
	}
	return t.checkClasses(t.opt.Thresholds)
}

// addresses moves targets that are URLs without a method to opt.URLs, because in other load testers "target"
// means the service.
func (t *Tester) addresses() {
	isAddress := func(target string) bool {
		return strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://")
	}
	t.opt.URLs, t.opt.Targets = slices.Clone(t.opt.URLs), slices.Clone(t.opt.Targets)
	for _, target := range t.opt.Targets {
		if isAddress(target) {
			t.opt.URLs = append(t.opt.URLs, target)
		}
	}
	t.opt.Targets = slices.DeleteFunc(t.opt.Targets, isAddress)
}

// readTargets reads the requests that the options name. It adds the header fields to requests that do not
// have them already.
func (t *Tester) readTargets(fields map[string]string) error {
	text, dir := strings.Join(t.opt.Targets, "\n"), "."
	switch file := t.opt.TargetsFile; {
	case file != "" && text != "":
		return errors.New("targets are given one by one and as a file")
	case file != "":
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("targets: %w", err)
		}
		text, dir, t.name = string(b), filepath.Dir(file), filepath.Base(file)
	case text != "":
		t.name = t.opt.Targets[0]
		if n := len(t.opt.Targets); n > 1 {
			t.name = fmt.Sprintf("%s and %d more", t.name, n-1)
		}
	default:
		return nil
	}
	var err error
	if t.targets, err = traffic.ParseTargets(strings.NewReader(text), dir); err != nil {
		return err
	}
	for i := range t.targets {
		t.targets[i].AddHeader(fields)
	}
	base, err := traffic.Base(t.targets)
	if len(t.opt.URLs) == 0 {
		if err != nil {
			return err
		}
		if base != "" {
			t.opt.URLs = []string{base}
		}
	}
	return nil
}

// Run loads the service once. When ctx is done, the load ends early and the result says so. Errors concern
// the options or the machine. Failures of the service are part of the result.
func (t *Tester) Run(ctx context.Context, load Load) (*result.Run, error) {
	if load.Streams < 0 {
		return nil, usage("%d streams: want 0 or more", load.Streams)
	}
	c := check.New(check.Config{Share: t.opt.CheckShare, Store: t.opt.Store})
	finished := false
	finish := func() *check.Report {
		finished = true
		return c.Finish(context.WithoutCancel(ctx),
			func(left int) { t.opt.Status(fmt.Sprintf("examining answers: %d left", left)) })
	}
	defer func() {
		if !finished {
			finish()
		}
	}()
	if t.opt.Store != nil {
		t.opt.Status("reading the snapshot")
		c.Prepare()
	}
	var source engine.Source
	if t.targets != nil {
		source = traffic.NewTargets(t.targets, t.opt.Keys, c)
	} else {
		mix, err := traffic.NewMix(t.scenario, t.dir, t.opt.Seed, t.opt.Keys, c)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUsage, err)
		}
		source = mix
	}
	t.opt.Status(fmt.Sprintf("opening %d streams", load.Streams))
	held := streams.Hold(
		ctx, streams.Config{Endpoints: t.endpoints, Keys: t.opt.Keys, Count: load.Streams, Store: t.opt.Store})
	defer held.Close()
	sending, stop := context.WithCancel(ctx)
	defer stop()
	w := &watch{tester: t, load: &load, checker: c, stop: stop}
	e, err := engine.Run(sending, engine.Config{
		Endpoints: t.endpoints, Source: source, Stages: load.Stages, Arrivals: load.Arrivals, Seed: t.opt.Seed,
		Duration:    load.Duration,
		Connections: load.Connections, Timeout: load.Timeout, Warmup: load.Warmup, Tick: w.tick,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if w.err != nil {
		return nil, w.err
	}
	told := held.Close() // before answers are examined, which takes processor time
	run, err := result.New(t.setup(&load), tool(), e, finish())
	if err != nil {
		return nil, err
	}
	if err := run.Hold(told); err != nil {
		return nil, err
	}
	run.Aborted = w.aborted
	if err := run.Judge(load.Assertions); err != nil {
		return nil, err
	}
	run.Exit = Exit(run)
	return run, nil
}

func (t *Tester) setup(load *Load) result.Setup {
	digest := sha256.Sum256(fmt.Appendf(nil, "%+v %+v", t.scenario, t.targets))
	s := result.Setup{
		URLs: t.opt.URLs, Mode: "closed", Connections: load.Connections, TimeoutS: load.Timeout.Seconds(),
		WarmupS: load.Warmup.Seconds(), Seed: t.opt.Seed,
		Traffic: t.name, TrafficDigest: hex.EncodeToString(digest[:8]), CheckShare: t.opt.CheckShare,
		Oracle: t.opt.Store != nil, Label: t.opt.Label,
	}
	if len(load.Stages) > 0 {
		s.Mode, s.Stages, s.Arrivals = "open", pace.FormatStages(load.Stages), string(load.Arrivals)
	}
	return s
}

func tool() result.Tool {
	t := result.Tool{Version: "(devel)", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return t
	}
	t.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			t.Commit = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				t.Commit += " (modified)"
			}
		}
	}
	return t
}

// Exit statuses of the command.
const (
	ExitOK        = 0
	ExitFailed    = 1
	ExitUsage     = 2
	ExitThreshold = 3 // or a regression
	ExitInvalid   = 4
	ExitWrong     = 5
	ExitAborted   = 6 // by Load.AbortOn
)

// Exit returns the exit status of a run. Wrong answers take precedence over everything. Validity takes
// precedence over thresholds, because the thresholds of an invalid run say nothing about the service.
func Exit(r *result.Run) int {
	failed := false
	for _, t := range r.Thresholds {
		failed = failed || !t.Pass
	}
	switch {
	case r.Checks.Wrong > 0:
		return ExitWrong
	case r.Aborted != "":
		return ExitAborted
	case r.Requests.Answered == 0:
		return ExitFailed
	case r.Setup.Oracle && r.Checks.Compared == 0:
		return ExitFailed
	case !r.Validity.Valid:
		return ExitInvalid
	case failed:
		return ExitThreshold
	}
	return ExitOK
}
