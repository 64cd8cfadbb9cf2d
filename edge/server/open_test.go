package server

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestOpenLimit checks that requests that need no key have a separate bucket per client address, whose limit
// is stated only when it is exceeded.
func TestOpenLimit(t *testing.T) {
	keys, text := newKeys(t, 1, 100)
	s := newServer(t, Config{
		Keys: keys, AddressRate: 1, AddressBurst: 1,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Static:         map[string]StaticFile{"/docs": {Body: []byte("docs"), ContentType: "text/html"}},
	})
	now := time.Now()
	open := []struct {
		method, target string
		status         int
	}{{"GET", "/docs", 200}, {"HEAD", "/docs", 200}, {"GET", "/nowhere", 404}, {"POST", assets, 405},
		{"OPTIONS", assets, 204}, {"OPTIONS", "/nowhere", 204}, {"OPTIONS", "*", 204}}
	ask := func(i int, address string) *response {
		kind := open[i%len(open)]
		return handle(t, s, now, request(kind.method, kind.target, "X-Forwarded-For: "+address, "X-Api-Key: "+text,
			"Accept-Encoding: gzip"))
	}
	for i := range 200 {
		a := ask(i, "2001:db8:7::1")
		if a.StatusCode != open[i%len(open)].status || a.Header.Get("RateLimit") != "" ||
			a.Header.Get("RateLimit-Policy") != "" {
			t.Fatalf("request %d: %d with %v", i, a.StatusCode, a.Header)
		}
	}
	refused := 0
	for i := range open {
		a := ask(i, "2001:db8:7::2")
		if a.StatusCode != 429 || a.key == "" && open[i].method != "HEAD" ||
			a.Header.Get("RateLimit-Policy") != `"open";q=200;w=4` || a.Header.Get("RateLimit") != `"open";r=0;t=4` ||
			a.Header.Get("Retry-After") != "1" || a.Header.Get("ETag") != "" ||
			a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Allow") != "" {
			t.Errorf("%s %s: %d with %v", open[i].method, open[i].target, a.StatusCode, a.Header)
		}
		switch a := ask(i, fmt.Sprintf("192.0.2.%d", i)); a.StatusCode {
		case open[i].status:
		case 429:
			refused++
		default:
			t.Errorf("%s %s from elsewhere: %d", open[i].method, open[i].target, a.StatusCode)
		}
	}
	// Two of the addresses share a bucket with a probability of 1 in 65,536, as has happened in this test.
	// Three of them do so with a probability of 1 in 200 million.
	if refused > 1 {
		t.Errorf("%d of %d addresses elsewhere were refused", refused, len(open))
	}
	// Requests that need a key use other buckets.
	from := "X-Forwarded-For: 2001:db8:7::1"
	expect(t, 200, "", handle(t, s, now, request("GET", assets, from, "X-Api-Key: "+text)))
	expect(t, 401, "UNAUTHORIZED", handle(t, s, now, request("GET", assets, from)))
	if a := handle(t, s, now, request("GET", assets, from)); a.Header.Get("RateLimit-Policy") != `"default";q=1;w=1` {
		t.Errorf("%d with %v", a.StatusCode, a.Header)
	}
	// The bucket gains 50 tokens per second.
	now = now.Add(time.Second)
	for i := range 51 {
		if a := ask(i, "2001:db8:7::1"); (a.StatusCode == 429) != (i == 50) {
			t.Errorf("request %d after a second: %d", i, a.StatusCode)
		}
	}

	free := newServer(t, Config{OpenRate: 1, OpenBurst: 1})
	for range 3 {
		expect(t, 404, "PATH_NOT_FOUND", handle(t, free, now, request("GET", "/nowhere")))
	}
}

// TestFramingTakesNoToken checks that a request that cannot be read costs no token.
func TestFramingTakesNoToken(t *testing.T) {
	keys, _ := newKeys(t, 1, 1)
	_, addr := start(t, func(cfg *Config) { cfg.Keys, cfg.OpenRate, cfg.OpenBurst = keys, 1, 1 })
	for _, raw := range []string{"GET\r\n\r\n", "GET /" + strings.Repeat("a", 70_000),
		request("GET", "/nowhere", "Content-Length: 5000")} {
		if a := dial(t, addr).send(raw).receive("GET"); a.StatusCode == 404 || a.StatusCode == 429 {
			t.Errorf("%.20q: %d", raw, a.StatusCode)
		}
	}
	expect(t, 404, "PATH_NOT_FOUND", ask(t, addr, "GET", "/nowhere"))
	expect(t, 429, "TOO_MANY_REQUESTS", ask(t, addr, "GET", "/nowhere"))
}
