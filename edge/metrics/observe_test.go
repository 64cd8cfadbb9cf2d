package metrics

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
	"unsafe"

	"example.com/marketdata/edge/server"
	"example.com/marketdata/internal/test/must"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// plain counts the same as answers in a simple, slow way.
type plain struct {
	requests map[[2]string]float64
	seconds  map[string]float64
	within   map[string]map[float64]uint64
	count    map[string]uint64
	bytes    map[string]float64
	limited  map[string]float64
}

func newPlain() *plain {
	return &plain{map[[2]string]float64{}, map[string]float64{}, map[string]map[float64]uint64{}, map[string]uint64{},
		map[string]float64{}, map[string]float64{}}
}

func (p *plain) observe(o server.Observation) {
	route, code := routeName(o.Route), "other"
	for _, s := range []int{200, 204, 206, 304, 400, 401, 404, 405, 408, 410, 412, 413, 416, 429, 431, 499, 500, 503} {
		if o.Status == s {
			code = strconv.Itoa(s)
		}
	}
	p.requests[[2]string{route, code}]++
	p.seconds[route] += max(0, o.Duration.Seconds())
	p.bytes[route] += float64(o.Bytes)
	p.count[route]++
	if p.within[route] == nil {
		p.within[route] = map[float64]uint64{}
	}
	for _, le := range []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5} {
		if o.Duration.Seconds() <= le {
			p.within[route][le]++
		}
	}
	if o.Status == 429 {
		by := "address"
		if o.KeyID != "" {
			by = "key"
		}
		p.limited[by]++
	}
}

func gather(t *testing.T, c prometheus.Collector) map[string]*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families := must.Get(r.Gather())(t)
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// TestObserve checks that concurrent observations from many connections give exactly the counts of plain.
func TestObserve(t *testing.T) {
	var a answers
	a.init(runtime.GOMAXPROCS(0))
	want := newPlain()
	var mu sync.Mutex
	var wg sync.WaitGroup
	statuses := []int{200, 200, 304, 400, 401, 404, 405, 408, 410, 413, 429, 431, 500, 503, 204,
		206, 412, 416, 499, 418, -1, 1000}
	durations := []time.Duration{
		0, 1, -5, 50 * time.Microsecond, 50*time.Microsecond + 1, time.Millisecond, 2500 * time.Millisecond, time.Hour}
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for range 2000 {
				o := server.Observation{
					Route: server.Route(rnd.IntN(routes)), Status: statuses[rnd.IntN(len(statuses))],
					Bytes:    rnd.IntN(100_000),
					Duration: time.Duration(rnd.Int64N(int64(20 * time.Millisecond))), Conn: rnd.Uint64(),
				}
				if rnd.IntN(4) == 0 {
					o.Duration = durations[rnd.IntN(len(durations))]
				}
				if rnd.IntN(2) == 0 {
					o.KeyID = "k"
				}
				a.observe(&o)
				mu.Lock()
				want.observe(o)
				mu.Unlock()
			}
		})
	}
	wg.Wait()

	got := gather(t, answerCollector{&a, true})
	seen := 0
	for _, m := range got["edge_http_requests_total"].Metric {
		key := [2]string{label(m, "route"), label(m, "code")}
		if m.Counter.GetValue() != want.requests[key] {
			t.Errorf("requests %v: %v, want %v", key, m.Counter.GetValue(), want.requests[key])
		}
		if want.requests[key] > 0 {
			seen++
		}
	}
	if seen != len(want.requests) {
		t.Errorf("%d of %d series of requests", seen, len(want.requests))
	}
	if n := len(got["edge_http_request_duration_seconds"].Metric); n != routes {
		t.Errorf("%d histograms", n)
	}
	for _, m := range got["edge_http_request_duration_seconds"].Metric {
		route, h := label(m, "route"), m.Histogram
		if h.GetSampleCount() != want.count[route] {
			t.Errorf("%s: count %d, want %d", route, h.GetSampleCount(), want.count[route])
		}
		if d := h.GetSampleSum() - want.seconds[route]; d > 1e-3 || d < -1e-3 {
			t.Errorf("%s: sum %v, want %v", route, h.GetSampleSum(), want.seconds[route])
		}
		if len(h.Bucket) != 15 || h.Bucket[0].GetUpperBound() != 50e-6 {
			t.Errorf("%s: buckets %v", route, h.Bucket)
		}
		for _, b := range h.Bucket {
			if b.GetCumulativeCount() != want.within[route][b.GetUpperBound()] {
				t.Errorf("%s: %d within %v, want %d", route, b.GetCumulativeCount(), b.GetUpperBound(),
					want.within[route][b.GetUpperBound()])
			}
		}
	}
	for _, m := range got["edge_http_response_bytes_total"].Metric {
		if route := label(m, "route"); m.Counter.GetValue() != want.bytes[route] {
			t.Errorf("%s: %v bytes, want %v", route, m.Counter.GetValue(), want.bytes[route])
		}
	}
	for _, m := range got["edge_http_rate_limited_total"].Metric {
		if by := label(m, "by"); m.Counter.GetValue() != want.limited[by] || want.limited[by] == 0 {
			t.Errorf("limited by %s: %v, want %v", by, m.Counter.GetValue(), want.limited[by])
		}
	}
}

// TestBeginsAtZero checks that the series of expected statuses exist before the first such answer, since
// rate() would otherwise miss it.
func TestBeginsAtZero(t *testing.T) {
	var a answers
	a.init(1)
	got := map[[2]string]bool{}
	for _, m := range gather(t, answerCollector{&a, true})["edge_http_requests_total"].Metric {
		if m.Counter.GetValue() != 0 {
			t.Errorf("%v is not 0", m)
		}
		got[[2]string{label(m, "route"), label(m, "code")}] = true
	}
	for _, want := range [][2]string{
		{"assets", "200"}, {"quotes", "304"}, {"chains", "503"}, {"trending", "500"}, {"global", "404"},
		{"exchanges", "429"}, {"categories", "410"},
		{"files", "206"}, {"files", "416"},
		{"unknown", "404"}, {"unread", "431"}, {"options", "204"}, {"static", "200"},
	} {
		if !got[want] {
			t.Errorf("no series %v", want)
		}
	}
	if got[[2]string{"assets", "404"}] || got[[2]string{"assets", "other"}] {
		t.Error("series of answers that are never given")
	}
}

// TestStripes checks that connections are distributed over the stripes, and that no two stripes share a cache
// line.
func TestStripes(t *testing.T) {
	for cores, want := range map[int]int{1: 16, 2: 16, 4: 16, 5: 32, 64: 128, 1000: 128} {
		var a answers
		a.init(cores)
		if len(a.stripes) != want {
			t.Errorf("%d cores: %d stripes, want %d", cores, len(a.stripes), want)
		}
		for conn := range uint64(2 * want) {
			a.observe(&server.Observation{Status: 200, Conn: conn})
		}
		for i := range a.stripes {
			if n := a.stripes[i].route[0].answers[0][0].Load(); n != 2 {
				t.Errorf("%d cores: stripe %d has %d", cores, i, n)
			}
		}
	}
	var s stripe
	if end := unsafe.Offsetof(s.limitedOther) + unsafe.Sizeof(s.limitedOther); unsafe.Sizeof(s)-end < 128 {
		t.Errorf("only %d bytes between the counters of two stripes", unsafe.Sizeof(s)-end)
	}
}
