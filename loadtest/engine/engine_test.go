package engine

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/pace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain is a Source that requests /0, /1 and so on, and judges answers by their status.
type plain struct{ sessions, failed atomic.Int32 }

func (p *plain) Classes() []string { return []string{"even", "odd"} }
func (p *plain) Session() Session {
	p.sessions.Add(1)
	return &plainSession{plain: p}
}

type plainSession struct {
	plain *plain
	req   Request
}

// Failed implements Observer.
func (s *plainSession) Failed(error) { s.plain.failed.Add(1) }

func (s *plainSession) Request(i uint64, e *client.Endpoint) *Request {
	s.req.Bytes = fmt.Appendf(s.req.Bytes[:0], "GET /%d HTTP/1.1\r\nHost: %s\r\n\r\n", i, e.Host)
	s.req.Class = int(i % 2)
	return &s.req
}

func (s *plainSession) Answer(r *client.Response) Verdict {
	switch {
	case r.Status >= 500:
		return Unexpected
	case r.Status >= 400:
		return Wrong
	}
	return OK
}

func serve(t *testing.T, h http.HandlerFunc) *client.Endpoint {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return endpoint(t, srv.URL)
}

func endpoint(t *testing.T, url string) *client.Endpoint {
	t.Helper()
	return must.Get(client.ParseEndpoint(url, false))(t)
}

func mustRun(t *testing.T, cfg Config) *Result {
	t.Helper()
	if cfg.Source == nil {
		cfg.Source = &plain{}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	res := must.Get(Run(context.Background(), cfg))(t)
	// Each request is counted exactly once, whatever its outcome.
	sent, failed, due := uint64(0), uint64(0), int64(0)
	for _, c := range res.Classes {
		sent += c.Sent
		due += c.Due.TotalCount()
		if c.Due.TotalCount() != c.Service.TotalCount() {
			t.Errorf("class %s: %d latencies from due, %d from sent", c.Name, c.Due.TotalCount(),
				c.Service.TotalCount())
		}
		for _, n := range c.Failures {
			failed += n
		}
	}
	if len(cfg.Stages) > 0 && sent+res.Unsent != res.Asked {
		t.Errorf("%d sent and %d unsent of %d asked", sent, res.Unsent, res.Asked)
	}
	if res.Lag.TotalCount() != int64(sent) {
		t.Errorf("%d lags of %d requests", res.Lag.TotalCount(), sent)
	}
	var inIntervals uint64
	for _, iv := range res.Intervals {
		inIntervals += iv.Answered + iv.Failed
		if iv.Sent != iv.Answered+iv.Failed {
			t.Errorf("interval at %v: %d sent, %d answered, %d failed", iv.Start, iv.Sent, iv.Answered, iv.Failed)
		}
	}
	if inIntervals != sent {
		t.Errorf("%d requests in intervals, %d in all", inIntervals, sent)
	}
	return res
}

func failures(res *Result) map[Failure]uint64 {
	sum := map[Failure]uint64{}
	for _, c := range res.Classes {
		for f, n := range c.Failures {
			sum[f] += n
		}
	}
	return sum
}

// A server that answers only after it has received 50 requests does answer an open loop, because the loop
// keeps sending. The first request waits until the fiftieth is sent, and the latencies include this wait.
func TestOpenLoopSendsDuringAStall(t *testing.T) {
	const n, rate = 50, 500
	var received atomic.Int32
	gate := make(chan struct{})
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if received.Add(1) == n {
			close(gate)
		}
		<-gate
	})
	res := mustRun(t,
		Config{Endpoints: []*client.Endpoint{e}, Stages: pace.Constant(rate, 200*time.Millisecond), Connections: 100})
	if res.Asked != 100 || len(failures(res)) != 0 {
		t.Fatalf("asked %d, failures %v", res.Asked, failures(res))
	}
	if res.Waited != 0 || res.Connections < n {
		t.Errorf("%d requests waited, %d connections", res.Waited, res.Connections)
	}
	stall := int64((n - 1) * time.Second / rate)
	if got := res.Classes[0].Due.Max(); got < stall*99/100 {
		t.Errorf("longest latency is %v, the stall took %v", time.Duration(got), time.Duration(stall))
	}
}

