package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/pace"
)

// longTest is an environment variable. If it is 1, the test sends twenty times as many requests
// during each fault, at twice the rate.
const longTest = "TEST_LONG"

// maxTries limits how often a pinned request is tried, at intervals of a second or more.
const maxTries = 10

// activateAfter is longer than an edge needs to notice and load a snapshot.
const activateAfter = 6 * time.Second

// root is the project's folder.
const root = "../../.."

// buildPrograms builds the programs of the module in the given folder, and returns a folder that
// contains them.
func buildPrograms(t *testing.T, module string) string {
	t.Helper()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", module, "-o", bin+"/", "./builder/cmd/builder",
		"./edge/cmd/edge", "./loadtest/cmd/loadtest")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestStack runs the whole stack. Its subtests share the stack, and each continues with the state
// that the one before left.
func TestStack(t *testing.T) {
	program(t, "haproxy")
	testserver.MinIO(t).Stop() // skips the test where it cannot start
	s := must.Get(start(t.Context(), config{bin: buildPrograms(t, root), data: t.TempDir(),
		source: "sim:?assets=400&seed=7", newest: time.Now(), ages: []time.Duration{24 * time.Hour, 0},
		balanced: true, signed: true}))(t)
	s.activate = activateAfter
	t.Cleanup(s.stop)
	s.logs(t)
	t.Run("HTTP2", s.testHTTP2)
	t.Run("addresses", s.testAddresses)
	t.Run("read only", s.testReadOnly)
	t.Run("faults", s.testFaults)
	t.Run("no edge", s.testNoEdge)
	p := must.Get(artifacts.ParsePointer(buildtest.Stored(t, open(t, s.Machine), artifacts.CurrentKey)))(t)
	if n := len(s.logged(t, s.Store)); uint64(n) != p.Sequence {
		t.Errorf("the log has %d leaves, and %d snapshots were published", n, p.Sequence)
	}
}

// logged returns the leaves of a store's log. The log must contain everything that is published,
// and nothing twice, and "builder verify" must report no error.
func (s *stack) logged(t *testing.T, address string) []string {
	t.Helper()
	must.Get(s.Output(t.Context(), "builder", "verify", "--store", address))(t)
	store := must.Get(s3store.Open(address, s.minio.Options()))(t)
	p := must.Get(artifacts.ParsePointer(buildtest.Stored(t, store, artifacts.CurrentKey)))(t)
	leaves := buildtest.CheckLog(t, store, s.sign)
	seen := map[string]bool{}
	for _, leaf := range leaves {
		if seen[leaf] {
			t.Errorf("the log has %s twice", leaf)
		}
		seen[leaf] = true
	}
	if !seen[buildtest.Leaf(p)] {
		t.Errorf("the log is %q, without what is published", leaves)
	}
	return leaves
}

// logs makes a failing test print the end of the programs' logs.
func (s *stack) logs(t *testing.T) {
	t.Cleanup(func() {
		for _, name := range []string{"edge1", "edge2", "haproxy", "builder"} {
			if b, err := os.ReadFile(s.Log(name)); err == nil && t.Failed() {
				t.Logf("%s printed:\n%s", name, b[max(0, len(b)-4000):])
			}
		}
	})
}

// client returns an HTTP/2 client that trusts the stack's certificate. It connects from the given
// address unless from is empty.
func (s *stack) client(t *testing.T, from string) *http.Client {
	t.Helper()
	pem := must.Get(os.ReadFile(certificateFile(s.Data)))(t)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate")
	}
	dialer := &net.Dialer{}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// get requests path and returns the answer and its complete body.
func (s *stack) get(ctx context.Context, c *http.Client, path, key string) (*http.Response, []byte, error) {
	return s.pinned(ctx, c, path, key, "")
}

