package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
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
	haproxyfiles "example.com/marketdata/deploy/haproxy"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
)

// service is a store with snapshots, for tests that start their own edges.
type service struct {
	t             *testing.T
	store         artifacts.Store
	activateAfter time.Duration
	at            time.Time // of the newest snapshot
}

// newService publishes a first snapshot. Edges make each later snapshot current activateAfter after
// its publication.
func newService(t *testing.T, activateAfter time.Duration) *service {
	t.Helper()
	// The first snapshot is an hour ahead, so that all of them stay fresh while the test runs.
	s := &service{t, memstore.New(), activateAfter, time.Now().UTC().Truncate(artifacts.Step).Add(time.Hour)}
	s.publish()
	return s
}

// publish publishes the snapshot of the next ten-minute mark and returns its time.
func (s *service) publish() time.Time {
	s.t.Helper()
	s.at = s.at.Add(artifacts.Step)
	teststore.Publish(s.t, s.store, teststore.NewFeed(300, uint64(s.at.Unix())), s.at,
		teststore.Retain(time.Hour), teststore.ActivateAfter(s.activateAfter))
	return s.at
}

// config returns the configuration of an edge over the store.
func (s *service) config() testedge.Config {
	return testedge.Config{
		Reader: s.store, Poll: 100 * time.Millisecond, CacheSize: 16 << 20, DrainWait: time.Nanosecond}
}

// stream is an open event stream from /events. lines yields its lines: the ids of events, and
// comments.
type stream struct {
	*http.Response
	lines *bufio.Scanner
}

// events opens a stream at base.
func events(t *testing.T, c *http.Client, base, key string) *stream {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/openapi/v1/events", nil))(t)
	req.Header.Set("X-Api-Key", key)
	res := must.Get(c.Do(req))(t)
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("events: %s %v", res.Status, res.Header)
	}
	return &stream{res, bufio.NewScanner(res.Body)}
}

// next returns the next event id or comment. When the stream has ended, it returns "" and the
// reason.
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

// expect reads until the next event, which must announce the snapshot of the given time.
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

// late is a store whose answers are delayed.
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
	// exact says that its clock is right, so it must flip together with the others.
	exact bool
}

// fleetTest is a service with four edges behind HAProxy.
type fleetTest struct {
	*service
	front *stack
	edges []*member
	key   string

	settled        atomic.Int64 // the newest snapshot that all edges have, in Unix seconds
	asked, longest atomic.Int64 // number of requests, and the duration of the longest one, in ms
}

// startFleet starts all edges except the fourth.
func startFleet(t *testing.T) *fleetTest {
	haproxy := program(t, "haproxy")
	f := &fleetTest{service: newService(t, 2*time.Second), front: &stack{Machine: &local.Machine{Data: t.TempDir()}}}
	f.key = teststore.Key(t, f.store, 1e6, 1e6).Key
	f.settled.Store(f.at.Unix())
	config := string(haproxyfiles.Config)
	const last = "    server edge2 \"${EDGE2}\" check port \"${EDGE2_ADMIN_PORT}\"\n"
	if !strings.Contains(config, last) {
		t.Fatalf("haproxy.cfg: no %q", last)
	}
	for i := range 4 {
		m := &member{edge: &edge{listen: local.Free(fmt.Sprintf("127.0.0.1:%d", 18381+i)),
			admin: local.Free(fmt.Sprintf("127.0.0.1:%d", 18391+i))}, exact: i != 2}
		f.edges = append(f.edges, m)
		if i < len(f.front.edges) {
			f.front.edges[i] = m.edge
			continue
		}
		_, port, err := net.SplitHostPort(m.admin)
		must.OK(t, err)
		config = strings.Replace(
			config, last, fmt.Sprintf("%s    server edge%d %s check port %s\n", last, i+1, m.listen, port), 1)
	}
	for i := range 3 {
		f.begin(i)
	}
	err := f.front.balance(t.Context(), haproxy, []byte(config))
	if f.front.haproxy != nil {
		t.Cleanup(f.front.haproxy.Kill)
	}
	must.OK(t, err)
	f.up(3)
	return f
}

// begin starts the i-th edge. The second one has a slow store, and the clock of the third one is a
// second behind.
func (f *fleetTest) begin(i int) {
	cfg := f.config()
	cfg.Listen, cfg.Admin, cfg.DrainWait = f.edges[i].listen, f.edges[i].admin, 2*time.Second
	cfg.Server.ProxyProtocol = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	switch i {
	case 1:
		cfg.Reader = late{f.store}
	case 2:
		cfg.Now = func() time.Time { return time.Now().Add(-time.Second) }
	}
	f.edges[i].stop = testedge.Start(f.t, cfg).Stop
}

// up waits until HAProxy considers n edges ready.
func (f *fleetTest) up(n int) {
	f.t.Helper()
	must.OK(f.t, poll(f.t.Context(), "edges", func() (bool, error) {
		c, err := f.front.counters(f.t.Context())
		return c.up >= n, err
	}))
}

