package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	haproxyfiles "example.com/marketdata/deploy/haproxy"
	"example.com/marketdata/edge/coingecko"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/rawhttp"
	"example.com/marketdata/internal/test/testserver"
)

// patience limits how long a test waits for one thing; nothing should ever take that long.
const patience = 20 * time.Second

// program returns the path of a program, and skips the test if the program is not installed. In CI
// it must be installed.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv(testserver.RequireEnv) == "1" {
			t.Fatalf("%v: apt-get install %s", err, strings.Replace(name, "varnishd", "varnish", 1))
		}
		t.Skipf("%v (%s=1 makes this fail)", err, testserver.RequireEnv)
	}
	return path
}

// answers is an engine whose answers name the request. It answers the query slug=busy with a 503.
type answers struct{ asked atomic.Int64 }

func (a *answers) answer(r *server.Request) error {
	a.asked.Add(1)
	if slugs := r.Asked.Query.Slugs; len(slugs) == 1 && string(slugs[0]) == "busy" {
		return reply.ErrUnavailable
	}
	r.Asked.Reply.Add("Content-Type", []byte("application/json"))
	r.Asked.Reply.Body = append(append(append(r.Asked.Buffers.Body(), `{"id":"`...), r.ID...), `"}`...)
	return nil
}

// seconds is a source of snapshots, for server.Config.Current, that changes each second.
func seconds() ([]byte, int, <-chan struct{}) {
	now, changed := time.Now().UTC(), make(chan struct{})
	time.AfterFunc(time.Second-now.Sub(now.Truncate(time.Second)), func() { close(changed) })
	return []byte(now.Format(time.RFC3339)), -1, changed
}

