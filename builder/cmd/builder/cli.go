package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/builder"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/buildinfo"
	"example.com/marketdata/internal/logs"
	"github.com/alecthomas/kong"
)

// Exit statuses (FEED.md, "Exit status").
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const description = `Makes market-data snapshots from a feed, publishes them to an object store, and looks after the store.

SOURCE is one of ${sources}.
Most take options, such as sim:?assets=N&seed=S or coinpaprika:?replay=DIR; a wrong one lists them all.
STORE is file:PATH, or s3://bucket/prefix?endpoint=URL&region=REGION with the usual AWS_… variables.

Every flag is also an environment variable: --max-bad-rows is BUILDER_MAX_BAD_ROWS.
Exit status: 0 done, 1 failed, 2 wrong usage.`

// cli is the command line.
type cli struct {
	logs.Flags
	SourceCache string `placeholder:"DIR" help:"Folder in which live providers keep their last good answers and count their calls, unless their option cache names one."`

	Version kong.VersionFlag `env:"-" help:"Print the version and exit."`

	Build    buildCmd    `cmd:"" help:"Build and publish one snapshot, then exit."`
	Run      runCmd      `cmd:"" help:"Build at every ten-minute mark, with the change job and gc on schedules of their own."`
	Change   changeCmd   `cmd:"" help:"Record the 24-hour change of the total, once."`
	Keys     keysCmd     `cmd:"" help:"Create, list, revoke and rotate API keys."`
	Verify   verifyCmd   `cmd:"" help:"Read and check everything that the published snapshot and the retained ones refer to."`
	Status   statusCmd   `cmd:"" help:"Say how a store is: snapshots, signatures, keys, ledger, sizes."`
	GC       gcCmd       `cmd:"" name:"gc" help:"Remove what no retained snapshot needs."`
	Keygen   keygenCmd   `cmd:"" help:"Make a pair of keys for signing what is published."`
	Sign     signCmd     `cmd:"" help:"Sign what a store holds, once, when it begins to be signed."`
	Repair   repairCmd   `cmd:"" help:"Put back what a store has lost, from copies or a build of the same feed."`
	Backup   backupCmd   `cmd:"" help:"Copy what a store's snapshots, ledger and keys need to another store."`
	Restore  restoreCmd  `cmd:"" help:"Put a backup back, above all that edges have seen."`
	Rollback rollbackCmd `cmd:"" help:"Publish an earlier retained snapshot again."`
	Feed     feedCmd     `cmd:"" help:"Write any source as a feed folder, to look at, keep and build from."`
	Backfill backfillCmd `cmd:"" help:"Bring recorded feeds of the past into what the store remembers of prices."`
	Source   sourceCmd   `cmd:"" help:"Say what a month of a source costs, and ask nobody."`
	Record   recordCmd   `cmd:"" help:"Keep a live provider's answers as they were sent, to build from again."`
}

// env is what a command works with.
type env struct {
	ctx            context.Context
	stdout, stderr io.Writer
	log            *slog.Logger
	sourceCache    string
	costs          bool // sources are opened for what they cost
}

// usageError is wrong usage that the parser of flags does not find.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run parses the command line, runs the command, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exited := false
	parser := kong.Must(&c,
		kong.Name("builder"), kong.Description(description), kong.DefaultEnvars("BUILDER"),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { exited = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Vars{
			"version": buildinfo.Version("builder"), "retain": hours(builder.DefaultRetain), "historyAssets": strconv.Itoa(market.DefaultHistoryAssets), "maxHistoryAssets": strconv.Itoa(market.MaxHistoryAssets), "grace": hours(builder.DefaultGrace),
			"sources": source.Schemes((&env{}).sources()),
			"rate":    strconv.Itoa(keys.DefaultRate), "burst": strconv.Itoa(keys.DefaultBurst), "overlap": hours(keys.DefaultOverlap),
		},
	)
	if len(args) == 0 {
		_, _ = parser.Parse([]string{"--help"})
		return exitUsage
	}
	parsed, err := parser.Parse(args)
	if exited { // by --help or --version
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "builder: %v\nTry: builder %s\n", err, strings.TrimLeft(commandOf(err)+" --help", " "))
		return exitUsage
	}
	e := &env{ctx: ctx, stdout: stdout, stderr: stderr, log: c.Logger(stderr), sourceCache: c.SourceCache}
	err = parsed.Run(e)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "builder: %s: %v\n", parsed.Command(), err)
	if errors.As(err, &usageError{}) {
		return exitUsage
	}
	return exitFailed
}

// hours writes whole hours as a flag has them: 24h.
func hours(d time.Duration) string { return strings.TrimSuffix(d.String(), "0m0s") }

// commandOf names the command that a parse failed in, as far as it got.
func commandOf(err error) string {
	var p *kong.ParseError
	if !errors.As(err, &p) || p.Context == nil {
		return ""
	}
	var names []string
	for _, step := range p.Context.Path {
		if step.Command != nil {
			names = append(names, step.Command.Name)
		}
	}
	return strings.Join(names, " ")
}

// printJSON prints v as one JSON object on a line.
func (e *env) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "%s\n", b)
	return err
}

func (e *env) print(format string, args ...any) {
	fmt.Fprintf(e.stdout, format+"\n", args...)
}

// moment is a time on the command line.
type moment struct{ time.Time }

// UnmarshalText reads an RFC 3339 time.
func (m *moment) UnmarshalText(b []byte) error {
	t, err := time.Parse(time.RFC3339, string(b))
	if err != nil {
		return fmt.Errorf("time %.40q: want RFC 3339, such as 2026-11-21T07:20:00Z", b)
	}
	m.Time = t
	return nil
}

// money is a sum of money on the command line, in units of 1e-8.
type money struct{ market.U128 }

// UnmarshalText reads a decimal as the feed has them.
func (m *money) UnmarshalText(b []byte) (err error) {
	m.U128, err = market.ParseDecimal(b, market.MoneyDecimals, market.MoneyIntDigits)
	return err
}
