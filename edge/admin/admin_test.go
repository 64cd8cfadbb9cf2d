package admin

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{
		NotReady: func() string { return "" }, Status: func() Status { return Status{Status: Healthy, State: "VALID"} }}
	if change != nil {
		change(&cfg)
	}
	return must.Get(New(cfg))(t)
}

// ask sends a request from the given peer address and returns the answer.
func ask(s *Server, method, target, peer string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr, r.Host = peer, "127.0.0.1:9090"
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	return w
}

const here, there = "127.0.0.1:1", "192.0.2.1:1"

func TestReady(t *testing.T) {
	var reason atomic.Value
	reason.Store("no snapshot yet")
	s := newServer(t, func(cfg *Config) { cfg.NotReady = func() string { return reason.Load().(string) } })
	step := func(status int, line string) {
		t.Helper()
		w := ask(s, "GET", "/readyz", there)
		if w.Code != status || w.Body.String() != line+"\n" {
			t.Errorf("/readyz: %d %q, want %d %q", w.Code, w.Body, status, line)
		}
		for _, path := range []string{"/livez", "/healthz"} {
			if w := ask(s, "GET", path, there); w.Code != 200 {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	}
	step(503, "no snapshot yet")
	reason.Store("")
	step(200, "ready")
	s.SetDraining()
	step(503, "draining")
}

func TestStatus(t *testing.T) {
	when := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := newServer(t, func(cfg *Config) {
		cfg.Status = func() Status {
			return Status{Status: Degraded, State: "INTERRUPTED", Since: when, LastError: "read current: timeout",
				LastErrorAt: when, Sequence: 7, SnapshotTime: when, AgeSeconds: 90,
				Caches: map[string]int{"shards": 1}, Keys: map[string]int{"in_force": 2}}
		}
	})
	s.SetDraining()
	w := ask(s, "GET", "/status", there)
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%v: %s", err, w.Body)
	}
	for name, want := range map[string]any{
		"status": "degraded", "state": "INTERRUPTED", "since": "2026-11-21T12:00:00Z",
		"last_error": "read current: timeout", "last_error_at": "2026-11-21T12:00:00Z",
		"sequence": 7.0, "snapshot_time": "2026-11-21T12:00:00Z", "age_seconds": 90.0, "draining": true,
		"not_ready": "draining",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if got["keys"].(map[string]any)["in_force"] != 2.0 || got["caches"].(map[string]any)["shards"] != 1.0 {
		t.Errorf("status %v", got)
	}
	s = newServer(t, func(cfg *Config) { cfg.Status = func() Status { return Status{Caches: func() {}} } })
	if w := ask(s, "GET", "/status", there); w.Code != 500 {
		t.Errorf("a status that cannot be written: %d", w.Code)
	}
}

func TestMetrics(t *testing.T) {
	if w := ask(newServer(t, nil), "GET", "/metrics", there); w.Code != 404 {
		t.Errorf("without metrics: %d", w.Code)
	}
	s := newServer(t, func(cfg *Config) {
		cfg.Metrics = http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "edge_up 1\n") })
	})
	if w := ask(s, "GET", "/metrics", there); w.Code != 200 || w.Body.String() != "edge_up 1\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// TestProfiles checks that only clients on this machine get profiles, unless Pprof is set.
func TestProfiles(t *testing.T) {
	closed, open := newServer(t, nil), newServer(t, func(cfg *Config) { cfg.Pprof = true })
	for _, path := range []string{
		"/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/heap", "/debug/pprof/symbol"} {
		for _, c := range []struct {
			s    *Server
			peer string
			want int
		}{{closed, here, 200}, {closed, "[::1]:1", 200}, {closed, "[::ffff:127.0.0.1]:1", 200}, {closed, there, 403},
			{closed, "[2001:db8::1]:1", 403}, {closed, "", 403}, {open, there, 200}} {
			if w := ask(c.s, "GET", path, c.peer); w.Code != c.want {
				t.Errorf("%s from %q: %d, want %d", path, c.peer, w.Code, c.want)
			}
		}
	}
}

func TestOther(t *testing.T) {
	s := newServer(t, nil)
	for target, want := range map[string]int{
		"/": 404, "/openapi/v1/assets": 404, "/readyz/": 404, "/debug/pprof/cmdline": 404} {
		if w := ask(s, "GET", target, here); w.Code != want {
			t.Errorf("%s: %d, want %d", target, w.Code, want)
		}
	}
	if w := ask(s, "POST", "/readyz", here); w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
	if w := ask(s, "HEAD", "/readyz", here); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New takes an empty configuration")
	}
}

// TestServe serves over a real connection, and checks that Close ends the listener.
func TestServe(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	s := newServer(t, nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	res := must.Get(client.Get("http://" + ln.Addr().String() + "/livez"))(t)
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || strings.TrimSpace(string(body)) != "ok" || !res.Close {
		t.Errorf("%q, %v, close %v", body, err, res.Close)
	}
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := client.Get("http://" + ln.Addr().String() + "/livez"); err == nil {
		t.Error("still there after Close")
	}
}

// TestHost checks that the listener accepts IP addresses, localhost and the configured names. It also accepts
// HTTP/1.0 requests without a Host, which health checks send.
func TestHost(t *testing.T) {
	s := newServer(t, func(cfg *Config) { cfg.Hosts = []string{"edge1", "edge.internal"} })
	for _, host := range []string{"127.0.0.1:9090", "192.0.2.1", "[::1]:9090", "[2001:db8::1]", "localhost",
		"LocalHost:9090", "edge1", "edge1:9090", "EDGE.internal", ""} {
		r := httptest.NewRequest("GET", "/readyz", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if s.http.Handler.ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("Host %q: %d", host, w.Code)
		}
	}
	for _, host := range []string{"evil.test", "evil.test:9090", "edge2", "edge1.evil.test", "localhost.evil.test",
		"127.0.0.1.evil.test", "127.0.0.1:9090:evil.test", " ", ":9090", "[localhost]x"} {
		for _, path := range []string{"/livez", "/readyz", "/status", "/metrics", "/debug/pprof/", "/nowhere"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host, r.RemoteAddr = host, here
			w := httptest.NewRecorder()
			if s.http.Handler.ServeHTTP(w, r); w.Code != 421 || !strings.Contains(w.Body.String(), "--admin-host") {
				t.Errorf("Host %q, %s: %d %s", host, path, w.Code, w.Body)
			}
		}
	}
	for _, bad := range []string{"", "edge1:9090", "http://edge1", "a b"} {
		if _, err := New(Config{NotReady: s.cfg.NotReady, Status: s.cfg.Status, Hosts: []string{bad}}); err == nil {
			t.Errorf("host %q was taken", bad)
		}
	}
}