// startEdge serves the public listener of an edge until the test ends, and returns its address. If
// proxied is set, the edge expects clients' addresses in the PROXY protocol.
func startEdge(t *testing.T, answers *answers, proxied bool) string {
	t.Helper()
	cfg := server.Config{Answer: answers.answer, Current: seconds, ReadTimeout: time.Second,
		Dialect: coingecko.Dialect()}
	if proxied {
		cfg.ProxyProtocol = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	s := must.Get(server.New(cfg))(t)
	return testserver.Serve(t, s.Serve, s.Drain)
}

// startHAProxy starts HAProxy with the configuration of deploy/haproxy, but with shorter timeouts,
// in front of two edges that are ready. timeout limits how long an edge may take to answer.
func startHAProxy(t *testing.T, edges [2]string, timeout string) *stack {
	t.Helper()
	haproxy := program(t, "haproxy")
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(ready.Close)
	s := &stack{Machine: &local.Machine{Data: t.TempDir()}}
	for i, addr := range edges {
		s.edges[i] = &edge{listen: addr, admin: ready.Listener.Addr().String()}
	}
	config := haproxyfiles.Config
	for from, to := range map[string]string{
		"timeout http-request 5s":      "timeout http-request 1s",
		"timeout http-keep-alive 117s": "timeout http-keep-alive 1s", "timeout client 30s": "timeout client 2s",
		"timeout server 5s": "timeout server " + timeout} {
		if !bytes.Contains(config, []byte(from)) {
			t.Fatalf("haproxy.cfg: no %q", from)
		}
		config = bytes.ReplaceAll(config, []byte(from), []byte(to))
	}
	err := s.balance(t.Context(), haproxy, config)
	if s.haproxy != nil {
		t.Cleanup(s.haproxy.Kill)
	}
	must.OK(t, err)
	return s
}

// dial connects to HAProxy.
func (s *stack) dial() (net.Conn, error) {
	c, err := tls.Dial("tcp", s.listen, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(patience))
}

// exchange sends raw and returns everything that comes back. The proxy may answer and close the
// connection before it has received everything.
func exchange(c net.Conn, raw string) string {
	sent := make(chan struct{})
	go func() { defer close(sent); _, _ = io.WriteString(c, raw) }()
	out, _ := io.ReadAll(c) // an error means that the proxy reset the connection, which is allowed
	c.Close()
	<-sent
	return string(out)
}

// requestTo returns a request after which the connection is closed.
func requestTo(path, id string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: edge.test\r\nX-Request-Id: " + id + "\r\nConnection: close\r\n\r\n"
}

// TestBoundaries: an edge behind a proxy sees exactly the requests that the proxy sent, and no
// client gets an answer to another client's request. The variants are the corpus and its mutations,
// each on its own connection. A victim's request, which must get its own answer, follows each of
// them.
func TestBoundaries(t *testing.T) {
	variants := rawhttp.Cases()
	random := rand.New(rand.NewPCG(13, 1))
	for _, c := range variants[:len(variants):len(variants)] {
		c.Raw = rawhttp.Mutate(random, c.Raw)
		c.Name += ", mutated"
		variants = append(variants, c)
	}
	if len(variants) < 500 {
		t.Fatalf("%d variants", len(variants))
	}
	t.Run("HAProxy", func(t *testing.T) {
		taps := [2]*tap{startTap(t, startEdge(t, &answers{}, true)), startTap(t, startEdge(t, &answers{}, true))}
		s := startHAProxy(t, [2]string{taps[0].addr(), taps[1].addr()}, "5s")
		sendAll(t, variants, 32, func(int) (net.Conn, error) { return s.dial() })
		taps[0].check(t)
		taps[1].check(t)
	})
	t.Run("nginx", func(t *testing.T) {
		tap := startTap(t, startEdge(t, &answers{}, false))
		servers := startNginx(t, tap.addr(), 8)
		sendAll(t, variants, len(servers), func(worker int) (net.Conn, error) {
			c, err := net.Dial("tcp", servers[worker])
			if err != nil {
				return nil, err
			}
			return c, c.SetDeadline(time.Now().Add(patience))
		})
		tap.check(t)
	})
}

// sendAll sends the variants from several workers at the same time.
func sendAll(t *testing.T, variants []rawhttp.Case, workers int, dial func(worker int) (net.Conn, error)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(variants)); i = next.Add(1) - 1 {
				v := variants[i]
				c, err := dial(worker)
				if err != nil {
					t.Error(err)
					return
				}
				exchange(c, v.Raw+requestTo(rawhttp.Path, "end"))
				id := fmt.Sprintf("victim-%d", i)
				if c, err = dial(worker); err != nil {
					t.Error(err)
					return
				}
				out := exchange(c, requestTo(rawhttp.Path, id))
				res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(out)), nil)
				if err != nil {
					t.Errorf("%s: the victim got %q", v.Name, out)
					continue
				}
				body, _ := io.ReadAll(res.Body)
				if res.StatusCode != 200 || res.Header.Get("X-Request-Id") != id || string(body) != `{"id":"`+id+`"}` ||
					strings.Count(out, "HTTP/1.1 ") != 1 {
					t.Errorf("%s: the victim %s got %q", v.Name, id, out)
				}
			}
		})
	}
	wg.Wait()
}

// startNginx starts nginx with n servers in front of an edge and returns their addresses.
func startNginx(t *testing.T, edge string, n int) []string {
	t.Helper()
	nginx := program(t, "nginx")
	dir := t.TempDir()
	var addrs []string
	type listener struct{ Listen, Buffering string }
	data := struct {
		Dir, Edge string
		Servers   []listener
	}{Dir: dir, Edge: edge}
	for i := range n {
		addrs = append(addrs, local.Free(fmt.Sprintf("127.0.0.1:%d", 18080+i)))
		data.Servers = append(data.Servers, listener{addrs[i], []string{"on", "off"}[i%2]})
	}
	config := template.Must(template.ParseFiles("testdata/nginx.conf"))
	file := must.Get(os.Create(filepath.Join(dir, "nginx.conf")))(t)
	must.OK(t, errors.Join(config.Execute(file, data), file.Close()))
	startProxy(t, addrs[n-1], exec.Command(nginx, "-p", dir, "-e", "stderr", "-c", file.Name()))
	return addrs
}

// tap relays between a proxy and an edge and counts requests and answers. Neither proxy pipelines,
// so bytes that follow an answer always begin the proxy's next request, whatever they look like to
// another parser.
type tap struct {
	net.Listener
	edge string
	wg   sync.WaitGroup

	mu     sync.Mutex
	conns  []*tapped
	faults []string
}

