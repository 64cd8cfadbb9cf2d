package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"
)

var ok = must.OK

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape returns all values by name and labels, such as builder_builds_total{outcome="failed"}.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	res := httptest.NewRecorder()
	m.ServeHTTP(res, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return values(t, res.Body.Bytes())
}

func values(t *testing.T, body []byte) map[string]float64 {
	t.Helper()
	problems, err := promlint.New(bytes.NewReader(body)).Lint()
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v, %v", problems, err)
	}
	got := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		if at := strings.LastIndexByte(line, ' '); !strings.HasPrefix(line, "#") {
			got[line[:at]], err = strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
			ok(t, err)
		}
	}
	return got
}

// build makes a snapshot of a simulated market.
func build(ctx context.Context, t *testing.T, store artifacts.Store, assets int, at time.Time,
) (*builder.Report, error) {
	market := must.Get(sim.Open(ctx, fmt.Sprintf("?assets=%d&seed=3", assets)))(t)
	b, err := builder.New(builder.Config{
		Store: buildtest.Signed(store), Source: market, Guards: builder.DefaultGuards, Log: buildtest.Discard,
		Now: func() time.Time { return at },
	})
	ok(t, err)
	return b.Build(ctx, at)
}

// TestBuilt checks the metrics of real builds with every outcome but a lost race.
func TestBuilt(t *testing.T) {
	store := memstore.New()
	at := time.Date(2026, 3, 4, 5, 10, 0, 0, time.UTC)
	m := New()
	now := time.Unix(1_700_000_000, 0)
	m.now = func() time.Time { return now }
	m.Found(at.Add(-time.Hour), 7)
	got := scrape(t, m)
	if v := got["builder_snapshot_timestamp_seconds"]; v != float64(at.Add(-time.Hour).Unix()) ||
		got["builder_snapshot_sequence"] != 7 {
		t.Errorf("found: %v, sequence %v", v, got["builder_snapshot_sequence"])
	}
	if age := time.Since(time.Unix(int64(got["builder_last_success_timestamp_seconds"]), 0)); age < 0 ||
		age > time.Minute {
		t.Errorf("the start is no success: %v ago", age)
	}
	for _, outcome := range outcomes {
		if v, ok := got[fmt.Sprintf("builder_builds_total{outcome=%q}", outcome)]; !ok || v != 0 {
			t.Errorf("%s does not begin at 0", outcome)
		}
	}

	first := must.Get(build(t.Context(), t, store, 60, at))(t)
	left := 5
	first.Quota = &source.Quota{Source: "coingecko", Limit: 12, Used: 7, Left: &left}
	first.StaleParts = 2
	first.Parts = []source.Part{
		{Name: "coins", Fetched: at.Add(-time.Hour), Failures: 3},
		{Name: "tickers", Quotes: true, Newest: at.Add(-time.Hour), Every: time.Minute},
		{Name: "prices", Quotes: true, Untimed: true},
	}
	m.Built(first, nil)
	got = scrape(t, m)
	for name, want := range map[string]float64{
		`builder_builds_total{outcome="published"}`:                 1,
		"builder_build_duration_seconds_count":                      1,
		`builder_rows{collection="assets"}`:                         float64(first.Counts["assets"]),
		`builder_rejected_rows{file="assets.ndjson"}`:               float64(first.Rejected["assets.ndjson"]),
		`builder_tolerated_values{kind="unknown_member"}`:           float64(first.UnknownMembers),
		`builder_part_newest_timestamp_seconds{part="tickers"}`:     float64(at.Add(-time.Hour).Unix()),
		`builder_part_interval_seconds{part="tickers"}`:             60,
		`builder_part_fetched_timestamp_seconds{part="coins"}`:      float64(at.Add(-time.Hour).Unix()),
		`builder_part_failures{part="coins"}`:                       3,
		`builder_part_failures{part="tickers"}`:                     0,
		`builder_part_untimed{part="tickers"}`:                      0,
		`builder_part_untimed{part="prices"}`:                       1,
		`builder_source_calls{source="coingecko"}`:                  7,
		`builder_source_calls_left{source="coingecko"}`:             5,
		"builder_stale_parts_total":                                 2,
		"builder_objects_written_total":                             float64(first.ObjectsWritten),
		"builder_bytes_written_total":                               float64(first.BytesWritten),
		"builder_snapshot_sequence":                                 1,
		"builder_snapshot_timestamp_seconds":                        float64(at.Unix()),
		"builder_last_success_timestamp_seconds":                    1_700_000_000,
		`builder_build_step_duration_seconds_count{step="swap"}`:    1,
		`builder_build_step_duration_seconds_count{step="compute"}`: 1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if _, ok := got[`builder_part_newest_timestamp_seconds{part="coins"}`]; ok {
		t.Error("a part whose age is not known has one")
	}
	// The list of steps has exactly the steps of a build.
	for _, s := range first.Steps {
		if !slices.Contains(steps, s.Step) {
			t.Errorf("step %s is not in the list", s.Step)
		}
	}
	if len(first.Steps) != len(steps) {
		t.Errorf("%d steps, %d in the list", len(first.Steps), len(steps))
	}

}

// TestOutcomes checks the outcomes of builds after the first one.
func TestOutcomes(t *testing.T) {
	store := memstore.New()
	at := time.Date(2026, 3, 4, 5, 10, 0, 0, time.UTC)
	m := New()
	m.Built(build(t.Context(), t, store, 60, at))
	m.now = func() time.Time { return time.Unix(1_700_003_600, 0) }
	m.Built(build(t.Context(), t, store, 60, at))
	m.Built(build(t.Context(), t, store, 60, at.Add(-time.Hour)))
	m.Built(build(t.Context(), t, store, 12, at.Add(time.Hour))) // most assets are gone
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	m.Built(build(stopped, t, store, 60, at.Add(time.Hour)))
	m.Built(&builder.Report{}, errors.New("feed: no route to host"))
	m.Built(&builder.Report{}, fmt.Errorf("publish: %w", &publish.LostError{}))
	m.Built(&builder.Report{Forced: []string{"x", "y"}}, context.DeadlineExceeded)
	got := scrape(t, m)
	for name, want := range map[string]float64{
		`builder_builds_total{outcome="published"}`:  1,
		`builder_builds_total{outcome="unchanged"}`:  1,
		`builder_builds_total{outcome="guarded"}`:    1,
		`builder_builds_total{outcome="superseded"}`: 2,
		`builder_builds_total{outcome="failed"}`:     2,
		"builder_forced_guards_total":                2,
		"builder_last_success_timestamp_seconds":     1_700_003_600, // the time of the unchanged build
		"builder_snapshot_sequence":                  1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// TestJobs checks the metrics of the other jobs.
func TestJobs(t *testing.T) {
	m := New()
	m.now = func() time.Time { return time.Unix(1_700_000_000, 5e8) }
	failure := errors.New("no")
	for _, err := range []error{nil, failure, failure, context.Canceled} {
		if got := m.Job(Change, func(context.Context) error { return err })(t.Context()); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	m.Collected(nil)
	m.Collected(&upkeep.GCReport{Kept: 7, Deleted: 3, DeletedBytes: 99})
	m.Collected(&upkeep.GCReport{Kept: 1, Deleted: 3, DeletedBytes: 99, DryRun: true})
	got := scrape(t, m)
	if age := time.Since(time.Unix(int64(got[`builder_job_last_success_timestamp_seconds{name="gc"}`]), 0)); age < 0 ||
		age > time.Minute {
		t.Errorf("the start is no success of gc: %v ago", age)
	}
	for name, want := range map[string]float64{
		`builder_jobs_total{name="change",outcome="done"}`:          1,
		`builder_jobs_total{name="change",outcome="failed"}`:        2,
		`builder_jobs_total{name="gc",outcome="failed"}`:            0,
		`builder_job_duration_seconds_count{name="change"}`:         3,
		`builder_job_last_success_timestamp_seconds{name="change"}`: 1_700_000_000.5,
		"builder_gc_deleted_objects_total":                          3,
		"builder_gc_deleted_bytes_total":                            99,
		"builder_gc_kept_objects":                                   7,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
}

// TestServe serves over a socket until the context is done.
func TestServe(t *testing.T) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- New().Serve(ctx, ln, slog.New(slog.DiscardHandler)) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, []byte) {
		res := must.Get(client.Get("http://" + ln.Addr().String() + path))(t)
		defer res.Body.Close()
		b := must.Get(io.ReadAll(res.Body))(t)
		return res.StatusCode, b
	}
	if status, b := get("/metrics"); status != http.StatusOK || values(t, b)["go_goroutines"] < 1 {
		t.Errorf("%d: %s", status, b)
	}
	if status, b := get("/livez"); status != http.StatusOK || string(b) != "ok\n" {
		t.Errorf("%d: %s", status, b)
	}
	if status, _ := get("/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("another path: %d", status)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := New().Serve(t.Context(), ln, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a listener that is closed serves")
	}
}
