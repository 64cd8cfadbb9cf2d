package edge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/rawhttp"
	"example.com/marketdata/internal/test/teststore"
)

// socketEdge runs an edge that listens on a Unix socket and returns the socket's path. Connections to such a
// socket can be half closed, and a million of them need no ports.
func socketEdge(f *testing.F) string {
	f.Helper()
	mem := memstore.New()
	teststore.Publish(f, mem, teststore.NewFeed(300, 1), teststore.Start, teststore.Files())
	e, err := New(context.Background(), Config{Reader: mem, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", AuthOff: true,
		Coins: true})
	must.OK(f, err)
	path := filepath.Join(f.TempDir(), "edge")
	must.OK(f, e.listeners[0].Close())
	e.listeners = []net.Listener{must.Get(net.Listen("unix", path))(f)}
	RunUntil(f, e)
	until(f, "the snapshot", func() bool { return e.current() != nil && e.refresher.Status().Missing == 0 })
	return path
}

// exchange sends raw, closes its sending side, and returns everything that it receives.
func exchange(t *testing.T, path string, raw []byte) *bufio.Reader {
	t.Helper()
	c, err := net.Dial("unix", path)
	must.OK(t, err)
	defer c.Close()
	must.OK(t, c.SetDeadline(time.Now().Add(hostilePatience)))
	// The edge may answer and close the connection before everything is sent.
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = c.Write(raw)
		_ = c.(*net.UnixConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Fatalf("%.200q: no end after %.200q", raw, got)
	}
	c.Close()
	<-sent
	return bufio.NewReader(bytes.NewReader(got))
}

// answers reads and checks all answers in r.
func answers(t *testing.T, r *bufio.Reader, head bool) []*response {
	t.Helper()
	var list []*response
	for {
		if _, err := r.Peek(1); err != nil {
			return list
		}
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		res := must.Get(http.ReadResponse(r, &http.Request{Method: method}))(t)
		body := must.Get(io.ReadAll(res.Body))(t)
		a := &response{status: res.StatusCode, header: res.Header, body: string(body),
			id: res.Header.Get("X-Request-Id")}
		list = append(list, a)
		if a.status == http.StatusContinue {
			continue
		}
		if a.status >= http.StatusInternalServerError {
			t.Fatalf("answer %d, %v, %s", a.status, res.Header, body)
		}
		if head {
			return list // it is unknown which of the other answers have a body
		}
		rawhttp.Check(t, method, res, string(body))
		if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") &&
			res.Header.Get("Content-Encoding") == "" && !json.Valid(body) {
			t.Fatalf("answer %d: %s", a.status, body)
		}
	}
}

// FuzzHeaders checks that no header changes the contents of an answer. A header may select a coding, avoid
// the body, or be refused.
func FuzzHeaders(f *testing.F) {
	names := []string{
		"Accept-Encoding", "If-None-Match", "If-Modified-Since", "X-Request-Id", "X-Api-Key", "Origin", "Accept",
		"Range", "Cookie", "Forwarded", "X-Forwarded-For",
		"X-Forwarded-Host", "X-Original-Url", "X-Http-Method-Override", "Content-Type", "Cache-Control", "Te",
		"Connection", "Upgrade", "Traceparent",
	}
	for i, value := range []string{
		"gzip, br;q=0.5", `W/"a", "b"`, "Wed, 04 Mar 2026 05:10:00 GMT", "id-1", "mdk_live_x", "https://a.test",
		"text/html;q=0.1", "bytes=0-5", "a=b", "for=1.2.3.4", "1.2.3.4, 5.6.7.8",
		"evil.test", "/nowhere", "DELETE", "multipart/form-data; boundary=x", "no-cache", "trailers",
		"close, X-Api-Key", "h2c", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	} {
		f.Add("size=50&sort=name", uint8(i), value)
	}
	path := socketEdge(f)
	f.Fuzz(func(t *testing.T, query string, name uint8, value string) {
		// These would make it a different request.
		if strings.ContainsAny(query, " \r\n\x00\t") || strings.ContainsAny(value, "\r\n\x00") {
			return
		}
		get := "GET /openapi/v1/assets?" + query + " HTTP/1.1\r\nHost: x\r\n"
		plain := answers(t, exchange(t, path, []byte(get+"\r\n")), false)
		with := answers(t, exchange(t, path, []byte(get+names[int(name)%len(names)]+": "+value+"\r\n\r\n")), false)
		if len(plain) != 1 || len(with) != 1 {
			t.Fatalf("%d and %d answers", len(plain), len(with))
		}
		p, w := plain[0], with[0]
		body, err := rawhttp.Decode(w.header.Get("Content-Encoding"), []byte(w.body))
		switch {
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			if w.status != http.StatusBadRequest {
				t.Fatalf("control bytes %q: %d", value, w.status)
			}
		case w.status == http.StatusNotModified && p.status == http.StatusOK && w.body == "":
			return
		case err != nil || w.status != p.status || string(body) != p.body:
			t.Fatalf("%s: %q: %d %s, without it %d %s", names[int(name)%len(names)], value, w.status, w.body, p.status,
				p.body)
		}
	})
}

// FuzzParsed checks that, whatever the value of a parsed header on any path, the answers are well-formed and
// none is a server error. The first seed once caused a 500.
func FuzzParsed(f *testing.F) {
	const huge = "9999999999999999999"
	targets := []string{"GET " + filesPath + "/quotes.parquet", "GET /openapi/v1/quotes", "HEAD /openapi/v1/events",
		"OPTIONS /openapi/v1/quotes", "GET /api/v3/ping", "GET /"}
	names := []string{"Range", "If-Range", "If-None-Match", "If-Match", "If-Modified-Since", "Accept-Encoding",
		"X-Snapshot-Time", "X-Request-Id", "Content-Length", "Connection", "X-Forwarded-For", "Origin",
		"Access-Control-Request-Method", "Access-Control-Request-Headers", "Last-Event-ID", "X-Api-Key",
		"X-Cg-Demo-Api-Key", "Transfer-Encoding", "Expect", "Host", "Traceparent"}
	for i, value := range []string{"bytes=" + huge + "-", `"a"`, `W/"a", *`, `"` + huge + `"`,
		"Wed, 04 Mar " + huge + " 05:10:00 GMT", "gzip;q=" + huge + ", br;q=0." + huge, huge + "-03-04T05:10:00Z",
		huge, huge, "keep-alive, close", "1.2.3.4:" + huge, "https://a.test:" + huge, "DELETE", "range, " + huge,
		huge, "mdk_live_" + huge, "CG-" + huge, "chunked", "100-continue", "x:" + huge, "00-" + huge} {
		f.Add(uint8(0), uint8(i), value)
		f.Add(uint8(1), uint8(i), value)
	}
	f.Add(uint8(0), uint8(0), "bytes=0-"+huge)
	f.Add(uint8(0), uint8(0), "bytes=-"+huge)
	path := socketEdge(f)
	f.Fuzz(func(t *testing.T, target, name uint8, value string) {
		header := names[int(name)%len(names)]
		at, err := time.Parse(time.RFC3339, value)
		if strings.ContainsAny(value, "\r\n\x00") || header == "X-Snapshot-Time" && err == nil &&
			at.After(teststore.Start) { // a different request, or one that waits for its snapshot and then gets a 503
			return
		}
		request := targets[int(target)%len(targets)]
		answers(t, exchange(t, path, []byte(request+" HTTP/1.1\r\nHost: x\r\n"+header+": "+value+"\r\n\r\n")),
			strings.HasPrefix(request, "HEAD"))
	})
}
