package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

const (
	searchAssets = 200_000
	searchRate   = 200 // of the other key, in requests a second
	searchRounds = 5
	searchShare  = 5 // of one core, in percent
)

// searches measures the most expensive searches: for prefixes that thousands of names share but few
// names combine.
func (b *bench) searches(ctx context.Context) error {
	const share, others = "CPU time while a key asks for the dearest searches, of one core",
		"p99 at 200 a second while a key asks for the dearest searches, beside none"
	if b.skipped(share, others) {
		return nil
	}
	defer func(key string) { b.key = key }(b.key) // the store here has its own
	s, err := b.market(ctx, "search", searchAssets)
	if err != nil {
		return err
	}
	defer b.stop(s)
	return b.dearest(ctx, s, "search", share, others)
}

// dearest measures a key with the default limit that sends the most expensive requests of a kind (see
// floodCmd) as fast as it may. The bounds are the share of a core that they take beside the load of
// another key, which b.key is, and that key's latency.
func (b *bench) dearest(ctx context.Context, s *server, kind, share, others string) error {
	key, err := b.newKey(ctx, b.store(kind))
	if err != nil {
		return err
	}
	// timed runs the other key's load and returns it with the share of a core that it took.
	timed := func(state string) (p99 []float64, busy float64, err error) {
		before, err := cpu(s.worker)
		if err != nil {
			return nil, 0, err
		}
		began := time.Now()
		r, _, err := b.open(ctx, s, searchRate, 1)
		if err != nil {
			return nil, 0, err
		}
		after, err := cpu(s.worker)
		print(r, others, state)
		return calmSeconds(&r), (after - before).Seconds() / time.Since(began).Seconds(), err
	}
	var alone, beside, shares []float64
	for round := range min(b.Rounds, searchRounds) {
		before, idle, err := timed("alone")
		if err != nil {
			return err
		}
		var during []float64
		var busy float64
		found, refused, err := b.flood(s.addr, key, round, kind, func() (err error) {
			during, busy, err = timed("beside them")
			return err
		})
		if err != nil {
			return err
		}
		fmt.Printf("%-58s %.1f %% of a core, %d found and %d refused\n", share, 100*(busy-idle), found, refused)
		if found == 0 || refused == 0 {
			continue // it got too little of the core to reach its limit
		}
		alone, beside, shares = append(alone, before...), append(beside, during...), append(shares, 100*(busy-idle))
	}
	r := row{what: share, measured: "the machine was busy", target: fmt.Sprintf("≤ %d %%", searchShare)}
	if len(shares) > 0 {
		part := median(shares, func(x float64) float64 { return x })
		r.measured, r.met = fmt.Sprintf("%.1f %%", part), part <= searchShare
	}
	b.single(r)
	b.latency(row{what: others, target: "≤ 2 × + 1 ms"}, beside, alone, minSeconds,
		func(beside, alone float64) bool { return beside <= 2*alone+1 })
	return nil
}

// beginnings are prefixes of words in many simulated names.
var beginnings = strings.Fields("ba be bl br ca ch co cr de di do fi fo ga go ha in la li lo ma me mo ne op pa pe pi po pr re ro sa sh so st su sw th to tr tu un va vi wa wo wr")

// costlySearch is a search for two to four of them.
func costlySearch(rnd *rand.Rand) string {
	words := make([]string, 2+rnd.IntN(3))
	for i, at := range rnd.Perm(len(beginnings))[:len(words)] {
		words[i] = beginnings[at]
	}
	return "/openapi/v1/search?q=" + strings.Join(words, "+")
}
