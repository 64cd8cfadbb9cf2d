// Command bench measures the cost of a build, and prints every figure with the limit that it must
// not exceed:
//
//	go run ./internal/bench/builder                  # 20,000 and 1,000,000 assets
//	go run ./internal/bench/builder --assets 20000   # the small one only
//
// It builds a simulated market from a folder into a directory store. The store has the previous snapshot and
// one in each window of percent changes, so that the build computes all changes. It compares each build with
// a lower limit: decoding the same feed with go-json, and compressing, hashing and durably writing the
// finished objects. For markets of up to 20,000 assets, it also makes each build without history, in another
// store. All builds use one core (GOMAXPROCS=1), each in its own process, one after the other. The minimum of
// several rounds counts, which excludes most effects of other activity on the machine.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"example.com/marketdata/builder"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/bench/benchdoc"
	"example.com/marketdata/internal/cmdline"
	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"
)

// Limits of the figures.
const (
	maxRatio = 2.5 // build time divided by its lower limit, at the smallest size
	// bytes written for one snapshot at the smallest size: the 23.9 MB before /markets was added, plus 15%
	maxBytes    = 27_500_000
	maxMemory   = 4 << 30 // peak resident memory, at any size
	maxObjects  = 2500    // objects put for one snapshot, at any size
	maxManifest = 4 << 20 // bytes, at any size
	// What history adds, as a fraction of a build without it: time at the smallest size, and bytes written.
	maxHistory = .15
	maxPoints  = .25
	maxGrowth  = 1.5 // time per asset at the largest size, divided by the time at the smallest
)

// childEnv is an environment variable that makes this program run one stage. Its value is JSON.
const (
	childEnv   = "BENCH_STAGE"
	stagePast  = "past"
	stageFeed  = "feed"
	stageBuild = "build"
	stageFloor = "floor"
)

// figures contains the measurements of one size of market.
type figures struct {
	name   string
	beside *figures // figures of the smallest market, measured in the same rounds
	Assets int
	Build  took // the whole build
	Plain  took // the same build without history
	// processor time of the build divided by the processor time without history, one value per round
	ratios   []float64
	round    struct{ build, plain time.Duration } // processor time in the current round
	Decode   took                                 // decoding the feed with go-json
	Compress took
	Hash     took
	Write    took // written durably, through the directory store
	Steps    map[string]int64

	Objects  int
	Bytes    int64
	Manifest int64
	Memory   int64 // peak, in bytes
	// Builds is the number of builds with history. The other fields are the total bytes that all builds have
	// written: with history, for history alone, and without history.
	Builds, AllBytes, History, PlainBytes int64
}

// took is wall-clock and processor time.
type took struct{ Wall, CPU time.Duration }

func (a took) plus(b took) took { return took{a.Wall + b.Wall, a.CPU + b.CPU} }

// least returns the measurement with the lesser wall-clock time.
func (a took) least(b took) took {
	if a.Wall == 0 || b.Wall < a.Wall {
		return b
	}
	return a
}

func (f *figures) floor() took { return f.Decode.plus(f.Compress).plus(f.Hash).plus(f.Write) }

type cli struct {
	Run runCmd `cmd:"" default:"withargs" help:"Measure builds (the default)."`
}

type runCmd struct {
	Assets     []int  `default:"20000,1000000" help:"Sizes of the simulated market."`
	Rounds     int    `default:"21" help:"Rounds at 20,000 assets; larger markets get two."`
	Dir        string `help:"Where feeds and stores are written; by default a temporary folder."`
	CPUProfile string `name:"cpuprofile" placeholder:"FILE" help:"Write a processor profile of each build to this file, with the size, the assets of history and the round added."`
	Out        string `placeholder:"FILE" help:"Write the report as a document to this file."`
}

func main() {
	var c cli
	cmdline.Program{
		Name: "bench-builder", Description: "Measures what a build costs.", CLI: &c,
		Run: func(ctx context.Context, parsed *kong.Context, _ *slog.Logger) error {
			if stage := os.Getenv(childEnv); stage != "" {
				return child(ctx, stage)
			}
			return parsed.Run()
		},
	}.Main()
}

