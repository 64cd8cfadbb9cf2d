package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/builder/keys"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
)

// front is a cache in front of an edge.
type front struct {
	t      *testing.T
	name   string // in the Cache-Status header
	addr   string
	origin string // address of the edge itself
	admin  string // address of the edge's admin listener
	drops  bool   // whether it drops answers by Surrogate-Key
	asked  int
	*service
}

// startProxy starts a proxy that runs until the end of the test, and returns when it accepts
// connections.
func startProxy(t *testing.T, addr string, cmd *exec.Cmd) {
	t.Helper()
	name := filepath.Base(cmd.Path)
	p := must.Get((&local.Machine{Data: t.TempDir()}).StartCommand(name, cmd))(t)
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("%s printed: %s", name, p.Tail())
		}
	})
	must.OK(t, local.AwaitListener(t.Context(), addr, p))
}

// startFront starts a program with one of the configurations in deploy/cache, whose variables it
// replaces, and returns when the program accepts connections.
func startFront(t *testing.T, addr, config, dir string, variables []string, program string, args ...string) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("../../../deploy/cache", config)))(t)
	file := filepath.Join(dir, config)
	must.OK(t, os.WriteFile(file, []byte(strings.NewReplacer(variables...).Replace(string(text))), 0o644))
	startProxy(t, addr, exec.Command(program, append(args, file)...))
}

// fronts maps each cache of deploy/cache to a function that starts it in front of an edge.
var fronts = map[string]func(f *front, dir string){
	"nginx": func(f *front, dir string) {
		f.addr = local.Free("127.0.0.1:18180")
		startFront(f.t, f.addr, "nginx.conf", dir, []string{"${LISTEN}", f.addr, "${EDGE}", f.origin, "${DIR}",
			dir}, program(f.t, "nginx"), "-g", "daemon off;", "-e", "stderr", "-c")
	},
	"varnish": func(f *front, dir string) {
		f.addr, f.drops = local.Free("127.0.0.1:18280"), true
		host, port, err := net.SplitHostPort(f.origin)
		must.OK(f.t, err)
		startFront(f.t, f.addr, "varnish.vcl", dir, []string{"${EDGE_HOST}", host, "${EDGE_PORT}", port},
			program(f.t, "varnishd"),
			"-F", "-n", dir, "-a", f.addr, "-s", "malloc,64m", "-p", "http_gzip_support=off", "-p",
			"vsl_mask=-ReqHeader,-BereqHeader,-ReqURL,-BereqURL", "-p", "timeout_idle=120", "-p", "http_req_size=64k",
			"-p", "http_req_hdr_len=64k", "-p", "http_max_hdr=128", "-p", "workspace_client=256k", "-p",
			"workspace_backend=256k", "-f")
	},
}

// folder creates a folder for a cache. It is not below t.TempDir, because those names are too long
// for Varnish.
func folder(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "front"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.OK(t, os.Chmod(dir, 0o755)) // both caches give up root's privileges
	return dir
}

// TestCache checks the claims of deploy/cache/README.md against its configurations.
func TestCache(t *testing.T) {
	for name, start := range fronts {
		t.Run(name, func(t *testing.T) {
			f := &front{t: t, name: name, service: newService(t, 0)}
			alice, bob := teststore.Key(t, f.store, 1e6, 1e6), teststore.Key(t, f.store, 1e6, 1e6)
			cfg := f.config()
			cfg.CacheScope, cfg.Server.AddressBurst = "public", 1000
			cfg.Server.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			e := testedge.Start(t, cfg)
			f.origin, f.admin = e.Addr().String(), e.AdminAddr().String()
			must.OK(t, poll(t.Context(), "the edge", func() (bool, error) {
				return f.ask(f.origin, "GET", "/openapi/v1/global", alice.Key).StatusCode == 200, nil
			}))
			start(f, folder(t))
			f.testMix(alice, bob)
			f.testKeyInQuery(alice)
			f.testRefused(alice)
			f.testSwap(alice, bob)
			f.testRevoked(alice, bob)
			e.Stop()
			if a := f.ask(f.addr, "GET", "/openapi/v1/exchanges", alice.Key); a.StatusCode != 503 ||
				a.Header.Get("Cache-Control") != "no-store" || !bytes.Contains(a.body, []byte(`"code":50300`)) {
				t.Errorf("without an edge: %d %v %s", a.StatusCode, a.Header, a.body)
			}
		})
	}
}

