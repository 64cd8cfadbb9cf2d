package provider

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/network"
)

var discard = slog.New(slog.DiscardHandler)

// clientOf returns a client that calls h without a network. It sets fields of plan that are zero.
func clientOf(t *testing.T, h http.Handler, plan Plan) *client {
	t.Helper()
	plan.Base = cmp.Or(plan.Base, "https://api.example.test/v1")
	plan.PerMinute, plan.Burst = cmp.Or(plan.PerMinute, 6000), cmp.Or(plan.Burst, 100)
	return must.Get(newClient(plan, &quota{now: time.Now}, network.Transport{Handler: h}, discard))(t)
}

// script answers each request with the next step, and repeats the last step.
type script struct {
	steps []http.HandlerFunc
	times []time.Time
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := len(s.times)
	s.times = append(s.times, time.Now())
	s.steps[min(n, len(s.steps)-1)](w, r)
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// refuses answers with status 403 and the given body.
func refuses(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, body)
	}
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "{\"error\":\n \"no\"}")
	}
}

func getRows(ctx context.Context, c *client) (string, error) {
	b, _, err := c.get(ctx, request{path: "/rows", check: func(b []byte) error { _, err := CheckArray(b); return err }})
	return string(b), err
}

func TestGetSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got *http.Request
		c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r
			w.Header().Set("ETag", `"e"`)
			w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 07:20:00 GMT")
			_, _ = io.WriteString(w, "[1]")
		}), Plan{KeyHeader: "X-Key", Key: "s3cret"})
		body, tags, err := c.get(t.Context(), request{
			path: "/coins/" + Escape("../a b[é]"), query: url.Values{"b": {"1 2"}, "a": {"x"}},
			headers: headers{`"old"`, "Fri, 20 Nov 2026 07:20:00 GMT"},
			check:   func([]byte) error { return nil },
		})
		ok(t, err)
		if want := "https://api.example.test/v1/coins/%2E%2E%2Fa%20b%5B%C3%A9%5D?a=x&b=1+2"; got.URL.String() != want {
			t.Errorf("asked for %s, want %s", got.URL, want)
		}
		for name, want := range map[string]string{
			"X-Key": "s3cret", "Accept": "application/json", "If-None-Match": `"old"`,
			"If-Modified-Since": "Fri, 20 Nov 2026 07:20:00 GMT", "User-Agent": userAgent,
		} {
			if v := got.Header.Get(name); v != want {
				t.Errorf("%s: %q, want %q", name, v, want)
			}
		}
		if string(body) != "[1]" || tags != (headers{`"e"`, "Sat, 21 Nov 2026 07:20:00 GMT"}) {
			t.Errorf("got %q, %+v", body, tags)
		}
	})
}

func TestGetRetries(t *testing.T) {
	type steps = []http.HandlerFunc
	good := says("[1]")
	to := func(where string) http.HandlerFunc { return status(302, "Location", where) }
	const elsewhere = "redirected to another host, or too often"
	for _, test := range []struct {
		name  string
		steps steps
		asked int
		err   string // the text after "GET /rows: "; "" for success
	}{
		{"at once", steps{good}, 1, ""},
		{"after two failures", steps{status(500), status(503), good}, 3, ""},
		{"after a 429 without Retry-After", steps{status(429), good}, 2, ""},
		{"after a 408", steps{status(408), good}, 2, ""},
		{"JSON that breaks off", steps{says(`[{"id":1},{"i`), good}, 2, ""},
		{"a page of HTML", steps{says("<html>busy</html>"), good}, 2, ""},
		{"an error that says 200", steps{says(`{"status":{"error_code":429}}`), good}, 2, ""},
		{"never", steps{status(502)}, tries, `status 502: {"error": "no"}`},
		{"never JSON", steps{says("<html>")}, tries, "the answer is not what was asked for: want a JSON array"},
		{"400", steps{status(400)}, 1, "status 400"},
		{"401", steps{status(401)}, 1, "status 401"},
		{"402", steps{status(402)}, 1, "status 402"},
		{"404", steps{status(404, "Retry-After", "1")}, 1, "status 404"},
		{"304 that was not asked for", steps{status(304)}, 1, "status 304"},
		{"redirected elsewhere", steps{to("https://evil.example.test/rows")}, 1, elsewhere},
		{"redirected to http", steps{to("http://api.example.test/rows")}, 1, elsewhere},
		{"redirected round and round", steps{to("/rows")}, 1 + maxRedirects, elsewhere},
		{"redirected at home", steps{to("/v2/rows"), good}, 2, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{steps: test.steps}
			res, err := getRows(t.Context(), clientOf(t, s, Plan{}))
			if test.err == "" && (err != nil || res != "[1]") ||
				test.err != "" && (err == nil || !strings.HasPrefix(err.Error(), "GET /rows: "+test.err)) {
				t.Errorf("%s: %q, %v, want %s", test.name, res, err, test.err)
			}
			if len(s.times) != test.asked {
				t.Errorf("%s: %d requests, want %d", test.name, len(s.times), test.asked)
			}
		})
	}
}

