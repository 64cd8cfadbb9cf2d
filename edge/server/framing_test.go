package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const assets = "/openapi/v1/assets"

// TestFraming: over TCP, and with time going by, a request that never ends is a
// 408, and what is refused is answered though its client is still sending. What
// is refused, and what is taken, TestCorpus has.
func TestFraming(t *testing.T) {
	var reached atomic.Int64
	_, addr := start(t, func(cfg *Config) {
		cfg.ReadTimeout = 200 * time.Millisecond
		cfg.Engine = engine(func(r *Request) error { reached.Add(1); return stub(r) })
	})
	head := func(lines ...string) string { return request("GET", assets, lines...) }
	long := func(n int) string { return strings.Repeat("a", n) }
	for name, tc := range map[string]struct {
		raw    string
		status int
		key    string
	}{
		"bare LF, and a request":   {"GET / HTTP/1.1\nHost: x\n\n" + head(), 400, "BAD_REQUEST"},
		"head without end":         {"GET / HTTP/1.1\r\nX-Long: " + long(200<<10), 431, "HEADERS_TOO_LARGE"},
		"body of 1 MiB":            {head("Content-Length: 1048576") + long(1<<20), 413, "PAYLOAD_TOO_LARGE"},
		"body over 4 KiB, no body": {head("Content-Length: 4097"), 413, "PAYLOAD_TOO_LARGE"},

		"half a request line":  {"GET /openapi", 408, "REQUEST_TIMEOUT"},
		"half a large head":    {"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + long(10<<10), 408, "REQUEST_TIMEOUT"},
		"head but its end":     {"GET / HTTP/1.1\r\nHost: x\r\n", 408, "REQUEST_TIMEOUT"},
		"half a body":          {head("Content-Length: 10") + "hello", 408, "REQUEST_TIMEOUT"},
		"half a chunk":         {head("Transfer-Encoding: chunked") + "5\r\nhe", 408, "REQUEST_TIMEOUT"},
		"chunks without end":   {head("Transfer-Encoding: chunked") + "5\r\nhello\r\n", 408, "REQUEST_TIMEOUT"},
		"TLS":                  {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 408, "REQUEST_TIMEOUT"},
		"expected, never sent": {request("PUT", "/", "Content-Length: 5", "Expect: 100-continue"), 408, "REQUEST_TIMEOUT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, addr)
			// The server may answer and close before it was sent all.
			sent := make(chan struct{})
			go func() { defer close(sent); io.WriteString(c.Conn, tc.raw) }()
			a := c.receive("GET")
			if a.StatusCode == 100 {
				a = c.receive("GET")
			}
			expect(t, tc.status, tc.key, a)
			c.closed()
			c.Close()
			<-sent
		})
	}
	t.Cleanup(func() {
		if n := reached.Load(); n != 0 {
			t.Errorf("%d of them reached the engine", n)
		}
	})
}

// TestFramingTaken: over TCP, the largest requests are read to their end and no
// further, so that the next one is answered.
func TestFramingTaken(t *testing.T) {
	_, addr := start(t, nil)
	for name, raw := range map[string]string{
		"head of 16 KiB":  sizedHead(maxHead),
		"body of 4 KiB":   request("GET", assets, "Content-Length: 4096") + strings.Repeat("a", 4096),
		"chunks of 4 KiB": request("GET", assets, "Transfer-Encoding: chunked") + strings.Repeat("400;x=y\r\n"+strings.Repeat("a", 1024)+"\r\n", 4) + "0\r\n\r\n",
		"expected body":   request("GET", assets, "Expect: 100-continue", "Content-Length: 5") + "hello",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, addr)
			// Twice, to see that the first was read to its end and no further.
			for range 2 {
				c.send(raw)
				a := c.receive("GET")
				if a.StatusCode == 100 {
					a = c.receive("GET")
				}
				expect(t, 200, "", a)
			}
		})
	}
}

