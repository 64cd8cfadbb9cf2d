package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/loadtest/oracle"
	gojson "github.com/goccy/go-json"
)

// Round 0 is at start, or at midnight, when a block of the window 1y becomes full. Each later round is ten
// minutes after the one before.
var (
	start    = time.Date(2026, 11, 21, 7, 20, 0, 0, time.UTC)
	midnight = time.Date(2026, 11, 14, 0, 0, 0, 0, time.UTC)
	// past contains the ages of the earlier snapshots at round 0, one in each of the longer windows of
	// percent changes.
	past = []time.Duration{
		364 * 24 * time.Hour, 89 * 24 * time.Hour, 29 * 24 * time.Hour, 6 * 24 * time.Hour, 23 * time.Hour,
		11 * time.Hour, 5 * time.Hour,
	}
)

// fullPast is the number of assets of the largest market whose past has all points of the last blocks of
// history.
const fullPast = 20_000

// times returns the times of the past snapshots, in order.
func (b *bench) times() []time.Time {
	first := b.time(0)
	var times []time.Time
	for _, age := range past {
		times = append(times, first.Add(-age).Truncate(artifacts.Step))
	}
	for i := range artifacts.HistoryWindows {
		w := &artifacts.HistoryWindows[i]
		// Even without history, the past has eight snapshots at the step of the shortest window.
		for n := range time.Duration(b.Points) {
			if b.History > 0 && b.Assets <= fullPast || w.Step == artifacts.Step && n < 8 {
				times = append(times, first.Add(-artifacts.Step).Truncate(w.Step).Add(-n*w.Step))
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}

func (b *bench) time(round int) time.Time {
	return b.First.Add(time.Duration(round) * artifacts.Step)
}

// bench describes one stage of one round. The stage runs in its own process.
type bench struct {
	Stage         string
	Assets, Round int
	History       int       // number of assets with history; 0 means the store without it
	First         time.Time // the time of round 0
	Points        int       // number of points of the past in each window: as many as in a full block
	Dir, Profile  string
	f             figures
}

func child(ctx context.Context, task string) error {
	b := &bench{f: figures{Steps: map[string]int64{}}}
	if err := json.Unmarshal([]byte(task), b); err != nil {
		return err
	}
	var err error
	switch b.Stage {
	case stagePast:
		return b.makePast(ctx)
	case stageFeed:
		return b.makeFeed(ctx)
	case stageBuild:
		err = b.build(ctx)
	default:
		err = b.floor(ctx)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(b.f)
}

func (b *bench) feed() string   { return filepath.Join(b.Dir, "feed") }
func (b *bench) store() string  { return filepath.Join(b.Dir, fmt.Sprint("store-", b.History)) }
func (b *bench) before() string { return b.store() + ".json" }

func (b *bench) market(ctx context.Context) (source.Source, error) {
	return sim.Open(ctx, fmt.Sprintf("?assets=%d&seed=1", b.Assets))
}

// makePast creates the store with the past of round 0. It removes an earlier store.
func (b *bench) makePast(ctx context.Context) error {
	if err := os.RemoveAll(b.store()); err != nil {
		return err
	}
	src, err := b.market(ctx)
	if err != nil {
		return err
	}
	store, err := dirstore.Open(b.store(), dirstore.Options{Create: true})
	if err != nil {
		return err
	}
	var feeds []builder.PastFeed
	for _, at := range b.times() {
		files, err := src.Files(ctx, at)
		if err != nil {
			return err
		}
		feeds = append(feeds, builder.PastFeed{Name: at.String(), Time: at, Files: files})
	}
	builds, err := b.builder(store, nil)
	if err != nil {
		return err
	}
	_, err = builds.Backfill(ctx, feeds)
	return err
}

// builder returns a builder for store with the default settings of the commands.
func (b *bench) builder(store artifacts.Store, src source.Source) (*builder.Builder, error) {
	usd := func(units uint64) market.U128 { return market.U128{Lo: units * 100_000_000} }
	return builder.New(builder.Config{
		Store: store, Source: src, Retain: builder.DefaultRetain, Guards: builder.DefaultGuards,
		Settings: market.Settings{
			TrendingMinMarketCap: usd(10_000_000), TrendingMinVolume: usd(1_000_000), HistoryAssets: b.History},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

func (b *bench) makeFeed(ctx context.Context) error {
	src, err := b.market(ctx)
	if err != nil {
		return err
	}
	files, err := src.Files(ctx, b.time(b.Round))
	if err != nil {
		return err
	}
	return source.Write(ctx, b.feed(), files, nil)
}

// measured calls f and returns the time that it took.
func measured(f func() error) (took, error) {
	cpu, wall := cpuTime(), time.Now()
	err := f()
	return took{time.Since(wall), cpuTime() - cpu}, err
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("BUG: getrusage: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakMemory returns the largest resident set of a process that has ended, in bytes.
func peakMemory(s *os.ProcessState) int64 {
	u, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return u.Maxrss // Darwin reports bytes, other systems KiB.
	}
	return u.Maxrss << 10
}

// build builds the snapshot of the round.
func (b *bench) build(ctx context.Context) error {
	store, err := dirstore.Open(b.store(), dirstore.Options{Create: true})
	if err != nil {
		return err
	}
	// List the objects before the build, because floor needs to know which ones the build has written.
	list, err := keys(ctx, store)
	if err != nil {
		return err
	}
	text, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(b.before(), text, 0o644)
	}
	if err != nil {
		return err
	}
	src, err := source.Open(ctx, "feed:"+b.feed(), nil)
	if err != nil {
		return err
	}
	builds, err := b.builder(store, src)
	if err != nil {
		return err
	}
	if b.Profile != "" {
		out, err := os.Create(fmt.Sprintf("%s.%d.%d.%d", b.Profile, b.Assets, b.History, b.Round))
		if err != nil {
			return err
		}
		defer out.Close()
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	had, err := historyObjects(ctx, store)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	var report *builder.Report
	took, err := measured(func() (err error) { report, err = builds.Build(ctx, time.Time{}); return err })
	if err != nil {
		return err
	}
	if b.History == 0 {
		b.f.Plain, b.f.PlainBytes = took, report.BytesWritten
		return nil
	}
	b.f.Build, b.f.AllBytes, b.f.Builds = took, report.BytesWritten, 1
	for _, s := range report.Steps {
		b.f.Steps[s.Step] = s.MS
	}
	b.f.Objects, b.f.Bytes = report.ObjectsWritten, report.BytesWritten
	has, err := historyObjects(ctx, store)
	if err != nil {
		return err
	}
	b.f.History = added(had, has)
	pointer, err := oracle.Published(ctx, store)
	if err == nil {
		b.f.Manifest = pointer.Manifest.Size
	}
	return err
}

// keys lists all keys of a store except the pointer's.
func keys(ctx context.Context, s artifacts.Store) (map[artifacts.Key]bool, error) {
	all := map[artifacts.Key]bool{}
	err := s.List(ctx, "", func(i artifacts.Info) error {
		if i.Key != artifacts.CurrentKey {
			all[i.Key] = true
		}
		return nil
	})
	return all, err
}

// floor measures the work that no builder can avoid.
func (b *bench) floor(ctx context.Context) error {
	store, err := dirstore.Open(b.store(), dirstore.Options{})
	if err != nil {
		return err
	}
	list, err := os.ReadFile(b.before())
	if err != nil {
		return err
	}
	var before map[artifacts.Key]bool
	if err := json.Unmarshal(list, &before); err != nil {
		return err
	}
	after, err := keys(ctx, store)
	if err != nil {
		return err
	}
	root := filepath.Join(b.Dir, "floor")
	defer os.RemoveAll(root)
	other, err := dirstore.Open(root, dirstore.Options{Create: true})
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	if b.f.Decode, err = measured(func() error { return decode(b.feed()) }); err != nil {
		return err
	}
	var frame []byte
	for key := range after {
		if before[key] {
			continue
		}
		stored, _, err := store.Get(ctx, key, artifacts.MaxObjectSize)
		if err != nil {
			return err
		}
		plain := pieces(stored)
		t, _ := measured(func() error {
			for _, p := range plain {
				frame = artifacts.Compress(frame[:0], p)
			}
			return nil
		})
		b.f.Compress = b.f.Compress.plus(t)
		t, _ = measured(func() error { artifacts.Sum(stored); return nil })
		b.f.Hash = b.f.Hash.plus(t)
		t, err = measured(func() error { return other.Put(ctx, key, stored) })
		b.f.Write = b.f.Write.plus(t)
		if err != nil {
			return err
		}
	}
	t, err := measured(func() error { return other.Sync(ctx) })
	b.f.Write = b.f.Write.plus(t)
	return err
}

// pieces returns the expanded frames of an object: the shards and the index of a view, or the
// single frame of a ledger object. An object that is not compressed has none.
func pieces(stored []byte) (plain [][]byte) {
	if frame, err := artifacts.DecompressBounded(stored, 64<<20); err == nil {
		return append(plain, frame)
	}
	n, err := artifacts.IndexSize(stored)
	if err != nil {
		return nil
	}
	x, err := artifacts.ParseIndex(stored[:n], int64(len(stored)))
	if err != nil {
		return nil
	}
	for _, e := range x.Shards {
		shard, err := artifacts.Decompress(stored[n+e.Offset:n+e.Offset+e.Stored], e.Plain)
		if err != nil {
			return nil
		}
		plain = append(plain, shard)
	}
	return plain
}

// The rows of a feed as go-json decodes them. Numbers keep their original text.
type (
	assetRow struct {
		Key, Name, Symbol, Slug, Logo, Website, Whitepaper string
		ID                                                 gojson.Number
		Explorers                                          []string
		Active                                             *bool
	}
	quoteRow struct {
		Key       string
		Price     gojson.RawMessage
		MarketCap gojson.RawMessage `json:"market_cap"`
		Volume    gojson.RawMessage
	}
	exchangeRow struct {
		Key, Name, Slug, Logo string
		ID                    gojson.Number
		Links                 map[string]string
		Fees                  struct{ Maker, Taker gojson.RawMessage }
		Market                *struct {
			Volume       gojson.RawMessage `json:"volume_24h"`
			MarketsCount gojson.Number     `json:"markets_count"`
			CoinsCount   gojson.Number     `json:"coins_count"`
			DataTime     string            `json:"data_time"`
		}
	}
	groupRow struct {
		Key, Name, Slug, Status string
		ID                      gojson.Number
		Members                 []string
		DisplayName             string        `json:"display_name"`
		EVMChainID              gojson.Number `json:"evm_chain_id"`
		Native                  string
	}
)

// decode reads every row of the feed with go-json.
func decode(dir string) error {
	return errors.Join(
		decodeFile[assetRow](dir, source.AssetsFile), decodeFile[quoteRow](dir, source.QuotesFile),
		decodeFile[exchangeRow](dir, source.ExchangesFile),
		decodeFile[groupRow](dir, source.CategoriesFile), decodeFile[groupRow](dir, source.ChainsFile),
	)
}

func decodeFile[Row any](dir, name string) error {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, source.MaxLine)
	for lines.Scan() {
		var row Row
		// Ignore errors: rows that a builder would set aside cost the same.
		_ = gojson.Unmarshal(lines.Bytes(), &row)
	}
	return lines.Err()
}

// historyObjects returns the objects that the published snapshot keeps for history: the objects of the views
// of history, and the objects of the points that the ledger keeps for these views.
func historyObjects(ctx context.Context, r artifacts.Reader) (map[artifacts.Ref]bool, error) {
	p, err := oracle.Published(ctx, r)
	if err != nil {
		return nil, err
	}
	m, err := artifacts.ReadManifest(ctx, r, p.Manifest)
	if err != nil {
		return nil, err
	}
	all := map[artifacts.Ref]bool{}
	for _, v := range m.Views {
		if !artifacts.IsHistory(v.Collection) {
			continue
		}
		for _, o := range v.Objects {
			all[o.Ref] = true
		}
	}
	root, err := ledger.ReadRoot(ctx, r, m.Ledger)
	if err != nil || root.Charted == nil {
		return all, err
	}
	for _, points := range *root.Charted {
		for _, part := range points.Parts {
			all[part] = true
		}
	}
	return all, nil
}

// added returns the total size, in bytes, of the objects that are in newRefs but not in oldRefs.
func added(oldRefs, newRefs map[artifacts.Ref]bool) (bytes int64) {
	for ref := range newRefs {
		if !oldRefs[ref] {
			bytes += ref.Size
		}
	}
	return bytes
}
