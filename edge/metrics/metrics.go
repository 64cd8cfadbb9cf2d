// Package metrics is what an edge tells Prometheus
// (edge/README.md, "Listeners", /metrics).
//
// What the answering side counts for itself, or what a request must not pay
// for, is read when Prometheus asks (collector.go). Only the answers are counted
// as they are given: Metrics.Observe has counters that are spread by
// connection, so that cores do not write to each other's memory (observe.go).
//
// Names follow the conventions of Prometheus: the prefix edge_, base units, and
// _total for what only grows. Label values come from lists in this package and
// its neighbours, never from a client.
package metrics

import (
	"net/http"
	"runtime"
	"time"

	"example.com/marketdata/artifacts/fallback"
	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/floor"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/internal/registry"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes bounds the scrapes that are answered at once.
const maxScrapes = 4

// Sources are the parts of an edge that are read at a scrape. All but Watcher,
// Limits and ClockSkew are required.
type Sources struct {
	Engine    *reply.Engine
	Refresher *snapshot.Refresher
	Cache     *shards.Cache
	// Watcher is nil without authentication: there are no metrics of keys then.
	Watcher *auth.Watcher
	// Floor knows which small objects the store has lost.
	Floor *floor.Floor
	// Fallback reads from a second store; nil: there is none.
	Fallback *fallback.Reader
	// Limits is nil when limits are not shared: there are no metrics of it then.
	Limits *limit.Shared
	// ClockSkew returns how far this machine's clock is ahead of the store's, if that
	// is known; nil: it never is.
	ClockSkew func() (skew time.Duration, known bool)
	// Coins: requests of package coingecko are answered.
	Coins bool
	// Connections is called at each scrape, not before: the server that it asks
	// may be made later, with Metrics.Observe.
	Connections func() server.Stats
}

// Metrics counts answers, and serves everything to
// Prometheus, as an http.Handler. It is safe for concurrent use.
type Metrics struct {
	began   time.Time
	answers answers
	swapLag prometheus.Histogram
	swap    prometheus.Histogram
	// activation is of the snapshots that had a time set.
	activation prometheus.Histogram
	handler    http.Handler
}

// swapBounds are the upper bounds of the histograms of swaps, in seconds. The
// objective is 10.
var swapBounds = []float64{.25, .5, 1, 2, 3, 4, 5, 7.5, 10, 15, 30, 60, 120, 300, 600}

// New returns the Metrics of an edge.
func New(src Sources) *Metrics {
	m := &Metrics{
		began: time.Now(),
		swapLag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "edge_snapshot_swap_lag_seconds", Buckets: swapBounds,
			Help: "Time from the pointer's move, by the builder's clock, or from the set time, to the swap, by the edge's clock; from the edge's start if that was later.",
		}),
		activation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "edge_snapshot_activation_delay_seconds",
			Buckets: []float64{.001, .0025, .005, .01, .02, .05, .1, .25, 1, 5, 60},
			Help:    "Time from the set time of a snapshot to when it became current, by this edge's clock.",
		}),
		swap: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "edge_snapshot_swap_duration_seconds", Buckets: swapBounds,
			Help: "Time from when the edge first saw a pointer until its snapshot was ready: fetching, verifying, warming.",
		}),
	}
	m.answers.init(runtime.GOMAXPROCS(0))
	registry := registry.New("edge")
	registry.MustRegister(&answerCollector{&m.answers, src.Coins}, &partsCollector{src}, m.swapLag, m.swap,
		m.activation)
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	return m
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Observe counts an answer: see server.Config.
func (m *Metrics) Observe(o server.Observation) { m.answers.observe(&o) }

// Swapped counts a snapshot that was just taken over.
//
// A pointer may have moved long before the edge started; that time is not the
// swap's. So the lag counts from the edge's start at the earliest, and a lag
// below zero, of clocks that disagree, counts as none.
func (m *Metrics) Swapped(s snapshot.Swap) {
	lag := max(0, min(s.Lag, time.Since(m.began)))
	m.swapLag.Observe(lag.Seconds())
	m.swap.Observe(s.Work.Seconds())
	if s.Timed {
		m.activation.Observe(lag.Seconds())
	}
}
