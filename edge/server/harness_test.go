package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/auth"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/rawhttp"
	"example.com/marketdata/internal/test/testserver"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds how long a test waits. Nothing should take that long.
const patience = 20 * time.Second

var stubBody = []byte(`{"code":0,"message":"OK","message_key":"OK",` +
	`"result":{"items":[],"page":1,"total":0,"total_page":1}}`)

// stub answers every request with the same body.
func stub(r *Request) error {
	r.Asked.Reply.Add("Content-Type", []byte("application/json"))
	r.Asked.Reply.Add("X-Snapshot-Time", []byte("2026-11-21T12:00:00Z"))
	r.Asked.Reply.Body = stubBody
	return nil
}

// start serves on a free port until the test ends.
func start(t *testing.T, change func(*Config)) (*Server, string) {
	t.Helper()
	cfg := Config{Answer: stub}
	if change != nil {
		change(&cfg)
	}
	s := must.Get(New(cfg))(t)
	t.Cleanup(func() {
		if s.Stats().Open != 0 {
			t.Errorf("left over: %+v", s.Stats())
		}
	})
	ln := must.Get(Listen("127.0.0.1:0"))(t)
	return s, testserver.ServeOn(t, ln, s.Serve, s.Drain)
}

// client is a client with one connection.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	return dialFrom(t, "", addr)
}

// dialFrom connects from a local address, or from any if address is "".
func dialFrom(t *testing.T, address, addr string) *client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c := must.Get(d.Dial("tcp", addr))(t)
	t.Cleanup(func() { c.Close() })
	must.OK(t, c.SetDeadline(time.Now().Add(patience)))
	return &client{t, c, bufio.NewReader(c)}
}

func (c *client) send(raw string) *client {
	c.t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		c.t.Fatalf("send %.60q: %v", raw, err)
	}
	return c
}

// response is an answer that check has checked.
type response struct {
	*http.Response
	body string
	key  string // message_key
}

// receive reads and checks the answer to a request with the given method.
func (c *client) receive(method string) *response {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("read response: %v", err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatalf("read body: %v", err)
	}
	return check(c.t, method, res, string(body))
}

// closed checks that the server closes the connection without sending anything else.
func (c *client) closed() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Errorf("after the answer: %.200q, %v; want the end", rest, err)
	}
}

// check checks the rules that apply to every answer.
func check(t *testing.T, method string, res *http.Response, body string) *response {
	t.Helper()
	return &response{res, body, rawhttp.Check(t, method, res, body)}
}

// ask sends a request on a new connection and returns the answer.
func ask(t *testing.T, addr, method, target string, headers ...string) *response {
	t.Helper()
	return dial(t, addr).send(request(method, target, headers...)).receive(method)
}

func request(method, target string, headers ...string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: edge.test\r\n%s\r\n", method, target,
		strings.Join(append(headers, ""), "\r\n"))
}

// expect checks the status and the message_key of an answer.
func expect(t *testing.T, status int, key string, a *response) {
	t.Helper()
	if a.StatusCode != status || a.key != key {
		t.Errorf("answer %d %s, want %d %s", a.StatusCode, a.key, status, key)
	}
}

// newKeys returns a key set with one key, and the text of the key.
func newKeys(t testing.TB, rate, burst int) (*auth.Keys, string) {
	t.Helper()
	text := must.Get(artifacts.NewKey(rand.NewChaCha8([32]byte{1})))(t)
	keys := new(auth.Keys)
	keys.Use(&artifacts.KeySet{Format: artifacts.Format, Keys: []artifacts.KeyEntry{
		{ID: "key-1", Name: "test", Hash: artifacts.HashKey([]byte(text)), Rate: rate, Burst: burst,
			Created: time.Now()},
	}}, time.Now())
	return keys, text
}

// otherKey returns the text of a key that no key set contains.
func otherKey(t testing.TB) string {
	t.Helper()
	return must.Get(artifacts.NewKey(rand.NewChaCha8([32]byte{2})))(t)
}

func newServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	if cfg.Answer == nil {
		cfg.Answer = stub
	}
	return must.Get(New(cfg))(t)
}

// newRequest returns a request from 127.0.0.1 whose head has been read.
func newRequest(t testing.TB, s *Server, raw string) *Request {
	t.Helper()
	r := s.acquire(nil)
	r.peer = netip.MustParseAddr("127.0.0.1")
	must.OK(t, r.http().Header.Read(bufio.NewReaderSize(strings.NewReader(raw), maxHead)))
	return r
}

// handle returns a server's answer to a request that arrives at time now, without a connection.
func handle(t *testing.T, s *Server, now time.Time, raw string) *response {
	t.Helper()
	r := newRequest(t, s, raw)
	r.Asked.Now = now
	s.handle(r)
	defer s.observe(r, nil)
	first, rest := s.appendReply(r)
	method, _, _ := strings.Cut(raw, " ")
	return (&client{t: t, r: bufio.NewReader(io.MultiReader(bytes.NewReader(first),
		bytes.NewReader(rest)))}).receive(method)
}

// until waits for a condition.
func until(t *testing.T, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

// sizedHead returns a head of n bytes.
func sizedHead(n int) string {
	head := request("GET", assets, "X-Long: ")
	if n < len(head) {
		return head[:n]
	}
	return strings.Replace(head, "X-Long: ", "X-Long: "+strings.Repeat("a", n-len(head)), 1)
}
