package edge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/edge/server"
	"example.com/marketdata/internal/lab/teststore"
)

// plainClient is one connection that allocates nothing once it is open.
type plainClient struct {
	tb      testing.TB
	conn    net.Conn
	request []byte
	// What has come and is not yet read is buf[from:to].
	buf      [64 << 10]byte
	from, to int
	answer   []byte // the last one that was read
}

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
)

// ask sends the request and reads its answer. It returns the status.
func (c *plainClient) ask() int {
	c.send(c.request)
	return c.receive()
}

func (c *plainClient) send(requests []byte) {
	if _, err := c.conn.Write(requests); err != nil {
		c.tb.Fatal(err)
	}
}

// receive reads one answer. It returns the status.
func (c *plainClient) receive() int {
	for {
		there := c.buf[c.from:c.to]
		if end := bytes.Index(there, headEnd); end >= 0 {
			length := 0
			if at := bytes.Index(there[:end], contentLength); at >= 0 {
				for at += len(contentLength); there[at] >= '0' && there[at] <= '9'; at++ {
					length = 10*length + int(there[at]-'0')
				}
			}
			if length += end + len(headEnd); length <= len(there) {
				c.answer = there[:length]
				if c.from += length; c.from == c.to {
					c.from, c.to = 0, 0
				}
				return int(there[9]-'0')*100 + int(there[10]-'0')*10 + int(there[11]-'0')
			}
		}
		if c.from > len(c.buf)/2 {
			c.from, c.to = 0, copy(c.buf[:], there)
		}
		n, err := c.conn.Read(c.buf[c.to:])
		if err != nil {
			c.tb.Fatal(err)
		}
		c.to += n
	}
}

// serving is an edge with every feature on, that has its snapshot, and some
// keys.
func serving(tb testing.TB) (e *Edge, secrets []string) {
	tb.Helper()
	mem := memstore.New()
	teststore.Publish(tb, mem, teststore.NewFeed(5000, 1), teststore.Start)
	for range 16 {
		secrets = append(secrets, newKey(tb, mem).Key)
	}
	e, _ = start(tb, mem, func(cfg *Config) {
		cfg.AuthOff, cfg.Poll = false, time.Minute
		cfg.Log = slog.New(slog.DiscardHandler)
		cfg.Server.AddressRate, cfg.Server.AddressBurst = 1_000_000, 1_000_000
		cfg.CacheSize = 64 << 20
	})
	until(tb, "a whole snapshot", func() bool {
		s := e.refresher.State()
		return s != nil && s.Snapshot != nil && e.refresher.Status().Missing == 0
	})
	return e, secrets
}

func dialPlain(tb testing.TB, e *Edge, target string, headers ...string) *plainClient {
	tb.Helper()
	conn, err := net.Dial("tcp", e.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	return newPlainClient(tb, conn, target, headers...)
}

func newPlainClient(tb testing.TB, conn net.Conn, target string, headers ...string) *plainClient {
	tb.Cleanup(func() { conn.Close() })
	c := &plainClient{tb: tb, conn: conn, request: fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: edge.test\r\n", target)}
	for _, h := range headers {
		c.request = append(append(c.request, h...), "\r\n"...)
	}
	c.request = append(c.request, "\r\n"...)
	return c
}

// inMemory serves s over an in-memory listener until the test ends.
func inMemory(tb testing.TB, serve func(net.Listener) error, stop func(context.Context) error) *fasthttputil.InmemoryListener {
	ln := fasthttputil.NewInmemoryListener()
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(stop(ctx), <-served); err != nil {
			tb.Error(err)
		}
	})
	return ln
}

func newServer(tb testing.TB, e *Edge) *server.Server {
	s, err := server.New(server.Config{Answer: func(r *server.Request) error { return e.engine.Answer(&r.Request) }, Keys: e.keys, Observe: e.metrics.Observe, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// served are the answers that the benchmarks ask for.
var served = []struct{ name, target string }{
	{"cached", "/openapi/v1/quotes?page=3"}, {"one row", "/openapi/v1/quotes?limit=1"},
}

// connectionsPerCore is enough that none waits for another.
const connectionsPerCore = 8

// coresRound is how long one measurement of BenchmarkCores takes.
const coresRound = 200 * time.Millisecond

// BenchmarkCores says how much faster two cores are than one, whole requests
// without a network, the client included: the median over many short rounds,
// each of them on one core and then on two, since a core's own speed changes
// from second to second on a machine that others share. Bare fasthttp with the
// same bytes says what the machine, the scheduler and the listener leave of a
// second core; the scheduler has less to do where clients send four requests at once.
func BenchmarkCores(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("one core")
	}
	e, secrets := serving(b)
	s := newServer(b, e)
	edge := inMemory(b, s.Serve, s.Drain)
	for _, c := range served {
		dial := func(ln *fasthttputil.InmemoryListener, i int) *plainClient {
			conn, err := ln.Dial()
			if err != nil {
				b.Fatal(err)
			}
			return newPlainClient(b, conn, c.target, "X-Api-Key: "+secrets[i%len(secrets)])
		}
		first := dial(edge, 0)
		first.ask()
		head, body, _ := bytes.Cut(bytes.Clone(first.answer), headEnd)
		padding := bytes.Repeat([]byte{'x'}, len(head)-100) // to the length of the edge's head, or nearly
		bare := &fasthttp.Server{NoDefaultServerHeader: true, NoDefaultContentType: true, WriteBufferSize: 64 << 10, Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.Response.Header.SetCanonical([]byte("X-Padding"), padding)
			ctx.Response.SetBodyRaw(body)
		}}
		for _, server := range []struct {
			name string
			ln   *fasthttputil.InmemoryListener
		}{{"edge", edge}, {"bare fasthttp", inMemory(b, bare.Serve, bare.ShutdownWithContext)}} {
			for _, atOnce := range []int{1, 4} {
				b.Run(fmt.Sprintf("%s/%s/%d at once", c.name, server.name, atOnce), func(b *testing.B) {
					var clients [2 * connectionsPerCore]*plainClient
					for i := range clients {
						clients[i] = dial(server.ln, i)
						clients[i].request = bytes.Repeat(clients[i].request, atOnce)
					}
					rate(b, clients[:], atOnce)
					var gains []float64
					for b.Loop() {
						gains = append(gains, rate(b, clients[:], atOnce)/rate(b, clients[:connectionsPerCore], atOnce))
					}
					slices.Sort(gains)
					b.ReportMetric(gains[len(gains)/2], "times")
					b.ReportMetric(0, "ns/op") // says nothing
				})
			}
		}
	}
}

// rate returns how many answers a second clients get on as many cores as they
// are for. All ask until the time is up: those that were done before the others
// would leave them a core.
func rate(b *testing.B, clients []*plainClient, atOnce int) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(len(clients) / connectionsPerCore))
	var answers atomic.Int64
	var done atomic.Bool
	var asking sync.WaitGroup
	began := time.Now()
	for _, client := range clients {
		asking.Go(func() {
			n := 0
			for ; !done.Load(); n += atOnce {
				client.send(client.request)
				for range atOnce {
					if status := client.receive(); status != 200 {
						b.Errorf("status %d", status)
						return
					}
				}
			}
			answers.Add(int64(n))
		})
	}
	time.AfterFunc(coresRound, func() { done.Store(true) })
	asking.Wait()
	return float64(answers.Load()) / time.Since(began).Seconds()
}
