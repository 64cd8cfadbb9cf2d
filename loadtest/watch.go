package loadtest

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/internal/logs"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/pace"
	"example.com/marketdata/loadtest/result"
)

// Progress is the state of a run at the end of a second.
type Progress struct {
	*engine.Interval
	// DueRate is the rate of the schedule at the end of the interval, in requests a second. It is 0 in a
	// closed loop.
	DueRate float64
	Wrong   uint64        // the number of wrong answers found so far
	Left    time.Duration // the time until the last request is due
}

const (
	// abortWindow is the number of seconds over which Load.AbortOn is evaluated: the most recent ones after
	// the warm-up.
	abortWindow = 5
	// Options.Warn is called if more than these shares of a second's requests are answered with 429, or fail.
	warnLimited = 0.1
	warnFailed  = 0.5
)

// watch observes a run in progress.
type watch struct {
	tester  *Tester
	load    *Load
	checker *check.Checker
	stop    context.CancelFunc // ends the load
	recent  []*engine.Interval
	aborted string // the reason, or ""
	err     error
}

func (w *watch) tick(iv *engine.Interval) {
	p := &Progress{Interval: iv, Wrong: w.checker.Wrong(), Left: w.load.Duration - iv.End}
	if stages := w.load.Stages; len(stages) > 0 {
		p.DueRate, p.Left = pace.At(stages, iv.End), pace.Duration(stages)-iv.End
	}
	p.Left = max(0, p.Left)
	for _, c := range iv.Classes {
		p.Wrong += c.Failures[engine.FailWrong]
	}
	if text := w.trouble(p); text != "" && w.tester.warned.CompareAndSwap(false, true) {
		w.tester.opt.Warn(text)
	}
	if w.load.Tick != nil {
		w.load.Tick(p)
	}
	if iv.Start >= w.load.Warmup {
		w.recent = append(w.recent, iv)
		w.recent = w.recent[max(0, len(w.recent)-abortWindow):]
	}
	if len(w.recent) < abortWindow || w.aborted != "" {
		return
	}
	for _, a := range w.load.AbortOn {
		th, err := a.Recent(w.recent, p.Wrong)
		if err != nil {
			w.err = err
		}
		if th.Pass {
			w.aborted = fmt.Sprintf("%s: %s in the last %d s", th.Expression, th.Measured(), abortWindow)
			w.stop()
			return
		}
	}
}

// trouble describes why most requests of the last second failed, or why many were refused by a rate limit. It
// returns "" if neither is the case.
func (w *watch) trouble(p *Progress) string {
	share := func(n uint64) float64 { return float64(n) / max(1, float64(p.Sent)) }
	if s := share(p.Limited); s > warnLimited {
		return fmt.Sprintf("%.0f %% of the answers are 429: %s", 100*s, w.limit())
	}
	if s := share(p.Failed); s > warnFailed && p.Start >= w.load.Warmup {
		counts := map[string]uint64{}
		for _, c := range p.Classes {
			for f, n := range c.Failures {
				counts[string(f)] += n
			}
			for status, n := range c.Statuses {
				if status >= 400 {
					counts[strconv.Itoa(status)] += n
				}
			}
		}
		delete(counts, string(engine.FailStatus)) // the statuses say more
		keys := result.SortedKeys(counts)
		why := strings.Join(keys[:min(3, len(keys))], ", ")
		if p.Err != nil && len(keys) == 1 {
			why = logs.Text(p.Err)
		}
		return fmt.Sprintf("%.0f %% of the requests fail: %s", 100*s, why)
	}
	return ""
}

// policy matches the end of a RateLimit-Policy header: the burst of a limit, and the number of seconds in
// which its bucket fills.
var policy = regexp.MustCompile(`;q=(\d{1,9});w=([1-9]\d{0,8})$`)

// limit describes the rate limit that the requests exceed, and what to do.
func (w *watch) limit() string {
	keys := slices.Compact(slices.Sorted(slices.Values(w.tester.opt.Keys)))
	whose, ask := "an address without a key", ""
	if n := len(keys); n > 0 {
		whose = "a key"
		ask = fmt.Sprintf(" with %d", n)
		if ask += " keys"; n == 1 {
			ask = " with one"
		}
	}
	asked, most := "as much as the service answers", 0.0
	for _, s := range w.load.Stages {
		most = max(most, s.From, s.To)
		asked = fmt.Sprintf("%s/s", perSecond(most))
	}
	may, needed := "has a limit", "N"
	if m := policy.FindStringSubmatch(w.checker.Policy()); m != nil {
		burst, _ := strconv.ParseFloat(m[1], 64) // digits are always valid
		window, _ := strconv.ParseFloat(m[2], 64)
		may = fmt.Sprintf("may ask for about %s/s", perSecond(burst/window))
		if most > 0 && burst > 0 {
			needed = fmt.Sprintf("%.0f", math.Ceil(most*window/burst))
		}
	}
	return fmt.Sprintf("%s %s at each edge, and you ask for %s%s; give more keys (builder keys create --count %s --out "+
		"FILE, then --keys-file FILE) or one with a higher --rate", whose, may, asked, ask, needed)
}
