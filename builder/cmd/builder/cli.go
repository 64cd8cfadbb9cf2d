package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/builder"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/cmdline"
	"github.com/alecthomas/kong"
)

const description = `Makes market-data snapshots from a feed, publishes them to an object store, and looks after the store.

SOURCE is one of ${sources}.
Most take options, such as sim:?assets=N&seed=S or coinpaprika:?replay=DIR; a wrong one lists them all.
STORE is file:PATH, or s3://bucket/prefix?endpoint=URL&region=REGION with the usual AWS_… variables, of which AWS_SHARED_CREDENTIALS_FILE names a file that is read again when it changes.

Every flag is also an environment variable, --max-bad-rows is BUILDER_MAX_BAD_ROWS, and may stand in a --config file: max-bad-rows: 5%. "builder help all run" also lists flags that are rarely needed.
Exit status: 0 done, 1 failed, 2 wrong usage.`

//go:embed help.txt
var help string

// cli is the command line. kong calls the Validate and Run methods of its commands.
type cli struct {
	StateDir string `protects:"" former:"source-cache" placeholder:"DIR" help:"Folder for what the builder remembers between runs: the last good answers of live providers, the count of calls to them, and the stores that it published to, so that it never takes an emptied store for a new one."`

	Init     initCmd     `cmd:"" help:"Make a store and a first key."`
	Build    buildCmd    `cmd:"" help:"Build and publish one snapshot, then exit."`
	Check    checkCmd    `cmd:"" help:"List everything that is wrong with a feed, and publish nothing."`
	Run      runCmd      `cmd:"" daemon:"" help:"Build at every ten-minute mark, with the change job and gc on schedules of their own."`
	Change   changeCmd   `cmd:"" help:"Record the 24-hour change of the total, once."`
	Keys     keysCmd     `cmd:"" help:"Create, list, revoke and rotate API keys."`
	Verify   verifyCmd   `cmd:"" help:"Read and check all objects that the published snapshot and the retained ones refer to."`
	Prove    proveCmd    `cmd:"" help:"Write a file that proves, to anyone with a trusted key, that a snapshot was published with an asset's quote."`
	Status   statusCmd   `cmd:"" help:"Show the state of a store: snapshots, signatures, keys, ledger, sizes."`
	GC       gcCmd       `cmd:"" name:"gc" help:"Remove objects that no retained snapshot needs."`
	Keygen   keygenCmd   `cmd:"" help:"Make a key pair for signing publications."`
	Sign     signCmd     `cmd:"" help:"Sign the existing objects of a store, once, when you begin to sign it."`
	Repair   repairCmd   `cmd:"" help:"Put back objects that a store has lost, from copies or from a build of the same feed."`
	Backup   backupCmd   `cmd:"" help:"Copy a store's snapshots, ledger and keys to another store."`
	Restore  restoreCmd  `cmd:"" help:"Restore a backup, with a higher sequence than any edge has seen."`
	Rollback rollbackCmd `cmd:"" help:"Publish an earlier retained snapshot again."`
	Feed     feedCmd     `cmd:"" help:"Write any source as a feed folder, which you can inspect, keep and build from."`
	Backfill backfillCmd `cmd:"" help:"Build recorded feeds that are newer than the store, in order, and publish the newest."`
	Import   importCmd   `cmd:"" help:"Import past prices from files, so that charts, candles and changes reach further back."`
	Source   sourceCmd   `cmd:"" help:"Compute how many calls a source costs in a month, without making any."`
	Record   recordCmd   `cmd:"" help:"Record a live provider's answers, to build from them later."`

	cmdline.Flags
}

// env is the environment of a command.
type env struct {
	ctx            context.Context
	stdout, stderr io.Writer
	log            *slog.Logger
	paint          cmdline.Paint // for stdout
	stateDir       string
	costs          bool // sources are opened only to compute what they cost
}

// program returns the program with its command line.
func program() cmdline.Program {
	var c cli
	return cmdline.Program{
		Name: "builder", Description: description, CLI: &c, Help: help,
		Vars: kong.Vars{
			"retain": hours(builder.DefaultRetain), "filesKeep": hours(files.DefaultKeep),
			"historyAssets":    strconv.Itoa(market.DefaultHistoryAssets),
			"maxHistoryAssets": strconv.Itoa(market.MaxHistoryAssets), "grace": hours(upkeep.DefaultGrace),
			"sources": source.Schemes((&env{}).sources()),
			"rate":    strconv.Itoa(keys.DefaultRate), "burst": strconv.Itoa(keys.DefaultBurst),
			"queryRate": strconv.Itoa(keys.QueryRate), "queryBurst": strconv.Itoa(keys.QueryBurst),
			"overlap": hours(keys.DefaultOverlap), "maxCount": strconv.Itoa(keys.MaxCount),
		},
		Groups: []string{"Schedule:", "Snapshots:", "Guard rails:", "Signing:"},
		Run: func(ctx context.Context, parsed *kong.Context, log *slog.Logger) error {
			return parsed.Run(&env{
				ctx: ctx, stdout: parsed.Stdout, stderr: parsed.Stderr, log: log, stateDir: c.StateDir,
				paint: cmdline.PaintOn(parsed.Stdout),
			})
		},
	}
}

// hours formats a whole number of hours as flags show it, such as 24h.
func hours(d time.Duration) string { return strings.TrimSuffix(d.String(), "0m0s") }

// printJSON prints v as one line of JSON.
func (e *env) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "%s\n", b)
	return err
}

// show prints a report: as one line of JSON if asJSON is set, and otherwise by calling printText.
// If err is not nil, it prints nothing and returns err.
func (e *env) show(report any, err error, asJSON bool, printText func()) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return e.printJSON(report)
	}
	printText()
	return nil
}

// succeeded prints what a command has done, in green.
func (e *env) succeeded(format string, args ...any) error {
	return e.print("%s", e.paint.Green(fmt.Sprintf(format, args...)))
}

// print prints one line, or several if format contains newlines. It replaces newlines in arguments
// with "; ".
func (e *env) print(format string, args ...any) error {
	for i, arg := range args {
		if text, is := arg.(string); is {
			args[i] = strings.ReplaceAll(text, "\n", "; ")
		}
	}
	_, err := fmt.Fprintf(e.stdout, format+"\n", args...)
	return err // callers may ignore it: the program reports it when it ends
}

// money is an amount on the command line, in units of 1e-8.
type money struct{ market.U128 }

// UnmarshalText parses a decimal in the format that feeds use.
func (m *money) UnmarshalText(b []byte) (err error) {
	if m.U128, err = market.ParseDecimal(b, market.MoneyDecimals, market.MoneyIntDigits); err != nil {
		err = fmt.Errorf("%.40q: %w; want an amount such as 1000000", b, err)
	}
	return err
}