func (c *runCmd) Run() error {
	dir, err := os.MkdirTemp(c.Dir, "bench-builder-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sized := func(name string, n int, first time.Time) *size {
		return &size{
			figures: &figures{Assets: n, name: name},
			bench: bench{
				Assets: n, First: first, Points: mostPoints, Dir: filepath.Join(dir, name), Profile: c.CPUProfile},
		}
	}
	var all []*figures
	var small *size
	for _, n := range c.Assets {
		s := sized(humanize.Comma(int64(n))+" assets", n, start)
		if all = append(all, s.figures); small == nil {
			small = s
			if err := s.measure(c.Rounds, nil); err != nil {
				return err
			}
			if n > fullPast {
				continue
			}
			worst := sized("at midnight", n, midnight)
			// Each round needs a past of its own, because the build after this one would not be at
			// midnight.
			for range min(c.Rounds, midnights) {
				worst.Round = 0
				if err := worst.measure(1, nil); err != nil {
					return err
				}
			}
			all = append(all, worst.figures)
			continue
		}
		s.beside = &figures{Assets: small.figures.Assets}
		small.figures = s.beside
		if err := s.measure(min(c.Rounds, largeRounds), small); err != nil {
			return err
		}
	}
	return report(all, c.Rounds, c.Out)
}

const (
	midnights   = 3  // rounds of the build at midnight
	largeRounds = 2  // rounds for all markets except the smallest
	mostPoints  = 36 // maximum number of points in a block of any window
)

// size is a market of one size that is measured.
type size struct {
	*figures
	bench
	builds []int // numbers of assets with history in the builds of a round, in order
}

// measure builds a past for the market and measures the given number of rounds. If baseline is not nil,
// each round runs right after a round of baseline, because the speed of the machine varies over time.
func (s *size) measure(rounds int, baseline *size) error {
	s.builds = []int{market.DefaultHistoryAssets}
	if s.bench.Assets <= fullPast {
		s.builds = append(s.builds, 0)
	}
	step := cmdline.Bar(len(s.builds)+rounds*(len(s.builds)+2), "measuring builds, "+s.name)
	for _, history := range s.builds {
		if err := s.stage(stagePast, history); err != nil {
			return err
		}
		step()
	}
	for range rounds {
		if baseline != nil {
			if err := baseline.round(func() {}); err != nil {
				return err
			}
		}
		if err := s.round(step); err != nil {
			return err
		}
	}
	return nil
}

// round makes a feed, measures each kind of build, and measures the floor.
func (s *size) round(step func()) error {
	if err := s.stage(stageFeed, 0); err != nil {
		return err
	}
	step()
	for _, history := range s.builds {
		if err := s.stage(stageBuild, history); err != nil {
			return err
		}
		step()
	}
	if err := s.stage(stageFloor, market.DefaultHistoryAssets); err != nil {
		return err
	}
	step()
	slices.Reverse(s.builds) // Alternate the order, because the second build may be slower or faster than the first.
	s.Round++
	return nil
}

// stage runs one stage in its own process, as the builder's commands run.
func (s *size) stage(name string, history int) error {
	s.Stage, s.bench.History = name, history
	task, err := json.Marshal(s.bench)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(task))
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%d assets, round %d, %s: %w", s.bench.Assets, s.Round, name, err)
	}
	if name == stagePast || name == stageFeed {
		return nil
	}
	var now figures
	if err := json.Unmarshal(out.Bytes(), &now); err != nil {
		return err
	}
	if name == stageBuild && history > 0 {
		now.Memory = peakMemory(cmd.ProcessState)
	}
	s.take(&now)
	return nil
}

