package redisstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/edge/limit"
	"example.com/marketdata/internal/lab/must"
)

// hostile is a listener that answers whatever it is sent with the same bytes.
func hostile(t *testing.T, reply func(net.Conn)) string {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer c.Close()
				for b := make([]byte, 4096); ; {
					if _, err := c.Read(b); err != nil {
						return
					}
					reply(c)
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); conns.Wait() })
	return ln.Addr().String()
}

// endless repeats a text until the peer has gone.
func endless(text string) func(net.Conn) {
	block := []byte(strings.Repeat(text, 1+4096/len(text)))
	return func(c net.Conn) {
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}
}

func once(text string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) } // the edge may have gone
}

// TestHostile: whatever a Redis answers, the edge limits by itself, in bounded
// memory, and goes on.
func TestHostile(t *testing.T) {
	garbage := make([]byte, 1<<16)
	for i, random := 0, rand.New(rand.NewPCG(1, 2)); i < len(garbage); i++ {
		garbage[i] = byte(random.Uint32())
	}
	for name, reply := range map[string]func(net.Conn){
		"huge array": once("*2147483647\r\n"), "huge set": once("~2147483647\r\n"), "huge map": once("%1073741823\r\n"),
		"huge push":      once(">2147483647\r\n"),
		"huge attribute": once("|2147483647\r\n"), "huge text": once("$536870912\r\n"),
		"huge verbatim": once("=2147483647\r\n"), "huge error": once("!2147483647\r\n"),
		"beyond 64 bits":        once("*99999999999999999999999\r\n"),
		"behind a length of -0": once("*2\r\n$-0\r\nXX*2147483647\r\n"), "in the script's answer": once(
			"*2\r\n:1\r\n*2147483647\r\n"), "after an answer": once("+PONG\r\n*2147483647\r\n"),
		"with a sign": once("*+2147483647\r\n"), "negative": once("*-2147483647\r\n$-2147483647\r\n"),
		"endless line": endless("+aaaaaaaa"), "endless error": endless("-a"), "endless number": endless(":1"),
		"endless length": endless("$0"), "endless pushes": endless(">1\r\n+a\r\n"),
		"deep": endless("*1\r\n"), "deep attributes": endless("|1\r\n"), "wide and deep": endless("*4000\r\n"),
		"many texts": endless("$60000\r\n"), "garbage": once(string(garbage)), "nothing": func(net.Conn) {},
		"empty lines": endless("\r\n"), "no line ends": endless("\n"),
		"one byte at a time": func(c net.Conn) {
			for _, b := range []byte("*2147483647\r\n") {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := must.Get(Open("redis://:password@" + hostile(t, reply)))(t)
			shared := limit.NewShared(limit.SharedConfig{Store: store})
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { shared.Run(ctx) })
			l := must.Get(limit.New(1, 5))(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 4 {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				if grant, err := store.Take(ctx, "k", l, 1, 0); err == nil {
					t.Errorf("a grant: %+v", grant)
				}
				if err := store.Ping(ctx); err == nil && name != "after an answer" {
					t.Error("a pong")
				}
				cancel()
			}
			lease, local := shared.NewLease("k", l), new(limit.Bucket)
			admitted := 0
			for range 10 {
				if lease.Take(local, limit.At(time.Now())).OK {
					admitted++
				}
			}
			if admitted < 5 || admitted > 6 { // one more when a second has passed
				t.Errorf("%d of 5 admitted locally", admitted)
			}
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
				t.Errorf("%d MiB allocated", took>>20)
			}
			cancel()
			running.Wait()
			must.OK(t, shared.Close())
		})
	}
}

// TestBounded: what may pass, however it is cut, passes; what may not, does not.
func TestBounded(t *testing.T) {
	for text, ok := range map[string]bool{
		"+PONG\r\n": true, "*2\r\n:17\r\n:123456789012\r\n": true, "-NOSCRIPT No matching script.\r\n": true,
		"$-1\r\n": true, "*-1\r\n": true, "_\r\n": true,
		":9223372036854775807\r\n+x\r\n": true, "*3\r\n$6\r\nserver\r\n$5\r\n*9999\r\n*0\r\n": true,
		"$12\r\n*2147483647\r\r\n+x\r\n": true, "%2\r\n+a\r\n:1\r\n+b\r\n:99999999\r\n": true,
		"$65000\r\n" + strings.Repeat("*", 500): true, "*2000\r\n": true,
		"*2147483647\r\n": false, "*5000\r\n": false, "$-0\r\nXX*2147483647\r\n": false, "$-\r\n": false,
		"$-2\r\n": false, "$+5\r\n": false, "$?\r\n": false, "*-12\r\n": false, "%2500\r\n": false, "$65537\r\n": false,
		"*2\r\n$1\r\na\r\n*1000000000\r\n": false, "$2\r\nab\r\n$99999999\r\n": false,
		"$40000\r\n" + strings.Repeat("x", 40000) + "\r\n": false, strings.Repeat("*1\r\n", 5000): false,
		strings.Repeat("x", maxReply+1): false,
	} {
		for range 50 {
			mine, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				if _, err := theirs.Read(make([]byte, 1)); err != nil {
					return
				}
				for rest := []byte(text); len(rest) > 0; {
					n := 1 + rand.IntN(min(len(rest), 1+len(text)/8))
					if _, err := theirs.Write(rest[:n]); err != nil {
						return
					}
					rest = rest[n:]
				}
			}()
			b := &bounded{Conn: mine}
			must.Get(b.Write([]byte{0}))(t)
			got, err := io.ReadAll(b)
			mine.Close()
			if (err == nil) != ok || ok && !bytes.Equal(got, []byte(text)) {
				t.Fatalf("%.60q: %d of %d bytes, %v", text, len(got), len(text), err)
			}
			if n, err := b.Read(make([]byte, 1)); !ok && (n != 0 || !errors.Is(err, errReply)) {
				t.Fatalf("%.60q: %d bytes more, %v", text, n, err)
			}
		}
	}
}
