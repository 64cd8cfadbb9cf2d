package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/builder/source/sim"
	haproxyfiles "example.com/marketdata/deploy/haproxy"
	edgepkg "example.com/marketdata/edge"
	"example.com/marketdata/internal/lab/local"
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
	s.builder, err = builder.New(builder.Config{Store: s.store, Source: src, Retain: time.Hour,
		Guards: builder.DefaultGuards, ActivateAfter: activateAfter, Log: slog.New(slog.DiscardHandler)})
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
	cfg := edgepkg.Config{Reader: s.store, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Poll: 100 * time.Millisecond,
		CacheSize: 16 << 20, DrainWait: time.Nanosecond}
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

// late is a store that takes its time for each answer.
type late struct{ artifacts.Reader }

func (l late) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(50*time.Millisecond + rand.N(200*time.Millisecond)):
	}
}

func (l late) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	l.wait(ctx)
	return l.Reader.Get(ctx, key, limit)
}

func (l late) GetIf(
	ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	l.wait(ctx)
	return l.Reader.GetIf(ctx, key, known, limit)
}

// member is an edge of a fleet.
type member struct {
	*edge
	stop func()
	// exact: its clock is right, so that its flips are to be with the others'.
	exact bool
}

// status returns the snapshot that is current, and how far its flip was from its time.
func (m *member) status(ctx context.Context) (at time.Time, offset time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.admin+"/status", nil)
	if err != nil {
		return at, 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return at, 0, err
	}
	defer res.Body.Close()
	var status struct {
		SnapshotTime time.Time `json:"snapshot_time"`
		More         struct {
			Offset float64 `json:"activation_offset_seconds"`
		}
	}
	err = json.NewDecoder(res.Body).Decode(&status)
	return status.SnapshotTime, time.Duration(status.More.Offset * float64(time.Second)), err
}

