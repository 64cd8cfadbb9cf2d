package edge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/rawhttp"
	"example.com/marketdata/internal/test/teststore"
)

// The tests in this file run a whole edge on a store that fails, and send it HTTP requests all the time. They
// compare every answer with the result that the load tester's oracle computes from the snapshot that the
// answer names.

// targets are the requested paths: listings of every collection, from both ends, by row number and by filter.
var targets = []string{
	"/openapi/v1/assets?sort=name&size=100",
	"/openapi/v1/assets?sort=rank:desc&limit=30&offset=140",
	"/openapi/v1/assets?symbol=common&fields=links&size=50",
	"/openapi/v1/assets?slug=asset-7,asset-8,nothing&sort=slug",
	"/openapi/v1/quotes?size=100&page=2",
	"/openapi/v1/quotes?id=1,3,5,9,4&sort=symbol:desc",
	"/openapi/v1/quotes?sort=slug:desc",
	"/openapi/v1/exchanges?sort=volume:desc",
	"/openapi/v1/categories?sort=market_cap:desc",
	"/openapi/v1/chains",
	"/openapi/v1/trending",
	"/openapi/v1/history?id=1,3,5,9,4",
	"/openapi/v1/history?window=1y&slug=asset-8,asset-60,nothing",
	"/openapi/v1/global",
}

// world is a store, and the expected answers for the snapshots in it.
type world struct {
	tb    testing.TB
	store artifacts.Store

	mu        sync.Mutex
	last      *teststore.Published
	snapshots map[string]*teststore.Oracle
	bodies    map[string]string // by snapshot and target
	changes   []*model.Change   // the change records that /global may reflect
	version   artifacts.Version // the version of the change record
}

func newWorld(tb testing.TB, store artifacts.Store) *world {
	return &world{tb: tb, store: store, snapshots: map[string]*teststore.Oracle{}, bodies: map[string]string{},
		changes: []*model.Change{nil}}
}

// assets is the number of assets in every snapshot. It is large enough for two objects in each view by name,
// so one can be missing while the other is present.
const assets = 300

// publish publishes and returns the next snapshot, ten minutes after the previous one and with other prices.
// It holds mu, so no answer is checked before the oracle knows the snapshot.
func (w *world) publish() *teststore.Published {
	at := teststore.Start
	if w.last != nil {
		at = w.last.Manifest.Time.Add(artifacts.Step)
	}
	return w.publishAt(at)
}

func (w *world) publishAt(at time.Time) *teststore.Published {
	w.tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := teststore.Publish(w.tb, w.store, teststore.NewFeed(assets, uint64(at.Unix())).History(40), at)
	w.snapshots[at.Format(model.TimeFormat)], w.last = p.Oracle(w.tb, w.store), p
	return p
}

// change writes a change record. From now on, /global may reflect it.
func (w *world) change(value string) {
	w.tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, &model.Change{Database: "fixture", Time: teststore.Start, Value: value})
	c := artifacts.Change{Format: artifacts.Format, Database: "fixture", Time: teststore.Start, Value: value}
	w.version = must.Get(w.store.Swap(context.Background(), artifacts.ChangeKey, w.version, c.Encode()))(w.tb)
}

// right returns an error unless body is the answer to target from a snapshot.
func (w *world) right(snapshot, target, body string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.snapshots[snapshot]
	if s == nil {
		return fmt.Errorf("snapshot %q was not published", snapshot)
	}
	q, refusal := model.Parse(target)
	if refusal != nil {
		return fmt.Errorf("the test asks what is refused: %+v", refusal)
	}
	if q.Endpoint == "global" {
		for _, c := range w.changes {
			if body == s.Answer(q, c).Body {
				return nil
			}
		}
		return fmt.Errorf("not the bytes of snapshot %s: %s", snapshot, body)
	}
	want, ok := w.bodies[snapshot+target]
	if !ok {
		want = string(s.Answer(q, nil).Body)
		w.bodies[snapshot+target] = want
	}
	if body != want {
		return fmt.Errorf("not the bytes of snapshot %s: %d bytes, want %d", snapshot, len(body), len(want))
	}
	return nil
}

