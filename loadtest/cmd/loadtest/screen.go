package main

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/result"
	"golang.org/x/term"
)

// linePause is the shortest time between two log lines that only report progress.
const linePause = 10 * time.Second

// screen is a live line on a terminal. If the output is not a terminal, it logs the state of the run
// periodically. It is safe for concurrent use.
type screen struct {
	log    *slog.Logger
	mu     sync.Mutex
	w      io.Writer // nil if it is not a terminal
	width  int
	shown  time.Time
	dirty  bool
	logged time.Duration // how long the run had taken at the last log line
}

func newScreen(w io.Writer, log *slog.Logger) *screen {
	s := &screen{log: log, shown: time.Now()}
	if f := cmdline.Terminal(w); f != nil {
		s.w = f
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			s.width = width
		}
	}
	return s
}

func (s *screen) line(text string) {
	if s.w == nil {
		return
	}
	if r := []rune(text); s.width > 1 && len(r) >= s.width {
		text = string(r[:s.width-1])
	}
	fmt.Fprintf(s.w, "\r\x1b[K%s", text)
	s.shown, s.dirty = time.Now(), true
}

// show shows the progress, at most a few times a second.
func (s *screen) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil && time.Since(s.shown) >= linePause {
		s.shown = time.Now()
		s.log.Info(text)
	}
	if time.Since(s.shown) > 100*time.Millisecond {
		s.line(text)
	}
}

// tick shows the last second of a run.
func (s *screen) tick(p *loadtest.Progress) {
	rate := math.Round(float64(p.Sent) / max((p.End-p.Start).Seconds(), 1e-3))
	q := func(q float64) string { return result.Millis(float64(p.Due.ValueAtQuantile(q)) / 1e6) }
	left := p.Left.Round(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.w != nil:
		s.line(fmt.Sprintf("%7s left  %.0f/s  p50 %-8s p99 %-8s errors %-5d wrong %-4d lag p99 %-8s own CPU %.0f%%", left,
			rate, q(50), q(99), p.Failed, p.Wrong, result.Millis(float64(p.LagP99)/1e6), 100*p.CPU))
	case p.Start < s.logged: // a new run
		s.logged = 0
	case p.End-s.logged >= linePause:
		s.logged = p.End
		s.log.Info("the last second", "rate", rate, "p50", q(50), "p99", q(99), "errors", p.Failed,
			"wrong", p.Wrong, "left", left)
	}
}

// warn logs a problem that probably spoils the run.
func (s *screen) warn(text string) {
	s.clear()
	s.log.Warn(text)
}

// clear removes the live line.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirty {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.dirty = false
	}
}

// summary prints a run in readable form.
func summary(out io.Writer, r *result.Run) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	if r.Closed() {
		fmt.Fprintf(
			w, "closed loop: maximum throughput over %d connections; latencies are not those of independent clients\n", r.Setup.Connections)
	} else {
		fmt.Fprintf(w, "open loop: %s, %s arrivals, at most %d connections\n", r.Setup.Stages, r.Setup.Arrivals,
			r.Setup.Connections)
	}
	q := &r.Requests
	fmt.Fprintf(w, "rate\t%.1f/s answered\t%.1f/s sent\t%.1f/s asked\n", r.Rate.Answered, r.Rate.Achieved, r.Rate.Asked)
	fmt.Fprintf(
		w, "requests\t%d asked\t%d answered\t%d failed (%.3g %%)\n", q.Asked, q.Answered, q.Failed, 100*r.Errors())
	fmt.Fprintf(w, "read\t%.1f MiB\t%.1f MiB/s\n\n", float64(q.BytesRead)/(1<<20),
		float64(q.BytesRead)/(1<<20)/max(r.DurationS, 1e-3))
	fmt.Fprintf(w, "latency\tp50\tp90\tp99\tp99.9\tmax\tmean\n")
	row := func(name string, l *result.Latency) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, result.Millis(l.P50MS), result.Millis(l.P90MS),
			result.Millis(l.P99MS), result.Millis(l.P999MS), result.Millis(l.MaxMS), result.Millis(l.MeanMS))
	}
	if r.Closed() {
		row("from sent", &r.Service)
	} else {
		row("from due", &r.Due)
		row("from sent", &r.Service)
		row("send lag", &r.Lag)
	}
	if s := r.Streams; s != nil {
		if s.Late != nil {
			row("events late", s.Late)
		}
		row("events apart", &s.Apart)
	}
	if len(r.Classes) > 1 {
		for i := range r.Classes {
			row("  "+r.Classes[i].Name, &r.Classes[i].Due)
		}
	}
	fmt.Fprintln(w)
	type count struct {
		name   string
		counts map[string]uint64
	}
	counts := []count{{"statuses", q.Statuses}, {"failures", q.Failures}}
	if s := r.Streams; s != nil {
		fmt.Fprintf(w, "streams\t%d of %d open at the end\t%d opened\t%d events\t%d missed\t%d early\n", s.Open,
			s.Count, s.Opened, s.Events, s.Missed, s.Early)
		counts = append(counts, count{"streams ended", s.Failures})
	}
	for _, m := range counts {
		var parts []string
		for _, k := range result.SortedKeys(m.counts) {
			parts = append(parts, fmt.Sprintf("%s: %d", k, m.counts[k]))
		}
		if parts != nil {
			fmt.Fprintf(w, "%s\t%s\n", m.name, strings.Join(parts, ", "))
		}
	}
	checks(w, r)
	for _, t := range r.Thresholds {
		verdict := "passed"
		if !t.Pass {
			verdict = "FAILED"
		}
		fmt.Fprintf(w, "threshold\t%s %s (%s of %d)\n", t.Expression, verdict, t.Measured(), t.Samples)
	}
	fmt.Fprintf(w, "own CPU\t%.0f %% of %.4g processors\n", 100*r.Generator.CPUShare, r.Machine.CPUs)
	if r.Validity.Valid {
		fmt.Fprintf(w, "validity\tvalid\n")
	}
	for _, reason := range r.Validity.Reasons {
		fmt.Fprintf(w, "validity\tINVALID: %s\n", reason)
	}
}

