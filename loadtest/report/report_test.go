package report

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/fakerun"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/result"
)

func run(t *testing.T, seconds int, scale float64, bad bool) *result.Run {
	t.Helper()
	return must.Get(fakerun.New(seconds, 1, scale, bad))(t)
}

// pages returns a report of every kind.
func pages(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	add := func(name string, b []byte, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = b
	}
	good := run(t, 60, 0.4, false)
	b, err := HTML(good)
	add("good", b, err)
	bad := run(t, 20, 3, true)
	value := 31.5
	bad.Thresholds = []result.Threshold{
		{Expression: "p99<5ms", Value: &value, Unit: "ms", Samples: 10}, {Expression: "chains:p50<1ms", Unit: "ms"}}
	bad.Validity = result.Validity{Reasons: []string{"send lag p99 is 3 ms, above 1 ms: <because>"}}
	bad.Interrupted, bad.Setup.Label = true, "a <b>label</b>"
	b, err = HTML(bad)
	add("bad", b, err)
	closed := run(t, 1, 1, false)
	closed.Setup.Mode, closed.Setup.Stages, closed.Setup.Arrivals = "closed", "", ""
	b, err = HTML(closed)
	add("closed", b, err)
	b, err = HTML(good, bad, closed)
	add("three", b, err)
	c := must.Get(result.Compare(good, bad, 0.05))(t)
	b, err = CompareHTML(c)
	add("compared", b, err)
	search := &loadtest.Capacity{Found: true, Rate: 470, Limit: 500, Closed: 510, Nodes: 1, Tries: []loadtest.Try{
		{Connections: 64, Rate: 510, Verdict: loadtest.Held, Run: closed}, {Rate: 500, Verdict: loadtest.Failed,
			Why: "p99<5ms was 6 ms", Run: bad}, {Rate: 470, Verdict: loadtest.Held, Run: good},
	}}
	b, err = CapacityHTML(search)
	add("capacity", b, err)
	warm := run(t, 20, 1, false)
	warm.Setup.WarmupS = 10
	b, err = HTML(warm)
	add("warm", b, err)
	empty := run(t, 0, 1, false)
	empty.Setup.Stages = "not stages"
	b, err = HTML(empty)
	add("empty", b, err)
	return all
}

