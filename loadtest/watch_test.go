package loadtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/loadtest/pace"
	"example.com/marketdata/loadtest/result"
)

// TestWarn checks that a problem that spoils a run is reported after its first second, and only once.
func TestWarn(t *testing.T) {
	limited := func(policy string) http.HandlerFunc {
		var n atomic.Uint64
		return func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%10 == 0 {
				return
			}
			w.Header().Set("RateLimit-Policy", policy)
			w.WriteHeader(429)
		}
	}
	for _, tc := range []struct {
		name    string
		serve   http.HandlerFunc
		keys    []string
		warmup  time.Duration
		want    []string
		nothing bool
	}{
		{"limited", limited(`"default";q=200;w=2`), []string{"a", "b", "a"}, 0,
			[]string{"90 % of the answers are 429", "a key may ask for about 100/s", "for 200/s with 2 keys;",
				"--count 2 "}, false},
		{"no key, in the warm-up", limited(`"default";q=50;w=5`), nil, 1500 * time.Millisecond,
			[]string{"an address without a key may ask for about 10/s", "for 200/s;", "--count 20 "}, false},
		{"another service's policy", limited("100;w=60"), []string{"a"}, 0,
			[]string{"a key has a limit", "--count N "}, false},
		{"failing", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }, nil, 0,
			[]string{"100 % of the requests fail: 503"}, false},
		{"closing", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, nil, 0,
			[]string{"100 % of the requests fail: connection closed"}, false},
		{"fine", func(w http.ResponseWriter, r *http.Request) {}, nil, 0, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(tc.serve)
			defer srv.Close()
			told := make(chan string, 10)
			ticks := 0
			tester := must.Get(New(t.Context(), Options{URLs: []string{srv.URL}, Targets: []string{"GET /"},
				Keys: tc.keys, Warn: func(text string) { told <- fmt.Sprint(ticks, " ticks: ", text) }}))(t)
			must.Get(tester.Run(t.Context(), Load{Stages: pace.Constant(200, 2200*time.Millisecond), Connections: 50,
				Timeout: 10 * time.Second, Warmup: tc.warmup, Tick: func(*Progress) { ticks++ }}))(t)
			close(told)
			text, ok := <-told
			if ok == tc.nothing || ok && !strings.HasPrefix(text, "0 ticks: ") {
				t.Errorf("told %q", text)
			}
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("told %q, want %q in it", text, want)
				}
			}
			if more, ok := <-told; ok {
				t.Errorf("told again: %q", more)
			}
		})
	}
}

// TestAbort checks that the condition is evaluated over the last five seconds after the warm-up.
func TestAbort(t *testing.T) {
	var n atomic.Uint64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%5 == 0 {
			w.WriteHeader(500)
		}
	}))
	defer srv.Close()
	tester := must.Get(New(t.Context(), Options{URLs: []string{srv.URL}, Targets: []string{"GET /"}}))(t)
	run := func(abort string, length time.Duration) *result.Run {
		return must.Get(tester.Run(t.Context(), Load{Stages: pace.Constant(100, length), Connections: 50,
			Timeout: 10 * time.Second, Warmup: 900 * time.Millisecond,
			AbortOn: []*result.Assertion{
				must.Get(result.ParseAbort("wrong>0"))(t), must.Get(result.ParseAbort(abort))(t)}}))(t)
	}
	r := run("errors>1%", time.Hour)
	if !strings.HasPrefix(r.Aborted, "errors>1%: ") || r.Exit != ExitAborted || !r.Interrupted || r.DurationS < 5 ||
		r.DurationS > 60 {
		t.Errorf("aborted %q, exit %d after %v s", r.Aborted, r.Exit, r.DurationS)
	}
	if r := run("errors>50%", 6500*time.Millisecond); r.Aborted != "" || r.Exit == ExitAborted || r.Interrupted {
		t.Errorf("aborted %q, exit %d", r.Aborted, r.Exit)
	}
}
