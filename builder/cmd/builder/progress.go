package main

import (
	"io"
	"log/slog"
	"sync"
	"time"

	"example.com/marketdata/internal/cmdline"
	"github.com/schollz/progressbar/v3"
)

// linePause is the minimum time between two log lines about one step.
const linePause = 5 * time.Second

// progress shows the progress of a long step: as a bar on a terminal, otherwise as occasional log
// lines. Its method show is a builder.Progress, safe for concurrent use.
type progress struct {
	log *slog.Logger
	bar io.Writer // the terminal, or nil to log lines

	mu     sync.Mutex
	step   string
	shown  *progressbar.ProgressBar
	logged time.Time
}

func (e *env) progress() *progress {
	p := &progress{log: e.log}
	if f := cmdline.Terminal(e.stderr); f != nil {
		p.bar = f
	}
	return p
}

// lines returns a progress that only logs, for a command that runs as a service.
func (e *env) lines() *progress { return &progress{log: e.log} }

func (p *progress) show(step string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if step != p.step {
		p.end()
		p.step, p.logged = step, time.Now()
		if p.bar != nil {
			p.shown = progressbar.NewOptions(max(total, 1), progressbar.OptionSetDescription(step),
				progressbar.OptionSetWriter(p.bar), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(),
				progressbar.OptionThrottle(100*time.Millisecond))
		}
	}
	switch {
	case p.shown != nil:
		if total > 0 {
			p.shown.ChangeMax(total)
		}
		_ = p.shown.Set(done) // failing to draw the bar does no harm
	case p.bar == nil && time.Since(p.logged) >= linePause:
		p.logged = time.Now()
		p.log.Info("progress", "step", step, "done", done, "total", total)
	}
}

// file returns a function that shows the progress of a feed's files. The name of each step is verb,
// followed by the file's name.
func (p *progress) file(verb string) func(file string, done, total int64) {
	return func(file string, done, total int64) { p.show(verb+file, int(done), int(max(0, total))) }
}

// end removes the bar.
func (p *progress) end() {
	if p.shown != nil {
		_ = p.shown.Finish()
		p.shown = nil
	}
}

// close removes the bar at the end of the work.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}
