package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	floodRate    = 100 // the default limit of a key, in requests a second
	besideRate   = 200 // rate of the other key's load, in requests a second
	floodRounds  = 5
	floodShare   = 5 // maximum share of one core, in percent
	minSeconds   = 9 // number of seconds that a median needs
	searchAssets = 200_000
)

// dearestRows returns the names of the rows for a kind of request.
func dearestRows(kind string) []string {
	return []string{"CPU time while a key asks for " + kind + ", of one core",
		fmt.Sprintf("p99 at %d a second while a key asks for %s, compared with none", besideRate, kind)}
}

// dearest measures the effect of a key with the default limit that sends the most expensive requests of a
// kind as fast as its limit allows. One row has the share of a core that these requests add to the load of
// another key, b.key. The other row has the latency of that other key.
func (b *bench) dearest(ctx context.Context, s *server, store, kind string, ask func(*rand.Rand) string) error {
	rows := dearestRows(kind)
	share, others := rows[0], rows[1]
	if b.skipped(rows...) {
		return nil
	}
	key, err := b.newKey(ctx, b.store(store))
	if err != nil {
		return err
	}
	// timed runs the load of the other key. It returns the p99 of each second, and the share of a core that
	// the server used. It returns seconds rather than whole runs, because on a shared machine few runs have
	// no slow second.
	timed := func(state string) (p99 []float64, busy float64, err error) {
		before, err := cpu(s.worker)
		if err != nil {
			return nil, 0, err
		}
		began := time.Now()
		r, _, err := b.open(ctx, s, besideRate, 1)
		if err != nil {
			return nil, 0, err
		}
		after, err := cpu(s.worker)
		print(r, others, state)
		return calmSeconds(&r), (after - before).Seconds() / time.Since(began).Seconds(), err
	}
	var alone, beside, shares []float64
	for round := range min(b.Rounds, floodRounds) {
		before, idle, err := timed("alone")
		if err != nil {
			return err
		}
		stop := flood(ctx, s.addr, key, uint64(round), ask)
		during, busy, err := timed("beside them")
		found, refused := stop()
		if err != nil {
			return err
		}
		fmt.Printf("%-58s %.1f %% of a core, %d found and %d refused\n", share, 100*(busy-idle), found, refused)
		if found == 0 || refused == 0 {
			continue // The key got too little of the core to reach its limit.
		}
		alone, beside, shares = append(alone, before...), append(beside, during...), append(shares, 100*(busy-idle))
	}
	r := row{what: share, measured: "the machine was busy", target: fmt.Sprintf("≤ %d %%", floodShare)}
	if len(shares) > 0 {
		part := median(shares, func(x float64) float64 { return x })
		r.measured, r.met = fmt.Sprintf("%.1f %%", part), part <= floodShare
	}
	b.single(r)
	b.latency(row{what: others, target: "≤ 2 × + 1 ms"}, beside, alone, minSeconds,
		func(beside, alone float64) bool { return beside <= 2*alone+1 })
	return nil
}

// flood sends requests with a key at floodRate until stop is called. Each request is new, and accepts a
// content coding. stop returns how many requests were answered, and how many were refused because of the
// key's limit. seed must differ between floods of one edge, because the edge caches answers.
func flood(
	ctx context.Context, addr, key string, seed uint64, ask func(*rand.Rand) string,
) (stop func() (found, refused int)) {
	ctx, cancel := context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: floodRate}}
	var asking sync.WaitGroup
	var mu sync.Mutex
	answers := map[int]int{}
	one := func(path string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
		if err != nil {
			return
		}
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("Accept-Encoding", "br")
		res, err := client.Do(req)
		if err != nil {
			return // The context has ended.
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		mu.Lock()
		answers[res.StatusCode]++
		mu.Unlock()
	}
	asking.Go(func() {
		rnd := rand.New(rand.NewPCG(3, seed))
		for tick := time.Tick(time.Second / floodRate); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
				path := ask(rnd)
				asking.Go(func() { one(path) })
			}
		}
	})
	return func() (found, refused int) {
		cancel()
		asking.Wait()
		client.CloseIdleConnections()
		return answers[http.StatusOK], answers[http.StatusTooManyRequests]
	}
}

// searches measures the most expensive searches. Each of their prefixes occurs in thousands of names, but few
// names contain all of them.
func (b *bench) searches(ctx context.Context) error {
	const kind = "the most expensive searches"
	if b.skipped(dearestRows(kind)...) {
		return nil
	}
	defer func(key string) { b.key = key }(b.key) // The store here has its own key.
	s, err := b.market(ctx, "search", searchAssets)
	if err != nil {
		return err
	}
	defer b.stop(s)
	return b.dearest(ctx, s, "search", kind, costlySearch)
}

// beginnings are prefixes of words in many simulated names.
var beginnings = strings.Fields("ba be bl br ca ch co cr de di do fi fo ga go ha in la li lo ma me mo ne op pa pe pi po pr re ro sa sh so st su sw th to tr tu un va vi wa wo wr")

// costlySearch returns a search for two to four of these prefixes.
func costlySearch(rnd *rand.Rand) string {
	words := make([]string, 2+rnd.IntN(3))
	for i, at := range rnd.Perm(len(beginnings))[:len(words)] {
		words[i] = beginnings[at]
	}
	return "/openapi/v1/search?q=" + strings.Join(words, "+")
}