// node is a running edge.
type node struct {
	*edge.Edge
	tb   testing.TB
	w    *world
	stop func()
}

// start runs an edge that reads reader until stop is called or the test ends.
func (w *world) start(reader artifacts.Reader, change func(*edge.Config)) *node {
	w.tb.Helper()
	cfg := edge.Config{Reader: reader, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", AuthOff: true,
		Poll: 2 * time.Millisecond, CacheSize: 16 << 20, HistoryFetch: 1 << 30}
	if change != nil {
		change(&cfg)
	}
	e := must.Get(edge.New(context.Background(), cfg))(w.tb)
	stop := edge.RunUntil(w.tb, e)
	return &node{Edge: e, tb: w.tb, w: w, stop: func() {
		if err := stop(); err != nil {
			w.tb.Error(err)
		}
	}}
}

// status contains the fields of /status that the tests use.
type status struct {
	Status       string
	State        string
	Reasons      []string
	NotReady     string    `json:"not_ready"`
	LastError    string    `json:"last_error"`
	SnapshotTime time.Time `json:"snapshot_time"`
	Caches       edge.Caches
	More         edge.More
}

var admin = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (n *node) status() (s status) {
	n.tb.Helper()
	res := must.Get(admin.Get("http://" + n.AdminAddr().String() + "/status"))(n.tb)
	defer res.Body.Close()
	must.OK(n.tb, json.NewDecoder(res.Body).Decode(&s))
	return s
}

// eventually waits for a status.
func (n *node) eventually(what string, ok func(status) bool) {
	n.tb.Helper()
	var s status
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if s = n.status(); ok(s) {
			return
		}
		if time.Now().After(deadline) {
			n.tb.Fatalf("not seen: %s; %+v", what, s)
		}
	}
}

// complete waits until the edge has fetched all of p and its state is VALID.
func (n *node) complete(p *teststore.Published) {
	n.tb.Helper()
	n.eventually("the whole snapshot of "+p.Manifest.Time.Format(model.TimeFormat), func(s status) bool {
		return s.SnapshotTime.Equal(p.Manifest.Time) && s.State == "VALID" &&
			s.Caches.MissingObjects+s.Caches.MissingHistory == 0
	})
}

// reports waits until the edge is degraded because of an error that contains text.
func (n *node) reports(text string) {
	n.tb.Helper()
	n.eventually("trouble with "+text, func(s status) bool {
		return s.State == "INTERRUPTED" && s.Status == "degraded" && strings.Contains(s.LastError, text)
	})
}

// asker sends requests to a node on one connection and checks every answer.
type asker struct {
	n      *node
	client *http.Client
	bodies map[string]string // by ETag
	latest string            // snapshot of the newest answer
	tags   map[string]string // ETag of the newest answer, by target
	count  map[int]int       // answers by status
	asked  int
}

// patience bounds a request: an edge gives up on a shard after two seconds.
const patience = 10 * time.Second

func (n *node) asker() *asker {
	return &asker{
		n: n, client: &http.Client{Timeout: patience, Transport: &http.Transport{DisableCompression: true}},
		bodies: map[string]string{}, tags: map[string]string{}, count: map[int]int{},
	}
}

