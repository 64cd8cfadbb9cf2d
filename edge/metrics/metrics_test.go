package metrics

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/follow"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/edge/upstream"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an edge without its listeners.
type rig struct {
	Sources
	*Metrics
	conns server.Stats
	keys  auth.Keys
}

func newRig(t *testing.T, store artifacts.Store, withKeys bool) *rig {
	t.Helper()
	cache := must.Get(shards.New(shards.Config{Store: store, Memory: 1 << 20, Dir: t.TempDir()}))(t)
	r := &rig{conns: server.Stats{Open: 3, Refused: 7}}
	refresher := snapshot.NewRefresher(
		snapshot.Config{Store: store, Cache: cache, Poll: 5 * time.Millisecond})
	engine := reply.New(reply.Config{Refresher: refresher, ResponseMemory: 1 << 20})
	r.Sources = Sources{
		Engine: engine, Refresher: refresher, Cache: cache, Connections: func() server.Stats { return r.conns }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { refresher.Run(ctx, engine.Warm); done <- struct{}{} }()
	if withKeys {
		r.Watcher = auth.NewWatcher(&r.keys, auth.Config{Cells: follow.NewCells(store), Every: 5 * time.Millisecond,
			File: filepath.Join(t.TempDir(), "keys")})
		go func() { r.Watcher.Run(ctx); done <- struct{}{} }()
	} else {
		done <- struct{}{}
	}
	r.Metrics = New(r.Sources)
	t.Cleanup(func() {
		cancel()
		<-done
		<-done
		cache.Close()
	})
	return r
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen: %s", what)
		}
	}
}

type families map[string]*dto.MetricFamily

