package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"example.com/marketdata/edge/query"
)

// side is one server and its load. The load sends requests on several connections and never sleeps: it checks
// one connection after another for an answer. A load that sleeps in epoll is woken by the server's core,
// inside the server's write. How often this happens depends on which of the two is faster, so a slower server
// seems even slower. If the load ran on another machine, it would not happen. The load tester's closed loop
// does sleep: over as many connections, bare fasthttp spends 17 µs of CPU time on a request that costs 12 µs
// here, and the difference would be added to both sides of every comparison.
//
// Servers take turns of one slice each, because the machine's speed may change from second to second, and
// this change should affect all of them equally.
type side struct {
	ask       asker
	tail      string // the end of every request
	conns     []*polled
	request   []byte
	took      time.Duration
	latencies []time.Duration
}

// asker appends the path of the next request.
type asker func(dst []byte, rnd *rand.Rand) []byte

const (
	// connections is the number of connections that the load keeps open to each server.
	connections = 32
	// cachedPages is the number of different pages that somePages requests.
	cachedPages = 2000
	// slice is how long a side receives requests in one turn. It is much longer than the processor's
	// caches take to refill.
	slice = 25 * time.Millisecond
	// silence is how long a server may go without answering on any connection.
	silence = 10 * time.Second
)

var sorts = []string{"id", "id:desc", "name", "name:desc", "symbol", "symbol:desc", "slug", "slug:desc"}

func listing(b []byte, offset, limit int, sort string) []byte {
	return fmt.Appendf(b, quotes+"?offset=%d&limit=%d&sort=%s", offset, limit, sort)
}

// always returns an asker for a single path.
func always(path string) asker {
	return func(b []byte, _ *rand.Rand) []byte { return append(b, path...) }
}

// pages returns an asker for pages of 20−spread to 20+spread rows, at a random offset below maxOffset, in a
// random order.
func pages(maxOffset, spread int) asker {
	return func(b []byte, rnd *rand.Rand) []byte {
		return listing(b, rnd.IntN(maxOffset), 20-spread+rnd.IntN(2*spread+1), sorts[rnd.IntN(len(sorts))])
	}
}

// somePages returns an asker for cachedPages different pages, which the edge soon caches.
func somePages(most int) asker {
	return func(b []byte, rnd *rand.Rand) []byte {
		i := rnd.IntN(cachedPages)
		return listing(b, i*most/cachedPages, 20, sorts[i%len(sorts)])
	}
}

// marketPages is like pages, for pages of /markets.
func marketPages(maxOffset, spread int) asker {
	keys := query.Markets.SortKeys()
	return func(b []byte, rnd *rand.Rand) []byte {
		b = fmt.Appendf(b, "/openapi/v1/markets?offset=%d&limit=%d&sort=%s", rnd.IntN(maxOffset),
			20-spread+rnd.IntN(2*spread+1), keys[rnd.IntN(len(keys))])
		return append(b, []string{"", ":desc"}[rnd.IntN(2)]...)
	}
}

// rows returns an asker for the row of one random id, slug or symbol. The random limit makes each request new
// without changing its answer.
func rows(filters []string) asker {
	return func(b []byte, rnd *rand.Rand) []byte {
		return fmt.Appendf(b, quotes+"?%s&limit=%d", filters[rnd.IntN(len(filters))], 1+rnd.IntN(100))
	}
}

// polled is one connection of a side.
type polled struct {
	fd   int
	sent time.Time
	got  int // number of bytes of the answer received so far
	want int // length of the answer; -1 until its head is complete
	busy bool
	buf  [64 << 10]byte
}

// poll sends the requests of loads to their servers, each for a total time of d.
func poll(ctx context.Context, d time.Duration, seed uint64, loads []load) (sides []*side, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for _, l := range loads {
		a, err := open(l)
		if err != nil {
			return nil, err
		}
		defer a.close()
		sides = append(sides, a)
	}
	for ctx.Err() == nil && sides[len(sides)-1].took < d {
		for _, a := range sides {
			if err := a.run(ctx, rnd); err != nil {
				return nil, err
			}
		}
	}
	for _, a := range sides {
		if len(a.latencies) == 0 {
			return nil, cmp.Or(ctx.Err(), errors.New("no answer"))
		}
		slices.Sort(a.latencies)
	}
	return sides, nil
}

func open(l load) (*side, error) {
	a := &side{ask: l.ask, tail: " HTTP/1.1\r\nHost: " + l.server.addr + "\r\n",
		latencies: make([]time.Duration, 0, 1<<18)}
	for k, v := range l.headers {
		a.tail += k + ": " + v + "\r\n"
	}
	a.tail += "\r\n"
	for range connections {
		p, err := dialPolled(l.server.addr)
		if err != nil {
			a.close()
			return nil, err
		}
		a.conns = append(a.conns, p)
	}
	return a, nil
}

func (a *side) close() {
	for _, p := range a.conns {
		_ = syscall.Close(p.fd)
	}
}

func (a *side) send(p *polled, now time.Time, rnd *rand.Rand) error {
	a.request = append(a.ask(append(a.request[:0], "GET "...), rnd), a.tail...)
	p.sent, p.got, p.want, p.busy = now, 0, -1, true
	if n, err := syscall.Write(p.fd, a.request); err != nil || n < len(a.request) {
		return fmt.Errorf("sent %d bytes of %d: %w", n, len(a.request), err)
	}
	return nil
}

// run sends requests for a slice of time, and then waits for the outstanding answers.
func (a *side) run(ctx context.Context, rnd *rand.Rand) error {
	began := time.Now()
	for _, p := range a.conns {
		if err := a.send(p, began, rnd); err != nil {
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
			} else if err := a.send(p, last, rnd); err != nil {
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
	err = errors.Join(syscall.Connect(fd, to), syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.SetNonblock(fd, true))
	if err != nil {
		return nil, errors.Join(err, syscall.Close(fd))
	}
	return &polled{fd: fd}, nil
}

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
)

// receive reads what has arrived, and reports whether the answer is complete. A status other than
// 200 and 304 is an error.
func (p *polled) receive() (done bool, err error) {
	at := p.got
	if p.want >= 0 {
		at = 0 // the head was read
	}
	n, err := syscall.Read(p.fd, p.buf[at:])
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
			p.want = end + len(headEnd) + n
		default:
			return false, fmt.Errorf("status %s: %s", status, p.buf[:p.got])
		}
	}
	return p.got == p.want, nil
}
