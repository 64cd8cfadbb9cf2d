package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/files"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/internal/test/must"
)

// TestTooManyConnections checks that a connection beyond a bound gets a 503, and that the existing ones
// continue to work. When one of them closes, there is room again.
func TestTooManyConnections(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"in all":      func(cfg *Config) { cfg.MaxConns = 3; cfg.MaxConnsPerAddress = 100 },
		"per address": func(cfg *Config) { cfg.MaxConnsPerAddress = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := start(t, change)
			var conns []*client
			for range 3 {
				c := dial(t, addr).send(request("GET", assets))
				expect(t, 200, "", c.receive("GET"))
				conns = append(conns, c)
			}
			for range 5 {
				c := dial(t, addr).send(request("GET", assets))
				a := c.receive("GET")
				expect(t, 503, "SERVICE_UNAVAILABLE", a)
				if !a.Close {
					t.Error("the refusal does not say close")
				}
				c.closed()
			}
			if name == "per address" && runtime.GOOS == "linux" { // here 127.0.0.2 is also this machine
				other := dialFrom(t, "127.0.0.2", addr).send(request("GET", assets))
				expect(t, 200, "", other.receive("GET"))
				other.Close()
				until(t, func() bool { return s.Stats().Open == 3 })
			}
			for _, c := range conns {
				expect(t, 200, "", c.send(request("GET", assets)).receive("GET"))
			}
			if got := s.Stats(); got.Open != 3 || got.Refused != 5 {
				t.Errorf("stats %+v", got)
			}
			conns[0].Close()
			// It may take a while until the server notices this.
			for {
				c := dial(t, addr).send(request("GET", assets))
				a := c.receive("GET")
				c.Close() // otherwise it would occupy the place of the next one
				if a.StatusCode == 200 {
					break
				}
				expect(t, 503, "SERVICE_UNAVAILABLE", a)
			}
		})
	}
}

// failing is a listener whose first calls of Accept return errs.
type failing struct {
	net.Listener
	mu   sync.Mutex
	errs []error
}

func (l *failing) Accept() (net.Conn, error) {
	l.mu.Lock()
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		l.mu.Unlock()
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: err}
	}
	l.mu.Unlock()
	return l.Listener.Accept()
}

// TestAcceptErrors checks that a server survives temporary errors of Accept, such as a lack of files, and
// that Serve returns a permanent one.
func TestAcceptErrors(t *testing.T) {
	inner := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ln := &failing{Listener: inner, errs: []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOBUFS,
		syscall.ENOMEM}}
	s := newServer(t, Config{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c := dial(t, inner.Addr().String()).send(request("GET", assets))
	expect(t, 200, "", c.receive("GET"))
	c.Close()
	must.OK(t, s.Drain(t.Context()))
	if err := <-served; err != nil {
		t.Error(err)
	}

	inner = must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer inner.Close()
	s = newServer(t, Config{})
	if err := s.Serve(&failing{Listener: inner, errs: []error{syscall.EINVAL}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Serve: %v", err)
	}
	if err := s.Serve(inner); err == nil {
		t.Error("served twice")
	}
}

// TestSlowReaders checks that a client that reads slowly gets the whole answer as long as it reads writeStep
// bytes within WriteTimeout, and that a client that reads nothing loses its connection.
func TestSlowReaders(t *testing.T) {
	const timeout = 300 * time.Millisecond
	big := make([]byte, 16<<20)
	s, addr := start(t, func(cfg *Config) {
		cfg.WriteTimeout = timeout
		cfg.Answer = func(r *Request) error {
			if r.Asked.Query.Page == 2 {
				r.Asked.Buffers.Body() // composed for this request
			}
			r.Asked.Reply.Body = big
			return nil
		}
	})
	for _, page := range []string{"1", "2"} {
		stuck := dial(t, addr).send(request("GET", assets+"?page="+page))
		slow := dial(t, addr).send(request("GET", assets+"?page="+page))
		res := must.Get(http.ReadResponse(slow.r, nil))(t)
		began, read := time.Now(), 0
		for read < len(big) {
			n, err := io.CopyN(io.Discard, res.Body, 1<<20)
			if read += int(n); err != nil {
				t.Fatalf("page %s: after %d bytes: %v", page, read, err)
			}
			time.Sleep(timeout / 10)
		}
		if took := time.Since(began); took < timeout {
			t.Errorf("the slow client took only %v", took)
		}
		slow.Close()
		until(t, func() bool { return s.Stats().Open == 0 })
		if n, err := io.Copy(io.Discard, stuck.r); n >= int64(len(big)) {
			t.Errorf("page %s: the stuck client got %d bytes, %v", page, n, err)
		}
	}
}

// draining starts to drain a server. The channel receives the result of Drain.
func draining(t *testing.T, s *Server, ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Drain(ctx) }()
	until(t, func() bool { return s.draining.Load() })
	return done
}

// TestDrain checks that a draining server answers busy connections with Connection: close, closes silent and
// idle ones, and accepts no new ones.
func TestDrain(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{})
	s, addr := start(t, func(cfg *Config) {
		cfg.Answer = func(r *Request) error {
			if r.Asked.Query.Page == 2 {
				entered <- struct{}{}
				<-release
			}
			return stub(r)
		}
	})
	silent := dial(t, addr)
	idle := dial(t, addr).send(request("GET", assets))
	expect(t, 200, "", idle.receive("GET"))
	lively := dial(t, addr).send(request("GET", assets))
	expect(t, 200, "", lively.receive("GET"))
	busy := dial(t, addr).send(request("GET", assets+"?page=2"))
	<-entered

	done := draining(t, s, t.Context())
	// The connection is still open, and the answer asks the client to close it.
	a := lively.send(request("GET", assets)).receive("GET")
	expect(t, 200, "", a)
	if !a.Close {
		t.Error("an answer while draining does not say close")
	}
	lively.closed()
	silent.closed()
	idle.closed()
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("a new connection is taken")
	}
	select {
	case err := <-done:
		t.Fatalf("drained with a request unanswered: %v", err)
	default:
	}
	close(release)
	a = busy.receive("GET")
	expect(t, 200, "", a)
	if !a.Close {
		t.Error("the last answer does not say close")
	}
	busy.closed()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestQuiet checks that Quiet counts requests, but not connections that wait for one.