// tapped is a connection from the proxy to the edge. The tap's lock protects it.
type tapped struct {
	requests int    // that the proxy has begun
	answers  int    // that the edge has given, not counting 100 Continue
	sent     []byte // bytes of the last request
	got      []byte // bytes of the answers to it
	idle     bool   // every request has been answered
}

func startTap(t *testing.T, edge string) *tap {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &tap{Listener: ln, edge: edge}
	p.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.relay(c) })
		}
	})
	t.Cleanup(func() { ln.Close() })
	return p
}

func (p *tap) addr() string { return p.Addr().String() }

// relay passes bytes between a proxy and the edge until one of them closes the connection.
func (p *tap) relay(proxy net.Conn) {
	edge, err := net.Dial("tcp", p.edge)
	if err != nil {
		p.fault(fmt.Sprint(err))
		proxy.Close()
		return
	}
	c := &tapped{idle: true}
	p.mu.Lock()
	p.conns = append(p.conns, c)
	p.mu.Unlock()
	pass := func(to, from net.Conn, see func([]byte)) {
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			if n > 0 {
				see(b[:n])
				if _, err := to.Write(b[:n]); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		from.Close()
		to.Close()
	}
	var wg sync.WaitGroup
	wg.Go(func() { pass(edge, proxy, func(b []byte) { p.request(c, b) }) })
	wg.Go(func() { pass(proxy, edge, func(b []byte) { p.answer(c, b) }) })
	wg.Wait()
}

func (p *tap) fault(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, text)
}

// request records bytes that the proxy sends.
func (p *tap) request(c *tapped, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.idle {
		c.requests++
		c.idle, c.sent, c.got = false, nil, nil
	}
	c.sent = append(c.sent, b...)
}

var statusLine = regexp.MustCompile(`HTTP/1\.1 [2-5]\d\d [A-Z]`)

// answer records bytes that the edge sends.
func (p *tap) answer(c *tapped, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(statusLine.FindAll(c.got, -1))
	c.got = append(c.got, b...)
	c.answers += len(statusLine.FindAll(c.got, -1)) - before
	c.idle = c.answers >= c.requests
	if c.answers > c.requests {
		p.faults = append(
			p.faults, fmt.Sprintf("the edge has answered %d requests where the proxy sent %d, the last of them %.3000q, answers %q",
				c.answers, c.requests, c.sent, c.got))
	}
	if c.idle && statusLine.Match(c.got) && !bytes.Contains(c.got, []byte("Connection: close")) {
		if n, err := requestsIn(c.sent); err == nil && n != 1 {
			p.faults = append(
				p.faults, fmt.Sprintf("net/http sees %d requests where the edge answered one: %.3000q", n, c.sent))
		}
	}
}

// check judges what the tap has recorded. The proxy must be done.
func (p *tap) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	requests, answers := 0, 0
	for _, c := range p.conns {
		requests += c.requests
		answers += c.answers
		if c.answers < c.requests {
			// Only the last request can be incomplete, because the next one would not have begun
			// after an earlier incomplete one.
			if n, err := requestsIn(c.sent); err == nil && n == 1 && len(c.got) == 0 {
				t.Errorf("the edge has not answered %.3000q", c.sent)
			}
		}
	}
	for _, fault := range p.faults {
		t.Error(fault)
	}
	if requests < 300 {
		t.Errorf("the proxy has sent %d requests; most variants did not reach it", requests)
	}
	t.Logf("%d connections, %d requests, %d answers", len(p.conns), requests, answers)
}

// requestsIn returns how many requests net/http reads from sent, or the error if it reads none.
func requestsIn(sent []byte) (n int, err error) {
	const proxyHeader = 16
	if bytes.HasPrefix(sent, []byte("\r\n\r\n\x00\r\nQUIT\n")) && len(sent) > proxyHeader {
		sent = sent[min(len(sent), proxyHeader+int(sent[14])<<8+int(sent[15])):]
	}
	r := bufio.NewReader(bytes.NewReader(sent))
	for {
		if _, err := r.Peek(1); err != nil {
			return n, nil
		}
		req, err := http.ReadRequest(r)
		if err != nil {
			return n, err
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return n, err
		}
		n++
	}
}

