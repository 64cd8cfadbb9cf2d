package metrics

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/engine"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestMetrics(t *testing.T) {
	m := New(2 * time.Second)
	scrape := func() string {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	if body := scrape(); !strings.Contains(body, "loadtest_requests_in_flight 0\n") {
		t.Errorf("before the run: %s", body)
	}
	for i := range 5 { // two of the warm-up
		due := engine.NewHistogram()
		for _, d := range []time.Duration{400 * time.Microsecond, 7 * time.Millisecond, 30 * time.Second} {
			engine.Record(due, d)
		}
		n := uint64(max(0, i-1))
		m.Tick(&loadtest.Progress{DueRate: 4000, Wrong: n, Interval: &engine.Interval{
			Start: time.Duration(i) * time.Second, Due: due, InFlight: 12 + i, Classes: []engine.ClassResult{
				{Name: "quotes", Statuses: map[int]uint64{200: 10 * n, 503: n}, Failures: map[engine.Failure]uint64{
					engine.FailStatus: n, engine.FailTimeout: 2 * n, engine.FailWrong: n}},
				{Name: "/a", Statuses: map[int]uint64{200: n}},
			}}})
	}
	body := scrape()
	for name, want := range map[string]string{
		`requests_total{class="quotes",code="200"}`: "30", `requests_total{class="quotes",code="503"}`: "3",
		`requests_total{class="quotes",code="timeout"}`: "6", `requests_total{class="/a",code="200"}`: "3",
		`request_duration_seconds_bucket{le="0.0005"}`: "3", `request_duration_seconds_bucket{le="0.005"}`: "3",
		`request_duration_seconds_bucket{le="0.01"}`: "6", `request_duration_seconds_bucket{le="10"}`: "6",
		`request_duration_seconds_bucket{le="+Inf"}`: "9", `request_duration_seconds_count`: "9",
		`requests_in_flight`: "16", `due_requests_per_second`: "4000", `wrong_answers_total`: "3",
	} {
		if line := fmt.Sprintf("\nloadtest_%s %s\n", name, want); !strings.Contains(body, line) {
			t.Errorf("no%sin\n%s", line, body)
		}
	}
	if strings.Contains(body, `code="wrong"`) || strings.Contains(body, `code="status"`) {
		t.Errorf("requests are counted twice:\n%s", body)
	}
	for _, p := range must.Get(promlint.New(strings.NewReader(body)).Lint())(t) {
		if strings.HasPrefix(p.Metric, "loadtest_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
