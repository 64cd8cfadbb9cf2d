package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"example.com/marketdata/loadtest/pace"
	"example.com/marketdata/loadtest/result"
)

// Search configures the search for the highest rate at which the thresholds hold
// (README.md, "Capacity").
type Search struct {
	// Thresholds must hold.
	Thresholds []*result.Assertion
	// Step is how long a rate is held to be judged, after a warm-up of a fifth
	// of it.
	Step time.Duration
	// Load is how rates are tried; its stages and assertions are not used, and
	// its Timeout is Step at most.
	Load Load
	// Tried is called after each step.
	Tried func(Try)
}

// Verdict is the outcome of a step.
type Verdict string

// The verdicts of a step. An invalid step proves nothing about the service.
const (
	Held    Verdict = "held"
	Failed  Verdict = "failed"
	Invalid Verdict = "invalid"
)

// Try is one step of a search.
type Try struct {
	// Connections is how many sent in a closed loop; 0: an open one.
	Connections int `json:"connections,omitempty"`
	// Rate is in requests a second: those asked for, in a closed loop those
	// that were answered as they should be.
	Rate    float64     `json:"rate"`
	Verdict Verdict     `json:"verdict"`
	Why     string      `json:"why"`
	Run     *result.Run `json:"-"`
}

// Capacity is the result of a search.
type Capacity struct {
	// Found: Rate held twice, or once after up to a tenth more had held once, and
	// is at least 0.9 of Limit.
	Found bool `json:"found"`
	// Why is the reason when nothing was found.
	Why string `json:"why,omitempty"`
	// Rate is in requests a second over all URLs. Without Found it is no
	// capacity, only the last rate that held; 0: none did.
	Rate float64 `json:"rate"`
	// Limit is the lowest rate at which the service failed, or Closed.
	Limit float64 `json:"limit"`
	// Closed is the most that the closed runs were answered, in requests a
	// second.
	Closed float64 `json:"closed"`
	Nodes  int     `json:"nodes"` // URLs that were loaded
	Tries  []Try   `json:"tries"`
}

const (
	closedConnections = 64   // of the first closed run
	closedGain        = 0.1  // of a closed run over the one before it; below, the service is saturated
	lightShare        = 0.1  // of the closed rate, at which thresholds hold if they ever do
	minRequests       = 200  // at the closed rate, in a step, for it to say anything
	stepPrecision     = 0.05 // to which rates are tried
	wantPrecision     = 0.1  // to which the result must be known
	maxNoise          = 2    // times that what held before may not hold again
	searchSteps       = 60   // as many times Step is how long a search takes at most
	firstSteps        = 20   // and on a disturbed machine before more than the light rate has held
)

// Capacity searches for the highest rate at which the thresholds hold. When ctx
// is done it returns what is known so far, and ctx's error. A search without
// result is no error: see Capacity.Found.
func (t *Tester) Capacity(ctx context.Context, s Search) (*Capacity, error) {
	if len(s.Thresholds) == 0 || s.Step <= 0 {
		return nil, usage("a search needs thresholds and a step above 0")
	}
	c := &Capacity{Nodes: len(t.endpoints)}
	start := time.Now()
	sr := &searcher{
		Capacity: c, step: s.Step, most: s.Load.Connections, elapsed: func() time.Duration { return time.Since(start) }}
	sr.run = func(rate float64, connections int) (Try, error) {
		load := s.Load
		load.Timeout = min(load.Timeout, s.Step)
		load.Warmup = s.Step / 5
		load.Assertions = s.Thresholds
		length := load.Warmup + s.Step
		if connections > 0 {
			load.Stages, load.Duration, load.Connections = nil, length, connections
		} else {
			rate = math.Round(10*rate) / 10
			load.Stages = pace.Constant(rate, length)
		}
		run, err := t.Run(ctx, load)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return Try{}, err
		}
		try := judge(rate, connections, run, s.Thresholds)
		if s.Tried != nil {
			s.Tried(try)
		}
		return try, nil
	}
	return c, sr.search()
}

