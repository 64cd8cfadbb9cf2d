// Command bench-peers compares loadtest with wrk and k6, side by side: the same
// servers, the same connections, one after the other, in several rounds, each in
// a closed loop. It is what `make bench-loadtest` runs. wrk and k6 are taken from
// the path; one that is not there is left out.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/lab/benchdoc"
	"example.com/marketdata/internal/lab/local"
	"example.com/marketdata/loadtest/result"
	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"
	"github.com/valyala/fasthttp"
)

func main() {
	b := &bencher{}
	cmdline.Program{
		Name: "bench-peers", Description: "Compares loadtest with wrk and k6, of those that are installed.", CLI: b,
		Run: func(ctx context.Context, _ *kong.Context, _ *slog.Logger) error {
			if b.Serve != "" {
				return serve(string(b.Serve), b.Delay)
			}
			return b.bench(ctx)
		},
	}.Main()
}

// size is how large the answers of the server are, in bytes, and delayed how
// long it takes for each where the latencies count, not the throughput.
const (
	size    = 4096
	delayed = 5 * time.Millisecond
)

// serve answers every request with the same bytes.
func serve(addr string, delay time.Duration) error {
	body := bytes.Repeat([]byte("x"), size)
	// Each answer is written at once.
	s := &fasthttp.Server{WriteBufferSize: size + 1024, Handler: func(ctx *fasthttp.RequestCtx) {
		if delay > 0 {
			time.Sleep(delay)
		}
		ctx.SetContentType("application/json")
		ctx.Response.SetBodyRaw(body)
	}}
	return s.ListenAndServe(addr)
}

// peer is a tool that is compared.
type peer struct {
	name string
	run  func() (measure, error)
	all  []measure
}

// measure holds a tool's figures of a run, and its cost.
type measure struct {
	rate          float64 // requests a second
	perCPU        float64 // requests for a second of the tool's processor time
	p50, p90, p99 float64 // ms
}

// bencher holds the command line and the results.
type bencher struct {
	Bin         string          `default:"bin" help:"Folder of the builder, edge and loadtest programs."`
	Connections int             `default:"32" help:"Connections."`
	Duration    time.Duration   `default:"3s" help:"How long each run is."`
	Rounds      int             `default:"3" help:"Runs of each tool."`
	Out         string          `placeholder:"FILE" help:"Write the report as a document to this file."`
	Serve       cmdline.Address `hidden:"" help:"Be the server, on this address; used by the program itself."`
	Delay       time.Duration   `hidden:"" help:"How long the server takes for each request."`

	dir    string
	report benchdoc.Document
}

const method = `A closed loop of %d connections over loopback; each tool runs alone for %v, in turn; medians of %d rounds. Tool and server share the processors.
*Per CPU-second* is requests over the tool's processor time, user and system; *share* is loadtest's figure over the tool's. Only percentiles of the slow server compare: it takes %v
for each request, so that nobody is short of processors.

Left out: the open loop, which neither of the others has in this form, and TLS.`

func (b *bencher) bench(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "bench-peers"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.report = benchdoc.Document{Title: "The load tester beside wrk and k6", Command: "make bench-loadtest",
		Method:  fmt.Sprintf(method, b.Connections, b.Duration, b.Rounds, delayed),
		Columns: []string{"what", "requests/s", "per CPU-second", "share", "p50", "p90", "p99"}}
	for program, arg := range map[string]string{"wrk": "-v", "k6": "version"} {
		if _, err := exec.LookPath(program); err == nil {
			b.report.Versions = append(b.report.Versions, benchdoc.Version(program, arg))
		}
	}
	slices.Sort(b.report.Versions)
	for _, c := range []struct {
		what  string
		delay time.Duration
	}{{"answers of 4 KiB", 0}, {"a slow server", delayed}} {
		stop, addr, err := b.startServer(ctx, c.delay)
		if err != nil {
			return err
		}
		err = b.compare(c.what, "http://"+addr+"/", 0)
		stop()
		if err != nil {
			return err
		}
	}
	m := local.Machine{Bin: b.Bin, Data: b.dir, Store: "file:" + filepath.Join(b.dir, "store")}
	if _, err := m.Output(
		ctx, "builder", "build", "--source", "sim:?assets=2000&seed=1", "--store", m.Store); err != nil {
		return err
	}
	addr, admin := local.Free("127.0.0.1:0"), local.Free("127.0.0.1:0")
	edge, err := m.Start(
		"edge", "edge", "--store", m.Store, "--auth", "off", "--listen", addr, "--admin", admin, "--drain-wait", "0s")
	if err != nil {
		return err
	}
	defer edge.Stop()
	if err := local.Await(ctx, "http://"+admin+"/readyz", edge); err != nil {
		return err
	}
	row := "http://" + addr + "/openapi/v1/quotes?id=1"
	if err := b.compare("an edge, one row", row, 0); err != nil {
		return err
	}
	if err := b.compare("the same, loadtest checks every answer", row, 1); err != nil {
		return err
	}
	return b.report.Print(b.Out)
}

