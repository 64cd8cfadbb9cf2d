package result

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Comparison says what changed from run A to run B.
type Comparison struct {
	A, B    *Run
	Changes []Change
	// Notes are what a reader must know before believing the changes.
	Notes []string
	// Regression: something became worse beyond the tolerance.
	Regression bool
}

// Change is how one figure changed.
type Change struct {
	Name string
	Unit string // ms, requests/s or % (of requests)
	A, B float64
	// Delta is the relative change, B/A − 1; of the errors it is the
	// difference, as a share of the requests. Low and High are the ends of its
	// 95 % confidence interval.
	Delta, Low, High float64
	Verdict          Verdict
}

// Verdict is what a change means.
type Verdict string

const (
	Worse   Verdict = "worse"   // beyond the tolerance, and not by chance
	Better  Verdict = "better"  // likewise
	Same    Verdict = "same"    // within the tolerance
	Unclear Verdict = "unclear" // beyond the tolerance, but it may be chance
)

const (
	confidence = 0.95
	// minPoints is how many points of the series a confidence needs.
	minPoints = 5
	// maxResamples and maxAdds bound the work of the bootstrap.
	maxResamples = 1000
	minResamples = 200
	maxAdds      = 200_000_000
	// errorTolerance is how much the share of failed requests may rise.
	errorTolerance = 0.001
)

// figure is one figure of a resampled run.
type figure struct {
	name, unit string
	quantile   float64 // 0: not a quantile
	up         float64 // +1: more is worse; −1: less is worse
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

// Compare says what changed from a to b. A change beyond tolerance (a share, 0.05 being 5 %) is a
// regression when the confidence interval of the change leaves out 0.
//
// The interval is that of a moving-block bootstrap: the run's seconds are drawn again, with
// replacement and in blocks, because neighbouring seconds are alike. The report's figure is
// computed for each such run from the merged histograms; 95 % of the changes between runs drawn
// like that lie within the interval. It knows what changes within the runs, and cannot know what
// changes from one run to the next: run each side more than once.
func Compare(a, b *Run, tolerance float64) (*Comparison, error) {
	c := &Comparison{A: a, B: b}
	sa, err := newSeries(a)
	if err != nil {
		return nil, err
	}
	sb, err := newSeries(b)
	if err != nil {
		return nil, err
	}
	c.notes(sa, sb)
	short := min(len(sa.points), len(sb.points)) < minPoints
	// Fixed seeds: the same two files give the same verdict.
	drawsA, drawsB := sa.bootstrap(1), sb.bootstrap(2)
	n := min(len(drawsA), len(drawsB))
	whole := [2]*sample{sa.whole(), sb.whole()}
	for _, f := range figures {
		if f.quantile > 0 && float64(min(whole[0].n, whole[1].n)) < 10/(1-f.quantile/100) {
			continue // too few samples beyond the quantile to speak of it
		}
		change := Change{Name: f.name, Unit: f.unit, A: f.value(whole[0], sa), B: f.value(whole[1], sb)}
		change.Delta = f.delta(change.A, change.B)
		deltas := make([]float64, n)
		for i := range n {
			deltas[i] = f.delta(f.drawn(&drawsA[i]), f.drawn(&drawsB[i]))
		}
		slices.Sort(deltas)
		change.Low, change.High = change.Delta, change.Delta
		if n > 0 && !short {
			change.Low, change.High = deltas[int(float64(n)*(1-confidence)/2)],
				deltas[min(n-1, int(float64(n)*(1+confidence)/2))]
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

func (c *Comparison) notes(a, b *series) {
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
	if n := min(len(a.points), len(b.points)); n < minPoints {
		add("a run has %d points only: too short for a confidence, so changes are taken as they are", n)
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

// series is a run's points, their histograms as sparse counts over one list of
// values.
type series struct {
	values []int64 // ascending
	points []point
}

type point struct {
	counts                    []count
	seconds, answered, failed float64
}

type count struct {
	value int32 // index into values
	n     int64
}

func newSeries(r *Run) (*series, error) {
	s := &series{}
	var hists []*hdrhistogram.Histogram
	seen := map[int64]bool{}
	for p := range r.Measured() {
		h, err := p.Due.Hist()
		if err != nil {
			return nil, err
		}
		hists = append(hists, h)
		s.points = append(
			s.points, point{seconds: p.EndS - p.StartS, answered: float64(p.Answered), failed: float64(p.Failed)})
		for _, bar := range h.Distribution() {
			if bar.Count > 0 {
				seen[bar.To] = true
			}
		}
	}
	for v := range seen {
		s.values = append(s.values, v)
	}
	slices.Sort(s.values)
	for i, h := range hists {
		for _, bar := range h.Distribution() {
			if bar.Count > 0 {
				at, _ := slices.BinarySearch(s.values, bar.To)
				s.points[i].counts = append(s.points[i].counts, count{int32(at), bar.Count})
			}
		}
	}
	return s, nil
}

// sample is some points of a series, merged.
type sample struct {
	n                         int64
	counts                    []int64 // by value
	seconds, answered, failed float64
}

func (s *sample) add(p *point) {
	for _, c := range p.counts {
		s.counts[c.value] += c.n
		s.n += c.n
	}
	s.seconds += p.seconds
	s.answered += p.answered
	s.failed += p.failed
}

func (s *series) whole() *sample {
	all := &sample{counts: make([]int64, len(s.values))}
	for i := range s.points {
		all.add(&s.points[i])
	}
	return all
}

// value returns a figure of a sample, latencies in milliseconds.
func (f *figure) value(s *sample, of *series) float64 {
	if f.quantile == 0 {
		return f.of(s)
	}
	want := int64(math.Ceil(f.quantile / 100 * float64(s.n)))
	seen := int64(0)
	for i, n := range s.counts {
		if seen += n; seen >= want && n > 0 {
			return ms(float64(of.values[i]))
		}
	}
	return 0
}

// draw is the figures of one resampled run.
type draw [8]float64

func (f *figure) drawn(d *draw) float64 {
	return d[slices.IndexFunc(figures, func(o figure) bool { return o.name == f.name })]
}

// bootstrap draws runs from the series and returns their figures.
func (s *series) bootstrap(seed uint64) []draw {
	n := len(s.points)
	if n == 0 {
		return nil
	}
	adds := 0
	for i := range s.points {
		adds += len(s.points[i].counts)
	}
	resamples := min(maxResamples, max(minResamples, maxAdds/max(1, adds+len(s.values))))
	block := max(1, int(math.Round(math.Cbrt(float64(n)))))
	r := rand.New(rand.NewPCG(seed, 0x626f6f7473747261))
	draws := make([]draw, resamples)
	drawn := &sample{counts: make([]int64, len(s.values))}
	for i := range draws {
		clear(drawn.counts)
		*drawn = sample{counts: drawn.counts}
		for left := n; left > 0; {
			at := r.IntN(n)
			for k := range min(block, left) {
				drawn.add(&s.points[(at+k)%n])
			}
			left -= min(block, left)
		}
		for k := range figures {
			draws[i][k] = figures[k].value(drawn, s)
		}
	}
	return draws
}

// Summary puts the changes in order: the worse first, then the better.
func (c *Comparison) Summary() []Change {
	order := map[Verdict]int{Worse: 0, Better: 1, Unclear: 2, Same: 3}
	all := slices.Clone(c.Changes)
	slices.SortStableFunc(all, func(a, b Change) int { return cmp.Compare(order[a.Verdict], order[b.Verdict]) })
	return all
}
