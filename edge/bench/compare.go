package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	rows    []row
}

// skipped reports a comparison that was not asked for.
func (b *bench) skipped(what string) bool { return b.Only != "" && !strings.Contains(what, b.Only) }

// load is one kind of request to one server.
type load struct {
	name    string
	server  *server
	path    string
	headers map[string]string
	script  string // of wrk, in the place of path
}

// figures are what one round of a load gave.
type figures struct {
	busy     float64       // the part of the time that the server was working
	cpu      time.Duration // of the server, per request
	rate     float64       // requests a second
	p50, p99 time.Duration
}

// row is a comparison in the report.
type row struct {
	what   string
	loads  []load
	median []figures
	target string
	ratio  float64
	met    bool
}

// compare measures loads in turn, round by round, and reports the CPU time per
// request of the first one divided by that of the second.
func (b *bench) compare(ctx context.Context, what string, target float64, loads ...load) error {
	if b.skipped(what) {
		return nil
	}
	rounds := make([][]figures, len(loads))
	for i := range loads {
		if _, err := b.measure(ctx, &loads[i], time.Second, 0); err != nil { // warm
			return err
		}
	}
	for round := range b.Rounds {
		for i := range loads {
			f, err := b.saturated(ctx, &loads[i], round+1)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", what, loads[i].name, err)
			}
			rounds[i] = append(rounds[i], f)
		}
	}
	r := row{what: what, loads: loads, target: fmt.Sprintf("≤ %.2f", target)}
	for i := range loads {
		r.median = append(r.median, median(rounds[i]))
	}
	// The ratio of each round, since both its sides saw the same machine.
	var ratios []float64
	for round := range b.Rounds {
		ratios = append(ratios, float64(rounds[0][round].cpu)/float64(rounds[1][round].cpu))
	}
	slices.Sort(ratios)
	r.ratio = ratios[len(ratios)/2]
	r.met = r.ratio <= target
	b.rows = append(b.rows, r)
	for i := range loads {
		m := r.median[i]
		fmt.Printf("%-58s %-24s %7.2f µs  %8.0f/s  p50 %8v  p99 %8v\n", what, loads[i].name, us(m.cpu), m.rate, m.p50, m.p99)
	}
	fmt.Printf("%-58s ratio %.3f, target %s\n", what, r.ratio, r.target)
	return nil
}