// whyNot prints why the exit status of a run is not 0, if no summary is printed.
func whyNot(w io.Writer, r *result.Run) {
	if r.Checks.Wrong > 0 {
		fmt.Fprintf(w, "loadtest: %d wrong answers\n", r.Checks.Wrong)
	}
	if r.Exit == loadtest.ExitFailed {
		fmt.Fprintf(w, "loadtest: %d requests answered as they should be, %d answers compared with the oracle\n",
			r.Requests.Answered, r.Checks.Compared)
		for _, failure := range result.SortedKeys(r.Requests.Failures) {
			fmt.Fprintf(w, "loadtest: %d requests failed: %s\n", r.Requests.Failures[failure], failure)
		}
	}
	for _, reason := range r.Validity.Reasons {
		fmt.Fprintf(w, "loadtest: INVALID: %s\n", reason)
	}
	for _, t := range r.Thresholds {
		if !t.Pass {
			fmt.Fprintf(w, "loadtest: threshold %s FAILED (%s of %d)\n", t.Expression, t.Measured(), t.Samples)
		}
	}
}

func checks(w io.Writer, r *result.Run) {
	c := &r.Checks
	if c.Checked == 0 {
		return
	}
	fmt.Fprintf(w, "checks\t%d answers, %d distinct, %d wrong\n", c.Checked, c.Distinct, c.Wrong)
	if r.Setup.Oracle {
		fmt.Fprintf(w, "oracle\t%d distinct answers compared, %d could not be; %d snapshots\n", c.Compared,
			c.Uncompared, len(r.Swaps))
		if c.OracleError != "" {
			fmt.Fprintf(w, "oracle\t%s\n", c.OracleError)
		}
	}
	wrongAnswers(w, r)
}

// wrongAnswers prints some examples of each kind of wrong answer.
func wrongAnswers(w io.Writer, r *result.Run) {
	for _, f := range r.Checks.Findings {
		fmt.Fprintf(w, "WRONG\t%s: %d distinct answers\n", f.Kind, f.Count)
		for _, e := range f.Examples[:min(2, len(f.Examples))] {
			fmt.Fprintf(w, "\t%s (status %d, snapshot %s): %s\n", e.Target, e.Status, e.Snapshot, e.Detail)
		}
	}
}

// changes prints a comparison.
func changes(out io.Writer, c *result.Comparison) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for _, n := range c.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	fmt.Fprintf(w, "figure\tA\tB\tchange\t95 %% confidence\tverdict\n")
	for _, ch := range c.Summary() {
		fmt.Fprintf(w, "%s (%s)\t%.4g\t%.4g\t%+.1f %%\t%+.1f to %+.1f %%\t%s\n", ch.Name, ch.Unit, ch.A, ch.B,
			100*ch.Delta, 100*ch.Low, 100*ch.High, ch.Verdict)
	}
}
