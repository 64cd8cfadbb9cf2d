package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.com/marketdata/internal/test/local"
)

const quotes = "/openapi/v1/quotes"

type bench struct {
	*runCmd
	work    string
	servers []*server
	key     string
	page    string // describes the size of the page
	rows    []row
}

// skipped reports whether --only leaves out all of the given comparisons.
func (b *bench) skipped(all ...string) bool {
	return !slices.ContainsFunc(all, func(what string) bool { return strings.Contains(what, b.Only) })
}

// load is one kind of request to one server.
type load struct {
	name    string
	server  *server
	ask     asker
	headers map[string]string
}

// figures contains the results of one round of a load.
type figures struct {
	busy     float64       // share of the time in which the server was working
	cpu      time.Duration // processor time of the server per request
	rate     float64       // requests a second
	p50, p99 time.Duration
}

// row is a row of the report.
type row struct {
	what, measured, beside string
	us                     [2]float64 // processor time of the two sides of a comparison
	ratio                  float64    // 0 if there is none
	target                 string
	met                    bool
}

// headline is the prefix of the names of comparisons that are also reported as answers a second.
const headline = "a cached page, compared with "

// comparison compares the costs of two loads.
type comparison struct {
	what   string
	target float64 // maximum of the ratio; 0 if the comparison only explains others
	a, b   load
}

// compare measures two loads in turn, round by round, and reports the CPU time per
// request of the first one divided by the CPU time per request of the second one.
func (b *bench) compare(ctx context.Context, c comparison) error {
	if b.skipped(c.what) {
		return nil
	}
	if _, err := b.measure(ctx, time.Second, 0, c.a, c.b); err != nil { // warm
		return err
	}
	var rounds [2][]figures
	var ratios []float64 // one per round, because within a round both sides have the same conditions
	for round := range b.Rounds {
		f, err := b.saturated(ctx, round+1, c.a, c.b)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		rounds[0], rounds[1] = append(rounds[0], f[0]), append(rounds[1], f[1])
		ratios = append(ratios, float64(f[0].cpu)/float64(f[1].cpu))
	}
	slices.Sort(ratios)
	r := row{what: c.what, ratio: ratios[len(ratios)/2]}
	for i, l := range []load{c.a, c.b} {
		f := rounds[i]
		us := float64(median(f, func(f figures) time.Duration { return f.cpu })) / 1000
		r.us[i] = us
		fmt.Printf("%-58s %-24s %7.2f µs  %8.0f/s  p50 %8v  p99 %8v\n", c.what, l.name, us,
			median(f, func(f figures) float64 { return f.rate }),
			median(f, func(f figures) time.Duration { return f.p50 }),
			median(f, func(f figures) time.Duration { return f.p99 }))
	}
	r.measured, r.beside = fmt.Sprintf("%.1f µs", r.us[0]), fmt.Sprintf("%.1f µs", r.us[1])
	if c.target > 0 {
		r.target, r.met = fmt.Sprintf("≤ %.2f", c.target), r.ratio <= c.target
	}
	b.rows = append(b.rows, r)
	if strings.HasPrefix(c.what, headline) {
		rate := func(us float64) string { return thousands(int(1e4/us) * 100) }
		b.rows = append(b.rows, row{what: "answers a second of one core: " + c.what,
			measured: rate(r.us[0]), beside: rate(r.us[1])})
	}
	fmt.Printf("%-58s ratio %.3f (half of the rounds: %.3f to %.3f), target %s\n", c.what, r.ratio,
		ratios[len(ratios)/4], ratios[len(ratios)*3/4], cmp.Or(r.target, "none"))
	return nil
}

// saturated measures loads that keep their servers busy. A server that has to wait spends more time on each
// request, because it goes to sleep and wakes up. A round with such waits says more about disturbances of the
// load than about the server, so saturated repeats it a few times. It returns the round with the least
// waiting.
func (b *bench) saturated(ctx context.Context, round int, loads ...load) (best []figures, err error) {
	const busy, attempts = 0.95, 4
	least := func(f []figures) float64 { return min(f[0].busy, f[1].busy) }
	for attempt := 0; attempt < attempts && (best == nil || least(best) < busy); attempt++ {
		f, err := b.measure(ctx, b.Duration, round+attempt*b.Rounds, loads...)
		if err != nil {
			return nil, err
		}
		if best == nil || least(f) > least(best) {
			best = f
		}
	}
	return best, nil
}

