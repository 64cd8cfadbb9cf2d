package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/upstream"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/process"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the time that a test waits.
const patience = 20 * time.Second

// server is a Redis or Valkey server for one test.
type server struct {
	t       *testing.T
	program string
	port    string
	cmd     *exec.Cmd
	process *process.Process
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			s.program = path
			break
		}
	}
	if s.program == "" {
		const reason = "neither redis-server nor valkey-server is in PATH (apt-get install redis-server)"
		if os.Getenv("MARKETDATA_REQUIRE_S3") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason + "; MARKETDATA_REQUIRE_S3=1 makes this fail")
	}
	t.Cleanup(s.kill)
	// Another program may take a free port before the server does.
	for range 3 {
		var err error
		if _, s.port, err = net.SplitHostPort(local.Free("127.0.0.1:0")); err != nil {
			t.Fatal(err)
		}
		if s.start() {
			return s
		}
	}
	t.Fatalf("%s: %s", s.program, s.process.Tail())
	return nil
}

func (s *server) url() string { return "redis://127.0.0.1:" + s.port + "/1" }

// start starts an empty server, and reports whether it accepts connections. If not, the server has exited.
func (s *server) start() (ready bool) {
	s.t.Helper()
	s.cmd = exec.Command(
		s.program, "--port", s.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no")
	s.cmd.Dir = s.t.TempDir()
	s.process = must.Get(process.Start(s.cmd))(s.t)
	ended := false
	s.until("a server", func() bool {
		ready = strings.Contains(s.process.Tail(), "Ready to accept connections")
		select {
		case <-s.process.Exited():
			ended = true
		default:
		}
		return ready || ended
	})
	return !ended
}

func (s *server) kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// signal sends a signal, which stops the server or lets it continue.
func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	must.OK(s.t, s.cmd.Process.Signal(sig))
}

func (s *server) open() *Store {
	s.t.Helper()
	store := must.Get(Open(s.url()))(s.t)
	s.t.Cleanup(func() { _ = store.Close() })
	return store
}

func (s *server) until(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not seen: %s", what)
		}
	}
}

func newLimit(t *testing.T, rate, burst int) limit.Limit {
	t.Helper()
	return must.Get(limit.New(rate, burst))(t)
}

func grant(t *testing.T, s *Store, name string, l limit.Limit, want, back int) limit.Grant {
	t.Helper()
	return must.Get(s.Take(t.Context(), name, l, want, back))(t)
}

// TestTake uses a limit with a low rate, so that all numbers are known except for the time that the test
// takes.
func TestTake(t *testing.T) {
	store := startServer(t).open()
	l := newLimit(t, 1, 1000)
	for i, c := range []struct{ want, back, tokens, missing int }{
		{1, 0, 1, 1}, {300, 0, 300, 301}, {0, 0, 0, 301}, {0, 101, 0, 200}, {10, 5, 10, 205}, {2000, 0, 795, 1000},
		{1, 0, 0, 1000},
		{1, 2, 1, 999}, {1, -5, 0, 1004}, {1, 4, 0, 1000}, {1, -5000, 0, 1060}, {0, 5000, 0, 0},
		{limit.MaxBurst, 0, 1000, 1000}, {1000, 1000, 1000, 1000},
	} {
		g := grant(t, store, "a", l, c.want, c.back)
		// lag is the time during which the bucket has refilled since the beginning.
		lag := time.Duration(c.missing)*time.Second - g.Missing
		if g.Tokens != c.tokens || lag < 0 || lag > patience {
			t.Fatalf("step %d: %d tokens, %v missing; want %d, %d s", i, g.Tokens, g.Missing, c.tokens, c.missing)
		}
	}
	// Another bucket, and a bucket with the same name in another store.
	if g := grant(t, store, "b", l, 5, 0); g.Tokens != 5 {
		t.Errorf("another bucket: %+v", g)
	}
}

// TestExtremes checks that numbers are exact for the largest limits.
func TestExtremes(t *testing.T) {
	store := startServer(t).open()
	slow := newLimit(t, 1, limit.MaxBurst)
	for _, c := range []struct{ want, tokens int }{{limit.MaxBurst - 1, limit.MaxBurst - 1}, {1, 1}, {1, 0}} {
		if g := grant(t, store, "slow", slow, c.want, 0); g.Tokens != c.tokens {
			t.Errorf("%d wanted: %+v", c.want, g)
		}
	}
	fast := newLimit(t, limit.MaxRate, limit.MaxBurst)
	if g := grant(t, store, "fast", fast, limit.MaxBurst, 0); g.Tokens != limit.MaxBurst || g.Missing > time.Second {
		t.Errorf("%+v", g)
	}
	one := newLimit(t, 3, 1)
	if g := grant(t, store, "one", one, 9, 0); g.Tokens != 1 || g.Missing != one.Interval() {
		t.Errorf("%+v, want one of %v", g, one.Interval())
	}
}

// TestNothingStays checks that a bucket that is full again occupies no memory in the server.
func TestNothingStays(t *testing.T) {
	s := startServer(t)
	store := s.open()
	grant(t, store, "a", newLimit(t, 100, 10), 5, 0)
	grant(t, store, "b", newLimit(t, 1, 10), 5, 0)
	grant(t, store, "b", newLimit(t, 1, 10), 0, 5)
	s.until("an empty server", func() bool {
		n, err := store.client.DBSize(t.Context()).Result()
		return err == nil && n == 0
	})
}