// ask sends one request and returns the status. It returns an error if the answer breaks a promise of the
// interface.
func (a *asker) ask(target string) (int, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+a.n.Addr().String()+target, nil)
	if err != nil {
		return 0, err
	}
	a.asked++
	tag := a.tags[target]
	if tag != "" && a.asked%3 == 0 {
		req.Header.Set("If-None-Match", tag)
	} else {
		tag = ""
	}
	res, err := a.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	body, h := string(b), res.Header
	a.count[res.StatusCode]++
	if res.StatusCode == http.StatusServiceUnavailable {
		if !rawhttp.SoonAgain(h.Get("Retry-After")) || h.Get("Cache-Control") != "no-store" || !strings.HasPrefix(body,
			`{"code":50300,"message":"`) ||
			!strings.HasSuffix(body, `,"message_key":"SERVICE_UNAVAILABLE","result":{}}`) {
			return 0, fmt.Errorf("a 503 of headers %v and body %q", h, body)
		}
		return res.StatusCode, nil
	}
	snapshot := h.Get("X-Snapshot-Time")
	if snapshot < a.latest { // the format sorts as text
		return 0, fmt.Errorf("an answer from snapshot %q after one from %s", snapshot, a.latest)
	}
	a.latest = snapshot
	switch {
	case res.StatusCode == http.StatusNotModified && tag != "":
		if h.Get("ETag") != tag || body != "" {
			return 0, fmt.Errorf("a 304 to %s with %v and body %q", tag, h, body)
		}
		body = a.bodies[tag]
	case res.StatusCode == http.StatusOK:
		at, err := time.Parse(model.TimeFormat, snapshot)
		if err != nil {
			return 0, err
		}
		if age := time.Since(at); strings.HasSuffix(h.Get("Cache-Status"), "; detail=stale") != (age > 20*time.Minute) {
			return 0, fmt.Errorf("Cache-Status %q at the age of %v", h.Get("Cache-Status"), age)
		}
		a.tags[target], a.bodies[h.Get("ETag")] = h.Get("ETag"), body
	default:
		return 0, fmt.Errorf("status %d: %s", res.StatusCode, body)
	}
	return res.StatusCode, a.n.w.right(snapshot, target, body)
}

// crowd is a group of askers that send requests all the time.
type crowd struct {
	n      *node
	end    chan struct{}
	group  sync.WaitGroup
	rounds atomic.Int64 // how often all targets were requested

	mu    sync.Mutex
	count map[int]int
	errs  []error
}

// crowd starts a crowd, which sends requests until done is called or the test ends.
func (n *node) crowd() *crowd {
	c := &crowd{n: n, end: make(chan struct{}), count: map[int]int{}}
	for range 2 {
		c.group.Go(c.run)
	}
	n.tb.Cleanup(c.halt)
	return c
}

// pause is the pause between requests. It leaves processor time to the edge.
const pause = 300 * time.Microsecond

func (c *crowd) run() {
	a := c.n.asker()
	defer a.client.CloseIdleConnections()
	for {
		for _, target := range targets {
			select {
			case <-c.end:
				c.mu.Lock()
				defer c.mu.Unlock()
				for code, n := range a.count {
					c.count[code] += n
				}
				return
			default:
			}
			if _, err := a.ask(target); err != nil {
				c.mu.Lock()
				if len(c.errs) < 5 {
					c.errs = append(c.errs, fmt.Errorf("%s: %w", target, err))
				}
				c.mu.Unlock()
			}
			time.Sleep(pause)
		}
		c.rounds.Add(1)
	}
}

func (c *crowd) halt() {
	select {
	case <-c.end:
	default:
		close(c.end)
	}
	c.group.Wait()
}

// more waits until all targets have been requested again.
func (c *crowd) more() {
	c.n.tb.Helper()
	from := c.rounds.Load()
	for deadline := time.Now().Add(time.Minute); c.rounds.Load() < from+4; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			c.n.tb.Fatal("answers take too long")
		}
	}
}

// done stops the crowd, fails the test if an answer was wrong, and returns the number of answers by status.
func (c *crowd) done() map[int]int {
	c.n.tb.Helper()
	c.halt()
	for _, err := range c.errs {
		c.n.tb.Error(err)
	}
	if c.count[http.StatusOK] == 0 {
		c.n.tb.Error("nothing was answered")
	}
	return c.count
}

// always is like done, but also treats a 503 as wrong. It is for edges that have everything on disk.
func (c *crowd) always() {
	c.n.tb.Helper()
	if n := c.done()[http.StatusServiceUnavailable]; n > 0 {
		c.n.tb.Errorf("%d answers of 503 while everything was on its disk", n)
	}
}