// judge returns a step's verdict.
//
// In the open loop a step that held is believed even when the load tester was
// late: a request that arrives later is never answered earlier, so its latency
// from due is at most overstated. Its latency from sent is not. A step that
// failed while the load tester was late is not believed.
func judge(rate float64, connections int, r *result.Run, thresholds []*result.Assertion) Try {
	t := Try{Rate: rate, Connections: connections, Run: r, Verdict: Held}
	fail := func(v Verdict, format string, args ...any) Try {
		t.Verdict, t.Why = v, fmt.Sprintf(format, args...)
		return t
	}
	if connections > 0 {
		t.Rate = r.Rate.Answered
	}
	q := &r.Requests
	limited := q.Statuses["429"]
	switch {
	case r.Checks.Wrong > 0:
		return fail(Failed, "%d wrong answers", r.Checks.Wrong)
	case limited*1000 > q.Asked:
		return fail(Failed, "%.3g %% of the answers were 429: the key or the address is limited",
			100*float64(limited)/float64(q.Asked))
	case q.Answered == 0:
		return fail(Failed, "no request was answered as it should be (%s)", counts(q.Failures))
	case connections > 0:
		if !r.Validity.Valid {
			return fail(Invalid, "%s", r.Validity.Reasons[0])
		}
		return t
	}
	late := !r.Validity.Valid && r.Limited()
	for i, th := range r.Thresholds {
		switch excused := late && (th.Unit != "share" || q.Unsent > 0); { // errors do not come of it
		case !th.Pass && excused:
			return fail(Invalid, "%s was %s, but %s", th.Expression, th.Measured(), r.Validity.Reasons[0])
		case !th.Pass:
			return fail(Failed, "%s was %s", th.Expression, th.Measured())
		case late && thresholds[i].FromSent():
			return fail(Invalid, "%s", r.Validity.Reasons[0])
		}
	}
	if !r.KeptUp() {
		if late {
			return fail(Invalid, "%s", r.Validity.Reasons[0])
		}
		return fail(Failed, "%s", r.Validity.Reasons[0])
	}
	return t
}

