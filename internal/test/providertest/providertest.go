// Package providertest is a fake provider of market data for tests. It answers with given data, and
// fails in every way that a test asks for.
package providertest

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/network"
)

// Provider answers GET requests by path. It is an http.Handler, and safe for
// concurrent use.
type Provider struct {
	mu      sync.Mutex
	answers map[string][]byte
	faults  map[string]http.HandlerFunc
	// everywhere, if not nil, answers requests for every path.
	everywhere http.HandlerFunc
	asked      []string
}

// New returns a provider without data: it answers every path with 404.
func New() *Provider {
	return &Provider{answers: map[string][]byte{}, faults: map[string]http.HandlerFunc{}}
}

// Sample returns a provider that answers with the files of testdata/sample. files maps each path
// below prefix to the name of a sample file, without .json.
func Sample(t testing.TB, prefix string, files map[string]string) *Provider {
	t.Helper()
	p := New()
	for path, file := range files {
		p.Set(prefix+path, must.Get(os.ReadFile(filepath.Join("testdata/sample", file+".json")))(t))
	}
	return p
}

// Set sets the answer to a path. A path may end in ?NAME=VALUE; the answer is then only for
// requests with this parameter.
func (p *Provider) Set(path string, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[path] = body
}

// Answer returns the answer that Set has set for a path.
func (p *Provider) Answer(path string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers[path]
}

// Fault makes f answer requests for a path; nil removes the fault.
func (p *Provider) Fault(path string, f http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults[path] = f; f == nil {
		delete(p.faults, path)
	}
}

// FaultEverywhere makes f answer requests for all paths; nil removes the fault.
func (p *Provider) FaultEverywhere(f http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.everywhere = f
}

// Asked returns the paths requested since its last call, in order.
func (p *Provider) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

// ServeHTTP answers with an ETag, or with a 304 to a request that has this tag.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	paged := path
	if page := r.URL.Query().Get("page"); page != "" {
		paged += "?page=" + page
	}
	p.mu.Lock()
	for name, values := range r.URL.Query() {
		if one := path + "?" + name + "=" + values[0]; p.answers[one] != nil || p.faults[one] != nil {
			paged = one
		}
	}
	p.asked = append(p.asked, paged)
	fault := p.faults[paged]
	if fault == nil {
		fault = p.faults[path]
	}
	if p.everywhere != nil {
		fault = p.everywhere
	}
	body, ok := p.answers[paged]
	if !ok {
		body, ok = p.answers[path]
	}
	p.mu.Unlock()
	switch tag := fmt.Sprintf("\"%x\"", len(body)); {
	case fault != nil:
		fault(w, r)
	case !ok:
		Status(http.StatusNotFound)(w, r)
	case r.Header.Get("If-None-Match") == tag:
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", tag)
		_, _ = w.Write(body) // An error means that the client has disconnected.
	}
}

// Status returns a handler that fails with the given status.
func Status(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":"`+http.StatusText(status)+`"}`)
	}
}

// RetryAfter returns a handler that answers 429 with the time to wait.
func RetryAfter(seconds int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		Status(http.StatusTooManyRequests)(w, r)
	}
}

// Says returns a handler that answers 200 with the given body.
func Says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// Serve starts a server for the provider and returns its URL. The server stops at the end of the
// test.
func (p *Provider) Serve(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s.URL
}

// Transport connects a client to the provider without a network, so that a test in a
// testing/synctest bubble waits in virtual time.
func (p *Provider) Transport() http.RoundTripper { return network.Transport{Handler: p} }

// Open opens a source in an environment with only the variables in vars. The source has no quota
// unless opts contains one. If a transport is given, the source uses it instead of the network and
// does not log.
func Open(
	t testing.TB, open func(string, provider.Env) (*provider.Source, error), transport http.RoundTripper, opts string,
	vars ...string,
) *provider.Source {
	t.Helper()
	env := Env(t, vars...)
	if transport != nil {
		env.Transport, env.Log = transport, slog.New(slog.DiscardHandler)
	}
	if !strings.Contains(opts, "quota=") && !strings.Contains(opts, "replay=") {
		opts = strings.TrimPrefix(opts, "?")
		opts = strings.TrimSuffix("?quota=none&"+opts, "&")
	}
	return must.Get(open(opts, env))(t)
}

// Options opens a source by name, once for each option. options maps each option, such as quota=5, to a
// part of the expected error, or to "" if opening must succeed. In the latter case, the source must have
// the name by which it was opened.
func Options(t *testing.T, name string, open func(string, provider.Env) (*provider.Source, error),
	options map[string]string, vars ...string) {
	opener := map[string]source.Opener{name: Env(t, vars...).Opener(open)}
	for rest, want := range options {
		s, err := source.Open(t.Context(), name+":"+rest, opener)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", rest, err, want)
		case want == "" && !strings.Contains(rest, "&"):
			if named, err := url.QueryUnescape(s.String()); err != nil || named != name+":"+rest {
				t.Errorf("%s is named %s, %v", rest, named, err)
			}
		}
	}
}

// Env returns an environment with only the variables in vars, each in the form NAME=value. It logs
// to the test.
func Env(t testing.TB, vars ...string) provider.Env {
	return provider.Env{Log: log(t), Getenv: func(name string) string {
		for _, v := range vars {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}}
}

// log returns a logger that writes to the test's log.
func log(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// Recorded returns the folder with recorded answers of the real providers, which is outside of the
// project because the license of most of them does not allow copies here. The path is relative to a
// package four levels down. The test is skipped if the folder does not exist.
func Recorded(t testing.TB, path string) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "..", "shared", "data", path)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the recorded data is not beside the project: %v", err)
	}
	return dir
}

// Rows decodes JSON. Numbers keep their original text.
func Rows(t testing.TB, body []byte) []any {
	t.Helper()
	var rows []any
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	must.OK(t, d.Decode(&rows))
	return rows
}