// on returns a hook that applies d to calls for keys with the given prefix.
func on(prefix string, d faultstore.Decision) faultstore.Hook {
	return func(op faultstore.Op) faultstore.Decision {
		if strings.HasPrefix(op.Key.String(), prefix) {
			return d
		}
		return faultstore.Pass
	}
}

// oneObject returns a hook that applies d to calls for the first object that is requested.
func oneObject(d faultstore.Decision) faultstore.Hook {
	var once sync.Once
	var one artifacts.Key
	return func(op faultstore.Op) faultstore.Decision {
		if op.Key.Kind() != artifacts.ObjectKind {
			return faultstore.Pass
		}
		once.Do(func() { one = op.Key })
		return on(one.String(), d)(op)
	}
}

// TestNextSnapshotInTrouble checks that, while the store fails in one way or another, the edge answers all
// requests from the snapshot that it has and reports the error. Once the store works, it takes over the
// newest snapshot by itself.
func TestNextSnapshotInTrouble(t *testing.T) {
	for _, c := range []struct {
		name  string
		hook  faultstore.Hook
		wants string // the expected text in last_error
	}{
		{"objects with a wrong bit", on(artifacts.ObjectPrefix, faultstore.Corrupt), "object"},
		{"objects cut short", on(artifacts.ObjectPrefix, faultstore.Truncate), "object"},
		{"objects missing", on(artifacts.ObjectPrefix, faultstore.Hide), "not found"},
		{"objects unavailable", on(artifacts.ObjectPrefix, faultstore.Refuse), "injected fault"},
		{"one object with a wrong bit", oneObject(faultstore.Corrupt), "object"},
		{"one object cut short", oneObject(faultstore.Truncate), "object"},
		{"one object missing", oneObject(faultstore.Hide), "not found"},
		{"manifest with a wrong bit", on(artifacts.ManifestPrefix, faultstore.Corrupt), "manifest"},
		{"manifest cut short", on(artifacts.ManifestPrefix, faultstore.Truncate), "manifest"},
		{"manifest missing", on(artifacts.ManifestPrefix, faultstore.Hide), "not found"},
		{"manifest unavailable", on(artifacts.ManifestPrefix, faultstore.Refuse), "manifest"},
		{"pointer cut short", on(artifacts.CurrentKey.String(), faultstore.Truncate), "pointer"},
		{"pointer missing", on(artifacts.CurrentKey.String(), faultstore.Hide), "has lost its pointer"},
		{"pointer unavailable", on(artifacts.CurrentKey.String(), faultstore.Refuse), "pointer"},
		{"store away", on("", faultstore.Refuse), "pointer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := memstore.New()
			w, faults := newWorld(t, mem), faultstore.New(mem, nil)
			first := w.publish()
			budget := 300 * time.Millisecond
			if c.wants == "injected fault" {
				budget = time.Hour // the store answers, so the edge would take over the snapshot after the budget
			}
			n := w.start(faults, func(c *edge.Config) { c.FetchBudget = budget })
			n.complete(first)
			crowd := n.crowd()
			crowd.more()
			faults.SetHook(c.hook)
			next := w.publish()
			n.reports(c.wants)
			crowd.more()
			if s := n.status(); !s.SnapshotTime.Equal(first.Manifest.Time) {
				t.Errorf("a snapshot in trouble was taken over: %+v", s)
			}
			faults.SetHook(nil)
			n.complete(next)
			crowd.more()
			crowd.always()
		})
	}
}

// TestWrongBitsInThePointer makes the store return pointers with one wrong bit, in many positions. It checks
// that the edge never uses one of them, and still accepts the next correct one.
func TestWrongBitsInThePointer(t *testing.T) {
	mem := memstore.New()
	w, faults := newWorld(t, mem), faultstore.New(mem, nil)
	first := w.publish()
	n := w.start(faults, nil)
	n.complete(first)
	crowd := n.crowd()
	for range 10 {
		faults.SetHook(on(artifacts.CurrentKey.String(), faultstore.Corrupt))
		before := n.status().More.Refused
		next := w.publish()
		n.eventually("refusals, or the snapshot", func(s status) bool {
			return s.More.Refused >= before+8 || s.SnapshotTime.Equal(next.Manifest.Time)
		})
		faults.SetHook(nil)
		n.complete(next)
	}
	if s := n.status(); s.More.Refused < 40 {
		t.Errorf("%d pointers with a wrong bit were refused", s.More.Refused)
	}
	crowd.always()
}

