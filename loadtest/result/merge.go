package result

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/pace"
)

// Member is one run of a merged one.
type Member struct {
	Name     string    `json:"name"` // of its file
	Started  time.Time `json:"started"`
	Machine  Machine   `json:"machine"`
	Seed     uint64    `json:"seed"`
	Rate     Rate      `json:"rate"`
	P99MS    float64   `json:"p99_ms"`
	LagP99MS float64   `json:"lag_p99_ms"`
	CPUShare float64   `json:"cpu_share"`
	Validity Validity  `json:"validity"`
}

// minOverlap is the share of the longest run in which all runs must measure: their rates add up only then.
const minOverlap = 0.95

// Merge adds the runs of one test that several machines made at the same time, and judges their thresholds, and
// more, over the sum. Counts, rates and histograms add up exactly; an answer that two machines found distinct counts
// twice in Checks. Processor shares, and the send lag of the series, are the busiest machine's. The series keeps the
// seconds in which all ran. Runs of different tests, versions or times are an error. A run is invalid if a member is,
// or if members sent the same requests at the same moments. Merge uses the runs up.
func Merge(names []string, runs []*Run, more []*Assertion) (*Run, error) {
	if len(runs) < 2 {
		return nil, errors.New("one run alone: want two at least")
	}
	if err := mergeable(names, runs); err != nil {
		return nil, err
	}
	start := slices.MaxFunc(runs, func(a, b *Run) int { return a.Started.Compare(b.Started) }).Started
	m, members := runs[0], []Member{}
	var reasons []string
	sum := &adder{points: map[float64]*Point{}, last: math.Inf(1)}
	for i, r := range runs {
		members = append(members, Member{names[i], r.Started, r.Machine, r.Setup.Seed, r.Rate, r.Due.P99MS,
			r.Lag.P99MS, r.Generator.CPUShare, r.Validity})
		for _, reason := range r.Validity.Reasons {
			reasons = append(reasons, names[i]+": "+reason)
		}
		for k, o := range runs[:i] {
			if o.Setup.Seed == r.Setup.Seed && r.Setup.Arrivals == string(pace.Poisson) {
				reasons = append(reasons, fmt.Sprintf("%s and %s had the same --seed, %d: the same requests at the same times",
					names[k], names[i], r.Setup.Seed))
			}
		}
		for _, t := range r.Thresholds {
			a, err := ParseAssertion(t.Expression)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", names[i], err)
			}
			if !slices.ContainsFunc(more, func(o *Assertion) bool { return o.text == a.text }) {
				more = append(more, a)
			}
		}
		r.shift(start)
		sum.series(r.Series)
		if i > 0 {
			sum.add(reflect.ValueOf(m).Elem(), reflect.ValueOf(r).Elem(), "")
			m.Setup.Connections += r.Setup.Connections
		}
	}
	if sum.err != nil {
		return nil, sum.err
	}
	m.Merged, m.Series = members, sum.whole()
	slices.SortStableFunc(m.Swaps, func(a, b check.Swap) int { return cmp.Compare(a.AtS, b.AtS) })
	if stages, err := pace.ParseStages(m.Setup.Stages); err == nil {
		for i := range stages {
			stages[i].From, stages[i].To = float64(len(runs))*stages[i].From, float64(len(runs))*stages[i].To
		}
		m.Setup.Stages = pace.FormatStages(stages)
	}
	if err := m.Judge(more); err != nil {
		return nil, err
	}
	if reasons != nil {
		m.Validity = Validity{Reasons: reasons}
	}
	return m, nil
}

// mergeable says why runs are not of one test, at one time.
func mergeable(names []string, runs []*Run) error {
	var from, to time.Time
	longest := 0.0
	for i, r := range runs {
		if r.Merged != nil {
			return fmt.Errorf("%s is a merged run: give the runs that it consists of", names[i])
		}
		a, b := reflect.ValueOf(runs[0].Setup), reflect.ValueOf(r.Setup)
		for k := range a.NumField() {
			name, _, _ := strings.Cut(a.Type().Field(k).Tag.Get("json"), ",")
			own := name == "seed" || name == "connections" || name == "label"
			if x, y := a.Field(k).Interface(), b.Field(k).Interface(); !own && !reflect.DeepEqual(x, y) {
				return fmt.Errorf("%s is %v in %s, %v in %s: want runs of one test", name, x, names[0], y, names[i])
			}
		}
		if t := runs[0].Tool; t != r.Tool {
			return fmt.Errorf("version is %v in %s, %v in %s: want runs of one", t, names[0], r.Tool, names[i])
		}
		for k, o := range runs[:i] {
			if o.Lag.Histogram == r.Lag.Histogram && o.Due.Histogram == r.Due.Histogram {
				return fmt.Errorf("%s and %s are the same run", names[k], names[i])
			}
		}
		start := r.Started.Add(time.Duration(r.Setup.WarmupS * float64(time.Second)))
		end := start.Add(time.Duration(r.DurationS * float64(time.Second)))
		if i == 0 || start.After(from) {
			from = start
		}
		if i == 0 || end.Before(to) {
			to = end
		}
		longest = max(longest, r.DurationS)
	}
	if both := max(0, to.Sub(from).Seconds()); both < minOverlap*longest {
		return fmt.Errorf("the runs measured together for %s of %s: want %.0f %%; start them at one time, by synchronized "+
			"clocks", Seconds(both), Seconds(longest), 100*minOverlap)
	}
	return nil
}

