// Package metrics implements the Prometheus metrics of builder run: durations and outcomes of
// builds and other jobs, and the time of each job's last success.
//
// A single failed build does no harm, since the published snapshot stays in place. Monitor
// builder_last_success_timestamp_seconds, which detects both builds that fail and builds that hang.
// A builder that is not running has no series, but edges report the snapshot's age.
//
// Names follow the Prometheus conventions: the prefix builder_, base units, and _total for
// counters. The code lists all label values, except the names of providers, files and their parts.
package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"example.com/marketdata/builder"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/registry"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// The outcomes of a build.
const (
	published  = "published"  // it published a new snapshot
	unchanged  = "unchanged"  // the same snapshot was already published
	guarded    = "guarded"    // a guard rail stopped it
	superseded = "superseded" // its time was already published, or was withdrawn
	failed     = "failed"     // any other outcome
)

// The jobs of Metrics.Job. Their label is "name", since Prometheus itself uses "job".
const (
	Change = "change"
	GC     = "gc"
)

var (
	outcomes = []string{published, unchanged, guarded, superseded, failed}
	steps    = []string{
		builder.StepOpen, builder.StepRead, builder.StepCompute, builder.StepObjects, builder.StepHistory,
		publish.StepSync, publish.StepManifest, publish.StepSwap, publish.StepLog,
	}
	// stepBounds are the upper bounds of the buckets, in seconds. A step takes seconds for 20,000
	// assets and minutes for a million. builder.BuildDeadline ends every build.
	stepBounds = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
)

// Metrics counts what a builder does, and serves it to Prometheus as an
// http.Handler. It is safe for concurrent use.
type Metrics struct {
	handler http.Handler
	now     func() time.Time

	builds, jobs                                           *prometheus.CounterVec
	buildTime                                              prometheus.Histogram
	stepTime, jobTime                                      *prometheus.HistogramVec
	rows, rejected, tolerated, calls, callsLeft            *prometheus.GaugeVec
	partNewest, partEvery, partFetched                     *prometheus.GaugeVec
	partFailures, partUntimed, jobSuccess                  *prometheus.GaugeVec
	staleParts, forced, objects, bytes                     prometheus.Counter
	deleted, deletedBytes                                  prometheus.Counter
	missing, lease, sequence, snapshot, lastSuccess, stays prometheus.Gauge
	logBehind                                              prometheus.Gauge
	// A vector without labels, so that no series exists until a time is set.
	backup *prometheus.GaugeVec
}

// factory registers metrics.
type factory struct{ promauto.Factory }

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func (f factory) histogram(name, help string) prometheus.Histogram {
	return f.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: stepBounds})
}

func (f factory) histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: stepBounds}, labels)
}