// TestChangeRecordInTrouble checks that, if the change record is faulty, its value on /global is null or one
// that was written. The edge recovers by itself and takes over snapshots in the meantime.
func TestChangeRecordInTrouble(t *testing.T) {
	mem := memstore.New()
	w, faults := newWorld(t, mem), faultstore.New(mem, nil)
	first := w.publish()
	w.change("1.5")
	n := w.start(faults, nil)
	n.complete(first)
	crowd := n.crowd()
	says := func(value string) {
		t.Helper()
		n.eventually("a change of "+value, func(status) bool {
			_, body, _ := edge.Get(t, n.Addr(), "/openapi/v1/global")
			return strings.Contains(body, `_24h":`+value+`,`)
		})
	}
	says(`"1.5"`)
	for i, d := range []faultstore.Decision{faultstore.Truncate, faultstore.Corrupt, faultstore.Refuse,
		faultstore.Block} {
		faults.SetHook(on(artifacts.ChangeKey.String(), d))
		value := fmt.Sprintf("-2.%d", i+1)
		w.change(value)
		next := w.publish()
		n.eventually("the snapshot", func(s status) bool { return s.SnapshotTime.Equal(next.Manifest.Time) })
		if d == faultstore.Truncate || d == faultstore.Refuse {
			n.reports("change record")
		}
		faults.SetHook(nil)
		says(`"` + value + `"`)
		n.complete(next)
	}
	crowd.always()
}

// TestStartWithoutTheStore checks that an edge answers 503 until the store is available, and then answers
// everything.
func TestStartWithoutTheStore(t *testing.T) {
	for _, prefix := range []string{"", artifacts.CurrentKey.String(), artifacts.ManifestPrefix} {
		for _, d := range []faultstore.Decision{faultstore.Refuse, faultstore.Truncate} {
			mem := memstore.New()
			w, faults := newWorld(t, mem), faultstore.New(mem, on(prefix, d))
			first := w.publish()
			n := w.start(faults, nil)
			crowd := n.crowd()
			crowd.more()
			n.eventually("an error", func(s status) bool { return s.State == "INITIALIZING" && s.LastError != "" })
			faults.SetHook(nil)
			n.complete(first)
			from := crowd.rounds.Load()
			crowd.more()
			if count := crowd.done(); count[http.StatusServiceUnavailable] == 0 || crowd.rounds.Load() < from {
				t.Errorf("%q, decision %d: answers by status %v", prefix, d, count)
			}
			n.stop()
		}
	}
}

// without returns a hook that applies d to the first object of one view, and that object's key.
func without(p *teststore.Published, collection, sort string, d faultstore.Decision) (faultstore.Hook, artifacts.Key) {
	key := artifacts.ObjectKey(p.Manifest.View(collection, sort).Objects[0].Digest)
	return on(key.String(), d), key
}