func median[F any, V cmp.Ordered](of []F, value func(F) V) V {
	v := make([]V, len(of))
	for i := range of {
		v[i] = value(of[i])
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// measure sends requests to the servers of the loads in turn, to each server for a total time of d. It returns
// the figures of each load.
func (b *bench) measure(ctx context.Context, d time.Duration, seed int, loads ...load) ([]figures, error) {
	runtime.GC() // so that no collection is necessary during the measurement
	before := make([]time.Duration, len(loads))
	for i, l := range loads {
		var err error
		if before[i], err = cpu(l.server.worker); err != nil {
			return nil, err
		}
	}
	polled, err := poll(ctx, d, uint64(seed), loads)
	if err != nil {
		return nil, err
	}
	f := make([]figures, len(loads))
	for i, p := range polled {
		after, err := cpu(loads[i].server.worker)
		if err != nil {
			return nil, err
		}
		n := len(p.latencies)
		f[i] = figures{cpu: (after - before[i]) / time.Duration(n), rate: float64(n) / p.took.Seconds(),
			p50: p.latencies[n/2], p99: p.latencies[n*99/100]}
		f[i].busy = f[i].cpu.Seconds() * f[i].rate
	}
	return f, nil
}

func (b *bench) store(name string) string { return "file:" + filepath.Join(b.work, "store-"+name) }

// build builds a snapshot of a simulated market.
func (b *bench) build(ctx context.Context, env []string, store string, assets int, args ...string) error {
	fmt.Printf("building a market of %d assets\n", assets)
	_, err := b.builder(ctx, env, append(
		[]string{"build", "--source", fmt.Sprintf("sim:?assets=%d&seed=1", assets), "--store", store}, args...)...)
	return err
}

// market builds a simulated market into a store of its own unless the store exists. It creates a key with a
// limit that is too high to be reached, and starts an edge on the store.
func (b *bench) market(ctx context.Context, name string, assets int, extra ...string) (*server, error) {
	store := b.store(name)
	if _, err := os.Stat(strings.TrimPrefix(store, "file:")); err != nil {
		if err := b.build(ctx, nil, store, assets); err != nil {
			return nil, err
		}
	}
	var err error
	if b.key, err = b.newKey(ctx, store, "--rate", "1000000", "--burst", "1000000"); err != nil {
		return nil, err
	}
	return b.edge(ctx, name, store, extra...)
}

// newKey creates an API key in a store and returns it.
func (b *bench) newKey(ctx context.Context, store string, flags ...string) (string, error) {
	out, err := b.builder(ctx, nil, append(
		[]string{"keys", "create", "--store", store, "--name", "bench", "--json"}, flags...)...)
	if err != nil {
		return "", err
	}
	var key struct{ Key string }
	err = json.Unmarshal(out, &key)
	return key.Key, err
}

// edge starts an edge and waits until it has every object of its snapshot.
func (b *bench) edge(ctx context.Context, name, store string, extra ...string) (*server, error) {
	addr, admin := local.Free("127.0.0.1:0"), local.Free("127.0.0.1:0")
	args := append([]string{"--store", store, "--listen", addr, "--admin", admin,
		"--cache-dir", filepath.Join(b.work, "cache-"+name), "--drain-wait", "0s"}, extra...)
	s, err := b.start(ctx, addr, "edge", args...)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		res, err := capture(admin, "/status", nil)
		if errors.Is(err, syscall.ECONNREFUSED) && !s.Ended() {
			continue // the public listener opens before the admin listener
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, s.Tail())
		}
		var status struct {
			Sequence uint64
			Caches   struct {
				Missing        *int64 `json:"missing_objects"`
				MissingHistory int64  `json:"missing_history_objects"`
			}
		}
		if err := cmp.Or(json.Unmarshal(res.body, &status), ctx.Err()); err != nil {
			return nil, err
		}
		if status.Sequence > 0 && status.Caches.Missing != nil &&
			*status.Caches.Missing+status.Caches.MissingHistory == 0 {
			return s, nil
		}
	}
	return nil, fmt.Errorf("the edge has not fetched its snapshot: %s", s.Tail())
}

// cached repeats a request until the answer comes from the cache of the edge, and returns the answer.
func (b *bench) cached(s *server, path string) (res *response, err error) {
	for range 50 {
		if res, err = capture(s.addr, path, b.auth()); err != nil ||
			strings.HasPrefix(res.Header.Get("Cache-Status"), "edge; hit") {
			break
		}
	}
	return res, err
}

func (b *bench) auth() map[string]string { return map[string]string{"X-Api-Key": b.key} }

