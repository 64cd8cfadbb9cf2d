package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/internal/test/fakerun"
	"example.com/marketdata/internal/test/faultedge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/engine"
	"example.com/marketdata/loadtest/result"
)

// command runs a command line and returns its exit status, standard output and standard error.
func command(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	var out, problems bytes.Buffer
	code := program().Do(context.Background(), args, &out, &problems)
	return code, out.String(), problems.String()
}

// calm starts a service that answers so slowly that this process, which is also the load tester, is far from
// busy.
func calm(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond)
		if r.URL.Path == "/bad" {
			w.WriteHeader(500)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// market runs an edge with a snapshot of 60 assets.
func market(t *testing.T, store artifacts.Store) *faultedge.Edge {
	t.Helper()
	teststore.PublishAwkward(t, store, 60, teststore.Start, 1)
	return faultedge.Start(t, store)
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{
		{"--help"}, {"run", "--help"}, {"hold", "--help"}, {"--version"}, {"scenarios"}, {"schema"}} {
		if code, out, problems := command(t, args...); code != 0 || out == "" || problems != "" {
			t.Errorf("%q: exit %d, %q, %q", args, code, out, problems)
		}
	}
	if _, out, _ := command(t, "scenarios"); !strings.Contains(out, "mixed") {
		t.Errorf("scenarios are %s", out)
	}
}

func TestExitStatus(t *testing.T) {
	url := calm(t)
	closed := func(args ...string) []string {
		return append([]string{
			"run", "--url", url, "--closed", "--connections", "1", "--duration", "200ms", "--target", "GET /"}, args...)
	}
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ln.Close()
	folder := t.TempDir()
	api := market(t, must.Get(dirstore.Open(folder, dirstore.Options{}))(t))
	api.Break("long-s-is-no-s") // only the oracle notices this fault
	faulty := httptest.NewServer(api)
	defer faulty.Close()
	api2 := []string{"run", "--url", faulty.URL, "--key", api.Key, "--closed", "--connections", "1"}
	for _, tc := range []struct {
		name string
		args []string
		want int
		out  string
	}{
		{"fine", closed(), 0, "closed loop: maximum throughput"},
		{"threshold kept", closed("--assert", "p99<10s", "--assert", "errors<1%"), 0, "p99<10s passed"},
		{"threshold", closed("--slo", "p99<1ms"), 3, "p99<1ms FAILED"},
		{"quiet", closed("--quiet", "--assert", "p99<1ms"), 3, ""},
		{"no samples", closed("--assert", "late.p99<1h"), 3, "nothing measured"},
		{"no such class", closed("--assert", "quotes:p99<1h"), 2, ""},
		{"no server", []string{"run", "--url", "http://" + ln.Addr().String(), "--closed", "--connections", "1",
			"--duration", "50ms", "--target", "GET /"}, 1, "connect:"},
		{"no directory", []string{"run", "--url", url, "--rate", "1"}, 1, ""},
		{"nothing but errors", []string{"run", "--url", url, "--closed", "--connections", "1", "--duration", "50ms",
			"--target", "GET /bad"}, 1, "500:"},
		// Two requests are due each millisecond, but the only connection takes 5 ms for each.
		{"invalid", []string{"run", "--url", url, "--rate", "2000", "--duration", "200ms", "--connections", "1",
			"--timeout", "100ms", "--target", "GET /"}, 4, "INVALID"},
		// One request in a few hundred encounters the fault.
		{"wrong answer", append(api2, "--oracle", "file:"+folder, "--duration", "3s"), 5, "WRONG"},
		{"not seen", append(api2, "--duration", "300ms"), 0, "0 wrong"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, out, problems := command(t, tc.args...)
			// This process is both server and load tester, and may be too busy.
			if busy := strings.Contains(out, "the generator took"); code != tc.want && !(busy && code == 4) {
				t.Errorf("exit %d, want %d: %s%s", code, tc.want, out, problems)
			}
			if !strings.Contains(out, tc.out) {
				t.Errorf("prints %s, want %q in it", out, tc.out)
			}
			if tc.name == "quiet" && (out != "" || !strings.HasPrefix(problems, "loadtest: threshold p99<1ms FAILED")) {
				t.Errorf("prints %q and %q", out, problems)
			}
		})
	}
}

