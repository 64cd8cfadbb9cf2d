//go:build !race

package server

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/must"
)

// input is what a client may send on a connection, in segments as they arrive.
type input struct {
	name     string
	segments []string
	// allocated bounds the allocated bytes, including those for the connection. turns bounds the iterations
	// of the read loop, beyond one per segment.
	allocated, turns int
}

// cut splits raw into pieces of n bytes.
func cut(raw string, n int) (pieces []string) {
	for len(raw) > n {
		pieces, raw = append(pieces, raw[:n]), raw[n:]
	}
	return append(pieces, raw)
}

// costly returns the most expensive inputs of a connection without a key.
func costly() (list []input) {
	const (
		plain = 10 << 10  // conn, its owner, and what an emptied pool allocates again
		large = 320 << 10 // a head of 32 KiB is parsed, or quoted in an error
	)
	rng := rand.New(rand.NewPCG(1, 2))
	next := request("GET", assets)
	for _, n := range []int{1, 2, 3, 50, 100, 511, 512, 513, 2047, 2048, 2049, 4096, 8191, 8192, 32_000, 32_766, 32_767,
		32_768, 32_769, 32_770, 40_000} {
		head := sizedHead(n)
		at := 1 + rng.IntN(len(head))
		list = append(list,
			input{fmt.Sprintf("head of %d bytes", n), []string{head}, large, 2},
			input{fmt.Sprintf("head of %d bytes, one by one", n), cut(head, 1), large, 2},
			input{fmt.Sprintf("head of %d bytes, cut at %d, and a byte of the next", n, at),
				[]string{head[:at], head[at:] + next[:1], next[1:]}, large, 4},
			input{fmt.Sprintf("head of %d bytes, all but its end", n),
				[]string{head[:len(head)-1], head[len(head)-1:] + next}, large, 4})
	}
	return append(list,
		input{"empty lines", []string{strings.Repeat("\r\n", 16_000)}, plain, 2},
		input{"thousands of lines", []string{request("GET", assets, strings.Repeat("If-None-Match:\r\n", 1000))}, plain,
			2},
		input{"a hundred lines of a list, 160 bytes each",
			[]string{request("GET", assets, strings.Repeat("If-None-Match: "+strings.Repeat("a", 140)+"\r\n",
				97)+"A: b")}, large, 2},
		input{"a target of 32 KB", []string{strings.Replace(next, assets, "/"+strings.Repeat("a", 32_000), 1)}, large,
			2},
		input{"a method of 32 KB", []string{strings.Replace(next, "GET", strings.Repeat("\x01", 32_000), 1)}, 2 * large,
			2},
		input{"cookies", []string{request("GET", assets, "Cookie: "+strings.Repeat("a=b;", 8000))}, 3 * large, 2},
		input{"a pipeline of 1,000", []string{strings.Repeat(next, 1000)}, plain, 1000 * len(next) / smallHead * 2},
		input{"a pipeline of 1,000, cut anywhere", cut(strings.Repeat(next, 1000), 97), plain, 1000},
		input{"a chunked body without end", []string{request("GET", assets, "Transfer-Encoding: chunked"),
			"1;" + strings.Repeat("a", 100_000)}, plain, 4},
		input{"a large body", []string{request("GET", assets, "Content-Length: 999999") + strings.Repeat("a", 999_999)},
			plain, 4},
	)
}

// measure serves one connection. It returns both its ends and the number of allocated bytes.
func measure(s *Server, in *input) (*conn, *segments, int) {
	peer := &segments{}
	for _, segment := range in.segments {
		peer.left = append(peer.left, []byte(segment))
	}
	l := newListener(nil, &s.cfg)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := l.admit(peer)
	s.serveConn(c)
	runtime.ReadMemStats(&after)
	return c, peer, int(after.TotalAlloc - before.TotalAlloc - uint64(peer.grown))
}

// TestCosts checks the cost of a connection for each kind of input. Each byte of a head is scanned once. The
// read loop iterates once per segment. The allocated and the retained memory are bounded.
func TestCosts(t *testing.T) {
	s := newServer(t, Config{})
	list := costly()
	// A garbage collection during a measurement would empty the pools, and the measurement would include
	// filling them again.
	percent := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(percent)
	for i := range list {
		measure(s, &list[i]) // fills the pools
	}
	for _, in := range list {
		c, peer, allocated := measure(s, &in)
		for tries := 0; allocated > in.allocated && tries < 3; tries++ { // the processor's pools may have been empty
			c, peer, allocated = measure(s, &in)
		}
		sent := len(strings.Join(in.segments, ""))
		if c.head.looks > sent {
			t.Errorf("%s: %d bytes looked at of %d", in.name, c.head.looks, sent)
		}
		if c.head.turns > len(in.segments)+in.turns || peer.empty > 0 {
			t.Errorf("%s: %d turns and %d readings into no room for %d segments", in.name, c.head.turns, peer.empty,
				len(in.segments))
		}
		if allocated > in.allocated {
			t.Errorf("%s: %d bytes allocated, at most %d may be", in.name, allocated, in.allocated)
		}
		if c.in != nil || c.listener.owners.open != 0 {
			t.Errorf("%s: %d places are taken, input %v", in.name, c.listener.owners.open, c.in)
		}
	}

	debug.SetGCPercent(percent)

	// The pools remain, since they survive one collection.
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	for at := range maxLines - 1 { // each line is long once, because the parser keeps memory for it
		lines := slices.Repeat([]string{"A: b"}, maxLines-1)
		lines[at] = "A: " + strings.Repeat("b", 15_000)
		measure(s, &input{segments: []string{request("GET", assets, lines...)}})
	}
	for range 5 {
		for i := range list {
			measure(s, &list[i])
		}
	}
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("%d bytes stay after %d connections", grown, 5*len(list))
	}
}

// TestLongHeadHasRequestOfItsOwn checks that the memory that the parser needs for a long head does not stay
// in the pool.
func TestLongHeadHasRequestOfItsOwn(t *testing.T) {
	s := newServer(t, Config{})
	for raw, own := range map[string]bool{request("GET", assets): false, sizedHead(maxPooledHead): false,
		sizedHead(maxPooledHead + 1): true} {
		c := newListener(nil, &s.cfg).admit(&segments{left: [][]byte{[]byte(raw)}})
		must.OK(t, c.readHead())
		if r := s.acquire(c); r.mem.once != own {
			t.Errorf("%.60q: a Request of its own: %v", raw, r.mem.once)
		}
		c.Close()
	}
}