// With too few connections, requests wait. None is omitted. The wait is part of the latency from the due time
// and of the send lag, but not of the service time.
func TestOpenLoopOutOfConnections(t *testing.T) {
	var concurrent, most atomic.Int32
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if c := concurrent.Add(1); c > most.Load() {
			most.Store(c)
		}
		defer concurrent.Add(-1)
		if r.URL.Path == "/0" {
			// Wait until all other requests are due, even if the run starts late or this machine pauses for a
			// moment.
			<-time.After(190 * time.Millisecond)
		}
	})
	cfg := Config{Endpoints: []*client.Endpoint{e}, Stages: pace.Constant(500, 200*time.Millisecond), Connections: 1}
	res := mustRun(t, cfg)
	if res.Asked != 100 || res.Unsent != 0 || len(failures(res)) != 0 {
		t.Fatalf("asked %d, unsent %d, failures %v", res.Asked, res.Unsent, failures(res))
	}
	if most.Load() != 1 || res.Connections != 1 {
		t.Errorf("%d requests at once over %d connections, want 1", most.Load(), res.Connections)
	}
	if res.Waited < 90 {
		t.Errorf("%d requests waited, want nearly all", res.Waited)
	}
	// The request due at 100 ms is sent at 190 ms at the earliest.
	if lag := res.Lag.ValueAtQuantile(50); lag < int64(80*time.Millisecond) {
		t.Errorf("median lag is %v", time.Duration(lag))
	}
	if odd := res.Classes[1]; odd.Due.ValueAtQuantile(50) < int64(80*time.Millisecond) ||
		odd.Due.Max() < odd.Service.Max() {
		t.Errorf("latency from due does not hold the wait: p50 %v", time.Duration(odd.Due.ValueAtQuantile(50)))
	}
}

// A server never answers. The requests that were sent time out, and the latencies include the time until the
// timeout. The others count as never sent.
func TestNoAnswers(t *testing.T) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	e := endpoint(t, "http://"+ln.Addr().String())
	res := mustRun(t, Config{Endpoints: []*client.Endpoint{e}, Stages: pace.Constant(1000, 100*time.Millisecond),
		Connections: 2, Timeout: 40 * time.Millisecond})
	if res.Asked != 100 || res.Unsent == 0 || res.InTime >= 20 {
		t.Errorf("asked %d, in time %d, unsent %d", res.Asked, res.InTime, res.Unsent)
	}
	f := failures(res)
	if f[FailTimeout] == 0 || f[FailTimeout] != res.Asked-res.Unsent {
		t.Errorf("failures %v of %d sent", f, res.Asked-res.Unsent)
	}
	if got := res.Classes[0].Service.Min(); got < int64(39*time.Millisecond) {
		t.Errorf("a request that timed out counts as %v", time.Duration(got))
	}
}

func TestFailuresAreTold(t *testing.T) {
	answers := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/1":
			w.WriteHeader(503)
		case "/2":
			w.WriteHeader(404)
		case "/3":
			panic(http.ErrAbortHandler)
		case "/4":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			io.WriteString(conn, "nonsense\r\n\r\n")
			conn.Close()
		}
	})
	source := &plain{}
	res := mustRun(t, Config{Endpoints: []*client.Endpoint{answers}, Source: source,
		Stages: pace.Constant(100, 100*time.Millisecond), Connections: 10})
	if n := source.failed.Load(); n != 2 { // /3 and /4
		t.Errorf("%d failures observed, want 2", n)
	}
	for f, want := range map[Failure]uint64{FailStatus: 1, FailWrong: 1, FailClosed: 1, FailMalformed: 1} {
		if got := failures(res)[f]; got != want {
			t.Errorf("%s: %d, want %d (of %v)", f, got, want, failures(res))
		}
	}
	if s := res.Classes[1].Statuses; s[503] != 1 || s[200] != 3 { // /1, and /5, /7 and /9; /3 was never answered
		t.Errorf("statuses of odd requests: %v", s)
	}
	// The latencies include the 404, but not the 503 and the broken answers.
	if n := res.Classes[0].Due.TotalCount() + res.Classes[1].Due.TotalCount(); n != 7 {
		t.Errorf("%d latencies, want 7", n)
	}

	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone := endpoint(t, "http://"+ln.Addr().String())
	ln.Close()
	for _, cfg := range []Config{{Stages: pace.Constant(100, 50*time.Millisecond)}, {Duration: 50 * time.Millisecond}} {
		cfg.Endpoints, cfg.Connections = []*client.Endpoint{gone}, 2
		res := mustRun(t, cfg)
		if f := failures(res); len(f) != 1 || f[FailConnect] == 0 || f[FailConnect] > 20 {
			t.Errorf("failures %v without a server", f)
		}
	}
}