// got is an answer.
type got struct {
	*http.Response
	id   string // X-Request-Id of its request
	body []byte
	hit  bool // whether it came from the cache
}

// ask sends a request to addr, without an API key if key is empty. Each of headers has the form
// "Name: value".
func (f *front) ask(addr, method, target, key string, headers ...string) *got {
	f.t.Helper()
	f.asked++
	id := fmt.Sprintf("%s-%d", addr, f.asked)
	var raw strings.Builder
	fmt.Fprintf(
		&raw, "%s %s HTTP/1.1\r\nHost: edge.test\r\nConnection: close\r\nX-Request-Id: %s\r\n", method, target, id)
	if key != "" {
		headers = append(headers, "X-Api-Key: "+key)
	}
	for _, h := range headers {
		raw.WriteString(h + "\r\n")
	}
	c := must.Get(net.Dial("tcp", addr))(f.t)
	defer c.Close()
	must.OK(f.t, c.SetDeadline(time.Now().Add(patience)))
	must.Get(io.WriteString(c, raw.String()+"\r\n"))(f.t)
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		f.t.Fatalf("%s: %v", target, err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatalf("%s: %v", target, err)
	}
	return &got{res, id, body, strings.HasSuffix(strings.Join(res.Header["Cache-Status"], ", "), f.name+"; hit")}
}

// check compares the cache's answer with the edge's answer to the same request. An uncached answer
// must have the id of its own request.
func (f *front) check(target, key string, method string, headers ...string) *got {
	f.t.Helper()
	a := f.ask(f.addr, method, target, key, headers...)
	want := f.ask(f.origin, method, target, key, headers...)
	f.same(a, want, fmt.Sprintf("%s %s %v", method, target, headers))
	return a
}

func (f *front) same(a, want *got, what string) {
	f.t.Helper()
	if a.StatusCode != want.StatusCode || !bytes.Equal(a.body, want.body) {
		f.t.Errorf("%s: %d %d bytes, want %d %d bytes", what, a.StatusCode, len(a.body), want.StatusCode,
			len(want.body))
	}
	if id := a.Header.Get("X-Request-Id"); len(a.Header["X-Request-Id"]) != 1 || !a.hit && id != a.id {
		f.t.Errorf("%s: id %s of another request than %s", what, a.Header["X-Request-Id"], a.id)
	}
	// These are headers that caches add, headers that depend on the time, and the id.
	of := func(g *got) http.Header {
		h := g.Header.Clone()
		for _, name := range []string{"Age", "Via", "Server", "Date", "Connection", "X-Request-Id", "Cache-Status",
			"Accept-Ranges", "Transfer-Encoding", "Ratelimit"} {
			h.Del(name)
		}
		if strings.HasPrefix(h.Get("Cache-Control"), "public, max-age=") &&
			!strings.HasSuffix(h.Get("Cache-Control"), "immutable") {
			h.Set("Cache-Control", "public")
		}
		return h
	}
	h, w := of(a), of(want)
	if a.StatusCode == 304 { // in a 304, the cache repeats more of the 200's headers than the edge does
		for _, name := range []string{"Surrogate-Key", "Cache-Tag", "Content-Type"} {
			h.Del(name)
		}
	}
	for name := range w {
		if !slices.Equal(h[name], w[name]) {
			f.t.Errorf("%s: %s: %q, want %q", what, name, h[name], w[name])
		}
	}
	for name := range h {
		if w[name] == nil {
			f.t.Errorf("%s: %s: %q, which the edge does not send", what, name, h[name])
		}
	}
	if a.hit && (a.StatusCode >= 400 || a.Header.Get("RateLimit") != "") {
		f.t.Errorf("%s: %d was kept, with %v", what, a.StatusCode, a.Header)
	}
}

// at returns target with the path prefix of a pin.
func at(t time.Time, target string) string { return "/at/" + t.Format("20060102T150405Z") + target }

