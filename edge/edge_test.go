package edge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/network"
	"example.com/marketdata/internal/test/teststore"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	options := []goleak.Option{
		// fasthttp has a goroutine that updates the Date header as long as the process lives, and one that
		// cleans a worker pool and checks only every ten seconds whether it should exit.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
	}
	for _, f := range network.Leaks {
		options = append(options, goleak.IgnoreAnyFunction(f))
	}
	goleak.VerifyTestMain(m, options...)
}

// start runs an edge that reads store until stop is called, which returns the result of Run.
func start(tb testing.TB, store artifacts.Reader, change func(*Config)) (e *Edge, stop func() error) {
	tb.Helper()
	cfg := Config{Reader: store, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", AuthOff: true, Poll: 2 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	e = must.Get(New(context.Background(), cfg))(tb)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("/status of an edge: %+v", e.status())
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return e, RunUntil(tb, e)
}

// RunUntil runs an edge until stop is called or the test ends. stop returns the result of Run.
func RunUntil(tb testing.TB, e *Edge) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var once sync.Once
	stop = func() (err error) {
		once.Do(func() {
			cancel()
			err = <-done
		})
		return err
	}
	tb.Cleanup(func() {
		if err := stop(); err != nil {
			tb.Error(err)
		}
	})
	return stop
}

// newSignKey returns a new signing key.
func newSignKey(tb testing.TB) artifacts.SignKey {
	tb.Helper()
	return must.Get(artifacts.NewSignKey(rand.Reader))(tb)
}

// Get sends a GET request. headers contains names and values in turn.
func Get(tb testing.TB, addr net.Addr, path string, headers ...string) (int, string, http.Header) {
	tb.Helper()
	req := must.Get(http.NewRequest(http.MethodGet, "http://"+addr.String()+path, nil))(tb)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res := must.Get(http.DefaultClient.Do(req))(tb)
	defer res.Body.Close()
	b := must.Get(io.ReadAll(res.Body))(tb)
	return res.StatusCode, string(b), res.Header
}

func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not seen: %s", what)
		}
	}
}

func TestFromAnEmptyStoreToASnapshot(t *testing.T) {
	mem := memstore.New()
	e, stop := start(t, mem, nil)
	until(t, "an empty store", func() bool {
		status, _, _ := Get(t, e.Addr(), "/openapi/v1/assets")
		return status == http.StatusOK
	})
	for path, want := range map[string]string{
		"/openapi/v1/assets":         `{"code":0,"message":"OK","message_key":"OK","result":{"items":[],"page":1,"total":0,"total_page":1}}`,
		"/openapi/v1/chains?page=7":  `{"code":0,"message":"OK","message_key":"OK","result":{"items":[],"page":7,"total":0,"total_page":1}}`,
		"/openapi/v1/trending":       `{"code":0,"message":"OK","message_key":"OK","result":{"items":[]}}`,
		"/openapi/v1/quotes?id=5,-1": `{"code":0,"message":"OK","message_key":"OK","result":{"items":[],"page":1,"total":0,"total_page":1}}`,
	} {
		status, body, h := Get(t, e.Addr(), path)
		if status != http.StatusOK || body != want || h.Get("X-Snapshot-Time") != "" ||
			!strings.HasPrefix(h.Get("Cache-Control"), "private, max-age=5,") {
			t.Errorf("%s: %d %s %v", path, status, body, h)
		}
	}
	if status, body, _ := Get(t, e.Addr(), "/openapi/v1/global"); status != http.StatusNotFound ||
		!strings.Contains(body, `"code":40400`) {
		t.Errorf("/global before the first snapshot: %d %s", status, body)
	}
	if status, body, _ := Get(t, e.AdminAddr(), "/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "no snapshot yet") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if status, _, _ := Get(t, e.AdminAddr(), "/livez"); status != http.StatusOK {
		t.Errorf("/livez: %d", status)
	}
	first := teststore.Publish(t, mem, teststore.NewFeed(300, 1), teststore.Start)
	until(t, "readiness", func() bool {
		status, _, _ := Get(t, e.AdminAddr(), "/readyz")
		return status == http.StatusOK
	})
	status, body, h := Get(t, e.Addr(), "/openapi/v1/global")
	g := first.Manifest.Global
	want := `{"code":0,"message":"OK","message_key":"OK","result":{` +
		`"total_market_cap":"` + g.TotalMarketCap + `","total_volume_24h":"` + g.TotalVolume24h +
		`","total_market_cap_change_percentage_24h":null,"data_time":"2026-03-04T05:10:00Z"}}`
	if status != http.StatusOK || body != want || h.Get("X-Snapshot-Time") != "2026-03-04T05:10:00Z" ||
		!strings.HasSuffix(h.Get("Cache-Status"), "; detail=stale") {
		t.Errorf("/global: %d %s %v", status, body, h)
	}
	var st struct {
		Status, State string
		More          struct {
			Signatures *bool `json:"signatures_checked"`
		}
		Sequence     uint64
		SnapshotTime time.Time `json:"snapshot_time"`
	}
	if _, body, _ := Get(t, e.AdminAddr(), "/status"); json.Unmarshal([]byte(body), &st) != nil ||
		st.More.Signatures == nil || *st.More.Signatures || st.State != "VALID" || st.Sequence != 1 ||
		!st.SnapshotTime.Equal(teststore.Start) || st.Status != "degraded" {
		t.Errorf("/status: %s", body) // degraded, because the snapshot is months old
	}
	if status, body, _ := Get(t, e.AdminAddr(), "/metrics"); status != http.StatusOK ||
		!strings.Contains(body, "\nedge_snapshot_sequence 1\n") {
		t.Errorf("/metrics: %d %s", status, body)
	}
	must.OK(t, stop())
	if _, err := os.Stat(e.folder.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary cache folder stays: %v", err)
	}
}