// filters returns filters by id, slug and symbol for up to a few thousand quotes. Each filter matches only
// one of these quotes.
func (b *bench) filters(s *server) (filters []string, err error) {
	times := map[string]int{}
	for i := range 60 {
		res, err := capture(s.addr, fmt.Sprintf(quotes+"?limit=100&offset=%d", i*min(b.Assets, 90_000)/60), b.auth())
		if err != nil {
			return nil, err
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
			return nil, err
		}
		for _, x := range l.Result.Items {
			if plain(x.Slug) && plain(x.Symbol) {
				for _, f := range []string{
					"id=" + strconv.FormatUint(x.ID, 10), "slug=" + x.Slug, "symbol=" + x.Symbol} {
					times[f]++
					filters = append(filters, f)
				}
			}
		}
	}
	return slices.DeleteFunc(filters, func(f string) bool { return times[f] > 1 }), nil
}

func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(
		s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("%&+,#?\"", r) })
}

// bare starts a bare fasthttp server that sends res from the given number of copies in memory, in turn.
func (b *bench) bare(ctx context.Context, res *response, copies int) (*server, error) {
	file, err := os.CreateTemp(b.work, "response-")
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(res.raw); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	addr := local.Free("127.0.0.1:0")
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return b.start(
		ctx, addr, self, "bare", "--listen", addr, "--response", file.Name(), "--copies", strconv.Itoa(copies))
}

func (b *bench) run(ctx context.Context) error {
	small, other, err := b.smallMarket(ctx)
	if err != nil {
		return err
	}
	const page, oneRow = quotes + "?page=3", quotes + "?limit=1"
	filters, err := b.filters(small)
	if err != nil {
		return err
	}
	slug := slices.IndexFunc(filters, func(f string) bool { return strings.HasPrefix(f, "slug=") })
	if slug < 0 {
		return fmt.Errorf("no slug of one row among %d filters", len(filters))
	}
	answer, err := b.cached(small, page)
	if err != nil {
		return err
	}
	rowAnswer, err := b.cached(small, oneRow)
	if err != nil {
		return err
	}
	auth := b.auth() // for the small market; the markets of later comparisons have their own keys
	conditional := map[string]string{"X-Api-Key": b.key, "If-None-Match": answer.Header.Get("ETag")}
	notModified, err := capture(small.addr, page, conditional)
	if err != nil {
		return err
	}
	b.page = fmt.Sprintf("%s bytes and %d of headers", thousands(len(answer.body)), len(answer.raw)-len(answer.body))
	fmt.Printf("answer: %s\n%s\n\n", b.page, answer.raw[:len(answer.raw)-len(answer.body)])

	bares, err := b.bares(ctx, []bareKind{{answer, 1, page, auth}, {answer, cachedPages, page, auth},
		{rowAnswer, 1, oneRow, auth}, {notModified, 1, page, conditional}})
	if err != nil {
		return err
	}
	edge := func(name string, ask asker) load { return load{"edge, " + name, small, ask, auth} }
	beside := func(name string, ask asker) load { return load{"edge, " + name, other, ask, auth} }
	most := b.Assets * 9 / 10
	fresh, named, several := edge("new pages", pages(most, 19)), edge("new rows", rows(filters)),
		beside("many cached", somePages(most))
	cached := edge("cached", always(page))
	list := []comparison{{headline + "bare fasthttp", 1.02, cached, bares[0]}}
	if !b.Short {
		ways, err := b.nginxWays(ctx, answer, load{ask: always(page), headers: auth})
		if err != nil {
			return err
		}
		for _, way := range ways {
			list = append(list, comparison{headline + way.name, 1.00, cached, way})
		}
	}
	n := thousands(cachedPages)
	for _, c := range slices.Concat(append(list,
		// The next two comparisons measure the cost of answers that are not in the processor core's own
		// cache. The third adds the cost of finding and copying rows. The fifth measures only this cost.
		comparison{"bare fasthttp with " + n + " copies of the page in turn, compared with one", 0, bares[1], bares[0]},
		comparison{n + " cached pages in turn, compared with one", 0, edge("many cached", somePages(most)),
			beside("cached", always(page))},
		// In comparisons with a target, the queries for cached answers are as long as the queries for new
		// ones, because a longer query costs more whether its answer is cached or not.
		comparison{"a new page, compared with a cached one", 1.25, fresh,
			beside("cached", always(fmt.Sprintf(quotes+"?offset=%d&limit=20&sort=name:desc", most/2)))},
		comparison{"a new page, compared with a cached one of a shorter query", 0, fresh,
			beside("cached", always(page))},
		comparison{"a new page, compared with " + n + " cached ones in turn", 0, fresh, several},
		comparison{"a new page of /markets, compared with a new page of quotes", 1.5,
			beside("new pages of /markets", marketPages(most, 19)), fresh},
		comparison{"a cached row, compared with bare fasthttp", 1.02, edge("one row", always(oneRow)), bares[2]},
		comparison{"new ids, slugs or symbols, compared with a cached row", 1.25, named,
			beside("cached", always(quotes+"?"+filters[slug]+"&limit=50"))},
		comparison{"new ids, slugs or symbols, compared with a cached row of a shorter query", 0, named,
			beside("cached", always(oneRow))},
		comparison{"a 304, compared with bare fasthttp", 1.05,
			load{"edge, 304", small, always(page), conditional}, bares[3]},
	), coded(small, other, auth, most)) {
		if err := b.compare(ctx, c); err != nil {
			return err
		}
	}
	return b.runOthers(ctx, fresh)
}

