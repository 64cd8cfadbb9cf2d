package edge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/edge/internal/fixture"
	"example.com/marketdata/edge/reqid"
)

// These tests ask a whole edge, over TCP, as somebody would who means it no
// good: each answer is what the interface says, the connection ends where it is
// doubtful where the next request begins, and the edge goes on answering right.
// Package server tests the shell alone, with more forms of each.

// hostilePatience bounds what a test waits for; nothing should take that long.
const hostilePatience = 30 * time.Second

// board is what is asked to see that an edge is well.
const board = "/openapi/v1/assets?size=5"

// site is an edge with keys and a snapshot, and what it logs.
type site struct {
	*Edge
	t     *testing.T
	key   string // in force
	board string // the right answer to board
	log   *lockedLog
}

// lockedLog is a log that a test reads.
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
	registry := keys.Registry{Store: mem}
	made, err := registry.Create(t.Context(), keys.Request{Name: "test", Rate: 1_000_000, Burst: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	fixture.Publish(t, mem, fixture.Feed(300, 1), fixture.Start, nil)
	s := &site{t: t, key: made.Key, log: new(lockedLog)}
	s.Edge, _ = start(t, mem, func(c *Config) {
		c.AuthOff = false
		c.Log = slog.New(slog.NewJSONHandler(s.log, nil))
		c.Server.AddressRate, c.Server.AddressBurst, c.Server.OpenRate, c.Server.OpenBurst = 100_000, 100_000, 100_000, 100_000
		if change != nil {
			change(c)
		}
	})
	until(t, "readiness", func() bool { return s.current() != nil && s.watcher.Status().InForce == 1 })
	c := s.dial().send(s.request("GET", board))
	s.board = c.receive("GET").body
	c.end()
	return s
}

// request returns a request with a key in force.
func (s *site) request(method, target string, headers ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: edge.test\r\n" + strings.Join(append(headers, "X-Api-Key: "+s.key, ""), "\r\n") + "\r\n"
}

// well asks for the board on a connection of its own.
func (s *site) well() {
	s.t.Helper()
	c := s.dial().send(s.request("GET", board))
	defer c.end()
	if r := c.receive("GET"); r == nil || r.status != http.StatusOK || r.body != s.board {
		s.t.Fatalf("the edge is not well: %+v", r)
	}
}

// peer is one client's connection.
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
	if err != nil {
		s.t.Fatal(err)
	}
	return &peer{t: s.t, Conn: c, r: bufio.NewReader(c)}
}

// send sends in the background: the edge may answer and close before it has
// taken all.
func (p *peer) send(raw string) *peer {
	p.sending.Go(func() { _, _ = io.WriteString(p.Conn, raw) })
	return p
}

// end closes the connection.
func (p *peer) end() {
	p.Close()
	p.sending.Wait()
}

// reply is an answer that is well formed.
type reply struct {
	status int
	key    string // message_key; "" unless it is an error with a body
	id     string // X-Request-Id
	header http.Header
	body   string
}

// receive reads one answer and checks what every answer must be; nil when there
// is none.
func (p *peer) receive(method string) *reply {
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
	r := &reply{status: res.StatusCode, header: res.Header, body: string(body)}
	ids := res.Header.Values("X-Request-Id")
	if len(ids) != 1 || !reqid.Valid([]byte(ids[0])) {
		p.t.Errorf("answer %d: X-Request-Id %q", r.status, ids)
		return r
	}
	r.id = ids[0]
	if res.Header.Get("Access-Control-Allow-Origin") != "*" {
		p.t.Errorf("answer %d: no CORS header", r.status)
	}
	if r.status < http.StatusBadRequest {
		return r
	}
	if got := res.Header.Get("Cache-Control"); got != "no-store" {
		p.t.Errorf("answer %d: Cache-Control %q", r.status, got)
	}
	if method == http.MethodHead {
		return r
	}
	var envelope struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Key     string          `json:"message_key"`
		Result  json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil || envelope.Code/100 != r.status || envelope.Message == "" || string(envelope.Result) != "{}" {
		p.t.Errorf("answer %d: envelope %q, %v", r.status, body, err)
	}
	r.key = envelope.Key
	return r
}

