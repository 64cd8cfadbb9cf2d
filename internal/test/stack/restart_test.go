package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
)

// turns starts edges that take turns at one address.
type turns struct {
	*local.Machine
	socket *os.File // passed to each edge, as systemd does
	n      int
}

// turn is one edge.
type turn struct {
	*local.Program
	notices *net.UnixConn // what the edge tells systemd
}

// start starts the next edge and waits until it reports that it is ready.
func (e *turns) start(t *testing.T) *turn {
	t.Helper()
	address := &net.UnixAddr{Net: "unixgram", Name: filepath.Join(e.Data, fmt.Sprint("notices", e.n))}
	e.n++
	next := &turn{notices: must.Get(net.ListenUnixgram("unixgram", address))(t)}
	// LISTEN_PID must be the process id of the edge.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$; export LISTEN_PID; exec "$@"`, "sh",
		filepath.Join(e.Bin, "edge"), "--store", e.Store, "--auth", "off",
		"--listen", "127.0.0.1:1", // the edge does not open it
		"--max-conns-per-address", "10000", // all clients share one address
		"--admin", "127.0.0.1:0", "--cache-dir", filepath.Join(e.Data, "edge"), "--cache-size", "16MiB",
		"--drain-wait", "0s")
	cmd.ExtraFiles = []*os.File{e.socket}
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+address.Name, "LISTEN_FDS=1", "LISTEN_FDNAMES=listen")
	next.Program = must.Get(e.StartCommand("edge", cmd))(t)
	t.Cleanup(next.Kill)
	next.expect(t, "READY=1")
	return next
}

func (p *turn) expect(t *testing.T, want string) {
	t.Helper()
	b := make([]byte, 100)
	must.OK(t, p.notices.SetReadDeadline(time.Now().Add(30*time.Second)))
	if n, err := p.notices.Read(b); err != nil || string(b[:n]) != want {
		t.Fatalf("it tells systemd %q, %v, want %q\n%s", b[:n], err, want, p.Tail())
	}
}

// end makes the edge drain and waits until it has stopped.
func (p *turn) end(t *testing.T) {
	t.Helper()
	p.Stop()
	p.expect(t, "STOPPING=1")
	must.OK(t, p.notices.Close())
	if p.Err() != nil {
		t.Fatal(p.Failure())
	}
}

// load sends requests to an address and counts what clients see.
type load struct {
	t      *testing.T
	listen string

	// late counts the requests that took more than a second, longest is in milliseconds, and open
	// counts the requests that are not answered yet.
	asked, dialed, repeated, failed, late, longest, open atomic.Int64
}

// kept is a connection that an edge keeps open.
type kept struct {
	net.Conn
	r *bufio.Reader
}

// errGone means that not a single byte of an answer arrived.
var errGone = errors.New("the connection was closed without an answer")

// exchange sends a request on c, or on a new connection if c is nil. It returns the connection if
// it stays open.
func (l *load) exchange(c *kept, request string) (*kept, error) {
	const patience = 10 * time.Second
	if c == nil {
		conn, err := net.DialTimeout("tcp", l.listen, patience)
		if err != nil {
			return nil, err
		}
		l.dialed.Add(1)
		c = &kept{conn, bufio.NewReader(conn)}
	}
	err := c.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = io.WriteString(c, request)
	}
	if err == nil {
		_, err = c.r.Peek(1)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	res, err := http.ReadResponse(c.r, nil)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(res.Body)
	}
	if err != nil || res.StatusCode != 200 || len(body) < 1000 || int64(len(body)) != res.ContentLength {
		c.Close()
		return nil, fmt.Errorf("answer %.500q: %v", body, err)
	}
	if res.Close {
		return nil, c.Close()
	}
	return c, nil
}

