package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pollCmd asks servers over and over, on several connections, and never
// sleeps: it looks at one connection after the other whether an answer has come.
// A load that sleeps in epoll is woken up by the server's core, inside the
// server's write; how often depends on which of the two is the faster, so that
// a slower server seems slower yet. Between machines there is no such thing. That
// is why this is not the load tester's closed loop: asked by it over as many
// connections, bare fasthttp spends 17 µs of CPU time on a request that costs 12
// here, and the difference would stand on both sides of every comparison.
//
// Several servers are asked in turn, for a slice of time each, so that all see
// the same machine: its own speed may change from second to second.
//
// It reads its pollSpec from standard input, prints a pollFigures for each
// side, and is pinned to the load's core.
type pollCmd struct{}

// pollSpec is what is asked.
type pollSpec struct {
	Sides    []pollSide
	Seed     uint64
	Duration time.Duration // of each side
}

// pollSide is one server and what it is asked.
type pollSide struct {
	Addr    string
	Headers map[string]string
	Query   question
}

// question is a kind of request. The zero value of Kind asks for Path.
type question struct {
	Kind string `json:",omitempty"` // "", pages, held or rows
	Path string
	Max  int    `json:",omitempty"` // of offset, for pages and held
	File string `json:",omitempty"` // of ids, slugs and symbols, for rows
}

// pollFigures is what it prints.
type pollFigures struct {
	Requests int
	Seconds  float64
	P50, P99 time.Duration
}

const (
	// connections is how many connections the load keeps open.
	connections = 32
	// heldPages is how many answers the kind "held" asks for in turn.
	heldPages = 2000
	// slice is how long a side is asked at a time: many times longer than its caches
	// take to fill again.
	slice = 25 * time.Millisecond
	// silence is how long a server may leave all connections without an answer.
	silence = 10 * time.Second
)

var sorts = []string{"id", "id:desc", "name", "name:desc", "symbol", "symbol:desc", "slug", "slug:desc"}

// asker returns a function that appends the next path.
func (q question) asker(seed uint64) (func([]byte) []byte, error) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	listing := func(b []byte, offset, limit int, sort string) []byte {
		b = strconv.AppendInt(append(b, q.Path+"?offset="...), int64(offset), 10)
		b = strconv.AppendInt(append(b, "&limit="...), int64(limit), 10)
		return append(append(b, "&sort="...), sort...)
	}
	switch q.Kind {
	case "":
		return func(b []byte) []byte { return append(b, q.Path...) }, nil
	case "pages": // twenty rows, on average, at a random place in a random order
		return func(b []byte) []byte {
			return listing(b, rnd.IntN(q.Max), 1+rnd.IntN(39), sorts[rnd.IntN(len(sorts))])
		}, nil
	case "held": // some of them, that are soon held
		return func(b []byte) []byte {
			i := rnd.IntN(heldPages)
			return listing(b, i*q.Max/heldPages, 20, sorts[i%len(sorts)])
		}, nil
	case "rows":
		return q.rows(rnd)
	}
	return nil, fmt.Errorf("no such kind of question: %q", q.Kind)
}

// rows asks for the row of one random id, slug or symbol. The limit, which
// changes nothing about the answer but its name, makes the question a new one.
func (q question) rows(rnd *rand.Rand) (func([]byte) []byte, error) {
	f, err := os.Open(q.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names [][3]string
	times := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		id, rest, _ := strings.Cut(s.Text(), "\t")
		slug, symbol, ok := strings.Cut(rest, "\t")
		if !ok {
			return nil, fmt.Errorf("%s: %q", q.File, s.Text())
		}
		names = append(names, [3]string{id, slug, symbol})
		times["slug="+slug]++
		times["symbol="+symbol]++
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s is empty", q.File)
	}
	var filters []string // of one row each
	for _, n := range names {
		filters = append(filters, "id="+n[0])
		for _, f := range []string{"slug=" + n[1], "symbol=" + n[2]} {
			if times[f] == 1 {
				filters = append(filters, f)
			}
		}
	}
	return func(b []byte) []byte {
		b = append(append(append(b, q.Path...), '?'), filters[rnd.IntN(len(filters))]...)
		return strconv.AppendInt(append(b, "&limit="...), int64(1+rnd.IntN(100)), 10)
	}, nil
}

// asked is a side while it is asked.
type asked struct {
	ask       func([]byte) []byte
	tail      string // of every request
	conns     []*polled
	request   []byte
	took      time.Duration
	latencies []time.Duration
}

// polled is one connection.
type polled struct {
	fd   int
	sent time.Time
	got  int // bytes of the answer
	want int // -1 while its head is not complete
	busy bool
	buf  [64 << 10]byte
}

