package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"example.com/marketdata/loadtest/streams"
)

// report counts events and broken promises. Its methods are safe for concurrent use.
type report struct {
	mu         sync.Mutex
	counts     map[string]int64 // by the name of the row in the table
	breaches   map[string]int64 // how often each promise was broken, by its name
	recoveries []time.Duration
	usage      []usage
	streams    *streams.Result // nil until the soak ends
	examples   []string
}

// Names of rows of the table, or prefixes of names.
const (
	requests  = "requests"
	published = "snapshots published"
	cutOff    = "cut off by a kill"
	announced = "snapshots pinned before an edge had them"
	pinsEarly = "pins answered before their snapshot was current"
	faults    = "faults: "
	kills     = "kill -9: "
)

// usage holds an edge's metrics at the first and the last checkpoint, and its resident memory at
// all checkpoints.
type usage struct {
	edge        string
	first, last map[string]float64
	resident    []float64 // bytes
}

// over formats up to ten of the given sizes, which are in bytes, as MiB. The ten are evenly spaced and
// include the last size.
func over(bytes []float64) string {
	var b strings.Builder
	n := min(10, len(bytes))
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "%.0f ", bytes[i*len(bytes)/n-1]/(1<<20))
	}
	return b.String() + "MiB"
}

func newReport() *report {
	return &report{counts: map[string]int64{}, breaches: map[string]int64{}}
}

// Names of the promises in the table.
const (
	wrongAnswers = "wrong answers"
	offTime      = "snapshots current before or after their time"
	unexpected   = "unexpected statuses"
	cutAnswers   = "answers cut off by a living edge"
	calm503      = "503s with everything in order"
	stuck        = "edges that did not recover"
	badBuilds    = "builds that failed unharmed"
	died         = "programs that ended by themselves"
	damagedStore = "damage in the store at the end"
	grown        = "memory or goroutines that grew"
)

var promises = []string{
	wrongAnswers, offTime, unexpected, cutAnswers, calm503, stuck, badBuilds, died, damagedStore, grown}

const maxExamples = 20

// breaks counts a broken promise, and keeps its description unless it already has maxExamples of
// them.
func (r *report) breaks(promise, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breaches[promise]++
	if len(r.examples) < maxExamples {
		r.examples = append(r.examples,
			fmt.Sprintf("%s %s: ", time.Now().UTC().Format("15:04:05.000"), promise)+fmt.Sprintf(format, args...))
	}
}

func (r *report) broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.breaches) > 0
}

// count adds one to a row of the table.
func (r *report) count(row string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[row]++
}

// sum returns the sum of the rows whose names have the prefix.
func sum(m map[string]int64, prefix string) (n int64) {
	for row, v := range m {
		if strings.HasPrefix(row, prefix) {
			n += v
		}
	}
	return n
}

// line describes the progress in one line.
func (r *report) line() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d requests, %d snapshots, %d faults, %d kills, %d promises broken", r.counts[requests],
		r.counts[published], sum(r.counts, faults), sum(r.counts, kills), sum(r.breaches, ""))
}

// print prints the table in Markdown, and the examples of broken promises.
func (r *report) print(w io.Writer, c *cli) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	row := func(name string, format string, args ...any) {
		fmt.Fprintf(t, "| %s\t| %s\t|\n", name, fmt.Sprintf(format, args...))
	}
	row("soak", "%v, seed %d, %d assets", c.Duration, c.Seed, c.Assets)
	row("---", "---")
	for _, name := range slices.Sorted(maps.Keys(r.counts)) {
		row(name, "%d", r.counts[name])
	}
	if n := len(r.recoveries); n > 0 {
		slices.Sort(r.recoveries)
		row("recoveries", "%d, median %.1f s, longest %.1f s", n, r.recoveries[n/2].Seconds(),
			r.recoveries[n-1].Seconds())
	}
	if e := r.streams; e != nil {
		late := func(q float64) float64 { return float64(e.Late.ValueAtQuantile(q)) / 1e6 }
		row("streams of events", "%d, opened %d times, %d events, %d missed, %d early, late by %.0f ms (p50), %.0f ms (p99)",
			e.Count, e.Opened, e.Events, e.Missed, e.Early, late(50), late(99))
	}
	slices.SortFunc(r.usage, func(a, b usage) int { return cmp.Compare(a.edge, b.edge) })
	for _, u := range r.usage {
		row(u.edge+": resident memory", "%s", over(u.resident))
		row(u.edge+": live heap", "%.0f MiB at the start, %.0f MiB at the end", u.first[heapLive]/(1<<20),
			u.last[heapLive]/(1<<20))
		row(u.edge+": goroutines, open files", "%.0f, %.0f at the start, %.0f, %.0f at the end",
			u.first[metricGoroutines], u.first[metricFiles], u.last[metricGoroutines], u.last[metricFiles])
	}
	for _, p := range promises {
		row(p, "%d", r.breaches[p])
	}
	_ = t.Flush() // a terminal or a buffer returns no error
	for _, e := range r.examples {
		fmt.Fprintln(w, e)
	}
}
