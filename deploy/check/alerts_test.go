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

// front is a bucket with the objects of a store's folder, as an edge sees one. It can
// be told to fail.
type front struct {
	dir string

	mu    sync.Mutex
	skew  time.Duration                                          // of its clock
	fault func(w http.ResponseWriter, key string, b []byte) bool // answers in its place
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
	_, _ = w.Write(b) // the edge went away
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as told</Message></Error>", code)
}

// away answers as a store that is down.
func away(w http.ResponseWriter, _ string, _ []byte) bool {
	refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable")
	return true
}

// scene is a store with a front, and programs that run for real.
type scene struct {
	t             *testing.T
	dir           string // the store's folder; feed and cache folders lie beside it
	front         *front
	url           string
	edges, builds []*daemon
	at            time.Time // of the feed
	files         string    // how many files its programs may have open; "": as many as may be
}

// daemon is a program with a listener for metrics.
type daemon struct {
	s              *scene
	job            string
	args           []string
	listen, public string // public: of edges
	cmd            *exec.Cmd
	log            *lines
	seen           bool // it was scraped: from then on its absence is
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

// builder runs a command of it to its end, and returns what it printed.
func (s *scene) builder(args ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(
		s.t.Context(), filepath.Join(bin, "builder"), append(args, "--store=file:"+s.dir)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("builder %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// feed writes the feed of a time, which may be spoiled.
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

// feedOf writes what a source says into a folder beside the store.
func (s *scene) feedOf(source, name string, args ...string) {
	s.t.Helper()
	s.tool(append([]string{"feed", source, "--out=" + s.beside(name)}, args...)...)
}

// publish publishes the market of a time, which may lie ahead.
func (s *scene) publish(at time.Time) {
	s.t.Helper()
	s.feed(at, nil)
	s.builder("build", "--allow=ahead", "--source=feed:"+s.beside("feed"))
}

// next is publish for ten minutes later.
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

// launch starts the program, once more if it ran before, and waits for its listener.
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
	// The shell lowers the limit of open files where a scene wants that.
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

// ports are below those that the system gives to connections, none of them twice.
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

// until waits for a text, or a match, in what the admin listener answers.
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

// ask is get that returns the body whatever the status.
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

// edge starts an edge on the front.
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

// scrape asks all programs.
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

// told returns what an operator can read: every /status and /readyz, and the logs.
func (s *scene) told() (text string) {
	for _, d := range s.edges {
		text += ask(s.t.Context(), d.listen, "/status") + ask(s.t.Context(), d.listen, "/readyz") + d.log.String()
	}
	for _, d := range s.builds {
		text += d.log.String()
	}
	return text
}

// trouble is a fault, made for real, and the alerts that it raises.
type trouble struct {
	name string
	// make causes it. The first scrape is taken before the returned function runs, the second
	// after that.
	make func(s *scene) (then func())
	// fresh: counters are from zero on, since the programs were just started.
	fresh bool
	// still: nothing is published or done any more. Otherwise all but the broken part goes on.
	still   bool
	minutes int
	// again is how many times more what make returned runs, with as many minutes after
	// each.
	again int
	// stretch, if not 0, multiplies the durations that programs report: a build of five
	// minutes would take a test as long.
	stretch float64
	// alerts are all that fire. The builder's are not looked at where there is none.
	alerts []string
	// shows is what programs say of the cause, pages what the page of each alert says
	// of it; expressions.
	shows string
	pages map[string]string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTroubles makes every fault that has an alert with real programs, has the real
// rules evaluate their metrics, and checks that the alert's page names the cause.
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

// about drops alerts about programs that a scene does not have.
func about(s *scene, alerts []string) []string {
	return slices.DeleteFunc(alerts, func(a string) bool {
		return strings.HasPrefix(a, "Edge") && len(s.edges) == 0 ||
			strings.HasPrefix(a, "Builder") && len(s.builds) == 0
	})
}
