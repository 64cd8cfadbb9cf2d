package edge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/edge/reqid"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/rawhttp"
	"example.com/marketdata/internal/test/teststore"
)

// These tests send requests to a whole edge over TCP, as an attacker would. They check that each answer is as
// the interface says, that the connection ends where the beginning of the next request is ambiguous, and that
// the edge continues to answer correctly. The tests of package server cover each rule separately.

// hostilePatience bounds how long a test waits. Nothing should take that long.
const hostilePatience = 30 * time.Second

// board is the request with which tests check that an edge works.
const board = "/openapi/v1/assets?size=5"

// site is an edge with a key and a snapshot, and its log.
type site struct {
	*Edge
	t     *testing.T
	key   string // a key in force
	board string // the right answer to board
	log   *lockedLog
}

// lockedLog is a log that a test can read while the edge writes to it.
type lockedLog struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func newSite(t *testing.T, change func(*Config)) *site {
	t.Helper()
	mem := memstore.New()
	made := teststore.Key(t, mem, 1_000_000, 1_000_000)
	teststore.Publish(t, mem, teststore.NewFeed(300, 1), teststore.Start)
	s := &site{t: t, key: made.Key, log: new(lockedLog)}
	s.Edge, _ = start(t, mem, func(c *Config) {
		c.AuthOff = false
		c.Log = slog.New(slog.NewJSONHandler(s.log, nil))
		c.Server.AddressRate, c.Server.AddressBurst, c.Server.OpenRate, c.Server.OpenBurst = 100_000, 100_000, 100_000,
			100_000
		if change != nil {
			change(c)
		}
	})
	until(t, "readiness", func() bool {
		return s.current() != nil &&
			(s.watcher == nil || s.watcher.Status().InForce == 1)
	})
	c := s.dial().send(s.request("GET", board))
	s.board = c.receive("GET").body
	c.end()
	return s
}

// request returns a request with a valid key.
func (s *site) request(method, target string, headers ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: edge.test\r\n" + strings.Join(append(headers,
		"X-Api-Key: "+s.key, ""), "\r\n") + "\r\n"
}

// well checks that the edge answers the request board correctly on a new connection.
func (s *site) well() {
	s.t.Helper()
	c := s.dial().send(s.request("GET", board))
	defer c.end()
	if r := c.receive("GET"); r == nil || r.status != http.StatusOK || r.body != s.board {
		s.t.Fatalf("the edge is not well: %+v", r)
	}
}

// peer is a client's connection.
type peer struct {
	t *testing.T
	net.Conn
	r       *bufio.Reader
	sending sync.WaitGroup
}

func (s *site) dial() *peer {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err == nil {
		err = c.SetDeadline(time.Now().Add(hostilePatience))
	}
	must.OK(s.t, err)
	return &peer{t: s.t, Conn: c, r: bufio.NewReader(c)}
}

// send sends in the background, because the edge may answer and close the connection before it has received
// everything.
func (p *peer) send(raw string) *peer {
	p.sending.Go(func() { _, _ = io.WriteString(p.Conn, raw) })
	return p
}

// end closes the connection.
func (p *peer) end() {
	p.Close()
	p.sending.Wait()
}

// response is a well-formed answer.
type response struct {
	status int
	key    string // message_key; "" unless it is an error with a body
	id     string // X-Request-Id
	header http.Header
	body   string
}

// receive reads one answer and checks the rules that apply to every answer. It returns nil if there is no
// answer.
func (p *peer) receive(method string) *response {
	p.t.Helper()
	var res *http.Response
	var err error
	for res == nil || res.StatusCode == http.StatusContinue {
		if res, err = http.ReadResponse(p.r, &http.Request{Method: method}); err != nil {
			p.t.Errorf("no answer: %v", err)
			return nil
		}
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Errorf("answer %d: body: %v", res.StatusCode, err)
		return nil
	}
	key := rawhttp.Check(p.t, method, res, string(body))
	return &response{status: res.StatusCode, key: key, id: res.Header.Get("X-Request-Id"), header: res.Header,
		body: string(body)}
}

