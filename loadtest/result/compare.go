package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"example.com/marketdata/loadtest/engine"
	"github.com/HdrHistogram/hdrhistogram-go"
)

// Comparison describes the changes from run A to run B.
type Comparison struct {
	A, B    *Run
	Changes []Change
	// Notes are remarks that readers should consider before they trust the changes.
	Notes []string
	// Regression reports whether a figure got worse by more than the tolerance.
	Regression bool
}

// Change describes the change in a figure.
type Change struct {
	Name string
	Unit string // ms, requests/s or % (of requests)
	A, B float64
	// Delta is the relative change, B/A − 1. For errors it is the difference, as a share of the requests. Low
	// and High are the bounds of its 95% confidence interval.
	Delta, Low, High float64
	Verdict          Verdict
}

// Verdict is the meaning of a change.
type Verdict string

const (
	Worse   Verdict = "worse"   // beyond the tolerance, and not by chance
	Better  Verdict = "better"  // likewise
	Same    Verdict = "same"    // within the tolerance
	Unclear Verdict = "unclear" // beyond the tolerance, but possibly by chance
)

const (
	// parts is the number of parts of equal length into which Compare divides a run. A run with fewer than
	// minParts points is too short for a confidence interval.
	parts    = 10
	minParts = 5
	// deviations is half the width of the confidence interval, in standard errors. With ten parts in each
	// run, this gives a confidence of 95% (Student's t with 18 degrees of freedom).
	deviations = 2.1
	// errorTolerance is the acceptable increase in the share of failed requests.
	errorTolerance = 0.001
)

// figure is a figure of a run.
type figure struct {
	name, unit string
	quantile   float64 // 0 if it is not a quantile
	up         float64 // +1 if more is worse, −1 if less is worse
	of         func(s *sample) float64
}

var figures = []figure{
	{name: "p50", unit: "ms", quantile: 50, up: 1},
	{name: "p90", unit: "ms", quantile: 90, up: 1},
	{name: "p99", unit: "ms", quantile: 99, up: 1},
	{name: "p99.9", unit: "ms", quantile: 99.9, up: 1},
	{name: "answered", unit: "requests/s", up: -1,
		of: func(s *sample) float64 { return s.answered / max(s.seconds, 1e-9) }},
	{name: "errors", unit: "%", up: 1, of: func(s *sample) float64 { return s.failed / max(s.answered+s.failed, 1) }},
}

// Compare compares run b with run a. A change for the worse by more than the tolerance (a share; 0.05 means
// 5%) is a regression if its confidence interval does not contain 0.
//
// For the interval, Compare divides each run into ten parts of equal length. The more a figure varies between
// the parts, the wider the interval is. So the interval covers variation within the runs, but not between
// runs. To see the latter, perform each run several times.
func Compare(a, b *Run, tolerance float64) (*Comparison, error) {
	c := &Comparison{A: a, B: b}
	partsA, err := divide(a)
	if err != nil {
		return nil, err
	}
	partsB, err := divide(b)
	if err != nil {
		return nil, err
	}
	short := min(len(partsA), len(partsB)) < minParts
	c.notes(short)
	wholeA, wholeB := merge(partsA), merge(partsB)
	for _, f := range figures {
		if f.quantile > 0 &&
			float64(min(wholeA.due.TotalCount(), wholeB.due.TotalCount())) < 10/(1-f.quantile/100) {
			continue // too few samples beyond the quantile
		}
		change := Change{Name: f.name, Unit: f.unit, A: f.value(wholeA), B: f.value(wholeB)}
		change.Delta = f.delta(change.A, change.B)
		change.Low, change.High = change.Delta, change.Delta
		if !short {
			wide := deviations * f.deltaError(change.Delta, partsA, partsB)
			change.Low, change.High = change.Delta-wide, change.Delta+wide
		}
		change.judge(f, tolerance)
		c.Regression = c.Regression || change.Verdict == Worse
		if f.unit == "%" {
			change.A, change.B = 100*change.A, 100*change.B
		}
		c.Changes = append(c.Changes, change)
	}
	return c, nil
}

func (ch *Change) judge(f figure, tolerance float64) {
	if f.name == "errors" {
		tolerance = errorTolerance
	}
	switch worse := ch.Delta * f.up; {
	case math.Abs(worse) <= tolerance:
		ch.Verdict = Same
	case ch.Low <= 0 && ch.High >= 0:
		ch.Verdict = Unclear
	case worse > 0:
		ch.Verdict = Worse
	default:
		ch.Verdict = Better
	}
}

