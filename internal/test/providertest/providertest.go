// Package providertest is a provider of market data on this machine, for tests:
// it answers with what it was given, and fails in every way that is asked for.
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
	// everywhere, if not nil, answers all paths.
	everywhere http.HandlerFunc
	asked      []string
}

// New returns a provider that knows nothing: every path is a 404.
func New() *Provider {
	return &Provider{answers: map[string][]byte{}, faults: map[string]http.HandlerFunc{}}
}

// Sample returns a provider that answers with the files of testdata/sample:
// files has their names, without .json, by path below prefix.
func Sample(t testing.TB, prefix string, files map[string]string) *Provider {
	t.Helper()
	p := New()
	for path, file := range files {
		p.Set(prefix+path, must.Get(os.ReadFile(filepath.Join("testdata/sample", file+".json")))(t))
	}
	return p
}

// Set makes body the answer to a path. A path may end in ?NAME=VALUE: then it is
// for requests with that parameter only.
func (p *Provider) Set(path string, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[path] = body
}

// Answer returns what Set has set.
func (p *Provider) Answer(path string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers[path]
}

// Fault lets a path be answered by f instead; nil ends it.
func (p *Provider) Fault(path string, f http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults[path] = f; f == nil {
		delete(p.faults, path)
	}
}

// FaultEverywhere lets all paths be answered by f; nil ends it.
func (p *Provider) FaultEverywhere(f http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.everywhere = f
}

// Asked returns the paths that were asked for since the last call, in order.
func (p *Provider) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

// ServeHTTP answers with an ETag, and a 304 to a request that has it.
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
		_, _ = w.Write(body) // a client that has gone away
	}
}

// Status fails with a status.
func Status(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":"`+http.StatusText(status)+`"}`)
	}
}

// RetryAfter fails with a 429 that names the time to wait.
func RetryAfter(seconds int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		Status(http.StatusTooManyRequests)(w, r)
	}
}

// Says answers 200 with something else.
func Says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// Serve starts a server for the provider, which ends with the test, and returns
// its URL.
func (p *Provider) Serve(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s.URL
}

// Transport lets a client reach the provider without a network. A test in a testing/synctest bubble
// then waits in virtual time.
func (p *Provider) Transport() http.RoundTripper { return network.Transport{Handler: p} }

// Open opens a source where the environment has vars, and without a quota unless
// rest has one. It uses the network or,
// without logging, a transport that is not nil.
func Open(
	t testing.TB, open func(string, provider.Env) (*provider.Source, error), transport http.RoundTripper, rest string,
	vars ...string,
) *provider.Source {
	t.Helper()
	env := Env(t, vars...)
	if transport != nil {
		env.Transport, env.Log = transport, slog.New(slog.DiscardHandler)
	}
	if !strings.Contains(rest, "quota=") && !strings.Contains(rest, "replay=") {
		rest = strings.TrimPrefix(rest, "?")
		rest = strings.TrimSuffix("?quota=none&"+rest, "&")
	}
	return must.Get(open(rest, env))(t)
}

// Options opens a source by name with each of these options. They map to a part of the error, or to
// "" where there is none, and the source has the name that it was opened by.
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

// Env returns surroundings without a key, whose log is the test's.
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

// log goes to the test's.
func log(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// Recorded names the folder with answers of the real providers that lies beside
// the project, as seen from a package four levels down; the test is skipped where
// it is away. Most of it has no licence that would let it stand in here.
func Recorded(t testing.TB, path string) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "..", "shared", "data", path)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the recorded data is not beside the project: %v", err)
	}
	return dir
}

// Rows decodes JSON with every number as it is written.
func Rows(t testing.TB, body []byte) []any {
	t.Helper()
	var rows []any
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	must.OK(t, d.Decode(&rows))
	return rows
}
