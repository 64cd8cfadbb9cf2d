package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
)

const (
	history       = "/openapi/v1/history"
	historyAssets = 500
	historyDays   = 366
	diskAnswers   = 2000
)

// historyStore builds a market with a year of daily prices, unless it is there.
func (b *bench) historyStore(ctx context.Context) error {
	dir := filepath.Join(b.work, "store-history")
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	feeds := filepath.Join(b.work, "feeds")
	defer os.RemoveAll(feeds)
	newest := time.Now().UTC().Truncate(artifacts.Step)
	rnd := rand.New(rand.NewPCG(1, 1))
	var prices [historyAssets]int64 // in units of 1e-6
	for i := range prices {
		prices[i] = 1 + rnd.Int64N(1e12)
	}
	var assets strings.Builder
	for i := range prices {
		fmt.Fprintf(&assets, `{"key":"a%03d","id":%d,"name":"Asset %d","symbol":"A%d","slug":"asset-%d"}`+"\n", i, i+1, i, i, i)
	}
	for day := historyDays; day >= 0; day-- {
		at := newest.AddDate(0, 0, -day)
		var quotes strings.Builder
		for i := range prices {
			prices[i] += prices[i] / 2000 * (rnd.Int64N(101) - 50)
			fmt.Fprintf(&quotes, `{"key":"a%03d","price":"%d.%06d","volume":"%d"}`+"\n", i, prices[i]/1e6, prices[i]%1e6, rnd.Int64N(1e9))
		}
		folder := filepath.Join(feeds, at.Format("20060102T150405Z"))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for name, text := range map[string]string{
			"feed.json":     fmt.Sprintf(`{"format":1,"database":"bench","time":%q}`, at.Format(time.RFC3339)),
			"assets.ndjson": assets.String(), "quotes.ndjson": quotes.String(), "exchanges.ndjson": "", "categories.ndjson": "", "chains.ndjson": "",
		} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	fmt.Printf("building a year of %d assets\n", historyAssets)
	_, err := b.builder(ctx, nil, "backfill", "--feeds", feeds, "--store", "file:"+dir)
	return err
}

// history compares a year of one asset with a page of quotes of the same size.
func (b *bench) history(ctx context.Context) error {
	const held, fresh, disk, others = "a cached year of one asset, beside a cached page of its size", "a new year of one asset, beside a cached page of its size",
		"p99 of a new year of one asset, from disk", "p99 at half capacity while a key asks for new, coded, full pages of history, beside none"
	if b.skipped(held) && b.skipped(fresh) && b.skipped(disk) && b.skipped(others) {
		return nil
	}
	defer func(key string) { b.key = key }(b.key) // the stores here have their own
	if err := b.historyStore(ctx); err != nil {
		return err
	}
	one, err := b.market(ctx, "history", historyAssets)
	if err != nil {
		return err
	}
	other, err := b.edge(ctx, "history-other", b.store("history"))
	if err != nil {
		return err
	}
	const year = history + "?window=1y&id=7"
	want, err := b.cached(one, year)
	if err != nil {
		return err
	}
	page := ""
	for rows := 1; rows <= 100; rows++ {
		page = fmt.Sprintf(quotes+"?limit=%d", rows)
		res, err := capture(other.addr, page, b.auth())
		if err != nil {
			return err
		}
		if len(res.body) >= len(want.body) {
			fmt.Printf("a year: %d bytes; %s: %d\n", len(want.body), page, len(res.body))
			break
		}
	}
	// The second id, which nothing has, makes the question a new one.
	years := func(dst []byte, rnd *rand.Rand) []byte {
		return fmt.Appendf(dst, history+"?window=1y&id=%d,%d", 1+rnd.IntN(historyAssets), 1_000_000+rnd.IntN(1_000_000_000))
	}
	beside := load{"edge, cached page", other, always(page), b.auth()}
	for _, c := range []comparison{
		{held, 1.1, load{"edge, cached year", one, always(year), b.auth()}, beside},
		{fresh, 2.0, load{"edge, new years", one, years, b.auth()}, beside},
	} {
		if err := b.compare(ctx, c); err != nil {
			return err
		}
	}
	if err := b.fromDisk(ctx, disk, years); err != nil {
		return err
	}
	return b.flooded(ctx, others, one)
}

// fromDisk asks an edge that keeps next to nothing in memory, one request after the
// other.
func (b *bench) fromDisk(ctx context.Context, what string, ask asker) error {
	if b.skipped(what) {
		return nil
	}
	s, err := b.edge(ctx, "history-disk", b.store("history"), "--cache-size", "1B")
	if err != nil {
		return err
	}
	defer b.stop(s)
	rnd := rand.New(rand.NewPCG(2, 2))
	took := make([]time.Duration, diskAnswers)
	for i := range took {
		path := string(ask(nil, rnd))
		began := time.Now()
		if _, err := capture(s.addr, path, b.auth()); err != nil {
			return err
		}
		took[i] = time.Since(began)
	}
	p99 := percentile(took, 99)
	b.single(row{what: what, measured: fmt.Sprintf("%.2f ms", float64(p99.Microseconds())/1000), target: "< 5 ms", met: p99 < 5*time.Millisecond})
	return nil
}

// flooded compares the latency of pages at half capacity with that while a key with
// the default limit asks for new pages of history, full and coded, as fast as it may.
func (b *bench) flooded(ctx context.Context, what string, s *server) error {
	if b.skipped(what) {
		return nil
	}
	out, err := b.builder(ctx, nil, "keys", "create", "--store", b.store("history"), "--name", "flood", "--json")
	if err != nil {
		return err
	}
	var key struct{ Key string }
	if err := json.Unmarshal(out, &key); err != nil {
		return err
	}
	rate, err := b.capacity(ctx, s, historyAssets)
	if err != nil {
		return err
	}
	var alone, beside []float64 // p99 in ms
	for range min(b.Rounds, swapRounds) {
		before, calm, err := b.open(ctx, s, rate/2)
		if err != nil {
			return err
		}
		print(before, what, "alone")
		flood, err := b.flood(s.addr, key.Key)
		if err != nil {
			return err
		}
		during, calmStill, err := b.open(ctx, s, rate/2)
		_ = flood.Process.Signal(os.Interrupt) // it may have ended
		if err := cmp.Or(err, flood.Wait()); err != nil {
			return err
		}
		var answers map[int]int
		if err := json.Unmarshal(flood.Stdout.(*bytes.Buffer).Bytes(), &answers); err != nil {
			return err
		}
		print(during, what, fmt.Sprintf("%d and %d refused", answers[http.StatusOK], answers[http.StatusTooManyRequests]))
		if answers[http.StatusOK]+answers[http.StatusTooManyRequests] < floodRate*int(swapLoad/time.Second) {
			calmStill = false // it had too little of the core
		}
		if calm && calmStill {
			alone, beside = append(alone, before.Due.P99MS), append(beside, during.Due.P99MS)
		}
	}
	const target = "≤ 2.00"
	if len(alone) == 0 {
		b.single(row{what: what, measured: "the machine was in the way", target: target})
		return nil
	}
	self := func(ms float64) float64 { return ms }
	x, y := median(beside, self), median(alone, self)
	b.single(row{what: what, measured: fmt.Sprintf("%.2f ms", x), beside: fmt.Sprintf("%.2f ms", y), ratio: x / y, target: target, met: x <= 2*y})
	return nil
}

// flood starts a floodCmd, which an interrupt ends. It has what the load tester leaves
// of its core: on the same terms it would make the load late.
func (b *bench) flood(addr, key string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("chrt", "--idle", "0", self, "flood", "--addr", addr, "--key", key)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), os.Stderr
	return cmd, cmd.Start()
}

// floodRate is the default limit of a key, in requests a second.
const floodRate = 100

// floodCmd asks at floodRate for new, coded, full pages of history, and says how many
// answers it got of each status.
type floodCmd struct {
	Addr string `required:""`
	Key  string `required:""`
}

func (c *floodCmd) Run(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(3, 3))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: floodRate}}
	var asking sync.WaitGroup
	var mu sync.Mutex
	answers := map[int]int{}
	for tick := time.Tick(time.Second / floodRate); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
			continue
		case <-tick:
		}
		var ids []string
		for _, i := range rnd.Perm(historyAssets)[:20] {
			ids = append(ids, fmt.Sprint(i+1))
		}
		asking.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Addr+history+"?window=1y&id="+strings.Join(ids, ","), nil)
			if err != nil {
				return
			}
			req.Header.Set("X-Api-Key", c.Key)
			req.Header.Set("Accept-Encoding", "br")
			res, err := client.Do(req)
			if err != nil {
				return // at the end
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			mu.Lock()
			answers[res.StatusCode]++
			mu.Unlock()
		})
	}
	asking.Wait()
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func percentile(of []time.Duration, n int) time.Duration {
	of = slices.Clone(of)
	slices.Sort(of)
	return of[len(of)*n/100]
}