// testMix: the cache answers as the edge does, and requests each answer from the edge only once.
func (f *front) testMix(alice, bob keys.Created) {
	codings := map[string][]string{ // by the coding that the edge is asked for
		"": {"", "Accept-Encoding: deflate"}, "gzip": {"Accept-Encoding: gzip, deflate", "Accept-Encoding: GZIP"},
		"br": {"Accept-Encoding: br"}, "zstd": {"Accept-Encoding: gzip, deflate, br, zstd", "Accept-Encoding: zstd"},
	}
	var targets []string
	for _, target := range []string{"/assets?limit=100", "/assets?limit=100&page=2", "/quotes?id=1,2,99999999",
		"/trending", "/exchanges", "/global", "/categories", "/chains"} {
		targets = append(targets, "/openapi/v1"+target, at(f.at, "/openapi/v1"+target))
	}
	asked, kept := 0, 0
	for range 3 {
		for _, target := range targets {
			for coding, lists := range codings {
				for i, list := range lists {
					headers := []string{fmt.Sprintf("Origin: https://%d.example", asked)}
					if list != "" {
						headers = append(headers, list)
					}
					a := f.check(target, []keys.Created{alice, bob}[(asked+i)%2].Key, "GET", headers...)
					if c := a.Header.Get("Content-Encoding"); c != coding && len(a.body) > 1024 {
						f.t.Errorf("%s: coding %q, want %q", target, c, coding)
					}
					if asked++; a.hit {
						kept++
					}
				}
			}
		}
	}
	if missed := asked - kept; missed != len(targets)*len(codings) {
		f.t.Errorf("%d of %d requests were not answered by the cache, want %d", missed, asked,
			len(targets)*len(codings))
	}
	f.t.Logf("%d requests, hit rate %.3f", asked, float64(kept)/float64(asked))
	for _, target := range targets {
		f.check(target, bob.Key, "HEAD", "Accept-Encoding: gzip")
		a := f.check(target, bob.Key, "GET", "Range: bytes=0-9")
		if a := f.check(target, alice.Key, "GET", "If-None-Match: "+a.Header.Get("ETag")); a.StatusCode != 304 ||
			!a.hit {
			f.t.Errorf("%s, with its tag: %d, hit %t", target, a.StatusCode, a.hit)
		}
		// A cache may support fewer conditions than the edge does, and answer in full.
		for _, condition := range []string{`If-None-Match: "other", W/` + a.Header.Get("ETag"),
			"If-Modified-Since: " + a.Header.Get("Last-Modified")} {
			b := f.ask(f.addr, "GET", target, alice.Key, condition)
			if b.StatusCode != 304 && !bytes.Equal(b.body, a.body) {
				f.t.Errorf("%s, %s: %d %s", target, condition, b.StatusCode, b.body)
			}
		}
		// Only the edge can answer requests with these headers.
		for _, header := range []string{`If-Match: "other"`, `If-Match: W/"x", ` + a.Header.Get("ETag"),
			"If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
			"Accept-Encoding: br;q=1, gzip;q=0.5", "X-Snapshot-Time: " + f.at.Format(time.RFC3339)} {
			if a := f.check(target, alice.Key, "GET", header); a.hit {
				f.t.Errorf("%s, %s: a hit", target, header)
			}
		}
	}
}