// TestOneObjectMissing checks that an edge answers as soon as it can when it starts for the first time.
// Requests that need an unavailable object get a 503. All others are answered, and none waits for another.
// The edge becomes ready when it has the object, and stays ready without the store.
func TestOneObjectMissing(t *testing.T) {
	const affected = "/openapi/v1/quotes?sort=slug:desc"
	for name, d := range map[string]faultstore.Decision{
		"wrong": faultstore.Corrupt, "missing": faultstore.Hide, "unavailable": faultstore.Refuse,
		"slow": faultstore.Block,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := memstore.New()
			w := newWorld(t, mem)
			first := w.publish()
			hook, _ := without(first, "quotes", "slug", d)
			faults := faultstore.New(mem, hook)
			n := w.start(faults, nil)
			n.eventually("the snapshot", func(s status) bool { return s.SnapshotTime.Equal(first.Manifest.Time) })

			// Many clients request the missing object all the time.
			end := make(chan struct{})
			var waiting sync.WaitGroup
			for range 40 {
				waiting.Go(func() {
					a := n.asker()
					defer a.client.CloseIdleConnections()
					for {
						select {
						case <-end:
							return
						default:
							if code, err := a.ask(affected); err != nil || code != http.StatusServiceUnavailable {
								t.Errorf("%s: %d, %v", affected, code, err)
								return
							}
						}
					}
				})
			}
			a := n.asker()
			for range 5 {
				for _, target := range targets {
					if target == affected {
						continue
					}
					if code, err := a.ask(target); err != nil || code == http.StatusServiceUnavailable {
						t.Errorf("%s: %d, %v", target, code, err)
					}
				}
			}
			close(end)
			waiting.Wait()
			if s := n.status(); !strings.Contains(s.NotReady, "objects of the snapshot are not on this machine") ||
				!slices.Contains(s.Reasons, s.NotReady) {
				t.Errorf("ready without an object: %+v", s)
			}
			faults.SetHook(nil)
			if d != faultstore.Block { // the hanging call takes twenty seconds
				n.complete(first)
				if code, err := a.ask(affected); err != nil || code != http.StatusOK {
					t.Errorf("afterwards: %s: %d, %v", affected, code, err)
				}
				n.eventually("readiness", func(s status) bool { return s.NotReady == "" })
				faults.SetHook(func(faultstore.Op) faultstore.Decision { return faultstore.Refuse })
				n.reports("injected fault")
				if s := n.status(); s.NotReady != "" || !strings.Contains(strings.Join(s.Reasons, "\n"), s.LastError) {
					t.Errorf("without a store: %+v", s)
				}
			}
			a.client.CloseIdleConnections()
			n.stop()
		})
	}
}

// TestNoFetchStorm checks that, however many clients need an object that the store does not return, the edge
// requests it one call at a time, with half a second between two calls.
func TestNoFetchStorm(t *testing.T) {
	const affected, clients, each = "/openapi/v1/quotes?sort=slug:desc", 200, 20
	mem := memstore.New()
	w := newWorld(t, mem)
	first := w.publish()
	hook, key := without(first, "quotes", "slug", faultstore.Refuse)
	var calls atomic.Int64
	faults := faultstore.New(mem, func(op faultstore.Op) faultstore.Decision {
		if op.Key == key {
			calls.Add(1)
		}
		return hook(op)
	})
	// Background fetching starts with pauses as long as the poll interval.
	n := w.start(faults, func(cfg *edge.Config) { cfg.Poll = 500 * time.Millisecond })
	n.eventually("the snapshot", func(s status) bool {
		return s.SnapshotTime.Equal(first.Manifest.Time) &&
			s.Caches.MissingObjects == 1
	})
	began, before := time.Now(), calls.Load()
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			a := n.asker()
			defer a.client.CloseIdleConnections()
			for range each {
				if code, err := a.ask(affected); err != nil || code != http.StatusServiceUnavailable {
					t.Errorf("%d, %v", code, err)
					return
				}
			}
		})
	}
	group.Wait()
	// Requests and background fetching each wait half a second after a failure, the latter a little less
	// because of its jitter.
	most := 4 + 6*int64(time.Since(began)/time.Second+1)
	if got := calls.Load() - before; got > most {
		t.Errorf("%d requests made %d calls of the store, want %d at most", clients*each, got, most)
	}
}

// damage applies spoil to all files below dir that match a pattern.
func damage(tb testing.TB, dir, pattern string, spoil func(b []byte) []byte) {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no file matches %s: %v", pattern, err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // an edge has just removed it
		}
		must.OK(tb, os.WriteFile(path, spoil(b), 0o644))
	}
}

func flip(b []byte) []byte {
	if len(b) > 0 {
		b[len(b)*2/3] ^= 4
	}
	return b
}

func half(b []byte) []byte { return b[:len(b)/2] }

const objectFiles = artifacts.ObjectPrefix + "*/*"