// TestByteByByte: a request may arrive in any pieces.
func TestByteByByte(t *testing.T) {
	_, addr := start(t, nil)
	c := dial(t, addr)
	raw := request("GET", assets, "X-Request-Id: slow-1")
	for range 2 {
		for i := range len(raw) {
			c.send(raw[i : i+1])
		}
		if a := c.receive("GET"); a.StatusCode != 200 || a.Header.Get("X-Request-Id") != "slow-1" {
			t.Errorf("answer %d, id %q", a.StatusCode, a.Header.Get("X-Request-Id"))
		}
	}
}

// TestPipeline: many requests at once are answered in order, each with its own
// id, up to the one that says close.
func TestPipeline(t *testing.T) {
	const n = 500
	_, addr := start(t, nil)
	var raw strings.Builder
	for i := range n {
		raw.WriteString(request([]string{"GET", "HEAD", "POST"}[i%3], assets, fmt.Sprintf("X-Request-Id: id-%d", i)))
	}
	raw.WriteString(request("GET", assets, "Connection: foo, Close") + request("GET", assets))
	c := dial(t, addr)
	go io.WriteString(c.Conn, raw.String())
	for i := range n {
		a := c.receive([]string{"GET", "HEAD", "POST"}[i%3])
		if want := []int{200, 200, 405}[i%3]; a.StatusCode != want || a.Header.Get("X-Request-Id") != fmt.Sprintf("id-%d", i) {
			t.Fatalf("answer %d: %d, id %q", i, a.StatusCode, a.Header.Get("X-Request-Id"))
		}
	}
	if a := c.receive("GET"); a.StatusCode != 200 || !a.Close {
		t.Errorf("last answer %d, close %v", a.StatusCode, a.Close)
	}
	c.closed()
}

// TestSilent: a connection on which nothing comes is closed without a word, so
// that no client takes a word for the answer to its next request.
func TestSilent(t *testing.T) {
	_, addr := start(t, func(cfg *Config) { cfg.ReadTimeout, cfg.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond })
	dial(t, addr).closed()
	c := dial(t, addr).send(request("GET", assets))
	expect(t, 200, "", c.receive("GET"))
	c.closed()
}

// TestOldHTTP: HTTP/1.0 closes unless asked not to.
func TestOldHTTP(t *testing.T) {
	_, addr := start(t, nil)
	c := dial(t, addr).send("GET " + assets + " HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	expect(t, 200, "", c.receive("GET"))
	c.send("GET " + assets + " HTTP/1.0\r\n\r\n")
	expect(t, 200, "", c.receive("GET"))
	c.closed()
}

// FuzzRaw: whatever arrives, every answer is well-formed and none is a fault.
func FuzzRaw(f *testing.F) {
	for _, raw := range []string{
		request("GET", assets), request("HEAD", "/"), request("OPTIONS", "*"), request("GET", "http://h"+assets+"?id=1", "X-Snapshot-Time: 2026-11-21T12:00:00Z"),
		"GET / HTTP/1.1\nHost: x\n\n", "\r\n\r\nGET / HTTP/1.1\r\n\r\n", request("POST", "/", "Content-Length: 3") + "abc" + request("GET", "/"),
		request("GET", "/", "Transfer-Encoding: chunked") + "1\r\na\r\n0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
		request("GET", "/", "Expect: 100-continue", "Content-Length: 9999"), request("GET", "/", "Content-Length: 1", "Transfer-Encoding: chunked") + "0\r\n\r\n",
	} {
		f.Add([]byte(raw))
	}
	cfg := Config{Engine: engine(stub)}
	s, err := New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := newListener(nil, &s.cfg)
		peer := &script{in: bytes.NewReader(raw)}
		s.serveConn(l.admit(peer))
		if peer.out.Len() == 0 && len(bytes.Trim(raw, "\r\n")) > 0 {
			t.Fatal("no answer")
		}
		if len(l.conns) != 0 || len(l.accounts) != 0 || l.waitingBytes.Load() != 0 {
			t.Fatalf("%d connections, %d accounts and %d bytes are left over", len(l.conns), len(l.accounts), l.waitingBytes.Load())
		}
		for r := bufio.NewReader(&peer.out); ; {
			if _, err := r.Peek(1); err != nil {
				return
			}
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode >= 500 {
				t.Fatalf("answer %d, %v", res.StatusCode, res.Header)
			}
			if bytes.Contains(raw, []byte("HEAD")) {
				// One of the answers has a length and no body, and it cannot
				// be told which.
				check(t, "HEAD", res, "")
				return
			}
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "GET", res, string(body))
		}
	})
}

