// Package pace computes when the requests of an open loop are due. It has no clock. A schedule is a pure
// function of its stages, its arrivals and a seed, so that runs can be repeated and tested exactly.
package pace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// MaxRate is the highest rate of a stage, in requests a second.
const MaxRate = 10_000_000

// Rate is a rate in requests a second. Its text form may end in k for thousand or M for million.
type Rate float64

// UnmarshalText parses a text such as 500, 5k, 1.5k or 2M, optionally followed by /s.
func (r *Rate) UnmarshalText(b []byte) error {
	text := strings.TrimSuffix(string(b), "/s")
	// Parse the suffix as an exponent, so that 4.35k is the number nearest to 4350.
	for unit, exponent := range map[string]string{"k": "e3", "K": "e3", "M": "e6"} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			text = number + exponent
			break
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= math.MaxFloat64) {
		return fmt.Errorf("rate %.40q: want requests a second, such as 500, 5k, 1.5k or 2M", b)
	}
	*r = Rate(v)
	return nil
}

// Stage is a part of a schedule in which the rate changes linearly from From to To, in requests a second. A
// rate of zero is a pause.
type Stage struct {
	Duration time.Duration
	From, To float64
}

// Constant returns a schedule that consists of one stage at one rate.
func Constant(rate float64, d time.Duration) []Stage {
	return []Stage{{Duration: d, From: rate, To: rate}}
}

// ParseStages parses stages in the syntax of the command line, separated by commas. DURATION:RATE is a
// constant rate, and DURATION:FROM-TO is a ramp.
func ParseStages(s string) ([]Stage, error) {
	var stages []Stage
	for part := range strings.SplitSeq(s, ",") {
		bad := func(why string) error {
			return fmt.Errorf(
				"stage %q: %s; a stage is DURATION:RATE or DURATION:FROM-TO, such as 10s:500 or 30s:1k-20k", part, why)
		}
		duration, rates, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			return nil, bad("no colon")
		}
		d, err := time.ParseDuration(duration)
		if err != nil {
			return nil, bad("not a duration")
		}
		from, to, ramp := strings.Cut(rates, "-")
		if !ramp {
			to = from
		}
		st := Stage{Duration: d}
		for _, r := range []struct {
			text string
			to   *float64
		}{{from, &st.From}, {to, &st.To}} {
			if err := (*Rate)(r.to).UnmarshalText([]byte(r.text)); err != nil {
				return nil, bad(err.Error())
			}
		}
		stages = append(stages, st)
	}
	return stages, Check(stages)
}

// Check returns an error about the first stage that is invalid.
func Check(stages []Stage) error {
	any := false
	for _, s := range stages {
		switch {
		case s.Duration <= 0 || s.Duration > 1000*time.Hour:
			return fmt.Errorf("stage of %v: a duration is above 0 and at most 1000h", s.Duration)
		case !(s.From >= 0 && s.From <= MaxRate && s.To >= 0 && s.To <= MaxRate): // NaN too
			return fmt.Errorf("stage of rate %v to %v: a rate is 0 to %d requests a second", s.From, s.To, MaxRate)
		}
		any = any || s.area() > 0
	}
	if !any {
		return fmt.Errorf("no stage with a rate above 0")
	}
	return nil
}

// FormatStages is the inverse of ParseStages.
func FormatStages(stages []Stage) string {
	var parts []string
	for _, s := range stages {
		rate := strconv.FormatFloat(s.From, 'f', -1, 64)
		if s.To != s.From {
			rate += "-" + strconv.FormatFloat(s.To, 'f', -1, 64)
		}
		parts = append(parts, s.Duration.String()+":"+rate)
	}
	return strings.Join(parts, ",")
}

// Duration returns the total duration of the stages.
func Duration(stages []Stage) time.Duration {
	var d time.Duration
	for _, s := range stages {
		d += s.Duration
	}
	return d
}

// At returns the rate at a time since the start of the stages, in requests a second. It is 0 after their end.
func At(stages []Stage, at time.Duration) float64 {
	for _, s := range stages {
		if at < s.Duration {
			return s.From + (s.To-s.From)*at.Seconds()/s.Duration.Seconds()
		}
		at -= s.Duration
	}
	return 0
}

// area returns the expected number of requests in a stage.
func (s Stage) area() float64 { return (s.From + s.To) / 2 * s.Duration.Seconds() }

// reach returns the number of seconds into the stage after which y requests are expected. It solves From·x +
// k·x²/2 = y in a form that neither divides by a small slope nor subtracts nearly equal numbers.
func (s Stage) reach(y float64) float64 {
	if y <= 0 {
		return 0
	}
	k := (s.To - s.From) / s.Duration.Seconds()
	return 2 * y / (s.From + math.Sqrt(max(0, s.From*s.From+2*k*y)))
}

// Arrivals is the distribution of requests over time.
type Arrivals string

const (
	// Uniform arrivals are equally spaced.
	Uniform Arrivals = "uniform"
	// Poisson arrivals are independent of each other, like those of many clients. The times between them are
	// exponentially distributed.
	Poisson Arrivals = "poisson"
)

// Schedule returns the due times of a run, in order. It must not be used concurrently.
type Schedule struct {
	stages  []Stage
	rand    *rand.Rand // nil for uniform arrivals
	reached float64    // the expected number of requests up to the next due time
	before  float64    // the expected number of requests in the stages that have ended
	start   time.Duration
}

// New returns the schedule of stages, for which Check must have returned nil.
func New(stages []Stage, arrivals Arrivals, seed uint64) *Schedule {
	s := &Schedule{stages: stages}
	if arrivals == Poisson {
		s.rand = rand.New(rand.NewPCG(seed, 0x706163655f706f69))
		s.reached = s.rand.ExpFloat64()
	}
	return s
}

// Next returns the time from the start of the run at which the next request is due. ok is false if there are
// no more requests.
func (s *Schedule) Next() (due time.Duration, ok bool) {
	for len(s.stages) > 0 {
		st := s.stages[0]
		y := s.reached - s.before
		if area := st.area(); y >= area {
			s.before += area
			s.start += st.Duration
			s.stages = s.stages[1:]
			continue
		}
		due = s.start + time.Duration(st.reach(y)*float64(time.Second))
		if s.rand == nil {
			s.reached++
		} else {
			s.reached += s.rand.ExpFloat64()
		}
		return due, true
	}
	return 0, false
}
