package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/lab/benchdoc"
	"example.com/marketdata/loadtest/oracle"
	"github.com/dustin/go-humanize"
)

// blocksCmd compares lengths of history's blocks.
type blocksCmd struct {
	Assets int    `default:"2000" help:"Assets of the simulated market; figures are scaled to 20,000."`
	Dir    string `help:"Where stores are written; by default a temporary folder."`
	Out    string `placeholder:"FILE" help:"Write the report as a document to this file."`
}

const (
	dayBuilds    = 144
	historyUsual = 20_000 // assets that figures are for
)

// dayEnd ends a block of 1y of every length that is compared: they divide 72.
var dayEnd = time.Date(2026, 10, 9, 0, 0, 0, 0, time.UTC)

// blocksMethod is the report's description of the measurement.
const blocksMethod = `The %d builds of a simulated day of %s assets, scaled to 20,000, for each length of a block. The last is the worst: it adds a point to each window's last block, and fills that of 1y. All last
blocks are as full as after a past without gaps. Time is the step "history"'s, on the wall clock. Shards are the most that hold one asset's points, one of each block.

Left out: edges that want few points of a block.`

func (c *blocksCmd) Run(ctx context.Context) error {
	d := benchdoc.Document{
		Title: "How long blocks of history are", Command: "make bench-blocks",
		Method: fmt.Sprintf(blocksMethod, dayBuilds, humanize.Comma(int64(c.Assets))),
		Columns: []string{"intervals a block", "written a build", "time a build", "written, worst build",
			"time, worst build", "shards of `24h`", "shards of `1y`"},
	}
	lengths := []int{12, 0, 18, 24, 36, 72}
	step := cmdline.Bar(len(lengths)*dayBuilds, "building days")
	for _, points := range lengths {
		row, err := c.day(ctx, points, step)
		if err != nil {
			return fmt.Errorf("%d intervals: %w", points, err)
		}
		d.Rows = append(d.Rows, row)
	}
	return d.Print(c.Out)
}

// day makes a day's builds with blocks of so many intervals, and returns the table's row.
func (c *blocksCmd) day(ctx context.Context, points int, step func()) ([]string, error) {
	dir, err := os.MkdirTemp(c.Dir, "bench-blocks-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name, all, year := fmt.Sprint(points), points, points
	if points == 0 {
		name, all, year = "**18, of `1y` 36**", 18, mostPoints
	}
	b := &bench{
		Assets: c.Assets, History: historyUsual, First: dayEnd.Add(-(dayBuilds - 1) * artifacts.Step),
		Points: year, BlockPoints: points, Dir: dir,
	}
	if err := b.makePast(ctx); err != nil {
		return nil, err
	}
	store, err := dirstore.Open(b.store(), dirstore.Options{})
	if err != nil {
		return nil, err
	}
	src, err := b.market(ctx)
	if err != nil {
		return nil, err
	}
	builds, err := b.builder(store, src)
	if err != nil {
		return nil, err
	}
	var sum, worst struct{ bytes, ms int64 }
	had, err := historyObjects(ctx, store)
	if err != nil {
		return nil, err
	}
	for round := range dayBuilds {
		report, err := builds.Build(ctx, b.time(round))
		if err != nil {
			return nil, err
		}
		var ms, bytes int64
		for _, s := range report.Steps {
			if s.Step == builder.StepHistory {
				ms = s.MS
			}
		}
		has, err := historyObjects(ctx, store)
		if err != nil {
			return nil, err
		}
		bytes, had = added(had, has), has
		sum.bytes, sum.ms = sum.bytes+bytes, sum.ms+ms
		step()
		worst.bytes, worst.ms = max(worst.bytes, bytes), max(worst.ms, ms)
	}
	scale := historyUsual / float64(c.Assets)
	mb := func(bytes float64) string { return fmt.Sprintf("%.1f MB", scale*bytes/1e6) }
	ms := func(ms float64) string { return fmt.Sprintf("%.0f ms", scale*ms) }
	shards := func(w *artifacts.HistoryWindow, points int) string {
		return fmt.Sprint((int(w.Length/w.Step)+points-1)/points + 1)
	}
	windows := &artifacts.HistoryWindows
	return []string{
		name, mb(float64(sum.bytes) / dayBuilds), ms(float64(sum.ms) / dayBuilds), mb(float64(worst.bytes)),
		ms(float64(worst.ms)),
		shards(&windows[0], all), shards(&windows[len(windows)-1], year),
	}, nil
}

// historyObjects are the objects of history of the published snapshot: its views,
// and the points in the ledger that are not all of the snapshot's prices.
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

// added returns the size of the objects in now that are not in before.
func added(before, now map[artifacts.Ref]bool) (bytes int64) {
	for ref := range now {
		if !before[ref] {
			bytes += ref.Size
		}
	}
	return bytes
}
