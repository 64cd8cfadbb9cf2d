package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/metrics"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/cmdline"
)

// buildFlags are the flags that build and run share.
type buildFlags struct {
	Source     string `required:"" placeholder:"SOURCE" help:"Where the feed comes from."`
	NoStateDir bool   `hidden:"" former:"no-source-cache" help:"Build from a live provider without the data that earlier builds gathered: links and members are gathered again."`
	publishFlags
}

// publishFlags are the flags of every command that makes snapshots.
type publishFlags struct {
	storeFlag
	settingsFlags  `group:"Snapshots:"`
	builder.Guards `group:"Guard rails:"`
}

// settingsFlags are the flags that, together with the feed, determine a snapshot.
type settingsFlags struct {
	Retain               time.Duration `default:"${retain}" help:"Retain snapshots up to this much older than the newest, at most 168h. The previous one is always retained."`
	TrendingMinMarketCap money         `hidden:"" default:"10000000" help:"Minimum market cap of a trending asset."`
	TrendingMinVolume    money         `hidden:"" default:"1000000" help:"Minimum volume of a trending asset."`
	Notice               notice        `placeholder:"'TEXT URL'" help:"Remark that the board, /docs and /openapi/v1/global show with the data, with or without a URL as its last word; by default the remark that the source's terms require."`
	HistoryAssets        int           `default:"${historyAssets}" help:"How many quoted assets get a history, at most ${maxHistoryAssets}: first those with the best ranks, then those without a rank, by id. 0: none."`
	filesFlags
}

// notice is a notice on a command line: a text whose last word may be a URL.
type notice struct{ *artifacts.Notice }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *notice) UnmarshalText(text []byte) error {
	n.Notice = &artifacts.Notice{Text: string(text)}
	if at := strings.LastIndexByte(n.Text, ' '); strings.HasPrefix(n.Text[at+1:], "http") {
		n.Text, n.URL = n.Text[:max(at, 0)], n.Text[at+1:]
	}
	return n.Check()
}

// filesFlags say which snapshots get files.
type filesFlags struct {
	Files     string        `default:"off" enum:"off,build,hourly,daily" help:"Write the collections as Parquet and NDJSON: in every snapshot (build), or the first of each hour or day. One of ${enum}."`
	FilesKeep time.Duration `default:"${filesKeep}" help:"How long files are kept, at most 8784h."`
}

func (f *settingsFlags) Validate() error {
	if f.Retain > builder.MaxRetain {
		return fmt.Errorf("--retain %v: want 0s to %v", f.Retain, builder.MaxRetain)
	}
	if f.HistoryAssets < 0 || f.HistoryAssets > market.MaxHistoryAssets {
		return fmt.Errorf("--history-assets %d: want 0 to %d", f.HistoryAssets, market.MaxHistoryAssets)
	}
	if f.FilesKeep < time.Hour || f.FilesKeep > files.MaxKeep {
		return fmt.Errorf("--files-keep %v: want 1h to %v", f.FilesKeep, files.MaxKeep)
	}
	return nil
}

// open opens the source and the store, and returns a builder for them. activateAfter is the delay
// between the publication of a snapshot and its activation by edges.
func (f *buildFlags) open(e *env, create bool, activateAfter time.Duration,
	progress builder.Progress) (*builder.Builder, error) {
	src, err := e.openSource(f.Source)
	if err != nil {
		return nil, err
	}
	b, err := f.publishFlags.open(e, src, create, activateAfter, progress)
	if err != nil {
		return nil, err
	}
	return b, f.checkCache(e, b, !create)
}

