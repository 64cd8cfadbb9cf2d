// Package report draws results as a self-contained HTML file, which contains its style sheet and drawings,
// and no scripts.
package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/pace"
	"example.com/marketdata/loadtest/result"
	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/dustin/go-humanize"
)

//go:embed report.css
var style string

//go:embed report.html
var page string

var tmpl = template.Must(template.New("report").Funcs(template.FuncMap{
	"millis": result.Millis, "thousands": thousands, "figure": result.Figure,
	"count":   func(n any) string { return group(fmt.Sprint(n)) },
	"percent": func(share float64) string { return percent(100 * share) },
	"signed":  func(share float64) string { return fmt.Sprintf("%+.1f %%", 100*share) },
	"time":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"keys":    result.SortedKeys,
	"bytes":   humanize.IBytes,
	"value":   value,
	"join":    strings.Join,
	"deref":   func(v *float64) float64 { return *v },
	"meaning": meaning, "words": func() []word { return words },
}).Parse(page))

// value formats a figure with its unit.
func value(v float64, unit string) string {
	switch unit {
	case "ms":
		return result.Millis(v)
	case "share":
		return percent(100 * v)
	}
	return strings.TrimSpace(result.Figure(v) + " " + unit)
}

// group inserts thin spaces between thousands.
func group(s string) string {
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// meaning describes a threshold in words.
func meaning(expression string) string {
	a, err := result.ParseAssertion(expression)
	if err != nil {
		return "" // the file comes from another program
	}
	return a.Meaning()
}

// word is a term of the report (README.md, "What the figures mean").
type word struct{ Word, Meaning string }

var words = []word{
	{"asked", "Requests that were due (in a closed loop: sent) before the end, the warm-up left out."},
	{"answered", "Those that were answered as they should be."},
	{"failed, errors", "All others, never sent ones included; errors is their share of those asked."},
	{"from due, from sent", "Where a latency begins. All latencies, plots and thresholds are from due unless they say otherwise; with them a service that stalls is charged for what had to wait."},
	{"send lag", "From due to sent: how late the load tester was, or how long all connections were in use."},
	{"pN", "The latency that N % of the requests did not exceed; timeouts are among them, other failures are not."},
	{"late, apart", "How long after its snapshot was to become current an event came (the later of publication and activate_at, by the clock here), and how long after it came on the first stream."},
	{"wrong", "Answers that break the service's contract."},
	{"valid", result.ValidWhen},
}

// labelled contains a run and its name in the report.
type labelled struct {
	*result.Run
	Name string
}

// Good reports whether the run needs no attention.
func (r labelled) Good() bool { return loadtest.Exit(r.Run) == loadtest.ExitOK }

type document struct {
	Title      string
	Style      template.CSS
	Runs       []labelled
	Comparison *result.Comparison
	Capacity   *loadtest.Capacity
	Plots      []*plot
}

// HTML draws a single run, or several runs in the same plots.
func HTML(runs ...*result.Run) ([]byte, error) {
	d := document{Title: "Load test"}
	for i, r := range runs {
		d.Runs = append(d.Runs, labelled{r, name(r, i, len(runs))})
	}
	return d.render()
}

// CapacityHTML draws a search: its steps and its last run. If a capacity was found, that run was at its rate.
func CapacityHTML(c *loadtest.Capacity) ([]byte, error) {
	d := document{Title: "Capacity", Capacity: c}
	if n := len(c.Tries); n > 0 {
		d.Runs = []labelled{{c.Tries[n-1].Run, ""}}
	}
	return d.render()
}

// CompareHTML draws both runs of a comparison, and the changes.
func CompareHTML(c *result.Comparison) ([]byte, error) {
	d := document{
		Title: "Load tests compared", Comparison: c, Runs: []labelled{{c.A, name(c.A, 0, 2)}, {c.B, name(c.B, 1, 2)}}}
	return d.render()
}

func name(r *result.Run, i, n int) string {
	label := r.Setup.Label
	if n == 1 {
		return label
	}
	letter := string(rune('A' + i%26))
	if label != "" {
		return letter + ": " + label
	}
	return letter
}

func (d *document) render() ([]byte, error) {
	d.Style = template.CSS(style)
	hists := make([][2]*hdrhistogram.Histogram, len(d.Runs))
	for i, r := range d.Runs {
		var err error
		if hists[i][0], err = r.Due.Hist(); err != nil {
			return nil, err
		}
		if hists[i][1], err = r.Service.Hist(); err != nil {
			return nil, err
		}
	}
	d.Plots = []*plot{d.latencyOverTime(), d.percentileCurve(hists), d.rateOverTime(), d.generatorOverTime()}
	var b bytes.Buffer
	if err := tmpl.Execute(&b, d); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// warmup returns the end of the shortest warm-up, in seconds.
func (d *document) warmup() float64 {
	if len(d.Runs) == 0 {
		return 0
	}
	r := slices.MinFunc(d.Runs, func(a, b labelled) int { return cmp.Compare(a.Setup.WarmupS, b.Setup.WarmupS) })
	return r.Setup.WarmupS
}

func (d *document) end() float64 {
	end := 1.0
	for _, r := range d.Runs {
		if n := points(r.Run); n > 0 {
			end = max(end, r.Series[n-1].EndS)
		}
	}
	return end
}

// points returns the number of points of a run to draw. It leaves out a last point that is too short for a
// rate or a percentile.
func points(r *result.Run) int {
	n := len(r.Series)
	if n > 1 && r.Series[n-1].EndS-r.Series[n-1].StartS < 0.5*(r.Series[0].EndS-r.Series[0].StartS) {
		n--
	}
	return n
}

// percentiles are the percentiles that are drawn over time.
var percentiles = []struct {
	name, class string
	of          func(*result.Latency) float64
}{
	{"max", "c5", func(l *result.Latency) float64 { return l.MaxMS }},
	{"p99.9", "c4", func(l *result.Latency) float64 { return l.P999MS }},
	{"p99", "c3", func(l *result.Latency) float64 { return l.P99MS }},
	{"p90", "c2", func(l *result.Latency) float64 { return l.P90MS }},
	{"p50", "c1", func(l *result.Latency) float64 { return l.P50MS }},
}

// runClass returns the style class of run number i if several runs are drawn.
func runClass(i int) string { return fmt.Sprintf("r%d", i%4+1) }

func (d *document) latencyOverTime() *plot {
	p := &plot{Title: "Latency over time", Note: "from when a request was due; each point at the end of its interval"}
	one := len(d.Runs) == 1
	for i, r := range d.Runs {
		for _, pc := range percentiles {
			if !one && pc.name != "p50" && pc.name != "p99" {
				continue
			}
			l := line{Name: pc.name, Class: pc.class}
			if !one {
				l.Name, l.Class = r.Name+" "+pc.name, runClass(i)
				if pc.name == "p99" {
					l.Class += " dashed"
				}
			}
			for pt := range r.Measured() {
				l.x = append(l.x, pt.EndS)
				v := math.NaN()
				if pt.Due.Count > 0 {
					v = pc.of(&pt.Due)
				}
				l.y = append(l.y, v)
			}
			p.Lines = append(p.Lines, l)
		}
		if one {
			for pt := range r.Measured() {
				var b strings.Builder
				fmt.Fprintf(&b, "%s: %s answers", when(pt), group(fmt.Sprint(pt.Due.Count)))
				for _, pc := range percentiles {
					fmt.Fprintf(&b, "\n%s %s", pc.name, result.Millis(pc.of(&pt.Due)))
				}
				p.slots = append(p.slots, slot{pt.StartS, pt.EndS, b.String()})
			}
			p.marks = swaps(r.Run)
		}
	}
	p.timeAxis(d.end())
	p.warmup = d.warmup()
	p.latencyAxis()
	return p.draw()
}

// when formats the interval of a point.
func when(p *result.Point) string { return result.Seconds(p.StartS) + " to " + result.Seconds(p.EndS) }

// swaps returns marks for the times at which snapshots were first seen, except for the first snapshot.
func swaps(r *result.Run) []mark {
	var marks []mark
	for _, s := range r.Swaps {
		if s.AtS > 0.5 {
			marks = append(marks, mark{s.AtS, "snapshot " + s.Snapshot + " first seen at " + result.Seconds(s.AtS)})
		}
	}
	return marks
}

// percentileCurve draws latency by percentile. The x axis is stretched so that each additional nine has the
// same width.
func (d *document) percentileCurve(hists [][2]*hdrhistogram.Histogram) *plot {
	p := &plot{Title: "Latency by percentile", Note: "how long the best part of the requests took at most"}
	nines := 3.0
	for i, r := range d.Runs {
		kinds := []struct {
			h           *hdrhistogram.Histogram
			name, class string
		}{{hists[i][0], "from due", "c1"}, {hists[i][1], "from sent", "c2 dashed"}}
		if r.Closed() {
			kinds = kinds[:1]
			kinds[0].name = "latency"
		}
		for _, k := range kinds {
			if len(d.Runs) > 1 {
				if k.class != "c1" {
					continue
				}
				k.name, k.class = r.Name, runClass(i)
			}
			l := line{Name: k.name, Class: k.class}
			n := float64(k.h.TotalCount())
			if n == 0 {
				continue
			}
			reach := math.Log10(n) // fewer than one request lies beyond it
			nines = max(nines, reach)
			for x := 0.0; x <= reach; x += 0.05 {
				l.x = append(l.x, x)
				l.y = append(l.y, float64(k.h.ValueAtQuantile(100*(1-math.Pow(10, -x))))/1e6)
			}
			p.Lines = append(p.Lines, l)
		}
	}
	p.X, p.xScale = "percentile", scale{0, nines, false, left, plotWidth - right}
	p.xTicks = []tick{{0, "0"}, {math.Log10(2), "p50"}}
	for k := 1.0; k <= nines; k++ {
		label := []string{"", "p90", "p99"}
		text := "p99." + strings.Repeat("9", max(0, int(k)-2))
		if k < 3 {
			text = label[int(k)]
		}
		if nines > 5 && k > 3 && math.Mod(k, 2) == 0 {
			continue
		}
		p.xTicks = append(p.xTicks, tick{k, text})
	}
	p.latencyAxis()
	return p.draw()
}

func (d *document) rateOverTime() *plot {
	p := &plot{Title: "Requests over time", Note: "a second"}
	one := len(d.Runs) == 1
	for i, r := range d.Runs {
		answered, failed := line{Name: "answered", Class: "c2"}, line{Name: "failed", Class: "bad", area: true}
		if !one {
			answered.Name, answered.Class, failed.Name = r.Name+" answered", runClass(i), r.Name+" failed"
		}
		if one && !r.Closed() {
			p.Lines = append(p.Lines, asked(r.Run))
		}
		bad := 0.0
		for pt := range r.Measured() {
			span := max(pt.EndS-pt.StartS, 1e-3)
			answered.x, answered.y = append(answered.x, pt.EndS), append(answered.y, float64(pt.Answered)/span)
			failed.x, failed.y = append(failed.x, pt.EndS), append(failed.y, float64(pt.Failed)/span)
			bad += float64(pt.Failed)
			if one {
				p.slots = append(p.slots, slot{pt.StartS, pt.EndS,
					fmt.Sprintf("%s\nanswered %s/s\nfailed %s/s\nread %s/s", when(pt),
						thousands(float64(pt.Answered)/span), thousands(float64(pt.Failed)/span),
						humanize.IBytes(uint64(float64(pt.BytesRead)/span)))})
			}
		}
		p.Lines = append(p.Lines, answered)
		if bad > 0 {
			p.Lines = append(p.Lines, failed)
		}
		if one {
			p.marks = swaps(r.Run)
		}
	}
	p.timeAxis(d.end())
	p.warmup = d.warmup()
	p.countAxis("requests a second", 0, thousands)
	return p.draw()
}

// asked returns the line of the rate that the stages define.
func asked(r *result.Run) line {
	l := line{Name: "asked", Class: "faint dashed"}
	stages, err := pace.ParseStages(r.Setup.Stages)
	if err != nil {
		return l // the file comes from another program
	}
	at := 0.0
	for _, s := range stages {
		end := at + s.Duration.Seconds()
		l.x, l.y = append(l.x, at, end), append(l.y, s.From, s.To)
		at = end
	}
	return l
}

func (d *document) generatorOverTime() *plot {
	p := &plot{Title: "The load tester itself",
		Note: "processor share of what it may use; beyond 90 % the run is invalid"}
	for i, r := range d.Runs {
		l := line{Name: "processors", Class: "c4"}
		if len(d.Runs) > 1 {
			l.Name, l.Class = r.Name, runClass(i)
		}
		for k := range points(r.Run) {
			pt := &r.Series[k]
			l.x, l.y = append(l.x, pt.EndS), append(l.y, 100*pt.CPUShare)
			if len(d.Runs) == 1 {
				p.slots = append(p.slots, slot{pt.StartS, pt.EndS, fmt.Sprintf("%s\nprocessors %s\nsend lag p99 %s",
					when(pt), percent(100*pt.CPUShare), result.Millis(pt.LagP99MS))})
			}
		}
		p.Lines = append(p.Lines, l)
	}
	end := d.end()
	p.Lines = append(p.Lines, line{Name: "limit", Class: "bad dashed", x: []float64{0, end}, y: []float64{90, 90}})
	p.timeAxis(end)
	p.warmup = d.warmup()
	p.countAxis("share of the processors", 100, percent)
	return p.draw()
}

// Bar returns the length, in percent, of the bar for a latency in milliseconds. The scale is logarithmic, from
// half of the lowest p50 of the run's classes to their highest p99.
func (r labelled) Bar(ms float64) float64 {
	least, most := math.Inf(1), 0.0
	for i := range r.Classes {
		if d := &r.Classes[i].Due; d.P50MS > 0 {
			least, most = min(least, d.P50MS/2), max(most, d.P99MS)
		}
	}
	if !(ms > least && most > least) {
		return 0
	}
	return math.Round(1000*min(1, math.Log(ms/least)/math.Log(most/least))) / 10
}
