// Package result defines the results of runs: the figures that run.json stores, the rules for their validity,
// thresholds, and the comparison of two runs.
package result

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/streams"
	"github.com/HdrHistogram/hdrhistogram-go"
)

// Format is the version of run.json that this release writes, and Kind identifies such files.
//
// Version 1 (November 2026) is the first.
const (
	Format = 1
	Kind   = "loadtest-run"
)

// Schema is the JSON schema (draft 2020-12) of run.json.
//
//go:embed run.schema.json
var Schema []byte

// Run is the result of a run. JSON fields whose names end in _ms are in milliseconds, and fields whose names
// end in _s are in seconds. Rates are in requests a second.
type Run struct {
	Format      int       `json:"format"`
	Kind        string    `json:"kind"`
	Tool        Tool      `json:"tool"`
	Machine     Machine   `json:"machine"`
	Started     time.Time `json:"started"`
	DurationS   float64   `json:"duration_s"`
	Interrupted bool      `json:"interrupted"`
	// Aborted describes the condition that ended the run early, including the measured value. It is empty if
	// no condition ended the run.
	Aborted  string   `json:"aborted,omitempty"`
	Setup    Setup    `json:"setup"`
	Requests Requests `json:"requests"`
	Rate     Rate     `json:"rate"`
	// Due is the latency from when a request was due, and Service the latency from when it was sent. In a
	// closed loop they are equal. Lag is the send lag, which is the time between these two moments. Connect
	// is how long it took to open connections.
	Due       Latency      `json:"due"`
	Service   Latency      `json:"service"`
	Lag       Latency      `json:"lag"`
	Connect   Latency      `json:"connect"`
	Classes   []Class      `json:"classes"`
	Series    []Point      `json:"series"`
	Swaps     []check.Swap `json:"swaps"`
	Checks    check.Report `json:"checks"`
	Streams   *Streams     `json:"streams,omitempty"` // nil if the run had no streams
	Generator Generator    `json:"generator"`
	Validity  Validity     `json:"validity"`
	// Thresholds are the requested thresholds with their outcomes.
	Thresholds []Threshold `json:"thresholds"`
	// Exit is the exit status of the run.
	Exit int `json:"exit"`
}

// Tool identifies the version of the load tester.
type Tool struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// Machine describes the machine on which the load tester ran.
type Machine struct {
	OS   string  `json:"os"`
	Arch string  `json:"arch"`
	CPUs float64 `json:"cpus"` // the number of processors that the program may use
}

// Setup describes what was requested. It contains no keys.
type Setup struct {
	URLs []string `json:"urls"`
	// Mode is open or closed.
	Mode        string  `json:"mode"`
	Arrivals    string  `json:"arrivals,omitempty"`
	Stages      string  `json:"stages,omitempty"`
	Connections int     `json:"connections"`
	TimeoutS    float64 `json:"timeout_s"`
	WarmupS     float64 `json:"warmup_s"`
	Seed        uint64  `json:"seed"`
	// Traffic is the name of the scenario or of the targets file, or the first target if there is no file.
	Traffic string `json:"traffic"`
	// TrafficDigest distinguishes scenarios or targets with the same name.
	TrafficDigest string  `json:"traffic_digest,omitempty"`
	CheckShare    float64 `json:"check_share"`
	Oracle        bool    `json:"oracle"`
	Label         string  `json:"label,omitempty"`
}

// Requests are counts over the whole run, without the warm-up.
type Requests struct {
	Asked    uint64 `json:"asked"`
	InTime   uint64 `json:"in_time"`
	Sent     uint64 `json:"sent"`
	Answered uint64 `json:"answered"` // requests that got a correct answer
	// Failed is the number of requests without a correct answer, including Unsent. Failures contains the
	// number of failures for each reason.
	Failed       uint64            `json:"failed"`
	Unsent       uint64            `json:"unsent"`
	Waited       uint64            `json:"waited"`
	Retried      uint64            `json:"retried"`
	Connections  uint64            `json:"connections"`
	BytesRead    uint64            `json:"bytes_read"`
	BytesWritten uint64            `json:"bytes_written"`
	Failures     map[string]uint64 `json:"failures"`
	Statuses     map[string]uint64 `json:"statuses"`
}