// TestHAProxyStream: an event stream outlasts HAProxy's timeouts. The client timeout, 2 s here, is
// twice as long as the stream is ever silent, as the 30 s of haproxy.cfg are.
func TestHAProxyStream(t *testing.T) {
	edge := startEdge(t, &answers{}, true)
	s := startHAProxy(t, [2]string{edge, edge}, "500ms")
	for _, h2 := range []bool{true, false} {
		c := s.client(t, "")
		c.Timeout = 0
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = h2
		stream := events(t, c, "https://"+s.listen, "")
		for range 7 {
			if id, err := stream.next(); id == "" {
				t.Fatalf("HTTP/2 %t: the stream ended: %v", h2, err)
			}
		}
		if got := stream.ProtoMajor == 2; got != h2 {
			t.Errorf("%s, want HTTP/2 %t", stream.Proto, h2)
		}
	}
}

// TestNginxStream: events pass an nginx that has only a proxy_pass directive, and so buffers and
// speaks HTTP/1.0 to the edge (nginx 1505, ktor 3993), and an nginx that speaks HTTP/1.1.
func TestNginxStream(t *testing.T) {
	edge, dir, plain := startEdge(t, &answers{}, false), t.TempDir(), local.Free("127.0.0.1:18380")
	file := filepath.Join(dir, "plain.conf")
	must.OK(t, os.WriteFile(file, fmt.Appendf(nil, "daemon off; pid %s/pid; error_log stderr crit; events {} "+
		"http { access_log off; proxy_temp_path %[1]s/t; server { listen %s; location / { proxy_pass http://%s; } } }",
		dir, plain, edge), 0o644))
	startProxy(t, plain, exec.Command(program(t, "nginx"), "-p", dir, "-e", "stderr", "-c", file))
	for _, addr := range append(startNginx(t, edge, 2), plain) {
		stream := events(t, &http.Client{Timeout: patience}, "http://"+addr, "")
		for range 3 {
			if id, err := stream.next(); id == "" {
				t.Fatalf("%s: the stream ended: %v", addr, err)
			}
		}
	}
}

// TestLongRequests: requests of 24 KiB for 500 addresses, as wallets send them, pass all proxies
// (tahowallet 3581). A request that is longer than the edge accepts is refused with the edge's own
// message.
func TestLongRequests(t *testing.T) {
	var addresses []string
	for i := range 500 {
		addresses = append(addresses, fmt.Sprintf("0x%040x", i))
	}
	const path = "/api/v3/simple/token_price/ethereum?vs_currencies=usd&contract_addresses="
	plain, escaped := path+strings.Join(addresses, ","), path+strings.Join(addresses, "%2C")
	slugs := rawhttp.Path + "?slug=" + strings.Join(slices.Repeat([]string{strings.Repeat("s", 240)}, 100), ",")
	fronts := maps.Clone(fronts)
	fronts["plain nginx"] = func(f *front, _ string) { f.addr = startNginx(f.t, f.origin, 1)[0] }
	fronts["HAProxy"] = nil
	for name, start := range fronts {
		t.Run(name, func(t *testing.T) {
			edge := startEdge(t, &answers{}, start == nil)
			var dial func() (net.Conn, error)
			if start == nil {
				dial = startHAProxy(t, [2]string{edge, edge}, "5s").dial
			} else {
				f := &front{t: t, name: name, origin: edge}
				start(f, folder(t))
				dial = func() (net.Conn, error) { return net.Dial("tcp", f.addr) }
			}
			for _, c := range []struct {
				target string
				status int
			}{{plain, 200}, {escaped, 200}, {slugs, 200}, {slugs + "&x=" + strings.Repeat("x", 10_000), 431}} {
				if c.status == 431 && name == "plain nginx" {
					continue // its refusal is HTML
				}
				conn := must.Get(dial())(t)
				must.OK(t, conn.SetDeadline(time.Now().Add(patience)))
				raw := strings.Replace(requestTo(c.target, "mine"), "Host:", "X-Api-Key: k\r\nHost:", 1)
				out := exchange(conn, raw)
				res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(out)), nil)
				if err != nil || res.StatusCode != c.status {
					t.Errorf("%.60s, %d bytes: %v, %.300q, want %d", c.target, len(c.target), err, out, c.status)
				} else if c.status == 431 {
					res.Request = &http.Request{Method: "GET"}
					wantEnvelope(t, res, string(must.Get(io.ReadAll(res.Body))(t)), "HEADERS_TOO_LARGE")
				}
			}
		})
	}
}

