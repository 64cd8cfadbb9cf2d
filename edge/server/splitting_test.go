package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/marketdata/internal/test/rawhttp"
)

// TestCorpus checks that every case of the corpus is answered as the interface says.
func TestCorpus(t *testing.T) {
	l := serveInMemory(t)
	for _, c := range rawhttp.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			out := l.answers(c.Raw)
			r := bufio.NewReader(strings.NewReader(out))
			var status []int
			closes := false
			for n := 0; ; {
				if _, err := r.Peek(1); err != nil {
					break
				}
				if closes {
					t.Errorf("more after the answer that closes")
				}
				method := c.Method(n)
				res, err := http.ReadResponse(r, &http.Request{Method: method})
				if err != nil {
					t.Fatalf("%v in %.2000q", err, out)
				}
				body, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatalf("%v in %.2000q", err, out)
				}
				a := check(t, method, res, string(body))
				status = append(status, a.StatusCode)
				closes = a.Close
				if a.StatusCode == 200 && a.Header.Get("X-Request-Id") == "trailer" {
					t.Error("the id is that of a trailer")
				}
				if a.StatusCode != 100 {
					n++
				}
			}
			if !c.Open && (!slices.Equal(status, c.Status) || closes != c.Closes) {
				t.Errorf("answers %v, closes %v; want %v, %v", status, closes, c.Status, c.Closes)
			}
		})
	}
}

// TestBytes checks that a control byte ends the connection everywhere except as white space in a header's
// value, and that a byte beyond ASCII does so everywhere except in a header's value.
func TestBytes(t *testing.T) {
	l := serveInMemory(t)
	for c := range 256 {
		b := string([]byte{byte(c)})
		if c == '\t' || c == '\n' || c >= ' ' && c < 0x80 {
			continue
		}
		const refused = "HTTP/1.1 400 "
		for _, raw := range []string{request("GET", assets+"?x="+b), request("GET", assets, "X-"+b+": a")} {
			if got := l.answers(raw); !strings.HasPrefix(got, refused) {
				t.Errorf("%.50q: %.100q", raw, got)
			}
		}
		if got := l.answers(request("GET", assets, "X-A: a"+b+"b")); c < ' ' && !strings.HasPrefix(got, refused) {
			t.Errorf("byte %d in a value: %.100q", c, got)
		}
	}
}

// TestSplitting checks that input that arrives in pieces, however it is split, is answered like input in one
// piece. The server's Read returns one piece at a time.
func TestSplitting(t *testing.T) {
	l := serveInMemory(t)
	for _, c := range rawhttp.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			want := l.answers(c.Raw)
			try := func(cuts ...int) {
				var pieces []string
				from := 0
				for _, cut := range cuts {
					pieces = append(pieces, c.Raw[from:cut])
					from = cut
				}
				if got := l.answers(append(pieces, c.Raw[from:])...); got != want {
					if len(cuts) > 8 {
						cuts = cuts[:8]
					}
					t.Fatalf("cut at %v: %.1500q\nwhole: %.1500q", cuts, got, want)
				}
			}
			step := 1
			if testing.Short() {
				step = 1 + len(c.Raw)/100
			}
			var every []int
			for cut := 1; cut < len(c.Raw); cut += step {
				try(cut)
				every = append(every, cut)
			}
			try(every...)
			random := rand.New(rand.NewPCG(1, uint64(len(c.Raw))))
			for range 50 {
				cuts := []int{random.IntN(len(c.Raw)), random.IntN(len(c.Raw))}
				slices.Sort(cuts)
				try(cuts...)
			}
		})
	}
}

// memoryListener accepts connections in memory, each from a different address.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	number atomic.Uint32
}

// serveInMemory serves until the test ends. It answers 500 if the server takes a trailer field for a header
// field.
func serveInMemory(t *testing.T) *memoryListener {
	s := newServer(t, Config{Answer: func(r *Request) error {
		if r.Asked.Pinned || r.presented.times > 0 {
			panic("taken for a field of the head")
		}
		return stub(r)
	}})
	l := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { close(l.closed); return nil }
func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{} }

// answers returns the server's answers on a connection on which these pieces arrive, followed by a timeout.
// It replaces or omits the parts that vary: Date, generated ids, and the remaining tokens of limits.
func (l *memoryListener) answers(pieces ...string) string {
	n := l.number.Add(1)
	c := &pieced{pieces: pieces, done: make(chan struct{}),
		from: net.TCPAddr{IP: net.IPv4(10, byte(n>>16), byte(n>>8), byte(n)), Port: 1024}}
	l.conns <- c
	<-c.done
	var b strings.Builder
	for line := range bytes.Lines(c.out.Bytes()) {
		id, ok := bytes.CutPrefix(line, []byte("X-Request-Id: "))
		switch {
		case ok && len(bytes.TrimSpace(id)) >= 20:
			fmt.Fprintf(&b, "X-Request-Id: %s\r\n", strings.Repeat("0", 20))
		case bytes.HasPrefix(line, []byte("Date: ")):
			b.WriteString("Date: now\r\n")
		case !bytes.HasPrefix(line, []byte("RateLimit")):
			b.Write(line)
		}
	}
	return b.String()
}

// pieced is a connection whose Read returns at most one piece. After the last piece, every deadline expires
// immediately.
type pieced struct {
	script
	pieces []string
	from   net.TCPAddr
	done   chan struct{}
}

func (p *pieced) Read(b []byte) (int, error) {
	for len(p.pieces) > 0 && p.pieces[0] == "" {
		p.pieces = p.pieces[1:]
	}
	if len(p.pieces) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(b, p.pieces[0])
	p.pieces[0] = p.pieces[0][n:]
	return n, nil
}

func (p *pieced) Close() error         { close(p.done); return nil }
func (p *pieced) RemoteAddr() net.Addr { return &p.from }
