package streams

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/lab/local"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/oracle"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startEdge starts an edge and returns what stops it.
func startEdge(t *testing.T, cfg edge.Config) (stop func()) {
	t.Helper()
	cfg.Poll, cfg.CacheSize, cfg.DrainWait, cfg.Log = 100*time.Millisecond, 8<<20, time.Nanosecond,
		slog.New(slog.DiscardHandler)
	e, err := edge.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Run(ctx) }()
	return func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// TestStreams: of streams held at two real edges, of which one has a clock that is a
// second behind and is away while two snapshots are published, each event is counted,
// or missed, and how late it was.
func TestStreams(t *testing.T) {
	ctx := t.Context()
	store := memstore.New()
	src, err := sim.Open(ctx, "?assets=100&seed=5")
	if err != nil {
		t.Fatal(err)
	}
	b, err := builder.New(builder.Config{Store: store, Source: src, Retain: time.Hour, Guards: builder.DefaultGuards,
		ActivateAfter: time.Second, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().UTC().Truncate(artifacts.Step).Add(-time.Hour)
	publish := func() {
		at = at.Add(artifacts.Step)
		if _, err := b.Build(ctx, at); err != nil {
			t.Error(err)
		}
	}
	publish()
	var secrets []string
	for range 3 {
		k, err := (&keys.Registry{Store: store}).Create(ctx, keys.Request{Name: "client", Rate: 1e6, Burst: 1e6})
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, k.Key)
	}
	var endpoints []*client.Endpoint
	var edges [2]edge.Config
	var stops [2]func()
	for i := range edges {
		edges[i] = edge.Config{Reader: store, Listen: local.Free("127.0.0.1:0"), Admin: "127.0.0.1:0",
			Now: func() time.Time { return time.Now().Add(time.Duration(-i) * time.Second) }}
		stops[i] = startEdge(t, edges[i])
		e, err := client.ParseEndpoint("http://"+edges[i].Listen, false)
		if err != nil {
			t.Fatal(err)
		}
		endpoints = append(endpoints, e)
	}
	s := Hold(ctx, Config{Endpoints: endpoints, Keys: secrets[:2], Count: 16, Store: store})
	// until waits for so many events, openings and orderly ends in all.
	until := func(events, opened, ended uint64) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			is, out := [...]uint64{s.out.Events, s.out.Opened, s.out.Failures[Ended]}, fmt.Sprintf("%+v", s.out)
			s.mu.Unlock()
			switch {
			case is == [...]uint64{events, opened, ended}:
				return
			case is[0] > events || is[1] > opened || time.Now().After(limit):
				t.Fatalf("want %d events, %d openings and %d ends: %s", events, opened, ended, out)
			}
		}
	}
	until(16, 16, 0)
	publish()
	until(32, 16, 0)
	stops[1]()
	until(32, 16, 8)
	publish()
	until(40, 16, 8)
	publish()
	until(48, 16, 8)
	stops[1] = startEdge(t, edges[1])
	until(56, 24, 8)
	stops[1]()
	stops[1] = startEdge(t, edges[1])
	until(56, 32, 16) // with Last-Event-ID
	publish()
	until(72, 32, 16)
	out := s.Close()
	if out.Open != 16 || out.Missed != 8 || out.Early != 0 || out.Failures[engine.FailWrong] != 0 {
		t.Errorf("%+v", out)
	}
	// What a stream begins with is not late; the edge whose clock is behind is.
	if n := out.Late.TotalCount(); n != 72-16 || out.Apart.TotalCount() != n ||
		out.Late.ValueAtQuantile(75) < int64(990*time.Millisecond) {
		t.Errorf("%d events, %d ns late", n, out.Late.ValueAtQuantile(75))
	}
	p, err := oracle.Published(ctx, store)
	if err != nil || p.ActivateAt.IsZero() || !s.due[at.Format(time.RFC3339)].Equal(p.ActivateAt) {
		t.Errorf("due %v, want %+v, %v", s.due, p, err)
	}
	// A key has eight.
	if r := Hold(ctx, Config{Endpoints: endpoints[:1], Keys: secrets[2:], Count: 9}).Close(); r.Opened != 8 ||
		r.Failures["status 429"] != 1 || r.Late != nil {
		t.Errorf("nine of a key: %+v", r)
	}
	stops[0]()
	stops[1]()
}
