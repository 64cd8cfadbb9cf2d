package server

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/reqid"
	"example.com/marketdata/edge/rows"
	"example.com/marketdata/edge/snapshot"
)

// TestNearPaths checks that the 404 for a path that is similar to a served one names the latter.
func TestNearPaths(t *testing.T) {
	_, addr := start(t, nil)
	for path, want := range map[string]string{
		"/openapi/v1/Quotes": "/openapi/v1/quotes", "/openapi/v1/quote": "/openapi/v1/quotes",
		"/v1/quotes": "/openapi/v1/quotes", "/openapi/v1/quotes/": "/openapi/v1/quotes",
		"/quotes":           "/openapi/v1/quotes",
		"/openapi/v1/chain": "/openapi/v1/chains", "/openapi/v1/categorys": "/openapi/v1/categories",
		"/OPENAPI/V1/GLOBAL": "/openapi/v1/global", "/openapi/v1/event": "/openapi/v1/events",
		"/openapi/v1/wallets": "/docs", "/": "/docs", "/openapi/v1/" + strings.Repeat("q", 10_000): "/docs",
	} {
		a := ask(t, addr, "GET", path)
		expect(t, 404, "PATH_NOT_FOUND", a)
		if !strings.Contains(a.body, "; "+want+" ") {
			t.Errorf("%.60s: %s, want it to name %s", path, a.body, want)
		}
	}
}

// TestPaths checks that paths are compared byte by byte.
func TestPaths(t *testing.T) {
	_, addr := start(t, nil)
	for e := range query.Endpoint(query.Endpoints) {
		status, key := 200, ""
		if e.OfThePast() || e == query.Search {
			status, key = 400, "BAD_REQUEST" // it needs a parameter
		}
		expect(t, status, key, ask(t, addr, "GET", "/openapi/v1/"+e.Name()))
		expect(t, status, key, ask(t, addr, "GET", "/openapi/v1/"+e.Name()+"?"))
	}
	for _, target := range []string{"/", "/openapi/v1/", "/openapi/v1", "/openapi/v1/assets/", "//openapi/v1/assets",
		"/openapi//v1/assets", "/openapi/v1/%61ssets", "/openapi/v1/Assets",
		"/openapi/v1/./assets", "/openapi/v1/x/../assets", "/openapi/v1/%2e%2e/v1/assets", "/openapi/v1/assets#x",
		"/openapi/v1/assets;x=1", "/openapi/v2/assets", "/openapi/v1/assets%00",
		"*", "http://h", "http://h/", "http://h?/openapi/v1/assets", "http:///openapi/v1/assetsx", "/%"} {
		expect(t, 404, "PATH_NOT_FOUND", ask(t, addr, "GET", target))
	}
}

func TestMethods(t *testing.T) {
	keys, _ := newKeys(t, 1, 1)
	_, addr := start(t, func(cfg *Config) { cfg.Keys = keys; cfg.AddressBurst = 1 })
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "TRACE", "get", "PURGE", "QUERY"} {
		// The method is checked before the path, and both before the key.
		for _, target := range []string{assets, "/nowhere"} {
			a := dial(t, addr).send(request(method, target, "Content-Length: 2") + "hi").receive(method)
			expect(t, 405, "METHOD_NOT_ALLOWED", a)
			if got := a.Header.Get("Allow"); got != "GET, HEAD, OPTIONS" {
				t.Errorf("Allow %q", got)
			}
		}
	}
	for _, target := range []string{assets, "/nowhere", "*", "//"} {
		for _, headers := range [][]string{nil, {"Origin: https://a.test", "Access-Control-Request-Method: GET"}} {
			a := ask(t, addr, "OPTIONS", target, headers...)
			expect(t, 204, "", a)
			for name, want := range map[string]string{
				"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS",
				"Access-Control-Max-Age": "86400",
			} {
				if got := a.Header.Get(name); got != want {
					t.Errorf("OPTIONS %s: %s %q, want %q", target, name, got, want)
				}
			}
		}
	}
	expect(t, 404, "PATH_NOT_FOUND", ask(t, addr, "GET", "/nowhere"))
	expect(t, 401, "UNAUTHORIZED", ask(t, addr, "GET", assets)) // none of the requests above took a token
}

