package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder/keys"
)

// commentEvery is the interval between a stream's comments.
const commentEvery = 15 * time.Second

// streamKeys makes n keys in the store of the streams' market.
func (b *bench) streamKeys(ctx context.Context, n int) (texts []string, err error) {
	store, err := dirstore.Open(filepath.Join(b.work, "store-streams"), dirstore.Options{})
	if err != nil {
		return nil, err
	}
	for len(texts) < n {
		k, err := (&keys.Registry{Store: store}).Create(ctx, keys.Request{Name: "stream", Rate: 1, Burst: 8})
		if err != nil {
			return nil, err
		}
		texts = append(texts, k.Key)
	}
	return texts, nil
}

// streams measures the cost of open event streams: memory, and CPU time of the requests beside
// them. Nobody reads the streams, which carry only short comments, so that the load's core has no
// work with them.
func (b *bench) streams(ctx context.Context, n int) error {
	count := thousands(n)
	memory, cost := "memory of "+count+" streams of events",
		"a cached page with "+count+" streams of events open, beside none"
	if b.skipped(memory, cost) {
		return nil
	}
	none, err := b.market(ctx, "streams", b.Assets)
	if err != nil {
		return err
	}
	defer b.stop(none)
	texts, err := b.streamKeys(ctx, (n+7)/8) // before the edge starts, so that it has them: a key may open eight
	if err != nil {
		return err
	}
	some, err := b.edge(ctx, "held", b.store("streams"), "--max-conns-per-address", strconv.Itoa(n+100),
		"--max-streams", strconv.Itoa(n))
	if err != nil {
		return err
	}
	defer b.stop(some)
	before, err := rss(some.worker)
	if err != nil {
		return err
	}
	for i := range n {
		c, err := net.Dial("tcp", some.addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := fmt.Fprintf(
			c, "GET /openapi/v1/events HTTP/1.1\r\nHost: edge\r\nX-Api-Key: %s\r\n\r\n", texts[i/8]); err != nil {
			return err
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("stream %d: %v, %v", i, res, err)
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(commentEvery): // each has had one
	}
	after, err := rss(some.worker)
	if err != nil {
		return err
	}
	b.single(row{what: memory, measured: fmt.Sprintf("%d MiB", (after-before)>>20), target: "≤ 150 MiB",
		met: after-before <= 150<<20})
	const page = quotes + "?page=3"
	loads := []load{
		{"edge, " + count + " streams", some, always(page), b.auth()}, {"edge, none", none, always(page), b.auth()}}
	if _, err := b.saturated(ctx, 0, loads...); err != nil { // warm
		return err
	}
	var all [2][]figures
	for round := range b.Rounds {
		f, err := b.saturated(ctx, round+1, loads...)
		if err != nil {
			return err
		}
		all[0], all[1] = append(all[0], f[0]), append(all[1], f[1])
	}
	for _, r := range []struct {
		what   string
		target float64
		of     func(figures) time.Duration
	}{{cost, 1.02, func(f figures) time.Duration { return f.cpu }},
		{"p99 of " + cost, 1.10, func(f figures) time.Duration { return f.p99 }}} {
		ratios := make([]float64, b.Rounds)
		for i := range ratios {
			ratios[i] = float64(r.of(all[0][i])) / float64(r.of(all[1][i]))
		}
		slices.Sort(ratios)
		ratio := ratios[len(ratios)/2]
		b.single(row{what: r.what, measured: micros(median(all[0], r.of)), beside: micros(median(all[1], r.of)),
			ratio: ratio, target: fmt.Sprintf("≤ %.2f", r.target), met: ratio <= r.target})
		fmt.Printf("%-58s ratio %.3f (half of the rounds: %.3f to %.3f)\n", r.what, ratio, ratios[len(ratios)/4],
			ratios[len(ratios)*3/4])
	}
	return nil
}

func micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1000) }
