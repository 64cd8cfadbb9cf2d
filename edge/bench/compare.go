package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

type bench struct {
	*runCmd
	work    string
	servers []*server
	key     string
	page    string // how large it is
	rows    []row
}

// skipped reports a comparison that was not asked for.
func (b *bench) skipped(what string) bool { return b.Only != "" && !strings.Contains(what, b.Only) }

// load is one kind of request to one server.
type load struct {
	name    string
	server  *server
	query   question
	headers map[string]string
}

// figures are what one round of a load gave.
type figures struct {
	busy     float64       // the part of the time that the server was working
	cpu      time.Duration // of the server, per request
	rate     float64       // requests a second
	p50, p99 time.Duration
}

// row is one of the report.
type row struct {
	what, measured, beside string
	ratio                  float64 // 0: there is none
	target                 string
	met                    bool
}

// none is the target of a comparison that only explains the others.
const none = 0

// compare measures two loads in turn, round by round, and reports the CPU time per
// request of the first one divided by that of the second.
func (b *bench) compare(ctx context.Context, what string, target float64, loads ...load) error {
	if b.skipped(what) {
		return nil
	}
	if _, err := b.measure(ctx, time.Second, 0, loads...); err != nil { // warm
		return err
	}
	rounds := make([][]figures, len(loads))
	var ratios []float64 // of each round, in which both sides saw the same machine
	for round := range b.Rounds {
		f, err := b.saturated(ctx, round+1, loads...)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		for i := range loads {
			rounds[i] = append(rounds[i], f[i])
		}
		ratios = append(ratios, float64(f[0].cpu)/float64(f[1].cpu))
	}
	slices.Sort(ratios)
	measured, beside := median(rounds[0]), median(rounds[1])
	r := row{what: what, measured: fmt.Sprintf("%.1f µs", us(measured.cpu)), beside: fmt.Sprintf("%.1f µs", us(beside.cpu)), ratio: ratios[len(ratios)/2]}
	if target != none {
		r.target, r.met = fmt.Sprintf("≤ %.2f", target), r.ratio <= target
	}
	b.rows = append(b.rows, r)
	for i, m := range []figures{measured, beside} {
		fmt.Printf("%-58s %-24s %7.2f µs  %8.0f/s  p50 %8v  p99 %8v\n", what, loads[i].name, us(m.cpu), m.rate, m.p50, m.p99)
	}
	fmt.Printf("%-58s ratio %.3f (half of the rounds: %.3f to %.3f), target %s\n", what, r.ratio, ratios[len(ratios)/4], ratios[len(ratios)*3/4], cmp.Or(r.target, "none"))
	return nil
}

