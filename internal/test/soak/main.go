// Command soak runs the service while its store, network, disk and processes fail, and checks every
// answer. SOAK.md lists the faults and the promises. `make soak` starts it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"example.com/marketdata/internal/cmdline"
	"github.com/alecthomas/kong"
)

type cli struct {
	Duration time.Duration `default:"10m" help:"How long faults are made; starting and ending come on top."`
	Seed     uint64        `default:"0" help:"Which faults, when; 0: a random one, which is printed."`
	Bin      string        `default:"bin" help:"Folder of the builder and edge programs."`
	Data     string        `placeholder:"DIR" help:"Folder for the store, caches and logs. Without: a temporary one, which stays when a promise was broken."`
	Assets   int           `default:"1000" help:"Assets in the market."`
}

func main() {
	var c cli
	cmdline.Program{
		Name: "soak", CLI: &c,
		Description: "Runs a MinIO, a builder and two edges for a while, makes everything fail, and checks every answer. Exit status: 0 all promises were kept, 1 not, 2 wrong usage.",
		Run: func(ctx context.Context, _ *kong.Context, _ *slog.Logger) error {
			return c.run(ctx, os.Stdout, os.Stderr)
		},
	}.Main()
}

// errBroken means that a promise was broken. The table says which one.
var errBroken = errors.New("a promise was broken")

// run runs the soak. It prints the table to out, and reports its progress on progress.
func (c *cli) run(ctx context.Context, out, progress io.Writer) (err error) {
	if c.Seed == 0 {
		c.Seed = rand.Uint64N(1e9) + 1
	}
	data := c.Data
	if data == "" {
		if data, err = os.MkdirTemp("", "soak-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(data)
			} else {
				fmt.Fprintf(progress, "the store, caches and logs are in %s\n", data)
			}
		}()
	}
	s, err := newSoak(ctx, c, data)
	if err != nil {
		return err
	}
	ended := s.show(progress)
	err = s.run(ctx)
	ended()
	s.close()
	s.report.print(out, c)
	if err == nil && s.report.broken() {
		err = errBroken
	}
	return err
}

// show prints the progress every ten seconds until the returned function is called.
func (s *soak) show(w io.Writer) (end func()) {
	fmt.Fprintf(w, "soaking for %v with seed %d\n", s.cfg.Duration, s.cfg.Seed)
	began, tick, stop := time.Now(), time.NewTicker(10*time.Second), make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				fmt.Fprintf(w, "%v of %v: %s\n", time.Since(began).Round(time.Second), s.cfg.Duration, s.report.line())
			}
		}
	})
	return func() {
		tick.Stop()
		close(stop)
		showing.Wait()
	}
}