// TestHead checks that the answers to HEAD and GET have the same headers, including the length, and that HEAD
// gets no body.
func TestHead(t *testing.T) {
	_, addr := start(t, func(cfg *Config) {
		cfg.Static = map[string]StaticFile{"/docs": {Body: []byte("<html>"), ContentType: "text/html; charset=utf-8"}}
		cfg.Answer = func(r *Request) error {
			switch r.Asked.Query.Endpoint {
			case query.Global:
				return reply.ErrNoSnapshot
			case query.Chains:
				panic("chains")
			}
			return stub(r)
		}
	})
	for _, target := range []string{assets, assets + "?page=0", "/openapi/v1/global", "/openapi/v1/chains", "/nowhere",
		"/docs"} {
		id := "X-Request-Id: same"
		get, head := ask(t, addr, "GET", target, id), ask(t, addr, "HEAD", target, id)
		if get.StatusCode != head.StatusCode || get.ContentLength != head.ContentLength ||
			get.ContentLength != int64(len(get.body)) || head.body != "" {
			t.Errorf("%s: %d of %d bytes, and HEAD %d of %d", target, get.StatusCode, get.ContentLength,
				head.StatusCode, head.ContentLength)
		}
		get.Header.Del("Date")
		head.Header.Del("Date")
		for name := range get.Header {
			if a, b := get.Header.Get(name), head.Header.Get(name); a != b {
				t.Errorf("%s: %s %q, and %q to HEAD", target, name, a, b)
			}
		}
		if len(get.Header) != len(head.Header) {
			t.Errorf("%s: headers %v, and %v to HEAD", target, get.Header, head.Header)
		}
	}
}

// TestKey checks that all keys that are not in force get the same answer.
func TestKey(t *testing.T) {
	keys, text := newKeys(t, 1000, 1000)
	_, addr := start(t, func(cfg *Config) {
		cfg.Keys, cfg.AddressRate, cfg.AddressBurst, cfg.KeyRequestURL = keys, 1000, 1000, "https://keys.test/new?a=b&c"
		cfg.Answer = func(r *Request) error {
			if r.KeyID != "key-1" {
				t.Errorf("key id %q", r.KeyID)
			}
			return stub(r)
		}
	})
	expect(t, 200, "", ask(t, addr, "GET", assets, "X-Api-Key: "+text))
	expect(t, 200, "", ask(t, addr, "GET", assets, "x-aPI-kEY:\t"+text+"  "))
	first := ""
	for _, headers := range [][]string{
		nil, {"X-Api-Key:"}, {"X-Api-Key: x"}, {"X-Api-Key: " + otherKey(t)}, {"X-Api-Key: " + text + "x"},
		{"X-Api-Key: " + strings.ToLower(text)},
		{"X-Api-Key: " + text, "X-Api-Key: " + text}, {"X-Api-Key: " + text, "x-api-key:"},
		{"X-Api-Key: " + text + ", " + text}, {"Authorization: Bearer " + text}, {"X-Api_Key: " + text},
	} {
		a := ask(t, addr, "GET", assets+"?api_key="+text, headers...)
		expect(t, 401, "UNAUTHORIZED", a)
		if got := a.Header.Get("WWW-Authenticate"); got != `ApiKey realm="openapi", header="X-Api-Key"` {
			t.Errorf("WWW-Authenticate %q", got)
		}
		if strings.Contains(a.body, "mdk_live_") || !strings.Contains(a.body, `https://keys.test/new?a=b&c`) {
			t.Errorf("body %s", a.body)
		}
		if first == "" {
			first = a.body
		}
		if a.body != first {
			t.Errorf("another 401: %s", a.body)
		}
	}
	// The key is checked before the parameters, and the path before the key.
	expect(t, 401, "UNAUTHORIZED", ask(t, addr, "GET", assets+"?page=0"))
	expect(t, 400, "BAD_REQUEST", ask(t, addr, "GET", assets+"?page=0", "X-Api-Key: "+text))
	expect(t, 404, "PATH_NOT_FOUND", ask(t, addr, "GET", "/openapi/v1/nothing"))
	// Before a key set is read, a client with a well-formed key is told to try again.
	_, undecided := start(t, func(cfg *Config) { cfg.Keys = new(auth.Keys) })
	expect(t, 503, "SERVICE_UNAVAILABLE", ask(t, undecided, "GET", assets, "X-Api-Key: "+text))
	expect(t, 401, "UNAUTHORIZED", ask(t, undecided, "GET", assets, "X-Api-Key: mdk_live_x"))
	expect(t, 401, "UNAUTHORIZED", ask(t, undecided, "GET", assets))
}