// saturated measures loads that keep their servers busy. A server that waits now
// and then pays for going to sleep and waking up with every request, which says
// more about who disturbed the load than about the server: such a round is
// measured again, a few times.
func (b *bench) saturated(ctx context.Context, round int, loads ...load) (best []figures, err error) {
	const busy, attempts = 0.95, 4
	most := 0.0
	for attempt := range attempts {
		f, err := b.measure(ctx, b.Duration, round+attempt*b.Rounds, loads...)
		if err != nil {
			return nil, err
		}
		least := f[0].busy
		for i := range f {
			least = min(least, f[i].busy)
		}
		if best == nil || least > most {
			best, most = f, least
		}
		if most >= busy {
			break
		}
	}
	return best, nil
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func median(fs []figures) figures {
	by := func(value func(figures) float64) float64 {
		v := make([]float64, len(fs))
		for i := range fs {
			v[i] = value(fs[i])
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return figures{
		cpu:  time.Duration(by(func(f figures) float64 { return float64(f.cpu) })),
		rate: by(func(f figures) float64 { return f.rate }),
		p50:  time.Duration(by(func(f figures) float64 { return float64(f.p50) })),
		p99:  time.Duration(by(func(f figures) float64 { return float64(f.p99) })),
	}
}

// measure asks the servers of loads in turn, each for d in all.
func (b *bench) measure(ctx context.Context, d time.Duration, seed int, loads ...load) ([]figures, error) {
	spec := pollSpec{Seed: uint64(seed), Duration: d}
	before := make([]time.Duration, len(loads))
	for i, l := range loads {
		spec.Sides = append(spec.Sides, pollSide{Addr: l.server.addr, Headers: l.headers, Query: l.query})
		var err error
		if before[i], err = cpu(l.server.worker); err != nil {
			return nil, err
		}
	}
	in, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(b.Client), self, "poll")
	cmd.Env, cmd.Stdin = append(os.Environ(), "GOMAXPROCS=1"), bytes.NewReader(in)
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return nil, fmt.Errorf("poll: %w: %s", err, failed.Stderr)
	}
	if err != nil {
		return nil, err
	}
	var polled []pollFigures
	if err := json.Unmarshal(out, &polled); err != nil {
		return nil, err
	}
	f := make([]figures, len(loads))
	for i, p := range polled {
		after, err := cpu(loads[i].server.worker)
		if err != nil {
			return nil, err
		}
		f[i] = figures{cpu: (after - before[i]) / time.Duration(p.Requests), rate: float64(p.Requests) / p.Seconds, p50: p.P50, p99: p.P99}
		f[i].busy = f[i].cpu.Seconds() * f[i].rate
	}
	return f, nil
}

func (b *bench) store(name string) string { return "file:" + filepath.Join(b.work, "store-"+name) }

// market builds a simulated market into a store of its own, makes a key without
// a limit worth the name, and starts an edge over it.
func (b *bench) market(ctx context.Context, name string, assets int, extra ...string) (*server, *response, error) {
	store := b.store(name)
	if _, err := os.Stat(strings.TrimPrefix(store, "file:")); err != nil {
		fmt.Printf("building a market of %d assets\n", assets)
		if out, err := exec.CommandContext(ctx, filepath.Join(b.Bin, "builder"), "build", "--source", fmt.Sprintf("sim:?assets=%d&seed=1", assets), "--store", store).CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("builder build: %w\n%s", err, out)
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(b.Bin, "builder"), "keys", "create", "--store", store, "--name", "bench", "--rate", "1000000", "--burst", "1000000", "--json").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("builder keys create: %w", err)
	}
	var key struct{ Key string }
	if err := json.Unmarshal(out, &key); err != nil {
		return nil, nil, err
	}
	b.key = key.Key
	s, err := b.edge(ctx, name, store, extra...)
	if err != nil {
		return nil, nil, err
	}
	held, err := b.held(s.addr, "/openapi/v1/quotes?page=3")
	if err != nil {
		return nil, nil, err
	}
	return s, held, b.names(s.addr, name, assets)
}

// edge starts an edge and waits until it has its whole snapshot.
func (b *bench) edge(ctx context.Context, name, store string, extra ...string) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	args := append([]string{filepath.Join(b.Bin, "edge"), "--store", store, "--listen", addr, "--admin", admin, "--cache-dir", filepath.Join(b.work, "cache-"+name), "--drain-wait", "0s"}, extra...)
	s, err := b.start(ctx, "edge-"+name, addr, nil, args...)
	if err != nil {
		return nil, err
	}
	return s, complete(ctx, admin)
}

// held asks until the edge holds the answer, and returns it.
func (b *bench) held(addr, path string) (res *response, err error) {
	for range 50 {
		if res, err = capture(addr, path, b.auth()); err != nil || strings.HasPrefix(res.header("Cache-Status"), "edge; hit") {
			break
		}
	}
	return res, err
}

func (b *bench) auth() map[string]string { return map[string]string{"X-Api-Key": b.key} }

// complete waits until the edge has every object of its snapshot.
func complete(ctx context.Context, admin string) error {
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		res, err := http.Get("http://" + admin + "/status")
		if err != nil {
			continue
		}
		var status struct {
			Sequence uint64
			Caches   struct {
				Missing *int64 `json:"missing_objects"`
			}
		}
		err = json.NewDecoder(res.Body).Decode(&status)
		_ = res.Body.Close()
		if err == nil && res.StatusCode == http.StatusOK && status.Sequence > 0 && status.Caches.Missing != nil && *status.Caches.Missing == 0 {
			return nil
		}
	}
	return fmt.Errorf("the edge at %s has not fetched its snapshot", admin)
}

// names writes the ids, slugs and symbols of up to some thousand quotes for the
// load, asked of the edge.
func (b *bench) names(addr, name string, assets int) error {
	f, err := os.Create(b.namesFile(name))
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for i := range 60 {
		res, err := capture(addr, fmt.Sprintf("/openapi/v1/quotes?limit=100&offset=%d", i*min(assets, 90_000)/60), b.auth())
		if err != nil {
			return err
		}
		var l struct {
			Result struct {
				Items []struct {
					ID           uint64
					Slug, Symbol string
				}
			}
		}
		if err := json.Unmarshal(res.body, &l); err != nil {
			return err
		}
		for _, x := range l.Result.Items {
			if plain(x.Slug) && plain(x.Symbol) {
				fmt.Fprintf(w, "%d\t%s\t%s\n", x.ID, x.Slug, x.Symbol)
			}
		}
	}
	return w.Flush()
}