// pinned is like get, but pins the snapshot pin unless it is empty.
func (s *stack) pinned(ctx context.Context, c *http.Client, path, key, pin string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.listen+path, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("X-Snapshot-Time", pin) // an empty header is not sent
	if key != "" {
		req.Header.Set("X-Api-Key", key)
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, body, err
}

// open opens the store with the credentials of m's programs.
func open(t *testing.T, m *local.Machine) artifacts.Store {
	t.Helper()
	for _, v := range m.Env {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	return must.Get(s3store.Open(m.Store, s3store.Options{}))(t)
}

func (s *stack) testHTTP2(t *testing.T) {
	res, body, err := s.get(t.Context(), s.client(t, ""), "/openapi/v1/global", s.key)
	must.OK(t, err)
	if res.StatusCode != 200 || res.ProtoMajor != 2 || res.TLS.Version < tls.VersionTLS12 ||
		!bytes.HasPrefix(body, []byte(`{"code":0,`)) {
		t.Errorf("%s over %s: %s", res.Status, res.Proto, body)
	}
	if len(res.Header["X-Request-Id"]) != 1 || len(res.Header["Access-Control-Allow-Origin"]) != 1 {
		t.Errorf("headers %v", res.Header)
	}
}

// testAddresses: the edges see the clients' addresses, not HAProxy's. They refuse a client that
// sends too many requests without a key, but not the next client.
func (s *stack) testAddresses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has more than one address on its loopback interface from the start")
	}
	status := func(c *http.Client) int {
		res, _, err := s.get(t.Context(), c, "/openapi/v1/global", "")
		must.OK(t, err)
		return res.StatusCode
	}
	eager, other := s.client(t, "127.0.0.2"), s.client(t, "127.0.0.3")
	const most = 1000 // each of two edges allows bursts of fifty and ten a second
	for n := 0; status(eager) != http.StatusTooManyRequests; n++ {
		if n == most {
			t.Fatalf("%d requests without a key were not refused", n)
		}
	}
	if got := status(other); got != http.StatusUnauthorized {
		t.Errorf("another client's first request without a key: %d", got)
	}
}

// testReadOnly: the edges' credentials do not permit changes to the store.
func (s *stack) testReadOnly(t *testing.T) {
	store := open(t, &s.reader)
	if _, _, err := store.Get(t.Context(), artifacts.CurrentKey, artifacts.MaxPointerSize); err != nil {
		t.Errorf("read: %v", err)
	}
	if _, _, err := store.Get(t.Context(), artifacts.MustKey("objects/none"), 1); !errors.Is(
		err, artifacts.ErrNotFound) {
		t.Errorf("read of a missing object: %v", err)
	}
	if err := store.Put(t.Context(), artifacts.MustKey("objects/mine"), []byte("x")); err == nil {
		t.Error("the edges may write")
	}
}

// fault is a fault that the test causes under load.
type fault struct {
	name string
	// strike causes the fault, and returns when everything has recovered. served returns after some
	// more requests have been answered.
	strike func(ctx context.Context, served func()) error
}

func (s *stack) faults() []fault {
	return []fault{
		{"none", func(ctx context.Context, served func()) error { served(); return nil }},
		{"a snapshot is published", func(ctx context.Context, served func()) error {
			served()
			return s.publish(ctx)
		}},
		{"edge 1 is killed", func(ctx context.Context, served func()) error {
			s.edges[0].Kill()
			served()
			return s.edges[0].start(ctx)
		}},
		{"edge 2 drains", func(ctx context.Context, served func()) error {
			s.edges[1].Stop()
			if err := s.edges[1].Err(); err != nil {
				return fmt.Errorf("it ended badly: %w", err)
			}
			served()
			return s.edges[1].start(ctx)
		}},
		{"the store is away", func(ctx context.Context, served func()) error {
			s.minio.Stop()
			served()
			return s.minio.Start(ctx)
		}},
		{"edge 2 is killed meanwhile", func(ctx context.Context, served func()) error {
			s.minio.Stop()
			s.edges[1].Kill()
			served()
			if err := s.edges[1].start(ctx); err != nil { // from its disk cache
				return err
			}
			served()
			return s.minio.Start(ctx)
		}},
	}
}

func (s *stack) testFaults(t *testing.T) { s.load(t, "mixed", together, s.faults()) }

// fleet says what clients may expect of edges behind one address.
type fleet bool

const (
	// together means that the edges make snapshots current at a set time, so each edge has loaded
	// every snapshot that a client can pin, and answers immediately.
	together fleet = true
	// apart means that each edge makes snapshots current as soon as it can. An edge that is behind
	// waits a second for a pinned snapshot and then answers 503 with Retry-After. A client that
	// tries again gets the answer.
	apart fleet = false
)