// closed checks that the edge closes the connection without sending anything else. A reset is valid, too: it
// occurs if the client sent more than the edge reads.
func (p *peer) closed() {
	p.t.Helper()
	rest, err := io.ReadAll(p.r)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		p.t.Errorf("after the last answer: %.200q, %v; want the end", rest, err)
	}
}

// corpus sends the bytes of a case and checks the answers.
func (s *site) corpus(t *testing.T, c *rawhttp.Case) {
	t.Helper()
	p := s.dial().send(c.Raw)
	p.t = t
	defer p.end()
	if c.Open {
		p.receive(c.Method(0))
		return
	}
	// receive skips 100.
	statuses := slices.DeleteFunc(slices.Clone(c.Status), func(n int) bool { return n == http.StatusContinue })
	for i, want := range statuses {
		if r := p.receive(c.Method(i)); r == nil || r.status != want {
			t.Errorf("%s: answer %d is not %d: %.300v", c.Name, i+1, want, r)
			return
		}
	}
	if c.Closes {
		p.closed()
	}
}

// TestHostileFlood sends the whole corpus repeatedly on concurrent connections. It checks that each case is
// answered as the interface says, that neither memory nor goroutines remain in use, and that another client
// gets right answers throughout.
func TestHostileFlood(t *testing.T) {
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	s := newSite(t, func(c *Config) { c.AuthOff, c.Server.ReadTimeout = true, time.Second })
	list := rawhttp.Cases()
	flood := func(rounds int) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < rounds*len(list) && !t.Failed(); i = int(next.Add(1)) - 1 {
					s.corpus(t, &list[i%len(list)])
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for open := true; open; {
			s.well()
			select {
			case <-done:
				open = false
			default:
			}
		}
		until(t, "no connections", func() bool { return s.public.Stats().Open == 0 })
	}
	measure := func() (heap uint64, goroutines int) {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the second collection empties the pools
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	flood(1) // allocates what is allocated only once
	before, _ := measure()
	flood(rounds)
	after, goroutines := measure()
	if after > before+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes in %d connections", before, after, rounds*len(list))
	}
	// fasthttp keeps idle workers for ten seconds.
	if goroutines > 200 {
		t.Errorf("%d goroutines", goroutines)
	}
}

// TestPipelined checks that requests sent in a pipeline are answered completely and in order, even if the
// last one is not a valid request.
func TestPipelined(t *testing.T) {
	s := newSite(t, nil)
	type question struct{ method, target, headers string }
	questions := []question{
		{"GET", board, ""}, {"HEAD", board, ""},
		{"GET", "/openapi/v1/quotes?size=100&sort=id:desc", "Accept-Encoding: gzip\r\n"},
		{"GET", "/openapi/v1/global", ""},
		{"OPTIONS", board, ""}, {"POST", board, "Content-Length: 0\r\n"}, {"GET", "/nowhere", ""},
		{"GET", "/openapi/v1/assets?page=x", ""},
		{"GET", "/openapi/v1/trending", "If-None-Match: *\r\n"}, {"HEAD", "/nowhere", ""},
	}
	ask := func(c *peer, q question, id string) {
		c.send(strings.Replace(s.request(q.method, q.target, "X-Request-Id: "+id), "\r\n\r\n", "\r\n"+q.headers+"\r\n",
			1))
		c.sending.Wait()
	}
	// First send each on a connection of its own.
	want := make([]*response, len(questions))
	for i, q := range questions {
		c := s.dial()
		ask(c, q, "alone")
		want[i] = c.receive(q.method)
		c.end()
	}
	const n = 1000
	var raw strings.Builder
	random := rand.New(rand.NewPCG(1, 1))
	asked := make([]int, n)
	for i := range asked {
		asked[i] = random.IntN(len(questions))
		q := questions[asked[i]]
		raw.WriteString(strings.Replace(s.request(q.method, q.target, "X-Request-Id: id-"+strconv.Itoa(i)), "\r\n\r\n",
			"\r\n"+q.headers+"\r\n", 1))
	}
	raw.WriteString(s.request("GET", board, "Content-Length: 1", "Transfer-Encoding: chunked") +
		s.request("GET", board))
	c := s.dial()
	defer c.end()
	c.sending.Go(func() {
		// Send pieces that end at random positions.
		for rest := raw.String(); len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(5000))
			if _, err := io.WriteString(c.Conn, rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
	})
	for i, which := range asked {
		r := c.receive(questions[which].method)
		if r == nil || r.id != "id-"+strconv.Itoa(i) || r.status != want[which].status || r.body != want[which].body {
			t.Fatalf("answer %d: %+v, want %+v", i, r, want[which])
		}
	}
	if r := c.receive("GET"); r == nil || r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("the last answer: %+v", r)
	}
	c.closed()
	s.well()
}

