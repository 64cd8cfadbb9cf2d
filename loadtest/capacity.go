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

// Search configures the search for the highest rate at which the thresholds hold (README.md, "Capacity").
type Search struct {
	// Thresholds are the conditions that must hold.
	Thresholds []*result.Assertion
	// Step is how long each rate is measured, after a warm-up of a fifth of that time.
	Step time.Duration
	// Load is the load of each step. The search sets its Stages, Duration, Warmup and Assertions, and limits
	// its Timeout to Step.
	Load Load
	// Tried is called after each step.
	Tried func(Try)
}

// Verdict is the outcome of a step.
type Verdict string

// The verdicts of a step. An invalid step says nothing about the service.
const (
	Held    Verdict = "held"
	Failed  Verdict = "failed"
	Invalid Verdict = "invalid"
)

// Try is a step of a search.
type Try struct {
	// Connections is the number of connections in a closed loop, or 0 in an open loop.
	Connections int `json:"connections,omitempty"`
	// Rate is in requests a second. In an open loop it is the requested rate, in a closed loop the rate of
	// correct answers.
	Rate    float64     `json:"rate"`
	Verdict Verdict     `json:"verdict"`
	Why     string      `json:"why"`
	Run     *result.Run `json:"-"`
}

// Capacity is the result of a search.
type Capacity struct {
	// Found reports whether a capacity was found. In that case, Rate is at least 0.9 of Limit. Either Rate
	// held twice, or a slightly higher rate held at first but not when it was repeated, and then Rate held.
	Found bool `json:"found"`
	// Why is the reason why no capacity was found.
	Why string `json:"why,omitempty"`
	// Rate is in requests per second over all URLs. If Found is false, it is only the last rate that held,
	// or 0.
	Rate float64 `json:"rate"`
	// Limit is the lowest rate at which the service failed, or Closed if it never failed.
	Limit float64 `json:"limit"`
	// Closed is the highest rate of answers in the closed runs, in requests a second.
	Closed float64 `json:"closed"`
	Nodes  int     `json:"nodes"` // the number of URLs
	Tries  []Try   `json:"tries"`
}

const (
	closedConnections = 64   // the number of connections in the first closed run
	closedGain        = 0.1  // the service is saturated if a closed run gains less than this share over the last one
	lightShare        = 0.1  // the first rate of the open loop, as a share of the closed rate
	minRequests       = 200  // the minimum number of requests in a step at the closed rate
	stepPrecision     = 0.05 // the precision of the rates that are tried
	wantPrecision     = 0.1  // the required precision of the result
	maxNoise          = 2    // how often a rate that held may fail when it is repeated
	searchSteps       = 60   // the longest search, as a multiple of Step
	firstSteps        = 20   // the same for a busy machine on which nothing above the light rate has held
)

// Capacity searches for the highest rate at which the thresholds hold. If ctx is done, it returns what is
// known so far, and the error of ctx. A search without a result is not an error; see Capacity.Found.
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

// judge returns the verdict on a step.
//
// In an open loop, a step that held counts even if the load tester was late. If a request is sent late, its
// answer cannot come earlier, so the latency from the due time can only be overstated. The latency from
// sending may be understated. A step that failed while the load tester was late does not count.
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
		switch excused := late && (th.Unit != "share" || q.Unsent > 0); { // errors do not result from lateness
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

// searcher performs a search. It sends no requests itself; run performs a step.
type searcher struct {
	*Capacity
	step    time.Duration
	most    int // the maximum number of connections of a step
	run     func(rate float64, connections int) (Try, error)
	elapsed func() time.Duration
	longest time.Duration // the longest step
	light   float64       // the first rate in the open loop
	failed  Try           // the last step that did not hold
	// disturbed reports whether a step was invalid, or held only when it was repeated.
	disturbed bool
	stopped   bool
}

// stop ends the search without a result.
func (s *searcher) stop(format string, args ...any) {
	s.stopped, s.Why = true, fmt.Sprintf(format, args...)
}

// try performs a step, and repeats it if it did not hold. Noise makes a service look slower, never faster, so
// one success is enough, but a failure counts only if it is repeated.
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
	// Try the closed rate first, then lower rates in growing steps until one holds, and then rates between
	// the last two. Finally repeat the rate that held, and lower it slightly as long as it fails.
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

// saturate finds the closed rate, which is the highest rate of answers in a closed loop. It performs closed
// runs with more and more connections until the rate no longer rises. An open loop over as many connections
// cannot get more answers.
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

// NodesFor returns the number of nodes that the given traffic (in requests a second) needs if one node may
// fail. headroom is the share of each node's capacity that must stay free. The result is at least two, or 0 if
// no capacity was found.
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

// perSecond formats a rate with at least three significant digits, except for trailing zeros.
func perSecond(rate float64) string {
	if rate < 100 {
		return fmt.Sprintf("%.3g", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