// TestHold checks that hold prints one sentence on standard output, and nothing else.
func TestHold(t *testing.T) {
	api := market(t, memstore.New())
	api.Break("no-request-id")
	wrong := httptest.NewServer(api)
	defer wrong.Close()
	url := calm(t)
	for _, tc := range []struct {
		name, args string
		want       int
		out        string
	}{
		{"held", "hold --rate 0.02k --duration 500ms --slo p50<10s", 0, "^Held 20/s for 0.5 s: p99 "},
		{"by its other names", "check --rate 20/s --for 500ms", 0, "^Held 20/s for 0.5 s: p99 "},
		{"not held", "hold --rate 20 --for 500ms --slo p50<1ms", 3, "^Did not hold 20/s .*p50<1ms was "},
		{"errors", "hold --rate 20 --for 500ms --target GET_/bad", 3, "^Did not hold .*errors<0.1% was 50 %"},
		{"errors allowed", "hold --rate 20 --for 500ms --target GET_/bad --slo errors<60%", 0, "50 % errors"},
		{"wrong", "hold --url " + wrong.URL + " --key " + api.Key + " --rate 20 --for 500ms", 5, "^WRONG: [0-9]+ "},
		{"aborted", "hold --rate 20 --for 1h --target GET_/bad --abort-on errors>1%", 6, "^Aborted .*errors>1%: 5"},
		{"too slow", "hold --rate 2k --for 300ms --connections 1 --timeout 200ms", 3, "^Did not hold "},
		{"no rate", "hold", 2, "^$"},
		{"no condition", "hold --rate 20 --abort-on quotes:p99>1s", 2, "^$"},
		{"an address", "check --target " + url + " --slo p99<10s --rate 20 --for 500ms", 0, "^Held 20/s for 0.5 s: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := strings.Fields(tc.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "GET_", "GET ")
			}
			if tc.name != "wrong" {
				args = append(args, "--target", "GET /")
			}
			if !strings.Contains(tc.args, "http://") {
				args = append(args, "--url", url)
			}
			code, out, problems := command(t, args...)
			busy := strings.Contains(out, "the generator") && code == 4
			if matches := regexp.MustCompile(tc.out).MatchString(out); !busy &&
				(code != tc.want || !matches || strings.Count(out, "\n") > 1) {
				t.Errorf("exit %d, want %d: %s%s", code, tc.want, out, problems)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	t.Setenv("LOADTEST_URL", calm(t))
	t.Setenv("LOADTEST_STAGES", "100ms:20,100ms:20-40")
	t.Setenv("LOADTEST_TARGET", "GET /a,b")
	t.Setenv("LOADTEST_LABEL", "from the environment")
	code, out, problems := command(
		t, "run", "--out", file("run.json"), "--html", file("run.html"), "--hgrm", file("run.hgrm"))
	if code != 0 && code != 4 {
		t.Fatalf("exit %d: %s%s", code, out, problems)
	}
	r := must.Get(result.Read(file("run.json")))(t)
	if r.Setup.Label != "from the environment" || r.Setup.Stages != "100ms:20,100ms:20-40" ||
		r.Setup.Traffic != "GET /a,b" || r.Exit != code {
		t.Errorf("setup %+v, exit %d", r.Setup, r.Exit)
	}
	for name, want := range map[string]string{"run.html": "<!doctype html>", "run.hgrm": "Percentile"} {
		if b, err := os.ReadFile(file(name)); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, out, _ = command(t, "run", "--out", "-")
	if !json.Valid([]byte(out)) {
		t.Errorf("--out - prints %s", out)
	}
	if code, _, problems := command(
		t, "report", file("run.json"), file("run.json"), "--html", file("again.html")); code != 0 {
		t.Errorf("report: exit %d: %s", code, problems)
	}
	if b, err := os.ReadFile(file("again.html")); err != nil ||
		!strings.Contains(string(b), "B: from the environment") {
		t.Errorf("again.html: %v", err)
	}
	if code, _, problems := command(t, "report", file("run.html")); code != 1 ||
		!strings.Contains(problems, "run.html") {
		t.Errorf("a report of no result: exit %d: %s", code, problems)
	}
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, seed uint64, scale float64) string {
		r := must.Get(fakerun.New(20, seed, scale, false))(t)
		b := must.Get(r.Encode())(t)
		file := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(file, b, 0o600))
		return file
	}
	a, same, slow := write("a.json", 1, 1), write("same.json", 2, 1), write("slow.json", 3, 1.3)
	page := filepath.Join(dir, "compared.html")
	for _, tc := range []struct {
		args []string
		want int
		out  string
	}{
		{[]string{a, same, "--tolerance", "10%"}, 0, "same"},
		{[]string{a, slow, "--tolerance", "10%", "--html", page}, 3, "worse"},
		{[]string{a, slow, "--tolerance", "0.9"}, 0, "same"},
		{[]string{slow, a, "--tolerance", "10%"}, 0, "better"},
		{[]string{a, filepath.Join(dir, "missing.json")}, 1, ""},
	} {
		code, out, problems := command(t, append([]string{"compare"}, tc.args...)...)
		if code != tc.want || !strings.Contains(out, tc.out) {
			t.Errorf("%q: exit %d, want %d: %s%s", tc.args, code, tc.want, out, problems)
		}
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "What changed from A to B") {
		t.Errorf("report: %v", err)
	}
}

func TestCapacityCommand(t *testing.T) {
	url, page := calm(t), filepath.Join(t.TempDir(), "capacity.html")
	args := []string{"capacity", "--url", url, "--connections", "4", "--slo", "p50<2s", "--step", "500ms", "--traffic",
		"100000", "--html", page}
	code, out, problems := command(t, append(args, "--target", "GET /", "--json")...)
	var c struct {
		Found  bool   `json:"found"`
		Why    string `json:"why"`
		Needed int    `json:"nodes_needed"`
	}
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatalf("%v: %s%s", err, out, problems)
	}
	// On a busy machine, the search may find no capacity; then it states no number of nodes.
	if c.Found != (code == 0) || c.Found == (code == 4) || c.Found != (c.Needed > 100) || c.Found == (c.Why != "") {
		t.Errorf("exit %d: %s%s", code, out, problems)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "Steps of the search") {
		t.Errorf("report: %v", err)
	}
	code, out, problems = command(t, append(args, "--target", "GET /bad")...)
	if code != 4 || !strings.HasPrefix(out, "No capacity was found: ") || strings.Contains(out, "nodes") {
		t.Errorf("exit %d: %s%s", code, out, problems)
	}
}