// load loads HAProxy over HTTP/1.1 and HTTP/2 at the same time, while one fault after another
// strikes. While at least one edge can answer, no request fails, and all answers have the right
// bytes.
func (s *stack) load(t *testing.T, scenario string, edges fleet, faults []fault) {
	rate, requests := 150.0, 150
	if os.Getenv(longTest) == "1" {
		rate, requests = 300, 3000
	}
	store := open(t, &s.reader)
	tester := must.Get(loadtest.New(t.Context(), loadtest.Options{URLs: []string{"https://" + s.listen},
		Keys: []string{s.key}, Insecure: true, Scenario: scenario, CheckShare: 1, Store: store, Seed: 3}))(t)
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "fault\trequests\tretried by HAProxy\tpins asked again\tfailures\twrong\t")
	for _, f := range faults {
		before := must.Get(s.counters(t.Context()))(t)
		ctx, cancel := context.WithCancel(t.Context())
		struck := make(chan error, 1)
		go func() {
			defer cancel()
			struck <- s.under(ctx, requests, f)
		}()
		second := s.second(t, ctx, 20)
		run := must.Get(tester.Run(ctx, loadtest.Load{
			Stages: pace.Constant(rate, 5*time.Minute), Arrivals: pace.Poisson,
			Connections: 64, Timeout: 15 * time.Second}))(t)
		failed, wrong, asked, again := second()
		if err := <-struck; err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		after := must.Get(s.counters(t.Context()))(t)
		r := &run.Requests
		if again > 0 && edges == together {
			t.Errorf("%s: %d pins were not answered at once", f.name, again)
		}
		if failed += r.Failed; failed > 0 {
			t.Errorf("%s: %d requests failed: %v", f.name, failed, r.Failures)
		}
		if wrong += run.Checks.Wrong; wrong > 0 || run.Checks.Compared == 0 || run.Checks.Uncompared > 0 {
			findings, err := json.Marshal(run.Checks)
			t.Errorf("%s: wrong answers, or too few compared: %s %v", f.name, findings, err)
		}
		fmt.Fprintf(
			w, "%s\t%d\t%d\t%d\t%d\t%d\t\n", f.name, r.Asked+asked, after.retried-before.retried, again, failed, wrong)
	}
	must.OK(t, w.Flush())
	t.Logf("\n%s", &table)
}

// under lets the stack serve for a while, causes the fault, and lets the stack serve again.
func (s *stack) under(ctx context.Context, requests int, f fault) error {
	var err error
	served := func() {
		if err == nil {
			err = s.served(ctx, requests)
		}
	}
	served()
	if err := f.strike(ctx, served); err != nil {
		return err
	}
	served()
	if err == nil {
		err = s.whole(ctx)
	}
	return err
}