// delta returns the change from a to b: the difference for errors, and the relative change for all others.
func (f *figure) delta(a, b float64) float64 {
	if f.name == "errors" {
		return b - a
	}
	if a == 0 {
		if b == 0 {
			return 0
		}
		return 1
	}
	return b/a - 1
}

// deltaError returns the standard error of a delta.
func (f *figure) deltaError(delta float64, partsA, partsB []*sample) float64 {
	meanA, varianceA := f.spread(partsA)
	meanB, varianceB := f.spread(partsB)
	if f.name == "errors" {
		return math.Sqrt(varianceA + varianceB)
	}
	if meanA == 0 || meanB == 0 {
		return 0
	}
	return (delta + 1) * math.Sqrt(varianceA/(meanA*meanA)+varianceB/(meanB*meanB))
}

func (c *Comparison) notes(short bool) {
	add := func(format string, args ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, args...)) }
	for _, s := range []struct {
		name string
		run  *Run
	}{{"A", c.A}, {"B", c.B}} {
		if !s.run.Validity.Valid {
			add("run %s is INVALID: %s", s.name, s.run.Validity.Reasons[0])
		}
		if s.run.Interrupted {
			add("run %s was interrupted", s.name)
		}
	}
	if short {
		add("a run has fewer than %d points: too short for a confidence, so changes are taken as they are", minParts)
	}
	if c.A.Setup.Mode != c.B.Setup.Mode {
		add("run A is %s loop, run B %s loop: they measure different things", c.A.Setup.Mode, c.B.Setup.Mode)
	}
	if c.A.Setup.Traffic != c.B.Setup.Traffic {
		add("run A has traffic %q, run B %q", c.A.Setup.Traffic, c.B.Setup.Traffic)
	}
	if c.A.Setup.Stages != c.B.Setup.Stages {
		add("run A has stages %s, run B %s", c.A.Setup.Stages, c.B.Setup.Stages)
	}
	if c.A.Machine != c.B.Machine {
		add("the load testers' machines differ")
	}
}

// sample is a group of points of a run, merged.
type sample struct {
	due                       *hdrhistogram.Histogram // latencies from the due time
	seconds, answered, failed float64
}

// divide merges the points of a run into parts of equal length. If there are fewer points than parts, each
// point is a part.
func divide(r *Run) ([]*sample, error) {
	var points []*sample
	for p := range r.Measured() {
		due, err := p.Due.Hist()
		if err != nil {
			return nil, err
		}
		points = append(points, &sample{due, p.EndS - p.StartS, float64(p.Answered), float64(p.Failed)})
	}
	n := min(parts, len(points))
	divided := make([]*sample, n)
	for i := range divided {
		divided[i] = merge(points[i*len(points)/n : (i+1)*len(points)/n])
	}
	return divided, nil
}

func merge(samples []*sample) *sample {
	all := &sample{due: engine.NewHistogram()}
	for _, s := range samples {
		all.due.Merge(s.due)
		all.seconds += s.seconds
		all.answered += s.answered
		all.failed += s.failed
	}
	return all
}

// value returns a figure of a sample. Latencies are in milliseconds.
func (f *figure) value(s *sample) float64 {
	if f.quantile == 0 {
		return f.of(s)
	}
	return ms(float64(s.due.ValueAtQuantile(f.quantile)))
}

// spread returns the mean of the parts' figures, and the variance of the mean.
func (f *figure) spread(parts []*sample) (mean, variance float64) {
	n := float64(len(parts))
	for _, s := range parts {
		mean += f.value(s) / n
	}
	for _, s := range parts {
		variance += math.Pow(f.value(s)-mean, 2) / (n - 1) / n
	}
	return mean, variance
}

// Summary returns the changes, sorted by verdict: first Worse, then Better, Unclear and Same.
func (c *Comparison) Summary() []Change {
	order := map[Verdict]int{Worse: 0, Better: 1, Unclear: 2, Same: 3}
	all := slices.Clone(c.Changes)
	slices.SortStableFunc(all, func(a, b Change) int { return cmp.Compare(order[a.Verdict], order[b.Verdict]) })
	return all
}