// testRefused: refusals are never cached and never reach another client.
func (f *front) testRefused(alice keys.Created) {
	for range 2 {
		for target, status := range map[string]int{
			"/openapi/v1/assets?page=x": 400, "/openapi/v1/none": 404, "/openapi/v1/quotes": 200,
			"/at/20200101T000000Z/openapi/v1/quotes": 410,
			"/at/20200101T000001Z/openapi/v1/quotes": 400, "/openapi/v1/events/": 404, "/nothing": 404, "/docs": 200,
			"/openapi/v1/trending?": 200,
		} {
			if a := f.check(target, alice.Key, "GET"); a.StatusCode != status {
				f.t.Errorf("%s: %d, want %d", target, a.StatusCode, status)
			}
		}
		// Both are cached by now, for clients that are allowed to read them.
		for _, target := range []string{"/openapi/v1/trending", at(f.at, "/openapi/v1/trending")} {
			for _, headers := range [][]string{nil, {"X-Api-Key: mdk_live_nonsense"}, {"X-Api-Key: "},
				{"X-Api-Key: " + alice.Key, "X-Api-Key: " + alice.Key}, {"Checking: no"}} {
				if a := f.check(target, "", "GET", headers...); a.StatusCode != 401 {
					f.t.Errorf("%s, %d headers: %d, want 401", target, len(headers), a.StatusCode)
				}
			}
		}
	}
	// The header names that Varnish uses internally have no effect in a client's request.
	f.check("/docs", "mdk_live_nonsense", "GET", "Checking: yes", "Asked: /openapi/v1/trending")
	// Only the client over its limit is refused.
	hasty := teststore.Key(f.t, f.store, 1, 3)
	for n := 0; ; n++ {
		target := fmt.Sprintf("/openapi/v1/assets?limit=1&page=%d", n+1)
		a := f.ask(f.addr, "GET", target, hasty.Key)
		if a.StatusCode == 429 && a.Header.Get("Retry-After") != "" && a.Header.Get("RateLimit") != "" &&
			a.Header.Get("X-Request-Id") == a.id {
			f.check(target, alice.Key, "GET")
			break
		}
		if n == 1000 {
			f.t.Fatal("a thousand requests are within a limit of three")
		}
	}
	// The snapshot does not exist yet.
	next := at(f.at.Add(10*time.Minute), "/openapi/v1/trending")
	if a := f.ask(f.addr, "GET", next, alice.Key); a.StatusCode != 503 || a.Header.Get("Retry-After") != "1" ||
		a.Header.Get("X-Request-Id") != a.id {
		f.t.Errorf("a pin of the future: %d %v", a.StatusCode, a.Header)
	}
}

// testKeyInQuery: only the edge answers a request that has its key in the query, and the cache
// keeps nothing of it.
func (f *front) testKeyInQuery(alice keys.Created) {
	sheet := must.Get((&teststore.Registry{Store: f.store}).Create(f.t.Context(),
		teststore.KeyRequest{Name: "sheet", Rate: 1000, Burst: 1000, Query: true}))(f.t)
	for _, target := range []string{"/openapi/v1/markets.csv?size=3&key=",
		at(f.at, "/openapi/v1/prices.csv?id=1&time=0&key=")} {
		must.OK(f.t, poll(f.t.Context(), "the key", func() (bool, error) {
			return f.ask(f.origin, "GET", target+sheet.Key, "").StatusCode == 200, nil
		}))
		for range 3 {
			if a := f.check(target+sheet.Key, "", "GET"); a.StatusCode != 200 || a.hit ||
				!strings.HasPrefix(a.Header.Get("Cache-Control"), "private, ") {
				f.t.Errorf("%s: %d, hit %t, %v", target, a.StatusCode, a.hit, a.Header)
			}
			if a := f.check(target+alice.Key, "", "GET"); a.StatusCode != 401 {
				f.t.Errorf("%s with a key for headers: %d", target, a.StatusCode)
			}
			if a := f.check(target+sheet.Key, alice.Key, "GET"); a.StatusCode != 401 || a.hit {
				f.t.Errorf("%s with a key in a header, too: %d, hit %t", target, a.StatusCode, a.hit)
			}
		}
	}
	f.check("/openapi/v1/markets.csv?size=3", alice.Key, "GET")
	if a := f.check("/openapi/v1/markets.csv?size=3", alice.Key, "GET"); a.StatusCode != 200 || !a.hit {
		f.t.Errorf("a key in a header: %d, hit %t", a.StatusCode, a.hit)
	}
}