// Rate is in requests a second: the requested rate, the achieved rate (sent in time), and the rate of correct
// answers.
type Rate struct {
	Asked    float64 `json:"asked"`
	Achieved float64 `json:"achieved"`
	Answered float64 `json:"answered"`
}

// Latency is a distribution of times.
type Latency struct {
	Count  int64   `json:"count"`
	MinMS  float64 `json:"min_ms"`
	MeanMS float64 `json:"mean_ms"`
	P50MS  float64 `json:"p50_ms"`
	P75MS  float64 `json:"p75_ms"`
	P90MS  float64 `json:"p90_ms"`
	P95MS  float64 `json:"p95_ms"`
	P99MS  float64 `json:"p99_ms"`
	P999MS float64 `json:"p999_ms"`
	MaxMS  float64 `json:"max_ms"`
	// Histogram is an HdrHistogram in nanoseconds, V2 compressed, base64.
	Histogram string `json:"histogram"`
}

// Class contains the figures of a kind of request.
type Class struct {
	Name     string            `json:"name"`
	Sent     uint64            `json:"sent"`
	Failed   uint64            `json:"failed"`
	Failures map[string]uint64 `json:"failures"`
	Statuses map[string]uint64 `json:"statuses"`
	Due      Latency           `json:"due"`
	Service  Latency           `json:"service"`
}

// Point contains the figures for a part of the run, usually a second. A request counts in the point in which
// its answer arrived.
type Point struct {
	StartS    float64 `json:"start_s"`
	EndS      float64 `json:"end_s"`
	Sent      uint64  `json:"sent"`
	Answered  uint64  `json:"answered"`
	Failed    uint64  `json:"failed"`
	BytesRead uint64  `json:"bytes_read"`
	Due       Latency `json:"due"`
	LagP99MS  float64 `json:"lag_p99_ms"`
	CPUShare  float64 `json:"cpu_share"`
}

// Streams contains the figures of the event streams (package streams) that were open during the load,
// including its warm-up. Late is the time from when a snapshot should become current until its event arrives;
// it is nil without a store. Apart is the time since the first event for the snapshot arrived on any stream.
// Neither counts events that only state the current snapshot when a stream opens.
type Streams struct {
	Count    int               `json:"count"`
	Opened   uint64            `json:"opened"`
	Open     int               `json:"open"` // at the end
	Failures map[string]uint64 `json:"failures"`
	Events   uint64            `json:"events"`
	Missed   uint64            `json:"missed"`
	Early    uint64            `json:"early"` // events before their snapshot was due, which count as 0 in Late
	Late     *Latency          `json:"late,omitempty"`
	Apart    Latency           `json:"apart"`
}

// Hold adds the figures of the event streams to the run, and adds wrong events to its findings.
func (r *Run) Hold(s *streams.Result) error {
	if s.Count == 0 {
		return nil
	}
	out := &Streams{Count: s.Count, Opened: s.Opened, Open: s.Open, Failures: map[string]uint64{}, Events: s.Events,
		Missed: s.Missed, Early: s.Early}
	for f, n := range s.Failures {
		out.Failures[string(f)] = n
	}
	if n := s.Failures[engine.FailWrong]; n > 0 {
		r.Checks.Wrong += n
		r.Checks.Findings = append(r.Checks.Findings, check.Finding{Kind: check.Stream, Count: n,
			Examples: []check.Example{{Target: streams.Path, Status: 200, Detail: s.Wrong}}})
	}
	var err error
	if s.Late != nil {
		out.Late = &Latency{}
		if *out.Late, err = newLatency(s.Late); err != nil {
			return err
		}
	}
	if out.Apart, err = newLatency(s.Apart); err != nil {
		return err
	}
	r.Streams = out
	return nil
}

// Generator is the processor time that the load tester itself used.
type Generator struct {
	CPUS     float64 `json:"cpu_s"`
	CPUShare float64 `json:"cpu_share"` // share of the processors that it may use
}

// Validity says whether the figures are trustworthy.
type Validity struct {
	Valid   bool     `json:"valid"`
	Reasons []string `json:"reasons"`
}

func ms(ns float64) float64 { return round(ns / 1e6) }

// round rounds to six decimals, so that run.json contains no noise.
func round(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', 6, 64), 64)
	if err != nil {
		return 0 // not reached: a formatted number can be parsed
	}
	return r
}

// newLatency returns the figures of a histogram whose values are nanoseconds.
func newLatency(h *hdrhistogram.Histogram) (Latency, error) {
	b, err := h.EncodeV2()
	if err != nil {
		return Latency{}, fmt.Errorf("encode histogram: %w", err)
	}
	l := Latency{Count: h.TotalCount(), Histogram: string(b)}
	if l.Count == 0 {
		return l, nil
	}
	q := func(q float64) float64 { return ms(float64(h.ValueAtQuantile(q))) }
	l.MinMS, l.MeanMS, l.MaxMS = ms(float64(h.Min())), ms(h.Mean()), ms(float64(h.Max()))
	l.P50MS, l.P75MS, l.P90MS, l.P95MS, l.P99MS, l.P999MS = q(50), q(75), q(90), q(95), q(99), q(99.9)
	return l, nil
}

// Hist decodes the distribution's histogram.
func (l *Latency) Hist() (*hdrhistogram.Histogram, error) {
	h, err := hdrhistogram.Decode([]byte(l.Histogram))
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	return h, nil
}

// New returns the result of a run. It judges the validity without thresholds; see Judge.
func New(setup Setup, tool Tool, e *engine.Result, c *check.Report) (*Run, error) {
	r := &Run{
		Format: Format, Kind: Kind, Tool: tool, Machine: Machine{runtime.GOOS, runtime.GOARCH, e.CPUs},
		Started: e.Start.UTC().Truncate(time.Millisecond), DurationS: round(e.Length.Seconds()),
		Interrupted: e.Interrupted, Setup: setup,
		Requests: Requests{
			Asked: e.Asked, InTime: e.InTime, Unsent: e.Unsent, Waited: e.Waited, Retried: e.Retried,
			Connections: e.Connections,
			BytesRead:   e.Read, BytesWritten: e.Written, Failures: map[string]uint64{}, Statuses: map[string]uint64{},
		},
		Classes: []Class{}, Series: []Point{}, Thresholds: []Threshold{},
	}
	due, service := engine.NewHistogram(), engine.NewHistogram()
	for i := range e.Classes {
		k, err := r.class(&e.Classes[i])
		if err != nil {
			return nil, err
		}
		r.Classes = append(r.Classes, k)
		due.Merge(e.Classes[i].Due)
		service.Merge(e.Classes[i].Service)
	}
	q := &r.Requests
	q.Answered = q.Sent - q.Failed
	q.Failed += e.Unsent
	if e.Unsent > 0 {
		q.Failures[string(engine.FailUnsent)] = e.Unsent
	}
	if s := e.Length.Seconds(); s > 0 {
		r.Rate = Rate{round(float64(q.Asked) / s), round(float64(q.InTime) / s), round(float64(q.Answered) / s)}
	}
	for _, l := range []struct {
		to   *Latency
		from *hdrhistogram.Histogram
	}{{&r.Due, due}, {&r.Service, service}, {&r.Lag, e.Lag}, {&r.Connect, e.Connect}} {
		var err error
		if *l.to, err = newLatency(l.from); err != nil {
			return nil, err
		}
	}
	for _, iv := range e.Intervals {
		d, err := newLatency(iv.Due)
		if err != nil {
			return nil, err
		}
		r.Series = append(r.Series, Point{
			StartS: round(iv.Start.Seconds()), EndS: round(iv.End.Seconds()), Sent: iv.Sent, Answered: iv.Answered,
			Failed: iv.Failed, BytesRead: iv.Read,
			Due: d, LagP99MS: ms(float64(iv.LagP99)), CPUShare: round(iv.CPU),
		})
	}
	r.Generator.CPUS = round(e.CPU.Seconds())
	if w := e.Wall.Seconds() * e.CPUs; w > 0 {
		r.Generator.CPUShare = round(e.CPU.Seconds() / w)
	}
	r.checks(c, e.Start)
	r.Validity = r.judge()
	return r, nil
}

