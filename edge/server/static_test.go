package server

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

func TestStaticCodings(t *testing.T) {
	_, addr := start(t, func(cfg *Config) {
		cfg.Static = map[string]StaticFile{
			"/both": {Body: []byte("plain"), Brotli: []byte("in br"), Gzip: []byte("in gzip"),
				ContentType: "text/css", CacheControl: "no-cache"},
			"/plain": {Body: []byte("plain"), ContentType: "text/css",
				Header: map[string]string{"Content-Security-Policy": "default-src 'self'"}},
		}
	})
	plain := ask(t, addr, "GET", "/both").Header.Get("ETag")
	tag := plain[:len(plain)-1]
	for list, want := range map[string]string{
		"": "", "gzip": "gzip", "br": "br", "gzip, deflate, br, zstd": "br", "GZIP": "gzip", "*": "gzip",
		"*, br;q=0.5": "br", "gzip;q=0, *": "", "*;q=0": "", "br;q=0, gzip;q=0.1": "gzip",
		"br;q=0,*": "gzip", "gzip;q=0.000": "", "gzip ; q=1": "gzip", "identity": "", "deflate": "",
		"gzip;q=0, br ;q=0.0": "", "brr": "",
	} {
		a := ask(t, addr, "GET", "/both", "Accept-Encoding: "+list)
		body, etag := "plain", plain
		if want != "" {
			body, etag = "in "+want, tag+"-"+want+`"`
		}
		if a.StatusCode != 200 || a.body != body || a.Header.Get("Content-Encoding") != want ||
			a.Header.Get("ETag") != etag ||
			a.Header.Get("Vary") != "Accept-Encoding" || a.Header.Get("Content-Type") != "text/css" {
			t.Errorf("Accept-Encoding %q: %d %q with %v", list, a.StatusCode, a.body, a.Header)
		}
		if a := ask(t, addr, "GET", "/plain", "Accept-Encoding: "+list); a.body != "plain" ||
			a.Header.Get("Content-Encoding") != "" || a.Header.Get("Vary") != "" {
			t.Errorf("one coding, Accept-Encoding %q: %q with %v", list, a.body, a.Header)
		}
		for _, known := range []string{plain, tag + `-br"`, tag + `-gzip"`} {
			a := ask(t, addr, "GET", "/both", "Accept-Encoding: "+list, "If-None-Match: "+known)
			if a.StatusCode != 304 || a.body != "" || a.Header.Get("ETag") != etag ||
				a.Header.Get("Content-Encoding") != "" || a.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("Accept-Encoding %q, If-None-Match %s: %d %q with %v", list, known, a.StatusCode, a.body,
					a.Header)
			}
		}
	}
	one := ask(t, addr, "GET", "/plain?x=y")
	if tag = one.Header.Get("ETag"); len(tag) != 34 || one.Header.Get("Cache-Control") != "public, max-age=300" ||
		one.Header.Get("Content-Security-Policy") != "default-src 'self'" {
		t.Errorf("%v", one.Header)
	}
	if got := ask(t, addr, "GET", "/both").Header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("Cache-Control %q", got)
	}
	for list, want := range map[string]int{`"a", W/` + tag: 304, "*": 304, `"a"`: 200, "": 200, tag[1:]: 200} {
		a := ask(t, addr, "GET", "/plain", "If-None-Match: "+list)
		if a.StatusCode != want || a.Header.Get("ETag") != tag || want == 304 && a.body != "" {
			t.Errorf("If-None-Match %s: %d %q", list, a.StatusCode, a.body)
		}
	}
}