// slug returns one that names wrote, of one row.
func (b *bench) slug(name string) (string, error) {
	text, err := os.ReadFile(b.namesFile(name))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(line, "\t"); len(fields) == 3 && strings.Count(string(text), "\t"+fields[1]+"\t") == 1 {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s: no slug of one row", b.namesFile(name))
}

func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("%&+,#?\"", r) })
}

func (b *bench) namesFile(name string) string { return filepath.Join(b.work, "names-"+name) }

// bare starts a bare fasthttp that sends res, from one of so many copies.
func (b *bench) bare(ctx context.Context, name string, res *response, copies int) (*server, error) {
	file := filepath.Join(b.work, "response-"+name)
	if err := os.WriteFile(file, res.raw, 0o644); err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return b.start(ctx, "bare-"+name, addr, nil, self, "bare", "--listen", addr, "--response", file, "--copies", strconv.Itoa(copies))
}

func (b *bench) run(ctx context.Context) error {
	small, held, err := b.market(ctx, "small", b.Assets)
	if err != nil {
		return err
	}
	b.page = fmt.Sprintf("%s bytes and %d of head", thousands(len(held.body)), len(held.raw)-len(held.body))
	fmt.Printf("answer: %d bytes of body, %d of head; with key check, limit, request id, metrics, default logging:\n%s\n\n",
		len(held.body), len(held.raw)-len(held.body), bytes.TrimSpace(bytes.TrimSuffix(held.raw, held.body)))
	const listing = "/openapi/v1/quotes"
	one, row := question{Path: listing + "?page=3"}, question{Path: listing + "?limit=1"}
	pages := question{Kind: "pages", Path: listing, Max: b.Assets * 9 / 10}
	// Held answers that are asked for in the words of those that are not: a longer
	// query costs the same whether its answer is held or not.
	page := question{Path: fmt.Sprintf("%s?offset=%d&limit=20&sort=name:desc", listing, pages.Max/2)}
	several := question{Kind: "held", Path: listing, Max: pages.Max}
	rows := question{Kind: "rows", Path: listing, File: b.namesFile("small")}

	// Two edges, so that each side of a comparison has a process of its own.
	other, err := b.edge(ctx, "other", b.store("small"))
	if err != nil {
		return err
	}
	auth := b.auth() // of this market: the next ones have their own
	edge := func(name string, q question) load { return load{"edge, " + name, small, q, auth} }
	beside := func(name string, q question) load { return load{"edge, " + name, other, q, auth} }
	bare, err := b.bare(ctx, "held", held, 1)
	if err != nil {
		return err
	}
	plain := load{"bare fasthttp", bare, one, b.auth()}
	if err := b.compare(ctx, "a cached page, beside bare fasthttp", 1.02, edge("held", one), plain); err != nil {
		return err
	}
	if !b.Short {
		// The best of nginx's ways is the one that counts.
		for _, way := range []struct{ name, options string }{
			{"nginx with a file", "sendfile on; tcp_nopush on;"}, {"nginx without sendfile", "sendfile off;"}, {"nginx with sendfile alone", "sendfile on;"},
		} {
			what := "a cached page, beside " + way.name
			if b.skipped(what) {
				continue
			}
			nginx, err := b.nginx(ctx, held, way.options)
			if err != nil {
				return err
			}
			err = b.compare(ctx, what, 1.00, edge("held", one), load{"nginx", nginx, one, b.auth()})
			b.end(nginx)
			if err != nil {
				return err
			}
		}
	}
	// The next two say what it costs that an answer's bytes are not in the core's
	// own cache: that of finding and copying rows is the rest of the third, and in the fourth
	// by itself.
	copies, err := b.bare(ctx, "copies", held, heldPages)
	if err != nil {
		return err
	}
	if err := b.compare(ctx, fmt.Sprintf("bare fasthttp with %s copies of the page in turn, beside one", thousands(heldPages)), none,
		load{"bare fasthttp, copies", copies, one, b.auth()}, plain); err != nil {
		return err
	}
	if err := b.compare(ctx, fmt.Sprintf("%s cached pages in turn, beside one", thousands(heldPages)), none, edge("many held", several), beside("held", one)); err != nil {
		return err
	}
	if err := b.compare(ctx, "a new page, beside a cached one", 1.25, edge("never asked before", pages), beside("held", page)); err != nil {
		return err
	}
	if err := b.compare(ctx, "a new page, beside a cached one of a shorter query", none, edge("never asked before", pages), beside("held", one)); err != nil {
		return err
	}
	if err := b.compare(ctx, fmt.Sprintf("a new page, beside %s cached ones in turn", thousands(heldPages)), none, edge("never asked before", pages), beside("many held", several)); err != nil {
		return err
	}
	oneRow, err := b.held(small.addr, row.Path)
	if err != nil {
		return err
	}
	bareRow, err := b.bare(ctx, "row", oneRow, 1)
	if err != nil {
		return err
	}
	if err := b.compare(ctx, "a cached row, beside bare fasthttp", 1.02, edge("one row", row), load{"bare fasthttp", bareRow, row, b.auth()}); err != nil {
		return err
	}
	named, err := b.slug("small")
	if err != nil {
		return err
	}
	if err := b.compare(ctx, "new ids, slugs or symbols, beside a cached row", 1.25,
		edge("never asked before", rows), beside("held", question{Path: listing + "?slug=" + named + "&limit=50"})); err != nil {
		return err
	}
	if err := b.compare(ctx, "new ids, slugs or symbols, beside a cached row of a shorter query", none, edge("never asked before", rows), beside("held", row)); err != nil {
		return err
	}
	conditional := map[string]string{"X-Api-Key": b.key, "If-None-Match": held.header("ETag")}
	not, err := capture(small.addr, one.Path, conditional)
	if err != nil {
		return err
	}
	bareNot, err := b.bare(ctx, "304", not, 1)
	if err != nil {
		return err
	}
	if err := b.compare(ctx, "a 304, beside bare fasthttp", 1.05,
		load{"edge, 304", small, one, conditional}, load{"bare fasthttp", bareNot, one, conditional}); err != nil {
		return err
	}
	if err := b.idle(ctx, 10_000); err != nil {
		return err
	}
	fresh := edge(fmt.Sprintf("%d assets", b.Assets), pages)
	if err := b.swaps(ctx); err != nil {
		return err
	}
	if !b.Short {
		if err := b.starts(ctx); err != nil {
			return err
		}
	}
	if !b.Short && b.Large > 0 {
		if err := b.large(ctx, fresh); err != nil {
			return err
		}
	}
	return b.report()
}

