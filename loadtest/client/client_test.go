package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a connection that delivers data in reads of step bytes, and then ends.
type script struct {
	net.Conn
	data []byte
	step int
}

func (s *script) Read(b []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), s.step)], s.data)
	s.data = s.data[n:]
	return n, nil
}
func (s *script) Write(b []byte) (int, error) { return len(b), nil }
func (s *script) SetDeadline(time.Time) error { return nil }
func (s *script) Close() error                { return nil }
func play(data string, step int, head bool) (*Response, error) {
	c := New(&Endpoint{})
	c.MaxBody = 1 << 20
	c.nc = &script{data: []byte(data), step: step}
	return c.roundTrip([]byte("GET / HTTP/1.1\r\n\r\n"), head, time.Time{})
}

func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", 3*initialBuffer)
	for _, tc := range []struct {
		name, in string
		head     bool
		status   int
		body     string
		close    bool
		err      error
	}{
		{name: "length", in: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
		{name: "no reason", in: "HTTP/1.1 404\r\ncontent-length:0\r\n\r\n", status: 404},
		{name: "bare LF", in: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", status: 200, body: "ok"},
		{name: "longer than the buffer", in: fmt.Sprintf(
			"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long), status: 200, body: long},
		{name: "chunked", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n",
			status: 200, body: "hello world"},
		{name: "chunked, upper-case size",
			in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", status: 200,
			body: "0123456789"},
		{name: "chunked with trailer", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n",
			status: 200},
		{name: "to the end", in: "HTTP/1.1 200 OK\r\n\r\nall of it", status: 200, body: "all of it", close: true},
		{name: "1.0 closes", in: "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x", close: true},
		{name: "1.0 stays when it says so",
			in: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x"},
		{name: "close", in: "HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 1\r\n\r\nx", status: 200,
			body: "x", close: true},
		{name: "interim", in: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
			status: 200, body: "x"},
		{name: "204", in: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "304 has no body whatever its length", in: "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n",
			status: 304},
		{name: "HEAD", in: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", head: true, status: 200},
		{name: "equal lengths", in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", status: 200,
			body: "x"},

		{name: "nothing", in: "", err: ErrClosed},
		{name: "cut head", in: "HTTP/1.1 200 OK\r\nContent-", err: ErrClosed},
		{name: "cut body", in: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", err: ErrClosed},
		{name: "cut chunk", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", err: ErrClosed},
		{name: "no last chunk", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", err: ErrClosed},
		{name: "not HTTP", in: "SSH-2.0-OpenSSH_9.2\r\n\r\n", err: ErrMalformed},
		{name: "bad status", in: "HTTP/1.1 2x0 OK\r\n\r\n", err: ErrMalformed},
		{name: "low status", in: "HTTP/1.1 099 OK\r\n\r\n", err: ErrMalformed},
		{name: "unasked upgrade", in: "HTTP/1.1 101 Switching Protocols\r\n\r\n", err: ErrMalformed},
		{name: "field without colon", in: "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", err: ErrMalformed},
		{name: "folded field", in: "HTTP/1.1 200 OK\r\nA: b\r\n c: d\r\n\r\n", err: ErrMalformed},
		{name: "negative length", in: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", err: ErrMalformed},
		{name: "empty length", in: "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", err: ErrMalformed},
		{name: "two lengths", in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
			err: ErrMalformed},
		{name: "other transfer coding", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
			err: ErrMalformed},
		{name: "chunk size", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", err: ErrMalformed},
		{name: "chunk longer than it says",
			in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n", err: ErrMalformed},
		{name: "more than one answer", in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n",
			err: ErrMalformed},
		{name: "too large", in: "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", err: ErrTooLarge},
		{name: "too large chunk", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
			err: ErrTooLarge},
		{name: "endless head", in: "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 2*maxHead), err: ErrTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, step := range []int{1, 2, 7, 1 << 20} {
				if step < 7 && len(tc.in) > initialBuffer {
					continue
				}
				r, err := play(tc.in, step, tc.head)
				if step < len(tc.in) && tc.name == "more than one answer" {
					continue // the second answer has not arrived yet when the first one is complete
				}
				if !errors.Is(err, tc.err) {
					t.Fatalf("step %d: error %v, want %v", step, err, tc.err)
				}
				if err != nil {
					continue
				}
				if r.Status != tc.status || string(r.Body) != tc.body || r.close != tc.close || r.Size != len(tc.in) {
					t.Fatalf("step %d: status %d, body %.40q, close %v, size %d", step, r.Status, r.Body, r.close,
						r.Size)
				}
			}
		})
	}
}

func TestFields(t *testing.T) {
	const raw = "HTTP/1.1 200 OK\r\nX-Request-Id:  a b \r\nvary: one\r\nVary: two\r\nEmpty:\r\nContent-Length: 0\r\n\r\n"
	r := must.Get(play(raw, 1<<10, false))(t)
	if got := string(r.Get("x-request-id")); got != "a b" {
		t.Errorf("X-Request-Id is %q", got)
	}
	if got := string(r.Get("VARY")); got != "one" || r.Count("Vary") != 2 {
		t.Errorf("Vary is %q, %d times", got, r.Count("Vary"))
	}
	if r.Get("Empty") == nil || r.Get("Absent") != nil {
		t.Error("an empty field is there, an absent one is not")
	}
}

// TestServer tests the client against net/http's server: keep-alive, and a connection that the server closes
// while it is idle.
func TestServer(t *testing.T) {
	var opened int
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Method, r.URL)
	}))
	defer srv.Close()
	e := must.Get(ParseEndpoint(srv.URL, false))(t)
	c := New(e)
	defer c.Close()
	c.Opened = func(time.Duration) { opened++ }
	get := func(path string) *Response {
		t.Helper()
		r := must.Get(c.Do(
			context.Background(), fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, e.Host), false))(t)
		if want := "GET " + path; r.Status != 200 || string(r.Body) != want {
			t.Fatalf("status %d, body %q, want %q", r.Status, r.Body, want)
		}
		return r
	}
	for i := range 10 {
		get(fmt.Sprintf("/%d?a=b", i))
	}
	if opened != 1 {
		t.Errorf("%d connections, want 1", opened)
	}
	srv.CloseClientConnections()
	if r := get("/again"); !r.Retried || opened != 2 {
		t.Errorf("retried %v, %d connections; want a second one", r.Retried, opened)
	}
}

func TestFailures(t *testing.T) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	e := must.Get(ParseEndpoint("http://"+ln.Addr().String(), false))(t)
	c := New(e)
	c.Timeout = 20 * time.Millisecond // nothing accepts the connection, so there is no answer
	if _, err := c.Do(context.Background(), []byte("GET / HTTP/1.1\r\n\r\n"), false); !errors.Is(err, ErrTimeout) {
		t.Errorf("error %v, want a timeout", err)
	}
	ln.Close()
	if _, err := c.Do(context.Background(), []byte("GET / HTTP/1.1\r\n\r\n"), false); !errors.Is(err, ErrConnect) {
		t.Errorf("error %v, want one of connecting", err)
	}
}

func TestTLS(t *testing.T) {
	srv := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "secret") }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // the server logs the handshake that the client refuses
	srv.StartTLS()
	defer srv.Close()
	for _, insecure := range []bool{true, false} {
		c := New(must.Get(ParseEndpoint(srv.URL, insecure))(t))
		r, err := c.Do(context.Background(), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false)
		if insecure && (err != nil || string(r.Body) != "secret") {
			t.Errorf("no answer over TLS: %v", err)
		}
		if !insecure && !errors.Is(err, ErrConnect) {
			t.Errorf("error %v to a certificate that nobody signed", err)
		}
		c.Close()
	}
}

func TestParseEndpoint(t *testing.T) {
	for raw, want := range map[string][3]string{ // host, prefix, address
		"http://127.0.0.1:8080":  {"127.0.0.1:8080", "", "127.0.0.1:8080"},
		"http://example.com/a/":  {"example.com", "/a", "example.com:80"},
		"https://example.com":    {"example.com", "", "example.com:443"},
		"http://[::1]:80/a%20b/": {"[::1]:80", "/a%20b", "[::1]:80"},
	} {
		e, err := ParseEndpoint(raw, false)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if got := [3]string{e.Host, e.Prefix, e.addr}; got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
	for _, raw := range []string{
		"", "localhost:80", "ftp://x", "http://", "http://u:p@x", "http://x/?a", "http://x/#a", "http://x:y"} {
		if _, err := ParseEndpoint(raw, false); err == nil {
			t.Errorf("%q was taken", raw)
		}
	}
}

// FuzzAnswer compares the parser with net/http's. Answers that both accept have the same status and body, and
// no input makes the parser panic or loop forever.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.0 500 x\r\n\r\nbody", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 X\r\n\r\n",
		"HTTP/1.1 304\r\nContent-Length: 5\r\n\r\n",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		r, err := play(string(data), 1+int(uint(step)%100), false)
		if err != nil {
			return
		}
		std, stdErr := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
		if stdErr != nil || std.StatusCode < 200 {
			return // net/http is stricter on field names and values, and returns interim answers
		}
		body, stdErr := io.ReadAll(std.Body)
		if stdErr != nil {
			return
		}
		if std.StatusCode != r.Status || !bytes.Equal(body, r.Body) {
			t.Fatalf("status %d and body %q, net/http reads %d and %q", r.Status, r.Body, std.StatusCode, body)
		}
	})
}