// TestKeyLimit checks that a request costs a token whatever its status, including a 5xx after a panic. Some
// endpoints cost more, by body and rows, even if the request fails. A key's debt is at most the tokens of a
// minute (INTERFACE.md, "Rate limits").
func TestKeyLimit(t *testing.T) {
	keys, text := newKeys(t, 1, 5)
	var problem error
	length, visited := 0, 0
	s := newServer(t, Config{Keys: keys, Answer: func(r *Request) error {
		if r.Asked.Query.Endpoint == query.Chains {
			panic("chains")
		}
		r.Asked.Length, r.Asked.Visited = length, visited
		if problem != nil {
			return problem
		}
		return stub(r)
	}})
	now := time.Now()
	step := func(status int, key, target, limit string) {
		t.Helper()
		a := handle(t, s, now, request("GET", target, "X-Api-Key: "+text))
		expect(t, status, key, a)
		if got := a.Header.Get("RateLimit-Policy"); got != `"default";q=5;w=5` {
			t.Errorf("RateLimit-Policy %q", got)
		}
		if got := a.Header.Get("RateLimit"); got != limit {
			t.Errorf("%s: RateLimit %q, want %q", target, got, limit)
		}
	}
	step(200, "", assets, `"default";r=4;t=1`)
	step(400, "BAD_REQUEST", assets+"?page=x", `"default";r=3;t=2`)
	problem = reply.ErrUnavailable
	step(503, "SERVICE_UNAVAILABLE", assets, `"default";r=2;t=3`)
	step(500, "INTERNAL_ERROR", "/openapi/v1/chains", `"default";r=1;t=4`)
	now = now.Add(2 * time.Second) // the key has gained two tokens, and only these
	problem = reply.ErrNoSnapshot
	step(404, "NOT_FOUND", assets, `"default";r=2;t=3`)
	problem = snapshot.ErrGone
	step(410, "SNAPSHOT_GONE", assets, `"default";r=1;t=4`)
	problem, length, visited = snapshot.ErrLater, 40<<10, 5000 // without effect on this endpoint
	step(503, "SERVICE_UNAVAILABLE", assets, `"default";r=0;t=5`)
	problem = nil
	for range 2 {
		a := handle(t, s, now, request("GET", assets+"?page=x", "X-Api-Key: "+text))
		expect(t, 429, "TOO_MANY_REQUESTS", a)
		if a.Header.Get("Retry-After") != "1" || a.Header.Get("RateLimit") != `"default";r=0;t=5` ||
			a.Header.Get("RateLimit-Policy") != `"default";q=5;w=5` {
			t.Errorf("429 with %v", a.Header)
		}
	}
	// OPTIONS needs no key and costs the key nothing.
	expect(t, 204, "", handle(t, s, now, request("OPTIONS", assets, "X-Api-Key: "+text)))
	now = now.Add(time.Second)
	step(200, "", assets, `"default";r=0;t=5`)
	// These endpoints cost by body and rows, which may exceed the tokens that are left.
	const history, search, debt = "/openapi/v1/history?id=1", "/openapi/v1/search?q=a", 60
	for _, c := range []struct{ length, visited, cost int }{{16 << 10, 499, 1}, {16<<10 + 1, 0, 2}, {40 << 10, 0, 3},
		{100, 1000, 3}, {32<<10 + 1, 999, 4}, {80 << 10, 10_000, 25}, {1 << 30, 0, 5 + debt}} {
		for _, problem = range []error{nil, reply.ErrUnavailable} {
			now, length, visited = now.Add(time.Hour), c.length, c.visited
			status, key := 200, ""
			if problem != nil {
				status, key = 503, "SERVICE_UNAVAILABLE"
			}
			target := history
			if c.visited > 0 {
				target = search
			}
			step(status, key, target, fmt.Sprintf(`"default";r=%d;t=%d`, max(0, 5-c.cost), c.cost))
		}
	}
	a := handle(t, s, now, request("GET", assets, "X-Api-Key: "+text))
	if expect(t, 429, "TOO_MANY_REQUESTS", a); a.Header.Get("Retry-After") != strconv.Itoa(1+debt) {
		t.Errorf("429 with %v", a.Header)
	}
}