// Two endpoints get equal shares of the requests, and an endpoint that hangs does not delay the other.
func TestEndpoints(t *testing.T) {
	var a atomic.Int32
	good := serve(t, func(http.ResponseWriter, *http.Request) { a.Add(1) })
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	hangs := endpoint(t, "http://"+ln.Addr().String())
	res := mustRun(t, Config{Endpoints: []*client.Endpoint{good, hangs},
		Stages: pace.Constant(1000, 200*time.Millisecond), Connections: 8, Timeout: 100 * time.Millisecond})
	if a.Load() != 100 || res.Classes[0].Statuses[200] != 100 { // even requests go to the first endpoint
		t.Errorf("the good endpoint got %d of 200 requests", a.Load())
	}
	if got := failures(res)[FailTimeout] + res.Unsent; got != 100 {
		t.Errorf("%d requests to the other failed, want 100", got)
	}
}

func TestClosedLoop(t *testing.T) {
	var concurrent, most atomic.Int32
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		c := concurrent.Add(1)
		defer concurrent.Add(-1)
		for m := most.Load(); c > m && !most.CompareAndSwap(m, c); m = most.Load() {
		}
		time.Sleep(time.Millisecond)
	})
	src := &plain{}
	res := mustRun(
		t, Config{Endpoints: []*client.Endpoint{e}, Source: src, Duration: 150 * time.Millisecond, Connections: 5})
	if most.Load() != 5 || res.Connections != 5 || src.sessions.Load() != 5 {
		t.Errorf("%d requests at once over %d connections, want 5", most.Load(), res.Connections)
	}
	if res.Asked == 0 || res.Asked != res.InTime || len(failures(res)) != 0 {
		t.Errorf("asked %d, in time %d, failures %v", res.Asked, res.InTime, failures(res))
	}
	if got := res.Classes[0].Due.Min(); got < int64(time.Millisecond)*99/100 {
		t.Errorf("shortest latency is %v with a server that takes 1 ms", time.Duration(got))
	}
	if res.CPU <= 0 || res.CPUs <= 0 {
		t.Errorf("took %v of %v processors", res.CPU, res.CPUs)
	}
}

func TestWarmup(t *testing.T) {
	var served atomic.Uint64
	e := serve(t, func(http.ResponseWriter, *http.Request) { served.Add(1) })
	res := must.Get(Run(
		context.Background(), Config{Endpoints: []*client.Endpoint{e}, Source: &plain{}, Stages: pace.Constant(
			1000, 200*time.Millisecond), Connections: 10, Timeout: time.Second, Warmup: 100 * time.Millisecond}))(t)
	if served.Load() != 200 || res.Asked != 100 || res.Classes[0].Sent != 50 || res.Length != 100*time.Millisecond {
		t.Errorf("served %d, asked %d, counted %d even ones over %v", served.Load(), res.Asked, res.Classes[0].Sent,
			res.Length)
	}
	shown, timed := uint64(0), int64(0)
	for _, iv := range res.Intervals {
		shown += iv.Answered
		timed += iv.Due.TotalCount()
	}
	if shown != 200 || timed != 200 {
		t.Errorf("intervals have %d answers and %d latencies of the 200 with the warm-up", shown, timed)
	}
}

// TestTick delays answers, so that the counts at each tick are known.
func TestTick(t *testing.T) {
	held := make(chan struct{})
	var asked atomic.Uint64
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); {
		case n <= 3:
			w.WriteHeader(429)
		case n <= 8:
			<-held
		}
	})
	var first, last *Interval
	res := must.Get(Run(t.Context(), Config{Endpoints: []*client.Endpoint{e}, Source: &plain{},
		Stages: []pace.Stage{{Duration: 100 * time.Millisecond, From: 80, To: 80}, {Duration: 1500 * time.Millisecond},
			{Duration: 100 * time.Millisecond, From: 20, To: 20}},
		Connections: 20, Timeout: time.Minute, Tick: func(iv *Interval) {
			if first == nil {
				first = iv
				close(held)
			}
			last = iv
		}}))(t)
	counted := first.Classes[0].Sent + first.Classes[1].Sent
	if first.Limited != 3 || first.Sent != 3 || counted != 3 ||
		first.Classes[0].Statuses[429]+first.Classes[1].Statuses[429] != 3 {
		t.Errorf("the first tick sees %+v", first)
	}
	if last == nil || len(res.Intervals) < 2 || res.Intervals[0].Limited != 3 || res.Intervals[0].Classes != nil {
		t.Errorf("intervals are %+v", res.Intervals)
	}
}

