package s3store

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/must"
)

func TestParse(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	amazon := address{bucket: "bucket", host: "s3.amazonaws.com", secure: true, region: "us-east-1"}
	local := address{bucket: "bucket", host: "127.0.0.1:9000", region: "us-east-1", pathStyle: true}
	with := func(a address, change func(*address)) address { change(&a); return a }
	for in, want := range map[string]address{
		"s3://bucket":                                        amazon,
		"s3://bucket/":                                       amazon,
		"s3://bucket/a/b":                                    with(amazon, func(a *address) { a.prefix = "a/b/" }),
		"s3://bucket/a%20b/":                                 with(amazon, func(a *address) { a.prefix = "a b/" }),
		"s3://bucket?region=eu-west-1":                       with(amazon, func(a *address) { a.region = "eu-west-1" }),
		"s3://bucket?path-style=true":                        with(amazon, func(a *address) { a.pathStyle = true }),
		"s3://bucket?endpoint=http://127.0.0.1:9000":         local,
		"s3://bucket/?endpoint=http://127.0.0.1:9000/":       local,
		"s3://bucket?endpoint=http%3A%2F%2F127.0.0.1%3A9000": local,
		"s3://bucket/x?endpoint=http://127.0.0.1:9000&region=r": with(
			local, func(a *address) { a.prefix, a.region = "x/", "r" }),
		"s3://bucket?endpoint=https://s3.example.com&path-style=false": with(local, func(a *address) {
			a.host, a.secure, a.pathStyle = "s3.example.com", true, false
		}),
	} {
		if got, err := parse(in); err != nil || got != want {
			t.Errorf("parse(%q) = %+v, %v, want %+v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":                                         "scheme is not s3",
		"file:x":                                   "scheme is not s3",
		"s3:bucket":                                "no bucket",
		"s3:///x":                                  "no bucket",
		"s3://b":                                   "bucket: ",
		"s3://127.0.0.1:9000/bucket":               "bucket: ",
		"s3://id:secret@bucket":                    "credentials do not belong in the address",
		"s3://id:sec%ret@bucket":                   "invalid",
		"s3://bucket/../x":                         "prefix: ",
		"s3://bucket/a//b":                         "prefix: ",
		"s3://bucket#x":                            "there is a #",
		"s3://bucket?endpoint=127.0.0.1:9000":      "endpoint: ",
		"s3://bucket?endpoint=localhost:9000":      "is not http://host:port",
		"s3://bucket?endpoint=http://h/path":       "more than a host",
		"s3://bucket?endpoint=ftp://h":             "is not http://host:port",
		"s3://bucket?endpoint=http://h?x=1":        "more than a host",
		"s3://bucket?endpoint=":                    "endpoint must have exactly one value",
		"s3://bucket?region=a&region=b":            "region must have exactly one value",
		"s3://bucket?path-style=yes":               "neither true nor false",
		"s3://bucket?Endpoint=http://h":            `unknown parameter "Endpoint"`,
		"s3://bucket?endpoint=http://h&insecure=1": `unknown parameter "insecure"`,
		"s3://bucket?%zz":                          "invalid URL escape",
	} {
		_, err := parse(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse(%q): %v, want %q", in, err, want)
			continue
		}
		if !strings.Contains(err.Error(), "want s3://bucket/prefix?endpoint=") {
			t.Errorf("parse(%q): %v does not say what is taken", in, err)
		}
		if strings.Contains(err.Error(), "id:sec") {
			t.Errorf("parse(%q): %v shows the secret", in, err)
		}
	}
	t.Setenv("AWS_REGION", "eu-central-1")
	if a, err := parse("s3://bucket"); err != nil || a.region != "eu-central-1" {
		t.Errorf("region is %q, %v, want that of AWS_REGION", a.region, err)
	}
}

// TestStall checks that a connection fails if no byte moves in either direction, but not if it
// sends slowly while nothing comes back.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, peer := net.Pipe()
		c := stallConn{inner}
		begin := time.Now()
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		go func() {
			for {
				if _, err := peer.Read(make([]byte, 1)); err != nil {
					return
				}
			}
		}()
		const writes = 5
		for range writes {
			time.Sleep(stallTimeout - time.Second)
			must.Get(c.Write([]byte{1}))(t)
		}
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read fails with %v", err)
		}
		if got, want := time.Since(begin), writes*(stallTimeout-time.Second)+stallTimeout; got != want {
			t.Errorf("read waited %v, want %v", got, want)
		}
		inner.Close()
		peer.Close()
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestClockSkew checks that the skew is the smallest one that is consistent with an answer, whose
// Date is in whole seconds and which may have arrived late, and that answers from caches are
// ignored.
func TestClockSkew(t *testing.T) {
	s, err := Open("s3://bucket?endpoint=http://127.0.0.1:1", Options{Credentials: &Credentials{"id", "secret", ""}})
	must.OK(t, err)
	if skew, known := s.ClockSkew(); known {
		t.Errorf("before the first answer: %v", skew)
	}
	server := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		ahead time.Duration // how far this machine's clock is ahead when the request is sent
		takes time.Duration
		age   string
		want  time.Duration
	}{
		{ahead: 0, want: 0},
		{ahead: 999 * time.Millisecond, want: 0}, // may be the fraction that the server cut off
		{ahead: -time.Hour, want: -time.Hour},
		{ahead: -time.Hour, takes: time.Minute, want: -59 * time.Minute},
		{ahead: 0, age: "7200", want: -59 * time.Minute}, // unchanged, because the answer is ignored
		{ahead: time.Hour, takes: time.Minute, want: time.Hour - time.Second},
		{ahead: -time.Minute, takes: 2 * time.Minute, want: 0},
	} {
		now := server.Add(c.ahead)
		s.clock.now = func() time.Time { return now }
		s.clock.next = roundTrip(func(*http.Request) (*http.Response, error) {
			now = now.Add(c.takes)
			h := http.Header{"Date": {server.Format(http.TimeFormat)}}
			if c.age != "" {
				h.Set("Age", c.age)
			}
			return &http.Response{StatusCode: http.StatusForbidden, Header: h, Body: http.NoBody}, nil
		})
		_, _, err := s.Get(t.Context(), artifacts.CurrentKey, 10)
		if skew, known := s.ClockSkew(); err == nil || !known || skew != c.want {
			t.Errorf("%+v: skew %v, %v (%v)", c, skew, known, err)
		}
	}
}
