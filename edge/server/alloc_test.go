//go:build !race

package server

import (
	"testing"
	"time"

	"example.com/marketdata/edge/auth"
)

// TestAllocations checks that the server itself allocates nothing for an answer or a refusal.
func TestAllocations(t *testing.T) {
	keys, text := newKeys(t, 1_000_000, 1_000_000)
	poor, poorText := newKeys(t, 1, 1)
	origin := "Origin: https://a.test"
	for name, c := range map[string]struct {
		keys   *auth.Keys
		raw    string
		status int
	}{
		"200": {keys, request("GET", assets+"?page=2&sort=name:desc&slug=a,b", "X-Api-Key: "+text,
			"Accept-Encoding: gzip"), 200},
		"200 with origin": {keys, request("GET", assets, "X-Api-Key: "+text, origin, "X-Request-Id: mine"), 200},
		"200 with traceparent": {keys, request("GET", assets, "X-Api-Key: "+text,
			"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), 200},
		"200 pinned": {keys, request("GET", assets, "X-Api-Key: "+text, "X-Snapshot-Time: 2026-11-21T12:00:00Z"),
			200},
		"200 without auth": {nil, request("GET", assets), 200},
		"400":              {keys, request("GET", assets+"?page=0", "X-Api-Key: "+text), 400},
		"401":              {keys, request("GET", assets), 401},
		"401, unknown":     {keys, request("GET", assets, "X-Api-Key: "+otherKey(t), origin), 401},
		"405":              {keys, request("POST", assets), 405},
		"429":              {poor, request("GET", assets, "X-Api-Key: "+poorText), 429},
		"503":              {new(auth.Keys), request("GET", assets, "X-Api-Key: "+text), 503},
		"OPTIONS":          {keys, request("OPTIONS", assets, origin), 204},
		"static":           {keys, request("GET", "/docs"), 200},
		"429, open":        {poor, request("GET", "/docs", origin), 429},
	} {
		open := 1_000_000
		if c.keys == poor {
			open = 1
		}
		s := newServer(t, Config{Keys: c.keys, AddressRate: 1_000_000, AddressBurst: 1_000_000, OpenRate: open,
			OpenBurst: open, Static: map[string]StaticFile{"/docs": {Body: []byte("x"), ContentType: "text/html"}}})
		r := newRequest(t, s, c.raw)
		peer, now := r.peer, time.Now()
		answer := func() {
			r.begin(nil)
			r.peer, r.Asked.Now = peer, now
			s.handle(r)
			s.appendReply(r)
		}
		answer() // now the bucket of one token is empty
		allocations := testing.AllocsPerRun(200, answer)
		if got := r.Asked.Reply.Status; got != c.status || allocations != 0 {
			t.Errorf("%s: status %d, %v allocations", name, got, allocations)
		}
	}
}