// TestRetryAfter checks that the Retry-After of a 503 is a random number from 1 to 5, or 1 for a pinned
// snapshot that should arrive soon (INTERFACE.md, "Rate limits").
func TestRetryAfter(t *testing.T) {
	var problem error
	s := newServer(t, Config{Answer: func(*Request) error { return problem }})
	refused := newListener(nil, &s.cfg).refusal()
	if !regexp.MustCompile(`\r\nRetry-After: [1-5]\r\n`).Match(refused) {
		t.Errorf("a connection too many: %q", refused)
	}
	for _, c := range []struct {
		problem error
		target  string
		values  string
	}{
		{reply.ErrUnavailable, assets, "12345"}, {rows.ErrNoView, assets + "?sort=rank", "12345"},
		{snapshot.ErrLater, assets, "1"},
	} {
		seen := map[string]bool{}
		problem = c.problem
		for range 400 { // one of five values is missing with a probability of about 10^-38
			a := handle(t, s, time.Now(), request("GET", c.target))
			if a.StatusCode != 503 {
				t.Fatalf("%s: %d", c.target, a.StatusCode)
			}
			seen[a.Header.Get("Retry-After")] = true
		}
		if got := strings.Join(slices.Sorted(maps.Keys(seen)), ""); got != c.values {
			t.Errorf("%s, %v: Retry-After is one of %s, want %s", c.target, c.problem, got, c.values)
		}
	}
}

// TestAddressLimit checks that requests without a valid key take tokens from their client's address.
func TestAddressLimit(t *testing.T) {
	keys, text := newKeys(t, 1, 100)
	s := newServer(t, Config{
		Keys: keys, AddressRate: 1, AddressBurst: 3,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")},
	})
	now := time.Now()
	status := func(headers ...string) int {
		a := handle(t, s, now, request("GET", assets, headers...))
		if (a.StatusCode == 401 || a.StatusCode == 429) && a.Header.Get("RateLimit-Policy") != `"default";q=3;w=3` {
			t.Errorf("%d with %v", a.StatusCode, a.Header)
		}
		return a.StatusCode
	}
	exhaust := func(headers ...string) {
		t.Helper()
		for i, want := range []int{401, 401, 401, 429, 429} {
			if got := status(headers...); got != want {
				t.Errorf("%v, request %d: %d, want %d", headers, i, got, want)
			}
		}
	}
	exhaust()
	if got := status("X-Api-Key: " + text); got != 200 {
		t.Errorf("a valid key from the same address: %d", got)
	}
	exhaust("X-Forwarded-For: 192.0.2.1")
	// An address that a client forges comes before the addresses that the proxies append.
	if got := status("X-Forwarded-For: 198.51.100.1, 192.0.2.1"); got != 429 {
		t.Errorf("made-up address: %d", got)
	}
	if got := status("X-Forwarded-For: 192.0.2.9", "X-Forwarded-For: 192.0.2.1 , 10.1.2.3"); got != 429 {
		t.Errorf("behind two proxies: %d", got)
	}
	if got := status("X-Forwarded-For: 192.0.2.1, nonsense"); got != 429 {
		t.Errorf("what a proxy says is no address: %d", got)
	}
	exhaust("X-Forwarded-For: 2001:db8:7::1")
	if got := status("X-Forwarded-For: [2001:db8:7::2]:443"); got != 429 {
		t.Errorf("the same /64: %d", got)
	}
}