// TestForeign checks that values that other programs wrote either do not affect a limit or cause an error.
func TestForeign(t *testing.T) {
	store := startServer(t).open()
	ctx, l := t.Context(), newLimit(t, 1, 10)
	for _, value := range []string{"", "x", "1 2 3", "-1 5", "1.5 7", "9999999999999999 5000000000",
		strings.Repeat("9", 400) + " " + strings.Repeat("9", 400)} {
		must.OK(t, store.client.Set(ctx, prefix+"a", value, 0).Err())
		g := grant(t, store, "a", l, 20, 0)
		if g.Tokens < 0 || g.Tokens > 10 || g.Missing < 0 || g.Missing > l.Longest() {
			t.Errorf("%.40q: %+v", value, g)
		}
	}
	must.OK(t, store.client.LPush(ctx, prefix+"list", "x").Err())
	var redisErr redis.Error
	if _, err := store.Take(ctx, "list", l, 1, 0); !errors.As(err, &redisErr) ||
		!strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a list: %v", err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := store.Take(canceled, "a", l, 1, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// edges returns n Shared that share limits through the server, and waits until they do.
func edges(s *server, n int, wait time.Duration) []*limit.Shared {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	var all []*limit.Shared
	for range n {
		shared := limit.NewShared(limit.SharedConfig{Store: s.open(), Wait: wait})
		wg.Go(func() { shared.Run(ctx) })
		all = append(all, shared)
	}
	s.t.Cleanup(func() { cancel(); wg.Wait() })
	for _, shared := range all {
		s.until("shared limits", func() bool { return shared.Status().State == upstream.Valid })
	}
	return all
}

// TestEdges checks that three edges with one limit admit no more requests than a single edge would, and
// nearly as many.
func TestEdges(t *testing.T) {
	s := startServer(t)
	period := 3 * time.Second
	if testing.Short() {
		period = time.Second
	}
	const rate, burst = 400, 800
	l := newLimit(t, rate, burst)
	var total atomic.Int64
	var wg sync.WaitGroup
	// Here, edges may wait long for the store, because the test measures how many requests they admit and
	// not how fast.
	shared := edges(s, 3, patience)
	began := time.Now()
	for _, edge := range shared {
		lease, local := edge.NewLease("k", l), new(limit.Bucket)
		for range 20 {
			wg.Go(func() {
				for time.Since(began) < period {
					if lease.Take(local, limit.At(time.Now())).OK {
						total.Add(1)
					} else {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
	}
	wg.Wait()
	took := time.Since(began)
	most := rate*(took+100*time.Millisecond).Seconds() + burst
	if got := float64(total.Load()); got > most || got < (rate*period.Seconds()+burst)*0.99 {
		t.Errorf("%v admitted in %v, want at most %v, and 99 %% of %v in %v", got, took, most,
			rate*period.Seconds()+burst, period)
	}
	for _, edge := range shared {
		if st := edge.Status(); st.State != upstream.Valid || st.Local != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// TestFaults stops, kills and restarts the server. Meanwhile the edge limits by itself, and then shares the
// limit again.
func TestFaults(t *testing.T) {
	s := startServer(t)
	shared := edges(s, 1, 50*time.Millisecond)[0]
	// The local limit is so high that every request is admitted.
	lease, local := shared.NewLease("k", newLimit(t, limit.MaxRate, limit.MaxBurst)), new(limit.Bucket)
	ask := func() {
		t.Helper()
		if !lease.Take(local, limit.At(time.Now())).OK {
			t.Error("refused")
		}
	}
	state := func(want upstream.State) {
		t.Helper()
		s.until(string(want), func() bool { ask(); return shared.Status().State == want })
	}
	// calls checks that limits are shared and that calls succeed.
	calls := func() {
		t.Helper()
		before := shared.Status()
		s.until("calls that succeed", func() bool {
			ask()
			st := shared.Status()
			return st.State == upstream.Valid && st.Calls-st.Faults > before.Calls-before.Faults
		})
	}
	calls()

	s.signal(syscall.SIGSTOP) // the server accepts connections but does not answer
	state(upstream.Interrupted)
	local0 := shared.Status().Local
	ask()
	if got := shared.Status().Local; got != local0+1 {
		t.Errorf("%d decisions by itself, want %d", got, local0+1)
	}
	s.signal(syscall.SIGCONT)
	state(upstream.Valid)
	calls()

	s.kill()
	state(upstream.Interrupted)
	if err := shared.Status().LastError; err == "" {
		t.Error("no reason is given")
	}
	if !s.start() {
		t.Fatal(s.process.Tail())
	}
	state(upstream.Valid)
	calls()
}

// TestForgetful checks that a server that has lost the script and the buckets gets both again.
func TestForgetful(t *testing.T) {
	store := startServer(t).open()
	l := newLimit(t, 1, 5)
	grant(t, store, "a", l, 5, 0)
	must.OK(t, errors.Join(
		store.client.ScriptFlush(t.Context()).Err(), store.client.FlushAll(t.Context()).Err()))
	if g := grant(t, store, "a", l, 5, 0); g.Tokens != 5 {
		t.Errorf("%+v", g)
	}
}

func TestOpen(t *testing.T) {
	for _, address := range []string{
		"redis://127.0.0.1:6379", "redis://:secret@h:1/3", "rediss://user:secret@h", "unix:///run/redis.sock?db=2"} {
		options, err := parse(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if options.MaxRetries != -1 || !options.ContextTimeoutEnabled ||
			(options.TLSConfig != nil) != strings.HasPrefix(address, "rediss:") {
			t.Errorf("%s: %+v", address, options)
		}
	}
	for _, address := range []string{"", "127.0.0.1:6379", "http://:secret@h", "redis://:sec#ret@h",
		"redis://:secret@h:port", "redis://:secret@h/x", "redis://:secret@h?nothing=1", "redis://h/1/2"} {
		if _, err := Open(address); err == nil || !strings.Contains(err.Error(), "want redis://") ||
			strings.Contains(err.Error(), "sec") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