// checkCache returns an error if a build from a live provider would lack the data that the service
// has collected in its cache folder. Such a build could lose links and members without a guard rail
// noticing, and its calls, which are not counted in that folder, could exceed the quota. A service
// may start with an empty folder; a manual build without the service's folder is probably a
// mistake.
func (f *buildFlags) checkCache(e *env, b *builder.Builder, service bool) error {
	src, ok := b.Source.(*provider.Source)
	if !ok {
		return nil
	}
	m := src.Memory()
	switch {
	case m == nil || m.Filled:
		return nil
	case service && (m.Cache != "" || f.NoStateDir):
		return nil
	case service:
		return cmdline.Wrong("%s: without a cache folder a restart forgets the gathered data and the count of calls: "+
			"give a folder with --state-dir (BUILDER_STATE_DIR), or --no-state-dir", src)
	}
	head, err := publish.ReadHead(e.ctx, b.Store)
	if err != nil || head.Manifest == nil || head.Manifest.Database != m.Provider {
		return nil // the build itself reports a faulty store
	}
	switch what := "no cache folder is given"; {
	case f.NoStateDir && f.Force:
		return cmdline.Wrong("%s: --no-state-dir and --force together would let any data replace its snapshots: "+
			"name the rules with --allow RULE", src)
	case f.NoStateDir:
		return nil
	default:
		if m.Cache != "" {
			what = fmt.Sprintf("the cache folder %s has no data of it", m.Cache)
		}
		return cmdline.Wrong("%s: %s, while the store's snapshots are of this provider: links and members would be "+
			"lost, "+
			"and calls would not be counted: give the service's folder with --state-dir (BUILDER_STATE_DIR), or --no-state-dir",
			src, what)
	}
}

// open returns a builder. src may be nil for commands that do not read a source. If create is set,
// open creates the store's folder if it is missing.
func (f *publishFlags) open(e *env, src source.Source, create bool, activateAfter time.Duration,
	progress builder.Progress) (*builder.Builder, error) {
	store, err := f.storeFlag.open(e, create)
	if err != nil {
		return nil, err
	}
	// Other errors do not matter here: if the store does not respond, the build fails, and builder
	// run retries it.
	if err := f.mayWrite(e, store); errors.Is(err, signed.ErrSigned) || errors.Is(err, artifacts.ErrNoAccess) {
		return nil, err
	}
	seen, err := f.noted(e)
	if err != nil {
		return nil, err
	}
	sign, _, err := f.keys()
	if err != nil {
		return nil, err
	}
	return builder.New(builder.Config{
		Files: f.files(sign), Seen: seen,
		Store: store, Source: src, Retain: f.Retain, Log: e.log, Progress: progress, Settings: f.settings(),
		Guards: f.Guards, ActivateAfter: activateAfter, Notice: f.Notice.Notice,
	})
}

func (f *filesFlags) files(sign []artifacts.SignKey) files.Settings {
	return files.Settings{Cadence: files.Cadence(f.Files), Keep: f.FilesKeep, Sign: sign}
}

func (f *settingsFlags) settings() market.Settings {
	return market.Settings{
		TrendingMinMarketCap: f.TrendingMinMarketCap.U128, TrendingMinVolume: f.TrendingMinVolume.U128,
		HistoryAssets: f.HistoryAssets,
	}
}

type buildCmd struct {
	buildFlags
	Time          cmdline.Moment `placeholder:"T" help:"Time of the snapshot, rounded down to ten minutes. The default is the feed's own time, or now for a live source."`
	ActivateAfter time.Duration  `default:"0s" help:"How long after its publication all edges make the snapshot current at the same time, at most 5m. By default each edge does so as soon as it has the snapshot."`
	JSON          bool           `help:"Print the report as one JSON object."`
}

func (c *buildCmd) Run(e *env) error {
	p := e.progress()
	b, err := c.open(e, true, c.ActivateAfter, p.show)
	if err != nil {
		return err
	}
	report, err := b.Build(e.ctx, c.Time.Time)
	p.close()
	if err == nil {
		c.renewSignatures(e.ctx, e, b.Store)
		c.remember(e, b.Store)
	}
	return e.printReport(report, nil, err, c.JSON)
}