// closed checks that the edge ends the connection without another word. A reset
// is an end, too: it comes when more was sent than the edge cares to read.
func (p *peer) closed() {
	p.t.Helper()
	rest, err := io.ReadAll(p.r)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		p.t.Errorf("after the last answer: %.200q, %v; want the end", rest, err)
	}
}

// hostileRequest is something to send, and what must come back: one answer; and
// then the end, unless the connection stays open.
type hostileRequest struct {
	name   string
	raw    string
	status int
	key    string
	open   bool
}

// smuggled is what a smuggler would like to be read as a second request.
const smuggled = "GET /openapi/v1/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

// hostileRequests are of every kind. They are bound by size alone, not by time.
func (s *site) hostileRequests() []hostileRequest {
	const bad, no, unknown, method = "BAD_REQUEST", "UNAUTHORIZED", "PATH_NOT_FOUND", "METHOD_NOT_ALLOWED"
	get := func(target string, headers ...string) string { return s.request("GET", target, headers...) }
	// line is a request whose first line is as given.
	line := func(first string) string { return strings.Replace(get("/"), "GET / HTTP/1.1", first, 1) }
	long := func(n int) string { return strings.Repeat("a", n) }
	sized := func(n int) string { return get(board, "X-Long: "+long(n-len(get(board, "X-Long: ")))) }

	list := []hostileRequest{
		// Bodies.
		{"body by length", get(board, "Content-Length: 5") + "hello", 200, "", true},
		{"body like a request", get(board, "Content-Length: "+strconv.Itoa(len(smuggled))) + smuggled, 200, "", true},
		{"body of 4 KiB", get(board, "Content-Length: 4096") + long(4096), 200, "", true},
		{"body in chunks", get(board, "Transfer-Encoding: chunked") + "5;x=y\r\nhello\r\n0\r\nX-T: v\r\n\r\n", 200, "", true},
		{"body of POST", s.request("POST", board, "Content-Length: 5") + "hello", 405, method, true},
		{"body to wait for", get(board, "Expect: 100-continue", "Content-Length: 5") + "hello", 200, "", true},
		{"body of 4 KiB and one", get(board, "Content-Length: 4097") + long(4097), 413, "PAYLOAD_TOO_LARGE", false},
		{"body of 8 MiB", get(board, "Content-Length: 8388608") + long(1<<20), 413, "PAYLOAD_TOO_LARGE", false},
		{"chunks over 4 KiB", get(board, "Transfer-Encoding: chunked") + strings.Repeat("400\r\n"+long(1024)+"\r\n", 8), 413, "PAYLOAD_TOO_LARGE", false},

		// Where the next request begins is doubtful.
		{"length and chunks", get(board, "Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n" + smuggled, 400, bad, false},
		{"chunks and length", get(board, "Transfer-Encoding: chunked", "Content-Length: 5") + "0\r\n\r\n" + smuggled, 400, bad, false},
		{"two lengths", get(board, "Content-Length: 5", "Content-Length: 6") + "hello" + smuggled, 400, bad, false},
		{"list of lengths", get(board, "Content-Length: 5, 6") + "hello" + smuggled, 400, bad, false},
		{"length with a sign", get(board, "Content-Length: +5") + "hello" + smuggled, 400, bad, false},
		{"length in hexadecimal", get(board, "Content-Length: 0x5") + "hello" + smuggled, 400, bad, false},
		{"length past int64", get(board, "Content-Length: 18446744073709551621") + "hello" + smuggled, 400, bad, false},
		{"unknown coding", get(board, "Transfer-Encoding: xchunked") + "0\r\n\r\n" + smuggled, 400, bad, false},
		{"coding behind a tab", get(board, "Transfer-Encoding:\tchunked", "Content-Length: 5") + "0\r\n\r\n" + smuggled, 400, bad, false},
		{"two codings", get(board, "Transfer-Encoding: identity, chunked") + "0\r\n\r\n" + smuggled, 400, bad, false},
		{"chunk size not hexadecimal", get(board, "Transfer-Encoding: chunked") + "z\r\nhello\r\n0\r\n\r\n" + smuggled, 400, bad, false},
		{"chunk size past int64", get(board, "Transfer-Encoding: chunked") + "10000000000000005\r\nhello\r\n0\r\n\r\n" + smuggled, 400, bad, false},
		{"chunk longer than said", get(board, "Transfer-Encoding: chunked") + "4\r\nhello\r\n0\r\n\r\n" + smuggled, 400, bad, false},
		{"chunk with bare LF", get(board, "Transfer-Encoding: chunked") + "5\nhello\n0\n\n" + smuggled, 400, bad, false},
		{"space before colon", get(board, "Content-Length : 5") + "hello" + smuggled, 400, bad, false},
		{"folded first header", line("GET / HTTP/1.1\r\n X-A: b") + smuggled, 400, bad, false},
		{"folded length", get(board, "Content-Length:\r\n 5") + "hello" + smuggled, 400, bad, false},
		{"bare LF", strings.ReplaceAll(get(board), "\r\n", "\n") + smuggled, 400, bad, false},
		{"bare LF at the end", strings.TrimSuffix(get(board), "\r\n") + "\n" + smuggled, 400, bad, false},
		{"bare CR in a value", get(board, "X-A: b\rContent-Length: 5") + smuggled, 400, bad, false},
		{"header without a name", get(board, ": b") + smuggled, 400, bad, false},
		{"header without a colon", get(board, "X-A") + smuggled, 400, bad, false},

		// Hosts, versions, methods, targets.
		{"no Host", "GET " + board + " HTTP/1.1\r\nX-Api-Key: " + s.key + "\r\n\r\n" + smuggled, 400, bad, false},
		{"two Hosts", get(board, "Host: other.test") + smuggled, 400, bad, false},
		{"HTTP/1.0", strings.Replace(get(board), "HTTP/1.1", "HTTP/1.0", 1) + smuggled, 200, "", false},
		{"HTTP/1.0 without a Host", "GET " + board + " HTTP/1.0\r\nX-Api-Key: " + s.key + "\r\n\r\n" + smuggled, 200, "", false},
		{"HTTP/1.0 kept alive", strings.Replace(get(board, "Connection: keep-alive"), "HTTP/1.1", "HTTP/1.0", 1), 200, "", true},
		{"HTTP/1.0 with chunks", strings.Replace(get(board, "Transfer-Encoding: chunked"), "HTTP/1.1", "HTTP/1.0", 1) + "0\r\n\r\n" + smuggled, 400, bad, false},
		{"HTTP/0.9", line("GET /"), 400, bad, false},
		{"another protocol", line("GET / HTCPCP/1.0"), 400, bad, false},
		{"no target", line("GET HTTP/1.1"), 400, bad, false},
		{"target with a space", line("GET / / HTTP/1.1"), 400, bad, false},
		{"method in lower case", line("get / HTTP/1.1"), 405, method, true},
		{"method unheard of", line("BREW /pot HTTP/1.1"), 405, method, true},
		{"method of 1 KiB", line(strings.Repeat("A", 1024) + " / HTTP/1.1"), 405, method, true},
		{"TRACE", s.request("TRACE", "/"), 405, method, true},
		{"CONNECT", s.request("CONNECT", "edge.test:443"), 405, method, true},
		{"absolute form", get("http://other.test" + board), 200, "", true},
		{"absolute form, user and port", get("https://me:secret@other.test:1" + board), 200, "", true},
		{"absolute form, another path", get("http://other.test/nowhere"), 404, unknown, true},
		{"asterisk", get("*"), 404, unknown, true},
		{"OPTIONS of the asterisk", s.request("OPTIONS", "*"), 204, "", true},
		{"dots", get("/openapi/v1/../v1/assets"), 404, unknown, true},
		{"dots, encoded", get("/openapi/v1/%2e%2e/v1/assets"), 404, unknown, true},
		{"two slashes", get("//openapi/v1/assets"), 404, unknown, true},
		{"fragment", get("/openapi/v1/assets#x"), 404, unknown, true},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, bad, false},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, bad, false},
		{"SSH", "SSH-2.0-OpenSSH_9.9\r\n\r\n", 400, bad, false},
		{"noise", "\x00\xff\x7f\r\r\n\n\x01\r\n\r\n", 400, bad, false},

		// Bytes that are not text, escapes that are none.
		{"NUL in the target", get("/\x00"), 400, bad, false},
		{"NUL in a header", get(board, "X-A: a\x00b"), 400, bad, false},
		{"NUL in a header's name", get(board, "X-\x00: a"), 400, bad, false},
		{"invalid UTF-8 in the path", get("/\xc3\x28"), 404, unknown, true},
		{"invalid UTF-8 in a value", get("/openapi/v1/assets?slug=\xff\xfe"), 200, "", true},
		{"invalid UTF-8, escaped", get("/openapi/v1/assets?slug=%c0%80,%ff,%ed%a0%80"), 200, "", true},
		{"NUL, escaped", get("/openapi/v1/assets?symbol=%00&slug=a%00"), 200, "", true},
		{"CR LF, escaped", get("/openapi/v1/assets?slug=a%0d%0aSet-Cookie:%20a=b"), 200, "", true},
		{"escapes that are none", get("/openapi/v1/assets?slug=%,%4,%zz,%u0041"), 200, "", true},
		{"escape in the path", get("/openapi/v1/%61ssets"), 404, unknown, true},
		{"escape in a number", get("/openapi/v1/assets?page=%zz"), 400, bad, true},
		{"number past int64", get("/openapi/v1/assets?page=99999999999999999999"), 400, bad, true},
		{"number with NUL", get("/openapi/v1/assets?page=1%00"), 400, bad, true},

		// Giants.
		{"head of 16 KiB", sized(16 << 10), 200, "", true},
		{"head of 16 KiB and one", sized(16<<10 + 1), 431, "HEADERS_TOO_LARGE", false},
		{"head of 1 MiB", get(board, "X-Long: "+long(1<<20)), 431, "HEADERS_TOO_LARGE", false},
		{"head without an end", "GET / HTTP/1.1\r\n" + strings.Repeat("X-A: b\r\n", 100_000), 431, "HEADERS_TOO_LARGE", false},
		{"URL of 15 KiB", get(board + "&x=" + long(15<<10)), 200, "", true},
		{"URL of 1 MiB", get("/" + long(1<<20)), 431, "HEADERS_TOO_LARGE", false},
		{"a hundred headers", get(board, strings.Repeat("A:b\r\n", 96)+"A: b"), 200, "", true},
		{"thousands of headers", get(board, strings.Repeat("A:b\r\n", 2_000)+"A: b"), 431, "HEADERS_TOO_LARGE", false},
		{"thousands of parameters", get(board + strings.Repeat("&a", 7_000)), 200, "", true},
		{"thousands of values", get("/openapi/v1/assets?id=" + strings.Repeat(",", 14_000)), 400, bad, true},
		{"thousands of codings", get(board, "Accept-Encoding: "+strings.Repeat("gzip,", 2_000)), 200, "", true},
		{"thousands of tags", get(board, "If-None-Match: "+strings.Repeat(`"a",`, 2_000)), 200, "", true},

		// Keys.
		{"two keys", get(board, "X-Api-Key: "+s.key), 401, no, true},
		{"giant key", "GET " + board + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + long(15<<10) + "\r\n\r\n", 401, no, true},
		{"key of bytes", "GET " + board + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: mdk_live_\xff\r\n\r\n", 401, no, true},
		{"two pins", get(board, "X-Snapshot-Time: 2026-03-04T05:10:00Z", "X-Snapshot-Time: 2026-03-04T05:10:00Z"), 400, bad, true},
		{"pin of bytes", get(board, "X-Snapshot-Time: \xff"), 400, bad, true},
	}
	for c := range 256 {
		b := string([]byte{byte(c)})
		if c >= 0x80 {
			list = append(list, hostileRequest{fmt.Sprintf("byte %d in the target", c), get(board + "&x=" + b), 200, "", true})
		} else if c != '\t' && c != '\n' && c < ' ' {
			list = append(list, hostileRequest{fmt.Sprintf("control byte %d in the target", c), get(board + "&x=" + b), 400, bad, false},
				hostileRequest{fmt.Sprintf("control byte %d in a header", c), get(board, "X-A: a"+b+"b") + smuggled, 400, bad, false},
				hostileRequest{fmt.Sprintf("control byte %d in a header's name", c), get(board, "X-"+b+": a") + smuggled, 400, bad, false})
		}
	}
	return list
}