func TestForwarded(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1", "2001:db8::1": "2001:db8::1",
		"[2001:db8::1]": "2001:db8::1", "[2001:db8::1]:80": "2001:db8::1",
		"::ffff:192.0.2.1": "192.0.2.1", "fe80::1%eth0": "fe80::1",
		"": "", "unknown": "", "192.0.2": "", "192.0.2.1:x": "", "[": "", "[]": "", strings.Repeat("1", 1000): "",
	} {
		got, ok := parseForwarded([]byte(text))
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%.40q: %v, want %q", text, got, want)
		}
	}
}

func TestRequestID(t *testing.T) {
	_, addr := start(t, nil)
	for _, c := range []struct {
		headers []string
		kept    string
	}{
		{[]string{"X-Request-Id: a.B_9:=+/-"}, "a.B_9:=+/-"},
		{[]string{"x-request-ID:   padded  "}, "padded"},
		{[]string{"X-Request-Id: " + strings.Repeat("x", 128)}, strings.Repeat("x", 128)},
		{[]string{"X-Request-Id: " + strings.Repeat("x", 129)}, ""},
		{[]string{"X-Request-Id: a b"}, ""},
		{[]string{"X-Request-Id: a\tb"}, ""},
		{[]string{"X-Request-Id: a\r\n Set-Cookie: b"}, ""},
		{[]string{"X-Request-Id: \xe9"}, ""},
		{[]string{"X-Request-Id:"}, ""},
		{[]string{"X-Request-Id: a", "X-Request-Id: b"}, ""},
		{nil, ""},
	} {
		for _, target := range []string{assets, "/nowhere"} {
			a := ask(t, addr, "GET", target, c.headers...)
			id := a.Header.Get("X-Request-Id")
			if c.kept != "" && id != c.kept || c.kept == "" &&
				(len(id) != reqid.Length || len(a.Header["Set-Cookie"]) > 0) {
				t.Errorf("%.40q: id %q", c.headers, id)
			}
		}
	}
	// The head of a request with a body that is too large can be read.
	a := ask(t, addr, "GET", assets, "X-Request-Id: large", "Content-Length: 5000")
	expect(t, 413, "PAYLOAD_TOO_LARGE", a)
	if got := a.Header.Get("X-Request-Id"); got != "large" {
		t.Errorf("413 with id %q", got)
	}
}

// TestCORS checks that a browser lets scripts read every answer.
func TestCORS(t *testing.T) {
	const origin = "https://board.test"
	keys, _ := newKeys(t, 1, 1)
	_, addr := start(t, func(cfg *Config) {
		cfg.AllowOrigin = origin
		cfg.Keys = keys
		cfg.AddressBurst = 1
		cfg.ReadTimeout = 200 * time.Millisecond
	})
	for status, raw := range map[int]string{
		401: request("GET", assets), 404: request("GET", "/nowhere", "Origin: null"), 405: request("POST", assets),
		413: request("GET", assets, "Content-Length: 5000"), 204: request("OPTIONS", assets, "Origin: null"),
		400: "GET\r\n\r\n", 408: "GET", 431: "GET /" + strings.Repeat("a", 70000),
	} {
		a := dial(t, addr).send(raw).receive("GET") // receive checks Access-Control-Expose-Headers
		if a.StatusCode != status || a.Header.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("%d: %d with %v", status, a.StatusCode, a.Header)
		}
	}
}