// take merges the figures of a stage. It keeps the shorter times, but the larger counts and sizes, because
// these have limits.
func (f *figures) take(now *figures) {
	f.AllBytes += now.AllBytes
	f.History += now.History
	f.PlainBytes += now.PlainBytes
	f.Builds += now.Builds
	switch {
	case now.Build.Wall > 0:
		f.round.build = now.Build.CPU
		if f.Build = f.Build.least(now.Build); f.Build == now.Build {
			f.Steps = now.Steps
		}
		f.Objects, f.Bytes = max(f.Objects, now.Objects), max(f.Bytes, now.Bytes)
		f.Manifest, f.Memory = max(f.Manifest, now.Manifest), max(f.Memory, now.Memory)
	case now.Plain.Wall > 0:
		f.round.plain = now.Plain.CPU
		f.Plain = f.Plain.least(now.Plain)
	default:
		if f.round.plain > 0 {
			f.ratios = append(f.ratios, float64(f.round.build)/float64(f.round.plain))
		}
		if old := f.floor(); old.Wall == 0 || now.floor().Wall < old.Wall {
			f.Decode, f.Compress, f.Hash, f.Write = now.Decode, now.Compress, now.Hash, now.Write
		}
	}
}

// longer returns the share by which history lengthens a build. moreBytes returns the share by which history
// increases the bytes that builds write, and bytesPerBuild returns that increase in bytes per build.
func (f *figures) longer() float64 {
	slices.Sort(f.ratios)
	return f.ratios[len(f.ratios)/2] - 1
}
func (f *figures) moreBytes() float64     { return float64(f.AllBytes)/float64(f.PlainBytes) - 1 }
func (f *figures) bytesPerBuild() float64 { return float64(f.History) / float64(f.Builds) }

// method is the report's description of the measurement.
const method = `The benchmark builds a simulated market on one core, from a folder into a directory store with a snapshot in each window. The floor is the least that any builder must
spend: decoding the feed with go-json, and compressing, hashing and durably writing the objects. Each runs in a process of its own, in turn. The table has the least time of %d
rounds (for a larger market of %d rounds), and the most memory. Each round of a larger market is compared with one of the smallest just before it.

"Without history" is the same build with ` + "`--history-assets 0`" + `; history adds the median ratio of the processor times of both builds in a round. At 20,000 assets
its last blocks are as full as after a past without gaps; a larger market has single moments in each window, and only the step counts. "At
midnight" is the worst build of 36 days: it adds a point to every window's last block and fills the last block of 1y.

A live source's answers, a store behind a network, and more than one core were not measured.`