// TestDiskDamagedAtTheStart damages files of the cache folder while no edge runs. While the store is
// unreachable, each answer must be right or 503. Afterwards all must be right.
func TestDiskDamagedAtTheStart(t *testing.T) {
	for name, spoil := range map[string]func(b []byte) []byte{"flipped": flip, "cut": half,
		"emptied": func([]byte) []byte { return nil }} {
		for pattern, onDisk := range map[string]bool{
			objectFiles: false, artifacts.ManifestPrefix + "*": false, artifacts.CurrentKey.String(): false,
			artifacts.ChangeKey.String(): true, "nothing": true,
		} {
			t.Run(name+" "+strings.ReplaceAll(pattern, "/", "_"), func(t *testing.T) {
				mem, dir := memstore.New(), t.TempDir()
				w := newWorld(t, mem)
				first := w.publish()
				w.change("12.5")
				n := w.start(mem, func(c *edge.Config) { c.CacheDir = dir })
				n.complete(first)
				n.stop()
				if pattern != "nothing" {
					damage(t, dir, pattern, spoil)
				}

				faults := faultstore.New(mem, on("", faultstore.Refuse))
				n = w.start(faults, func(c *edge.Config) { c.CacheDir = dir })
				a := n.asker()
				defer a.client.CloseIdleConnections()
				n.eventually("an error", func(s status) bool { return s.LastError != "" })
				for _, target := range slices.Concat(targets, targets) {
					if code, err := a.ask(target); err != nil || onDisk && code == http.StatusServiceUnavailable {
						t.Errorf("while the store is away: %s: %d, %v", target, code, err)
					}
				}
				if !onDisk && a.count[http.StatusServiceUnavailable] == 0 {
					t.Error("the damage was not met")
				}
				faults.SetHook(nil)
				n.complete(first)
				for _, target := range targets {
					if code, err := a.ask(target); err != nil || code == http.StatusServiceUnavailable {
						t.Errorf("%s: %d, %v", target, code, err)
					}
				}
				n.complete(w.publish())
			})
		}
	}
}

// TestRestarted checks that a client that connects to an edge that is starting from its cache folder waits
// until the edge can answer. The store is unreachable.
func TestRestarted(t *testing.T) {
	mem, dir := memstore.New(), t.TempDir()
	w := newWorld(t, mem)
	n := w.start(mem, func(c *edge.Config) { c.CacheDir = dir })
	n.complete(w.publish())
	n.stop()
	cfg := edge.Config{Reader: faultstore.New(mem, on("", faultstore.Refuse)), Listen: "127.0.0.1:0",
		Admin: "127.0.0.1:0", AuthOff: true, CacheDir: dir}
	e, err := edge.New(t.Context(), cfg)
	must.OK(t, err)
	conn := must.Get(net.Dial("tcp", e.Addr().String()))(t)
	defer conn.Close()
	must.Get(io.WriteString(
		conn, "GET /openapi/v1/assets HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n\r\n"))(t)
	edge.RunUntil(t, e)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", res, err)
	}
}

// TestDiskDamagedInUse gives an edge almost no memory, so that it reads every answer from files. The test
// keeps damaging these files, so the edge must fetch them again.
func TestDiskDamagedInUse(t *testing.T) {
	mem, dir := memstore.New(), t.TempDir()
	w := newWorld(t, mem)
	first := w.publish()
	n := w.start(mem, func(c *edge.Config) { c.CacheDir, c.CacheSize = dir, 1 })
	n.complete(first)
	crowd := n.crowd()
	spoils := []func(b []byte) []byte{flip, half, func([]byte) []byte { return []byte("x") }}
	for i := range 15 {
		before := n.status().Caches.Corrupt
		damage(t, dir, objectFiles, spoils[i%len(spoils)])
		crowd.more()
		if after := n.status().Caches.Corrupt; after <= before {
			t.Errorf("no damage was found: %d before, %d after", before, after)
		}
		if i%5 == 4 {
			n.complete(w.publish())
		}
	}
	crowd.always()
}