// TestInjection checks that nothing that a client sends can add a header to an answer or a line to the log,
// or put a key into the log.
func TestInjection(t *testing.T) {
	var text lockedLog
	s := newSite(t, func(c *Config) {
		c.Server.LogAll = true
		c.Log = slog.New(slog.NewMultiHandler(c.Log.Handler(), slog.NewTextHandler(&text, nil)))
	})
	const line = `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"injected"}`
	asked := 0
	for _, value := range []string{
		"a\r\n Set-Cookie: a=b", "a%0d%0aSet-Cookie:%20a=b", "a\rSet-Cookie: a=b", "a\x00b", "a\x1b[31mb",
		"\u2028" + line, `","msg":"injected`, "\xff\xfe", "a b", strings.Repeat("x", 129),
		"x\x85y", "x\u0085" + line, "time=now level=INFO msg=injected", `\n` + line,
	} {
		for _, raw := range []string{
			s.request("GET", board, "X-Request-Id: "+value),
			s.request("GET", board, "User-Agent: "+value, "Referer: "+value, "Origin: "+value,
				"X-Forwarded-For: "+value, "Traceparent: "+value),
			s.request("GET", "/"+value), s.request("GET", board+"&slug="+value), s.request(value, "/"),
			"GET / HTTP/1.1\r\nHost: " + value + "\r\n\r\n", s.request("GET", "/", value+": a"),
			"GET " + board + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + value + "\r\n\r\n",
			"GET " + board + "&api_key=" + s.key + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " +
				s.key + "\r\n\r\n",
			value + "\r\n\r\n",
		} {
			c := s.dial().send(raw)
			c.sending.Wait()
			// Some values are an incomplete head.
			must.OK(t, c.Conn.(*net.TCPConn).CloseWrite())
			if r := c.receive("GET"); r != nil {
				asked++
				if r.header.Get("Set-Cookie") != "" || r.header.Get("Injected") != "" || strings.Contains(r.body,
					s.key) || len(r.id) != reqid.Length {
					t.Errorf("%q: id %q, header %v, body %s", raw, r.id, r.header, r.body)
				}
			}
			c.end()
		}
	}
	s.well()
	logged := 0
	for line := range strings.Lines(s.log.String()) {
		var entry struct{ Time, Level, Msg, Request_ID, Client string }
		d := json.NewDecoder(strings.NewReader(line))
		if err := d.Decode(&entry); err != nil || d.More() || entry.Time == "" || entry.Level == "" ||
			entry.Msg == "" || entry.Msg == "injected" {
			t.Errorf("log line %q: %v", line, err)
		}
		if entry.Msg == "request" {
			logged++
			if !reqid.Valid([]byte(entry.Request_ID)) || entry.Client != "127.0.0.0/24" {
				t.Errorf("log line %q", line)
			}
		}
	}
	if logged < asked {
		t.Errorf("%d lines of %d requests", logged, asked)
	}
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "time=") || strings.ContainsAny(line, "\r\x00\x1b\u2028\u0085") {
			t.Errorf("log line %q", line)
		}
	}
	for _, log := range []string{s.log.String(), text.String()} {
		if strings.Contains(log, "mdk_live_") || strings.Contains(log, "127.0.0.1:") &&
			strings.Contains(log, "client=127.0.0.1") {
			t.Error("the log holds a key or a full address")
		}
	}
}