// boundaries returns where each request ends that the loop takes from a
// connection, and why it takes no more.
func boundaries(s *Server, peer *segments) (ends []int, err error) {
	sent := peer.rest()
	c := newListener(nil, &s.cfg).admit(peer)
	defer c.Close()
	for {
		if err = c.readHead(); err != nil {
			return ends, err
		}
		r := s.acquire(c)
		if err = c.parse(r); err == nil {
			err = c.readBody(r)
		}
		s.release(r)
		if err != nil {
			return ends, err
		}
		end := sent - peer.rest() - c.in.Buffered()
		if len(ends) > 0 && end <= ends[len(ends)-1] || end == 0 {
			return ends, errors.New("no progress")
		}
		ends = append(ends, end)
	}
}

// FuzzBoundaries: in whatever pieces it comes, the loop cuts what it gets into
// the same requests, and into the same as net/http as far as both take it. It
// turns no more than once for a piece.
func FuzzBoundaries(f *testing.F) {
	next := request("GET", assets)
	for _, raw := range []string{
		next + next, "\r\n" + next + "\r\n" + next, request("POST", "/", "Content-Length: 3") + "abc" + next, request("GET", "/", "Transfer-Encoding: chunked") + "1;a=b\r\na\r\n0\r\nX-T: v\r\n\r\n" + next,
		request("GET", "/", "Expect: 100-Continue", "Content-Length: 2") + "ab" + next, "GET / HTTP/1.0\r\n\r\n" + next, sizedHead(maxHead) + next, "GET / HTTP/1.1\nHost: x\n\n" + next,
		request("GET", "/", "Transfer-Encoding:\tCHUNKED ") + "00\r\n\r\n" + next, request("GET", "/", "Content-Length: 1", "Transfer-Encoding: chunked") + "0\r\n\r\n", request("CONNECT", "a:1") + next,
	} {
		f.Add([]byte(raw), []byte{1})
		f.Add([]byte(raw), []byte{40, 3, 200})
	}
	s := newServer(f, Config{})
	f.Fuzz(func(t *testing.T, raw, cuts []byte) {
		whole := &segments{left: [][]byte{raw}}
		ends, err := boundaries(s, whole)
		pieces := &segments{}
		for rest, i := raw, 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(cuts) > 0 {
				n = min(n, 1+int(cuts[i%len(cuts)]))
			}
			pieces.left, rest = append(pieces.left, rest[:n:n]), rest[n:]
		}
		if again, err2 := boundaries(s, pieces); !slices.Equal(again, ends) || framingProblem(err) != framingProblem(err2) {
			t.Fatalf("whole: %v, %v; in pieces: %v, %v", ends, err, again, err2)
		}
		if err.Error() == "no progress" || whole.empty+pieces.empty > 0 {
			t.Fatal("readings into no room")
		}
		in := bufio.NewReader(bytes.NewReader(raw))
		for _, end := range ends {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			rest, _ := io.ReadAll(in)
			if read := len(raw) - len(rest); read != end {
				t.Fatalf("a request ends at %d, for net/http at %d: %q", end, read, raw)
			}
			in.Reset(bytes.NewReader(rest))
		}
	})
}

// script is a connection on which everything comes at once and then the end.
type script struct {
	in  io.Reader
	out bytes.Buffer
}

func (s *script) Read(p []byte) (int, error)     { return s.in.Read(p) }
func (s *script) Write(p []byte) (int, error)    { return s.out.Write(p) }
func (*script) Close() error                     { return nil }
func (*script) LocalAddr() net.Addr              { return nil }
func (*script) RemoteAddr() net.Addr             { return nil }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }
