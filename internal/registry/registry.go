// Package registry creates the Prometheus registry of a program.
package registry

import (
	"runtime"

	"example.com/marketdata/internal/buildinfo"
	"example.com/marketdata/internal/logs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// New returns a registry with the metrics of the Go runtime and of the process,
// <program>_log_lines_dropped_total, and <program>_build_info. The latter is always 1, with labels
// for the module's version, the revision and the version of Go.
func New(program string) *prometheus.Registry {
	version, revision := buildinfo.Read()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: program + "_build_info", Help: "Always 1; the labels identify the program that is running.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()},
	})
	info.Set(1)
	r := prometheus.NewRegistry()
	dropped := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: program + "_log_lines_dropped_total",
		Help: "Lines of the log that were dropped, because nobody read them or they could not be written.",
	}, func() float64 { return float64(logs.Dropped()) })
	r.MustRegister(info, dropped)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
