package teststore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// Awkward returns a market of n assets, and a few rows of everything else, whose names and slugs
// are difficult to encode, match and sort. Prices depend on seed and the time.
func Awkward(n int, seed uint64) Moments {
	return func(at time.Time) Rows { return awkward(rand.New(rand.NewPCG(seed, uint64(at.Unix()))), n) }
}

// PublishAwkward publishes one snapshot of an Awkward market of n assets for each seed: the first
// at the given time, the others at intervals of ten minutes. If the store is empty, it also gets a history
// in which prices change. It returns the last snapshot.
func PublishAwkward(tb testing.TB, store artifacts.Store, n int, at time.Time, seeds ...uint64) (last *Published) {
	tb.Helper()
	const day = 24 * time.Hour
	for i, seed := range seeds {
		m := Awkward(n, seed)
		last = Publish(tb, store, m, at.Add(time.Duration(i)*artifacts.Step),
			Past(m, at.Add(-50*day), at.Add(-3*day), at.Add(-30*time.Minute)),
			Settings(market.Settings{HistoryAssets: n / 2}), Retain(7*day))
	}
	return last
}

func awkward(r *rand.Rand, n int) Rows {
	names := []string{"Bitcoin", "Ether & Co", `The "Quoted"`, `Back\slash`, "<b>Bold</b>", "Line\u2028Break",
		"Tab\tBell\a", "Ünïcode", "Kelvin \u212a", "long ſ", "same", "same", "SAME"}
	symbols := []string{"BTC", "ETH", "eth", "K", "\u212a", "ſ", "s", "$A$", "一", "UNIQUE"}
	type row = map[string]any
	rows := Rows{}
	for i := range n {
		id := i*3 + 1
		slug := fmt.Sprintf("Coin-%d", id)
		if i%7 == 3 {
			slug = fmt.Sprintf("a&b (%d) 100%%", id)
		}
		key := fmt.Sprint("a", i)
		rows["assets"] = append(rows["assets"], row{
			"key": key, "id": id, "name": names[r.IntN(len(names))], "symbol": symbols[r.IntN(len(symbols))],
			"slug": slug, "logo": fmt.Sprintf("https://img.example/%d.png", id),
			"explorers": []string{"https://x.example/?a=1&b=2"}, "website": "https://w.example/<" + slug + ">",
			"active": i%11 != 5,
		})
		if i%4 == 3 {
			continue // no price
		}
		quote := row{"key": key, "price": fmt.Sprintf("%d.%d5", r.IntN(1000), r.IntN(1000)),
			"market_cap": r.IntN(1e9) + 1, "volume": r.IntN(1e6)}
		if i%6 == 2 {
			delete(quote, "market_cap")
		}
		rows["quotes"] = append(rows["quotes"], quote)
	}
	coins := []string{"a0", "a1", "a4", "a6", "a9", "a10"}
	for i := range n/10 + 30 {
		exchange := row{"key": fmt.Sprint("e", i), "id": i + 1, "name": fmt.Sprintf("Exchange %d", i%7),
			"slug": fmt.Sprintf("ex-%d", i%11), "fees": row{"taker": 0.25}}
		switch {
		case i%8 == 0: // It is listed but has no market.
		case i%4 == 0:
			exchange["market"] = row{"coins_count": 12}
		default:
			exchange["market"] = row{"volume_24h": r.IntN(5), "markets_count": i, "data_time": "2026-01-02T03:04:05Z"}
		}
		rows["exchanges"] = append(rows["exchanges"], exchange)
		for name, id := range map[string]int{"categories": i*2 + 1, "chains": i*2 + 5} {
			rows[name] = append(rows[name], row{"key": fmt.Sprint("g", i), "id": id,
				"name": fmt.Sprintf("Group %d", id%9), "slug": fmt.Sprintf("group-%d", id),
				"members": coins[i%3 : i%3+1+i%4], "evm_chain_id": i})
		}
	}
	return rows
}