// nginxWays starts an nginx for each of the ways in which it can send a file. The fastest way counts.
func (b *bench) nginxWays(ctx context.Context, answer *response, l load) (loads []load, err error) {
	for _, way := range []struct{ name, options string }{
		{"nginx with a file", "sendfile on; tcp_nopush on;"}, {"nginx without sendfile", "sendfile off;"},
		{"nginx with sendfile alone", "sendfile on;"},
	} {
		if l.server, err = b.nginx(ctx, answer, way.options); err != nil {
			return nil, err
		}
		l.name = way.name
		loads = append(loads, l)
	}
	return loads, nil
}

// smallMarket starts two edges on the small market, so that each side of a comparison has its own
// process.
func (b *bench) smallMarket(ctx context.Context) (one, other *server, err error) {
	if one, err = b.market(ctx, "small", b.Assets); err == nil {
		other, err = b.edge(ctx, "other", b.store("small"))
	}
	return one, other, err
}

// bareKind is an answer that bare fasthttp sends, and the request for it.
type bareKind struct {
	res     *response
	copies  int
	path    string
	headers map[string]string
}

// bares starts a bare fasthttp server for each kind.
func (b *bench) bares(ctx context.Context, kinds []bareKind) (loads []load, err error) {
	for _, kind := range kinds {
		s, err := b.bare(ctx, kind.res, kind.copies)
		if err != nil {
			return nil, err
		}
		loads = append(loads, load{"bare fasthttp", s, always(kind.path), kind.headers})
	}
	return loads, nil
}

// runOthers runs the benchmarks that do not need the bare servers that bench.run starts, and then writes
// the report. freshPages is the load that requests new pages of the small market.
func (b *bench) runOthers(ctx context.Context, freshPages load) error {
	runs := []func(context.Context) error{
		b.history, b.changes, b.coins, b.searches,
		b.idle, b.streams, b.swaps,
	}
	if !b.Short {
		runs = append(runs, b.starts)
		if b.Large > 0 {
			runs = append(runs, func(ctx context.Context) error { return b.large(ctx, freshPages) })
		}
	}
	for _, run := range runs {
		if err := run(ctx); err != nil {
			return err
		}
	}
	return b.report()
}

// large compares a market of a million assets with the small one, and measures memory.
func (b *bench) large(ctx context.Context, small load) error {
	page := fmt.Sprintf("a new page of %s assets, compared with one of %s", thousands(b.Large), thousands(b.Assets))
	resident := fmt.Sprintf("resident memory at %s assets, `--cache-size 256MiB`", thousands(b.Large))
	disk := fmt.Sprintf("p99 of a new page of /markets of %s assets, from disk, compared with a cached page", thousands(b.Large))
	if b.skipped(page, resident, disk) {
		return nil
	}
	large, err := b.market(ctx, "large", b.Large, "--cache-size", "256MiB")
	if err != nil {
		return err
	}
	// Both sides request the same part of the listing, whose shards fit into the cache.
	if err := b.compare(ctx, comparison{page, 1.15,
		load{"edge, large market", large, small.ask, b.auth()}, small}); err != nil {
		return err
	}
	memory, err := rss(large.worker)
	if err != nil {
		return err
	}
	b.single(row{what: resident,
		measured: fmt.Sprintf("%d MiB", memory>>20), target: "≤ 600 MiB", met: memory <= 600<<20})
	return b.fromDisk(ctx, disk, "large", marketPages(min(b.Large*9/10, 100_000), 19),
		func() error { _, err := capture(large.addr, quotes, b.auth()); return err })
}
