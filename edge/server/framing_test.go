package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/rawhttp"
)

const assets = "/openapi/v1/assets"

// TestFraming checks over TCP that a refused request is answered while its client is still sending, and that
// the time for a request does not start again with each byte. TestCorpus and TestSplitting check which
// requests are refused.
func TestFraming(t *testing.T) {
	_, addr := start(t, func(cfg *Config) {
		cfg.ReadTimeout = 200 * time.Millisecond
		cfg.Answer = func(r *Request) error { t.Errorf("%s reached the engine", r.ID); return stub(r) }
	})
	long := strings.Repeat("a", 10<<10)
	for name, tc := range map[string]struct {
		raw    string
		status int
		key    string
	}{
		"head without end":    {"GET / HTTP/1.1\r\nX-Long: " + strings.Repeat("a", 200<<10), 431, "HEADERS_TOO_LARGE"},
		"half a request line": {"GET /openapi", 408, "REQUEST_TIMEOUT"},
		"half a large head":   {"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + long, 408, "REQUEST_TIMEOUT"},
		"half a body":         {request("GET", assets, "Content-Length: 4000") + "hello", 413, "PAYLOAD_TOO_LARGE"},
		"half a chunk": {request("POST", assets, "Transfer-Encoding: chunked") + "ff0\r\n", 405,
			"METHOD_NOT_ALLOWED"},
		"TLS": {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "BAD_REQUEST"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, addr)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				_, err := io.WriteString(c.Conn, tc.raw)
				for ; err == nil; _, err = io.WriteString(c.Conn, "a") {
					time.Sleep(10 * time.Millisecond) // the client sends slowly
				}
			}()
			expect(t, tc.status, tc.key, c.receive("GET"))
			c.closed()
			c.Close()
			<-sent
		})
	}
}

// TestSilent checks that a connection on which nothing arrives is closed without an answer, because a client
// could take one for the answer to its next request. An empty line may be the end of the previous request, so
// it counts as nothing.
func TestSilent(t *testing.T) {
	_, addr := start(t, func(cfg *Config) {
		cfg.ReadTimeout, cfg.IdleTimeout = 50*time.Millisecond,
			50*time.Millisecond
	})
	dial(t, addr).closed()
	for _, end := range []string{"", "\r\n"} {
		c := dial(t, addr).send(request("GET", assets) + end)
		expect(t, 200, "", c.receive("GET"))
		c.closed()
	}
	half := dial(t, addr).send("\r\n")
	must.OK(t, half.Conn.(*net.TCPConn).CloseWrite())
	half.closed()
}

// FuzzRaw checks that, whatever arrives, every answer is well-formed and none is a server error.
func FuzzRaw(f *testing.F) {
	for _, c := range rawhttp.Cases() {
		f.Add([]byte(c.Raw))
	}
	s := newServer(f, Config{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := newListener(nil, &s.cfg)
		peer := &script{in: bytes.NewReader(raw)}
		s.serveConn(l.admit(peer))
		if peer.out.Len() == 0 && len(bytes.Trim(raw, "\r\n")) > 0 {
			t.Fatal("no answer")
		}
		if len(l.conns) != 0 || len(l.owners.named) != 0 {
			t.Fatalf("%d connections of %d owners are left over", len(l.conns), len(l.owners.named))
		}
		for r := bufio.NewReader(&peer.out); ; {
			if _, err := r.Peek(1); err != nil {
				return
			}
			res := must.Get(http.ReadResponse(r, nil))(t)
			if res.StatusCode >= 500 {
				t.Fatalf("answer %d, %v", res.StatusCode, res.Header)
			}
			if bytes.Contains(raw, []byte("HEAD")) {
				// One of the answers has a length but no body, and it is unknown which.
				check(t, "HEAD", res, "")
				return
			}
			body := must.Get(io.ReadAll(res.Body))(t)
			check(t, "GET", res, string(body))
		}
	})
}

// boundaries returns the end of each request that the server's loop reads from a connection, and the error
// that ends the loop.
func boundaries(s *Server, peer *segments) (ends []int, err error) {
	sent := peer.rest()
	c := newListener(nil, &s.cfg).admit(peer)
	defer c.Close()
	for {
		if err = c.readHead(); err != nil {
			return ends, err
		}
		r := s.acquire(c)
		if err = c.parse(r); err == nil && r.close {
			err = errBody // the loop would answer and close the connection
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

// FuzzBoundaries checks that the loop finds the same requests in its input however the input is split into
// pieces, and the same as net/http as long as both accept them.
func FuzzBoundaries(f *testing.F) {
	for _, c := range rawhttp.Cases() {
		f.Add([]byte(c.Raw), []byte{40, 3, 200})
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
		if again, err2 := boundaries(s, pieces); !slices.Equal(again, ends) ||
			framingProblem(err) != framingProblem(err2) {
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

// script is a connection on which all input is available immediately, followed by EOF.
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
