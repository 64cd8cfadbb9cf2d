// Package metrics has the Prometheus metrics of a run while it lasts. They are brought up to date
// each second, and leave the warm-up out.
package metrics

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"example.com/marketdata/internal/registry"
	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/engine"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

var (
	requestsDesc = prometheus.NewDesc("loadtest_requests_total",
		"Requests that are done with, by class and by the answer's status or, without an answer, the failure.",
		[]string{"class", "code"}, nil)
	durationDesc = prometheus.NewDesc("loadtest_request_duration_seconds",
		"Latency from when a request was due to the end of its answer, timeouts included, other failures not.", nil, nil)
	inFlightDesc = prometheus.NewDesc("loadtest_requests_in_flight", "Requests that wait for their answers.", nil, nil)
	dueDesc      = prometheus.NewDesc("loadtest_due_requests_per_second",
		"Rate of the schedule; 0 in a closed loop.", nil, nil)
	wrongDesc = prometheus.NewDesc("loadtest_wrong_answers_total", "Wrong answers, as far as examined.", nil, nil)
)

// bounds are the upper bounds of the histogram's buckets, in seconds.
var bounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Metrics serves the metrics as an http.Handler. It is safe for concurrent use.
type Metrics struct {
	http.Handler
	warmup time.Duration

	mu      sync.Mutex // all below
	last    *loadtest.Progress
	buckets map[float64]uint64 // cumulative
	count   uint64
	sum     float64
}

// New returns the metrics of a run with the warm-up.
func New(warmup time.Duration) *Metrics {
	m := &Metrics{warmup: warmup, last: &loadtest.Progress{Interval: &engine.Interval{}}, buckets: map[float64]uint64{}}
	r := registry.New("loadtest")
	r.MustRegister(m)
	m.Handler = promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return m
}

// Tick takes the state of the run after a second (loadtest.Load.Tick).
func (m *Metrics) Tick(p *loadtest.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept, iv := *p, *p.Interval // the engine keeps its own for its series
	kept.Interval = &iv
	m.last = &kept
	if p.Start < m.warmup {
		return
	}
	m.count += uint64(p.Due.TotalCount())
	m.sum += p.Due.Mean() * float64(p.Due.TotalCount()) / 1e9
	for _, bar := range p.Due.Distribution() {
		for _, bound := range bounds {
			if bar.Count > 0 && float64(bar.From) <= bound*1e9 {
				m.buckets[bound] += uint64(bar.Count)
			}
		}
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{requestsDesc, durationDesc, inFlightDesc, dueDesc, wrongDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	count := func(n uint64, class, code string) {
		ch <- prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(n), class, code)
	}
	for _, c := range m.last.Classes {
		for status, n := range c.Statuses {
			count(n, c.Name, strconv.Itoa(status))
		}
		for f, n := range c.Failures {
			if f != engine.FailStatus && f != engine.FailWrong { // which have a status
				count(n, c.Name, string(f))
			}
		}
	}
	buckets := map[float64]uint64{}
	for _, bound := range bounds {
		buckets[bound] = m.buckets[bound]
	}
	ch <- prometheus.MustNewConstHistogram(durationDesc, m.count, m.sum, buckets)
	ch <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(m.last.InFlight))
	ch <- prometheus.MustNewConstMetric(dueDesc, prometheus.GaugeValue, m.last.DueRate)
	ch <- prometheus.MustNewConstMetric(wrongDesc, prometheus.CounterValue, float64(m.last.Wrong))
}
