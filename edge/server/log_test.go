package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/snapshot"
)

// logged is a log that a test can read while it is written.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// lines returns the parsed lines with the given message.
func (l *logged) lines(t *testing.T, message string) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for line := range strings.Lines(l.String()) {
		var attrs map[string]any
		if err := json.Unmarshal([]byte(line), &attrs); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if attrs["msg"] == message {
			lines = append(lines, attrs)
		}
	}
	return lines
}

func newLog() (*logged, *slog.Logger) {
	out := new(logged)
	return out, slog.New(slog.NewJSONHandler(out, nil))
}

// TestLog checks what is logged, and that keys and full addresses never are.
func TestLog(t *testing.T) {
	snapshot := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	keys, text := newKeys(t, 1000, 1000)
	out, log := newLog()
	_, addr := start(t, func(cfg *Config) {
		cfg.Keys, cfg.Logger = keys, log
		cfg.Answer = func(r *Request) error {
			r.Asked.Snapshot = snapshot
			switch r.Asked.Query.Endpoint {
			case query.Chains:
				panic("at the disco")
			case query.Quotes:
				return reply.ErrUnavailable
			}
			return stub(r)
		}
	})
	key := "X-Api-Key: " + text
	expect(t, 200, "", ask(t, addr, "GET", assets, key))
	for n, c := range []struct {
		status int
		key    string
		raw    string
	}{
		{503, "SERVICE_UNAVAILABLE", request("GET", "/openapi/v1/quotes", key, "X-Request-Id: fault-1")},
		{500, "INTERNAL_ERROR", request("GET", "/openapi/v1/chains", key, "X-Request-Id: panic-1")},
		{401, "UNAUTHORIZED", request("GET", assets, "X-Api-Key: "+text+"x", "X-Request-Id: evil\" level=ERROR")},
		{404, "PATH_NOT_FOUND", request("GET", "/"+text+"%ff%fe%0a", "X-Request-Id: "+text)},
		// fasthttp would log these bytes itself.
		{400, "BAD_REQUEST", "GET /a\r\nX-Api-Key: " + text + "\r\n\r\n"},
		{400, "BAD_REQUEST", request("GET", assets, key+"\x01")},
	} {
		expect(t, c.status, c.key, dial(t, addr).send(c.raw).receive("GET"))
		until(t, func() bool { return len(out.lines(t, "request")) == n+1 }) // logged after it is written
	}

	lines := out.lines(t, "request")
	var statuses []float64
	for _, line := range lines {
		statuses = append(statuses, line["status"].(float64))
		if line["client"] != "127.0.0.0/24" {
			t.Errorf("client %v", line["client"])
		}
	}
	if want := []float64{503, 500, 401, 404, 400, 400}; !slices.Equal(statuses, want) {
		t.Errorf("logged %v, want %v", statuses, want)
	}
	if l := lines[0]; l["request_id"] != "fault-1" || l["key_id"] != "key-1" || l["route"] != "quotes" ||
		l["level"] != "ERROR" || l["snapshot"] != "2026-11-21T12:00:00Z" || l["duration"] == nil {
		t.Errorf("503: %v", l)
	}
	if l := lines[2]; l["level"] != "INFO" || l["key_id"] != "" || strings.Contains(l["request_id"].(string), "evil") {
		t.Errorf("401: %v", l)
	}
	panics := out.lines(t, "request handler panicked")
	if len(panics) != 1 || panics[0]["request_id"] != "panic-1" || panics[0]["panic"] != "at the disco" ||
		!strings.Contains(panics[0]["stack"].(string), "TestLog") {
		t.Errorf("panics %v", panics)
	}
	if strings.Contains(out.String(), "mdk_live_") || strings.Contains(out.String(), "127.0.0.1") {
		t.Errorf("a key or a full address is in the log:\n%s", out)
	}
}

// TestLogBounded checks that many errors do not cause many log lines.
func TestLogBounded(t *testing.T) {
	out, log := newLog()
	s := newServer(t, Config{Logger: log, Answer: func(*Request) error { return reply.ErrUnavailable }})
	refused, failed := newRequest(t, s, request("GET", "/nowhere")), newRequest(t, s, request("GET", assets))
	start := time.Now()
	for range 5000 {
		for _, r := range []*Request{refused, failed} {
			r.begin(nil)
			r.Asked.Now = time.Now()
			s.handle(r)
			s.observe(r, nil)
		}
	}
	took := time.Since(start).Seconds()
	n := map[float64]int{}
	for _, line := range out.lines(t, "request") {
		n[line["status"].(float64)]++
	}
	if n[404] < 20 || float64(n[404]) > 21+5*took || n[503] < 200 || float64(n[503]) > 201+50*took {
		t.Errorf("in %.2f s: %v", took, n)
	}
}

// TestLogAll checks that LogAll logs every request, and that slow requests are logged with level WARN.
func TestLogAll(t *testing.T) {
	out, log := newLog()
	s := newServer(t, Config{Logger: log, LogAll: true})
	for range 300 {
		handle(t, s, time.Now(), request("GET", assets))
	}
	if n := len(out.lines(t, "request")); n != 300 {
		t.Errorf("%d lines", n)
	}
	out, log = newLog()
	s = newServer(t, Config{Logger: log, LogSlow: time.Minute})
	for _, ago := range []time.Duration{0, time.Minute} {
		handle(t, s, time.Now().Add(-ago), request("GET", assets))
	}
	if lines := out.lines(t, "request"); len(lines) != 1 || lines[0]["level"] != "WARN" {
		t.Errorf("lines %v", lines)
	}
}