// ask sends raw and returns the answer.
func (s *stack) ask(t *testing.T, method, raw string) (*http.Response, string) {
	t.Helper()
	c := must.Get(s.dial())(t)
	sent := make(chan struct{})
	go func() { defer close(sent); _, _ = io.WriteString(c, raw) }()
	defer func() { c.Close(); <-sent }()
	res := must.Get(http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method}))(t)
	body := must.Get(io.ReadAll(res.Body))(t)
	return res, string(body)
}

// wantEnvelope checks an answer that has no result.
func wantEnvelope(t *testing.T, res *http.Response, body, key string) {
	t.Helper()
	var envelope struct {
		Code       int
		Message    string
		MessageKey string `json:"message_key"`
		Result     *struct{}
	}
	if res.Request.Method != "HEAD" {
		if err := json.Unmarshal([]byte(body), &envelope); err != nil || envelope.Code == 0 ||
			envelope.Message == "" || envelope.MessageKey != key || envelope.Result == nil {
			t.Errorf("body %q: %v", body, err)
		}
	}
	h := res.Header
	if len(h["X-Request-Id"]) != 1 || len(h["Access-Control-Allow-Origin"]) != 1 ||
		h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "application/json" ||
		rawhttp.SoonAgain(h.Get("Retry-After")) != (key == "SERVICE_UNAVAILABLE") {
		t.Errorf("%s, headers %v", res.Status, h)
	}
}

// headWith returns a head with the given lines after Host.
func headWith(lines ...string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: edge.test\r\n%s\r\n", rawhttp.Path,
		strings.Join(append(lines, ""), "\r\n"))
}

func headOf(n int) string {
	const long = "X-Long: "
	return headWith(long + strings.Repeat("a", n-len(headWith(long))))
}

// TestHAProxyErrors: HAProxy's own answers, and the heads that it passes on, are as README.md
// describes.
func TestHAProxyErrors(t *testing.T) {
	engine := &answers{}
	edge := startEdge(t, engine, true)
	nobody := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	nobody.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections but never answers
	must.OK(t, err)
	defer silent.Close()
	serving := startHAProxy(t, [2]string{edge, edge}, "5s")
	away := startHAProxy(t, [2]string{nobody.Addr().String(), nobody.Addr().String()}, "5s")
	mute := startHAProxy(t, [2]string{silent.Addr().String(), silent.Addr().String()}, "100ms")
	t.Run("own", func(t *testing.T) {
		for name, c := range map[string]struct {
			stack  *stack
			raw    string
			status int
		}{
			"no edge":       {away, requestTo(rawhttp.Path, "mine"), 503},
			"no answer":     {mute, requestTo(rawhttp.Path, "mine"), 504},
			"no edge, HEAD": {away, strings.Replace(requestTo(rawhttp.Path, "mine"), "GET", "HEAD", 1), 503},
		} {
			t.Run(name, func(t *testing.T) {
				method, _, _ := strings.Cut(c.raw, " ")
				res, body := c.stack.ask(t, method, c.raw)
				wantEnvelope(t, res, body, "SERVICE_UNAVAILABLE")
				if res.StatusCode != c.status || res.Header.Get("X-Request-Id") != "mine" ||
					res.Header.Get("Access-Control-Expose-Headers") == "" {
					t.Errorf("%s, headers %v", res.Status, res.Header)
				}
				res, _ = c.stack.ask(t, method, strings.Replace(c.raw, "mine", "no (id)", 1))
				if id := res.Header.Get("X-Request-Id"); len(id) < 20 {
					t.Errorf("id %q", id)
				}
			})
		}
	})
	testHeads(t, serving)
	// What HAProxy's parser refuses gets no envelope.
	t.Run("parser", func(t *testing.T) {
		for name, c := range map[string]struct {
			raw    string
			status int
		}{
			"no request line": {"GET\r\n\r\n", 400}, "blank before the colon": {headWith("X-A : b"), 400},
			"70,000 bytes": {headOf(70000), 400},
			"300 lines":    {headWith(slices.Repeat([]string{"X-A: b"}, 300)...), 400},
			"coding":       {headWith("Transfer-Encoding: gzip, chunked"), 422},
			"half a head":  {"GET / HTTP/1.1\r\n", 408},
			"other Host":   {"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", 400},
		} {
			t.Run(name, func(t *testing.T) {
				if res, body := serving.ask(t, "GET", c.raw); res.StatusCode != c.status || json.Valid([]byte(body)) {
					t.Errorf("%s %q: better than README.md says, or worse", res.Status, body)
				}
			})
		}
	})
	// A 503 of an edge is an answer: HAProxy does not retry it.
	t.Run("no retry", func(t *testing.T) {
		before := engine.asked.Load()
		res, body := serving.ask(t, "GET", requestTo(rawhttp.Path+"?slug=busy", "mine"))
		wantEnvelope(t, res, body, "SERVICE_UNAVAILABLE")
		if n := engine.asked.Load() - before; n != 1 || res.StatusCode != 503 {
			t.Errorf("%s after %d requests to edges", res.Status, n)
		}
	})
}

