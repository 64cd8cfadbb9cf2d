package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"example.com/marketdata/loadtest/result"
)

// The size of a plot in its own units. The page scales it to the available width. At this size its text is
// still readable on a phone.
const (
	plotWidth, plotHeight = 480.0, 270.0
	left, right           = 52.0, 10.0
	top, bottom           = 10.0, 30.0
)

// scale maps values to positions on an axis.
type scale struct {
	min, max float64
	log      bool
	from, to float64 // in the plot's units
}

func (s *scale) at(v float64) float64 {
	lo, hi := s.min, s.max
	if s.log {
		v, lo, hi = math.Log10(max(v, s.min)), math.Log10(lo), math.Log10(hi)
	}
	v = min(max(v, lo), hi)
	if hi == lo {
		return s.from
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

// tick is a labeled position on an axis.
type tick struct {
	value float64
	label string
}

// linearTicks returns about n round values, and the last of them. They begin at 0 and extend to at least
// maxValue.
func linearTicks(maxValue float64, n int, label func(float64) string) ([]tick, float64) {
	if !(maxValue > 0) {
		maxValue = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(maxValue/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if maxValue/(step*f) <= float64(n) {
			step *= f
			break
		}
	}
	var ticks []tick
	end := math.Ceil(maxValue/step-1e-9) * step
	for i := 0; float64(i)*step <= end+step/2; i++ {
		ticks = append(ticks, tick{float64(i) * step, label(float64(i) * step)})
	}
	return ticks, end
}

// logTicks returns the powers of ten in the range and, if there are few, also 2 and 5 times them.
func logTicks(least, most float64, label func(float64) string) (ticks []tick, lo, hi float64) {
	if !(least > 0) {
		least = most / 1000
	}
	if !(most > 0) {
		least, most = 0.1, 1
	}
	lo, hi = math.Pow(10, math.Floor(math.Log10(least)+1e-9)), math.Pow(10, math.Ceil(math.Log10(most)-1e-9))
	if hi <= lo {
		hi = lo * 10
	}
	steps := []float64{1}
	if hi/lo <= 1001 {
		steps = []float64{1, 2, 5}
		for lo*5 <= least && hi/lo > 10 {
			lo *= 5
		}
		for hi/2 >= most*1.05 && hi/2 > lo*5 {
			hi /= 2
		}
	}
	for decade := math.Pow(10, math.Floor(math.Log10(lo))); decade <= hi*1.0001; decade *= 10 {
		for _, s := range steps {
			if v := decade * s; v >= lo*0.9999 && v <= hi*1.0001 {
				ticks = append(ticks, tick{v, label(v)})
			}
		}
	}
	return ticks, lo, hi
}

// line is a series of points. NaN interrupts it.
type line struct {
	Name  string
	Class string // in the style sheet
	x, y  []float64
	step  bool // each value lasts until the next point
	area  bool // filled down to the axis
}

// mark is a vertical line with a title.
type mark struct {
	x     float64
	title string
}

// slot is a part of the x axis that shows its values when the mouse pointer is over it.
type slot struct {
	from, to float64
	title    string
}

// plot is a drawing with two axes.
type plot struct {
	Title string
	Note  string
	Lines []line
	// X and Y name the axes for readers who cannot see the drawing.
	X, Y           string
	xScale, yScale scale
	xTicks, yTicks []tick
	marks          []mark
	warmup         float64 // the end of the warm-up on the x axis, or 0
	slots          []slot
	SVG            template.HTML
}

// timeAxis makes the x axis show seconds, up to end.
func (p *plot) timeAxis(end float64) {
	ticks, _ := linearTicks(end, 6, result.Seconds)
	for len(ticks) > 0 && ticks[len(ticks)-1].value > end*1.0001 {
		ticks = ticks[:len(ticks)-1]
	}
	p.X, p.xTicks, p.xScale = "time", ticks, scale{0, end, false, left, plotWidth - right}
}

// latencyAxis makes the y axis show milliseconds on a logarithmic scale that fits the lines.
func (p *plot) latencyAxis() {
	least, most := math.Inf(1), 0.0
	for _, l := range p.Lines {
		for _, v := range l.y {
			if v > 0 { // not NaN
				least, most = min(least, v), max(most, v)
			}
		}
	}
	if math.IsInf(least, 1) {
		least = 0
	}
	ticks, lo, hi := logTicks(least, most, result.Millis)
	p.Y, p.yTicks, p.yScale = "latency", ticks, scale{lo, hi, true, plotHeight - bottom, top}
}

// countAxis makes the y axis linear, from 0 to at least maxValue.
func (p *plot) countAxis(name string, maxValue float64, label func(float64) string) {
	for _, l := range p.Lines {
		for _, v := range l.y {
			if v > maxValue { // not NaN
				maxValue = v
			}
		}
	}
	ticks, end := linearTicks(maxValue, 5, label)
	p.Y, p.yTicks, p.yScale = name, ticks, scale{0, end, false, plotHeight - bottom, top}
}

// draw generates the SVG.
func (p *plot) draw() *plot {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight,
		template.HTMLEscapeString(p.Title+": "+p.Y+" over "+p.X))
	b.WriteString(`<g class="grid">`)
	for _, t := range p.yTicks {
		y := p.yScale.at(t.value)
		fmt.Fprintf(&b, `<path d="M%g %.1fH%g"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`, left, y,
			plotWidth-right, left-5, y+3.5, template.HTMLEscapeString(t.label))
	}
	for _, t := range p.xTicks {
		x := p.xScale.at(t.value)
		anchor, at := "middle", x
		if x > plotWidth-right-12 {
			anchor, at = "end", plotWidth-1
		}
		fmt.Fprintf(&b, `<path d="M%.1f %gv4"/><text x="%.1f" y="%g" text-anchor="%s">%s</text>`, x, plotHeight-bottom,
			at, plotHeight-bottom+17, anchor, template.HTMLEscapeString(t.label))
	}
	b.WriteString(`</g>`)
	if p.warmup > 0 {
		width := p.xScale.at(p.warmup) - left
		fmt.Fprintf(&b, `<g class="warmup"><rect x="%g" y="%g" width="%.1f" height="%g"/><title>%s</title>`, left, top, width,
			plotHeight-bottom-top, "warm-up: requests were sent, and counted nowhere")
		if width > 60 {
			fmt.Fprintf(&b, `<text x="%g" y="%g">warm-up</text>`, left+5, top+14)
		}
		b.WriteString(`</g>`)
	}
	for _, m := range p.marks {
		x := p.xScale.at(m.x)
		fmt.Fprintf(&b, `<g class="mark"><path d="M%.1f %gV%g"/><path class="flag" d="M%.1f %gl6 4l-6 4z"/><title>%s</title></g>`, x, top,
			plotHeight-bottom, x, top, template.HTMLEscapeString(m.title))
	}
	for i := range p.Lines {
		p.path(&b, &p.Lines[i])
	}
	for _, s := range p.slots {
		x0, x1 := p.xScale.at(s.from), p.xScale.at(s.to)
		fmt.Fprintf(&b, `<rect class="slot" x="%.1f" y="%g" width="%.1f" height="%g"><title>%s</title></rect>`, x0, top,
			max(1, x1-x0), plotHeight-bottom-top, template.HTMLEscapeString(s.title))
	}
	b.WriteString(`</svg>`)
	p.SVG = template.HTML(b.String()) // all text in it is escaped above
	return p
}

func (p *plot) path(b *strings.Builder, l *line) {
	var d strings.Builder
	pen, base := false, p.yScale.from
	startX, lastX := 0.0, 0.0
	end := func() {
		if pen && l.area {
			fmt.Fprintf(&d, "L%.1f %.1fL%.1f %.1fZ", lastX, base, startX, base)
		}
		pen = false
	}
	for i := range l.x {
		if math.IsNaN(l.y[i]) {
			end()
			continue
		}
		x, y := p.xScale.at(l.x[i]), p.yScale.at(l.y[i])
		switch {
		case !pen:
			fmt.Fprintf(&d, "M%.1f %.1f", x, y)
			startX = x
			// A single point would be invisible, so draw a short dash.
			if !l.area && (i+1 == len(l.x) || math.IsNaN(l.y[i+1])) {
				d.WriteString("h2")
			}
		case l.step:
			fmt.Fprintf(&d, "H%.1fV%.1f", x, y)
		default:
			fmt.Fprintf(&d, "L%.1f %.1f", x, y)
		}
		pen, lastX = true, x
	}
	end()
	class := "line " + l.Class
	if l.area {
		class = "area " + l.Class
	}
	fmt.Fprintf(
		b, `<path class="%s" d="%s"><title>%s</title></path>`, class, d.String(), template.HTMLEscapeString(l.Name))
}

// thousands formats a count.
func thousands(v float64) string {
	switch {
	case v >= 1e6:
		return result.Figure(v/1e6) + "M"
	case v >= 1e4:
		return result.Figure(v/1e3) + "k"
	}
	return result.Figure(v)
}

func percent(v float64) string { return result.Figure(v) + " %" }
