package loadtest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/internal/test/faultedge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"example.com/marketdata/loadtest/pace"
	"example.com/marketdata/loadtest/result"
)

func TestKeys(t *testing.T) {
	const object = `{"id":"a","key":"k1","name":"x","rate":100,"created":"2026-11-01T12:00:00Z","expires":null}`
	file := filepath.Join(t.TempDir(), "keys")
	for _, tc := range []struct {
		text, want string // "" means that the file is refused
	}{
		{"k1\nk2\n", "a b k1 k2"}, {"k1", "a b k1"}, {"# of two clients\r\nk1\r\n\r\n  k2  \r\n", "a b k1 k2"},
		{object, "a b k1"}, {object + "\n" + strings.Replace(object, "k1", "k2", 1) + "\n", "a b k1 k2"},
		{"[" + object + "," + object + "]", "a b k1 k1"},
		{"", ""}, {"\n# none\n", ""}, {"hidden key", ""}, {"hidden,key", ""}, {"hidd\x01en", ""}, {`{"hidden":1}`, ""},
		{`{"key":"hidden"`, ""}, {`{"key":"hidden"}{"name":"x"}`, ""}, {`["hidden"]`, ""}, {`{"key":7}`, ""},
	} {
		must.OK(t, os.WriteFile(file, []byte(tc.text), 0o600))
		o := Options{Keys: []string{"a", " b"}, KeysFile: file}
		keys, err := o.keys()
		if got := strings.Join(keys, " "); got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%q: %q, %v", tc.text, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), file)) {
			t.Errorf("%q: %v", tc.text, err)
		}
	}
	for _, keys := range [][]string{{""}, {"a", " "}, {"a\nb"}} {
		if got, err := (&Options{Keys: keys}).keys(); err == nil {
			t.Errorf("%q are %q", keys, got)
		}
	}
}

func TestHeaderRefused(t *testing.T) {
	for text, want := range map[string]string{
		"Authorization": "want 'Name: value'", ": x": "want 'Name: value'", "A B: x": "want 'Name: value'",
		"A: x\r\nB: y": "want 'Name: value'", "host: x": "frames", "content-length: 3": "frames",
		"X-API-KEY: k": "--keys-file", "accept-encoding: gzip": "which answer", "Range: bytes=0-1": "which answer",
	} {
		_, err := New(t.Context(), Options{URLs: []string{"http://127.0.0.1:1"}, Targets: []string{"GET /"},
			Headers: []string{text}})
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	o := Options{Headers: []string{"A: x", "a: y"}}
	if _, err := o.header(); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("twice: %v", err)
	}
}

// requests records the header of each request that a server receives.
type requests struct {
	mu  sync.Mutex
	all []http.Header
}

func (q *requests) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q.mu.Lock()
		q.all = append(q.all, r.Header)
		q.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// TestHeaderAndKeys checks that every request, including requests for the directory, has the header fields,
// and that each key is sent equally often.
func TestHeaderAndKeys(t *testing.T) {
	store := memstore.New()
	teststore.PublishAwkward(t, store, 30, t0, 1)
	api := faultedge.Start(t, store)
	api.Break("takes-any-key")
	for name, opt := range map[string]Options{
		"scenario": {Scenario: "tickers"}, "targets": {Targets: []string{"GET /openapi/v1/global"}},
	} {
		var got requests
		srv := httptest.NewServer(got.before(api))
		opt.URLs, opt.Keys = []string{srv.URL}, []string{"k1", "k2", "k3"}
		opt.Headers = []string{"x-team: red", "User-Agent: mine/1"}
		tester := must.Get(New(t.Context(), opt))(t)
		directory := len(got.all)
		run := must.Get(tester.Run(t.Context(), Load{Stages: pace.Constant(300, time.Second), Connections: 3,
			Streams: 1, Timeout: 10 * time.Second}))(t)
		srv.Close()
		if run.Requests.Answered != 300 {
			t.Errorf("%s: %d answered, failures %v", name, run.Requests.Answered, run.Requests.Failures)
		}
		keys := map[string]int{}
		for i, h := range got.all {
			stream := h.Get("Accept") == "text/event-stream"
			if !slices.Equal(h["X-Team"], []string{"red"}) || !slices.Equal(h["User-Agent"], []string{"mine/1"}) {
				t.Fatalf("%s: request %d has the header %v", name, i, h)
			}
			if i >= directory && !stream {
				keys[h.Get("X-Api-Key")]++
			}
		}
		if len(keys) != 3 || keys["k1"] != 100 || keys["k2"] != 100 {
			t.Errorf("%s: keys were sent %v times", name, keys)
		}
	}
	target := Options{URLs: []string{"http://127.0.0.1:1"}, Targets: []string{"GET /\nx-team: blue"}, Headers: []string{
		"X-Team: red"}}
	tester := must.Get(New(t.Context(), target))(t)
	if h := tester.targets[0].Header; !slices.Equal(h, []string{"x-team: blue", "User-Agent: loadtest"}) {
		t.Errorf("a target with a field of its own has %q", h)
	}
}

// TestUnknownClass checks that New refuses a threshold on a class without requests before it sends anything.
func TestUnknownClass(t *testing.T) {
	var got requests
	srv := httptest.NewServer(got.before(http.NotFoundHandler()))
	defer srv.Close()
	for text, want := range map[string]string{
		"qoutes:p99<5ms": "did you mean quotes?", "coins:p99<5ms": "want one of quotes, assets,",
		"refusd:errors<1%": "refused",
	} {
		a := must.Get(result.ParseAssertion(text))(t)
		_, err := New(t.Context(), Options{URLs: []string{srv.URL}, Thresholds: []*result.Assertion{a}})
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	a := must.Get(result.ParseAssertion("/a:p99<5ms"))(t)
	opt := Options{URLs: []string{srv.URL}, Thresholds: []*result.Assertion{a}, Targets: []string{"GET /a?x=1"}}
	must.Get(New(t.Context(), opt))(t)
	if len(got.all) > 0 {
		t.Errorf("%d requests were sent", len(got.all))
	}
}