// TestStaleness checks that answers from an old snapshot are marked, that they are refused beyond
// --max-stale, and that a current snapshot ends both.
func TestStaleness(t *testing.T) {
	mem := memstore.New()
	w := newWorld(t, mem)
	first := w.publish()
	n, strict := w.start(mem, nil), w.start(mem, func(c *edge.Config) { c.MaxStale = time.Hour })
	n.complete(first)
	strict.complete(first)
	crowd := n.crowd()
	a := strict.asker()
	defer a.client.CloseIdleConnections()
	for _, target := range targets {
		if code, err := a.ask(target); err != nil || code != http.StatusServiceUnavailable {
			t.Errorf("past --max-stale: %s: %d, %v", target, code, err)
		}
	}
	if s := strict.status(); !strings.Contains(s.NotReady, "--max-stale") {
		t.Errorf("ready past --max-stale: %+v", s)
	}
	now := w.publishAt(time.Now().UTC().Truncate(artifacts.Step))
	n.complete(now)
	strict.complete(now)
	for _, target := range targets {
		if code, err := a.ask(target); err != nil || code != http.StatusOK {
			t.Errorf("with a snapshot of now: %s: %d, %v", target, code, err)
		}
	}
	crowd.more()
	crowd.always()
	if s := strict.status(); s.Status != "healthy" || s.NotReady != "" || len(s.Reasons) > 0 {
		t.Errorf("with a snapshot of now: %+v", s)
	}
}

// clocked is a store that reports a clock skew.
type clocked struct {
	artifacts.Reader
	skew atomic.Int64
}

func (c *clocked) ClockSkew() (time.Duration, bool) { return time.Duration(c.skew.Load()), true }

// TestWrongClock checks that an edge reports when its clock differs from the store's, and when its snapshot
// is from the future.
func TestWrongClock(t *testing.T) {
	mem := memstore.New()
	w := newWorld(t, mem)
	store := &clocked{Reader: mem}
	n := w.start(store, nil)
	n.complete(w.publishAt(time.Now().UTC().Truncate(artifacts.Step)))
	for _, c := range []struct {
		skew   time.Duration
		reason string
	}{
		{0, ""}, {9 * time.Second, ""}, {-9 * time.Second, ""},
		{time.Hour, "this machine's clock is 1h0m0s ahead of the store's"},
		{-time.Hour, "this machine's clock is 1h0m0s behind the store's"},
	} {
		store.skew.Store(int64(c.skew))
		s := n.status()
		if got := strings.Join(s.Reasons, "; "); got != c.reason || *s.More.ClockSkew != c.skew.Seconds() ||
			(s.Status == "healthy") != (c.reason == "") {
			t.Errorf("%v: %s, %q, %v", c.skew, s.Status, got, *s.More.ClockSkew)
		}
	}
	store.skew.Store(0)
	n.complete(w.publishAt(time.Now().UTC().Truncate(artifacts.Step).Add(time.Hour)))
	if s := n.status(); s.Status != "degraded" || !strings.Contains(fmt.Sprint(s.Reasons),
		"ahead of this machine's clock") {
		t.Errorf("with a snapshot of the future: %+v", s)
	}
}

// TestDirTooSmall checks that the disk copy stays within its bound if the snapshot does not fit, that /status
// says so, and that all requests are still answered.
func TestDirTooSmall(t *testing.T) {
	mem, dir := memstore.New(), t.TempDir()
	w := newWorld(t, mem)
	const bound = 32 << 10
	n := w.start(mem, func(c *edge.Config) { c.CacheDir, c.CacheDirSize = dir, bound })
	n.complete(w.publish())
	crowd := n.crowd()
	crowd.more()
	n.complete(w.publish())
	crowd.more()
	crowd.always()
	n.eventually("a cache folder that is too small", func(s status) bool {
		return s.Caches.DiskBytes <= bound && s.Caches.OffDisk > 0 && strings.Contains(fmt.Sprint(s.Reasons),
			"--cache-dir-size is 32768 bytes")
	})
}
