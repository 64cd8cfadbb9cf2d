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
)

// report is what was counted. Its methods are safe for concurrent use.
type report struct {
	mu         sync.Mutex
	requests   int64
	statuses   map[int]int64
	cut        int64            // requests that ended with an edge that was killed
	faults     map[string]int64 // by kind
	kills      map[string]int64 // by program
	published  int64
	recoveries []time.Duration
	usage      []usage
	breaches   map[string]int64 // promises that were not kept, by name
	examples   []string
}

// usage is what a process takes, at the first checkpoint and at the last one,
// and its memory at all of them.
type usage struct {
	edge           string
	first, last    map[string]float64
	resident, live []float64 // bytes
}

// over shows how a number of bytes went, in MiB at up to ten evenly spaced
// checkpoints, the first and the last among them.
func over(bytes []float64) string {
	const shown = 10
	var b strings.Builder
	n := min(shown, len(bytes))
	for i := range n {
		at := len(bytes) - 1
		if n > 1 {
			at = i * (len(bytes) - 1) / (n - 1)
		}
		fmt.Fprintf(&b, "%.0f ", bytes[at]/(1<<20))
	}
	return b.String() + "MiB"
}

func newReport() *report {
	return &report{statuses: map[int]int64{}, faults: map[string]int64{}, kills: map[string]int64{}, breaches: map[string]int64{}}
}

// The promises, as the table names them.
const (
	wrongAnswers = "wrong answers"
	unexpected   = "unexpected statuses"
	cutAnswers   = "answers cut off by a living edge"
	calm503      = "503s with everything in order"
	stuck        = "edges that did not recover"
	badBuilds    = "builds that failed unharmed"
	died         = "programs that ended by themselves"
	damagedStore = "damage in the store at the end"
	grown        = "memory or goroutines that grew"
)

var promises = []string{wrongAnswers, unexpected, cutAnswers, calm503, stuck, badBuilds, died, damagedStore, grown}

const maxExamples = 20

// breaks notes that a promise was not kept.
func (r *report) breaks(promise, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breaches[promise]++
	if len(r.examples) < maxExamples {
		r.examples = append(r.examples, fmt.Sprintf("%s %s: ", time.Now().UTC().Format("15:04:05.000"), promise)+fmt.Sprintf(format, args...))
	}
}

func (r *report) broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.breaches) > 0
}

func (r *report) answered(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	r.statuses[status]++
}

func (r *report) cutOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	r.cut++
}

func (r *report) fault(kind string)   { r.add(r.faults, kind) }
func (r *report) kill(program string) { r.add(r.kills, program) }

func (r *report) add(m map[string]int64, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m[key]++
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// line is how it goes, in a line.
func (r *report) line() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d requests, %d snapshots, %d faults, %d kills, %d promises broken", r.requests, r.published, sum(r.faults), sum(r.kills), sum(r.breaches))
}

// print prints the table, in Markdown.
func (r *report) print(w io.Writer, c *cli) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	row := func(name string, format string, args ...any) {
		fmt.Fprintf(t, "| %s\t| %s\t|\n", name, fmt.Sprintf(format, args...))
	}
	row("soak", "%v, seed %d, %d assets", c.Duration, c.Seed, c.Assets)
	row("---", "---")
	row("requests", "%d", r.requests)
	for _, status := range slices.Sorted(maps.Keys(r.statuses)) {
		row(fmt.Sprintf("answers of status %d", status), "%d", r.statuses[status])
	}
	row("cut off by a kill", "%d", r.cut)
	row("snapshots published", "%d", r.published)
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		row("faults: "+kind, "%d", r.faults[kind])
	}
	for _, program := range slices.Sorted(maps.Keys(r.kills)) {
		row("kill -9: "+program, "%d", r.kills[program])
	}
	if n := len(r.recoveries); n > 0 {
		slices.Sort(r.recoveries)
		row("recoveries", "%d, median %.1f s, longest %.1f s", n, r.recoveries[n/2].Seconds(), r.recoveries[n-1].Seconds())
	}
	slices.SortFunc(r.usage, func(a, b usage) int { return cmp.Compare(a.edge, b.edge) })
	for _, u := range r.usage {
		row(u.edge+": resident memory", "%s", over(u.resident))
		row(u.edge+": live heap", "%s", over(u.live))
		row(u.edge+": goroutines, open files", "%.0f, %.0f at the start, %.0f, %.0f at the end", u.first[metricGoroutines], u.first[metricFiles], u.last[metricGoroutines], u.last[metricFiles])
	}
	for _, p := range promises {
		row(p, "%d", r.breaches[p])
	}
	_ = t.Flush() // to a terminal or a buffer
	for _, e := range r.examples {
		fmt.Fprintln(w, e)
	}
}
