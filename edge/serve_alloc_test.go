//go:build !race

package edge

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// TestServeAllocatesNothing counts the allocations of a whole edge for a cached answer, from the bytes of the
// request to the bytes of the answer, over loopback, with keys, limits, metrics and logging on. Tests of
// packages reply and coingecko count those of composed answers.
func TestServeAllocatesNothing(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(5000, 1), teststore.Start)
	auth := "X-Api-Key: " + teststore.Key(t, mem, 1_000_000, 1_000_000).Key
	sheet := must.Get((&teststore.Registry{Store: mem}).Create(t.Context(), teststore.KeyRequest{Name: "sheet",
		Rate: 1_000_000, Burst: 1_000_000, Query: true}))(t).Key
	e, _ := start(t, mem, func(cfg *Config) {
		cfg.Coins, cfg.AuthOff, cfg.Poll, cfg.CacheSize = true, false, time.Minute, 64<<20
		cfg.Log = slog.New(slog.DiscardHandler)
		cfg.Server.AddressRate, cfg.Server.AddressBurst = 1_000_000, 1_000_000
	})
	until(t, "a whole snapshot", func() bool { return e.current() != nil && e.refresher.Status().Missing == 0 })
	for _, c := range []struct {
		what, target string
		headers      []string
		status       int
	}{
		{"page", "/openapi/v1/quotes?page=3", []string{auth}, 200},
		{"page of 100 by name", "/openapi/v1/quotes?size=100&sort=name:desc",
			[]string{auth, "X-Request-Id: mine", "Origin: https://a.test"}, 200},
		{"ids", "/openapi/v1/quotes?id=1,3,5", []string{auth, "Accept-Encoding: identity"}, 200},
		{"parameters ignored", "/openapi/v1/quotes?page=3&limit=2&id=&id=&utm%5Fsource=x", []string{auth}, 200},
		{"in gzip", "/openapi/v1/quotes?page=3", []string{auth, "Accept-Encoding: gzip, deflate"}, 200},
		{"304", "/openapi/v1/quotes?page=3", []string{auth, "If-None-Match: *"}, 304},
		{"prices for CoinGecko's programs",
			"/api/v3/simple/price?ids=asset-1,asset-2&vs_currencies=usd&include_24hr_vol=true",
			[]string{"x-cg-demo-api-key" + auth[len("X-Api-Key"):]}, 200},
		{"table", "/openapi/v1/markets.csv?size=50&sort=price&key=" + sheet, nil, 200},
		{"table in gzip", "/openapi/v1/history.csv?id=3&key=" + sheet, []string{"Accept-Encoding: gzip"}, 200},
		{"400", "/openapi/v1/quotes?page=0", []string{auth}, 400},
		{"401", "/openapi/v1/quotes", nil, 401},
	} {
		conn := must.Get(net.Dial("tcp", e.Addr().String()))(t)
		defer conn.Close()
		client := &plainClient{tb: t, conn: conn,
			request: fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: edge.test\r\n%s\r\n",
				c.target, strings.Join(append(c.headers, ""), "\r\n"))}
		ask := func() {
			if status := client.ask(); status != c.status {
				t.Fatalf("%s: status %d", c.what, status)
			}
		}
		for i := range 200 { // loads shards, fills the caches and grows buffers
			ask()
			if i%50 == 0 {
				time.Sleep(2 * time.Millisecond) // ristretto processes a Set asynchronously
			}
		}
		if n := testing.AllocsPerRun(500, ask); n != 0 {
			t.Errorf("%s: %v allocations", c.what, n)
		}
	}
}

// plainClient is a client with one connection that allocates nothing.
type plainClient struct {
	tb      testing.TB
	conn    net.Conn
	request []byte
	buf     [64 << 10]byte
}

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
)

// ask sends the request, reads its answer and returns the status.
func (c *plainClient) ask() int {
	must.Get(c.conn.Write(c.request))(c.tb)
	for n := 0; ; {
		m := must.Get(c.conn.Read(c.buf[n:]))(c.tb)
		n += m
		end := bytes.Index(c.buf[:n], headEnd)
		if end < 0 {
			continue
		}
		length := 0
		if at := bytes.Index(c.buf[:end], contentLength); at >= 0 {
			for at += len(contentLength); c.buf[at] >= '0' && c.buf[at] <= '9'; at++ {
				length = 10*length + int(c.buf[at]-'0')
			}
		}
		if n == end+len(headEnd)+length {
			return int(c.buf[9]-'0')*100 + int(c.buf[10]-'0')*10 + int(c.buf[11]-'0')
		}
	}
}