func (r *Run) class(c *engine.ClassResult) (Class, error) {
	k := Class{Name: c.Name, Sent: c.Sent, Failures: map[string]uint64{}, Statuses: map[string]uint64{}}
	for f, n := range c.Failures {
		k.Failures[string(f)] = n
		k.Failed += n
		r.Requests.Failures[string(f)] += n
	}
	for status, n := range c.Statuses {
		k.Statuses[strconv.Itoa(status)] = n
		r.Requests.Statuses[strconv.Itoa(status)] += n
	}
	r.Requests.Sent += k.Sent
	r.Requests.Failed += k.Failed
	var err error
	if k.Due, err = newLatency(c.Due); err != nil {
		return k, err
	}
	k.Service, err = newLatency(c.Service)
	return k, err
}

func (r *Run) checks(c *check.Report, start time.Time) {
	since := func(m *check.Moment) { *m = check.Moment{AtS: max(0, round(m.At.Sub(start).Seconds()))} }
	r.Checks, r.Swaps = *c, append([]check.Swap{}, c.Swaps...) // a list in JSON must not be null
	r.Checks.Findings, r.Checks.Swaps = append([]check.Finding{}, c.Findings...), nil
	r.Checks.Wrong += r.Requests.Failures[string(engine.FailWrong)]
	for i := range r.Swaps {
		since(&r.Swaps[i].Moment)
	}
	for i := range r.Checks.Findings {
		for k := range r.Checks.Findings[i].Examples {
			since(&r.Checks.Findings[i].Examples[k].Moment)
		}
	}
}

// Measured yields the complete points after the warm-up. It skips points that start during the warm-up, and a
// last point that is too short to be compared with the others.
func (r *Run) Measured() iter.Seq[*Point] {
	return func(yield func(*Point) bool) {
		for i := range r.Series {
			p := &r.Series[i]
			whole := p.StartS >= r.Setup.WarmupS && p.EndS-p.StartS >= 0.5*(r.Series[0].EndS-r.Series[0].StartS)
			if whole && !yield(p) {
				return
			}
		}
	}
}

// Errors returns the share of the due requests that failed. It includes wrong answers that were found only
// after they had been counted as answered.
func (r *Run) Errors() float64 {
	if r.Requests.Asked == 0 {
		return 0
	}
	failed := r.Requests.Failed - r.Requests.Failures[string(engine.FailWrong)] + r.Checks.Wrong
	return float64(failed) / float64(r.Requests.Asked)
}

// Closed reports whether the run was a closed loop.
func (r *Run) Closed() bool { return r.Setup.Mode == "closed" }

// Encode returns the result as JSON.
func (r *Run) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// Read reads and parses a run.json file.
func Read(file string) (*Run, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// Parse parses the JSON of a result. It returns an error if this release does not know the kind or format.
func Parse(b []byte) (*Run, error) {
	var head struct {
		Kind   string `json:"kind"`
		Format int    `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, err
	}
	if head.Kind != Kind || head.Format != Format {
		return nil, fmt.Errorf(
			"kind %q, format %d: this release reads %q, format %d", head.Kind, head.Format, Kind, Format)
	}
	r := &Run{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, err
	}
	lists := []*Latency{&r.Due, &r.Service, &r.Lag, &r.Connect}
	for i := range r.Classes {
		lists = append(lists, &r.Classes[i].Due, &r.Classes[i].Service)
	}
	for i := range r.Series {
		if i > 0 && r.Series[i].StartS < r.Series[i-1].StartS {
			return nil, fmt.Errorf("series: point %d is before the one before it", i)
		}
		lists = append(lists, &r.Series[i].Due)
	}
	if s := r.Streams; s != nil {
		if lists = append(lists, &s.Apart); s.Late != nil {
			lists = append(lists, s.Late)
		}
	}
	for _, l := range lists {
		if _, err := l.Hist(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// HGRM returns the latencies from the due time in milliseconds, in the text format of HdrHistogram's
// plotters.
func (r *Run) HGRM() ([]byte, error) {
	h, err := r.Due.Hist()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := h.PercentilesPrint(&b, 5, 1e6); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// SortedKeys returns the keys of m by descending count. Keys with equal counts are in alphabetical order.
func SortedKeys(m map[string]uint64) []string {
	return slices.SortedFunc(
		maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
}