// New returns the Metrics of a builder.
func New() *Metrics {
	registry := registry.New("builder")
	f := factory{promauto.With(registry)}
	m := &Metrics{
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}),
		now:     time.Now,

		builds: f.counters("builder_builds_total",
			"Builds by outcome. A repeated build counts again; one that was stopped with the builder does not count.",
			"outcome"),
		buildTime: f.histogram("builder_build_duration_seconds", "Duration of a build, whatever its outcome."),
		stepTime:  f.histograms("builder_build_step_duration_seconds", "Duration of a step of a build.", "step"),
		rows:      f.gauges("builder_rows", "Rows of the last feed that were accepted, by collection.", "collection"),
		rejected:  f.gauges("builder_rejected_rows", "Rows of the last feed that were set aside, by file.", "file"),
		tolerated: f.gauges("builder_tolerated_values",
			"Values of the last feed that were left out without setting their row aside.", "kind"),
		calls: f.gauges("builder_source_calls",
			"Calls to a provider in the last 32 days, as far as the cache folder remembers.", "source"),
		callsLeft: f.gauges("builder_source_calls_left", "Calls left in the quota; absent without a quota.",
			"source"),
		partNewest: f.gauges("builder_part_newest_timestamp_seconds",
			"Newest time that the provider gives in a part of a live source, in Unix seconds.", "part"),
		partEvery: f.gauges("builder_part_interval_seconds",
			"Interval between requests for that part, as the quota allows; 0: each feed requests it.", "part"),
		partFetched: f.gauges("builder_part_fetched_timestamp_seconds",
			"Time at which the data in use of a part of a live source was fetched, in Unix seconds.", "part"),
		partFailures: f.gauges("builder_part_failures",
			"Consecutive failures of a part of a live source; its last good rows are used meanwhile.", "part"),
		partUntimed: f.gauges("builder_part_untimed",
			"1 while no row of a live source's prices has a usable time, so that their age is unknown.",
			"part"),
		staleParts: f.counter("builder_stale_parts_total",
			"Unavailable parts of a live source whose last good rows were used again."),
		forced: f.counter("builder_forced_guards_total",
			"Guard rails overridden by --allow, by --force or because the last snapshot is damaged."),
		missing: f.gauge("builder_missing_objects",
			"Objects of the published snapshot that were missing from the store when it was built."),
		logBehind: f.gauge("builder_log_behind",
			"1 while the log of a signed store lacks the snapshot that this builder published last."),
		objects: f.counter("builder_objects_written_total", "Immutable objects put, manifests included."),
		bytes:   f.counter("builder_bytes_written_total", "Bytes of the immutable objects put."),
		lease: f.gauge("builder_lease_held",
			"1 while this builder holds the store's lease and works, 0 while it waits for the lease."),
		sequence: f.gauge("builder_snapshot_sequence",
			"Sequence of the last snapshot that this builder published or found published; 0: none."),
		snapshot: f.gauge("builder_snapshot_timestamp_seconds", "Time of that snapshot, in Unix seconds; 0: none."),
		lastSuccess: f.gauge("builder_last_success_timestamp_seconds",
			"Time at which a build last published its snapshot or found it published, in Unix seconds; before the "+
				"first one, the time at which the builder began to work."),
		backup: f.gauges("builder_backup_snapshot_timestamp_seconds",
			"Time of the snapshot in the backup that --backup names, in Unix seconds; 0: none was found."),
		jobs:    f.counters("builder_jobs_total", "Runs of the other jobs, by outcome.", "name", "outcome"),
		jobTime: f.histograms("builder_job_duration_seconds", "Duration of a run of another job.", "name"),
		jobSuccess: f.gauges("builder_job_last_success_timestamp_seconds",
			"Time at which a job last succeeded, in Unix seconds; before that, when the builder began to work.",
			"name"),

		deleted:      f.counter("builder_gc_deleted_objects_total", "Objects and manifests deleted by gc."),
		deletedBytes: f.counter("builder_gc_deleted_bytes_total", "Bytes deleted by gc."),
		stays:        f.gauge("builder_gc_kept_objects", "Objects and manifests that the last gc left in the store."),
	}
	m.begin()
	// rate() misses the first failure unless the series exists before it.
	for _, outcome := range outcomes {
		m.builds.WithLabelValues(outcome)
	}
	for _, step := range steps {
		m.stepTime.WithLabelValues(step)
	}
	for _, job := range []string{Change, GC} {
		m.jobs.WithLabelValues(job, "done")
		m.jobs.WithLabelValues(job, "failed")
		m.jobTime.WithLabelValues(job)
	}
	return m
}

// begin sets the times of the last success to now, since a builder that has just started or taken
// over has not failed yet.
func (m *Metrics) begin() {
	m.lastSuccess.Set(unix(m.now()))
	for _, job := range []string{Change, GC} {
		m.jobSuccess.WithLabelValues(job).Set(unix(m.now()))
	}
}

