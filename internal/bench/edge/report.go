package main

import (
	"fmt"

	"example.com/marketdata/internal/bench/benchdoc"
	"github.com/dustin/go-humanize"
)

// method describes the measurement in the report.
const method = `The server has one core, the load generator the other: %d keep-alive connections over loopback. Figures in µs are the processor time, user and system, of one
answer. The load alternates between the two sides of a row; ratios are medians of %d rounds. A page has 20 quotes: %s. Key check, limits, request ids,
metrics and logging are on. Bare fasthttp sends the same bytes from a constant, nginx from a file in three ways; the best of these is used.

Servers are never idle, because a server that sleeps between requests spends more time on each. Latencies are from an open load, measured from
when a request was due, while the load is on time.

TLS, a network, and more than one core were not measured. The machine's speed varies, so compare ratios, not times in different rows. Targets in bold were missed.`

// report prints the table, and writes the document if its file was named.
func (b *bench) report() error {
	d := benchdoc.Document{Title: "What an answer costs", Command: "make bench-edge",
		Method:  fmt.Sprintf(method, connections, b.Rounds, b.page),
		Columns: []string{"what", "measured", "compared with", "ratio", "target"}}
	if !b.Short {
		d.Versions = append(d.Versions, benchdoc.Version("nginx", "-v"))
	}
	for _, r := range b.rows {
		ratio, target := "", r.target
		if r.ratio > 0 {
			ratio = fmt.Sprintf("%.2f", r.ratio)
		}
		if target != "" && !r.met {
			target = "**" + target + "**"
		}
		d.Rows = append(d.Rows, []string{r.what, r.measured, r.beside, ratio, target})
	}
	return d.Print(b.Out)
}

// single adds a row that is not a comparison of costs, and prints it.
func (b *bench) single(r row) {
	b.rows = append(b.rows, r)
	fmt.Printf("%-58s %s, target %s\n", r.what, r.measured, r.target)
}

// latency adds a row with the medians of two lists of latencies in ms, which were measured while the load was
// on time. If one of the lists has fewer elements than minCount, the row says that the machine was busy.
func (b *bench) latency(r row, measured, beside []float64, minCount int, met func(measured, beside float64) bool) {
	r.measured = "the machine was busy"
	if min(len(measured), len(beside)) >= minCount {
		self := func(ms float64) float64 { return ms }
		x, y := median(measured, self), median(beside, self)
		r.measured, r.beside, r.ratio, r.met = fmt.Sprintf("%.2f ms", x), fmt.Sprintf("%.2f ms", y), x/y, met(x, y)
	}
	b.single(r)
}

func thousands(n int) string { return humanize.Comma(int64(n)) }