// ask sends one request on c, or on a new connection if c is nil. It returns the connection if it
// stays open.
func (l *load) ask(c *kept, headers string) *kept {
	request := "GET /openapi/v1/assets?limit=10 HTTP/1.1\r\nHost: edge.test\r\n" + headers + "\r\n"
	l.open.Add(1)
	defer l.open.Add(-1)
	began := time.Now()
	next, err := l.exchange(c, request)
	if c != nil && errors.Is(err, errGone) {
		// An edge may close an idle connection while a request is on its way. Clients repeat the
		// requests that they may repeat (RFC 9112, section 9.3.1).
		l.repeated.Add(1)
		next, err = l.exchange(nil, request)
	}
	if err != nil && l.failed.Add(1) <= 10 {
		l.t.Errorf("request %d: %v", l.asked.Load(), err)
	}
	l.asked.Add(1)
	took := time.Since(began)
	if took > time.Second {
		l.late.Add(1)
	}
	for {
		if old := l.longest.Load(); took.Milliseconds() <= old || l.longest.CompareAndSwap(old, took.Milliseconds()) {
			return next
		}
	}
}

// keep sends requests on one connection for as long as the edge keeps it open, and then on the next
// one, until ctx is done.
func (l *load) keep(ctx context.Context, every time.Duration) {
	var c *kept
	for due := time.Now(); ctx.Err() == nil; due = due.Add(every) {
		time.Sleep(time.Until(due))
		c = l.ask(c, "")
	}
	if c != nil {
		c.Close()
	}
}

// dial sends each request on a new connection, whether or not the previous one has been answered,
// until ctx is done.
func (l *load) dial(ctx context.Context, every time.Duration) {
	var asking sync.WaitGroup
	for due := time.Now(); ctx.Err() == nil; due = due.Add(every) {
		time.Sleep(time.Until(due))
		asking.Go(func() { l.ask(nil, "Connection: close\r\n") })
	}
	asking.Wait()
}

// TestRestarts restarts edges that inherit their socket from systemd while 2,000 requests a second
// arrive, half of them on new connections. No request may be refused or cut short. With TEST_LONG=1
// there are 200 restarts.
func TestRestarts(t *testing.T) {
	restarts := 3
	if os.Getenv(longTest) == "1" {
		restarts = 200
	}
	m := &local.Machine{Bin: buildPrograms(t, root), Data: t.TempDir()}
	m.Store = "file:" + filepath.Join(m.Data, "store")
	must.OK(t, m.BuildPast(t.Context(), "sim:?assets=200&seed=7", time.Now(), []time.Duration{0}))
	var config net.ListenConfig
	config.SetMultipathTCP(false) // as systemd does not
	ln := must.Get(config.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	e := &turns{Machine: m, socket: must.Get(ln.(*net.TCPListener).File())(t)}
	defer e.socket.Close()
	must.OK(t, ln.Close())
	last := e.start(t)
	l := &load{t: t, listen: ln.Addr().String()}
	ctx, enough := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	began := time.Now()
	clients.Go(func() { l.dial(ctx, time.Millisecond) })
	for range 40 {
		clients.Go(func() { l.keep(ctx, 40*time.Millisecond) })
	}
	t.Cleanup(clients.Wait)
	t.Cleanup(enough)
	for range restarts {
		last.end(t)
		last = e.start(t)
		// Requests that waited for the edge are answered before the next restart.
		must.OK(t, poll(t.Context(), "answers", func() (bool, error) { return l.open.Load() < 100, nil }))
	}
	took := time.Since(began)
	enough()
	clients.Wait()
	last.end(t)
	t.Logf("%d restarts in %v: %d requests, %.0f a second, on %d connections; %d failed, %d repeated, "+
		"%d took over a second, the longest %d ms", restarts, took.Round(time.Second), l.asked.Load(),
		float64(l.asked.Load())/took.Seconds(), l.dialed.Load(), l.failed.Load(), l.repeated.Load(),
		l.late.Load(), l.longest.Load())
}