// Lease sets the lease metric.
func (m *Metrics) Lease(held bool) {
	m.lease.Set(0)
	if held {
		m.begin()
		m.lease.Set(1)
	}
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Serve serves /metrics, and /livez for process supervisors, on ln until ctx is done, and then
// returns nil. It returns an error if serving fails. Errors on individual connections go to log.
func (m *Metrics) Serve(ctx context.Context, ln net.Listener, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n")) // the client may have disconnected
	})
	server := &http.Server{
		Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	// Close interrupts a running scrape. This does no harm, since Prometheus soon scrapes again.
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Built counts a build. r and err are the results of Builder.Build. A build that ended because the
// builder is stopping does not count.
func (m *Metrics) Built(r *builder.Report, err error) {
	outcome := outcomeOf(r, err)
	if outcome == "" {
		return
	}
	m.builds.WithLabelValues(outcome).Inc()
	m.buildTime.Observe(float64(r.DurationMS) / 1e3)
	for _, s := range r.Steps {
		m.stepTime.WithLabelValues(s.Step).Observe(float64(s.MS) / 1e3)
	}
	for collection, n := range r.Counts {
		m.rows.WithLabelValues(collection).Set(float64(n))
	}
	for file, n := range r.Rejected {
		m.rejected.WithLabelValues(file).Set(float64(n))
	}
	if q := r.Quota; q != nil {
		m.calls.WithLabelValues(q.Source).Set(float64(q.Used))
		if q.Left != nil {
			m.callsLeft.WithLabelValues(q.Source).Set(float64(*q.Left))
		}
	}
	if r.SnapshotTime != "" { // the feed was read
		m.tolerated.WithLabelValues("unknown_member").Set(float64(r.UnknownMembers))
		m.tolerated.WithLabelValues("unknown_native").Set(float64(r.UnknownNatives))
		m.tolerated.WithLabelValues("bad_data_time").Set(float64(r.BadDataTimes))
	}
	for _, p := range r.Parts {
		if !p.Newest.IsZero() {
			m.partNewest.WithLabelValues(p.Name).Set(unix(p.Newest))
		}
		if !p.Fetched.IsZero() {
			m.partFetched.WithLabelValues(p.Name).Set(unix(p.Fetched))
		}
		if !p.Newest.IsZero() || !p.Fetched.IsZero() {
			m.partEvery.WithLabelValues(p.Name).Set(p.Every.Seconds())
		}
		m.partFailures.WithLabelValues(p.Name).Set(float64(p.Failures))
		if p.Quotes {
			m.partUntimed.WithLabelValues(p.Name).Set(map[bool]float64{true: 1}[p.Untimed])
		}
	}
	m.staleParts.Add(float64(r.StaleParts))
	m.forced.Add(float64(len(r.Forced)))
	m.objects.Add(float64(r.ObjectsWritten))
	m.bytes.Add(float64(r.BytesWritten))
	if outcome != published && outcome != unchanged {
		return
	}
	if t, err := time.Parse(time.RFC3339, r.SnapshotTime); err == nil {
		m.Found(t, r.Sequence)
	}
	if r.Published {
		m.missing.Set(float64(r.MissingObjects))
		m.logBehind.Set(map[bool]float64{true: 1}[r.LogError != ""])
	}
	m.lastSuccess.Set(unix(m.now()))
}

// Backup sets the time of the snapshot that the backup holds; the Unix epoch means that none was found.
func (m *Metrics) Backup(t time.Time) { m.backup.WithLabelValues().Set(float64(t.Unix())) }

// Found records the time and the sequence of the published snapshot. It is needed because a
// restarted builder may not build for a while.
func (m *Metrics) Found(t time.Time, sequence uint64) {
	m.snapshot.Set(float64(t.Unix()))
	m.sequence.Set(float64(sequence))
}

// outcomeOf returns the outcome of a build, or "" if it was stopped.
func outcomeOf(r *builder.Report, err error) string {
	var lost *publish.LostError
	switch {
	case err == nil && r.Published:
		return published
	case err == nil:
		return unchanged
	case errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, builder.ErrGuard):
		return guarded
	case errors.Is(err, builder.ErrOlder), errors.Is(err, builder.ErrOther), errors.Is(err,
		builder.ErrWithdrawn), errors.As(err, &lost):
		return superseded
	}
	return failed
}

// Job returns a function that calls f and records its outcome and duration. job is Change or GC.
func (m *Metrics) Job(job string, f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		began := time.Now()
		err := f(ctx)
		switch {
		case err == nil:
			m.jobs.WithLabelValues(job, "done").Inc()
			m.jobSuccess.WithLabelValues(job).Set(unix(m.now()))
		case errors.Is(err, context.Canceled):
			return err
		default:
			m.jobs.WithLabelValues(job, "failed").Inc()
		}
		m.jobTime.WithLabelValues(job).Observe(time.Since(began).Seconds())
		return err
	}
}

// Collected counts the objects that a gc run deleted. r is nil if gc failed.
func (m *Metrics) Collected(r *upkeep.GCReport) {
	if r == nil || r.DryRun {
		return
	}
	m.deleted.Add(float64(r.Deleted))
	m.deletedBytes.Add(float64(r.DeletedBytes))
	m.stays.Set(float64(r.Kept))
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