// TestChangeOnGlobal checks when /global contains the change of the total, and when null.
func TestChangeOnGlobal(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	e, _ := start(t, mem, nil)
	until(t, "readiness", func() bool {
		status, _, _ := Get(t, e.AdminAddr(), "/readyz")
		return status == http.StatusOK
	})
	later := teststore.Start.Add(42 * time.Second)
	version := artifacts.Version("")
	for _, c := range []struct {
		change artifacts.Change
		want   string
		since  string
	}{
		{artifacts.Change{Database: "fixture", Time: later, Value: "-2.5"}, `"-2.5"`, "Wed, 04 Mar 2026 05:10:42 GMT"},
		{artifacts.Change{Database: "other", Time: later, Value: "1"}, "null", "Wed, 04 Mar 2026 05:10:42 GMT"},
		{artifacts.Change{Database: "fixture", Time: teststore.Start.Add(-time.Hour), Value: "999999999.999999999999"},
			`"999999999.999999999999"`, "Wed, 04 Mar 2026 05:10:00 GMT"},
		{artifacts.Change{Database: "fixture", Time: later, Value: "1000000000"}, "null",
			"Wed, 04 Mar 2026 05:10:42 GMT"},
		{artifacts.Change{Database: "fixture", Time: later, Value: "0"}, `"0"`, "Wed, 04 Mar 2026 05:10:42 GMT"},
	} {
		c.change.Format = artifacts.Format
		version = must.Get(mem.Swap(context.Background(), artifacts.ChangeKey, version, c.change.Encode()))(t)
		var body string
		var h http.Header
		until(t, "a change of "+c.want, func() bool {
			_, body, h = Get(t, e.Addr(), "/openapi/v1/global")
			return strings.Contains(body, `"total_market_cap_change_percentage_24h":`+c.want+`,"data_time"`) &&
				h.Get("Last-Modified") == c.since
		})
	}
}

func TestUsage(t *testing.T) {
	everywhere := must.Get(net.Listen("tcp", "0.0.0.0:0"))(t)
	defer everywhere.Close()
	here := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer here.Close()
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Listen: "0.0.0.0:0", AuthOff: true}, "--insecure"},
		{Config{Listen: ":0", AuthOff: true}, "--insecure"},
		{Config{CacheScope: "shared"}, "--cache-scope"},
		{Config{Listen: "127.0.0.1:0", ReusePort: true}, "--listen 127.0.0.1:0 lets the system choose"},
		{Config{PublicSockets: []net.Listener{here, everywhere}, AuthOff: true}, "--insecure"},
		{Config{PublicSockets: []net.Listener{here}, ReusePort: true}, "--reuse-port: the public socket was passed"},
	} {
		c.cfg.Reader, c.cfg.Admin = memstore.New(), "127.0.0.1:0"
		if _, err := New(context.Background(), c.cfg); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	if _, err := New(context.Background(), Config{Store: "ftp://x"}); err == nil || !strings.Contains(err.Error(),
		"file:PATH") {
		t.Errorf("a store of no known kind: %v", err)
	}
	e := must.Get(New(context.Background(), Config{Reader: memstore.New(), Listen: "0.0.0.0:0", Admin: "127.0.0.1:0",
		AuthOff: true, Insecure: true}))(t)
	e.close()
}

// TestIdleStops checks that an edge that received no request during the last DrainWait stops immediately,
// even if a client is connected.
func TestIdleStops(t *testing.T) {
	for _, connected := range []bool{false, true} {
		e, stop := start(t, memstore.New(), func(cfg *Config) { cfg.DrainWait = time.Hour })
		if connected {
			conn := must.Get(net.Dial("tcp", e.Addr().String()))(t)
			defer conn.Close()
			until(t, "the connection", func() bool { return e.public.Stats().Open == 1 })
		}
		must.OK(t, stop())
	}
}

