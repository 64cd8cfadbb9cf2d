// Command soak runs the service for a while over a store, a network, a disk and
// processes that fail, asks it all the while, and checks every answer. SOAK.md
// says what is done and what is promised. It is what `make soak` starts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

type cli struct {
	Duration time.Duration `default:"10m" help:"How long faults are made (${default}); starting and ending come on top."`
	Seed     uint64        `default:"0" help:"Which faults, when; 0: a random one, which is printed."`
	Bin      string        `default:"bin" help:"Folder of the builder and edge programs (${default})."`
	Data     string        `placeholder:"DIR" help:"Folder for the store, caches and logs. Without: a temporary one, which stays when a promise was broken."`
	Assets   int           `default:"1000" help:"Assets in the market (${default})."`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("soak"), kong.DefaultEnvars("SOAK"),
		kong.Description("Runs a MinIO, a builder and two edges for a while, makes everything fail, and checks every answer. Exit status: 0 all promises were kept, 1 not."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := c.run(ctx, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// errBroken: a promise was not kept; the table says which.
var errBroken = errors.New("a promise was broken")

// run soaks, prints the table to out, and how it goes to progress.
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

// show tells how it goes until the function that it returns is called: by a bar
// on a terminal, by a line every ten seconds elsewhere.
func (s *soak) show(w io.Writer) (end func()) {
	every, draw := 10*time.Second, func(done time.Duration) {
		fmt.Fprintf(w, "%v of %v: %s\n", done.Round(time.Second), s.cfg.Duration, s.report.line())
	}
	var bar *progressbar.ProgressBar
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		bar = progressbar.NewOptions64(int64(s.cfg.Duration/time.Second), progressbar.OptionSetWriter(w), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(20))
		every, draw = time.Second, func(done time.Duration) {
			bar.Describe(s.report.line())
			_ = bar.Set64(int64(min(done, s.cfg.Duration) / time.Second)) // a bar that cannot be drawn is no fault
		}
	}
	began, stop, done := time.Now(), make(chan struct{}), make(chan struct{})
	fmt.Fprintf(w, "soaking for %v with seed %d\n", s.cfg.Duration, s.cfg.Seed)
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				draw(time.Since(began))
			}
		}
	}()
	return func() {
		close(stop)
		<-done
		if bar != nil {
			_ = bar.Finish()
		}
	}
}