// TestGetPauses checks that pauses grow, and that they are random.
func TestGetPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		firsts := map[time.Duration]bool{}
		for range 8 {
			s := &script{steps: []http.HandlerFunc{status(500)}}
			if _, err := getRows(t.Context(), clientOf(t, s, Plan{})); err == nil {
				t.Fatal("no error")
			}
			for i, nominal := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
				if pause := s.times[i+1].Sub(s.times[i]); pause < nominal/2 || pause > nominal*3/2 {
					t.Errorf("pause %d is %v, want %v give or take a half", i, pause, nominal)
				}
			}
			firsts[s.times[1].Sub(s.times[0])] = true
		}
		if len(firsts) < 2 {
			t.Errorf("every first pause is the same: %v", firsts)
		}
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	for name, header := range map[string]func() string{
		"seconds":             func() string { return "60" },
		"most that is waited": func() string { return "90" },
		"date":                func() string { return time.Now().Add(time.Minute).UTC().Format(http.TimeFormat) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{steps: []http.HandlerFunc{status(429, "Retry-After", header()), says("[1]")}}
			if _, err := getRows(t.Context(), clientOf(t, s, Plan{})); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if pause := s.times[1].Sub(s.times[0]); pause < time.Minute {
				t.Errorf("%s: asked again after %v", name, pause)
			}
		})
	}
}

// TestRetryAfterHoldsAll checks that the pause that one answer demands applies to all requests, and
// that a request does not wait if the pause is too long.
func TestRetryAfterHoldsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []http.HandlerFunc{status(503, "Retry-After", "3600"), says("[1]")}}
		c := clientOf(t, s, Plan{})
		began := time.Now()
		var paused *pausedError
		for range 3 {
			if _, err := getRows(t.Context(), c); !errors.As(err, &paused) ||
				!paused.until.Equal(began.Add(time.Hour)) {
				t.Fatalf("got %v, want to be paused for an hour", err)
			}
		}
		if len(s.times) != 1 {
			t.Fatalf("%d requests were sent, want 1", len(s.times))
		}
		time.Sleep(time.Until(paused.until) - maxPause)
		must.Get(getRows(t.Context(), c))(t)
		if got := s.times[1]; got.Before(paused.until) {
			t.Errorf("asked again at %v, before %v", got, paused.until)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 20, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"0": 0, "120": 2 * time.Minute, "4294967295": maxRetryAfter,
		"Sat, 21 Nov 2026 07:20:30 GMT": 30 * time.Second, "Sat, 21 Nov 2020 07:20:30 GMT": 0,
		"Sat, 21 Nov 2099 07:20:30 GMT": maxRetryAfter,
	} {
		if got, ok := retryAfter(http.Header{"Retry-After": {text}}, now); !ok || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "soon", "99999999999"} {
		if got, ok := retryAfter(http.Header{"Retry-After": {text}}, now); ok {
			t.Errorf("%q: %v, want none", text, got)
		}
	}
}

// TestSlowBody checks that the client gives up on a body that does not end, and tries again.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "[1,")
			<-r.Context().Done()
		}
		s := &script{steps: []http.HandlerFunc{slow, says("[1]")}}
		must.Get(getRows(t.Context(), clientOf(t, s, Plan{})))(t)
		if len(s.times) != 2 {
			t.Errorf("%d requests, want 2", len(s.times))
		}
		began := time.Now()
		_, err := getRows(t.Context(), clientOf(t, &script{steps: []http.HandlerFunc{slow}}, Plan{}))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a deadline", err)
		}
		if took := time.Since(began); took > requestTime+tryTime {
			t.Errorf("gave up after %v", took)
		}
	})
}

// TestLargeBody checks that the client reads an endless body only up to a limit, and does not try
// again.
func TestLargeBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			for piece := make([]byte, 1<<20); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}}}
		_, err := getRows(t.Context(), clientOf(t, s, Plan{}))
		if err == nil || !strings.Contains(err.Error(), "body of more than 67108864 bytes") || len(s.times) != 1 {
			t.Errorf("got %v after %d requests", err, len(s.times))
		}
	})
}

func TestGetStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("enough")
		for name, step := range map[string]http.HandlerFunc{
			"in a pause":       status(500),
			"in a Retry-After": status(429, "Retry-After", "60"),
			"in a body":        func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(10*time.Second+time.Millisecond, func() { cancel(reason) })
			began := time.Now()
			_, err := getRows(ctx, clientOf(t, &script{steps: []http.HandlerFunc{step}}, Plan{}))
			if err == nil || time.Since(began) > 11*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		}
	})
}

// TestRate checks that no minute has more calls than allowed, including bursts.
func TestRate(t *testing.T) {
	for _, rate := range [][2]int{{30, 3}, {5, 1}, {5, 5}, {1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{steps: []http.HandlerFunc{says("[1]")}}
			c := clientOf(t, s, Plan{PerMinute: rate[0], Burst: rate[1]})
			for range 3*rate[0] + 1 {
				must.Get(getRows(t.Context(), c))(t)
			}
			for i := range s.times[rate[0]:] {
				if took := s.times[i+rate[0]].Sub(s.times[i]).Round(time.Millisecond); took < time.Minute {
					t.Errorf("%d calls a minute, %d at once: %d calls within %v", rate[0], rate[1], rate[0]+1, took)
				}
			}
			if took := s.times[3*rate[0]].Sub(s.times[0]); took > 6*time.Minute {
				t.Errorf("%d calls a minute: three times as many took %v", rate[0], took)
			}
		})
	}
}

// TestKeyIsKept checks that no error or log line contains the key.
func TestKeyIsKept(t *testing.T) {
	const key = "CG-s3cretKey123"
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		for _, step := range []http.HandlerFunc{
			status(401), status(500), says("no key " + key), refuses(strings.Repeat("x", 190) + key),
			refuses(strings.Repeat(" ", 64<<10-5) + key), status(302, "Location", "https://evil.example.test/?k="+key),
			func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, "the key "+r.Header.Get("X-Key")+" is not in force")
			},
		} {
			asked := ""
			c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.Host
				step(w, r)
			}), Plan{KeyHeader: "X-Key", Key: key})
			c.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			_, err := getRows(t.Context(), c)
			if err == nil || strings.Contains(err.Error(), key[:6]) {
				t.Errorf("error %v", err)
			}
			if asked != "api.example.test" {
				t.Errorf("asked %s", asked)
			}
		}
		if !strings.Contains(log.String(), "asking again") || strings.Contains(log.String(), key) {
			t.Errorf("log: %s", log.String())
		}
	})
}

func TestNewClientRefuses(t *testing.T) {
	for _, test := range []struct{ base, key, want string }{
		{"api.example.test", "", "want http://"},
		{"ftp://api.example.test", "", "want http://"},
		{"https://", "", "want http://"},
		{"https://user:pass@api.example.test", "", "want scheme, host and path only"},
		{"https://api.example.test/?key=1", "", "want scheme, host and path only"},
		{"http://api.example.test", "k", "the key is sent over https only"},
		{"https://api.example.test", "k\r\nX: y", "the key holds"},
		{"https://api.example.test/%zz", "", "base: not a URL"},
	} {
		_, err := newClient(Plan{Base: test.base, Key: test.key, PerMinute: 1, Burst: 1}, nil, nil, discard)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "pass") {
			t.Errorf("%q: %v, want %q", test.base, err, test.want)
		}
	}
	for _, base := range []string{
		"http://127.0.0.1:8080/v1/", "http://[::1]:1", "http://localhost", "https://api.example.test",
	} {
		if _, err := newClient(Plan{Base: base, Key: "k", PerMinute: 1, Burst: 1}, nil, nil, discard); err != nil {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// TestOverTheNetwork tests what the in-memory transport cannot show: the client tries again if a
// body is shorter than its Content-Length, decompresses answers, and returns an error if the server
// is unreachable.
func TestOverTheNetwork(t *testing.T) {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "[1]")
			return
		}
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Errorf("Accept-Encoding: %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, gzipped("[1]"))
	}))
	c := clientOf(t, nil, Plan{Base: server.URL})
	c.transport = source.Transport()
	res, err := getRows(t.Context(), c)
	if err != nil || res != "[1]" || n != 2 {
		t.Errorf("got %+v, %v after %d requests", res, err, n)
	}
	c.transport.(*http.Transport).CloseIdleConnections()
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if res, err := getRows(ctx, c); err == nil {
		t.Errorf("a server that is away answered %q", res)
	}
}

func gzipped(s string) string {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

var ok = must.OK