// try sends r and checks what comes back.
func (s *site) try(t *testing.T, r *hostileRequest) {
	t.Helper()
	c := s.dial().send(r.raw)
	c.t = t
	defer c.end()
	got := c.receive("GET")
	if got == nil {
		return
	}
	if got.status != r.status || got.key != r.key {
		t.Errorf("answer %d %s, want %d %s", got.status, got.key, r.status, r.key)
	}
	if got.header.Get("Set-Cookie") != "" {
		t.Error("a header was injected")
	}
	if !r.open {
		c.closed()
		return
	}
	c.send(s.request("GET", board))
	if next := c.receive("GET"); next == nil || next.status != http.StatusOK || next.body != s.board {
		t.Errorf("the next answer on the connection: %+v", next)
	}
}

func TestHostileRequests(t *testing.T) {
	s := newSite(t, nil)
	for _, r := range s.hostileRequests() {
		t.Run(r.name, func(t *testing.T) {
			s.try(t, &r)
			s.well()
		})
	}
}

// TestHostileFlood: thousands of them at once leave neither memory nor
// goroutines behind.
func TestHostileFlood(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	s := newSite(t, nil)
	list := s.hostileRequests()
	flood := func(rounds int) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < rounds*len(list) && !t.Failed(); i = int(next.Add(1)) - 1 {
					s.try(t, &list[i%len(list)])
				}
			})
		}
		wg.Wait()
		until(t, "no connections", func() bool { return s.public.Stats().Open == 0 })
	}
	measure := func() (heap uint64, goroutines int) {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what was in pools is gone after the second
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	flood(1) // what is allocated once
	before, _ := measure()
	flood(rounds)
	after, goroutines := measure()
	if after > before+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes in %d requests", before, after, rounds*len(list))
	}
	// fasthttp keeps idle workers for ten seconds.
	if goroutines > 200 {
		t.Errorf("%d goroutines", goroutines)
	}
	if got := s.public.Stats(); got.Waiting != 0 || got.WaitingBytes != 0 {
		t.Errorf("still waiting: %+v", got)
	}
	s.well()
}