// TestStaticPreconditions checks that a 412 takes precedence over a 304, and that If-Match compares strongly
// with the tag of the selected coding (RFC 9110, 13.1.1 and 13.2.2). If-Unmodified-Since has no effect,
// because files have no modification time.
func TestStaticPreconditions(t *testing.T) {
	_, addr := start(t, func(cfg *Config) {
		cfg.Static = map[string]StaticFile{
			"/a": {Body: []byte("plain"), Gzip: []byte("in gzip"), ContentType: "text/css"}}
	})
	tag := ask(t, addr, "GET", "/a").Header.Get("ETag")
	coded := tag[:len(tag)-1] + `-gzip"`
	for _, c := range []struct {
		match, accept string
		status        int
	}{
		{tag, "", 200}, {`"x", ` + tag, "", 200}, {"*", "", 200}, {coded, "gzip", 200},
		{`"x"`, "", 412}, {"W/" + tag, "", 412}, {coded, "", 412}, {tag, "gzip", 412}, {"", "", 412},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			headers := []string{"If-Match: " + c.match, "Accept-Encoding: " + c.accept,
				"If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT"}
			if a := ask(t, addr, method, "/a", headers...); a.StatusCode != c.status {
				t.Errorf("%s, %+v: %d", method, c, a.StatusCode)
			}
			want := c.status
			if want == 200 {
				want = 304
			}
			if a := ask(t, addr, method, "/a", append(headers, "If-None-Match: *")...); a.StatusCode != want {
				t.Errorf("%s, %+v, If-None-Match: %d", method, c, a.StatusCode)
			}
		}
	}
}

// TestSlowStatic checks that sending a static file may take longer than WriteTimeout as long as the peer
// reads, but not if the peer reads nothing.
func TestSlowStatic(t *testing.T) {
	const timeout, size, pieces = time.Second, 48 << 20, 60
	_, addr := start(t, func(cfg *Config) {
		cfg.WriteTimeout = timeout
		cfg.Static = map[string]StaticFile{"/large": {Body: make([]byte, size), ContentType: "text/css"}}
	})
	open := func() *client {
		c := dial(t, addr)
		must.OK(t, c.Conn.(*net.TCPConn).SetReadBuffer(64<<10))
		return c.send(request("GET", "/large", "Connection: close"))
	}
	stuck := open()
	slow, began, got := open(), time.Now(), int64(0)
	for i := range pieces { // over twice the timeout
		n, err := io.CopyN(io.Discard, slow.r, size/pieces)
		if got += n; err != nil {
			t.Fatalf("%d bytes of %d after %v: %v", got, size, time.Since(began), err)
		}
		time.Sleep(time.Until(began.Add(2 * timeout * time.Duration(i+1) / pieces)))
	}
	if n, err := io.Copy(io.Discard, slow.r); err != nil || got+n <= size {
		t.Errorf("%d bytes of %d and a head: %v", got+n, size, err)
	}
	if n, err := io.Copy(io.Discard, stuck.r); err == nil && n >= size {
		t.Errorf("a peer that took nothing for %v got %d bytes", time.Since(began), n)
	}
}

// TestStaticOrigin checks that a file contains the origin to which the request was sent, and has a different
// tag for each origin.
func TestStaticOrigin(t *testing.T) {
	_, addr := start(t, func(cfg *Config) {
		cfg.Static = map[string]StaticFile{"/o": {Body: []byte(`{"url":"https://host"}`), Origin: "https://host"}}
	})
	tags := map[string]bool{}
	for _, c := range [][]string{
		{"http://api.example:8080", "Host: api.example:8080"}, {"http://[::1]:80", "Host: [::1]:80"},
		{"https://api.example", "Host: api.example", "X-Forwarded-Proto: https"},
		{"http://api.example", "Host: api.example", "X-Forwarded-Proto: javascript"},
		{"/", "X: y"},
	} {
		a := dial(t, addr).send("GET /o HTTP/1.0\r\n" + strings.Join(c[1:], "\r\n") + "\r\n\r\n").receive("GET")
		tag := a.Header.Get("ETag")
		if a.StatusCode != 200 || a.body != `{"url":"`+c[0]+`"}` || tags[tag] {
			t.Errorf("%q: %d %s %s", c[1:], a.StatusCode, tag, a.body)
		}
		tags[tag] = true
	}
}