// compare runs the tools in turn and adds a row for each to the report. loadtest
// checks the given share of the answers, the others none.
func (b *bencher) compare(what, url string, check float64) error {
	peers := []*peer{{name: "loadtest", run: func() (measure, error) { return b.loadtest(url, check) }}}
	for _, p := range []*peer{{name: "wrk", run: func() (measure, error) { return b.wrk(url) }},
		{name: "k6", run: func() (measure, error) { return b.k6(url) }}} {
		if _, err := exec.LookPath(p.name); err != nil {
			fmt.Printf("%s is not on the path and is left out\n", p.name)
			continue
		}
		peers = append(peers, p)
	}
	for range b.Rounds {
		for _, p := range peers {
			m, err := p.run()
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.all = append(p.all, m)
		}
	}
	perCPU := func(m measure) float64 { return m.perCPU }
	own := peers[0].median(perCPU)
	for _, p := range peers {
		share := ""
		if p != peers[0] {
			share = fmt.Sprintf("%.2f", own/p.median(perCPU))
		}
		ms := func(of func(measure) float64) string { return fmt.Sprintf("%.2f ms", p.median(of)) }
		b.report.Rows = append(b.report.Rows, []string{what + ": " + p.name,
			humanize.Comma(int64(p.median(func(m measure) float64 { return m.rate }))),
			humanize.Comma(int64(p.median(perCPU))), share,
			ms(func(m measure) float64 { return m.p50 }), ms(func(m measure) float64 { return m.p90 }),
			ms(func(m measure) float64 { return m.p99 })})
	}
	return nil
}

// startServer runs this program as a server, a process of its own.
func (b *bencher) startServer(ctx context.Context, delay time.Duration) (stop func(), addr string, err error) {
	addr = local.Free("127.0.0.1:0")
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	m := local.Machine{Bin: filepath.Dir(self), Data: b.dir}
	server, err := m.Start("server", filepath.Base(self), "--serve", addr, "--delay", delay.String())
	if err != nil {
		return nil, "", err
	}
	return server.Kill, addr, local.Await(ctx, "http://"+addr, server)
}

// run runs a tool and returns what it printed and its processor time.
func run(name string, args ...string) (string, float64, error) {
	var out, problems bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", 0, fmt.Errorf("%w: %s%s", err, problems.String(), out.String())
	}
	return out.String(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), nil
}

func (b *bencher) loadtest(url string, check float64) (measure, error) {
	file := filepath.Join(b.dir, "run.json")
	args := []string{"run", "--closed", "--quiet", "--target", "GET " + url, "--connections",
		strconv.Itoa(b.Connections), "--duration", b.Duration.String(),
		"--check", strconv.FormatFloat(check, 'g', -1, 64), "--out", file}
	_, cpu, err := run(filepath.Join(b.Bin, "loadtest"), args...)
	if err != nil {
		return measure{}, err
	}
	r, err := result.Read(file)
	if err != nil {
		return measure{}, err
	}
	return measure{r.Rate.Answered, float64(r.Requests.Sent) / cpu, r.Due.P50MS, r.Due.P90MS, r.Due.P99MS}, nil
}

var wrkFigure = regexp.MustCompile(`(?m)^\s*(50%|90%|99%|Requests/sec:)\s+([0-9.]+)(us|ms|s)?|(\d+) requests in`)

func (b *bencher) wrk(url string) (measure, error) {
	args := []string{"-t2", "-c", strconv.Itoa(b.Connections), "-d", b.Duration.String(), "--latency", url}
	out, cpu, err := run("wrk", args...)
	if err != nil {
		return measure{}, err
	}
	var m measure
	for _, f := range wrkFigure.FindAllStringSubmatch(out, -1) {
		if f[4] != "" {
			n, err := strconv.ParseFloat(f[4], 64)
			if err != nil {
				return m, err
			}
			m.perCPU = n / cpu
			continue
		}
		v, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return m, err
		}
		v *= map[string]float64{"us": 1e-3, "ms": 1, "s": 1e3, "": 1}[f[3]]
		*map[string]*float64{"50%": &m.p50, "90%": &m.p90, "99%": &m.p99, "Requests/sec:": &m.rate}[f[1]] = v
	}
	if m.rate == 0 || m.p50 == 0 {
		return m, fmt.Errorf("cannot read %q", out)
	}
	return m, nil
}

const k6Script = `import http from 'k6/http';
export const options = { vus: %d, duration: '%s', summaryTrendStats: ['p(50)', 'p(90)', 'p(99)'] };
export default function () { http.get(%q); }
export function handleSummary(data) { return { stdout: JSON.stringify({ reqs: data.metrics.http_reqs.values, time: data.metrics.http_req_duration.values }) }; }
`

func (b *bencher) k6(url string) (measure, error) {
	script := filepath.Join(b.dir, "k6.js")
	if err := os.WriteFile(script, fmt.Appendf(nil, k6Script, b.Connections, b.Duration, url), 0o600); err != nil {
		return measure{}, err
	}
	out, cpu, err := run("k6", "run", "--quiet", "--no-usage-report", script)
	if err != nil {
		return measure{}, err
	}
	var s struct {
		Reqs struct{ Count, Rate float64 }
		Time map[string]float64
	}
	at := strings.IndexByte(out, '{')
	if at < 0 {
		return measure{}, fmt.Errorf("cannot read %q", out)
	}
	if err := json.Unmarshal([]byte(out[at:]), &s); err != nil {
		return measure{}, fmt.Errorf("cannot read %q: %w", out, err)
	}
	return measure{s.Reqs.Rate, s.Reqs.Count / cpu, s.Time["p(50)"], s.Time["p(90)"], s.Time["p(99)"]}, nil
}

// median returns the median of a figure over a peer's rounds.
func (p *peer) median(of func(measure) float64) float64 {
	var all []float64
	for _, m := range p.all {
		all = append(all, of(m))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