// printReport prints the report of a build, a rollback or a backfill, and returns err, or else the
// error from printing. For a backfill, skipped is not nil and names the feeds that fall into the
// same ten minutes as an earlier one.
func (e *env) printReport(r *builder.Report, skipped []string, err error, asJSON bool) error {
	switch {
	case asJSON:
		full := struct {
			*builder.Report
			Skipped []string `json:"skipped,omitzero"`
			Error   string   `json:"error,omitempty"`
		}{Report: r, Skipped: skipped}
		if err != nil {
			full.Error = err.Error()
		}
		if perr := e.printJSON(full); err == nil {
			err = perr
		}
	case err != nil:
	case r.Published:
		e.succeeded("snapshot %s is published (sequence %d): %s; %s set aside; %s, %s written in %s", r.SnapshotTime,
			r.Sequence, rowsOf(r.Counts), count(r.RejectedRows(), "row"), count(r.ObjectsWritten, "object"),
			size(r.BytesWritten), cmdline.Span(time.Duration(r.DurationMS)*time.Millisecond))
		if r.MissingObjects > 0 {
			e.print("%s", e.paint.Red(fmt.Sprintf("%s that it refers to are missing from the store or truncated, such as %s; "+
				"run builder repair", count(r.MissingObjects, "object"), r.Missing[0])))
		}
	default:
		e.print("nothing to do: snapshot %s (sequence %d): %s", r.SnapshotTime, r.Sequence, r.Reason)
	}
	return err
}

// leaseTime is builder.LeaseTime, except in tests.
var leaseTime = builder.LeaseTime

type runCmd struct {
	buildFlags
	ChangeEvery   time.Duration   `hidden:"" default:"5m" group:"Schedule:" help:"How often to run the change job."`
	GCEvery       time.Duration   `hidden:"" default:"1h" name:"gc-every" group:"Schedule:" help:"How often to run gc, after a build."`
	ActivateAfter time.Duration   `default:"15s" group:"Schedule:" help:"How long after its publication all edges make a snapshot current at the same time, at most 5m. With 0s each edge does so as soon as it has the snapshot. There is no delay if the previous snapshot is over an hour old."`
	MinAge        time.Duration   `former:"grace" hidden:"" default:"${grace}" group:"Schedule:" help:"Grace period of gc."`
	Metrics       cmdline.Address `placeholder:"ADDR" help:"Serve /metrics for Prometheus, and /livez, on this address; by default nowhere. Do not make it public."`
	Backup        string          `protects:"" placeholder:"STORE" help:"The store in which another job makes backups, for the metric builder_backup_snapshot_timestamp_seconds, which gives the time of the last one. It is only read."`
}

func (c *runCmd) Validate() error {
	if err := c.publishFlags.Validate(); err != nil {
		return err
	}
	if c.ChangeEvery < time.Second || c.GCEvery < time.Second {
		return fmt.Errorf("--change-every %v, --gc-every %v: want at least 1s", c.ChangeEvery, c.GCEvery)
	}
	if c.MinAge < builder.BuildDeadline {
		return fmt.Errorf("--min-age %v: want at least %v, which a build may take", c.MinAge, builder.BuildDeadline)
	}
	return nil
}

// renewSignatures signs again, with every --sign-key, the objects that only some of these keys have
// signed.
func (f *publishFlags) renewSignatures(ctx context.Context, e *env, store artifacts.Store) {
	sign, _, err := f.keys()
	if err == nil && len(sign) == 0 {
		return
	}
	var renewed []artifacts.Key
	if err == nil {
		renewed, err = signed.Renew(ctx, store, sign)
	}
	if len(renewed) > 0 {
		e.log.Info("signed again", "objects", renewed)
	}
	if err != nil && ctx.Err() == nil {
		e.log.Error("an object is not signed by every --sign-key; if its content is right, use builder sign", "err",
			err)
	}
}