// testSwap: no answer from one snapshot is served for another, and all answers of one snapshot can
// be dropped.
func (f *front) testSwap(alice, bob keys.Created) {
	const target = "/openapi/v1/quotes?id=1,2,3"
	stream := events(f.t, &http.Client{Transport: &http.Transport{}}, "http://"+f.addr, alice.Key)
	stream.expect(f.t, f.at)
	if f.drops {
		f.startDrop(alice)
	}
	before := f.at
	first := f.check(target, alice.Key, "GET")
	now := f.publish()
	stream.expect(f.t, now)
	is := func(a *got, t time.Time, what string) {
		f.t.Helper()
		if name := a.Header.Get("X-Snapshot-Time"); a.StatusCode != 200 || name != t.Format(time.RFC3339) {
			f.t.Errorf("%s: %d of %s, want %v", what, a.StatusCode, name, t)
		}
	}
	for range 2 {
		for _, pin := range []time.Time{before, now} {
			is(f.check(at(pin, target), bob.Key, "GET"), pin, "path")
			is(f.check(target, bob.Key, "GET", "X-Snapshot-Time: "+pin.Format(time.RFC3339)), pin, "header")
			f.ask(f.addr, "GET", target, bob.Key, "X-Snapshot-Time: ", "X-Snapshot-Time: "+pin.Format(time.RFC3339))
		}
		if !f.drops {
			a := f.ask(f.addr, "GET", target, bob.Key)
			is(a, before, "without a pin, kept")
			if !a.hit || !bytes.Equal(a.body, first.body) {
				f.t.Errorf("without a pin: hit %t, another answer", a.hit)
			}
		}
	}
	if !f.drops {
		return
	}
	if err := poll(f.t.Context(), "the drop", func() (bool, error) {
		return f.ask(f.addr, "GET", target, bob.Key).Header.Get("X-Snapshot-Time") == now.Format(time.RFC3339), nil
	}); err != nil {
		f.t.Error(err)
	}
	if a := f.check(at(before, target), bob.Key, "GET"); a.hit {
		f.t.Error("an answer of the previous snapshot was kept")
	}
	if a := f.check(at(now, target), bob.Key, "GET"); !a.hit {
		f.t.Error("an answer of the new snapshot was dropped")
	}
	// Answers can also be dropped by endpoint.
	f.check("/openapi/v1/trending", bob.Key, "GET")
	if a := f.ask(f.addr, "BAN", "/", "", "Surrogate-Key: quotes"); a.StatusCode != 200 {
		f.t.Errorf("BAN: %d %s", a.StatusCode, a.body)
	}
	if a := f.check(target, bob.Key, "GET"); a.hit {
		f.t.Error("quotes were kept")
	}
	if a := f.check("/openapi/v1/trending", bob.Key, "GET"); !a.hit {
		f.t.Error("trending was dropped")
	}
	for _, key := range []string{"Surrogate-Key: .*", "Surrogate-Key: ", "X: y"} {
		if a := f.ask(f.addr, "BAN", "/", "", key); a.StatusCode != 405 {
			f.t.Errorf("BAN of %q: %d", key, a.StatusCode)
		}
	}
}

// startDrop starts deploy/cache/drop and returns when its event stream is open.
func (f *front) startDrop(k keys.Created) {
	f.t.Helper()
	program(f.t, "curl")
	file := filepath.Join(f.t.TempDir(), "key")
	must.OK(f.t, os.WriteFile(file, []byte("X-Api-Key: "+k.Key+"\n"), 0o600))
	cmd := exec.Command("../../../deploy/cache/drop", "http://"+f.origin, "http://"+f.addr, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.OK(f.t, cmd.Start())
	f.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the whole group, because it has children
		_ = cmd.Wait()                                      // it was killed
	})
	must.OK(f.t, poll(f.t.Context(), "the stream", func() (bool, error) {
		b, err := local.Get(f.t.Context(), "http://"+f.admin+"/metrics")
		return bytes.Contains(b, []byte("\nedge_streams 2\n")), err
	}))
}

// testRevoked: cached answers go only to clients with a valid key.
func (f *front) testRevoked(alice, bob keys.Created) {
	target := at(f.at, "/openapi/v1/trending")
	f.check(target, alice.Key, "GET")
	if a := f.check(target, bob.Key, "GET"); a.StatusCode != 200 || !a.hit {
		f.t.Errorf("%d, hit %t", a.StatusCode, a.hit)
	}
	must.Get((&teststore.Registry{Store: f.store}).Revoke(f.t.Context(), bob.ID))(f.t)
	must.OK(f.t, poll(f.t.Context(), "the key's end", func() (bool, error) {
		return f.ask(f.addr, "GET", target, bob.Key).StatusCode == 401, nil
	}))
	for _, target := range []string{target, "/openapi/v1/chains"} {
		if a := f.check(target, bob.Key, "GET"); a.StatusCode != 401 {
			f.t.Errorf("%s with a revoked key: %d", target, a.StatusCode)
		}
	}
	if a := f.check(target, alice.Key, "GET"); a.StatusCode != 200 || !a.hit {
		f.t.Errorf("the other key: %d, hit %t", a.StatusCode, a.hit)
	}
}
