package main

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/source/sim"
	edgepkg "example.com/marketdata/edge"
)

// service is builder and store in this process, for tests that start edges of their
// own.
type service struct {
	t        *testing.T
	store    artifacts.Store
	builder  *builder.Builder
	registry *keys.Registry
	at       time.Time // of the newest snapshot
}

// newService publishes a first snapshot. Edges make those behind it current so long
// after they are published.
func newService(t *testing.T, activateAfter time.Duration) *service {
	t.Helper()
	src, err := sim.Open(t.Context(), "?assets=300&seed=5")
	if err != nil {
		t.Fatal(err)
	}
	// The first one is of an hour ahead, so that all stay fresh while the test runs.
	s := &service{t: t, store: memstore.New(), at: time.Now().UTC().Truncate(artifacts.Step).Add(time.Hour)}
	s.registry = &keys.Registry{Store: s.store}
	s.builder, err = builder.New(builder.Config{Store: s.store, Source: src, Retain: time.Hour, Guards: builder.DefaultGuards, ActivateAfter: activateAfter, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.publish()
	return s
}

// publish publishes the snapshot of the next mark and returns its time.
func (s *service) publish() time.Time {
	s.t.Helper()
	s.at = s.at.Add(artifacts.Step)
	if _, err := s.builder.Build(s.t.Context(), s.at); err != nil {
		s.t.Fatal(err)
	}
	return s.at
}

// key makes an API key.
func (s *service) key(name string, rate, burst int) keys.Created {
	s.t.Helper()
	k, err := s.registry.Create(s.t.Context(), keys.Request{Name: name, Rate: rate, Burst: burst})
	if err != nil {
		s.t.Fatal(err)
	}
	return k
}

// edge starts an edge, until stop or the test's end.
func (s *service) edge(change func(*edgepkg.Config)) (e *edgepkg.Edge, stop func()) {
	s.t.Helper()
	cfg := edgepkg.Config{Reader: s.store, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Poll: 100 * time.Millisecond, CacheSize: 16 << 20, DrainWait: time.Nanosecond}
	change(&cfg)
	e, err := edgepkg.New(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			s.t.Error(err)
		}
	}
	s.t.Cleanup(stop)
	return e, stop
}

// stream is an open stream of /events. Of what comes on it, lines are its events'
// ids and the comments.
type stream struct {
	*http.Response
	lines *bufio.Scanner
}

// events opens a stream at base.
func events(t *testing.T, c *http.Client, base, key string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/openapi/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("events: %s %v", res.Status, res.Header)
	}
	return &stream{res, bufio.NewScanner(res.Body)}
}

// next returns the next id or comment; at the end "" and why.
func (s *stream) next() (string, error) {
	for s.lines.Scan() {
		line := s.lines.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			return id, nil
		}
		if strings.HasPrefix(line, ":") {
			return line, nil
		}
	}
	return "", s.lines.Err()
}

// expect reads up to the event of a snapshot, which must be the next.
func (s *stream) expect(t *testing.T, want time.Time) {
	t.Helper()
	for {
		line, err := s.next()
		if err == nil && strings.HasPrefix(line, ":") {
			continue
		}
		if line != want.Format(time.RFC3339) {
			t.Fatalf("event %q, %v, want %v", line, err, want)
		}
		return
	}
}
