package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/internal/test/faultedge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/pace"
	"example.com/marketdata/loadtest/result"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// TestRun runs the mixed scenario with the oracle while snapshots change. The run finds no wrong answers from
// a correct server, and detects faults of other servers.
func TestRun(t *testing.T) {
	for _, tc := range []struct {
		fault string
		wrong bool
	}{{"", false}, {"two-swapped", true}, {"escapes-html", true}, {"long-s-is-no-s", true},
		{"zero-is-refused", false}} {
		t.Run("fault "+tc.fault, func(t *testing.T) {
			store := memstore.New()
			teststore.PublishAwkward(t, store, 80, t0, 1)
			api := faultedge.Start(t, store)
			api.Break(tc.fault)
			var asked atomic.Int64
			var publishing sync.Mutex // the second snapshot may be due while the first is still being published
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n := asked.Add(1); n == 50 || n == 150 {
					publishing.Lock()
					api.Publish(80, uint64(n))
					publishing.Unlock()
				}
				api.ServeHTTP(w, r)
			}))
			defer srv.Close()
			lt := must.Get(New(context.Background(),
				Options{URLs: []string{srv.URL}, Keys: []string{api.Key}, CheckShare: 1, Store: store, Seed: 5}))(t)
			run := must.Get(lt.Run(context.Background(), Load{Stages: pace.Constant(400, 2*time.Second),
				Arrivals: pace.Poisson, Connections: 50, Timeout: 10 * time.Second}))(t)
			if run.Requests.Asked < 300 || run.Checks.Checked < 250 || run.Checks.Compared < 100 ||
				run.Checks.Uncompared != 0 {
				t.Errorf("requests %+v, checks %+v", run.Requests, run.Checks)
			}
			if len(run.Swaps) != 3 {
				t.Errorf("swaps %+v", run.Swaps)
			}
			if (run.Checks.Wrong > 0) != tc.wrong || (run.Exit == ExitWrong) != tc.wrong {
				t.Errorf("%d wrong, exit %d, findings %+v", run.Checks.Wrong, run.Exit, run.Checks.Findings)
			}
			if run.Setup.Traffic != "mixed" || run.Setup.Mode != "open" ||
				strings.Contains(fmt.Sprint(run.Setup), api.Key) {
				t.Errorf("setup %+v", run.Setup)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "targets")
	must.OK(t, os.WriteFile(file, []byte("GET "+srv.URL+"/a\nGET "+srv.URL+"/b\n"), 0o600))
	lt, err := New(context.Background(), Options{TargetsFile: file})
	if err != nil || len(lt.endpoints) != 1 || lt.name != "targets" {
		t.Errorf("URL of the targets: %v", err)
	}
	for name, opt := range map[string]Options{
		"nothing":         {},
		"bad URL":         {URLs: []string{"nowhere"}, Targets: []string{"GET /"}},
		"no URL":          {Targets: []string{"GET /"}},
		"two hosts":       {Targets: []string{"GET http://a/", "GET http://b/"}},
		"both targets":    {URLs: []string{srv.URL}, Targets: []string{"GET /"}, TargetsFile: file},
		"no file":         {URLs: []string{srv.URL}, TargetsFile: file + "x"},
		"no scenario":     {URLs: []string{srv.URL}, Scenario: "none"},
		"share":           {URLs: []string{srv.URL}, Targets: []string{"GET /"}, CheckShare: 2},
		"key":             {URLs: []string{srv.URL}, Targets: []string{"GET /"}, Keys: []string{"a\nb"}},
		"connections":     {URLs: []string{srv.URL}, Targets: []string{"GET /"}}, // the error is in the load below
		"stages":          {URLs: []string{srv.URL}, Targets: []string{"GET /"}},
		"nothing to load": {URLs: []string{srv.URL}, Targets: []string{"# nothing"}},
	} {
		lt, err := New(context.Background(), opt)
		if err == nil {
			load := Load{Duration: time.Second, Timeout: time.Second}
			if name == "stages" {
				load.Stages, load.Connections = []pace.Stage{{Duration: -1}}, 5
			}
			_, err = lt.Run(context.Background(), load)
		}
		if !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v, want one of usage", name, err)
		}
	}
	// A service that refuses requests is not an error in the options.
	if _, err := New(context.Background(), Options{URLs: []string{srv.URL}}); err == nil || errors.Is(err, ErrUsage) {
		t.Errorf("no directory: %v", err)
	}
}

func TestExit(t *testing.T) {
	good := func() *result.Run {
		return &result.Run{Requests: result.Requests{Answered: 1}, Validity: result.Validity{Valid: true},
			Thresholds: []result.Threshold{{Pass: true}}}
	}
	for name, tc := range map[string]struct {
		change func(*result.Run)
		want   int
	}{
		"fine":                {func(r *result.Run) {}, 0},
		"nothing answered":    {func(r *result.Run) { r.Requests.Answered = 0 }, 1},
		"oracle did nothing":  {func(r *result.Run) { r.Setup.Oracle = true }, 1},
		"oracle did it":       {func(r *result.Run) { r.Setup.Oracle, r.Checks.Compared = true, 1 }, 0},
		"threshold":           {func(r *result.Run) { r.Thresholds = append(r.Thresholds, result.Threshold{}) }, 3},
		"invalid":             {func(r *result.Run) { r.Validity.Valid = false }, 4},
		"invalid, threshold":  {func(r *result.Run) { r.Validity.Valid, r.Thresholds[0].Pass = false, false }, 4},
		"wrong":               {func(r *result.Run) { r.Checks.Wrong = 1 }, 5},
		"wrong and all of it": {func(r *result.Run) { *r = result.Run{Checks: check.Report{Wrong: 1}} }, 5},
	} {
		r := good()
		tc.change(r)
		if got := Exit(r); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