// TestReusePort checks that an edge opens a shared port only when it is ready, and reports readiness after
// that.
func TestReusePort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes share a port on Linux only")
	}
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	first := must.Get(server.ListenShared("127.0.0.1:0"))(t)
	var hide atomic.Bool
	hide.Store(true)
	faults := faultstore.New(mem, func(faultstore.Op) faultstore.Decision {
		if hide.Load() {
			return faultstore.Refuse
		}
		return faultstore.Pass
	})
	ready := make(chan struct{})
	e, stop := start(t, faults, func(cfg *Config) {
		cfg.Listen, cfg.ReusePort, cfg.OnReady = first.Addr().String(), true, func() { close(ready) }
	})
	until(t, "a fault", func() bool { return e.refresher.Status().LastError != "" })
	if e.listening.Load() {
		t.Error("it listens before it is ready")
	}
	hide.Store(false)
	<-ready
	must.OK(t, first.Close())
	if status, body, _ := Get(t, first.Addr(), "/openapi/v1/assets"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	must.OK(t, stop())

	taken := must.Get(server.Listen("127.0.0.1:0"))(t)
	defer taken.Close()
	e = must.Get(New(t.Context(), Config{Reader: mem, Listen: taken.Addr().String(), Admin: "127.0.0.1:0",
		ReusePort: true, AuthOff: true, OnReady: func() { t.Error("it is ready") }}))(t)
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--listen: ") {
		t.Errorf("at a port that another holds: %v", err)
	}
}

// TestReady checks that an edge is not ready before it has read the key set, unless the store has none. A
// later snapshot with a missing object does not make it unready.
func TestReady(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	faults := faultstore.New(mem, func(op faultstore.Op) faultstore.Decision {
		if op.Key == artifacts.KeysKey {
			return faultstore.Refuse
		}
		return faultstore.Pass
	})
	e, _ := start(t, faults, func(c *Config) { c.AuthOff, c.FetchBudget = false, time.Millisecond })
	until(t, "a reason", func() bool {
		status, body, _ := Get(t, e.AdminAddr(), "/readyz")
		return status == http.StatusServiceUnavailable &&
			strings.HasPrefix(body, "no key set was read yet: read key set: ")
	})
	faults.SetHook(nil)
	// The edge may be ready while some objects of the first snapshot are still missing.
	until(t, "readiness with a whole snapshot", func() bool {
		status, _, _ := Get(t, e.AdminAddr(), "/readyz")
		return status == http.StatusOK && e.refresher.Status().Missing == 0
	})
	var lost atomic.Value
	faults.SetHook(func(op faultstore.Op) faultstore.Decision {
		if op.Key.Kind() == artifacts.ObjectKind && (lost.CompareAndSwap(nil, op.Key) || lost.Load() == op.Key) {
			return faultstore.Refuse
		}
		return faultstore.Pass
	})
	teststore.Publish(t, mem, teststore.NewFeed(50, 2), teststore.Start.Add(artifacts.Step))
	until(t, "a snapshot that lacks an object",
		func() bool { return e.current().Sequence == 2 && e.refresher.Status().Lacking != "" })
	if status, body, _ := Get(t, e.AdminAddr(), "/readyz"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
}

// TestHistoryApart checks that a faulty history object causes a 503 only for requests that need it. It
// neither delays a snapshot nor makes the edge unready, and /status reports it. The edge fetches the object
// once the store has it.
func TestHistoryApart(t *testing.T) {
	for name, d := range map[string]faultstore.Decision{"wrong": faultstore.Corrupt, "missing": faultstore.Hide,
		"unavailable": faultstore.Refuse} {
		for _, ahead := range []int64{0, 1 << 30} {
			mem := memstore.New()
			f := teststore.NewFeed(50, 1)
			p := teststore.Publish(t, mem, f.History(25), teststore.Start)
			_, blocks := p.Manifest.History(&artifacts.HistoryWindows[2])
			broken := artifacts.ObjectKey(blocks[0].Objects[0].Digest)
			faults := faultstore.New(mem, func(op faultstore.Op) faultstore.Decision {
				if op.Key == broken {
					return d
				}
				return faultstore.Pass
			})
			e, stop := start(t, faults, func(c *Config) { c.HistoryFetch = ahead })
			for sequence := range uint64(2) {
				until(t, "a snapshot", func() bool { s := e.current(); return s != nil && s.Sequence == sequence+1 })
				until(t, "readiness", func() bool {
					status, _, _ := Get(t, e.AdminAddr(), "/readyz")
					return status == http.StatusOK
				})
				for path, want := range map[string]int{
					"/history?id=1&window=30d": 503, "/history?id=1&window=1y": 200, "/history?id=3&window=30d": 200,
					"/quotes?id=1": 200, "/history?id=1&window=24h": 200,
				} {
					if status, body, _ := Get(t, e.Addr(), "/openapi/v1"+path); status != want {
						t.Errorf("%s, %s: %d %s", name, path, status, body)
					}
				}
				if ahead > 0 {
					until(t, "trouble in /status", func() bool {
						s := e.refresher.Status()
						return s.MissingHistory == 1 && s.HistoryFault != "" && s.Missing == 0
					})
				}
				if sequence == 0 {
					next := teststore.Start.Add(artifacts.Step)
					teststore.Publish(t, mem, f.History(25), next)
				}
			}
			faults.SetHook(nil)
			until(t, "history", func() bool {
				status, _, _ := Get(t, e.Addr(), "/openapi/v1/history?id=1&window=30d")
				s := e.refresher.Status()
				return status == 200 && s.MissingHistory == 0 && s.HistoryFault == ""
			})
			must.OK(t, stop())
		}
	}
}
