// Package faultedge runs a real edge behind a proxy that corrupts its answers. It is for tests of
// code that judges answers.
package faultedge

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
)

// Edge is a running edge with a proxy in front of it. It is safe for concurrent use.
type Edge struct {
	// Store is the store that the edge reads.
	Store artifacts.Store
	// Key is an API key that the edge accepts.
	Key string

	tb     testing.TB
	spoil  atomic.Pointer[Fault] // nil if answers are not spoiled
	base   *url.URL
	client *http.Client
}

// Answer is an answer with its whole body, still encoded.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Start runs an edge with the published snapshot of store until the test ends. The edge requires an
// API key.
func Start(tb testing.TB, store artifacts.Store) *Edge {
	tb.Helper()
	key := teststore.Key(tb, store, 100_000, 1_000_000)
	run := testedge.Start(tb, testedge.Config{Reader: store, CacheDir: tb.TempDir(), CacheSize: 16 << 20,
		Poll: 5 * time.Millisecond})
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}
	tb.Cleanup(transport.CloseIdleConnections)
	e := &Edge{Store: store, Key: key.Key, tb: tb, base: must.Get(url.Parse(run.URL))(tb),
		client: &http.Client{Transport: transport}}
	e.await(teststore.Read(tb, store).Manifest.Time)
	return e
}

// Break selects one of Faults by name. An empty name selects none.
func (e *Edge) Break(name string) {
	e.tb.Helper()
	spoil, ok := Faults[name]
	if !ok && name != "" {
		e.tb.Fatalf("there is no fault %q", name)
	}
	e.Spoil(spoil)
}

// Spoil sets the fault; nil means none.
func (e *Edge) Spoil(spoil Fault) {
	e.spoil.Store(nil)
	if spoil != nil {
		e.spoil.Store(&spoil)
	}
}

// Publish publishes a snapshot of the awkward market, ten minutes after the preceding one, and
// waits until the edge has it.
func (e *Edge) Publish(n int, seed uint64) {
	e.tb.Helper()
	at := teststore.Read(e.tb, e.Store).Manifest.Time.Add(artifacts.Step)
	e.await(teststore.PublishAwkward(e.tb, e.Store, n, at, seed).Manifest.Time)
}

func (e *Edge) await(at time.Time) {
	e.tb.Helper()
	want := at.Format(time.RFC3339)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		r := must.Get(http.NewRequest(http.MethodGet, "/openapi/v1/global", nil))(e.tb)
		r.Header.Set("X-Api-Key", e.Key)
		if a := e.Ask(r); a.Header.Get("X-Snapshot-Time") == want {
			return
		} else if time.Now().After(deadline) {
			e.tb.Fatalf("the edge does not have the snapshot of %s: %d %s", want, a.Status, a.Body)
		}
	}
}

// Ask returns the edge's own answer to a request. If there is none, it panics, which net/http
// permits in a handler.
func (e *Edge) Ask(r *http.Request) *Answer {
	out := &http.Request{Method: r.Method, URL: e.base.JoinPath(), Header: r.Header}
	out.URL.Path, out.URL.RawPath, out.URL.RawQuery = r.URL.Path, r.URL.RawPath, r.URL.RawQuery
	var body []byte
	resp, err := e.client.Do(out.WithContext(r.Context()))
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil {
		if r.Context().Err() == nil { // The client is still connected.
			e.tb.Errorf("the edge does not answer %s: %v", r.URL, err)
		}
		panic(http.ErrAbortHandler)
	}
	return &Answer{resp.StatusCode, resp.Header, body}
}

// ServeHTTP answers as the edge does, or with the current fault. It does not support streams.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Accept") == "text/event-stream" {
		http.NotFound(w, r)
		return
	}
	spoil := e.spoil.Load()
	if spoil == nil {
		spoil = &asIs
	}
	a := (*spoil)(e, r.Clone(r.Context()))
	maps.Copy(w.Header(), a.Header)
	if r.Method != http.MethodHead && a.Status == http.StatusOK {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
}

var asIs Fault = (*Edge).Ask
