package coingecko_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge/coingecko"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/internal/test/edgerig"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// coins returns a market of 300 coins with contracts and supplies.
func coins(at time.Time) teststore.Rows {
	rows := teststore.Rows{"rates": {{"code": "eur", "usd": "1.1"}, {"code": "btc", "usd": "91000.5"},
		{"code": "one", "asset": "coin-1"}}}
	for i := range 170 { // an answer may not contain the prices of 300 coins in all of these
		rows["rates"] = append(rows["rates"], map[string]any{"code": fmt.Sprint("x", i), "usd": 1 + i})
	}
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

// targets returns requests for a snapshot of coins, but none for a whole collection or /global.
func targets() []string {
	const all = "&include_market_cap=1&include_24hr_vol=1&include_24hr_change=1&include_last_updated_at=1&precision=3"
	return []string{
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
		"coins/coin-1/ohlc?vs_currency=usd&days=7", "coins/coin-1/ohlc?vs_currency=usd&days=max&precision=2",
		"coins/coin-5/ohlc/range?vs_currency=one&from=0&to=9999999999&interval=hourly",
		"coins/coin-5/market_chart?vs_currency=one&days=max",
		"coins/coin-1/market_chart?vs_currency=btc&days=max&interval=hourly",
		"coins/coin-5/history?date=" + teststore.Start.Format("02-01-2006"), "search?query=coin+7", "search/trending",
		"exchange_rates", "simple/supported_vs_currencies", "exchanges",
	}
}

// newRig returns an Engine that has a snapshot of coins and caches no answers.
func newRig(t *testing.T, shardMemory int64) (*edgerig.Rig, *reply.Engine, *faultstore.Store) {
	store, feed := faultstore.New(memstore.New(), nil), teststore.Moments(coins)
	teststore.Publish(t, store, feed, teststore.Start,
		teststore.Past(feed, teststore.Start.Add(-30*time.Hour), teststore.Start.Add(-2*time.Hour)))
	rig := edgerig.New(t, store, shardMemory)
	engine := reply.New(reply.Config{Refresher: rig.Refresher, WarmBytes: 16 << 20})
	rig.Run(t, engine.Warm)
	rig.Await(t, teststore.Start)
	rig.Freeze() // because polls allocate
	return rig, engine, store
}

// asker returns a function that requests a target and always reuses the same memory.
func asker(t *testing.T, engine *reply.Engine, target string) (*reply.Request, func() error) {
	path, raw, _ := strings.Cut(target, "?")
	e, _ := coingecko.EndpointAt([]byte(path))
	pathBytes, rawBytes, q := []byte(path), []byte(raw), new(coingecko.Query)
	req := &reply.Request{Context: context.Background(), Now: time.Now(), Other: q}
	return req, func() error {
		req.Reply.Clear()
		if refusal := q.Parse(e, pathBytes, rawBytes); refusal != nil {
			t.Fatal(refusal)
		}
		return engine.Answer(req)
	}
}

// TestManyPrices checks the limit of the number of prices in an answer.
func TestManyPrices(t *testing.T) {
	_, engine, _ := newRig(t, 16<<20)
	var ids, codes []string
	for i := range 300 {
		ids = append(ids, fmt.Sprint("coin-", i))
		codes = append(codes, fmt.Sprint("x", i))
	}
	for n, ok := range map[int]bool{166: true, 167: false} {
		_, ask := asker(t, engine,
			"simple/price?ids="+strings.Join(ids, ",")+"&vs_currencies="+strings.Join(codes[:n], ","))
		refusal, refused := ask().(*reply.Refusal)
		if refused == ok || refused && refusal.Status != http.StatusBadRequest {
			t.Errorf("%d prices: %v", 300*n, refusal)
		}
	}
}

// TestMissingObjects removes each object in turn from disk and store, and checks that each answer is then
// either an error or complete.
func TestMissingObjects(t *testing.T) {
	rig, engine, store := newRig(t, 1)
	list := append(targets(), "coins/list?include_platform=1", "coins/categories", "exchanges/list", "asset_platforms",
		"global")
	want, failed := map[string]string{}, map[string]bool{}
	for _, target := range list {
		req, ask := asker(t, engine, target)
		must.OK(t, ask())
		want[target] = string(req.Reply.Body)
	}
	store.SetHook(func(faultstore.Op) faultstore.Decision { return faultstore.Refuse })
	must.OK(t, filepath.WalkDir(filepath.Join(rig.Dir, "objects"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		away := filepath.Join(rig.Dir, "away")
		must.OK(t, os.Rename(file, away))
		for _, target := range list {
			rig.Cache.Wait() // otherwise the cache may still contain shards that it will reject
			req, ask := asker(t, engine, target)
			if ask() != nil {
				failed[target] = true
			} else if string(req.Reply.Body) != want[target] {
				t.Errorf("%s without %s: status %d, %.300s", target, file, req.Reply.Status, req.Reply.Body)
			}
		}
		return os.Rename(away, file)
	}))
	for _, target := range list {
		if !failed[target] {
			t.Errorf("%s needs no object", target)
		}
	}
}
