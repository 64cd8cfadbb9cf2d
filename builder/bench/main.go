// Command bench measures what a build costs, and prints every figure beside
// the bound that it is held to:
//
//	go run ./builder/bench                  # 20,000 and 1,000,000 assets
//	go run ./builder/bench -assets 20000    # the small one only
//
// Builds of a simulated market, from a folder into a directory store that has
// the snapshot before and one in each window of change, so that every figure is
// another, are held against their floor: decoding the same feed
// with go-json, and compressing, hashing and durably writing the finished
// objects. Both run on one core (GOMAXPROCS=1), each in a process of its own, in
// turn, and the least time of several rounds counts, so that what else the
// machine does matters little.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"example.com/marketdata/builder"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/benchdoc"
)

// The bounds that the figures are held to.
const (
	maxRatio    = 2.5      // build against floor, at the smallest size
	maxBytes    = 25 << 20 // written for one snapshot, at the smallest size
	maxMemory   = 4 << 30  // peak resident memory, at any size
	maxObjects  = 2500     // put for one snapshot, at any size
	maxManifest = 4 << 20  // bytes, at any size
	maxHistory  = .15      // the step history against all others, at the smallest size
	maxPoints   = .25      // bytes of history against all others, at the smallest size
	maxGrowth   = 1.5      // time an asset, largest size against smallest
)

// childEnv, in the environment, makes this program one stage of one round.
const (
	childEnv   = "BENCH_STAGE"
	stageFeed  = "feed"
	stageBuild = "build"
	stageFloor = "floor"
)

// figures are what one size measured.
type figures struct {
	Assets   int
	Build    took // the whole build
	Decode   took // the feed with go-json
	Compress took
	Hash     took
	Write    took // durably, through the directory store
	Steps    map[string]int64

	Objects  int
	Bytes    int64
	History  int64 // of Bytes
	Manifest int64
	Memory   int64 // peak, bytes
}

// took is wall-clock and processor time.
type took struct{ Wall, CPU time.Duration }

func (a took) plus(b took) took { return took{a.Wall + b.Wall, a.CPU + b.CPU} }

// least keeps the lesser of two rounds, by wall-clock time.
func (a took) least(b took) took {
	if a.Wall == 0 || b.Wall < a.Wall {
		return b
	}
	return a
}

func (f *figures) floor() took { return f.Decode.plus(f.Compress).plus(f.Hash).plus(f.Write) }

