// Package fakeapi is a small market-data service over made-up data, for the load tester's own
// tests: the real builder publishes its snapshots, and it answers from them as internal/model
// does or, when told so, with a fault.
package fakeapi

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/teststore"
)

// World is a snapshot, and the market that it is of.
type World struct {
	*model.Snapshot
	made
	past []time.Time // of the first of several worlds
}

// made is a market of n assets and some of everything else. Names and slugs hold what is hard to
// write, match and sort.
type made struct {
	n    int
	seed uint64
}

// Files implements teststore.Content.
func (m made) Files(at time.Time) source.Memory {
	files := source.Memory{}
	for name, text := range feed(rand.New(rand.NewPCG(m.seed, uint64(at.Unix()))), at, m.n) {
		files[name] = []byte(text)
	}
	return files
}

// NewWorld returns the snapshot of a market of n assets.
func NewWorld(t time.Time, n int, seed uint64) *World { return NewWorlds(t, n, seed)[0] }

// NewWorlds returns a snapshot for each seed, the first of time t, each ten minutes after the one
// before.
func NewWorlds(t time.Time, n int, seeds ...uint64) (worlds []*World) {
	w := model.New(model.Settings{MinMarketCap: "0", MinVolume: "0", Retain: time.Hour, History: n / 2})
	build := func(m made, at time.Time) {
		files := model.Files{}
		for name, text := range m.Files(at) {
			files[name] = string(text)
		}
		if _, err := w.Build(files, at); err != nil {
			panic(err)
		}
	}
	const day = 24 * time.Hour
	for i, seed := range seeds {
		next := &World{made: made{n, seed}}
		if i == 0 {
			// Prices change in between.
			next.past = []time.Time{t.Add(-50 * day), t.Add(-3 * day), t.Add(-30 * time.Minute)}
			for _, at := range next.past {
				build(next.made, at)
			}
		}
		build(next.made, t.Add(time.Duration(i)*artifacts.Step))
		next.Snapshot = w.Newest()
		worlds = append(worlds, next)
	}
	return worlds
}

// Publish builds the worlds, oldest first, into a store that is empty or has those before.
func Publish(tb testing.TB, store artifacts.Store, worlds ...*World) {
	tb.Helper()
	for _, w := range worlds {
		teststore.Publish(tb, store, w.made, w.Time, teststore.Past(w.made, w.past...),
			teststore.Settings(market.Settings{HistoryAssets: w.n / 2}), teststore.Retain(7*24*time.Hour))
	}
}

func feed(r *rand.Rand, at time.Time, n int) model.Files {
	names := []string{"Bitcoin", "Ether & Co", `The "Quoted"`, `Back\slash`, "<b>Bold</b>", "Line\u2028Break",
		"Tab\tBell\a", "Ünïcode", "Kelvin \u212a", "long ſ", "same", "same", "SAME"}
	symbols := []string{"BTC", "ETH", "eth", "K", "\u212a", "ſ", "s", "$A$", "一", "UNIQUE"}
	type object map[string]any
	files := map[string]*strings.Builder{}
	add := func(name string, row object) {
		if files[name] == nil {
			files[name] = &strings.Builder{}
		}
		if err := json.NewEncoder(files[name]).Encode(row); err != nil {
			panic(err)
		}
	}
	for i := range n {
		id := i*3 + 1
		slug := fmt.Sprintf("Coin-%d", id)
		if i%7 == 3 {
			slug = fmt.Sprintf("a&b (%d) 100%%", id)
		}
		key := fmt.Sprint("a", i)
		add("assets", object{
			"key": key, "id": id, "name": names[r.IntN(len(names))], "symbol": symbols[r.IntN(len(symbols))],
			"slug": slug,
			"logo": fmt.Sprintf("https://img.example/%d.png", id), "explorers": []string{"https://x.example/?a=1&b=2"},
			"website": "https://w.example/<" + slug + ">",
			"active":  i%11 != 5,
		})
		if i%4 == 3 {
			continue // no price
		}
		quote := object{"key": key, "price": fmt.Sprintf("%d.%d5", r.IntN(1000), r.IntN(1000)),
			"market_cap": r.IntN(1e9) + 1, "volume": r.IntN(1e6)}
		if i%6 == 2 {
			delete(quote, "market_cap")
		}
		add("quotes", quote)
	}
	coins := []string{"a0", "a1", "a4", "a6", "a9", "a10"}
	for i := range n/10 + 30 {
		exchange := object{"key": fmt.Sprint("e", i), "id": i + 1, "name": fmt.Sprintf("Exchange %d", i%7),
			"slug": fmt.Sprintf("ex-%d", i%11), "fees": object{"taker": 0.25}}
		switch {
		case i%8 == 0: // listed without a market
		case i%4 == 0:
			exchange["market"] = object{"coins_count": 12}
		default:
			exchange["market"] = object{
				"volume_24h": r.IntN(5), "markets_count": i, "data_time": "2026-01-02T03:04:05Z"}
		}
		add("exchanges", exchange)
		for name, id := range map[string]int{"categories": i*2 + 1, "chains": i*2 + 5} {
			add(name, object{"key": fmt.Sprint("g", i), "id": id, "name": fmt.Sprintf("Group %d", id%9),
				"slug": fmt.Sprintf("group-%d", id), "members": coins[i%3 : i%3+1+i%4], "evm_chain_id": i})
		}
	}
	out := model.Files{"feed.json": fmt.Sprintf(`{"format":1,"database":"fake","time":%q}`, at.Format(time.RFC3339))}
	for name, text := range files {
		out[name+".ndjson"] = text.String()
	}
	return out
}
