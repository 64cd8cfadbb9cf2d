package edge

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"example.com/marketdata/edge/coingecko"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// ask requests a path below coingecko.Prefix.
func (e *Edge) ask(t *testing.T, path string, header ...string) (*http.Response, []byte) {
	t.Helper()
	r := must.Get(http.NewRequest(http.MethodGet, "http://"+e.Addr().String()+coingecko.Prefix+path, nil))(t)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := must.Get(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	return answer, must.Get(io.ReadAll(answer.Body))(t)
}

// TestCoinGeckoKeys checks that the edge accepts a key in every place where programs send it, that a key in
// the query affects neither ETag nor cache, and what errors look like.
func TestCoinGeckoKeys(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	key, other := teststore.Key(t, mem, 100, 1000).Key, teststore.Key(t, mem, 1, 1).Key
	var logged bytes.Buffer
	e, stop := start(t, mem, func(cfg *Config) {
		cfg.Coins, cfg.AuthOff, cfg.Server.LogAll = true, false, true
		cfg.Log = slog.New(slog.NewJSONHandler(&logged, nil))
	})
	until(t, "a snapshot and keys", func() bool { return e.current() != nil && e.notReady() == "" })
	const target = "simple/price?ids=asset-9&vs_currencies=usd"
	var tag string
	for _, in := range []string{"X-Api-Key", "x-cg-demo-api-key", "X-Cg-Pro-Api-Key", "x_cg_demo_api_key",
		"x_cg_pro_api_key", "x%5fcg_demo_api_key"} {
		var answer *http.Response
		var body []byte
		if strings.Contains(in, "_") {
			answer, body = e.ask(t, target+"&"+in+"="+key)
		} else {
			answer, body = e.ask(t, target, in, key)
		}
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("key in %s: %d %s", in, answer.StatusCode, body)
		}
		if got := answer.Header.Get("ETag"); tag != "" && got != tag {
			t.Errorf("key in %s: tag %s, was %s", in, got, tag)
		} else {
			tag = got
		}
		if in == "x_cg_demo_api_key" && !strings.HasPrefix(answer.Header.Get("Cache-Status"), "edge; hit") {
			t.Errorf("key in %s: %q", in, answer.Header.Get("Cache-Status"))
		}
	}
	for _, c := range []struct {
		path   string
		header []string
		status int
		body   string
	}{
		{"ping", nil, 200, coingecko.Ping}, {"", nil, 200, `{"about":"CoinGecko-compatible API`},
		{target, nil, 401, `{"status":{"error_code":401,"error_message":"missing, invalid or expired API key: send a key of ` +
			`this service, which a key from CoinGecko is not, in the header x-cg-demo-api-key, `},
		{target + "&x_cg_demo_api_key=" + other, []string{"X-Api-Key", key}, 401, `{"status":{"error_code":401`},
		{target + "&x_cg_demo_api_key=" + key, []string{"X-Api-Key", key, "x-cg-demo-api-key", key}, 200,
			`{"asset-9":{`},
		{"coins/nothing", []string{"X-Api-Key", key}, 404, `{"error":"coin not found"}`},
		{"nothing", nil, 404, `{"error":"`},
		{"coins/top_gainers_losers?vs_currency=usd", nil, 404, `{"error":"this endpoint is not served here; `},
		{target + "x", []string{"X-Api-Key", key}, 400, `{"error":"invalid vs_currency"}`},
		{target, []string{"X-Api-Key", key, "X-Snapshot-Time", "now"}, 400, `{"error":"X-Snapshot-Time: `},
		{target, []string{"X-Api-Key", other}, 200, `{"asset-9":{`},
		{target, []string{"X-Api-Key", other}, 429, `{"status":{"error_code":429`},
		{target, []string{"X-Api-Key", key, "If-None-Match", tag}, 304, ""},
	} {
		answer, body := e.ask(t, c.path, c.header...)
		if answer.StatusCode != c.status || !strings.HasPrefix(string(body), c.body) {
			t.Errorf("%s %v: %d %s", c.path, c.header, answer.StatusCode, body)
		}
	}
	for _, want := range []string{"edge; fwd=miss", "edge; hit"} { // cached on the first request
		answer, _ := e.ask(t, "coins/list", "X-Api-Key", key)
		if got := answer.Header.Get("Cache-Status"); !strings.HasPrefix(got, want) {
			t.Errorf("coins/list: %q, want %q", got, want)
		}
	}
	must.OK(t, stop())
	const route = `"route":"coingecko_simple_price"`
	if strings.Contains(logged.String(), key) || !strings.Contains(logged.String(), route) {
		t.Errorf("the log has the key, or not the route:\n%s", logged.String())
	}
}

// TestCoinGeckoIsSeparate checks that without the flag the paths do not exist, and that the edge reads no
// views for them.
func TestCoinGeckoIsSeparate(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(50, 1), teststore.Start)
	e, _ := start(t, mem, nil)
	until(t, "a snapshot", func() bool { return e.current() != nil })
	for _, path := range []string{"", "ping", "openapi.json", "coins/list", "simple/price?ids=a&vs_currencies=usd"} {
		answer, body := e.ask(t, path)
		if answer.StatusCode != http.StatusNotFound || !strings.Contains(string(body), `"PATH_NOT_FOUND"`) {
			t.Errorf("%s: %d %s", path, answer.StatusCode, body)
		}
	}
	for v := range snapshot.Leaders + 1 {
		if e.current().CoinView(v) != nil {
			t.Errorf("the snapshot has view %d", v)
		}
	}
}