// shift makes the run's times those since start. Points move by whole steps, so that they lie upon other runs' points.
func (r *Run) shift(start time.Time) {
	late := r.Started.Sub(start).Seconds()
	r.Started = start
	move := func(m *check.Moment) { m.AtS = max(0, round(m.AtS+late)) }
	for i := range r.Swaps {
		move(&r.Swaps[i].Moment)
	}
	for _, f := range r.Checks.Findings {
		for i := range f.Examples {
			move(&f.Examples[i].Moment)
		}
	}
	late = step(r.Series) * math.Round(late/step(r.Series))
	for i := range r.Series {
		r.Series[i].StartS, r.Series[i].EndS = round(r.Series[i].StartS+late), round(r.Series[i].EndS+late)
	}
}

// step is how long the points are, in seconds.
func step(series []Point) float64 {
	if len(series) == 0 {
		return 1
	}
	return max(1, math.Round(series[0].EndS-series[0].StartS))
}

// adder adds results, field by field. A field's tag merge says how, if not by adding: max, min, or first, which
// leaves it alone.
type adder struct {
	points map[float64]*Point // by their place in the series
	last   float64            // place that all runs reached
	err    error              // the first
}

// maxExamples of a finding are kept.
const maxExamples = 5

func (a *adder) add(to, from reflect.Value, rule string) {
	if rule == "first" {
		return
	}
	switch v := to.Addr().Interface().(type) {
	case *Latency:
		a.err = cmp.Or(a.err, v.add(from.Addr().Interface().(*Latency)))
		return
	case *[]check.Example:
		*v = append(*v, from.Interface().([]check.Example)...)
		*v = (*v)[:min(len(*v), maxExamples)]
		return
	case *map[string]uint64:
		for k, n := range from.Interface().(map[string]uint64) {
			(*v)[k] += n
		}
		return
	}
	switch to.Kind() {
	case reflect.Bool:
		to.SetBool(to.Bool() || from.Bool())
	case reflect.String:
		to.SetString(cmp.Or(to.String(), from.String()))
	case reflect.Int:
		to.SetInt(to.Int() + from.Int())
	case reflect.Uint64:
		to.SetUint(to.Uint() + from.Uint())
	case reflect.Float64:
		x, y := to.Float(), from.Float()
		to.SetFloat(map[string]float64{"": round(x + y), "max": max(x, y), "min": min(x, y)}[rule])
	case reflect.Pointer:
		if to.IsNil() {
			to.Set(from)
		} else if !from.IsNil() {
			a.add(to.Elem(), from.Elem(), rule)
		}
	case reflect.Struct:
		for i := range to.NumField() {
			a.add(to.Field(i), from.Field(i), to.Type().Field(i).Tag.Get("merge"))
		}
	case reflect.Slice: // of structs whose first field is a name
		for i := range from.Len() {
			k := 0
			for k < to.Len() && !to.Index(k).Field(0).Equal(from.Index(i).Field(0)) {
				k++
			}
			if k < to.Len() {
				a.add(to.Index(k), from.Index(i), rule)
			} else {
				to.Set(reflect.Append(to, from.Index(i)))
			}
		}
	}
}

func (l *Latency) add(o *Latency) error {
	h, err := l.Hist()
	if err != nil {
		return err
	}
	more, err := o.Hist()
	if err != nil {
		return err
	}
	if n := h.Merge(more); n > 0 {
		return fmt.Errorf("%d times are outside of a histogram's range", n)
	}
	*l, err = newLatency(h)
	return err
}

// series adds each point to the one upon which most of it lies, whole: a histogram cannot be divided.
func (a *adder) series(points []Point) {
	at := -1.0
	for i := range points {
		p := points[i]
		at = math.Round(p.StartS / step(points))
		if a.points[at] == nil {
			a.points[at] = &p
		} else {
			a.add(reflect.ValueOf(a.points[at]).Elem(), reflect.ValueOf(&p).Elem(), "")
		}
	}
	a.last = min(a.last, at)
}

// whole returns the points of the time in which all ran.
func (a *adder) whole() []Point {
	series := []Point{}
	for _, at := range slices.Sorted(maps.Keys(a.points)) {
		if at >= 0 && at <= a.last {
			series = append(series, *a.points[at])
		}
	}
	return series
}