func counts(m map[string]uint64) string {
	var parts []string
	for _, k := range result.SortedKeys(m) {
		parts = append(parts, fmt.Sprintf("%s: %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

// searcher is the search without the load: run makes a step.
type searcher struct {
	*Capacity
	step    time.Duration
	most    int // connections
	run     func(rate float64, connections int) (Try, error)
	elapsed func() time.Duration
	longest time.Duration // that a step took
	light   float64       // the rate that is tried first in the open loop
	failed  Try           // the last that did not hold
	// disturbed: a step was invalid, or held when it was repeated.
	disturbed bool
	stopped   bool
}

// stop ends the search without a result.
func (s *searcher) stop(format string, args ...any) {
	s.stopped, s.Why = true, fmt.Sprintf(format, args...)
}

// try makes a step, and once more when it did not hold: noise makes a service
// look slower, not faster. So it held if it did once, and has failed only if it
// did twice.
func (s *searcher) try(rate float64, connections int) (Try, error) {
	var best Try
	for n := range 2 {
		start := s.elapsed()
		switch {
		case start+s.longest > searchSteps*s.step:
			s.stop("%v were not enough; %s requests/s held, and the service may do up to %s", searchSteps*s.step,
				perSecond(s.Rate), perSecond(s.Closed))
			return best, nil
		case start+s.longest > firstSteps*s.step && s.disturbed && s.Rate <= s.light:
			s.stop("this machine is too busy: in %v nothing above %s requests/s held; at %s %s", firstSteps*s.step,
				perSecond(s.light), perSecond(s.failed.Rate), s.failed.Why)
			return best, nil
		}
		t, err := s.run(rate, connections)
		if err != nil {
			return t, err
		}
		s.longest = max(s.longest, s.elapsed()-start)
		s.Tries = append(s.Tries, t)
		if t.Verdict != Held {
			s.failed = t
		}
		s.disturbed = s.disturbed || t.Verdict == Invalid || t.Verdict == Held && n > 0
		if t.Run != nil && t.Run.Checks.Wrong > 0 {
			s.stop("%s", t.Why)
			return t, nil
		}
		if n == 0 || best.Verdict == Failed || t.Verdict == Held {
			best = t
		}
		if t.Verdict == Held {
			break
		}
	}
	return best, nil
}

func (s *searcher) search() error {
	if err := s.saturate(); err != nil || s.stopped {
		return err
	}
	if s.Closed*s.step.Seconds() < minRequests {
		s.stop("a closed run was answered %s requests/s, too few to judge in a step of %v: try --step %v", perSecond(s.Closed),
			s.step,
			time.Duration(minRequests/s.Closed*float64(time.Second)).Round(time.Second))
		return nil
	}
	s.light = lightShare * s.Closed
	t, err := s.try(s.light, 0)
	if err != nil || s.stopped {
		return err
	}
	s.Limit = s.Closed
	if t.Verdict != Held {
		s.stop("already at %s requests/s, a tenth of what a closed run was answered: %s", perSecond(s.light), t.Why)
		return nil
	}
	// The closed rate is tried first, then down from it in growing steps until
	// one holds, then between. What held at last is tried again, and while it
	// does not, a little less.
	high, gap := s.Closed, 0.0
	s.Rate = s.light
	for noise := 0; ; {
		again := noise > 0 || high <= (1+stepPrecision)*s.Rate
		rate := s.Rate
		if !again {
			rate = max(math.Sqrt(s.Rate*high), (1-gap)*high)
		}
		t, err := s.try(rate, 0)
		if err != nil || s.stopped {
			return err
		}
		switch {
		case t.Verdict == Held && again:
			if s.Found = s.Rate >= (1-wantPrecision)*s.Limit; !s.Found {
				s.stop("%s requests/s held, and the service may do up to %s: between them the load tester itself was the limit",
					perSecond(s.Rate), perSecond(s.Limit))
			}
			return nil
		case t.Verdict == Held:
			s.Rate = rate
			continue
		case t.Verdict == Failed:
			s.Limit = min(s.Limit, rate)
		case rate < (1-wantPrecision+1e-9)*s.Limit:
			s.stop("at %s requests/s, of %s that the service may do, the load tester itself was the limit: %s", perSecond(rate),
				perSecond(s.Limit), t.Why)
			return nil
		}
		high, gap = rate, max(wantPrecision, 2*gap)
		if again {
			if noise++; noise > maxNoise {
				s.stop("this machine is too noisy: more than %s requests/s held, and then that did not: %s",
					perSecond(rate), t.Why)
				return nil
			}
			s.Rate = (1 - stepPrecision) * rate
		}
	}
}

// saturate looks for the closed rate: closed runs with more and more
// connections until they are answered no more for it. An open loop over as many
// connections cannot be answered more.
func (s *searcher) saturate() error {
	for n := min(closedConnections, s.most); ; n = min(4*n, s.most) {
		t, err := s.try(0, n)
		if err != nil || s.stopped {
			return err
		}
		if t.Verdict != Held {
			s.stop("in a closed run over %d connections: %s", n, t.Why)
			return nil
		}
		saturated := t.Rate < (1+closedGain)*s.Closed
		s.Closed = max(s.Closed, t.Rate)
		if saturated || n == s.most {
			return nil
		}
	}
}

// NodesFor returns how many nodes a traffic of so many requests a second needs
// when each is to keep a share of its capacity free, and one of them may be
// away: at least two, or 0 when no capacity was found.
func (c *Capacity) NodesFor(traffic, headroom float64) int {
	perNode := c.Rate / float64(c.Nodes) * (1 - headroom)
	if !c.Found || !(perNode > 0) {
		return 0
	}
	return max(1, int(math.Ceil(traffic/perNode-1e-9))) + 1
}

// Exit returns the exit status of a search.
func (c *Capacity) Exit() int {
	for _, t := range c.Tries {
		if t.Run.Checks.Wrong > 0 {
			return ExitWrong
		}
	}
	if !c.Found {
		return ExitInvalid
	}
	return ExitOK
}

// String describes the result.
func (c *Capacity) String() string {
	if !c.Found {
		return "No capacity was found: " + c.Why + "."
	}
	failed := ""
	if c.Limit < c.Closed {
		failed = perSecond(c.Limit) + "/s was too much, and "
	}
	return fmt.Sprintf("Capacity: %s requests/s over %d nodes, %s each; %sa closed run was answered %s/s.",
		perSecond(c.Rate), c.Nodes, perSecond(c.Rate/float64(c.Nodes)), failed, perSecond(c.Closed))
}

// perSecond writes a rate to three digits at least.
func perSecond(rate float64) string {
	if rate < 100 {
		return fmt.Sprintf("%.3g", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