func TestLiveLine(t *testing.T) {
	var b, logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	s := &screen{w: &b, width: 85, log: log}
	h := engine.NewHistogram()
	must.OK(t, h.RecordValue(int64(1500*time.Microsecond)))
	p := &loadtest.Progress{Wrong: 7, Left: 298 * time.Second, Interval: &engine.Interval{
		Start: time.Second, End: 2 * time.Second, Sent: 1234, Failed: 5, Due: h}}
	s.tick(p)
	line := b.String()
	for _, want := range []string{"4m58s left", "1234/s", "p50 1.5 ms", "p99 1.5 ms", "errors 5 ", "wrong 7 "} {
		if !strings.Contains(line, want) {
			t.Errorf("live line %q, want %q in it", line, want)
		}
	}
	if len([]rune(line)) > 85+len("\r\x1b[K") {
		t.Errorf("live line %q is too long", line)
	}
	s.clear()
	s.clear()
	if got := strings.TrimPrefix(b.String(), line); got != "\r\x1b[K" {
		t.Errorf("cleared with %q", got)
	}
	s.tick(p)
	b.Reset()
	s.warn("much is 429")
	if b.String() != "\r\x1b[K" || !strings.Contains(logged.String(), `level=WARN msg="much is 429"`) {
		t.Errorf("warned with %q and %q", &b, &logged)
	}
	file := newScreen(&b, log)
	b.Reset()
	logged.Reset()
	for range 2 { // runs
		for i := range 25 {
			p.Start, p.End = time.Duration(i)*time.Second, time.Duration(i+1)*time.Second
			file.tick(p)
		}
	}
	file.show("x")
	file.clear()
	if lines := strings.Count(logged.String(), "\n"); b.Len() > 0 || lines != 4 ||
		!strings.Contains(logged.String(), `rate=1234 p50="1.5 ms" p99="1.5 ms" errors=5`) {
		t.Errorf("on no terminal: %q and the log %s", &b, &logged)
	}
}
