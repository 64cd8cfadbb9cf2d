package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

// serveConns accepts connections until the test ends, and serves each in its own goroutine. n is the number
// of the connection, starting at zero.
func serveConns(t *testing.T, serve func(n int, c net.Conn)) *Conn {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			serve(n, nc)
			nc.Close()
		}
	}()
	c := New(must.Get(ParseEndpoint("http://"+ln.Addr().String(), false))(t))
	t.Cleanup(func() {
		c.Close()
		ln.Close()
		<-done
	})
	return c
}

// TestSecondRequest checks for several disturbances of a connection's second request that it is answered, is
// sent again on a new connection, or fails with the right error.
func TestSecondRequest(t *testing.T) {
	const get, post = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	large := strings.Repeat("x", 8<<20) // more than fits into the socket's buffer
	for name, tc := range map[string]struct {
		second  string
		answer  func(c net.Conn) // to the second request
		body    string
		retried bool
		err     error
	}{
		"answer": {second: get, answer: func(c net.Conn) { io.WriteString(c, ok) }, body: "ok"},
		"large request": {second: fmt.Sprintf(post, len(large), large),
			answer: func(c net.Conn) { io.WriteString(c, ok) }, body: "ok"},
		"large answer": {second: get, answer: func(c net.Conn) {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(large), large)
		}, body: large},
		"byte by byte": {second: get, answer: func(c net.Conn) { writeSlowly(c, ok) }, body: "ok"},
		"closed":       {second: get, answer: func(c net.Conn) {}, body: "ok", retried: true},
		"reset": {
			second: get, answer: func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }, body: "ok", retried: true},
		"closed in answer": {second: get, answer: func(c net.Conn) { io.WriteString(c, ok[:20]) }, err: ErrClosed},
		"silence":          {second: get, answer: func(c net.Conn) { io.Copy(io.Discard, c) }, err: ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			c := serveConns(t, func(n int, nc net.Conn) {
				r := bufio.NewReader(nc)
				for i := 0; ; i++ {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					if _, err := io.Copy(io.Discard, req.Body); err != nil {
						return
					}
					if n == 0 && i == 1 {
						tc.answer(nc)
						return
					}
					io.WriteString(nc, ok)
				}
			})
			c.Timeout = 2 * time.Second
			if tc.err == ErrTimeout {
				c.Timeout = 100 * time.Millisecond
			}
			must.Get(c.Do(context.Background(), []byte(get), false))(t)
			resp, err := c.Do(context.Background(), []byte(tc.second), false)
			if !errors.Is(err, tc.err) || (err != nil) != (tc.err != nil) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if err == nil && (string(resp.Body) != tc.body || resp.Retried != tc.retried) {
				t.Errorf("%d bytes, retried %v; want %d, %v", len(resp.Body), resp.Retried, len(tc.body), tc.retried)
			}
		})
	}
}

// writeSlowly writes each byte separately.
func writeSlowly(c net.Conn, s string) {
	for i := range len(s) {
		io.WriteString(c, s[i:i+1])
	}
}