// TestTrace checks that the log lines of a request contain its trace id and nothing else from its
// traceparent.
func TestTrace(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for name, c := range map[string]struct {
		headers []string
		want    any
	}{
		"one":     {[]string{"TraceParent:\t00-" + id + "-00f067aa0ba902b7-01 "}, id},
		"later":   {[]string{"traceparent: cc-" + id + "-00f067aa0ba902b7-01-evil\" level=ERROR"}, id},
		"none":    {nil, nil},
		"empty":   {[]string{"traceparent: "}, nil},
		"hostile": {[]string{"traceparent: 00-" + id[:30] + "\xff\"-00f067aa0ba902b7-01"}, nil},
		"two": {[]string{"traceparent: 00-" + id + "-00f067aa0ba902b7-01",
			"traceparent: 00-" + id + "-00f067aa0ba902b7-01"}, nil},
	} {
		out, log := newLog()
		s := newServer(t, Config{Logger: log, LogAll: true, Answer: func(r *Request) error {
			if r.Asked.Query.Endpoint == query.Chains {
				panic("at the disco")
			}
			return stub(r)
		}})
		handle(t, s, time.Now(), request("GET", "/openapi/v1/chains", c.headers...))
		for _, message := range []string{"request", "request handler panicked"} {
			if lines := out.lines(t, message); len(lines) != 1 || lines[0]["trace_id"] != c.want {
				t.Errorf("%s: %v, want trace_id %v", name, lines, c.want)
			}
		}
		if strings.Contains(out.String(), "evil") || strings.Contains(out.String(), "00f067") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func TestMask(t *testing.T) {
	for in, want := range map[string]string{"192.0.2.77": "192.0.2.0/24", "::ffff:192.0.2.77": "192.0.2.0/24",
		"2001:db8:1:2::3": "2001:db8:1::/48"} {
		if got := mask(netip.MustParseAddr(in)); got != want {
			t.Errorf("mask(%s) = %s, want %s", in, got, want)
		}
	}
	if got := mask(addrOf(&net.UnixAddr{})); got != "unknown" {
		t.Errorf("mask of no address = %s", got)
	}
}

type observations chan Observation

func (o observations) Observe(one Observation) { o <- one }

// TestObserve checks that Observe is called exactly once for every answer.
func TestObserve(t *testing.T) {
	keys, text := newKeys(t, 100, 100)
	o := make(observations, 2)
	_, addr := start(t, func(cfg *Config) {
		cfg.Keys, cfg.Observe = keys, o.Observe
		cfg.Static = map[string]StaticFile{"/docs": {Body: []byte("<html>")}}
		cfg.Answer = func(r *Request) error {
			if r.Asked.Query.Endpoint == query.Chains {
				panic("chains")
			}
			return stub(r)
		}
	})
	key := "X-Api-Key: " + text
	for _, c := range []struct {
		raw    string
		route  string
		status int
		key    string
	}{
		{request("HEAD", "/openapi/v1/trending", key), "trending", 200, "key-1"},
		{request("GET", assets), "assets", 401, ""},
		{request("GET", "/openapi/v1/chains", key), "chains", 500, "key-1"},
		{request("GET", "/docs"), "static", 200, ""},
		{request("GET", "/nowhere"), "unknown", 404, ""},
		{request("POST", assets), "unknown", 405, ""},
		{request("OPTIONS", assets), "options", 204, ""},
		{"nonsense\r\n\r\n", "unread", 400, ""},
	} {
		method, _, _ := strings.Cut(c.raw, " ")
		a := dial(t, addr).send(c.raw).receive(method)
		got := <-o
		if got.Route.Name() != c.route || got.Status != c.status || got.KeyID != c.key || got.Conn == 0 ||
			got.Duration < 0 || a.ContentLength > 0 && int64(got.Bytes) != a.ContentLength {
			t.Errorf("%.40q: %+v", c.raw, got)
		}
	}
	if len(o) > 0 {
		t.Errorf("one more: %+v", <-o)
	}
}

// TestCutOff checks that a client that reads nothing is eventually cut off, and that its answer counts with
// status 499.
func TestCutOff(t *testing.T) {
	o := make(observations, 1)
	s, addr := start(t, func(cfg *Config) {
		cfg.Observe, cfg.WriteTimeout = o.Observe, 50*time.Millisecond
		cfg.Answer = func(r *Request) error { r.Asked.Reply.Body = make([]byte, 32<<20); return nil }
	})
	dial(t, addr).send(request("GET", assets))
	if got := <-o; got.Status != statusCutOff || got.Route.Name() != "assets" {
		t.Errorf("%+v", got)
	}
	until(t, func() bool { return s.Stats().Open == 0 })
}

// TestFuturePin checks that the 503 for a pin in the future does not count as an error of the service,
// neither in the log nor for Observe.
func TestFuturePin(t *testing.T) {
	for _, c := range []struct {
		err   error
		route Route
		level string
	}{{snapshot.ErrLater, RouteNotYet, "INFO"}, {reply.ErrUnavailable, Route(query.Assets), "ERROR"}} {
		out, log := newLog()
		observer := make(observations, 1)
		s := newServer(t, Config{Logger: log, LogSlow: 1, Observe: observer.Observe,
			Answer: func(*Request) error { return c.err }})
		expect(t, 503, "SERVICE_UNAVAILABLE", handle(t, s, time.Now().Add(-time.Second), request("GET", assets)))
		lines, told := out.lines(t, "request"), <-observer
		if len(lines) != 1 || lines[0]["level"] != c.level || lines[0]["route"] != c.route.Name() ||
			told.Route != c.route || told.Status != 503 {
			t.Errorf("%s: %v, %+v", c.err, lines, told)
		}
	}
}
