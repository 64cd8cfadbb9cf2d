package streams

import (
	"fmt"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
	"example.com/marketdata/loadtest/client"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/oracle"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStreams holds streams at two real edges. The clock of one edge is a second behind, and this edge is
// down while two snapshots are published. Each event is counted or missed, and its lateness is measured.
func TestStreams(t *testing.T) {
	ctx := t.Context()
	store := memstore.New()
	at := time.Now().UTC().Truncate(artifacts.Step).Add(-time.Hour)
	publish := func() {
		at = at.Add(artifacts.Step)
		teststore.Publish(t, store, teststore.NewFeed(100, 5), at, teststore.ActivateAfter(time.Second))
	}
	publish()
	var secrets []string
	for range 3 {
		secrets = append(secrets, teststore.Key(t, store, 1e6, 1e6).Key)
	}
	var endpoints []*client.Endpoint
	var configs [2]testedge.Config
	var edges [2]*testedge.Edge
	for i := range edges {
		configs[i] = testedge.Config{Reader: store, Listen: local.Free("127.0.0.1:0"), Poll: 100 * time.Millisecond,
			CacheSize: 8 << 20, DrainWait: time.Nanosecond,
			Now: func() time.Time { return time.Now().Add(time.Duration(-i) * time.Second) }}
		edges[i] = testedge.Start(t, configs[i])
		endpoints = append(endpoints, must.Get(client.ParseEndpoint(edges[i].URL, false))(t))
	}
	s := Hold(ctx, Config{Endpoints: endpoints, Keys: secrets[:2], Count: 16, Store: store})
	// until waits until the totals of events, openings and orderly ends have the given values.
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
	edges[1].Stop()
	until(32, 16, 8)
	publish()
	until(40, 16, 8)
	publish()
	until(48, 16, 8)
	edges[1] = testedge.Start(t, configs[1])
	until(56, 24, 8)
	edges[1].Stop()
	edges[1] = testedge.Start(t, configs[1])
	until(56, 32, 16) // with Last-Event-ID
	publish()
	until(72, 32, 16)
	out := s.Close()
	if out.Open != 16 || out.Missed != 8 || out.Early != 0 || out.Failures[engine.FailWrong] != 0 {
		t.Errorf("%+v", out)
	}
	// A stream's first event is not late, but events of the edge whose clock is behind are late.
	if n := out.Late.TotalCount(); n != 72-16 || out.Apart.TotalCount() != n ||
		out.Late.ValueAtQuantile(75) < int64(990*time.Millisecond) {
		t.Errorf("%d events, %d ns late", n, out.Late.ValueAtQuantile(75))
	}
	p, err := oracle.Published(ctx, store)
	if err != nil || p.ActivateAt.IsZero() || !s.due[at.Format(time.RFC3339)].Equal(p.ActivateAt) {
		t.Errorf("due %v, want %+v, %v", s.due, p, err)
	}
	// A key may have eight streams.
	if r := Hold(ctx, Config{Endpoints: endpoints[:1], Keys: secrets[2:], Count: 9}).Close(); r.Opened != 8 ||
		r.Failures["status 429"] != 1 || r.Late != nil {
		t.Errorf("nine of a key: %+v", r)
	}
	edges[0].Stop()
	edges[1].Stop()
}