func main() {
	sizes := flag.String("assets", "20000,1000000", "sizes of the simulated market")
	rounds := flag.Int("rounds", 7, "rounds at 20,000 assets; larger markets get fewer")
	dir := flag.String("dir", "", "where feeds and stores are written; by default a temporary folder")
	profile := flag.String("cpuprofile", "", "write a processor profile of each build to this file, with the size and the round added")
	out := flag.String("out", "", "write the report as a document to this file")
	flag.Parse() // exits with 2, too
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	var err error
	if stage := os.Getenv(childEnv); stage != "" {
		err = child(context.Background(), stage, *sizes, *rounds, *dir, *profile)
	} else {
		err = parent(*sizes, *rounds, *dir, *profile, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parent(sizes string, rounds int, dir, profile, out string) error {
	dir, err := os.MkdirTemp(dir, "bench-builder-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var all []*figures
	for size := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			return fmt.Errorf("-assets %q: %w", size, err)
		}
		f, err := measure(n, max(1, min(rounds, rounds*20_000/n)), filepath.Join(dir, size), profile)
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	return report(all, rounds, out)
}

// measure runs the rounds of one size. Each build and each floor has a process
// of its own, as a command has, in turn: what else the machine does meets both.
func measure(assets, rounds int, dir, profile string) (*figures, error) {
	f := &figures{Assets: assets}
	for round := -len(past); round < rounds; round++ {
		for _, stage := range []string{stageFeed, stageBuild, stageFloor} {
			if stage == stageFloor && round < 0 {
				continue // the past only makes what comes usual
			}
			var out bytes.Buffer
			cmd := exec.Command(os.Args[0], "-assets", strconv.Itoa(assets), "-rounds="+strconv.Itoa(round), "-dir", dir, "-cpuprofile", profile)
			cmd.Env = append(os.Environ(), childEnv+"="+stage)
			cmd.Stdout, cmd.Stderr = &out, os.Stderr
			if err := cmd.Run(); err != nil {
				return nil, fmt.Errorf("%d assets, round %d, %s: %w", assets, round, stage, err)
			}
			var now figures
			if stage == stageFeed || round < 0 {
				continue
			}
			if err := json.Unmarshal(out.Bytes(), &now); err != nil {
				return nil, err
			}
			if stage == stageBuild {
				now.Memory = peakMemory(cmd.ProcessState)
			}
			f.take(&now)
		}
	}
	return f, nil
}

// take keeps what a round has that is better, or worse where that is bounded.
func (f *figures) take(now *figures) {
	if now.Build.Wall > 0 {
		if f.Build = f.Build.least(now.Build); f.Build == now.Build {
			f.Steps = now.Steps
		}
		f.Objects, f.Bytes = max(f.Objects, now.Objects), max(f.Bytes, now.Bytes)
		f.History = max(f.History, now.History)
		f.Manifest, f.Memory = max(f.Manifest, now.Manifest), max(f.Memory, now.Memory)
		return
	}
	if old := f.floor(); old.Wall == 0 || now.floor().Wall < old.Wall {
		f.Decode, f.Compress, f.Hash, f.Write = now.Decode, now.Compress, now.Hash, now.Write
	}
}

// method is what the report says of how it came about.
const method = `Builds of a simulated market from a folder into a directory store that has a snapshot in each window, on one core. The floor is what any builder must pay:
decoding the same feed with go-json, and compressing, hashing and durably writing the finished objects. Each has a process of its own, in turn; the least time of %d
rounds counts (fewer of a large market), and the most memory.

History's last blocks are young here; [the builder's page](README.md#costs) has the average of a day.

Left out: a live source's answers, a store behind a network, and more than one core.`

// report shows every figure and whether its bound was kept, and writes the
// document to the file out unless that is empty.
func report(all []*figures, rounds int, out string) error {
	d := benchdoc.Document{Title: "What a build costs", Command: "make bench-builder", Method: fmt.Sprintf(method, rounds), Columns: []string{"what"}}
	for _, f := range all {
		d.Columns = append(d.Columns, humanize.Comma(int64(f.Assets))+" assets")
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
	ratio := func(f *figures) float64 { return float64(f.Build.Wall) / float64(f.floor().Wall) }
	perAsset := func(f *figures) float64 { return float64(f.Build.Wall.Microseconds()) / float64(f.Assets) }
	row("floor: decode the feed", "", ms(func(f *figures) took { return f.Decode }))
	row("floor: compress", "", ms(func(f *figures) took { return f.Compress }))
	row("floor: hash", "", ms(func(f *figures) took { return f.Hash }))
	row("floor: write", "", ms(func(f *figures) took { return f.Write }))
	row("floor", "", ms((*figures).floor))
	row("build", "", ms(func(f *figures) took { return f.Build }))
	for _, step := range []string{builder.StepOpen, builder.StepRead, builder.StepCompute, builder.StepObjects, builder.StepHistory, publish.StepSync, publish.StepManifest, publish.StepSwap} {
		row("build: "+step, "", func(f *figures) string { return humanize.Comma(f.Steps[step]) + " ms" })
	}
	row("build, times the floor", fmt.Sprintf("≤ %.1f at 20,000", maxRatio), func(f *figures) string { return fmt.Sprintf("%.2f", ratio(f)) })
	row("build, an asset", fmt.Sprintf("≤ %.1f times the smallest", maxGrowth), func(f *figures) string { return fmt.Sprintf("%.1f µs", perAsset(f)) })
	row("peak memory", "≤ "+humanize.Comma(maxMemory>>20)+" MiB", func(f *figures) string { return humanize.Comma(f.Memory>>20) + " MiB" })
	row("objects put", "≤ "+humanize.Comma(maxObjects), func(f *figures) string { return humanize.Comma(int64(f.Objects)) })
	row("written", fmt.Sprintf("≤ %.1f MB at 20,000", maxBytes/1e6), func(f *figures) string { return fmt.Sprintf("%.1f MB", float64(f.Bytes)/1e6) })
	row("history, of what is written", fmt.Sprintf("≤ %.0f%% of the rest at 20,000", 100*maxPoints), func(f *figures) string { return fmt.Sprintf("%.1f MB", float64(f.History)/1e6) })
	row("manifest", "≤ "+humanize.Comma(maxManifest/1000)+" KB", func(f *figures) string { return fmt.Sprintf("%.1f KB", float64(f.Manifest)/1e3) })
	if err := d.Print(out); err != nil {
		return err
	}
	missed := 0
	fmt.Println()
	bound := func(name string, got, most float64) {
		verdict := "kept"
		if got > most {
			verdict = "MISSED"
			missed++
		}
		fmt.Printf("%-44s %14.2f  at most %14.2f  %s\n", name, got, most, verdict)
	}
	small, large := all[0], all[len(all)-1]
	if small.Assets == 20_000 {
		bound("20,000 assets: build / floor", ratio(small), maxRatio)
		history := float64(small.Steps[builder.StepHistory])
		bound("20,000 assets: history / all other steps", history/(float64(small.Build.Wall.Milliseconds())-history), maxHistory)
		bound("20,000 assets: history / all else written", float64(small.History)/float64(small.Bytes-small.History), maxPoints)
		bound("20,000 assets: bytes written", float64(small.Bytes), maxBytes)
	}
	for _, f := range all {
		name := strconv.Itoa(f.Assets) + " assets: "
		bound(name+"peak memory, bytes", float64(f.Memory), maxMemory)
		bound(name+"objects", float64(f.Objects), maxObjects)
		bound(name+"manifest, bytes", float64(f.Manifest), maxManifest)
	}
	if small != large {
		bound("time an asset, largest / smallest", perAsset(large)/perAsset(small), maxGrowth)
	}
	if missed > 0 {
		return fmt.Errorf("%d bounds missed", missed)
	}
	return nil
}