func TestQuiet(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{})
	s, addr := start(t, func(cfg *Config) {
		cfg.Answer = func(r *Request) error {
			if r.Asked.Query.Page == 2 {
				entered <- struct{}{}
				<-release
			}
			return stub(r)
		}
	})
	dial(t, addr)
	until(t, func() bool { return s.Stats().Open == 1 })
	if got := s.Quiet(); got != math.MaxInt64 {
		t.Errorf("before the first request: quiet for %v", got)
	}
	busy := dial(t, addr).send(request("GET", assets+"?page=2"))
	<-entered
	if got := s.Quiet(); got != 0 {
		t.Errorf("beside a request: quiet for %v", got)
	}
	began := time.Now()
	close(release)
	expect(t, 200, "", busy.receive("GET"))
	until(t, func() bool { return s.Quiet() > 0 })
	quiet := s.Quiet()
	if quiet > time.Since(began) {
		t.Errorf("after the answer: quiet for %v", quiet)
	}
	busy.Close()
	until(t, func() bool { return s.Stats().Open == 1 })
	if got := s.Quiet(); got < quiet || got > time.Since(began) {
		t.Errorf("once the connection is gone: quiet for %v, before that %v", got, quiet)
	}
	half := dial(t, addr).send("GET / HT")
	until(t, func() bool { return s.Quiet() == 0 })
	half.Close()
}

// awaitState waits until the server's only connection is in the given state.
func awaitState(t *testing.T, s *Server, want state) {
	t.Helper()
	until(t, func() (is bool) {
		if l := s.listener.Load(); l != nil { // Serve may not have begun
			l.eachConn(func(c *conn) { is = c.is(want) })
		}
		return is
	})
}

// TestDrainTimeout checks that Drain cuts off connections that do not end in time, and says so.
func TestDrainTimeout(t *testing.T) {
	s, addr := start(t, func(cfg *Config) { cfg.ReadTimeout = patience })
	half := dial(t, addr).send("GET / HTTP/1.1\r\nHost: x\r\n")
	awaitState(t, s, serving)
	ctx, cancel := context.WithCancel(t.Context())
	done := draining(t, s, ctx)
	cancel()
	err := <-done
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 connections") {
		t.Errorf("Drain: %v", err)
	}
	if _, err := half.r.ReadByte(); err == nil {
		t.Error("the connection was not cut off")
	}
}