// TestPipelined: requests that are sent at once are answered in order, each
// whole, also when the last of them is no request.
func TestPipelined(t *testing.T) {
	s := newSite(t, nil)
	type question struct{ method, target, headers string }
	questions := []question{
		{"GET", board, ""}, {"HEAD", board, ""}, {"GET", "/openapi/v1/quotes?size=100&sort=id:desc", "Accept-Encoding: gzip\r\n"}, {"GET", "/openapi/v1/global", ""},
		{"OPTIONS", board, ""}, {"POST", board, "Content-Length: 0\r\n"}, {"GET", "/nowhere", ""}, {"GET", "/openapi/v1/assets?page=x", ""},
		{"GET", "/openapi/v1/trending", "If-None-Match: *\r\n"}, {"HEAD", "/nowhere", ""},
	}
	ask := func(c *peer, q question, id string) {
		c.send(strings.Replace(s.request(q.method, q.target, "X-Request-Id: "+id), "\r\n\r\n", "\r\n"+q.headers+"\r\n", 1))
		c.sending.Wait()
	}
	// Each on its own first.
	want := make([]*reply, len(questions))
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
		raw.WriteString(strings.Replace(s.request(q.method, q.target, "X-Request-Id: id-"+strconv.Itoa(i)), "\r\n\r\n", "\r\n"+q.headers+"\r\n", 1))
	}
	raw.WriteString(s.request("GET", board, "Content-Length: 1", "Transfer-Encoding: chunked") + smuggled)
	c := s.dial()
	defer c.end()
	c.sending.Go(func() {
		// In pieces that end anywhere.
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
	if r := c.receive("GET"); r == nil || r.status != http.StatusBadRequest {
		t.Errorf("the last answer: %+v", r)
	}
	c.closed()
	s.well()
}

// TestSlowClients: whoever sends a byte now and then has a deadline, not one
// anew for each byte, and keeps nobody else waiting.
func TestSlowClients(t *testing.T) {
	s := newSite(t, func(c *Config) { c.Server.ReadTimeout = 300 * time.Millisecond })
	head := s.request("GET", board)
	var wg sync.WaitGroup
	for _, begin := range []string{
		"", "GET /", "GET / HTTP/1.1\r\nHost: x\r\nX-A: ", "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 4000),
		s.request("GET", board, "Content-Length: 4000"), s.request("POST", board, "Transfer-Encoding: chunked") + "ff0\r\n",
		head + s.request("GET", board, "Content-Length: 4000"),
	} {
		for range 8 {
			wg.Go(func() {
				c := s.dial().send(begin)
				c.sending.Wait()
				c.sending.Go(func() {
					ticker := time.NewTicker(10 * time.Millisecond)
					defer ticker.Stop()
					for range ticker.C {
						if _, err := c.Write([]byte("a")); err != nil {
							return
						}
					}
				})
				defer c.end()
				if strings.HasPrefix(begin, head) {
					if r := c.receive("GET"); r == nil || r.status != http.StatusOK {
						t.Errorf("before a slow request: %+v", r)
					}
				}
				if r := c.receive("GET"); r == nil || r.key != "REQUEST_TIMEOUT" {
					t.Errorf("%.30q, slowly: %+v", begin, r)
				}
				c.closed()
			})
		}
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for asked := 0; ; asked++ {
		s.well()
		select {
		case <-done:
			if asked < 10 {
				t.Errorf("only %d requests were answered meanwhile", asked)
			}
			until(t, "no slow connections", func() bool { return s.public.Stats().Waiting == 0 })
			return
		default:
		}
	}
}

// TestSlowTakers: whoever asks and asks and takes no answer is cut off.
func TestSlowTakers(t *testing.T) {
	s := newSite(t, func(c *Config) { c.Server.WriteTimeout = 300 * time.Millisecond })
	var takers []*peer
	for range 32 {
		c := s.dial()
		if err := c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		takers = append(takers, c.send(strings.Repeat(s.request("GET", "/openapi/v1/assets?size=100"), 1000)))
	}
	until(t, "all of them waiting", func() bool { return s.public.Stats().Waiting > 0 })
	s.well()
	until(t, "nobody waiting", func() bool { return s.public.Stats().Open == 0 && s.public.Stats().Waiting == 0 })
	for _, c := range takers {
		c.end()
	}
	s.well()
}

// TestConnectionFlood: connections from one address have a bound that leaves
// room for others, and those that are there go on.
func TestConnectionFlood(t *testing.T) {
	const all, one = 64, 16
	s := newSite(t, func(c *Config) { c.Server.MaxConns, c.Server.MaxConnsPerAddress = all, one })
	until(t, "no connections", func() bool { return s.public.Stats().Open == 0 })
	var open []*peer
	for range one {
		c := s.dial().send(s.request("GET", board))
		if r := c.receive("GET"); r == nil || r.status != http.StatusOK {
			t.Fatalf("within the bound: %+v", r)
		}
		open = append(open, c)
	}
	told := 0
	for range 500 {
		c := s.dial()
		// It is told, or closed when too many are being told.
		if _, err := c.r.Peek(1); err == nil {
			if r := c.receive("GET"); r == nil || r.key != "SERVICE_UNAVAILABLE" || r.header.Get("Retry-After") != "1" {
				t.Errorf("one too many: %+v", r)
			}
			told++
		}
		c.closed()
		c.end()
	}
	if told == 0 {
		t.Error("nobody was told")
	}
	if stats := s.public.Stats(); stats.Open != one || stats.Refused < 500 {
		t.Errorf("%+v", stats)
	}
	for _, c := range open {
		c.send(s.request("GET", board))
		if r := c.receive("GET"); r == nil || r.status != http.StatusOK || r.body != s.board {
			t.Errorf("of those that were there: %+v", r)
		}
	}
	// Another address of this machine, where it has more than one.
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	if c, err := other.DialContext(t.Context(), "tcp", s.Addr().String()); err == nil {
		p := &peer{t: t, Conn: c, r: bufio.NewReader(c)}
		p.send(s.request("GET", board))
		if r := p.receive("GET"); r == nil || r.status != http.StatusOK {
			t.Errorf("another address: %+v", r)
		}
		p.end()
	} else if runtime.GOOS == "linux" {
		t.Error(err)
	}
	for _, c := range open {
		c.end()
	}
	until(t, "no connections", func() bool { return s.public.Stats().Open == 0 })
	s.well()
}

// TestInjection: nothing that a client sends adds a header to an answer or a
// line to the log, or shows a key there.
func TestInjection(t *testing.T) {
	var text lockedLog
	s := newSite(t, func(c *Config) {
		c.Server.LogAll = true
		c.Log = slog.New(both{c.Log.Handler(), slog.NewTextHandler(&text, nil)})
	})
	const line = `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"injected"}`
	asked := 0
	for _, value := range []string{
		"a\r\n Set-Cookie: a=b", "a%0d%0aSet-Cookie:%20a=b", "a\rSet-Cookie: a=b", "a\x00b", "a\x1b[31mb", "\u2028" + line, `","msg":"injected`, "\xff\xfe", "a b", strings.Repeat("x", 129),
		"x\x85y", "x\u0085" + line, "time=now level=INFO msg=injected", `\n` + line,
	} {
		for _, raw := range []string{
			s.request("GET", board, "X-Request-Id: "+value), s.request("GET", board, "User-Agent: "+value, "Referer: "+value, "Origin: "+value, "X-Forwarded-For: "+value, "Traceparent: "+value),
			s.request("GET", "/"+value), s.request("GET", board+"&slug="+value), s.request(value, "/"), "GET / HTTP/1.1\r\nHost: " + value + "\r\n\r\n", s.request("GET", "/", value+": a"),
			"GET " + board + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + value + "\r\n\r\n", "GET " + board + "&api_key=" + s.key + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.key + "\r\n\r\n",
			value + "\r\n\r\n",
		} {
			c := s.dial().send(raw)
			c.sending.Wait()
			// Some are the beginning of a head.
			if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if r := c.receive("GET"); r != nil {
				asked++
				if r.header.Get("Set-Cookie") != "" || r.header.Get("Injected") != "" || strings.Contains(r.body, s.key) || len(r.id) != reqid.Length {
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
		if err := d.Decode(&entry); err != nil || d.More() || entry.Time == "" || entry.Level == "" || entry.Msg == "" || entry.Msg == "injected" {
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
		if strings.Contains(log, "mdk_live_") || strings.Contains(log, "127.0.0.1:") && strings.Contains(log, "client=127.0.0.1") {
			t.Error("the log holds a key or a full address")
		}
	}
}

// both is a log handler for two.
type both struct{ a, b slog.Handler }

func (h both) Enabled(ctx context.Context, l slog.Level) bool {
	return h.a.Enabled(ctx, l) || h.b.Enabled(ctx, l)
}

func (h both) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(h.a.Handle(ctx, r.Clone()), h.b.Handle(ctx, r))
}

func (h both) WithAttrs(attrs []slog.Attr) slog.Handler {
	return both{h.a.WithAttrs(attrs), h.b.WithAttrs(attrs)}
}

func (h both) WithGroup(name string) slog.Handler {
	return both{h.a.WithGroup(name), h.b.WithGroup(name)}
}