// poll calls done repeatedly until it returns true or an error.
func poll(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// served returns when HAProxy has answered the given number of further requests.
func (s *stack) served(ctx context.Context, requests int) error {
	from, err := s.counters(ctx)
	if err != nil {
		return err
	}
	return poll(ctx, "requests", func() (bool, error) {
		c, err := s.counters(ctx)
		return c.answered >= from.answered+requests, err
	})
}

// whole returns when HAProxy considers both edges ready and both serve the newest snapshot.
func (s *stack) whole(ctx context.Context) error {
	return poll(ctx, "both edges", func() (bool, error) {
		c, err := s.counters(ctx)
		if err != nil || c.up < len(s.edges) {
			return false, err
		}
		for _, e := range s.edges {
			newest, err := e.serves(ctx, s.newest)
			if !newest || err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// status is an edge's report about itself.
type status struct {
	SnapshotTime time.Time `json:"snapshot_time"`
	LastError    string    `json:"last_error"`
	Keys         struct {
		InForce int `json:"in_force"`
	}
	More struct {
		Offset float64 `json:"activation_offset_seconds"` // how late the flip was
	}
}

func (e *edge) status(ctx context.Context) (s status, err error) {
	text, err := local.Get(ctx, "http://"+e.admin+"/status")
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// serves reports whether the edge serves the snapshot of t's ten-minute mark.
func (e *edge) serves(ctx context.Context, t time.Time) (bool, error) {
	s, err := e.status(ctx)
	return s.SnapshotTime.Equal(t.Truncate(10 * time.Minute)), err
}

// second also loads HAProxy over HTTP/2, with a few streams on one connection, until ctx is done.
// Each stream reads the first pages of a listing again and again, pinned to the snapshot of the
// first page. An answer is right if it equals the first answer for its snapshot and page. A stream
// repeats a pinned request that is refused with Retry-After. The returned function waits for the
// streams and returns their counts.
func (s *stack) second(t *testing.T, ctx context.Context, pages int) func() (failed, wrong, asked, again uint64) {
	client := s.client(t, "")
	var (
		mu                          sync.Mutex
		failed, wrong, asked, again uint64
		first                       = map[string][]byte{}
		streams                     sync.WaitGroup
	)
	ask := func(page int, pin string) (snapshot string, later bool) {
		// A request that has begun is completed, even if ctx ends.
		res, body, err := s.pinned(context.WithoutCancel(ctx), client,
			fmt.Sprintf("/openapi/v1/assets?limit=20&offset=%d", 20*page), s.key, pin)
		mu.Lock()
		defer mu.Unlock()
		asked++
		switch {
		case err != nil:
			failed++
			t.Log("over HTTP/2:", err)
			return "", false
		case res.StatusCode == http.StatusServiceUnavailable && pin != "" &&
			bytes.Contains(body, []byte("X-Snapshot-Time")) && res.Header.Get("Retry-After") == "1":
			again++
			return pin, true
		case res.StatusCode != http.StatusOK:
			failed++
			t.Logf("over HTTP/2: %s: %s", res.Status, body)
			return "", false
		}
		snapshot = res.Header.Get("X-Snapshot-Time")
		place := fmt.Sprint(snapshot, page)
		if want, ok := first[place]; !ok {
			first[place] = body
		} else if !bytes.Equal(body, want) || pin != "" && pin != snapshot {
			wrong++
			t.Logf("over HTTP/2: page %d of snapshot %s, asked for %q, answered\n%s, and then\n%s", page, snapshot, pin,
				want, body)
		}
		return snapshot, false
	}
	for range 4 {
		streams.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			pin := ""
			for page := 0; ; page = (page + 1) % pages {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if page == 0 {
					pin = ""
				}
				snapshot, later := ask(page, pin)
				for tries := 1; later; tries++ {
					if tries == maxTries {
						mu.Lock()
						failed++
						mu.Unlock()
						t.Logf("over HTTP/2: page %d of %s was refused %d times", page, pin, tries)
						break
					}
					time.Sleep(time.Second) // Retry-After
					snapshot, later = ask(page, pin)
				}
				pin = snapshot
			}
		})
	}
	return func() (uint64, uint64, uint64, uint64) {
		streams.Wait()
		return failed, wrong, asked, again
	}
}

// testNoEdge: without an edge, clients still get an answer in the envelope.
func (s *stack) testNoEdge(t *testing.T) {
	for _, e := range s.edges {
		e.Kill()
	}
	res, body, err := s.get(t.Context(), s.client(t, ""), "/openapi/v1/global", s.key)
	must.OK(t, err)
	var envelope struct {
		Code       int
		MessageKey string `json:"message_key"`
		Result     *struct{}
	}
	if err := json.Unmarshal(body, &envelope); err != nil || envelope.Code != 50300 ||
		envelope.MessageKey != "SERVICE_UNAVAILABLE" || envelope.Result == nil {
		t.Errorf("body %s: %v", body, err)
	}
	h := res.Header
	if res.StatusCode != 503 || h.Get("Retry-After") != "1" || h.Get("Cache-Control") != "no-store" ||
		len(h.Get("X-Request-Id")) < 20 || h.Get("Access-Control-Allow-Origin") != "*" ||
		h.Get("Content-Type") != "application/json" {
		t.Errorf("%s, headers %v", res.Status, h)
	}
	for _, e := range s.edges {
		must.OK(t, e.start(t.Context()))
	}
}

// TestMakeCertificate: the certificate is valid for the names by which clients reach this machine,
// and only its owner can read its key.
func TestMakeCertificate(t *testing.T) {
	dir := t.TempDir()
	file := must.Get(makeCertificate(dir))(t)
	pair := must.Get(tls.LoadX509KeyPair(file, file))(t)
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: pool}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	public, err := os.ReadFile(filepath.Join(dir, "certificate.pem"))
	if err != nil || bytes.Contains(public, []byte("KEY")) {
		t.Errorf("the public file has the key, or is not there: %v", err)
	}
}
