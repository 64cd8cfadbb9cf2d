// Package metrics exports the metrics of an edge to Prometheus (edge/README.md, "Listeners", /metrics).
//
// The parts of an edge keep most counters themselves, and a scrape reads them (collector.go), so that
// requests do not bear the cost of metrics. Only answers are counted here: Metrics.Observe keeps several
// copies of each counter and distributes the connections over them, so that cores do not write to the same
// memory (observe.go).
//
// Names follow the Prometheus conventions: the prefix edge_, base units, and _total for counters. Label
// values come from lists in this package and in the packages that it uses, never from a client.
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

// maxScrapes bounds the number of concurrent scrapes.
const maxScrapes = 4

// Sources are the parts of an edge that a scrape reads. All are required, except Watcher, Fallback, Limits
// and ClockSkew.
type Sources struct {
	Engine    *reply.Engine
	Refresher *snapshot.Refresher
	Cache     *shards.Cache
	// Watcher is nil if authentication is off. In that case, there are no key metrics.
	Watcher *auth.Watcher
	// Floor knows which small objects the store has lost.
	Floor *floor.Floor
	// Fallback reads the fallback store. It is nil if there is none.
	Fallback *fallback.Reader
	// Limits is nil if limits are not shared. In that case, there are no metrics for shared limits.
	Limits *limit.Shared
	// ClockSkew returns how far this machine's clock is ahead of the store's, and whether that is known. It
	// may be nil.
	ClockSkew func() (skew time.Duration, known bool)
	// Coins reports whether the CoinGecko-compatible endpoints are enabled.
	Coins bool
	// Connections is called only during scrapes. So the server, which needs Metrics.Observe, may be created
	// after the Metrics.
	Connections func() server.Stats
}

// Metrics counts answers, and serves all metrics to Prometheus as an http.Handler. It is safe for concurrent
// use.
type Metrics struct {
	began   time.Time
	answers answers
	swapLag prometheus.Histogram
	swap    prometheus.Histogram
	// activation covers only snapshots with an activation time.
	activation prometheus.Histogram
	handler    http.Handler
}

// swapBounds are the upper bounds of the buckets of the swap histograms, in seconds. The objective is 10 s.
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

// Observe counts an answer; see server.Config.
func (m *Metrics) Observe(o server.Observation) { m.answers.observe(&o) }

// Swapped counts a snapshot that became current.
//
// If the pointer moved before the edge started, the lag counts from the edge's start. If the clocks disagree
// and the lag is negative, it counts as 0.
func (m *Metrics) Swapped(s snapshot.Swap) {
	lag := max(0, min(s.Lag, time.Since(m.began)))
	m.swapLag.Observe(lag.Seconds())
	m.swap.Observe(s.Work.Seconds())
	if s.Timed {
		m.activation.Observe(lag.Seconds())
	}
}
