package main

import (
	"fmt"

	"example.com/marketdata/internal/lab/benchdoc"
	"github.com/dustin/go-humanize"
)

// method is what the report says of how it came about.
const method = `Each server is a process on a core of its own, the load on another: %d connections, kept alive, over loopback. µs are processor time, user and
system, for one answer. The two sides of a row are asked in turn; the median ratio of %d rounds counts. A page has 20 quotes: %s. Key check, limits,
request ids, metrics and logging are on. Bare fasthttp sends the same bytes from a constant, nginx from a file in three ways; the best counts.

Rows are at saturation: their servers never wait for a request. Those "at N requests a second" are not: an open load with Poisson arrivals, over %d
connections, asks each server for %v in turn. A server that sleeps between requests spends more on each. Latencies count from when a request was due.
Rows of latency name their load.

Left out: TLS, a network, more than one core. Times of different rows do not compare, since the machine's speed changes; ratios do. Latencies count
only while the load is on time.`

// report shows the table, and writes the document when asked to.
func (b *bench) report() error {
	d := benchdoc.Document{Title: "What an answer costs", Command: "make bench-edge",
		Method:  fmt.Sprintf(method, connections, b.Rounds, b.page, rateConns, rateTurn),
		Columns: []string{"what", "measured", "beside it", "ratio", "target", "state"}}
	if !b.Short {
		d.Versions = append(d.Versions, benchdoc.Version("nginx", "-v"))
	}
	for _, r := range b.rows {
		ratio, state := "", ""
		if r.ratio > 0 {
			ratio = fmt.Sprintf("%.2f", r.ratio)
		}
		if r.target != "" {
			state = "**missed**"
			if r.met {
				state = "met"
			}
		}
		d.Rows = append(d.Rows, []string{r.what, r.measured, r.beside, ratio, r.target, state})
	}
	return d.Print(b.Out)
}

// single reports a figure that is not the median of a comparison.
func (b *bench) single(r row) {
	b.rows = append(b.rows, r)
	fmt.Printf("%-58s %s, target %s\n", r.what, r.measured, r.target)
}

// latency reports the medians of latencies in ms, of what was measured while the load was not
// late: it takes so many of each side, at least, to say anything.
func (b *bench) latency(r row, measured, beside []float64, least int, met func(measured, beside float64) bool) {
	r.measured = "the machine was in the way"
	if min(len(measured), len(beside)) >= least {
		self := func(ms float64) float64 { return ms }
		x, y := median(measured, self), median(beside, self)
		r.measured, r.beside, r.ratio, r.met = fmt.Sprintf("%.2f ms", x), fmt.Sprintf("%.2f ms", y), x/y, met(x, y)
	}
	b.single(r)
}

func thousands(n int) string { return humanize.Comma(int64(n)) }
