//go:build linux && !race

package server

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge/rows"
	"example.com/marketdata/internal/lab/must"
)

// bytesPerConn is what an open connection takes beside what is charged: a stack
// of 4 KiB, the conn, the descriptor and its place in the listener (SECURITY.md,
// "Memory"). In this test the client's end is in it, too.
const bytesPerConn = 8 << 10

// TestWorstCase: ten addresses hold all that they can. The process keeps to the
// arithmetic of SECURITY.md, and another address gets its answers.
func TestWorstCase(t *testing.T) {
	const addresses, each, waiting = 10, 198, 16 << 20
	huge := make([]byte, 32<<20)
	keys, text := newKeys(t, 1_000_000, 1_000_000)
	s, addr := start(t, func(cfg *Config) {
		cfg.Keys, cfg.AddressBurst = keys, 1_000_000
		cfg.MaxConns, cfg.MaxConnsPerAddress, cfg.MaxWaitingBytes = 4096, each, waiting
		cfg.ReadTimeout, cfg.WriteTimeout, cfg.IdleTimeout = patience, patience, patience
		cfg.Answer = func(r *Request) error {
			switch r.Query.Page {
			case 2:
				r.Reply.Body = r.Buffers.Body()[:50<<10]
			case 3:
				r.Reply.Body = huge
			case 4:
				r.Buffers.Body()
				r.Reply.Body = r.Buffers.LargeBody()[:rows.LargeSize]
			default:
				return stub(r)
			}
			return nil
		}
	})
	memory := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	ask := func(target string) string { return request("GET", target, "X-Api-Key: "+text) }
	kinds := []struct {
		raw  string
		want state
	}{
		{ask(assets), idle},
		{sizedHead(maxHead)[:maxHead-1], readingHead},
		{strings.Replace(sizedHead(maxHead-100), "\r\n\r\n", "\r\nContent-Length: 4096\r\n\r\n", 1), readingBody},
		{strings.Repeat(ask(assets+"?page=2"), 100), writing},
		{ask(assets + "?page=3"), writing},
		{strings.Repeat(ask(assets+"?page=4"), 20), writing},
	}
	before := memory()
	var all []*client
	for a := range addresses {
		for i := range each {
			c := dialFrom(t, fmt.Sprintf("127.0.1.%d", a+1), addr)
			c.r = nil // its memory is not the server's
			must.OK(t, c.Conn.(*net.TCPConn).SetReadBuffer(4<<10))
			// What is over its address's share is cut off while it sends.
			_, _ = io.WriteString(c.Conn, kinds[i%len(kinds)].raw)
			all = append(all, c)
		}
	}
	seen := map[state]int{}
	until(t, func() bool {
		clear(seen)
		s.listener.Load().eachConn(func(c *conn) { seen[state(c.state.Load()&(1<<stateBits-1))]++ })
		return seen[serving]+seen[lingering] == 0 && seen[idle] == addresses*each/len(kinds)
	})
	for _, k := range kinds {
		if seen[k.want] == 0 {
			t.Errorf("no connection is in state %d: %v", k.want, seen)
		}
	}
	stats := s.Stats()
	if stats.WaitingBytes > waiting || stats.WaitingBytes < waiting/2 {
		t.Errorf("%d bytes are charged, of at most %d", stats.WaitingBytes, waiting)
	}
	took, most := memory()-before, int64(stats.Open*bytesPerConn+waiting)
	// Goroutines of connections that were cut off may still be on their way out.
	for end := time.Now().Add(patience); took > most && time.Now().Before(end); took = memory() - before {
		runtime.Gosched()
	}
	if took > most {
		t.Errorf("%d connections in states %v take %d bytes, at most %d may be", stats.Open, seen, took, most)
	} else {
		t.Logf("%d connections in states %v take %.1f MiB of %.1f, of which %.1f are charged", stats.Open, seen,
			float64(took)/(1<<20), float64(most)/(1<<20), float64(stats.WaitingBytes)/(1<<20))
	}
	victim := dialFrom(t, "127.0.2.1", addr)
	for range 100 {
		victim.send(ask(assets))
		expect(t, 200, "", victim.receive("GET"))
	}
	for _, c := range all {
		c.Close()
	}
	until(t, func() bool { return s.Stats().Open == 1 })
}