// scrape requests the metrics as Prometheus does, and checks their names and format with promlint.
func scrape(t *testing.T, h http.Handler) families {
	t.Helper()
	res := httptest.NewRecorder()
	h.ServeHTTP(res, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if res.Code != http.StatusOK || !strings.HasPrefix(res.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%d %v\n%s", res.Code, res.Header(), res.Body)
	}
	problems := must.Get(promlint.New(bytes.NewReader(res.Body.Bytes())).Lint())(t)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	got := must.Get(parser.TextToMetricFamilies(res.Body))(t)
	return got
}

// value returns the value of the only metric of a family with the given labels. labels contains names and
// values in turn.
func (f families) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	var found []*dto.Metric
	if f[name] != nil {
	metrics:
		for _, m := range f[name].Metric {
			for i := 0; i < len(labels); i += 2 {
				if label(m, labels[i]) != labels[i+1] {
					continue metrics
				}
			}
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		t.Errorf("%s %v: %d metrics", name, labels, len(found))
		return -1
	}
	switch m := found[0]; {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	default:
		return float64(m.Histogram.GetSampleCount())
	}
}

// TestScrape checks that the metrics reflect the parts of an edge, before the first snapshot and after the
// second one.
func TestScrape(t *testing.T) {
	store := memstore.New()
	r := newRig(t, store, true)
	until(t, "a poll", func() bool { return r.Refresher.State() != nil && r.Watcher.Status().State == upstream.Valid })
	got := scrape(t, r)
	if got.value(t, "edge_snapshot_sequence") != 0 || got["edge_snapshot_age_seconds"] != nil ||
		got["edge_snapshot_timestamp_seconds"] != nil {
		t.Error("a snapshot before there is one")
	}
	if got.value(t, "edge_keys_in_force") != 0 || got.value(t, "edge_keys_state", "state",
		string(upstream.Valid)) != 1 || got.value(t, "edge_keys_state", "state", string(upstream.Initializing)) != 0 {
		t.Error("keys of a store that has none")
	}

	teststore.Publish(t, store, teststore.NewFeed(300, 1), teststore.Start)
	at := teststore.Start.Add(artifacts.Step)
	teststore.Publish(t, store, teststore.NewFeed(300, 2), at)
	until(t, "the snapshot", func() bool {
		s := r.Refresher.State()
		return s.Snapshot != nil && s.Snapshot.Time.Equal(at) && r.Refresher.Status().Missing == 0 &&
			r.Refresher.Status().State == upstream.Valid &&
			r.Refresher.Counters.NotModified.Load() > 0
	})
	r.Swapped(snapshot.Swap{Lag: 3 * time.Second, Work: time.Second, Timed: true})
	r.Observe(server.Observation{Route: 1, Status: 200, Bytes: 10, Duration: time.Millisecond})
	before := time.Now()
	got = scrape(t, r)
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"edge_snapshot_sequence", nil, 2},
		{"edge_snapshot_timestamp_seconds", nil, float64(at.Unix())},
		{"edge_snapshot_state", []string{"state", "VALID"}, 1},
		{"edge_snapshot_state", []string{"state", "INITIALIZING"}, 0},
		{"edge_snapshot_state", []string{"state", "INTERRUPTED"}, 0},
		{"edge_snapshot_missing_objects", nil, 0},
		{"edge_snapshot_swap_lag_seconds", nil, 1},
		{"edge_snapshot_activation_delay_seconds", nil, 1},
		{"edge_snapshot_swap_duration_seconds", nil, 1},
		{"edge_disk_missing_objects", nil, 0},
		{"edge_connections", nil, 3},
		{"edge_connections_waiting", nil, 0},
		{"edge_connections_waiting_bytes", nil, 0},
		{"edge_connections_refused_total", nil, 7},
		{"edge_http_requests_total", []string{"route", "quotes", "code", "200"}, 1},
		{"edge_http_response_bytes_total", []string{"route", "quotes"}, 10},
		{"edge_http_request_duration_seconds", []string{"route", "quotes"}, 1},
		{"edge_build_info", nil, 1},
	} {
		if v := got.value(t, c.name, c.labels...); v != c.want {
			t.Errorf("%s %v is %v, want %v", c.name, c.labels, v, c.want)
		}
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if got.value(t, name) <= 0 {
			t.Errorf("%s is not above 0", name)
		}
	}
	if age := got.value(t, "edge_snapshot_age_seconds"); age < before.Sub(at).Seconds() ||
		age > time.Since(at).Seconds() {
		t.Errorf("age is %v", age)
	}
	if confirmed := got.value(t, "edge_keys_confirmed_timestamp_seconds"); confirmed > float64(time.Now().Unix()+1) ||
		confirmed < float64(before.Add(-time.Minute).Unix()) {
		t.Errorf("keys were confirmed at %v", confirmed)
	}
}

// TestEveryCounter checks that every counter of the refresher, the cache and the engine is exported under its
// own name.
func TestEveryCounter(t *testing.T) {
	r := newRig(t, memstore.New(), false)
	until(t, "a poll", func() bool { return r.Refresher.State() != nil })
	names := map[string]string{
		"Polls": "edge_polls_total", "PollErrors": "edge_poll_errors_total",
		"NotModified": "edge_polls_not_modified_total",
		"Swaps":       "edge_snapshot_swaps_total", "Refused": "edge_snapshot_refused_total",
		"SwapLag": "edge_snapshot_last_swap_lag_seconds",
		"Fetches": "edge_store_fetches_total", "FetchErrors": "edge_store_fetch_errors_total",
		"FetchBytes": "edge_store_fetch_bytes_total",
		"Corrupt":    "edge_corrupt_total", "DiskReads": "edge_disk_reads_total",
		"DiskErrors": "edge_disk_errors_total", "ChunkErrors": "edge_file_chunk_errors_total",
		"DiskBytes":    "edge_disk_bytes",
		"MemoryMisses": "edge_shard_cache_misses_total", "Loads": "edge_shard_loads_total",
		"Admitted": "edge_response_cache_admitted_total", "Evicted": "edge_response_cache_evicted_total",
		"SwapWork": "", "Activation": "", // Swapped adds them to histograms
	}
	// The values are far apart, because the refresher continues to count during the test.
	value := int64(0)
	want := map[string]int64{}
	for _, counters := range []any{&r.Refresher.Counters, &r.Engine.Responses, &r.Cache.Counters} {
		v := reflect.ValueOf(counters).Elem()
		for i := range v.NumField() {
			c, ok := v.Field(i).Addr().Interface().(*atomic.Int64)
			name, known := names[v.Type().Field(i).Name]
			if !ok || !known {
				t.Errorf("%v.%s has no metric", v.Type(), v.Type().Field(i).Name)
				continue
			}
			value += 1e9
			c.Store(value)
			want[name] = value
		}
	}
	delete(want, "")
	got := scrape(t, r)
	for name, want := range want {
		v := got.value(t, name)
		if name == "edge_snapshot_last_swap_lag_seconds" {
			v *= 1e9
		}
		if v < float64(want) || v > float64(want)+1e6 {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "edge_keys_") {
			t.Errorf("%s without authentication", name)
		}
	}
}