func TestPages(t *testing.T) {
	all := pages(t)
	for name, want := range map[string][]string{
		"good": {
			"Held 400/s to 600/s for 60 s: p99 ", "no errors, no wrong answers.", "what is shown is the service",
			"Latency over time", "Latency by percentile", "Requests over time", "By endpoint",
			"What the words mean", "the send lag&#39;s p99 was at most 1 ms",
			"snapshot 2026-11-01T12:00:00Z first seen at 30 s", ">quotes<", "p99.9", ">events, late<",
			"30 of 30 open at the end, 31 opened; 61 events, 0 missed, 0 early; failures: ended: 1"},
		"bad": {
			"WRONG: 1 wrong answer at 400/s to 600/s, interrupted after 20 s.", "&lt;because&gt;", "Wrong answers",
			"&lt;script&gt;alert(1)&lt;/script&gt;", "failed</b>",
			"the latency from due that 99 % of the requests do not exceed is below 5ms", "31.5 ms", "nothing",
			"timeout: "},
		"closed":   {"Closed loop: maximum throughput."},
		"compared": {"What changed from A to B", "worse", "B: a &lt;b&gt;label&lt;/b&gt;: <b class=\"bad\">WRONG: 1 wrong"},
		"capacity": {"500/s was too much, and a closed run was answered 510/s", "closed, 64 connections",
			"failed</b>: p99&lt;5ms was 6 ms", "Latency over time"},
		"empty": {"Failed: none of 0 requests was answered as it should be."},
		"warm":  {">warm-up</text>", "10 s to 11 s: 500 answers", "9 s to 10 s\nprocessors"},
	} {
		for _, w := range want {
			if !strings.Contains(string(all[name]), w) {
				t.Errorf("%s has no %q", name, w)
			}
		}
	}
	// The plots do not show the warm-up, which is not counted, as zero.
	for _, absent := range []string{"9 s to 10 s: ", "9 s to 10 s\nanswered"} {
		if strings.Contains(string(all["warm"]), absent) {
			t.Errorf("the warm-up has %q", absent)
		}
	}
	if strings.Contains(string(all["good"]), `class="warmup"`) {
		t.Error("a run without a warm-up has one")
	}
	// The reports load no resources, run no scripts, and contain no malformed numbers.
	for name, b := range all {
		for _, bad := range []string{
			`<script`, ` src=`, `url(`, `@import`, `NaN`, `Inf`, `<b>label`, `ZgotmplZ`, `%!`} {
			if strings.Contains(string(b), bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
		for _, href := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(string(b), -1) {
			if !strings.HasPrefix(href[1], "data:") {
				t.Errorf("%s refers to %s", name, href[1])
			}
		}
	}
}

func TestTicks(t *testing.T) {
	join := func(ticks []tick) string {
		var parts []string
		for _, tk := range ticks {
			parts = append(parts, tk.label)
		}
		return strings.Join(parts, " ")
	}
	for most, want := range map[float64]string{0: "0 0.2 0.4 0.6 0.8 1", 1: "0 0.2 0.4 0.6 0.8 1", 7: "0 2 4 6 8",
		19000: "0 5000 10k 15k 20k", 100: "0 20 40 60 80 100"} {
		ticks, end := linearTicks(most, 5, thousands)
		if got := join(ticks); got != want || end < most {
			t.Errorf("linear to %v: %s, end %v", most, got, end)
		}
	}
	for r, want := range map[[2]float64]string{{0.2, 900}: "100 µs 1 ms 10 ms 100 ms 1 s",
		{0.9, 1.5}: "500 µs 1 ms 2 ms 5 ms", {0, 0}: "100 µs 200 µs 500 µs 1 ms"} {
		ticks, lo, hi := logTicks(r[0], r[1], result.Millis)
		if got := join(ticks); got != want || lo > max(r[0], 0.1) || hi < r[1] {
			t.Errorf("logarithmic %v: %s, %v to %v", r, got, lo, hi)
		}
	}
}

func TestPath(t *testing.T) {
	p := &plot{Lines: []line{{x: []float64{0, 1, 2, 3, 4}, y: []float64{1, 2, math.NaN(), 3, math.NaN()}}}}
	p.timeAxis(4)
	p.countAxis("n", 4, thousands)
	p.draw()
	if n := strings.Count(string(p.SVG), "M"); !strings.Contains(string(p.SVG), "h2") || n == 0 {
		t.Errorf("a point by itself is not seen: %s", p.SVG)
	}
	if strings.Contains(string(p.SVG), "NaN") {
		t.Error("a gap is drawn")
	}
}

func TestFigures(t *testing.T) {
	for got, want := range map[string]string{
		result.Millis(0): "0", result.Millis(0.0421): "42.1 µs", result.Millis(0.9): "900 µs",
		result.Millis(1.5):   "1.5 ms",
		result.Millis(123.4): "123 ms", result.Millis(61000): "61 s",
		result.Seconds(90): "90 s", result.Seconds(180): "3 min", result.Seconds(7200): "2 h",
		thousands(12345): "12.3k", thousands(9999): "9999",
		group("1234567"): "1\u202f234\u202f567", group("123"): "123",
		value(0.00123, "share"): "0.123 %", value(12, "requests/s"): "12 requests/s",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// requireBrowser is the environment variable that, if set to 1, makes a test fail instead of skip if there is
// no Chromium.
const requireBrowser = "MARKETDATA_REQUIRE_BROWSER"

// chromium returns the path of a Chromium. If there is none, it skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{
		os.Getenv("CHROMIUM"), "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	const why = "no Chromium on the path, nor one named by CHROMIUM: the report is not opened in a browser"
	if os.Getenv(requireBrowser) == "1" {
		t.Fatal(why)
	}
	t.Skipf("%s (%s=1 makes this fail)", why, requireBrowser)
	return ""
}

// TestBrowser opens reports in a real browser, in the widths of a phone and of a desktop screen. The picture
// is not empty, and the console has no messages. The page's Content-Security-Policy refuses all requests, so
// a request would cause a message.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the report is not opened in a browser")
	}
	browser, dir, all := chromium(t), t.TempDir(), pages(t)
	const guilty = "guilty"
	all[guilty] = bytes.Replace(all["good"], []byte("<h1>"), []byte(`<img src="http://127.0.0.1:9/x.png"><h1>`), 1)
	for _, name := range []string{"good", "bad", "compared", guilty} {
		page, shot := filepath.Join(dir, name+".html"), filepath.Join(dir, name+".png")
		must.OK(t, os.WriteFile(page, all[name], 0o600))
		for _, size := range []string{"390,2400", "1280,1600"} {
			cmd := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
				"--user-data-dir="+filepath.Join(dir, "profile"),
				"--hide-scrollbars", "--window-size="+size, "--screenshot="+shot, "file://"+page)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v: %s", name, err, out)
			}
			if strings.Contains(string(out), "CONSOLE") != (name == guilty) {
				t.Errorf("%s: on the console: %s", name, out)
			}
			if st, err := os.Stat(shot); err != nil || st.Size() < 20_000 {
				t.Errorf("%s: picture %v, %v", name, st, err)
			}
		}
	}
}
