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

// pollCmd asks one server over and over, on several connections, and never
// sleeps: it looks at one connection after the other whether an answer has come.
// A load that sleeps in epoll is woken up by the server's core, inside the
// server's write; how often depends on which of the two is the faster, so that
// a slower server seems slower yet. Between machines there is no such thing.
//
// It reads its pollSpec from standard input, prints its pollFigures, and is
// pinned to the load's core.
type pollCmd struct{}

// pollSpec is what is asked.
type pollSpec struct {
	Addr     string
	Headers  map[string]string
	Query    question
	Seed     uint64
	Duration time.Duration
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

// polled is one connection.
type polled struct {
	fd   int
	sent time.Time
	got  int // bytes of the answer
	want int // -1 while its head is not complete
	buf  [64 << 10]byte
}

func (c *pollCmd) Run(ctx context.Context) error {
	runtime.LockOSThread()
	var spec pollSpec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		return err
	}
	ask, err := spec.Query.asker(spec.Seed)
	if err != nil {
		return err
	}
	tail := " HTTP/1.1\r\nHost: " + spec.Addr + "\r\n"
	for k, v := range spec.Headers {
		tail += k + ": " + v + "\r\n"
	}
	tail += "\r\n"
	conns := make([]*polled, connections)
	for i := range conns {
		if conns[i], err = dialPolled(spec.Addr); err != nil {
			return err
		}
		defer syscall.Close(conns[i].fd)
	}
	var request []byte
	send := func(p *polled, now time.Time) error {
		request = append(ask(append(request[:0], "GET "...)), tail...)
		p.sent, p.got, p.want = now, 0, -1
		if n, err := syscall.Write(p.fd, request); err != nil || n < len(request) {
			return fmt.Errorf("sent %d bytes of %d: %w", n, len(request), err)
		}
		return nil
	}
	began := time.Now()
	for _, p := range conns {
		if err := send(p, began); err != nil {
			return err
		}
	}
	latencies := make([]time.Duration, 0, 1<<20)
	last := began
	for now := began; now.Sub(began) < spec.Duration && ctx.Err() == nil; now = time.Now() {
		if now.Sub(last) > silence {
			return fmt.Errorf("no answer for %v", silence)
		}
		for _, p := range conns {
			done, err := p.receive()
			if err != nil {
				return err
			}
			if !done {
				continue
			}
			last = time.Now()
			latencies = append(latencies, last.Sub(p.sent))
			if err := send(p, last); err != nil {
				return err
			}
		}
	}
	f := pollFigures{Requests: len(latencies), Seconds: time.Since(began).Seconds()}
	if f.Requests == 0 {
		return errors.New("no answer")
	}
	slices.Sort(latencies)
	f.P50, f.P99 = latencies[f.Requests/2], latencies[f.Requests*99/100]
	return json.NewEncoder(os.Stdout).Encode(f)
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