// saturated measures a load that keeps the server busy. A server that waits now
// and then pays for going to sleep and waking up with every request, which says
// more about who disturbed the load than about the server: such a round is
// measured again, a few times.
func (b *bench) saturated(ctx context.Context, l *load, round int) (f figures, err error) {
	const busy, attempts = 0.95, 4
	for attempt := range attempts {
		again, err := b.measure(ctx, l, b.Duration, round+attempt*b.Rounds)
		if err != nil {
			return f, err
		}
		if again.busy > f.busy {
			f = again
		}
		if f.busy >= busy {
			break
		}
	}
	return f, nil
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

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in`)
	wrkRate     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkP        = regexp.MustCompile(`(?m)^\s+(50|99)%\s+([\d.]+(?:us|ms|s))`)
	wrkErrors   = regexp.MustCompile(`(Socket errors:.*|Non-2xx or 3xx responses: \d+)`)
)

// connections is how many connections wrk keeps open.
const connections = 32

func (b *bench) measure(ctx context.Context, l *load, d time.Duration, seed int) (figures, error) {
	args := []string{"-c", strconv.Itoa(b.Client), "wrk", "-t1", "-c" + strconv.Itoa(connections), "-d", fmt.Sprintf("%ds", max(1, int(d.Seconds()))), "--latency"}
	for k, v := range l.headers {
		args = append(args, "-H", k+": "+v)
	}
	if l.script != "" {
		args = append(args, "-s", l.script)
	}
	args = append(args, "http://"+l.server.addr+l.path)
	cmd := exec.CommandContext(ctx, "taskset", args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SEED=%d", seed))
	before, err := cpu(l.server.worker)
	if err != nil {
		return figures{}, err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return figures{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	after, err := cpu(l.server.worker)
	if err != nil {
		return figures{}, err
	}
	if e := wrkErrors.Find(out); e != nil {
		return figures{}, fmt.Errorf("wrk: %s", e)
	}
	n, err := strconv.ParseFloat(string(find(wrkRequests, out)), 64)
	if err != nil || n == 0 {
		return figures{}, fmt.Errorf("wrk printed no requests:\n%s", out)
	}
	f := figures{cpu: time.Duration(float64(after-before) / n)}
	if f.rate, err = strconv.ParseFloat(string(find(wrkRate, out)), 64); err != nil {
		return figures{}, fmt.Errorf("wrk printed no rate:\n%s", out)
	}
	f.busy = f.cpu.Seconds() * f.rate
	for _, m := range wrkP.FindAllSubmatch(out, -1) {
		v, err := time.ParseDuration(string(m[2]))
		if err != nil {
			return figures{}, err
		}
		if string(m[1]) == "50" {
			f.p50 = v
		} else {
			f.p99 = v
		}
	}
	return f, nil
}

func find(re *regexp.Regexp, b []byte) []byte {
	if m := re.FindSubmatch(b); m != nil {
		return m[1]
	}
	return nil
}

// The scripts of wrk make their requests before the load begins, and then go
// through them: so every script costs the load's core the same, and what is
// compared differs in what the server does only.
const scriptTail = `
local requests, n = {}, 0
init = function(args)
  math.randomseed(tonumber(os.getenv("SEED")) * 7919 + 1)
  for i = 1, %d do requests[i] = wrk.format("GET", "/openapi/v1/quotes?" .. query()) end
end
request = function()
  n = n %% #requests + 1
  return requests[n]
end
`

// scripted is how many requests a script makes: more than are asked in a round.
const scripted = 200_000

// samePage asks for one page over and over.
const samePage = `
local query = function() return "%s" end
`

// freshPages asks for pages that were not asked for before: 20 rows at random
// offsets in random orders.
const freshPages = `
local sorts = { "id", "id:desc", "name", "name:desc", "symbol", "symbol:desc", "slug", "slug:desc" }
local query = function()
  return "offset=" .. math.random(0, %d) .. "&limit=" .. math.random(18, 22) .. "&sort=" .. sorts[math.random(#sorts)]
end
`

// freshRows asks for the row of one random id, slug or symbol. The limit, which
// changes nothing about the answer but its name, makes the question a new one.
const freshRows = `
local ids, slugs, symbols, times = {}, {}, {}, {}
for line in io.lines("%s") do
  local id, slug, symbol = line:match("^(%%d+)\t(%%S+)\t(%%S+)$")
  ids[#ids + 1], slugs[#slugs + 1], symbols[#symbols + 1] = id, slug, symbol
  times[slug], times[symbol] = (times[slug] or 0) + 1, (times[symbol] or 0) + 1
end
local query = function()
  local i, kind, q = math.random(#ids), math.random(3), "id=" .. ids[math.random(#ids)]
  if kind == 2 and times[slugs[i]] == 1 then q = "slug=" .. slugs[i] end
  if kind == 3 and times[symbols[i]] == 1 then q = "symbol=" .. symbols[i] end
  return q .. "&limit=" .. math.random(100)
end
`

// market builds a simulated market into a store of its own, makes a key without
// a limit worth the name, and starts an edge over it.
func (b *bench) market(ctx context.Context, name string, assets int, extra ...string) (*server, *response, error) {
	store := "file:" + filepath.Join(b.work, "store-"+name)
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
	addr, err := freeAddr()
	if err != nil {
		return nil, nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, nil, err
	}
	args := append([]string{filepath.Join(b.Bin, "edge"), "--store", store, "--listen", addr, "--admin", admin, "--cache-dir", filepath.Join(b.work, "cache-"+name), "--drain-wait", "0s"}, extra...)
	s, err := b.start(ctx, "edge-"+name, addr, nil, args...)
	if err != nil {
		return nil, nil, err
	}
	if err := complete(ctx, admin); err != nil {
		return nil, nil, err
	}
	var held *response
	for range 50 { // until the answer is held
		if held, err = capture(addr, "/openapi/v1/quotes?page=3", b.auth()); err != nil {
			return nil, nil, err
		}
		if strings.HasPrefix(held.header("Cache-Status"), "edge; hit") {
			break
		}
	}
	return s, held, b.names(addr, name, assets)
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

func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("%&+,#?\"", r) })
}

func (b *bench) namesFile(name string) string { return filepath.Join(b.work, "names-"+name) }

// script writes a script of wrk with the given query function.
func (b *bench) script(name, body string) (string, error) {
	file := filepath.Join(b.work, name+".lua")
	return file, os.WriteFile(file, fmt.Appendf([]byte(body), scriptTail, scripted), 0o644)
}

// bare starts a bare fasthttp that sends res.
func (b *bench) bare(ctx context.Context, name string, res *response) (*server, error) {
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
	return b.start(ctx, "bare-"+name, addr, nil, self, "bare", "--listen", addr, "--response", file)
}

func (b *bench) run(ctx context.Context) error {
	small, held, err := b.market(ctx, "small", b.Assets)
	if err != nil {
		return err
	}
	fmt.Printf("answer: %d bytes of body, %d of head; with key check, limit, request id, metrics, default logging:\n%s\n\n",
		len(held.body), len(held.raw)-len(held.body), bytes.TrimSpace(bytes.TrimSuffix(held.raw, held.body)))
	const heldPath, rowPath = "/openapi/v1/quotes?page=3", "/openapi/v1/quotes?limit=1"
	edge := load{"edge, held", small, heldPath, b.auth(), ""}
	bare, err := b.bare(ctx, "held", held)
	if err != nil {
		return err
	}
	if err := b.compare(ctx, "held answer, against bare fasthttp", 1.10, edge, load{"bare fasthttp", bare, heldPath, b.auth(), ""}); err != nil {
		return err
	}
	if !b.Short {
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		nginx, err := b.nginx(ctx, addr, held)
		if err != nil {
			return err
		}
		if err := b.compare(ctx, "held answer, against nginx with a file", 1.00, edge, load{"nginx", nginx, heldPath, b.auth(), ""}); err != nil {
			return err
		}
	}
	page, err := b.script("pages", fmt.Sprintf(freshPages, b.Assets*9/10))
	if err != nil {
		return err
	}
	// With the key of this market: the next ones have their own.
	fresh := load{fmt.Sprintf("edge, %d assets", b.Assets), small, "/", b.auth(), page}
	same, err := b.script("same-page", fmt.Sprintf(samePage, "page=3"))
	if err != nil {
		return err
	}
	if err := b.compare(ctx, "pages never asked before, against a held one", 1.25,
		load{"edge, never asked before", small, "/", b.auth(), page}, load{"edge, held", small, "/", b.auth(), same}); err != nil {
		return err
	}
	one, err := capture(small.addr, rowPath, b.auth())
	for range 50 { // until the answer is held
		if err != nil {
			return err
		}
		one, err = capture(small.addr, rowPath, b.auth())
	}
	if err != nil {
		return err
	}
	bareOne, err := b.bare(ctx, "one", one)
	if err != nil {
		return err
	}
	if err := b.compare(ctx, "held answer of one row, against bare fasthttp", 1.20,
		load{"edge, one row", small, rowPath, b.auth(), ""}, load{"bare fasthttp", bareOne, rowPath, b.auth(), ""}); err != nil {
		return err
	}
	rows, err := b.script("rows", fmt.Sprintf(freshRows, b.namesFile("small")))
	if err != nil {
		return err
	}
	sameRow, err := b.script("same-row", fmt.Sprintf(samePage, "limit=1"))
	if err != nil {
		return err
	}
	if err := b.compare(ctx, "ids, slugs, symbols never asked before, against a held row", 1.25,
		load{"edge, never asked before", small, "/", b.auth(), rows}, load{"edge, held", small, "/", b.auth(), sameRow}); err != nil {
		return err
	}
	conditional := map[string]string{"X-Api-Key": b.key, "If-None-Match": held.header("ETag")}
	not, err := capture(small.addr, "/openapi/v1/quotes?page=3", conditional)
	if err != nil {
		return err
	}
	bareNot, err := b.bare(ctx, "304", not)
	if err != nil {
		return err
	}
	if err := b.compare(ctx, "304 of a held answer, against bare fasthttp", 1.20,
		load{"edge, 304", small, "/openapi/v1/quotes?page=3", conditional, ""}, load{"bare fasthttp", bareNot, heldPath, conditional, ""}); err != nil {
		return err
	}
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

// large compares the market of a million with the small one, and looks at
// memory.
func (b *bench) large(ctx context.Context, small load) error {
	large, _, err := b.market(ctx, "large", b.Large, "--cache-size", "256MiB")
	if err != nil {
		return err
	}
	// A window of the listing that fits the cache.
	script, err := b.script("pages-large", fmt.Sprintf(freshPages, b.Assets*9/10))
	if err != nil {
		return err
	}
	if err := b.compare(ctx, fmt.Sprintf("never asked before, %d assets against %d", b.Large, b.Assets), 1.15,
		load{fmt.Sprintf("edge, %d assets", b.Large), large, "/", b.auth(), script}, small); err != nil {
		return err
	}
	memory, err := rss(large.worker)
	if err != nil {
		return err
	}
	r := row{what: fmt.Sprintf("resident memory at %d assets, --cache-size 256MiB", b.Large), target: "≤ 600 MiB", ratio: float64(memory) / (1 << 20)}
	r.met = r.ratio <= 600
	b.rows = append(b.rows, r)
	fmt.Printf("%-58s %.0f MiB, target %s\n", r.what, r.ratio, r.target)
	return nil
}