// TestPreflight checks that a script may send the headers that its browser asks for, within bounds (the Fetch
// standard, 4.8; sentry-javascript 6077, opencodex 1773).
func TestPreflight(t *testing.T) {
	_, addr := start(t, nil)
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat("x-a,", n), ",") }
	for asked, echoed := range map[string]bool{
		"content-type": true, "x-stainless-lang,x-stainless-os,x-stainless-retry-count": true,
		"baggage,sentry-trace,x-api-key": true, "if-match,range": true, "If-Match ,\tBaggage": true,
		many(32): true, strings.Repeat("a", 1024): true,
		"": false, many(33): false, strings.Repeat("a", 1025): false, "a b": false, "x-a,,x-b": false,
		"caf\xc3\xa9": false, "x-a:b": false,
	} {
		a := ask(t, addr, "OPTIONS", assets, "Origin: https://a.test", "Access-Control-Request-Method: GET",
			"Access-Control-Request-Headers: "+asked)
		got := a.Header.Get("Access-Control-Allow-Headers")
		vary := a.Header.Get("Vary")
		if a.StatusCode != 204 || (got == asked) != echoed || vary != "Access-Control-Request-Headers" ||
			!echoed && !strings.Contains(got, "X-Api-Key, ") {
			t.Errorf("%.60q: %d, %.60q, Vary %q", asked, a.StatusCode, got, vary)
		}
	}
}

// TestSharedCaches checks that an answer that a shared cache may keep does not contain a client's limit.
func TestSharedCaches(t *testing.T) {
	keys, text := newKeys(t, 1, 2)
	_, addr := start(t, func(cfg *Config) { cfg.Keys, cfg.SharedCaches = keys, true })
	for _, want := range []struct {
		query  string
		status int
		limit  bool
	}{{"", 200, false}, {"?page=0", 400, true}, {"", 429, true}} {
		a := ask(t, addr, "GET", assets+want.query, "X-Api-Key: "+text)
		if a.StatusCode != want.status || (a.Header.Get("RateLimit") != "") != want.limit ||
			(a.Header.Get("RateLimit-Policy") != "") != want.limit {
			t.Errorf("%q: %d with %v, want %+v", want.query, a.StatusCode, a.Header, want)
		}
	}
}

