//go:build !race

package gecko_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge/gecko"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/internal/lab/edgerig"
	"example.com/marketdata/internal/lab/memstore"
	"example.com/marketdata/internal/lab/teststore"
)

// coins is a market of 300 coins with contracts and supplies.
func coins(at time.Time) teststore.Rows {
	rows := teststore.Rows{"rates": {{"code": "eur", "usd": "1.1"}, {"code": "btc", "usd": "91000.5"}}}
	var members []string
	for i := range 300 {
		key := fmt.Sprint("coin-", i)
		members = append(members, key)
		rows["assets"] = append(rows["assets"], map[string]any{"key": key, "name": fmt.Sprint("Coin ", i), "slug": key,
			"symbol": fmt.Sprint("C", i%100), "platforms": map[string]string{"ethereum": fmt.Sprint("0x", i)}})
		rows["quotes"] = append(rows["quotes"], map[string]any{"key": key, "price": fmt.Sprintf("%d.%d", i, at.Unix()),
			"market_cap": 1 + i*i, "volume": i, "max_supply": 1000 + i})
	}
	rows["exchanges"] = []map[string]any{{"key": "x", "name": "X", "slug": "x",
		"market": map[string]any{"volume_24h": 5}}}
	rows["categories"] = []map[string]any{{"key": "g", "name": "G", "slug": "g", "members": members}}
	return rows
}

// TestNoAllocations counts what an answer allocates that is put together, from its parameters on, once
// memory has grown: nothing, but for whole collections and /global, which are put together once a
// snapshot.
func TestNoAllocations(t *testing.T) {
	store, feed := memstore.New(), teststore.Moments(coins)
	teststore.Publish(t, store, feed, teststore.Start,
		teststore.Past(feed, teststore.Start.Add(-30*time.Hour), teststore.Start.Add(-2*time.Hour)))
	rig := edgerig.New(t, store, 64<<20, 1) // no answer is cached
	engine := reply.New(reply.Config{Refresher: rig.Refresher, WarmBytes: 16 << 20, Compose: gecko.FromSource})
	rig.Run(t, engine.Warm)
	rig.Await(t, teststore.Start)
	rig.Freeze() // polls allocate
	const all = "&include_market_cap=1&include_24hr_vol=1&include_24hr_change=1&include_last_updated_at=1&precision=3"
	for _, target := range []string{
		"simple/price?ids=coin-1,coin-2,none&vs_currencies=usd,eur" + all,
		"simple/price?names=coin+7,Coin+8&vs_currencies=btc",
		"simple/price?symbols=c5,C6&vs_currencies=usd,eur,btc" + all,
		"simple/price?symbols=c5,c6&include_tokens=all&vs_currencies=usd",
		"simple/token_price/ethereum?contract_addresses=0x1,0x2,0x&vs_currencies=usd,eur" + all,
		"coins/markets?vs_currency=usd&sparkline=true&price_change_percentage=1h,200d",
		"coins/markets?vs_currency=eur&sparkline=true&order=id_desc&per_page=50&page=2&precision=2",
		"coins/markets?vs_currency=btc&ids=coin-5,coin-6", "coins/markets?vs_currency=usd&category=g&order=volume_asc",
		"coins/coin-1", "coins/coin-5?sparkline=true&include_categories_details=true",
		"coins/ethereum/contract/0x7?market_data=false", "coins/coin-1/market_chart?vs_currency=usd&days=max",
		"coins/ethereum/contract/0x7/market_chart?vs_currency=eur&days=7&precision=4",
		"coins/coin-5/market_chart/range?vs_currency=btc&from=0&to=9999999999",
		"coins/coin-5/history?date=" + teststore.Start.Format("02-01-2006"), "search?query=coin+7", "search/trending",
		"exchange_rates", "simple/supported_vs_currencies", "exchanges",
	} {
		path, raw, _ := strings.Cut(target, "?")
		e, _ := gecko.EndpointAt([]byte(path))
		pathBytes, rawBytes, q := []byte(path), []byte(raw), new(gecko.Query)
		req := &reply.Request{Context: context.Background(), Now: time.Now(), Other: q}
		do := func() {
			req.Reply.Clear()
			if refusal := q.Parse(e, pathBytes, rawBytes); refusal != nil {
				t.Fatal(refusal)
			}
			if err := engine.Answer(req); err != nil || req.Reply.Status != 200 || len(req.Reply.Body) < 10 {
				t.Fatalf("%s: %v, status %d, %s", target, err, req.Reply.Status, req.Reply.Body)
			}
		}
		for range 100 { // shards in memory, buffers grown
			do()
			rig.Cache.Wait()
		}
		before := engine.Totals().Composed
		if n := testing.AllocsPerRun(200, do); n != 0 {
			t.Errorf("%s: %v allocations", target, n)
		}
		if engine.Totals().Composed == before {
			t.Errorf("%s: it was not put together", target)
		}
	}
}