// TestDrainUnderLoad checks that clients that keep sending requests get an answer to each of them, up to the
// one with Connection: close.
func TestDrainUnderLoad(t *testing.T) {
	s, addr := start(t, nil)
	const clients = 16
	var wg sync.WaitGroup
	warm := make(chan struct{}, clients)
	for i := range clients {
		c := dial(t, addr)
		wg.Go(func() {
			raw := request("GET", assets, fmt.Sprintf("X-Request-Id: c-%d", i))
			for n := 0; ; n++ {
				if _, err := io.WriteString(c.Conn, raw); err != nil {
					t.Errorf("client %d, request %d: %v", i, n, err)
					return
				}
				res, err := http.ReadResponse(c.r, nil)
				if err != nil {
					t.Errorf("client %d, request %d: %v", i, n, err)
					return
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
					t.Errorf("client %d, request %d: %d, %v", i, n, res.StatusCode, err)
					return
				}
				if n == 20 {
					warm <- struct{}{}
				}
				if res.Close {
					return
				}
			}
		})
	}
	for range clients {
		<-warm
	}
	must.OK(t, s.Drain(t.Context()))
	wg.Wait()
}

// TestLinger checks that the last answer on a connection arrives even if the client is still sending.
func TestLinger(t *testing.T) {
	_, addr := start(t, nil)
	for range 20 {
		c := dial(t, addr)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			io.WriteString(c.Conn, request("GET", assets, "Content-Length: 200000"))
			for range 20 {
				io.WriteString(c.Conn, strings.Repeat("a", 10_000))
			}
		}()
		<-sent
		expect(t, 413, "PAYLOAD_TOO_LARGE", c.receive("GET"))
		c.Close()
	}
}

// segments is a connection whose Read returns one segment at a time. Like a socket, it returns no bytes for
// an empty buffer.
type segments struct {
	script
	left    [][]byte
	empty   int  // Reads with an empty buffer
	grown   int  // bytes allocated for out
	discard bool // discard what is written
}

func (s *segments) Write(p []byte) (int, error) {
	if s.discard {
		return len(p), nil
	}
	before := s.out.Cap()
	defer func() {
		if after := s.out.Cap(); after != before {
			s.grown += after
		}
	}()
	return s.out.Write(p)
}

func (s *segments) Read(p []byte) (int, error) {
	if len(p) == 0 {
		if s.empty++; s.empty > 1000 {
			panic("reads into no room, for ever")
		}
		return 0, nil
	}
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.left[0])
	if s.left[0] = s.left[0][n:]; len(s.left[0]) == 0 {
		s.left = s.left[1:]
	}
	return n, nil
}

// rest returns the number of bytes that are still to be read.
func (s *segments) rest() (n int) {
	for _, segment := range s.left {
		n += len(segment)
	}
	return n
}

// TestAnswerAfterSlowOne checks that the write deadline of an answer to a slow reader does not apply to the
// next answer.
func TestAnswerAfterSlowOne(t *testing.T) {
	const timeout = time.Second
	big := make([]byte, 16<<20)
	s, addr := start(t, func(cfg *Config) {
		cfg.WriteTimeout = timeout
		cfg.Answer = func(r *Request) error {
			if r.Asked.Query.Page == 1 {
				return stub(r)
			}
			r.Asked.Reply.Body = big
			return nil
		}
	})
	c := dial(t, addr).send(request("GET", assets+"?page=2"))
	awaitState(t, s, serving)
	res := must.Get(http.ReadResponse(c.r, nil))(t)
	if n, err := io.Copy(io.Discard, res.Body); n != int64(len(big)) || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	asked := time.Now()
	until(t, func() bool { return time.Since(asked) > timeout })
	expect(t, 200, "", c.send(request("GET", assets)).receive("GET"))
}

// TestKeepAlive checks that connections may be idle for longer than the 90 seconds of the pools of hyper and
// net/http, and that answers state this time, less a few seconds (affinidi-tdk-rs 654, hyper 2136).
func TestKeepAlive(t *testing.T) {
	for idle, want := range map[time.Duration]string{0: "timeout=115", 30 * time.Second: "timeout=25",
		7500 * time.Millisecond: "timeout=2", 5 * time.Second: ""} {
		_, addr := start(t, func(cfg *Config) { cfg.IdleTimeout = idle })
		if got := ask(t, addr, "GET", assets).Header.Get("Keep-Alive"); got != want {
			t.Errorf("idle for %v: %q, want %q", idle, got, want)
		}
		if got := ask(t, addr, "GET", assets, "Connection: close").Header.Get("Keep-Alive"); got != "" {
			t.Errorf("the last answer: %q", got)
		}
	}
}