func TestPin(t *testing.T) {
	var got *reply.Request
	_, addr := start(t, func(cfg *Config) {
		cfg.Answer = func(r *Request) error {
			got = &reply.Request{Pin: r.Asked.Pin, Pinned: r.Asked.Pinned, PinInPath: r.Asked.PinInPath}
			return stub(r)
		}
	})
	for _, c := range []struct {
		headers []string
		pin     string // "" means that there is none, "bad" that it is refused
	}{
		{nil, ""},
		{[]string{"X-Snapshot-Time:"}, ""},
		{[]string{"X-Snapshot-Time: 2026-11-21T12:10:00Z"}, "2026-11-21T12:10:00Z"},
		{[]string{"x-snapshot-time: 0001-01-01T00:00:00Z "}, "0001-01-01T00:00:00Z"},
		{[]string{"X-Snapshot-Time: 2024-02-29T23:59:59Z"}, "2024-02-29T23:59:59Z"},
		{[]string{"X-Snapshot-Time: 2026-02-29T00:00:00Z"}, "bad"},
		{[]string{"X-Snapshot-Time: 2026-11-21T12:00:00+00:00"}, "2026-11-21T12:00:00Z"},
		{[]string{"X-Snapshot-Time: 2026-11-21T12:00:00"}, "bad"},
		{[]string{"X-Snapshot-Time: 2026-11-21T12:00:00Z", "X-Snapshot-Time: 2026-11-21T12:00:00Z"}, "bad"},
		{[]string{"X-Snapshot-Time:", "X-Snapshot-Time:"}, "bad"},
	} {
		got = nil
		a := ask(t, addr, "GET", assets, c.headers...)
		switch {
		case c.pin == "bad":
			expect(t, 400, "BAD_REQUEST", a)
			if !strings.Contains(a.body, "X-Snapshot-Time") {
				t.Errorf("%v: %s", c.headers, a.body)
			}
		case got == nil || got.Pinned != (c.pin != ""):
			t.Errorf("%v: %d, asked %+v", c.headers, a.StatusCode, got)
		case got.Pinned && got.Pin.Format(time.RFC3339) != c.pin:
			t.Errorf("%v: pinned to %v", c.headers, got.Pin)
		}
	}
	for path, want := range map[string]struct {
		status  int
		message string
	}{
		"/at/20261121T121000Z" + assets:                     {200, ""},
		"/at/20261121T121000Z/openapi/v1/history?id=1":      {200, ""},
		"/at/20261121T121000Z/openapi/v1/events":            {404, ""},
		"/at/20261121T121000Z/openapi.json":                 {404, ""},
		"/at/20261121T121000Z":                              {404, ""},
		"/at/20261121T12100Z/" + assets:                     {404, ""},
		"/at/2026-11-21T12:10:00Z" + assets:                 {200, ""},
		"/at/2026-11-21T14%3A10%2b02%3A00" + assets:         {200, ""},
		"/at/2026-11-21T12:10:00" + assets:                  {400, "/at/"},
		"/at/2026-11-21%" + assets:                          {400, "/at/"},
		"/at/2026-11-21T12:10:00Z/openapi/v1/events":        {404, ""},
		"/at/20261121t121000Z" + assets:                     {404, ""},
		"/at/20261121T121000Z/at/20261121T121000Z" + assets: {404, ""},
		"/at/20260229T000000Z" + assets:                     {400, "/at/"},
	} {
		got = nil
		a := ask(t, addr, "GET", path)
		if a.StatusCode != want.status || !strings.Contains(a.body, want.message) {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
		if a.StatusCode == 200 && (!got.PinInPath || got.Pin.Format(time.RFC3339) != "2026-11-21T12:10:00Z") {
			t.Errorf("%s: asked %+v", path, got)
		}
		if a.StatusCode == 200 {
			expect(t, 400, "BAD_REQUEST", ask(t, addr, "GET", path, "X-Snapshot-Time: 2026-11-21T12:10:00Z"))
			if a := ask(t, addr, "GET", path, "X-Snapshot-Time:"); a.StatusCode != 200 {
				t.Errorf("%s with an empty header: %d", path, a.StatusCode)
			}
		}
	}
	// Parameters are checked before the pin.
	if a := ask(t, addr, "GET", assets+"?page=0", "X-Snapshot-Time: x"); !strings.Contains(a.body, `"page: `) {
		t.Errorf("body %s", a.body)
	}
}

// TestEngine checks what Config.Answer receives, and that headers that it has added are dropped if it fails.
func TestEngine(t *testing.T) {
	_, addr := start(t, func(cfg *Config) {
		cfg.Answer = func(r *Request) error {
			switch r.Asked.Query.Endpoint {
			case query.Quotes:
				stub(r)
				r.Asked.Reply.Add("ETag", []byte(`"x"`))
				r.Asked.Reply.Add("Cache-Control", []byte("private, max-age=600"))
				r.Asked.Reply.Add("Content-Encoding", []byte("gzip"))
				return reply.ErrUnavailable
			case query.Chains:
				stub(r)
				r.Asked.Reply.Add("ETag", []byte(`"x"`))
				panic("at the disco")
			case query.Trending:
				// An empty If-None-Match is still present: it takes precedence over If-Modified-Since and
				// matches nothing.
				if r.Asked.IfNoneMatch == nil || len(r.Asked.IfNoneMatch) != 0 {
					t.Errorf("If-None-Match %q", r.Asked.IfNoneMatch)
				}
				return stub(r)
			}
			if string(r.Asked.AcceptEncoding) != "gzip, br;q=0" || string(r.Asked.IfNoneMatch) != `"a", "b", *` ||
				string(r.Asked.IfModifiedSince) != "Sat, 21 Nov 2026 12:00:00 GMT" ||
				string(r.Asked.IfMatch) != `"c", W/"d"` || string(r.Asked.IfUnmodifiedSince) != "x" ||
				r.Asked.Now.IsZero() || string(r.ID) != "me" || r.Asked.Query.Page != 2 ||
				r.Asked.Query.Endpoint != query.Assets {
				t.Errorf("asked %+v", r)
			}
			return stub(r)
		}
	})
	expect(t, 200, "", ask(t, addr, "GET", assets+"?page=2", "Accept-Encoding: gzip", "accept-encoding: br;q=0",
		`If-None-Match: "a"`, `If-None-Match: "b"`, `If-None-Match: *`,
		"If-Modified-Since: Sat, 21 Nov 2026 12:00:00 GMT", `If-Match: "c"`, `if-match: W/"d"`,
		"If-Unmodified-Since: x", "X-Request-Id: me"))
	expect(t, 200, "", ask(t, addr, "GET", "/openapi/v1/trending", "If-None-Match:",
		"If-Modified-Since: Sat, 21 Nov 2026 12:00:00 GMT"))
	for target, status := range map[string]int{"/openapi/v1/quotes": 503, "/openapi/v1/chains": 500} {
		a := ask(t, addr, "GET", target)
		if a.StatusCode != status || a.Header.Get("ETag") != "" || a.Header.Get("Content-Encoding") != "" ||
			a.Header.Get("X-Snapshot-Time") != "" {
			t.Errorf("%s: %d with %v", target, a.StatusCode, a.Header)
		}
	}
	// A panic ends only its own connection.
	c := dial(t, addr).send(request("GET", "/openapi/v1/chains"))
	expect(t, 500, "INTERNAL_ERROR", c.receive("GET"))
	c.closed()
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"nothing answers":           func(c *Config) { c.Answer = nil },
		"origin with path break":    func(c *Config) { c.AllowOrigin = "https://a.test\r\nX: y" },
		"origin without scheme":     func(c *Config) { c.AllowOrigin = "a.test" },
		"key URL with a quote":      func(c *Config) { c.KeyRequestURL = `https://a.test/"` },
		"key URL relative":          func(c *Config) { c.KeyRequestURL = "/keys" },
		"negative connections":      func(c *Config) { c.MaxConns = -1 },
		"negative per address":      func(c *Config) { c.MaxConnsPerAddress = -1 },
		"negative timeout":          func(c *Config) { c.ReadTimeout = -1 },
		"address rate out of range": func(c *Config) { c.AddressRate = 2_000_000 },
	} {
		cfg := Config{Answer: stub}
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestPinnedOfKey checks that a key with the maximum number of waiting pinned requests cannot have another
// one, and that the waiting requests are answered.
func TestPinnedOfKey(t *testing.T) {
	var waiting atomic.Int32
	release := make(chan struct{})
	keys, text := newKeys(t, 10_000, 10_000)
	_, addr := start(t, func(cfg *Config) {
		cfg.Keys = keys
		cfg.Answer = func(r *Request) error {
			waiting.Add(1)
			<-release
			return stub(r)
		}
	})
	raw := request("GET", assets, "X-Api-Key: "+text, "X-Snapshot-Time: 2026-11-21T12:00:00Z")
	var all []*client
	for n := range 128 {
		all = append(all, dial(t, addr).send(raw))
		until(t, func() bool { return int(waiting.Load()) == n+1 })
	}
	expect(t, 503, "SERVICE_UNAVAILABLE", ask(t, addr, "GET", assets, "X-Api-Key: "+text,
		"X-Snapshot-Time: 2026-11-21T12:00:00Z"))
	close(release)
	for _, c := range all {
		expect(t, 200, "", c.receive("GET"))
	}
	expect(t, 200, "", ask(t, addr, "GET", assets, "X-Api-Key: "+text, "X-Snapshot-Time: 2026-11-21T12:00:00Z"))
}
