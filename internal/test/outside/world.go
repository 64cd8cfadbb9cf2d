// Package outside tests the service with requests that third-party programs send, and against what
// these programs expect. README.md lists the reports from which the cases come.
package outside

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
)

// First and Last are the times of the small world's two snapshots.
var (
	First = time.Date(2026, 11, 21, 10, 10, 0, 0, time.UTC)
	Last  = First.Add(10 * time.Minute)
)

// Tether is a contract address with the capital letters of its checksum, as people write it. Mint
// is an address on Solana, where case matters. In the small world both belong to the asset flat.
const (
	Tether = "0xdAC17F958D2ee523a2206206994597C13D831ec7"
	Mint   = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
)

// World is the small world: four assets whose prices are 100 in the first snapshot, and 90, 110,
// 100 and unknown in the second, so that the known changes over an hour are exactly -10, 10 and 0.
var World = teststore.Moments(func(at time.Time) teststore.Rows {
	prices := []int{90, 110, 100}
	if at.Before(Last) {
		prices = []int{100, 100, 100}
	}
	type row = map[string]any
	return teststore.Rows{
		"assets": {
			row{"key": "btc", "id": 1, "name": "Bitcoin", "symbol": "BTC", "slug": "bitcoin",
				"logo": "https://logo.example/1.png"},
			row{"key": "eth", "id": 2, "name": "Ether", "symbol": "ETH", "slug": "ethereum"},
			row{"key": "flat", "id": 3, "name": "Flat", "symbol": "FLAT", "slug": "flat",
				"platforms": row{"ethereum": Tether, "solana": Mint}},
			row{"key": "quiet", "id": 4, "name": "Quiet", "symbol": "QUIET", "slug": "quiet"},
		},
		"quotes": {
			row{"key": "btc", "price": prices[0], "market_cap": 1000},
			row{"key": "eth", "price": prices[1], "market_cap": 900},
			row{"key": "flat", "price": prices[2], "market_cap": 800},
		},
		"chains": {row{"key": "solana", "id": 1, "name": "Solana", "slug": "solana", "members": []string{"flat"}}},
		"rates":  {row{"code": "eur", "usd": 1.25}, row{"code": "btc", "asset": "btc"}},
	}
})

// Start runs an edge with both snapshots of the small world and their files. It needs no API key
// and also serves the CoinGecko-compatible API.
func Start(t testing.TB) *testedge.Edge {
	t.Helper()
	store := memstore.New()
	for _, at := range []time.Time{First, Last} {
		teststore.Publish(t, store, World, at, teststore.FilesOf(2)) // several row groups
	}
	e := testedge.Start(t, testedge.Config{Reader: store, Coins: true, AuthOff: true, CacheDir: t.TempDir()})
	Await(t, e)
	return e
}

// Await waits until an edge is ready.
func Await(t testing.TB, e *testedge.Edge) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		res := must.Get(http.Get(e.Admin + "/readyz"))(t)
		reason := must.Get(io.ReadAll(res.Body))(t)
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the edge is not ready: %s", reason)
		}
	}
}

// An Answer is an answer to a request on its own connection.
type Answer struct {
	*http.Response
	Body   string
	Closed bool // whether the server closed the connection without being asked
}

// Send sends a request line by line as it is written, adds a Host header if there is none, and
// reads the answer.
func Send(t testing.TB, e *testedge.Edge, request string) Answer {
	t.Helper()
	if !strings.Contains(strings.ToLower(request), "\nhost:") && !strings.Contains(request, "HTTP/1.0") {
		request += "\nHost: edge.test"
	}
	conn := must.Get(net.Dial("tcp", e.Addr().String()))(t)
	defer conn.Close()
	must.OK(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	must.Get(io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n")+"\r\n\r\n"))(t)
	method, _, _ := strings.Cut(request, " ")
	in := bufio.NewReader(conn)
	res := must.Get(http.ReadResponse(in, &http.Request{Method: method}))(t)
	body := must.Get(io.ReadAll(res.Body))(t)
	// A second request shows whether the connection is still open.
	_, err := io.WriteString(conn, "HEAD / HTTP/1.1\r\nHost: edge.test\r\nConnection: close\r\n\r\n")
	if err == nil {
		_, err = in.ReadByte()
	}
	return Answer{res, string(body), err != nil}
}
