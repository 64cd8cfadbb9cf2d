package check

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// front is a bucket that serves the objects in a store's folder to edges. It fails on demand.
type front struct {
	dir string

	mu    sync.Mutex
	skew  time.Duration                                          // of the front's clock
	fault func(w http.ResponseWriter, key string, b []byte) bool // answers instead of the front
}

func (f *front) breaks(fault func(w http.ResponseWriter, key string, b []byte) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/bucket/")
	b, err := os.ReadFile(filepath.Join(f.dir, filepath.FromSlash(key)))
	f.mu.Lock()
	fault, skew := f.fault, f.skew
	f.mu.Unlock()
	w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
	sum := sha256.Sum256(b)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	if fault != nil && fault(w, key, b) {
		return
	}
	if err != nil {
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(b) // an error means that the edge has disconnected
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as told</Message></Error>", code)
}

// away answers like a store that is down.
func away(w http.ResponseWriter, _ string, _ []byte) bool {
	refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable")
	return true
}

// scene is a store behind a front, with real programs that run on it.
type scene struct {
	t             *testing.T
	dir           string // the store's folder; feed and cache folders are next to it
	front         *front
	url           string
	edges, builds []*daemon
	at            time.Time // time of the next feed
	files         string    // how many files its programs may open, or "" for the system's limit
}

// daemon is a program with a listener for metrics.
type daemon struct {
	s              *scene
	job            string
	args           []string
	listen, public string // public is only for edges
	cmd            *exec.Cmd
	log            *lines
	seen           bool // it has been scraped, so from now on its absence counts
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, dir: filepath.Join(t.TempDir(), "store"), at: time.Now().Truncate(10 * time.Minute)}
	s.front = &front{dir: s.dir}
	server := httptest.NewServer(s.front)
	t.Cleanup(server.Close)
	s.url = "s3://bucket?endpoint=" + server.URL
	s.builder("keys", "create", "--name=check")
	return s
}

func (s *scene) beside(name string) string { return filepath.Join(filepath.Dir(s.dir), name) }

