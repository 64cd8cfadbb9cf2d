// Package teststore makes stores for tests. The real builder publishes made-up markets into them. A
// test that needs a store that no builder would make must edit a store from this package.
package teststore

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/loadtest/oracle"
)

// Start is the time of the first snapshot in most tests.
var Start = time.Date(2026, 3, 4, 5, 10, 0, 0, time.UTC)

// Content is a market that can be published.
type Content interface {
	// Files returns the market's feed at a given time.
	Files(at time.Time) source.Memory
}

// Published is one snapshot in a store.
type Published struct {
	Pointer  *artifacts.Pointer
	Manifest *artifacts.Manifest
	Version  artifacts.Version // of the pointer
}

// Read returns the published snapshot of a store.
func Read(tb testing.TB, store artifacts.Reader) *Published {
	tb.Helper()
	ctx := context.Background()
	b, version, err := store.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	must.OK(tb, err)
	pointer := must.Get(artifacts.ParsePointer(b))(tb)
	return &Published{pointer, must.Get(artifacts.ReadManifest(ctx, store, pointer.Manifest))(tb), version}
}

// Oracle knows the right answers for a snapshot.
type Oracle = oracle.Snapshot

// Oracle returns an oracle that has read the snapshot's objects.
func (p *Published) Oracle(tb testing.TB, store artifacts.Reader) *Oracle {
	tb.Helper()
	return must.Get(oracle.Load(context.Background(), store, p.Manifest))(tb)
}

// Check checks everything in a store.
func Check(store artifacts.Reader) (*artifacts.CheckReport, error) {
	return artifacts.Check(context.Background(), store, ledger.Refs, nil)
}

// An Option changes how a snapshot is published.
type Option func(*options)

type options struct {
	builder.Config
	past []builder.PastFeed
	edit func(*artifacts.Pointer)
}

// Settings sets the builder's settings for the snapshot.
func Settings(s market.Settings) Option { return func(o *options) { o.Settings = s } }

// Past gives an empty store a history: the states of c at the given times, oldest first.
func Past(c Content, times ...time.Time) Option {
	return func(o *options) {
		for _, at := range times {
			o.past = append(o.past, builder.PastFeed{Time: at, Files: c.Files(at)})
		}
	}
}

// Edit changes the pointer before it is written, usually into one that no builder would write.
func Edit(change func(*artifacts.Pointer)) Option {
	return func(o *options) { o.edit = change }
}

// Retain sets how long earlier snapshots are retained. The default for a Feed is the maximum.
func Retain(d time.Duration) Option { return func(o *options) { o.Retain = d } }

// Files makes the builder write the downloadable files of the snapshot.
func Files() Option { return func(o *options) { o.Config.Files.Cadence = files.Build } }

// SignFiles signs the list of the snapshot's files with keys.
func SignFiles(keys ...artifacts.SignKey) Option {
	return func(o *options) { o.Config.Files.Sign = keys }
}

// FilesOf makes the builder write the snapshot's downloadable files with the given number of rows
// per row group.
func FilesOf(rows int) Option {
	return func(o *options) { o.Config.Files = files.Settings{Cadence: files.Build, GroupRows: rows} }
}

// usual holds the default settings of the builder.
var usual = builder.Config{Retain: builder.DefaultRetain, Settings: buildtest.Settings}

// ActivateAfter sets how long after the pointer swap edges make the snapshot current. The swap's
// time comes from this machine's clock.
func ActivateAfter(d time.Duration) Option {
	return func(o *options) { o.ActivateAfter, o.Now = d, time.Now }
}

// newBuilder returns a builder whose guard rails never stop a build.
func newBuilder(tb testing.TB, cfg builder.Config) *builder.Builder {
	tb.Helper()
	cfg.Guards, cfg.Log = builder.DefaultGuards, slog.New(slog.DiscardHandler)
	cfg.Guards.Force = true
	return must.Get(builder.New(cfg))(tb)
}

// Publish builds the snapshot of a market at the given time with the default settings. The time
// must be later than the published snapshot's, and the pointer records it as the time of
// publication. For a Feed, the trending board has no minimums, and the past includes the Feed's
// history.
func Publish(tb testing.TB, store artifacts.Store, c Content, at time.Time, opts ...Option) *Published {
	tb.Helper()
	ctx := context.Background()
	o := options{Config: usual}
	f, ok := c.(*Feed)
	if ok {
		o.Retain, o.Settings = builder.MaxRetain, market.Settings{HistoryAssets: f.history}
	}
	o.Now = func() time.Time { return at }
	for _, change := range opts {
		change(&o)
	}
	o.Store, o.Source = &edited{store, o.edit}, content{c}
	_, _, err := store.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	empty := errors.Is(err, artifacts.ErrNotFound)
	if ok && f.history > 0 && empty {
		o.past = past(f.past, at)
	}
	switch {
	case empty && o.past != nil:
		feeds := append(o.past, builder.PastFeed{Time: at, Files: c.Files(at)})
		_, err = newBuilder(tb, o.Config).Backfill(ctx, feeds)
	case empty || err == nil:
		_, err = newBuilder(tb, o.Config).Build(ctx, at)
	}
	if err != nil {
		tb.Fatalf("publish the snapshot of %v: %v", at, err)
	}
	return Read(tb, store)
}

// content adapts a Content to the builder's Source interface.
type content struct{ Content }

func (content) String() string { return "example" }

func (c content) Files(_ context.Context, at time.Time) (source.Files, error) {
	return c.Content.Files(at), nil
}