// watchBackup returns a function that sets the backup metric to the time of the backup's snapshot.
// Without --backup the function does nothing.
func (c *runCmd) watchBackup(e *env, counts *metrics.Metrics) (func(context.Context), error) {
	if c.Backup == "" {
		return func(context.Context) {}, nil
	}
	store, err := e.openCopy("backup", c.Backup)
	if err != nil {
		return nil, err
	}
	counts.Backup(time.Unix(0, 0)) // no snapshot is known yet
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, backupTime)
		defer cancel()
		p, _, err := publish.ReadPointer(ctx, store)
		if err != nil {
			e.log.Warn("cannot tell how old the backup is", "backup", c.Backup, "err", err)
			return
		}
		counts.Backup(p.Time)
	}, nil
}

// backupTime limits how long a build waits for the backup's store.
const backupTime = 5 * time.Second

func (c *runCmd) Run(e *env) error {
	b, err := c.open(e, false, c.ActivateAfter, e.lines().show)
	if err != nil {
		return err
	}
	renew := func(ctx context.Context) { c.renewSignatures(ctx, e, b.Store) }
	counts := metrics.New()
	watch, err := c.watchBackup(e, counts)
	if err != nil {
		return err
	}
	if c.Metrics != "" {
		ln, err := net.Listen("tcp", string(c.Metrics))
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		var serving sync.WaitGroup
		defer serving.Wait()
		serving.Go(func() {
			if err := counts.Serve(e.ctx, ln, e.log); err != nil {
				e.log.Error("serving of metrics ended", "err", err)
			}
		})
		e.log.Info("serving metrics", "metrics", ln.Addr().String())
	}
	loop := &builder.Loop{
		Log: e.log, ChangeEvery: c.ChangeEvery, CollectEvery: c.GCEvery,
		Build: func(ctx context.Context, mark time.Time) error {
			defer renew(ctx)
			defer watch(ctx)
			r, err := b.BuildMark(ctx, mark)
			counts.Built(r, err)
			if rules := c.Override(err); rules != "" {
				e.log.Warn("a guard rail stops the build; if the feed is right, publish it once by hand",
					"command", "builder build --time "+r.SnapshotTime+" --allow "+rules)
			}
			if err == nil {
				c.remember(e, b.Store)
				e.log.Info("built", "snapshot", r.SnapshotTime, "published", r.Published, "reason", r.Reason,
					"sequence", r.Sequence,
					"assets", r.Counts["assets"], "quotes", r.Counts["quotes"], "rejected", r.RejectedRows(),
					"objects", r.ObjectsWritten, "bytes", r.BytesWritten,
					"duration", time.Duration(r.DurationMS)*time.Millisecond)
			}
			return err
		},
		Published: func(ctx context.Context) (time.Time, error) {
			head, err := publish.ReadHead(ctx, b.Store)
			if err != nil || head.Pointer == nil {
				return time.Time{}, err
			}
			counts.Found(head.Pointer.Time, head.Pointer.Sequence)
			return head.Pointer.Time, nil
		},
		Change: counts.Job(metrics.Change, func(ctx context.Context) error {
			change, err := change.Record(ctx, b.Store, time.Now)
			if change != nil {
				e.log.Info("recorded the change of the total", "snapshot", change.Snapshot, "base", change.Base,
					"percent", change.Value)
			}
			return err
		}),
		Collect: counts.Job(metrics.GC, func(ctx context.Context) error {
			r, err := upkeep.Collect(ctx, upkeep.GCConfig{Store: b.Store, Grace: c.MinAge, Log: e.log})
			if err == nil {
				counts.Collected(r)
			}
			return err
		}),
	}
	e.log.Info("running", "source", b.Source.String(), "store", c.Store, "interval", artifacts.Step)
	(&builder.Lease{
		Store: b.Store, Time: leaseTime, Held: counts.Lease, Log: e.log,
	}).Run(e.ctx, func(ctx context.Context) {
		renew(ctx)
		loop.Run(ctx)
	})
	e.log.Info("stopped")
	return nil
}
