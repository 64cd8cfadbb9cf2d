package loadtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/loadtest/streams"
)

// TestWrongStreams checks that violations of INTERFACE.md are found.
func TestWrongStreams(t *testing.T) {
	const event = "event: snapshot\nid: 2026-11-21T10:10:00Z\ndata: {\"snapshot_time\":\"2026-11-21T10:10:00Z\"}\n\n"
	for body, wrong := range map[string]bool{
		"retry: 2000\n\n:\n\n" + event + ": bye\n\n": false,
		event:                             true,
		"retry: 1\n\n":                    true,
		"retry: 2000\n\n" + event + event: true,
		"retry: 2000\n\n" + strings.Replace(event, "10:00Z", "00:00", 1): true,
		"retry: 2000\n\n" + strings.Replace(event, "_time", "", 1):       true,
		"retry: 2000\n\n" + strings.Repeat("x", 300):                     true,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == streams.Path {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, body)
			}
		}))
		lt := must.Get(New(t.Context(), Options{URLs: []string{srv.URL}, Targets: []string{"GET /"}}))(t)
		// The stream ends before the run does.
		run, err := lt.Run(
			t.Context(), Load{Duration: 200 * time.Millisecond, Timeout: 10 * time.Second, Connections: 1, Streams: 1})
		srv.Close()
		must.OK(t, err)
		if (run.Checks.Wrong > 0) != wrong || (run.Exit == ExitWrong) != wrong ||
			wrong == (run.Streams.Failures["ended"] > 0) {
			t.Errorf("%q: exit %d, %+v, %+v", body, run.Exit, run.Streams, run.Checks.Findings)
		}
	}
}
