// Command bench-peers holds loadtest against wrk and k6, side by side: the same
// server, the same connections, one after the other, in several rounds. It
// prints each tool's closed-loop throughput for a second of its own processor
// time, and its latencies. wrk and k6 are taken from the path; one that is not
// there is left out, and said so.
//
//	go run ./loadtest/cmd/bench-peers -duration 5s -rounds 3
//	go run ./loadtest/cmd/bench-peers -delay 2ms   # a steady server, for the latencies
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/valyala/fasthttp"

	"example.com/marketdata/loadtest/result"
)

func main() {
	url := flag.String("url", "", "load this URL instead of a server of its own")
	key := flag.String("key", "", "API key for -url")
	connections := flag.Int("connections", 32, "connections")
	duration := flag.Duration("duration", 5*time.Second, "how long each run is")
	rounds := flag.Int("rounds", 3, "runs of each tool")
	delay := flag.Duration("delay", 0, "how long the server takes for each request")
	size := flag.Int("size", 4096, "bytes of the server's answers")
	check := flag.Float64("check", 0, "share of the answers that loadtest checks; the others check none")
	server := flag.String("serve", "", "be the server, on this address (used by the program itself)")
	flag.Parse()
	var err error
	if *server != "" {
		err = serve(*server, *size, *delay)
	} else {
		err = bench(*url, *key, *check, *connections, *duration, *rounds, *delay, *size)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(1)
	}
}

// serve answers every request with the same bytes.
func serve(addr string, size int, delay time.Duration) error {
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

// measure is what a tool says of a run, and what it took.
type measure struct {
	rate          float64 // requests a second
	perCPU        float64 // requests for a second of the tool's processor time
	p50, p90, p99 float64 // ms
}

type bencher struct {
	url, key, dir string
	check         float64
	connections   int
	duration      time.Duration
}

func bench(url, key string, check float64, connections int, duration time.Duration, rounds int, delay time.Duration, size int) error {
	dir, err := os.MkdirTemp("", "bench-peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if url == "" {
		stop, addr, err := startServer(size, delay)
		if err != nil {
			return err
		}
		defer stop()
		url = "http://" + addr + "/"
	}
	b := &bencher{url, key, dir, check, connections, duration}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "loadtest"), "example.com/marketdata/loadtest/cmd/loadtest")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build loadtest: %w", err)
	}
	peers := []*peer{{name: "loadtest", run: b.loadtest}}
	for _, p := range []*peer{{name: "wrk", run: b.wrk}, {name: "k6", run: b.k6}} {
		if _, err := exec.LookPath(p.name); err != nil {
			fmt.Printf("%s is not on the path and is left out\n", p.name)
			continue
		}
		peers = append(peers, p)
	}
	for range rounds {
		for _, p := range peers {
			m, err := p.run()
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.all = append(p.all, m)
		}
	}
	table(peers)
	return nil
}

// startServer runs this program as a server, a process of its own.
func startServer(size int, delay time.Duration) (stop func(), addr string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	addr = ln.Addr().String()
	ln.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(self, "-serve", addr, "-size", strconv.Itoa(size), "-delay", delay.String())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed, so this is an error
	}
	for range 100 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return stop, addr, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	return nil, "", errors.New("the server did not begin to listen")
}

// exec runs a tool and returns what it printed and its processor time.
func (b *bencher) exec(name string, args ...string) (string, float64, error) {
	var out, problems bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", 0, fmt.Errorf("%w: %s%s", err, problems.String(), out.String())
	}
	return out.String(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), nil
}

func (b *bencher) loadtest() (measure, error) {
	file := filepath.Join(b.dir, "run.json")
	base, path := splitURL(b.url)
	args := []string{"run", "--closed", "--quiet", "--url", base, "--target", "GET " + path, "--connections", strconv.Itoa(b.connections), "--duration", b.duration.String(),
		"--check", strconv.FormatFloat(b.check, 'g', -1, 64), "--out", file}
	if b.key != "" {
		args = append(args, "--key", b.key)
	}
	_, cpu, err := b.exec(filepath.Join(b.dir, "loadtest"), args...)
	if err != nil {
		return measure{}, err
	}
	r, err := result.Read(file)
	if err != nil {
		return measure{}, err
	}
	return measure{r.Rate.Answered, float64(r.Requests.Sent) / cpu, r.Due.P50MS, r.Due.P90MS, r.Due.P99MS}, nil
}

func splitURL(url string) (base, path string) {
	_, rest, _ := strings.Cut(url, "://")
	i := strings.IndexByte(rest, '/')
	if i < 0 {
		return url, "/"
	}
	at := len(url) - len(rest) + i
	return url[:at], url[at:]
}

var wrkFigure = regexp.MustCompile(`(?m)^\s*(50%|90%|99%|Requests/sec:)\s+([0-9.]+)(us|ms|s)?|(\d+) requests in`)

func (b *bencher) wrk() (measure, error) {
	args := []string{"-t2", "-c", strconv.Itoa(b.connections), "-d", b.duration.String(), "--latency", "-H", "X-Api-Key: " + b.key, b.url}
	out, cpu, err := b.exec("wrk", args...)
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
export default function () { http.get(%q, { headers: { 'X-Api-Key': %q } }); }
export function handleSummary(data) { return { stdout: JSON.stringify({ reqs: data.metrics.http_reqs.values, time: data.metrics.http_req_duration.values }) }; }
`

func (b *bencher) k6() (measure, error) {
	script := filepath.Join(b.dir, "k6.js")
	if err := os.WriteFile(script, fmt.Appendf(nil, k6Script, b.connections, b.duration, b.url, b.key), 0o600); err != nil {
		return measure{}, err
	}
	out, cpu, err := b.exec("k6", "run", "--quiet", "--no-usage-report", script)
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

func table(peers []*peer) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer w.Flush()
	fmt.Fprintf(w, "medians of %d\trequests/s\tper CPU-second\tloadtest's share\tp50 ms\tp90 ms\tp99 ms\t\n", len(peers[0].all))
	perCPU := func(m measure) float64 { return m.perCPU }
	own := peers[0].median(perCPU)
	for _, p := range peers {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.2f\t%.3f\t%.3f\t%.3f\t\n", p.name, p.median(func(m measure) float64 { return m.rate }), p.median(perCPU), own/p.median(perCPU),
			p.median(func(m measure) float64 { return m.p50 }), p.median(func(m measure) float64 { return m.p90 }), p.median(func(m measure) float64 { return m.p99 }))
	}
}