// TestLaterRequests checks that ReadTimeout counts from the first byte of each request, even if IdleTimeout
// is longer.
func TestLaterRequests(t *testing.T) {
	_, addr := start(t, func(cfg *Config) { cfg.ReadTimeout, cfg.IdleTimeout = 50*time.Millisecond, 10*patience })
	c := dial(t, addr).send(request("GET", assets))
	expect(t, 200, "", c.receive("GET"))
	expect(t, 408, "REQUEST_TIMEOUT", c.send("GET / HT").receive("GET"))
	c.closed()
}

// slowLines collects the ids of logged requests that begin with "slow-".
type slowLines struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (l *slowLines) Write(p []byte) (int, error) {
	if _, id, ok := strings.Cut(string(p), `"request_id":"slow-`); ok {
		id, _, _ = strings.Cut(id, `"`)
		l.mu.Lock()
		l.ids[id] = true
		l.mu.Unlock()
	}
	return len(p), nil
}

// TestSlowPipeline checks that answers that wait for a slow reader, and their log lines, are correct although
// the server answers other requests in the meantime.
func TestSlowPipeline(t *testing.T) {
	const n = 20_000
	body := []byte(strings.Repeat("b", 400)) // so that the answers do not fit into the sockets' buffers
	lines := &slowLines{ids: map[string]bool{}}
	s, addr := start(t, func(cfg *Config) {
		cfg.Logger, cfg.LogAll, cfg.WriteTimeout = slog.New(slog.NewJSONHandler(lines, nil)), true, patience
		cfg.Answer = func(r *Request) error { r.Asked.Reply.Body = body; return nil }
	})
	c := dial(t, addr)
	must.OK(t, c.Conn.(*net.TCPConn).SetReadBuffer(64<<10))
	go func() {
		var raw strings.Builder
		for i := range n {
			raw.WriteString(request("GET", assets, fmt.Sprintf("X-Request-Id: slow-%d", i)))
		}
		io.WriteString(c.Conn, raw.String())
	}()
	awaitState(t, s, serving)
	var others sync.WaitGroup
	var done atomic.Bool
	for range 4 {
		other := dial(t, addr)
		others.Go(func() {
			for !done.Load() {
				io.WriteString(other.Conn, request("GET", assets+"?page=0", "X-Request-Id: other"))
				if res, err := http.ReadResponse(other.r, nil); err == nil {
					io.Copy(io.Discard, res.Body)
				}
			}
		})
	}
	var wrong string
	for i := range n {
		if a := c.receive("GET"); a.Header.Get("X-Request-Id") != fmt.Sprintf("slow-%d", i) || a.body != string(body) {
			wrong = fmt.Sprintf("answer %d: id %q, body %.100q", i, a.Header.Get("X-Request-Id"), a.body)
			break
		}
	}
	done.Store(true)
	others.Wait()
	if wrong != "" {
		t.Fatal(wrong)
	}
	until(t, func() bool { lines.mu.Lock(); defer lines.mu.Unlock(); return len(lines.ids) == n })
}

// TestPayWait checks that a download does not wait for tokens forever, nor after its client has gone.
func TestPayWait(t *testing.T) {
	keys, text := newKeys(t, 1, 1)
	key, _ := keys.Lookup([]byte(text), time.Now(), nil)
	key.Charge(limit.Decision{}, limit.At(time.Now()), 100)
	out := &sending{File: &files.File{File: artifacts.File{Bytes: 1, ChunkBytes: 1,
		Chunks: make([]artifacts.Digest, 1)}}, key: key}
	s := newServer(t, Config{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.payChunk(gone, out); err != context.Canceled {
		t.Errorf("without a client: %v", err)
	}
	s.payWait = time.Millisecond
	if err := s.payChunk(t.Context(), out); err != context.DeadlineExceeded {
		t.Errorf("without tokens: %v", err)
	}
}