func testHeads(t *testing.T, serving *stack) {
	// The edge itself answers wherever the rules require it: heads of the maximum size pass, and
	// the edge refuses slightly larger ones.
	t.Run("edge", func(t *testing.T) {
		lines := func(n int) []string { return slices.Repeat([]string{"X-A: b"}, n-1) } // plus Host
		for name, c := range map[string]struct {
			raw    string
			status int
			key    string
		}{
			"32,768 bytes": {headOf(32 << 10), 200, ""}, "32,769 bytes": {headOf(32<<10 + 1), 431, "HEADERS_TOO_LARGE"},
			"60,000 bytes": {headOf(60000), 431, "HEADERS_TOO_LARGE"},
			"100 lines":    {headWith(lines(100)...), 200, ""},
			"101 lines":    {headWith(lines(101)...), 431, "HEADERS_TOO_LARGE"},
			"250 lines":    {headWith(lines(250)...), 431, "HEADERS_TOO_LARGE"},
			"no Host":      {strings.Replace(headWith(), "Host: edge.test\r\n", "", 1), 400, "BAD_REQUEST"},
			"body":         {headWith("Content-Length: 4097") + strings.Repeat("a", 4097), 413, "PAYLOAD_TOO_LARGE"},
			"body of POST": {strings.Replace(headWith("Content-Length: 5"), "GET", "POST", 1) + "hello", 405,
				"METHOD_NOT_ALLOWED"},
		} {
			t.Run(name, func(t *testing.T) {
				res, body := serving.ask(t, "GET", c.raw)
				if res.StatusCode != c.status {
					t.Fatalf("%s: %q, want %d", res.Status, body, c.status)
				}
				if c.key != "" {
					wantEnvelope(t, res, body, c.key)
				}
			})
		}
	})
	t.Run("HTTP2", func(t *testing.T) {
		for n, status := range map[int]int{28000: 200, 40000: 431} {
			req := must.Get(http.NewRequestWithContext(
				t.Context(), http.MethodGet, "https://"+serving.listen+rawhttp.Path, nil))(t)
			req.Header.Set("X-Long", strings.Repeat("a", n))
			res := must.Get(serving.client(t, "").Do(req))(t)
			res.Body.Close()
			if res.StatusCode != status || res.ProtoMajor != 2 {
				t.Errorf("head of %d bytes: %s over %s", n, res.Status, res.Proto)
			}
		}
	})
	// The edge never asks for a body that the client announces.
	t.Run("expected body", func(t *testing.T) {
		c := must.Get(serving.dial())(t)
		defer c.Close()
		must.Get(io.WriteString(c, headWith("X-Request-Id: mine", "Expect: 100-continue",
			"Transfer-Encoding: chunked")))(t)
		res := must.Get(http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "GET"}))(t)
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatalf("%s %q, %v; want 413", res.Status, body, err)
		}
		wantEnvelope(t, res, string(body), "PAYLOAD_TOO_LARGE")
	})
}