// idle looks at what connections cost that have had an answer and wait.
func (b *bench) idle(ctx context.Context, n int) error {
	what := fmt.Sprintf("memory of %s idle connections", thousands(n))
	if b.skipped(what) {
		return nil
	}
	s, err := b.edge(ctx, "idle", b.store("small"), "--max-conns-per-address", strconv.Itoa(n+100))
	if err != nil {
		return err
	}
	defer b.end(s)
	if _, err := b.held(s.addr, "/openapi/v1/quotes?page=3"); err != nil {
		return err
	}
	before, err := rss(s.worker)
	if err != nil {
		return err
	}
	request := []byte("GET /openapi/v1/quotes?page=3 HTTP/1.1\r\nHost: edge\r\nX-Api-Key: " + b.key + "\r\n\r\n")
	for range n {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write(request); err != nil {
			return err
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return err
		}
	}
	after, err := rss(s.worker)
	if err != nil {
		return err
	}
	b.single(row{what: what, measured: fmt.Sprintf("%d MiB", (after-before)>>20), target: "≤ 60 MiB", met: after-before <= 60<<20})
	return nil
}

// large compares the market of a million with the small one, and looks at
// memory.
func (b *bench) large(ctx context.Context, small load) error {
	large, _, err := b.market(ctx, "large", b.Large, "--cache-size", "256MiB")
	if err != nil {
		return err
	}
	if err := b.compare(ctx, fmt.Sprintf("a new page of %s assets, beside one of %s", thousands(b.Large), thousands(b.Assets)), 1.15,
		// The same window of the listing: its shards fit the cache.
		load{fmt.Sprintf("edge, %d assets", b.Large), large, small.query, b.auth()}, small); err != nil {
		return err
	}
	memory, err := rss(large.worker)
	if err != nil {
		return err
	}
	b.single(row{what: fmt.Sprintf("resident memory at %s assets, `--cache-size 256MiB`", thousands(b.Large)),
		measured: fmt.Sprintf("%d MiB", memory>>20), target: "≤ 600 MiB", met: memory <= 600<<20})
	return nil
}
