package edge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// TestTokens compares the prices of new and cached answers with INTERFACE.md, "Rate limits". Seven endpoints
// cost one token. All others cost one token, one more for each further 16 KiB of the plain body, and one for
// each 500 rows that a search or a filter by group visits. Each request has a key of its own, whose bucket is
// full.
func TestTokens(t *testing.T) {
	const burst, assets = 1000, 6000
	const groups = "group-0,group-1,group-2,group-3,group-4,group-5,group-6,group-7,group-8,group-9"
	const ids = "id=1,5,9,13,17,21,25,29,33,37,41,45,49,53,57,61,65,69,73,77"
	// The groups have no coin in common, so each row of the listing belongs to exactly one group.
	coins := func(body string) int {
		var list struct{ Result struct{ Total int } }
		must.OK(t, json.Unmarshal([]byte(body), &list))
		return list.Result.Total
	}
	// Each name contains the word Asset, and each slug begins with it.
	words := func(string) int { return 2 * assets }
	cases := []struct {
		path, accept string
		least        int                   // the minimum price, so that the case is meaningful
		visited      func(body string) int // returns the number of visited rows; nil if there are none
	}{
		{path: "/openapi/v1/history?" + ids + "&window=24h", least: 1},
		{path: "/openapi/v1/history?id=1,5,9,13,17&window=1y", least: 3},
		{path: "/openapi/v1/history?" + ids + "&window=1y", accept: "br", least: 10},
		{path: "/openapi/v1/markets?size=100", least: 3},
		{path: "/openapi/v1/markets.csv?size=100", least: 1},
		{path: "/openapi/v1/history.csv?" + ids + "&window=1y", accept: "gzip", least: 10},
		{path: "/openapi/v1/markets?category=" + groups + "&sort=price", least: 2, visited: coins},
		{path: "/openapi/v1/markets?chain=" + groups + "&sort=name&size=100", accept: "gzip", least: 3, visited: coins},
		{path: "/openapi/v1/search?q=asset", least: 25, visited: words},
		{path: "/api/v3/coins/list", least: 20},
		{path: "/api/v3/coins/markets?vs_currency=usd&per_page=250", least: 10},
		{path: "/api/v3/coins/markets?vs_currency=usd&per_page=50&sparkline=true", accept: "zstd", least: 4},
		{path: "/api/v3/simple/price?ids=asset-0,asset-1&vs_currencies=usd", least: 1},
	}
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(assets, 1).History(100), teststore.Start)
	var keys []string
	for range 4*len(cases) + 7 {
		keys = append(keys, teststore.Key(t, mem, 1, burst).Key)
	}
	e, _ := start(t, mem, func(cfg *Config) { cfg.AuthOff, cfg.Coins = false, true })
	until(t, "a snapshot and keys", func() bool { return e.current() != nil && e.notReady() == "" })
	ask := func(path string, headers ...string) (status, cost int, body, cached string) {
		t.Helper()
		status, body, h := Get(t, e.Addr(), path, append(headers, "X-Api-Key", keys[0])...)
		keys = keys[1:]
		var left int
		must.Get(fmt.Sscanf(h.Get("RateLimit"), `"default";r=%d;`, &left))(t)
		return status, burst - left, body, h.Get("Cache-Status")
	}
	for _, name := range []string{"assets", "quotes", "trending", "exchanges", "global", "categories", "chains"} {
		if status, cost, body, _ := ask("/openapi/v1/" + name + "?size=100"); status != 200 || cost != 1 {
			t.Errorf("%s, %d bytes: %d, costs %d", name, len(body), status, cost)
		}
	}
	for _, c := range cases {
		_, fresh, body, cached := ask(c.path)
		want := (len(body) + 16<<10 - 1) / (16 << 10)
		if c.visited != nil {
			want += c.visited(body) / 500
		}
		if fresh != want || fresh < c.least || strings.HasPrefix(cached, "edge; hit") {
			t.Errorf("%s, %d bytes: costs %d, want %d, at least %d; %s", c.path, len(body), fresh, want, c.least,
				cached)
		}
		ask(c.path, "Accept-Encoding", c.accept)
		status, cost, _, cached := ask(c.path, "Accept-Encoding", c.accept)
		if status != 200 || cost != want || !strings.HasPrefix(cached, "edge; hit") {
			t.Errorf("%s: %d, costs %d, want %d as the new one; %s", c.path, status, cost, want, cached)
		}
		if status, cost, _, _ := ask(c.path, "If-None-Match", "*"); status != 304 || cost != want {
			t.Errorf("%s: %d, costs %d, want a 304 for %d as the new one", c.path, status, cost, want)
		}
	}
}