// TestTotals checks that the engine's totals are exported.
func TestTotals(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(300, 1), teststore.Start)
	r := newRig(t, store, false)
	until(t, "the snapshot", func() bool { s := r.Refresher.State(); return s != nil && s.Snapshot != nil })
	for _, raw := range []string{"size=7", "size=7", "size=7", "size=8", "slug=asset-1,asset-2"} {
		req := &reply.Request{Now: time.Now()}
		if err := req.Query.Parse(query.Quotes, []byte(raw)); err != nil {
			t.Fatal(err)
		}
		if p := r.Engine.Answer(req); p != nil {
			t.Fatalf("%s: %+v", raw, p)
		}
	}
	got, totals := scrape(t, r), r.Engine.Totals()
	entries, size := r.Engine.Finished()
	if totals.Composed != 4 || totals.Hits != 1 || entries != 1 || size < 1000 || totals.Shards < 4 ||
		totals.Rows < 24 {
		t.Fatalf("%+v", totals)
	}
	for name, want := range map[string]int64{
		"edge_response_cache_misses_total": totals.Composed, "edge_response_cache_hits_total": totals.Hits,
		"edge_response_cache_admitted_total": 1,
		"edge_response_cache_entries":        1, "edge_response_cache_bytes": size,
		"edge_response_cache_warmed_total": 0,
		"edge_shard_reads_total":           totals.Shards, "edge_rows_visited_total": totals.Rows,
	} {
		if v := got.value(t, name); v != float64(want) {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if n := reflect.TypeFor[reply.Totals]().NumField(); n != 4 {
		t.Errorf("reply.Totals has %d fields", n)
	}
}

// TestSwapped checks that time before the edge's start does not count as swap lag, and that clocks that
// disagree do not cause a negative lag.
func TestSwapped(t *testing.T) {
	r := newRig(t, memstore.New(), false)
	r.began = time.Now().Add(-time.Minute)
	for _, lag := range []time.Duration{-time.Hour, 2 * time.Second, 10 * time.Second, time.Hour} {
		r.Swapped(snapshot.Swap{Lag: lag, Work: time.Second})
	}
	got := scrape(t, r)
	h := got["edge_snapshot_swap_lag_seconds"].Metric[0].Histogram
	within := map[float64]uint64{}
	for _, b := range h.Bucket {
		within[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	if h.GetSampleCount() != 4 || within[.25] != 1 || within[2] != 2 || within[10] != 3 || within[30] != 3 ||
		within[120] != 4 {
		t.Errorf("%v", h)
	}
}

// TestClockSkew checks that the clock skew is exported only when it is known.
func TestClockSkew(t *testing.T) {
	r := newRig(t, memstore.New(), false)
	known := false
	r.Sources.ClockSkew = func() (time.Duration, bool) { return -90 * time.Minute, known }
	r.Metrics = New(r.Sources)
	if got := scrape(t, r); got["edge_clock_skew_seconds"] != nil {
		t.Errorf("before it is known: %v", got["edge_clock_skew_seconds"])
	}
	known = true
	if v := scrape(t, r).value(t, "edge_clock_skew_seconds"); v != -5400 {
		t.Errorf("%v", v)
	}
}