// PublishAll publishes a market at each of the given times, in order, with downloadable files.
func PublishAll(tb testing.TB, store artifacts.Store, rows func(at time.Time) map[string][]map[string]any,
	times ...time.Time) {
	tb.Helper()
	for _, at := range times {
		Publish(tb, store, Rows(rows(at)), at, Files())
	}
}

// Simulate publishes a simulated market at the last of the given times, with the others as its
// past. simOptions is the part of the source after "sim:".
func Simulate(tb testing.TB, store artifacts.Store, simOptions string, times ...time.Time) {
	tb.Helper()
	ctx := context.Background()
	src := must.Get(sim.Open(ctx, simOptions))(tb)
	var feeds []builder.PastFeed
	for _, at := range times {
		feeds = append(feeds, builder.PastFeed{Time: at, Files: must.Get(src.Files(ctx, at))(tb)})
	}
	backfill(tb, store, src, feeds)
}

// SimulateYear publishes a simulated market with a year of history, as "make run" does.
func SimulateYear(tb testing.TB, store artifacts.Store, simOptions string, end time.Time, opts ...Option) {
	tb.Helper()
	o := options{Config: usual}
	o.Store, o.Source = store, must.Get(sim.Open(context.Background(), simOptions+"&past=year"))(tb)
	o.Config.Files.Cadence = files.Build
	for _, change := range opts {
		change(&o)
	}
	must.Get(newBuilder(tb, o.Config).Build(context.Background(), end))(tb)
}

// RecordedFolder returns the folder of a recorded market, and skips the test if the folder does not
// exist, because recorded data is not part of the project.
func RecordedFolder(tb testing.TB, all, name string) string {
	tb.Helper()
	folder := filepath.Join(all, name)
	if _, err := os.Stat(folder); err != nil {
		tb.Skipf("skipped: this test reads recorded market data that is not part of the project: %v", err)
	}
	return folder
}

// Recorded publishes the feed in a folder. If the folder contains several feeds, Recorded publishes
// the last one, with the others as its past.
func Recorded(tb testing.TB, store artifacts.Store, folder string) {
	tb.Helper()
	ctx := context.Background()
	feed := source.FS(os.DirFS(folder))
	if _, at, err := source.ReadInfo(ctx, feed); err == nil {
		backfill(tb, store, nil, []builder.PastFeed{{Time: at.Truncate(10 * time.Minute), Files: feed}})
		return
	}
	feeds, _, err := builder.ReadPastFeeds(ctx, folder)
	if err != nil {
		tb.Fatal(err)
	}
	backfill(tb, store, nil, feeds)
}

// backfill publishes feeds with the notice of src, which may be nil.
func backfill(tb testing.TB, store artifacts.Store, src source.Source, feeds []builder.PastFeed) {
	tb.Helper()
	cfg := usual
	cfg.Store, cfg.Source, cfg.Files.Cadence = store, src, files.Build
	must.Get(newBuilder(tb, cfg).Backfill(context.Background(), feeds))(tb)
}

// Rollback publishes the retained snapshot of the given time again.
func Rollback(tb testing.TB, store artifacts.Store, to time.Time, opts ...Option) *Published {
	tb.Helper()
	var o options
	for _, f := range opts {
		f(&o)
	}
	must.Get(upkeep.Rollback(context.Background(), &edited{store, o.edit}, to, time.Now))(tb)
	return Read(tb, store)
}

// Backup copies a store into an empty one, or updates an earlier backup.
func Backup(tb testing.TB, from, to artifacts.Store) {
	tb.Helper()
	must.Get(upkeep.Backup(context.Background(), upkeep.BackupConfig{From: from, To: to}))(tb)
}

// Restore replaces a store's snapshots with those of a backup, at the given time.
func Restore(tb testing.TB, store, from artifacts.Store, at time.Time) {
	tb.Helper()
	must.Get(upkeep.Restore(context.Background(), upkeep.RestoreConfig{Store: store,
		From: upkeep.Copy{Reader: from, Name: "backup"}, Now: func() time.Time { return at }}))(tb)
}

// edited wraps a store, and changes pointers when they are written.
type edited struct {
	artifacts.Store
	edit func(*artifacts.Pointer)
}

func (s *edited) Swap(
	ctx context.Context, key artifacts.Key, old artifacts.Version, data []byte,
) (artifacts.Version, error) {
	if key == artifacts.CurrentKey && s.edit != nil {
		p, err := artifacts.ParsePointer(data)
		if err != nil {
			return "", err
		}
		s.edit(p)
		data = p.Encode()
	}
	return s.Store.Swap(ctx, key, old, data)
}

// Change runs the change job at the given time.
func Change(tb testing.TB, store artifacts.Store, at time.Time) {
	tb.Helper()
	must.Get(change.Record(context.Background(), store, func() time.Time { return at }))(tb)
}

// Registry creates and changes the API keys in a store. KeyRequest describes a new key.
type (
	Registry   = keys.Registry
	KeyRequest = keys.Request
)

// ErrLost is the builder's error for a cell that the store once had and that is now missing.
var ErrLost = publish.ErrLost

// DefaultRate and DefaultBurst are the default limits of new keys.
const DefaultRate, DefaultBurst = keys.DefaultRate, keys.DefaultBurst

// Key creates an API key in a store.
func Key(tb testing.TB, store artifacts.Store, rate, burst int) keys.Created {
	tb.Helper()
	made := must.Get((&Registry{Store: store}).
		Create(context.Background(), KeyRequest{Name: "test", Rate: rate, Burst: burst}))(tb)
	return made
}