func (c *pollCmd) Run(ctx context.Context) error {
	runtime.LockOSThread()
	var spec pollSpec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		return err
	}
	sides := make([]*asked, len(spec.Sides))
	for i := range sides {
		var err error
		if sides[i], err = open(&spec.Sides[i], spec.Seed); err != nil {
			return err
		}
		defer sides[i].close()
	}
	for ctx.Err() == nil && sides[len(sides)-1].took < spec.Duration {
		for _, side := range sides {
			if err := side.run(ctx); err != nil {
				return err
			}
		}
	}
	figures := make([]pollFigures, len(sides))
	for i, side := range sides {
		n := len(side.latencies)
		if n == 0 {
			return errors.New("no answer")
		}
		slices.Sort(side.latencies)
		figures[i] = pollFigures{Requests: n, Seconds: side.took.Seconds(), P50: side.latencies[n/2], P99: side.latencies[n*99/100]}
	}
	return json.NewEncoder(os.Stdout).Encode(figures)
}

func open(side *pollSide, seed uint64) (*asked, error) {
	ask, err := side.Query.asker(seed)
	if err != nil {
		return nil, err
	}
	a := &asked{ask: ask, tail: " HTTP/1.1\r\nHost: " + side.Addr + "\r\n", latencies: make([]time.Duration, 0, 1<<20)}
	for k, v := range side.Headers {
		a.tail += k + ": " + v + "\r\n"
	}
	a.tail += "\r\n"
	for range connections {
		p, err := dialPolled(side.Addr)
		if err != nil {
			a.close()
			return nil, err
		}
		a.conns = append(a.conns, p)
	}
	return a, nil
}

func (a *asked) close() {
	for _, p := range a.conns {
		_ = syscall.Close(p.fd)
	}
}

func (a *asked) send(p *polled, now time.Time) error {
	a.request = append(a.ask(append(a.request[:0], "GET "...)), a.tail...)
	p.sent, p.got, p.want, p.busy = now, 0, -1, true
	if n, err := syscall.Write(p.fd, a.request); err != nil || n < len(a.request) {
		return fmt.Errorf("sent %d bytes of %d: %w", n, len(a.request), err)
	}
	return nil
}

// run asks for a slice of time, and waits for the answers that are due then.
func (a *asked) run(ctx context.Context) error {
	began := time.Now()
	for _, p := range a.conns {
		if err := a.send(p, began); err != nil {
			return err
		}
	}
	last := began
	for due := len(a.conns); due > 0 && ctx.Err() == nil; {
		if now := time.Now(); now.Sub(last) > silence {
			return fmt.Errorf("no answer for %v", silence)
		}
		for _, p := range a.conns {
			if !p.busy {
				continue
			}
			done, err := p.receive()
			if err != nil {
				return err
			}
			if !done {
				continue
			}
			last = time.Now()
			a.latencies = append(a.latencies, last.Sub(p.sent))
			if last.Sub(began) >= slice {
				p.busy = false
				due--
			} else if err := a.send(p, last); err != nil {
				return err
			}
		}
	}
	a.took += last.Sub(began)
	return nil
}

func dialPolled(addr string) (*polled, error) {
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	to := &syscall.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}
	err = errors.Join(syscall.Connect(fd, to), syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1), syscall.SetNonblock(fd, true))
	if err != nil {
		return nil, errors.Join(err, syscall.Close(fd))
	}
	return &polled{fd: fd}, nil
}

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
)

// receive reads what has come, and reports whether the answer is whole. One of
// another status than 200 and 304 is an error.
func (p *polled) receive() (done bool, err error) {
	n, err := syscall.Read(p.fd, p.buf[p.got:])
	switch {
	case err == syscall.EAGAIN:
		return false, nil
	case err != nil:
		return false, err
	case n == 0:
		return false, errors.New("the server hung up")
	}
	p.got += n
	if p.want < 0 {
		end := bytes.Index(p.buf[:p.got], headEnd)
		if end < 0 {
			return false, nil
		}
		head := p.buf[:end+2]
		switch status := string(head[9:12]); status {
		case "304":
			p.want = end + len(headEnd)
		case "200":
			_, length, _ := bytes.Cut(head, contentLength)
			length, _, _ = bytes.Cut(length, headEnd[:2])
			n, err := strconv.Atoi(string(length))
			if err != nil {
				return false, fmt.Errorf("the answer's length: %w", err)
			}
			if p.want = end + len(headEnd) + n; p.want > len(p.buf) {
				return false, fmt.Errorf("an answer of %d bytes", p.want)
			}
		default:
			return false, fmt.Errorf("status %s: %s", status, p.buf[:p.got])
		}
	}
	return p.got == p.want, nil
}
