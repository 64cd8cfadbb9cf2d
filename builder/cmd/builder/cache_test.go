package main

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/providertest"
)

// paprika serves responses like CoinPaprika's, and returns the source that reads them.
func paprika(t *testing.T) string {
	t.Helper()
	p := providertest.New()
	for path, body := range map[string]string{
		"/tickers":   `[{"id":"btc-bitcoin","name":"Bitcoin","symbol":"BTC","rank":1,"quotes":{"USD":{"price":1,"market_cap":5,"volume_24h":3}}}]`,
		"/coins":     `[{"id":"btc-bitcoin","name":"Bitcoin","symbol":"BTC","is_active":true}]`,
		"/exchanges": `[{"id":"grand","name":"Grand"}]`, "/tags": `[{"id":"one","name":"One","coins":[]}]`,
		"/contracts": `["btc-bitcoin"]`,
	} {
		p.Set(path, []byte(body))
	}
	return "coinpaprika:?base=" + url.QueryEscape(p.Serve(t)) + "&quota=none"
}

// TestCacheRequired checks that a manual build from a live provider fails without the service's
// cache folder, and that --force does not override this.
func TestCacheRequired(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--source", paprika(t), "--store", "file:" + filepath.Join(dir, "store")}
	cache := []string{"--state-dir", filepath.Join(dir, "cache")}
	build := func(more ...string) result {
		t.Helper()
		return command(t, append(append([]string{"build"}, args...), more...)...)
	}
	if r := build(append(cache, "--time", "2026-11-21T07:10:00Z")...); r.status != cmdline.Done {
		t.Fatalf("the first build: %s", r.stderr)
	}
	for name, c := range map[string]struct {
		more []string
		says string
	}{
		"no folder":               {nil, "BUILDER_STATE_DIR"},
		"no folder, forced":       {[]string{"--force"}, "BUILDER_STATE_DIR"},
		"an empty folder":         {[]string{"--state-dir", filepath.Join(dir, "other")}, "has no data of it"},
		"none, forced, on demand": {[]string{"--no-state-dir", "--force"}, "--allow"},
	} {
		if r := build(c.more...); r.status != cmdline.Usage || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s: status %d, %s", name, r.status, r.stderr)
		}
	}
	for _, more := range [][]string{{
		"--no-state-dir", "--time", "2026-11-21T07:20:00Z",
	}, append(cache, "--time", "2026-11-21T07:30:00Z")} {
		if r := build(more...); r.status != cmdline.Done {
			t.Errorf("%q: status %d, %s", more, r.status, r.stderr)
		}
	}
	wants(t, cmdline.Usage, "--no-state-dir", append([]string{"run"}, args...)...)
}