// report prints every figure and whether its bound was kept. It also writes the document to file, unless
// file is empty.
func report(all []*figures, rounds int, file string) error {
	d := benchdoc.Document{Title: "What a build costs", Command: "make bench-builder",
		Method: fmt.Sprintf(method, rounds, largeRounds), Columns: []string{"what"}}
	for _, f := range all {
		d.Columns = append(d.Columns, f.name)
	}
	d.Columns = append(d.Columns, "bound")
	row := func(name, bound string, cell func(f *figures) string) {
		cells := []string{name}
		for _, f := range all {
			cells = append(cells, cell(f))
		}
		d.Rows = append(d.Rows, append(cells, bound))
	}
	ms := func(pick func(f *figures) took) func(f *figures) string {
		return func(f *figures) string { return humanize.Comma(pick(f).Wall.Milliseconds()) + " ms" }
	}
	small, large := all[0], all[len(all)-1]
	beside := cmp.Or(large.beside, small)
	// A large market has history for as many assets as the small one, so its history must not cost more.
	mostTime, mostWritten := maxHistory*float64(beside.Plain.Wall.Milliseconds()),
		maxPoints*float64(small.PlainBytes)/float64(small.Builds)
	row("floor: decode the feed", "", ms(func(f *figures) took { return f.Decode }))
	row("floor: compress", "", ms(func(f *figures) took { return f.Compress }))
	row("floor: hash", "", ms(func(f *figures) took { return f.Hash }))
	row("floor: write", "", ms(func(f *figures) took { return f.Write }))
	row("floor", "", ms((*figures).floor))
	row("build", "", ms(func(f *figures) took { return f.Build }))
	for _, step := range []string{builder.StepOpen, builder.StepRead, builder.StepCompute, builder.StepObjects,
		builder.StepHistory, publish.StepSync, publish.StepManifest, publish.StepSwap} {
		bound := ""
		if step == builder.StepHistory {
			bound = fmt.Sprintf("≤ %.0f ms at %s", mostTime, humanize.Comma(int64(large.Assets)))
		}
		row("build: "+step, bound, func(f *figures) string { return humanize.Comma(f.Steps[step]) + " ms" })
	}
	row("build, times the floor", fmt.Sprintf("≤ %.1f at 20,000", maxRatio),
		func(f *figures) string { return fmt.Sprintf("%.2f", f.ratio()) })
	row("build, an asset", fmt.Sprintf("≤ %.1f times the smallest", maxGrowth),
		func(f *figures) string { return fmt.Sprintf("%.1f µs", f.perAsset()) })
	row("peak memory", "≤ "+humanize.Comma(maxMemory>>20)+" MiB",
		func(f *figures) string { return humanize.Comma(f.Memory>>20) + " MiB" })
	row("objects put", "≤ "+humanize.Comma(maxObjects),
		func(f *figures) string { return humanize.Comma(int64(f.Objects)) })
	row("written", fmt.Sprintf("≤ %.1f MB at 20,000", maxBytes/1e6),
		func(f *figures) string { return fmt.Sprintf("%.1f MB", float64(f.Bytes)/1e6) })
	plain := func(cell func(f *figures) string) func(f *figures) string {
		return func(f *figures) string {
			if f.Plain.Wall == 0 {
				return "–"
			}
			return cell(f)
		}
	}
	row("build without history", "", plain(ms(func(f *figures) took { return f.Plain })))
	row("history makes a build longer by", fmt.Sprintf("≤ %.0f%% at 20,000", 100*maxHistory),
		plain(func(f *figures) string { return fmt.Sprintf("%.0f%%", 100*f.longer()) }))
	row("history writes more by", fmt.Sprintf("≤ %.0f%% at 20,000", 100*maxPoints),
		plain(func(f *figures) string { return fmt.Sprintf("%.0f%%", 100*f.moreBytes()) }))
	row("history writes, a build", fmt.Sprintf("≤ %.1f MB", mostWritten/1e6),
		func(f *figures) string { return fmt.Sprintf("%.1f MB", f.bytesPerBuild()/1e6) })
	if err := d.Print(file); err != nil {
		return err
	}
	fmt.Println()
	return judge(all, beside, mostTime, mostWritten)
}

func (f *figures) ratio() float64    { return float64(f.Build.Wall) / float64(f.floor().Wall) }
func (f *figures) perAsset() float64 { return float64(f.Build.Wall.Microseconds()) / float64(f.Assets) }

// judge prints each bound with its figure, and returns an error if a figure misses its bound.
func judge(all []*figures, beside *figures, mostTime, mostWritten float64) error {
	small, large := all[0], all[len(all)-1]
	missed := 0
	bound := func(name string, got, most float64) {
		verdict := "kept"
		if got > most {
			verdict = "MISSED"
			missed++
		}
		fmt.Printf("%-44s %14.2f  at most %14.2f  %s\n", name, got, most, verdict)
	}
	if small.Assets == 20_000 {
		bound("20,000 assets: build / floor", small.ratio(), maxRatio)
		bound("20,000 assets: longer by history", small.longer(), maxHistory)
		bound("20,000 assets: more written by history", small.moreBytes(), maxPoints)
		bound("20,000 assets: bytes written", float64(small.Bytes), maxBytes)
	}
	for _, f := range all {
		name := f.name + ": "
		bound(name+"peak memory, bytes", float64(f.Memory), maxMemory)
		bound(name+"objects", float64(f.Objects), maxObjects)
		bound(name+"manifest, bytes", float64(f.Manifest), maxManifest)
	}
	if small.Assets != large.Assets {
		bound("largest: history, ms", float64(large.Steps[builder.StepHistory]), mostTime)
		bound("largest: bytes of history", large.bytesPerBuild(), mostWritten)
		bound("time an asset, largest / smallest", large.perAsset()/beside.perAsset(), maxGrowth)
	}
	if missed > 0 {
		return fmt.Errorf("%d bounds missed", missed)
	}
	return nil
}