// TestKeep checks that an interval of several seconds contains the sums over these seconds, and that keep
// does not change the seconds' own intervals.
func TestKeep(t *testing.T) {
	r := newRecorder([]string{"all"})
	var seconds []*Interval
	for i := range 7 {
		iv := &Interval{
			Start: time.Duration(i) * time.Second, End: time.Duration(i+1) * time.Second, Sent: 3, Answered: 2,
			Failed: 1, Limited: 1, Read: 10, Due: NewHistogram(),
			LagP99: time.Duration(i%3) * time.Millisecond, CPU: float64(i)}
		Record(iv.Due, time.Duration(i+1)*time.Millisecond)
		seconds = append(seconds, iv)
		r.keep(iv, i%3 == 0)
	}
	if len(r.intervals) != 3 {
		t.Fatalf("%d intervals of 7 seconds", len(r.intervals))
	}
	iv := r.intervals[1]
	if iv.Start != 3*time.Second || iv.End != 6*time.Second || iv.Sent != 9 || iv.Answered != 6 || iv.Failed != 3 ||
		iv.Limited != 3 || iv.Read != 30 || iv.Due.TotalCount() != 3 || iv.LagP99 != 2*time.Millisecond || iv.CPU != 4 {
		t.Errorf("the second interval is %+v", iv)
	}
	for _, iv := range seconds {
		if iv.Sent != 3 || iv.Due.TotalCount() != 1 || iv.End-iv.Start != time.Second {
			t.Errorf("a second became %+v", iv)
		}
	}
}

func TestInterrupt(t *testing.T) {
	for _, cfg := range []Config{{Stages: pace.Constant(100, time.Hour)}, {Duration: time.Hour}} {
		ctx, cancel := context.WithCancel(context.Background())
		var served atomic.Uint64
		e := serve(t, func(http.ResponseWriter, *http.Request) {
			if served.Add(1) == 10 {
				cancel()
			}
		})
		cfg.Endpoints, cfg.Source, cfg.Connections, cfg.Timeout = []*client.Endpoint{e}, &plain{}, 3, time.Second
		res := must.Get(Run(ctx, cfg))(t)
		if !res.Interrupted || served.Load() < 10 || res.Length >= time.Hour ||
			res.Asked != res.Classes[0].Sent+res.Classes[1].Sent+res.Unsent {
			t.Errorf("interrupted %v after %d requests of %d asked, length %v", res.Interrupted, served.Load(),
				res.Asked, res.Length)
		}
	}
}

func TestConfig(t *testing.T) {
	e := &client.Endpoint{}
	good := Config{
		Endpoints: []*client.Endpoint{e}, Source: &plain{}, Connections: 1, Timeout: time.Second, Duration: time.Second}
	for name, change := range map[string]func(*Config){
		"no endpoint":     func(c *Config) { c.Endpoints = nil },
		"few connections": func(c *Config) { c.Connections = 0 },
		"no timeout":      func(c *Config) { c.Timeout = 0 },
		"no duration":     func(c *Config) { c.Duration = 0 },
		"all warm-up":     func(c *Config) { c.Warmup = time.Second },
		"bad stages":      func(c *Config) { c.Stages = []pace.Stage{{Duration: time.Minute, From: -1}} },
	} {
		cfg := good
		change(&cfg)
		if _, err := Run(context.Background(), cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseQuota(t *testing.T) {
	for in, want := range map[string]float64{
		"50000 100000\n": 0.5, "200000 100000": 2, "max 100000\n": 0, "": 0, "x y": 0, "-1 100000": 0} {
		if got, ok := parseQuota(in); got != want || ok != (want > 0) {
			t.Errorf("parseQuota(%q) = %v, %v", in, got, ok)
		}
	}
}