// has waits until an edge has made the snapshot of the time want, or a later one, current.
func (f *fleetTest) has(m *member, want time.Time) {
	f.t.Helper()
	must.OK(f.t, poll(f.t.Context(), "the swap", func() (bool, error) {
		s, err := m.status(f.t.Context())
		return !s.SnapshotTime.Before(want), err
	}))
}

// page requests the n-th page of a listing and returns the time of the snapshot that answered.
func (f *fleetTest) page(c *http.Client, n int, pin string) string {
	oldest := time.Unix(f.settled.Load(), 0).UTC()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet,
		fmt.Sprintf("https://%s/openapi/v1/assets?limit=10&page=%d", f.front.listen, n), nil)
	if err != nil {
		f.t.Error(err)
		return ""
	}
	req.Header.Set("X-Api-Key", f.key)
	req.Header.Set("X-Snapshot-Time", pin)
	began := time.Now()
	res, err := c.Do(req)
	if err != nil {
		f.t.Error(err)
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	name := res.Header.Get("X-Snapshot-Time")
	at, _ := time.Parse(time.RFC3339, name)
	switch {
	case err != nil || res.StatusCode != 200 || pin != "" && name != pin:
		f.t.Errorf("page %d of %q: %s of %s, %s %v", n, pin, res.Status, name, body, err)
	case pin == "" && at.Before(oldest):
		f.t.Errorf("without a pin: %s, when all edges have %v", name, oldest)
	}
	f.asked.Add(1)
	for took := time.Since(began).Milliseconds(); ; {
		if old := f.longest.Load(); took <= old || f.longest.CompareAndSwap(old, took) {
			return name
		}
	}
}

// browse pages through the listing again and again until ctx is done. From the second page on, it
// pins the snapshot of the first page.
func (f *fleetTest) browse(ctx context.Context, c *http.Client) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	pin := ""
	for n := 0; ctx.Err() == nil; n = (n + 1) % 12 {
		<-tick.C
		if n == 0 {
			pin = ""
		}
		pin = f.page(c, n+1, pin)
	}
}

// swap publishes the n-th snapshot, waits until the edges have it, and returns how far apart the
// exact edges flipped.
func (f *fleetTest) swap(n int, stream *stream) time.Duration {
	before := f.at
	next := f.publish() // the edge whose clock is behind has not made the previous snapshot current yet
	if n == 1 {
		f.begin(3)
	}
	running := f.edges[:3]
	if n > 1 {
		running = f.edges
	}
	for _, m := range running {
		f.has(m, before)
	}
	f.settled.Store(before.Unix())
	stream.expect(f.t, next)
	for _, m := range running {
		if m.exact {
			f.has(m, next)
		}
	}
	if n == 1 {
		f.has(f.edges[3], next)
		f.up(4) // the fourth edge starts with this snapshot, and flips from the next one on
	}
	var offsets []float64
	for _, m := range running {
		if s := must.Get(m.status(f.t.Context()))(f.t); m.exact {
			offsets = append(offsets, s.More.Offset)
		}
	}
	return time.Duration((slices.Max(offsets) - slices.Min(offsets)) * float64(time.Second))
}

// TestFleet: edges behind HAProxy make a snapshot current together, even if one has a slow store,
// the clock of one is a second behind, and one starts in the meantime. A client that pages through
// a listing with pins, across all edges, gets each page. A client without pins sees no earlier
// snapshot once all edges have the next one. An event stream stays open throughout. With
// TEST_LONG=1 there are 200 swaps.
func TestFleet(t *testing.T) {
	swaps := 3
	if os.Getenv(longTest) == "1" {
		swaps = 200
	}
	f := startFleet(t)
	ctx, enough := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	t.Cleanup(clients.Wait)
	t.Cleanup(enough)
	for range 3 {
		c := f.front.client(t, "")
		clients.Go(func() { f.browse(ctx, c) })
	}
	listener := f.front.client(t, "")
	listener.Timeout = 0
	stream := events(t, listener, "https://"+f.front.listen, f.key)
	stream.expect(t, f.at)
	var spreads []time.Duration
	for n := range swaps {
		spreads = append(spreads, f.swap(n, stream))
	}
	slices.Sort(spreads)
	t.Logf("%d swaps: flips within %v (median), %v (p99), %v (all); %d requests, the longest %d ms", swaps,
		spreads[len(spreads)/2], spreads[len(spreads)*99/100], spreads[len(spreads)-1],
		f.asked.Load(), f.longest.Load())
	enough()
	clients.Wait()
	// HAProxy's timeout for answers is 5 s. Its timeout for a stream is longer than the interval
	// between the stream's comments.
	if line, err := stream.next(); line != ":" {
		t.Errorf("%q %v, want a comment", line, err)
	}
	var stopping sync.WaitGroup
	for _, m := range f.edges {
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
