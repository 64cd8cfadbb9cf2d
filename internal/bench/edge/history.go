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
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/loadtest/result"
)

const (
	history       = "/openapi/v1/history"
	historyAssets = 500
	historyDays   = 366
	diskAnswers   = 1000 // a round, of each kind
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
		fmt.Fprintf(
			&assets, `{"key":"a%03d","id":%d,"name":"Asset %d","symbol":"A%d","slug":"asset-%d"}`+"\n", i, i+1, i, i, i)
	}
	for day := historyDays; day >= 0; day-- {
		at := newest.AddDate(0, 0, -day)
		var quotes strings.Builder
		for i := range prices {
			prices[i] += prices[i] / 2000 * (rnd.Int64N(101) - 50)
			fmt.Fprintf(&quotes, `{"key":"a%03d","price":"%d.%06d","volume":"%d"}`+"\n", i, prices[i]/1e6,
				prices[i]%1e6, rnd.Int64N(1e9))
		}
		folder := filepath.Join(feeds, at.Format("20060102T150405Z"))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for name, text := range map[string]string{
			"feed.json":     fmt.Sprintf(`{"format":1,"database":"bench","time":%q}`, at.Format(time.RFC3339)),
			"assets.ndjson": assets.String(), "quotes.ndjson": quotes.String(), "exchanges.ndjson": "",
			"categories.ndjson": "", "chains.ndjson": "",
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
	const held, fresh, disk, others = "a cached year of one asset, beside a cached page of its size",
		"a new year of one asset, beside a cached page of its size",
		"p99 of a new year of one asset, from disk, beside a cached one",
		"p99 at a quarter of capacity while a key asks for new, coded, full pages of history, beside none"
	if b.skipped(held, fresh, disk, others) {
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
	// No asset has the second id; it makes each request new.
	years := func(dst []byte, rnd *rand.Rand) []byte {
		return fmt.Appendf(
			dst, history+"?window=1y&id=%d,%d", 1+rnd.IntN(historyAssets), 1_000_000+rnd.IntN(1_000_000_000))
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
	if err := b.fromDisk(ctx, disk, "history", years,
		func() error { _, err := capture(one.addr, year, b.auth()); return err }); err != nil {
		return err
	}
	return b.flooded(ctx, others, one)
}

// fromDisk sends requests one after another to an edge of a market that keeps next to nothing in
// memory, alternating with requests for a cached answer. The p99 of the cached ones shows how late the
// machine is: a round in which it exceeds maxCachedP99 does not count.
func (b *bench) fromDisk(ctx context.Context, what, market string, ask asker, cached func() error) error {
	if b.skipped(what) {
		return nil
	}
	s, err := b.edge(ctx, market+"-disk", b.store(market), "--cache-size", "1B")
	if err != nil {
		return err
	}
	defer b.stop(s)
	rnd := rand.New(rand.NewPCG(2, 2))
	sides := [2]func() error{
		func() error { _, err := capture(s.addr, string(ask(nil, rnd)), b.auth()); return err },
		cached,
	}
	var rounds [2][]float64 // p99 of each in ms
	for range b.Rounds {
		var took [2][]time.Duration
		for range diskAnswers {
			for i, ask := range sides {
				began := time.Now()
				if err := ask(); err != nil {
					return err
				}
				took[i] = append(took[i], time.Since(began))
			}
		}
		calm := percentile(took[1], 99) <= maxCachedP99
		for i := range rounds {
			p99 := percentile(took[i], 99)
			if calm {
				rounds[i] = append(rounds[i], float64(p99)/float64(time.Millisecond))
			}
			fmt.Printf("%-58s %-7s p50 %8v p99 %8v calm %v\n", what, [2]string{"new", "cached"}[i],
				percentile(took[i], 50), p99, calm)
		}
	}
	b.latency(row{what: what, target: "< 5 ms"}, rounds[0], rounds[1], min(b.Rounds, diskRounds),
		func(p99, _ float64) bool { return p99 < 5 })
	return nil
}

// flooded compares the latency of pages with and without a key that has the default limit and
// requests new, full, coded pages of history as fast as it may. The rate is a quarter of capacity,
// at which the load tester is on time even on a slow machine.
func (b *bench) flooded(ctx context.Context, what string, s *server) error {
	if b.skipped(what) {
		return nil
	}
	key, err := b.newKey(ctx, b.store("history"))
	if err != nil {
		return err
	}
	rate, err := b.capacity(ctx, s, historyAssets)
	if err != nil {
		return err
	}
	// Seconds count, not runs: on a shared machine few runs have no late second. The key gets a
	// page every half second, so each second has some.
	var alone, beside []float64 // p99 of a second in ms
	for round := range min(b.Rounds, floodRounds) {
		before, _, err := b.open(ctx, s, rate/4, 1)
		if err != nil {
			return err
		}
		print(before, what, "alone")
		var during result.Run
		found, refused, err := b.flood(s.addr, key, round, "history", func() (err error) {
			during, _, err = b.open(ctx, s, rate/4, 1)
			return err
		})
		if err != nil {
			return err
		}
		print(during, what, fmt.Sprintf("%d and %d refused", found, refused))
		if found == 0 || refused == 0 {
			continue // it got too little of the core to reach its limit
		}
		alone, beside = append(alone, calmSeconds(&before)...), append(beside, calmSeconds(&during)...)
	}
	fmt.Printf("%-58s of %d seconds alone and %d beside it\n", what, len(alone), len(beside))
	b.latency(row{what: what, target: "≤ 2.00"}, beside, alone, minSeconds,
		func(beside, alone float64) bool { return beside <= 2*alone })
	return nil
}

// flood runs a floodCmd beside load, and returns its answers with and without a result. It only
// gets the time that the load tester leaves of its core: at the same priority it would make the
// load late.
func (b *bench) flood(addr, key string, round int, kind string, load func() error) (found, refused int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.Command(
		"chrt", "--idle", "0", self, "flood", "--addr", addr, "--key", key, "--kind", kind,
		"--round", strconv.Itoa(round))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	err = load()
	_ = cmd.Process.Signal(os.Interrupt) // it may have ended
	var answers map[int]int
	if err = cmp.Or(err, cmd.Wait()); err == nil {
		err = json.Unmarshal(out.Bytes(), &answers)
	}
	return answers[http.StatusOK], answers[http.StatusTooManyRequests], err
}

const (
	diskRounds   = 3                    // needed for a median
	maxCachedP99 = 2 * time.Millisecond // of a round that counts
	floodRate    = 100                  // the default limit of a key, in requests a second
	floodRounds  = 9
	minSeconds   = 9 // needed for a median
)

// floodCmd requests the most expensive answers of a kind, new and coded, at floodRate, and prints the
// number of answers of each status.
type floodCmd struct {
	Addr string `required:""`
	Key  string `required:""`
	// Round must differ between runs against one edge, which caches answers.
	Round uint64
	Kind  string `required:"" enum:"history,search,coins"`
}

// costly are the paths of the requests that cost most for what they take from a key's limit.
var costly = map[string]func(*rand.Rand) string{"history": fullPage, "search": costlySearch, "coins": costlyCoins}

func (c *floodCmd) Run(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(3, c.Round))
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
		path := costly[c.Kind](rnd)
		asking.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Addr+path, nil)
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

// fullPage is a full page of a year's history.
func fullPage(rnd *rand.Rand) string {
	var ids []string
	for _, i := range rnd.Perm(historyAssets)[:20] {
		ids = append(ids, strconv.Itoa(i+1))
	}
	return history + "?window=1y&id=" + strings.Join(ids, ",")
}

func percentile(of []time.Duration, n int) time.Duration {
	of = slices.Clone(of)
	slices.Sort(of)
	return of[len(of)*n/100]
}
