// Command bench compares the cost of an edge's answers with the cost of the same bytes from other servers:
// bare fasthttp writing a constant, and nginx sending a file. It is what `make bench-edge` runs.
//
// Every server runs as its own process, pinned to one core; the load is pinned to another. The
// figure is the server's CPU time (user and system, from the kernel) divided by the requests it
// answered: the median of rounds that take the servers in turn. Absolute figures depend on the
// machine, so the targets are ratios.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"example.com/marketdata/internal/cmdline"
	"github.com/alecthomas/kong"
)

type cli struct {
	Run  runCmd  `cmd:"" default:"withargs" help:"Compare (the default)."`
	Bare bareCmd `cmd:"" hidden:"" help:"Serve one response with bare fasthttp."`
}

type runCmd struct {
	Bin      string        `default:"bin" help:"Folder of the builder, edge and loadtest programs."`
	Assets   int           `default:"10000" help:"Assets of the small market."`
	Large    int           `default:"1000000" help:"Assets of the large market; 0: leave it out."`
	Rounds   int           `default:"31" help:"Rounds; the median counts."`
	Duration time.Duration `default:"500ms" help:"Load of one server in one round: short, since the machine's own speed may change from second to second."`
	Short    bool          `help:"Without nginx and the large market, for a quick look."`
	Server   int           `default:"0" help:"Core that servers are pinned to."`
	Client   int           `default:"1" help:"Core that the load is pinned to."`
	Work     string        `help:"Folder for stores and files, kept; by default a temporary one."`
	Only     string        `help:"Run only the comparisons whose name contains this."`
	Out      string        `help:"Write the report as Markdown to this file."`
}

func main() {
	var c cli
	cmdline.Program{
		Name: "bench-edge", Description: "What an edge's answers cost, compared with bare fasthttp and nginx.", CLI: &c,
		Run: func(_ context.Context, parsed *kong.Context, _ *slog.Logger) error { return parsed.Run() },
	}.Main()
}

func (c *runCmd) Run(ctx context.Context) error {
	for _, tool := range []struct{ name, install string }{{"taskset", "util-linux"}, {"nginx", "nginx-light"}} {
		if tool.name == "nginx" && c.Short {
			continue
		}
		if _, err := exec.LookPath(tool.name); err != nil {
			return fmt.Errorf("%s is not installed: apt-get install %s (or make bench-edge SHORT=1, which goes without nginx)",
				tool.name, tool.install)
		}
	}
	work := c.Work
	if work == "" {
		var err error
		if work, err = os.MkdirTemp("", "bench-edge-"); err != nil {
			return err
		}
		defer os.RemoveAll(work)
	}
	work, err := filepath.Abs(work)
	if err != nil {
		return err
	}
	// Pin all threads of this process. Its children inherit the core unless they are pinned to others.
	if out, err := exec.Command("taskset", "-acp", strconv.Itoa(c.Client), strconv.Itoa(os.Getpid())).
		CombinedOutput(); err != nil {
		return fmt.Errorf("taskset: %w: %s", err, out)
	}
	runtime.GOMAXPROCS(1)
	b := &bench{runCmd: c, work: work}
	defer b.stop()
	return cmp.Or(b.run(ctx), ctx.Err())
}
