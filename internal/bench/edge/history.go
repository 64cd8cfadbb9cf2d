package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	history    = "/openapi/v1/history"
	pastAssets = 1000 // number of assets in the market with a year of history
)

// pastMarket starts two edges on a market with a year of history. The caller must stop them and
// restore b.key, because the store has its own key.
func (b *bench) pastMarket(ctx context.Context) (one, other *server, err error) {
	m := b.on(nil, b.Server, b.Client)
	m.Store = b.store("past")
	if err := m.BuildPast(ctx, fmt.Sprintf("sim:?assets=%d&seed=1", pastAssets), time.Now(), nil); err != nil {
		return nil, nil, err
	}
	if one, err = b.market(ctx, "past", pastAssets, "--coingecko"); err == nil {
		other, err = b.edge(ctx, "past-other", b.store("past"), "--coingecko")
	}
	return one, other, err
}

// history compares a year of one asset's prices with a page of quotes of the same size.
func (b *bench) history(ctx context.Context) error {
	const held, fresh, disk = "a cached year of one asset, compared with a cached page of its size",
		"a new year of one asset, compared with a cached page of its size",
		"p99 of a new year of one asset, from disk, compared with a cached one"
	const candles = "new candles of a year of one asset, compared with new years of at least as many bytes"
	const kind = "new, coded, full pages of history"
	if b.skipped(append(dearestRows(kind), held, fresh, disk, candles)...) {
		return nil
	}
	defer func(key string) { b.key = key }(b.key)
	one, other, err := b.pastMarket(ctx)
	if err != nil {
		return err
	}
	defer b.stop(one, other)
	const year = history + "?window=1y&id=7"
	want, err := b.cached(one, year)
	if err != nil {
		return err
	}
	_, page, err := b.quotesOfSize(other, len(want.body))
	if err != nil {
		return err
	}
	years := yearsOf(1)
	beside := load{"edge, cached page", other, always(page), b.auth()}
	candle, of, err := b.yearOfCandles(one, len(want.body))
	if err != nil {
		return err
	}
	for _, c := range []comparison{
		{held, 1.1, load{"edge, cached year", one, always(year), b.auth()}, beside},
		{fresh, 2.0, load{"edge, new years", one, years, b.auth()}, beside},
		{candles, 1.2, load{"edge, new candles", one, candle, b.auth()},
			load{"edge, new years", other, yearsOf(of), b.auth()}},
	} {
		if err := b.compare(ctx, c); err != nil {
			return err
		}
	}
	if err := b.fromDisk(ctx, disk, "past", years,
		func() error { _, err := capture(one.addr, year, b.auth()); return err }); err != nil {
		return err
	}
	return b.dearest(ctx, one, "past", kind, fullPage)
}

// yearsOf returns an asker for a year's prices of the given number of assets. The last id of each request
// belongs to no asset; it is random, so that no two requests are the same.
func yearsOf(assets int) asker {
	return func(dst []byte, rnd *rand.Rand) []byte {
		dst = append(dst, history+"?window=1y&id="...)
		first := rnd.IntN(pastAssets - assets)
		for i := range assets {
			dst = fmt.Appendf(dst, "%d,", 1+first+i)
		}
		return fmt.Appendf(dst, "%d", 1_000_000+rnd.IntN(1_000_000_000))
	}
}

// yearOfCandles returns an asker for a year's candles of one asset. year is the size of a year's prices of
// one asset, in bytes. assets is the number of assets whose prices together have at least as many bytes as
// the candles.
func (b *bench) yearOfCandles(s *server, year int) (ask asker, assets int, err error) {
	const path = "/openapi/v1/candles?interval=1d&window=1y&id="
	res, err := capture(s.addr, path+"7", b.auth())
	if err != nil {
		return nil, 0, err
	}
	assets = (len(res.body) + year - 1) / year
	fmt.Printf("candles of a year: %d bytes; prices of a year: %d\n", len(res.body), year)
	return func(dst []byte, rnd *rand.Rand) []byte {
		return fmt.Appendf(dst, path+"%d,%d", 1+rnd.IntN(pastAssets), 1_000_000+rnd.IntN(1_000_000_000))
	}, assets, nil
}

// fullPage returns a request for a full page of a year's history.
func fullPage(rnd *rand.Rand) string {
	var ids []string
	for _, i := range rnd.Perm(pastAssets)[:20] {
		ids = append(ids, strconv.Itoa(i+1))
	}
	return history + "?window=1y&id=" + strings.Join(ids, ",")
}

const (
	diskAnswers  = 1000                 // answers of each kind in a round
	diskRounds   = 3                    // number of rounds that a median needs
	maxCachedP99 = 2 * time.Millisecond // maximum p99 of cached answers in a round that counts
)

// fromDisk sends requests, one after another, to an edge that keeps almost nothing of its market in memory,
// alternating with requests for a cached answer. The 99th percentile of the cached answers shows the delays
// of the machine, so a round in which it exceeds maxCachedP99 does not count.
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
	var rounds [2][]float64 // 99th percentiles of each kind, in ms
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

func percentile(of []time.Duration, n int) time.Duration {
	of = slices.Clone(of)
	slices.Sort(of)
	return of[len(of)*n/100]
}
