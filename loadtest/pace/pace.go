// Package pace says when requests of an open loop are due. It has no clock: a
// schedule is a pure function of its stages, its kind of arrivals and a seed,
// so that a run can be repeated, and tested, moment for moment.
package pace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// MaxRate is the highest rate that a stage may ask for, in requests a second.
const MaxRate = 10_000_000

// Rate is a rate in requests a second. Its text may end in k, a thousand, or M, a million.
type Rate float64

// UnmarshalText reads 500, 5k, 1.5k or 2M, all also with /s at the end.
func (r *Rate) UnmarshalText(b []byte) error {
	text := strings.TrimSuffix(string(b), "/s")
	// As an exponent, so that 4.35k is the number nearest to 4350.
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

// Stage is a stretch of a schedule in which the rate goes in a straight line
// from From to To, in requests a second. A rate of zero is a pause.
type Stage struct {
	Duration time.Duration
	From, To float64
}

// Constant returns a schedule of one stage at one rate.
func Constant(rate float64, d time.Duration) []Stage {
	return []Stage{{Duration: d, From: rate, To: rate}}
}

// ParseStages reads stages as the command line has them, separated by commas:
// DURATION:RATE holds a rate, DURATION:FROM-TO ramps.
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

// Check reports the first stage that no schedule can be made of.
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

// Duration returns how long the stages are together.
func Duration(stages []Stage) time.Duration {
	var d time.Duration
	for _, s := range stages {
		d += s.Duration
	}
	return d
}

// At returns the rate of the stages at a time from their start, in requests a second; 0 after their end.
func At(stages []Stage, at time.Duration) float64 {
	for _, s := range stages {
		if at < s.Duration {
			return s.From + (s.To-s.From)*at.Seconds()/s.Duration.Seconds()
		}
		at -= s.Duration
	}
	return 0
}

// area returns how many requests a stage expects.
func (s Stage) area() float64 { return (s.From + s.To) / 2 * s.Duration.Seconds() }

// reach returns after how many seconds of the stage y requests are expected.
// It solves From·x + k·x²/2 = y, in the form that neither divides by a small
// slope nor subtracts nearly equal numbers.
func (s Stage) reach(y float64) float64 {
	if y <= 0 {
		return 0
	}
	k := (s.To - s.From) / s.Duration.Seconds()
	return 2 * y / (s.From + math.Sqrt(max(0, s.From*s.From+2*k*y)))
}

// Arrivals is how requests lie in time.
type Arrivals string

const (
	// Uniform arrivals keep equal distances.
	Uniform Arrivals = "uniform"
	// Poisson arrivals are independent of each other, as those of many clients
	// are: distances are exponentially distributed.
	Poisson Arrivals = "poisson"
)

// Schedule gives out the due times of a run, in order. It is not safe for
// concurrent use.
type Schedule struct {
	stages  []Stage
	rand    *rand.Rand // nil: uniform
	reached float64    // requests expected up to the next due time
	before  float64    // requests of the stages that are over
	start   time.Duration
}

// New returns the schedule of stages, which Check has passed.
func New(stages []Stage, arrivals Arrivals, seed uint64) *Schedule {
	s := &Schedule{stages: stages}
	if arrivals == Poisson {
		s.rand = rand.New(rand.NewPCG(seed, 0x706163655f706f69))
		s.reached = s.rand.ExpFloat64()
	}
	return s
}

// Next returns when the next request is due, from the start of the run; ok is
// false when there is none left.
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
