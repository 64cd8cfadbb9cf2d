//go:build !race

package edge

import (
	"testing"
	"time"
)

// TestServeAllocatesNothing counts what a whole edge allocates for a cached answer,
// from the bytes of the request to the bytes of the answer, over loopback: with
// keys, limits, metrics and logging on. Package reply counts
// those of answers that are composed.
func TestServeAllocatesNothing(t *testing.T) {
	e, secrets := serving(t)
	key := secrets[0]
	auth := "X-Api-Key: " + key
	for _, c := range []struct {
		what, target string
		headers      []string
		status       int
	}{
		{"page", "/openapi/v1/quotes?page=3", []string{auth}, 200},
		{"page of 100 by name", "/openapi/v1/quotes?size=100&sort=name:desc", []string{auth, "X-Request-Id: mine", "Origin: https://a.test"}, 200},
		{"ids", "/openapi/v1/quotes?id=1,3,5", []string{auth, "Accept-Encoding: identity"}, 200},
		{"parameters ignored", "/openapi/v1/quotes?page=3&limit=2&id=&id=&utm%5Fsource=x", []string{auth}, 200},
		{"in gzip", "/openapi/v1/quotes?page=3", []string{auth, "Accept-Encoding: gzip, deflate"}, 200},
		{"304", "/openapi/v1/quotes?page=3", []string{auth, "If-None-Match: *"}, 304},
		{"400", "/openapi/v1/quotes?page=0", []string{auth}, 400},
		{"401", "/openapi/v1/quotes", nil, 401},
	} {
		client := dialPlain(t, e, c.target, c.headers...)
		ask := func() {
			if status := client.ask(); status != c.status {
				t.Fatalf("%s: status %d", c.what, status)
			}
		}
		for i := range 200 { // shards in memory, answers cached, buffers grown
			ask()
			if i%50 == 0 {
				time.Sleep(2 * time.Millisecond) // ristretto takes a Set in its own time
			}
		}
		if n := testing.AllocsPerRun(500, ask); n != 0 {
			t.Errorf("%s: %v allocations", c.what, n)
		}
	}
}
