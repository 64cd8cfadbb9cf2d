//go:build !race

package metrics

import (
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/edge/server"
)

func newCounting() *Metrics {
	m := new(Metrics)
	m.answers.init(64)
	return m
}

// TestAllocations checks that counting an answer of any kind allocates nothing.
func TestAllocations(t *testing.T) {
	m := newCounting()
	for _, o := range []server.Observation{
		{Status: 200, Bytes: 5000, Duration: 20 * time.Microsecond, KeyID: "k", Conn: 7},
		{Route: server.RouteUnread, Status: 431, Duration: time.Hour},
		{Route: 200, Status: -1, Bytes: -1, Duration: -1, Conn: 1 << 63},
		{Status: 429},
	} {
		if n := testing.AllocsPerRun(100, func() { m.Observe(o) }); n != 0 {
			t.Errorf("%+v: %v allocations", o, n)
		}
	}
}

// BenchmarkObserve measures the cost of counting an answer, with one connection and with one on each core.
func BenchmarkObserve(b *testing.B) {
	observation := server.Observation{
		Route: 1, Status: 200, Bytes: 5000, Duration: 20 * time.Microsecond, KeyID: "0123456789abcdef"}
	b.Run("one", func(b *testing.B) {
		observer := newCounting()
		b.ReportAllocs()
		for b.Loop() {
			observer.Observe(observation)
		}
	})
	b.Run("all", func(b *testing.B) {
		observer := newCounting()
		var conns atomic.Uint64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			o := observation
			o.Conn = conns.Add(1)
			for pb.Next() {
				observer.Observe(o)
			}
		})
	})
	// All cores use the same stripe, which shows the benefit of several stripes.
	b.Run("all on one stripe", func(b *testing.B) {
		observer := newCounting()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				observer.Observe(observation)
			}
		})
	})
}
