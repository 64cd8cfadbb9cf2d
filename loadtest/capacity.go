package loadtest

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"example.com/marketdata/loadtest/pace"
	"example.com/marketdata/loadtest/result"
)

// Search says how to look for the highest rate that keeps an objective.
type Search struct {
	// Objective is what must hold.
	Objective []*result.Assertion
	// Start is the first rate that is tried, Max the highest, in requests a
	// second. The rate is doubled until it is too much, and then halved in
	// between until it is known to Precision (0.05: to 5 %).
	Start, Max, Precision float64
	// Step is how long a rate is held to be judged, Confirm how long the rate
	// that was found is held once more. A rate that does not hold then is
	// lowered by Precision and tried again, a few times.
	Step, Confirm time.Duration
	// Load is how rates are tried; its stages are not used.
	Load Load
	// Tried is told of each try.
	Tried func(Try)
}

// Try is one rate that was tried.
type Try struct {
	Rate float64 `json:"rate"`
	// Held: the objective was kept, by a valid run.
	Held bool `json:"held"`
	// Limited: the load tester, not the service, could do no more.
	Limited bool        `json:"limited"`
	Why     string      `json:"why"`
	Run     *result.Run `json:"-"`
}

// Capacity is what a search found.
type Capacity struct {
	// Rate is the highest rate that held, in requests a second over all URLs; 0
	// when none did.
	Rate float64 `json:"rate"`
	// AtLeast: the search ended before the service's limit, at Search.Max or
	// where the load tester could do no more.
	AtLeast bool  `json:"at_least"`
	Nodes   int   `json:"nodes"` // URLs that were loaded
	Tries   []Try `json:"tries"`
}

const (
	maxConfirms  = 4
	maxDisturbed = 3 // tries of a rate at which the load tester was the limit
)

// Capacity searches for the highest rate that keeps the objective. When ctx is
// done it returns what is known so far, and ctx's error.
func (t *Tester) Capacity(ctx context.Context, s Search) (*Capacity, error) {
	if len(s.Objective) == 0 || !(s.Start > 0) || !(s.Max >= s.Start) || !(s.Precision > 0 && s.Precision < 1) || s.Step <= 0 {
		return nil, usage("a search needs an objective, a start rate above 0, a maximum above it, a precision between 0 and 1 and a step above 0")
	}
	c := &Capacity{Nodes: len(t.endpoints)}
	err := c.search(&s, func(rate float64, d time.Duration) (Try, error) {
		load := s.Load
		load.Stages, load.Assertions, load.Duration = pace.Constant(rate, d), s.Objective, 0
		run, err := t.Run(ctx, load)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Try{}, err
		}
		return judge(rate, run), nil
	})
	return c, err
}

// search looks for the rate; hold tries one.
func (c *Capacity) search(s *Search, hold func(rate float64, d time.Duration) (Try, error)) error {
	try := func(rate float64, d time.Duration) (Try, error) {
		for n := 1; ; n++ {
			t, err := hold(rate, d)
			if err != nil {
				return t, err
			}
			c.Tries = append(c.Tries, t)
			if s.Tried != nil {
				s.Tried(t)
			}
			// The load tester may have been disturbed: that is no verdict on
			// the service yet.
			if !t.Limited || n == maxDisturbed {
				return t, nil
			}
		}
	}
	var high float64 // the lowest rate that was too much; 0: none yet
	for rate := s.Start; ; {
		last, err := try(rate, s.Step)
		if err != nil {
			return err
		}
		if last.Held {
			c.Rate = rate
		} else {
			high = rate
			c.AtLeast = last.Limited
		}
		next := 0.0
		switch {
		case high == 0 && rate >= s.Max:
			c.AtLeast = true
		case high == 0:
			next = min(2*rate, s.Max)
		case c.Rate == 0 && high > 1:
			next = high / 2
		case c.Rate > 0 && high/c.Rate > 1+s.Precision:
			next = math.Sqrt(c.Rate * high)
		}
		if next == 0 {
			break
		}
		rate = round3(next)
	}
	for n := 0; c.Rate > 0 && s.Confirm > 0 && n < maxConfirms; n++ {
		last, err := try(c.Rate, s.Confirm)
		if err != nil {
			return err
		}
		if last.Held {
			return nil
		}
		c.AtLeast = c.AtLeast || last.Limited
		c.Rate = round3(c.Rate * (1 - s.Precision))
	}
	return nil
}

// round3 keeps three significant digits.
func round3(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return r
}

// judge says whether a run kept the objective.
func judge(rate float64, r *result.Run) Try {
	t := Try{Rate: rate, Run: r, Held: true, Why: "held"}
	for _, th := range r.Thresholds {
		if !th.Pass {
			t.Held, t.Why = false, th.Expression+" failed: nothing measured"
			if th.Value != nil {
				t.Why = fmt.Sprintf("%s failed: %.4g", th.Expression, *th.Value)
			}
		}
	}
	switch {
	case r.Checks.Wrong > 0:
		t.Held, t.Why = false, fmt.Sprintf("%d wrong answers", r.Checks.Wrong)
	case !r.Validity.Valid:
		t.Held, t.Limited, t.Why = false, r.Limited(), r.Validity.Reasons[0]
	}
	return t
}

// NodesFor returns how many nodes a traffic of so many requests a second needs
// when each is to keep a share of its capacity free, and one of them may be
// away: at least two.
func (c *Capacity) NodesFor(traffic, headroom float64) int {
	perNode := c.Rate / float64(c.Nodes) * (1 - headroom)
	if !(perNode > 0) {
		return 0
	}
	return max(1, int(math.Ceil(traffic/perNode-1e-9))) + 1
}