// builder runs a command of the builder to its end, and returns the output.
func (s *scene) builder(args ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(
		s.t.Context(), filepath.Join(bin, "builder"), append(args, "--store=file:"+s.dir)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("builder %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// feed writes the feed for a time. spoil may damage it.
func (s *scene) feed(at time.Time, spoil func(dir string)) {
	s.t.Helper()
	dir := s.beside("feed")
	if err := os.RemoveAll(dir); err != nil {
		s.t.Fatal(err)
	}
	s.feedOf("--source=sim:?assets=300&seed=1", "feed", "--time="+at.UTC().Format(time.RFC3339))
	if spoil != nil {
		spoil(dir)
	}
}

// tool runs a command of the builder that needs no store.
func (s *scene) tool(args ...string) {
	s.t.Helper()
	if out, err := exec.CommandContext(s.t.Context(), filepath.Join(bin, "builder"), args...).
		CombinedOutput(); err != nil {
		s.t.Fatalf("builder %v: %v\n%s", args, err, out)
	}
}

// feedOf writes the feed of a source to a folder next to the store.
func (s *scene) feedOf(source, name string, args ...string) {
	s.t.Helper()
	s.tool(append([]string{"feed", source, "--out=" + s.beside(name)}, args...)...)
}

// publish publishes the market at a time, which may be in the future.
func (s *scene) publish(at time.Time) {
	s.t.Helper()
	s.feed(at, nil)
	s.builder("build", "--allow=ahead", "--source=feed:"+s.beside("feed"))
}

// next publishes the market at s.at and advances s.at by ten minutes.
func (s *scene) next() {
	s.t.Helper()
	s.publish(s.at)
	s.at = s.at.Add(10 * time.Minute)
}

func (s *scene) start(d *daemon) *daemon {
	s.t.Helper()
	d.s = s
	d.launch()
	s.t.Cleanup(func() { d.kill() })
	return d
}

// launch starts the program, even if it has run before, and waits for its listener.
func (d *daemon) launch() {
	t := d.s.t
	t.Helper()
	if d.listen == "" {
		d.listen, d.public = free(t), free(t)
	}
	args := d.args
	if d.job == "edge" {
		args = append(slices.Clone(args), "--admin="+d.listen, "--listen="+d.public, "--auth=off", "--poll=100ms",
			"--drain-wait=0s")
		if slices.Contains(args, "--auth=keys") {
			args = slices.DeleteFunc(args, func(a string) bool { return a == "--auth=off" })
		}
	} else {
		args = append([]string{"run"}, append(slices.Clone(args), "--metrics="+d.listen, "--store=file:"+d.s.dir)...)
	}
	// The shell lowers the limit of open files if the scene requires it.
	shell := `if [ -n "$FILES" ]; then ulimit -n "$FILES"; fi; exec "$0" "$@"`
	d.cmd = exec.Command("sh", append([]string{"-c", shell, filepath.Join(bin, d.job)}, args...)...)
	d.cmd.Env = append(os.Environ(), "FILES="+d.s.files, "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret")
	if d.log == nil {
		d.log = new(lines)
	}
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.until("/livez", "ok")
}

// ports are below the range that the system assigns to outgoing connections. None is used twice.
var ports = struct {
	sync.Mutex
	next int
}{next: 20000 + os.Getpid()%8000}

func free(t *testing.T) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		ports.next++
		address := fmt.Sprintf("127.0.0.1:%d", ports.next)
		if ln, err := net.Listen("tcp", address); err == nil {
			must(t, ln.Close())
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

func (d *daemon) kill() {
	if d.cmd != nil {
		_ = d.cmd.Process.Kill() // it may be gone
		_ = d.cmd.Wait()
		d.cmd = nil
	}
}

// until waits until an answer of the admin listener matches want.
func (d *daemon) until(path, want string) string {
	d.s.t.Helper()
	ctx, cancel := context.WithTimeout(d.s.t.Context(), 30*time.Second)
	defer cancel()
	body := ""
	for re := regexp.MustCompile("(?m)" + want); ; {
		if body = ask(ctx, d.listen, path); re.MatchString(body) {
			return body
		}
		select {
		case <-ctx.Done():
			d.s.t.Fatalf("%s: no %s in\n%s\n%s", path, want, body, d.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask is like get, but returns the body for any status.
func ask(ctx context.Context, address, path string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return ""
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body) // the body is compared with the wanted one
	return string(b)
}

// edge starts an edge that reads from the front.
func (s *scene) edge(args ...string) *daemon {
	s.t.Helper()
	d := s.start(&daemon{job: "edge", args: append([]string{"--store=" + s.url}, args...)})
	s.edges = append(s.edges, d)
	return d
}

func (s *scene) run(args ...string) *daemon {
	s.t.Helper()
	d := s.start(&daemon{job: "builder", args: args})
	s.builds = append(s.builds, d)
	return d
}

// scrape reads the metrics of all programs.
func (s *scene) scrape() scrape {
	s.t.Helper()
	all := scrape{}
	for _, d := range slices.Concat(s.edges, s.builds) {
		body := ask(s.t.Context(), d.listen, "/metrics")
		if d.seen = d.seen || body != ""; d.seen {
			all.add(s.t, body, d.job, d.listen)
		}
	}
	return all
}

// told returns everything that an operator can read: every /status and /readyz, and the logs.
func (s *scene) told() (text string) {
	for _, d := range s.edges {
		text += ask(s.t.Context(), d.listen, "/status") + ask(s.t.Context(), d.listen, "/readyz") + d.log.String()
	}
	for _, d := range s.builds {
		text += d.log.String()
	}
	return text
}

// trouble is a fault that really happens, and the alerts that it raises.
type trouble struct {
	name string
	// make causes the fault. The first scrape happens before the returned function runs, the second
	// one after it.
	make func(s *scene) (then func())
	// fresh means that counters start at zero, because the programs have just started.
	fresh bool
	// still means that nothing is published or done any longer. Otherwise everything except the
	// broken part continues.
	still   bool
	minutes int
	// again is how many more times the returned function runs. The same number of minutes passes
	// after each of these runs.
	again int
	// stretch, if not 0, multiplies the durations that programs report. Without it, a build of five
	// minutes would take the test five minutes.
	stretch float64
	// alerts lists all alerts that fire. The builder's alerts are ignored if there is no builder.
	alerts []string
	// shows matches what programs say about the cause. pages has, for each alert, what its page in
	// the runbook must say about the cause. All are regular expressions.
	shows string
	pages map[string]string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTroubles causes, with real programs, every fault that has an alert. It lets the real rules
// evaluate the programs' metrics, and checks that the alert's page names the cause.
func TestTroubles(t *testing.T) {
	book := read(t, deploy, "runbook.md")
	raised := map[string]bool{}
	var mu sync.Mutex
	t.Run("all", func(t *testing.T) {
		for _, c := range troubles {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := newScene(t)
				then := c.make(s)
				prometheus := newClockwork(t)
				before := s.scrape()
				if c.fresh {
					for key, one := range before {
						if one.grows {
							one.value = 0
							before[key] = one
						}
					}
				} else if fired := about(s, prometheus.minutes(2, before, before, false)); len(fired) > 0 &&
					then != nil {
					t.Errorf("before the fault %v fire", fired)
				}
				if then != nil {
					then()
				}
				after := s.scrape()
				if c.stretch > 0 {
					after.stretch(c.stretch)
				}
				for range c.again {
					prometheus.minutes(c.minutes, before, after, c.still)
					then()
					after = s.scrape()
				}
				fired := about(s, prometheus.minutes(c.minutes, before, after, c.still))
				slices.Sort(c.alerts)
				if !slices.Equal(fired, c.alerts) {
					t.Errorf("%v fire, want %v", fired, c.alerts)
				}
				if told := s.told(); !regexp.MustCompile(c.shows).MatchString(told) {
					t.Errorf("nobody says %s:\n%s", c.shows, told)
				}
				for alert, says := range c.pages {
					_, page, _ := strings.Cut(book, "\n### "+alert+"\n")
					page, _, _ = strings.Cut(page, "\n##")
					page = strings.Join(strings.Fields(page), " ")
					if !regexp.MustCompile(says).MatchString(page) {
						t.Errorf("the page of %s does not say %s", alert, says)
					}
					if !slices.Contains(c.alerts, alert) {
						t.Errorf("the page of %s, which does not fire", alert)
					}
					mu.Lock()
					raised[alert] = true
					mu.Unlock()
				}
			})
		}
	})
	for _, r := range parseRules(t) {
		if r.Alert != "" && !raised[r.Alert] {
			t.Errorf("%s is not raised", r.Alert)
		}
	}
}

// about removes alerts about programs that a scene does not have.
func about(s *scene, alerts []string) []string {
	return slices.DeleteFunc(alerts, func(a string) bool {
		return strings.HasPrefix(a, "Edge") && len(s.edges) == 0 ||
			strings.HasPrefix(a, "Builder") && len(s.builds) == 0
	})
}
