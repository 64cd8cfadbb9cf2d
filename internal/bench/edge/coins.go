package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

// coins compares answers of the CoinGecko-compatible API with similar answers of our own API.
func (b *bench) coins(ctx context.Context) error {
	const prices, markets, sent, held = "new prices of ten coins in two currencies for CoinGecko's programs, compared with ten new ids",
		"a new page of 250 coins with sparklines for CoinGecko's programs, compared with a new page of 100 quotes",
		"a cached page of 250 coins with sparklines, which is only sent, compared with a new page of 100 quotes",
		"cached prices of ten coins for CoinGecko's programs, compared with a cached page"
	const list = "the cached list of coins for CoinGecko's programs, compared with bare fasthttp"
	const kind = "new pages of 250 coins with sparklines"
	if b.skipped(append(dearestRows(kind), prices, markets, sent, held, list)...) {
		return nil
	}
	defer func(key string) { b.key = key }(b.key)
	one, other, err := b.pastMarket(ctx)
	if err != nil {
		return err
	}
	defer b.stop(one, other)
	filters, err := b.filters(one)
	if err != nil {
		return err
	}
	ten := func(kind string) func(rnd *rand.Rand) string {
		var values []string
		for _, f := range filters {
			if value, ok := strings.CutPrefix(f, kind); ok {
				values = append(values, value)
			}
		}
		return func(rnd *rand.Rand) string {
			var chosen [10]string
			for i := range chosen {
				chosen[i] = values[rnd.IntN(len(values))]
			}
			return strings.Join(chosen[:], ",")
		}
	}
	slugs, ids := ten("slug="), ten("id=")
	const price = "/api/v3/simple/price?vs_currencies=usd,eur&ids="
	auth := b.auth()
	const coinsList = "/api/v3/coins/list"
	whole, err := b.cached(one, coinsList)
	if err != nil {
		return err
	}
	bares, err := b.bares(ctx, []bareKind{{whole, 1, coinsList, auth}})
	if err != nil {
		return err
	}
	pages := load{"edge, new pages of 100", other, func(dst []byte, rnd *rand.Rand) []byte {
		return listing(dst, rnd.IntN(pastAssets-150), 100, sorts[rnd.IntN(len(sorts))])
	}, auth}
	for _, c := range []comparison{
		{prices, 1.6,
			load{"edge, new prices", one,
				func(dst []byte, rnd *rand.Rand) []byte { return append(append(dst, price...), slugs(rnd)...) }, auth},
			load{"edge, new ids", other,
				func(dst []byte, rnd *rand.Rand) []byte { return append(append(dst, quotes+"?id="...), ids(rnd)...) },
				auth}},
		{markets, 6,
			load{"edge, new markets", one,
				func(dst []byte, rnd *rand.Rand) []byte { return append(dst, costlyCoins(rnd)...) }, auth},
			pages},
		{sent, 0,
			load{"edge, cached markets", one,
				always("/api/v3/coins/markets?vs_currency=usd&sparkline=true&per_page=250"), auth},
			pages},
		{held, 0,
			load{"edge, cached prices", one, always(price + slugs(rand.New(rand.NewPCG(1, 1)))), auth},
			load{"edge, cached page", other, always(quotes + "?page=3"), auth}},
		{list, 0, load{"edge, cached list", one, always(coinsList), auth}, bares[0]},
	} {
		if err := b.compare(ctx, c); err != nil {
			return err
		}
	}
	return b.dearest(ctx, one, "past", kind, costlyCoins)
}

// costlyCoins returns a random request for a page with sparklines. It is unlikely that the same page has been
// requested before.
func costlyCoins(rnd *rand.Rand) string {
	path := fmt.Sprintf("/api/v3/coins/markets?vs_currency=usd&sparkline=true&per_page=%d&page=%d&order=%s"+
		"&price_change_percentage=", 250-rnd.IntN(20), 1+rnd.IntN(3),
		[]string{"market_cap_desc", "volume_desc", "id_asc"}[rnd.IntN(3)])
	for _, window := range [...]string{"1h", "24h", "7d", "14d", "30d", "200d", "1y"} {
		if rnd.IntN(2) == 0 { // so that few requests are repeated
			path += window + ","
		}
	}
	return path
}