// TestFleet: edges behind HAProxy make a snapshot current together, one whose store
// is slow, one whose clock is a second behind and one that starts in between among
// them. Who pages with pins, over all of them, gets each page; who asks without sees
// no earlier snapshot once all have the next. A stream of events goes on over it
// all. STACK_TEST_LONG=1 makes 200 swaps.
func TestFleet(t *testing.T) {
	swaps := 3
	if os.Getenv(longTest) == "1" {
		swaps = 200
	}
	haproxy := program(t, "haproxy")
	s := newService(t, 2*time.Second)
	key := s.key("client", 1e6, 1e6).Key
	var fleet []*member
	begin := func(i int) {
		m := fleet[i]
		_, m.stop = s.edge(func(cfg *edgepkg.Config) {
			cfg.Listen, cfg.Admin, cfg.DrainWait = m.listen, m.admin, 2*time.Second
			cfg.Server.ProxyProtocol = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			switch i {
			case 1:
				cfg.Reader = late{s.store}
			case 2:
				cfg.Now = func() time.Time { return time.Now().Add(-time.Second) }
			}
		})
	}
	front := &stack{Machine: &local.Machine{Data: t.TempDir()}}
	config := string(haproxyfiles.Config)
	const last = "    server edge2 \"${EDGE2}\" check port \"${EDGE2_ADMIN_PORT}\"\n"
	if !strings.Contains(config, last) {
		t.Fatalf("haproxy.cfg: no %q", last)
	}
	for i := range 4 {
		m := &member{edge: &edge{listen: local.Free(fmt.Sprintf("127.0.0.1:%d", 18381+i)),
			admin: local.Free(fmt.Sprintf("127.0.0.1:%d", 18391+i))}, exact: i != 2}
		fleet = append(fleet, m)
		if i < len(front.edges) {
			front.edges[i] = m.edge
			continue
		}
		_, port, err := net.SplitHostPort(m.admin)
		if err != nil {
			t.Fatal(err)
		}
		config = strings.Replace(
			config, last, fmt.Sprintf("%s    server edge%d %s check port %s\n", last, i+1, m.listen, port), 1)
	}
	for i := range 3 {
		begin(i)
	}
	err := front.balance(t.Context(), haproxy, []byte(config))
	if front.haproxy != nil {
		t.Cleanup(front.haproxy.Kill)
	}
	if err != nil {
		t.Fatal(err)
	}
	up := func(n int) {
		t.Helper()
		if err := poll(t.Context(), "edges", func() (bool, error) {
			c, err := front.counters(t.Context())
			return c.up >= n, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	up(3)

	var settled atomic.Int64 // the snapshot that all edges have, in Unix seconds
	settled.Store(s.at.Unix())
	ctx, enough := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	t.Cleanup(clients.Wait)
	t.Cleanup(enough)
	var asked, longest atomic.Int64
	page := func(c *http.Client, n int, pin string) string {
		oldest := time.Unix(settled.Load(), 0).UTC()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			fmt.Sprintf("https://%s/openapi/v1/assets?limit=10&page=%d", front.listen, n), nil)
		if err != nil {
			t.Error(err)
			return ""
		}
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("X-Snapshot-Time", pin)
		began := time.Now()
		res, err := c.Do(req)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		name := res.Header.Get("X-Snapshot-Time")
		at, _ := time.Parse(time.RFC3339, name)
		switch {
		case err != nil || res.StatusCode != 200 || pin != "" && name != pin:
			t.Errorf("page %d of %q: %s of %s, %s %v", n, pin, res.Status, name, body, err)
		case pin == "" && at.Before(oldest):
			t.Errorf("without a pin: %s, when all edges have %v", name, oldest)
		}
		asked.Add(1)
		for took := time.Since(began).Milliseconds(); ; {
			if old := longest.Load(); took <= old || longest.CompareAndSwap(old, took) {
				return name
			}
		}
	}
	for range 3 {
		c := front.client(t, "")
		clients.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			pin := ""
			for n := 0; ctx.Err() == nil; n = (n + 1) % 12 {
				<-tick.C
				if n == 0 {
					pin = ""
				}
				pin = page(c, n+1, pin)
			}
		})
	}
	listener := front.client(t, "")
	listener.Timeout = 0
	stream := events(t, listener, "https://"+front.listen, key)
	stream.expect(t, s.at)
	var spreads []time.Duration
	has := func(m *member, want time.Time) {
		t.Helper()
		if err := poll(t.Context(), "the swap", func() (bool, error) {
			at, _, err := m.status(t.Context())
			return !at.Before(want), err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range swaps {
		before := s.at
		next := s.publish() // the edge whose clock is behind has yet to follow to the one before
		if n == 1 {
			begin(3)
		}
		running := fleet[:3]
		if n > 1 {
			running = fleet
		}
		for _, m := range running {
			has(m, before)
		}
		settled.Store(before.Unix())
		stream.expect(t, next)
		for _, m := range running {
			if m.exact {
				has(m, next)
			}
		}
		if n == 1 {
			has(fleet[3], next)
			up(4) // the fourth has it from its start, and flips from the next one on
		}
		var offsets []time.Duration
		for _, m := range running {
			_, offset, err := m.status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if m.exact {
				offsets = append(offsets, offset)
			}
		}
		spreads = append(spreads, slices.Max(offsets)-slices.Min(offsets))
	}
	slices.Sort(spreads)
	t.Logf("%d swaps: flips within %v (median), %v (p99), %v (all); %d requests, the longest %d ms", swaps,
		spreads[len(spreads)/2], spreads[len(spreads)*99/100], spreads[len(spreads)-1], asked.Load(), longest.Load())
	enough()
	clients.Wait()
	// HAProxy's timeout for answers is 5 s, and for a stream longer than its comments
	// are apart.
	if line, err := stream.next(); line != ":" {
		t.Errorf("%q %v, want a comment", line, err)
	}
	var stopping sync.WaitGroup
	for _, m := range fleet {
		stopping.Go(m.stop)
	}
	line, err := stream.next()
	for line == ":" {
		line, err = stream.next()
	}
	if line != ": the edge is going away" {
		t.Errorf("%q %v, want the last comment", line, err)
	}
	if line, err := stream.next(); line != "" || err != nil {
		t.Errorf("%q %v, want a clean end", line, err)
	}
	stopping.Wait()
}
