package server

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/reply"
)

const (
	// While a server drains, it checks at this interval for connections that were idle for drainQuiet, and
	// closes them. Within drainQuiet, a busy client sends its next request, whose answer says Connection:
	// close.
	drainEvery = 20 * time.Millisecond
	drainQuiet = 500 * time.Millisecond
	// cutTime bounds how long Drain waits for the connections that it has cut off.
	cutTime = time.Second
)

// Server serves the public listener (edge/README.md, "Listeners").
type Server struct {
	keys         *auth.Keys
	addresses    *limit.Addresses // for requests without a valid key
	open         *limit.Addresses // for requests that need no key
	unauthorized *problem
	// queryUnauthorized is the 401 for a key in the query.
	queryUnauthorized *problem
	// notServed and foreignUnauthorized are the 404 and the 401 for paths below the dialect's prefix.
	notServed, foreignUnauthorized *problem
	headersRead                    []byte
	allowOrigin                    []byte // header line
	keepAlive                      []byte // header lines
	trusted                        []netip.Prefix
	static                         map[string]*staticFile
	log                            *requestLog
	cfg                            Config

	feed    atomic.Pointer[feedFile]
	streams *streams      // nil if there are no streams
	payWait time.Duration // longestPay, except in tests

	dates    dates
	requests sync.Pool
	ctx      context.Context // the context of requests
	cutOff   context.CancelFunc
	listener atomic.Pointer[listener]
	served   chan struct{} // closed when Serve has returned
	draining atomic.Bool
}

// New returns a Server that is ready for Serve.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l, err := limit.New(cfg.AddressRate, cfg.AddressBurst)
	if err != nil {
		return nil, fmt.Errorf("server: client addresses: %w", err)
	}
	open, err := limit.New(cfg.OpenRate, cfg.OpenBurst)
	if err != nil {
		return nil, fmt.Errorf("server: what needs no key: %w", err)
	}
	s := &Server{
		keys: cfg.Keys, addresses: limit.NewAddresses(l), open: limit.NewAddresses(open),
		unauthorized: newUnauthorized(sendKey, cfg.KeyRequestURL), headersRead: headersRead(cfg.KeyHeaders),
		queryUnauthorized: newUnauthorized(queryKey, cfg.KeyRequestURL),
		allowOrigin:       reply.AppendLine(nil, headerAllowOrigin, []byte(cfg.AllowOrigin)),
		keepAlive:         newKeepAlive(cfg.IdleTimeout),
		trusted:           cfg.TrustedProxies,
		static:            map[string]*staticFile{}, log: newRequestLog(&cfg), cfg: cfg, served: make(chan struct{}),
		payWait: longestPay,
	}
	for path, file := range cfg.Static {
		s.static[path] = newStaticFile(file)
	}
	if cfg.Dialect != nil {
		s.notServed = pathNotFoundFor(cfg.Dialect.NotServed)
		s.foreignUnauthorized = newUnauthorized(cfg.Dialect.Unauthorized, cfg.KeyRequestURL)
	}
	if cfg.Current != nil {
		s.streams = &streams{current: cfg.Current, keys: cfg.Keys, max: cfg.MaxStreams, ofKey: map[string]int{}}
	}
	s.requests.New = func() any { return &Request{mem: &memory{}} }
	s.ctx, s.cutOff = context.WithCancel(context.Background())
	return s, nil
}

// Drain stops serving. It closes the listener, lets requests finish with Connection: close, and closes idle
// connections. It returns nil when no connection is left. When ctx is done, it cuts off the remaining
// connections and returns an error that states their number.
func (s *Server) Drain(ctx context.Context) error {
	defer s.cutOff()
	s.draining.Store(true)
	l := s.listener.Load()
	if l == nil {
		return nil
	}
	_ = l.Close()
	<-s.served
	if s.streams != nil {
		s.streams.end()
	}
	defer l.refusing.Wait()

	none := l.noneLeft()
	ticker := time.NewTicker(drainEvery)
	defer ticker.Stop()
	began := time.Now()
	for {
		select {
		case <-none:
			return nil
		case <-ctx.Done():
			return s.cut(ctx, l, none)
		case now := <-ticker.C:
			closeQuiet(l, began, now)
		}
	}
}

// closeQuiet closes the connections that have been idle for drainQuiet since the drain began.
func closeQuiet(l *listener, began, now time.Time) {
	if now.Sub(began) < drainQuiet {
		return
	}
	latest := int64(now.Add(-drainQuiet).Sub(l.began))
	l.eachConn(func(c *conn) {
		if c.is(idle) && c.asked.Load() <= latest {
			// The goroutine that waits for a request on the connection wakes up and removes it from the listener.
			_ = c.socket.Close()
		}
	})
}

// cut closes all connections.
func (s *Server) cut(ctx context.Context, l *listener, none <-chan struct{}) error {
	n := 0
	s.cutOff()
	l.eachConn(func(c *conn) {
		_ = c.socket.Close()
		n++
	})
	timer := time.NewTimer(cutTime)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
	return fmt.Errorf("drain: %d connections were cut off: %w", n, context.Cause(ctx))
}

// Quiet returns the time since the last request. It returns 0 during a request or an open event stream.
// Connections that wait for a request do not count.
func (s *Server) Quiet() time.Duration {
	l := s.listener.Load()
	if l == nil {
		return math.MaxInt64
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.asked
	for c := range l.conns {
		if !c.is(idle) {
			return 0
		}
		asked = max(asked, c.asked.Load())
	}
	if asked == 0 {
		return math.MaxInt64
	}
	return time.Since(l.began) - time.Duration(asked)
}

// Stats contains counts of connections, streams and events.
type Stats struct {
	// Open is the number of open connections.
	Open int
	// Refused is the number of connections since startup that were refused, or closed because their address
	// had the most connections.
	Refused int64
	// Streams is the number of open event streams. Events is the number of events sent since startup.
	Streams int
	Events  uint64
}

// Stats returns the current numbers.
func (s *Server) Stats() Stats {
	l := s.listener.Load()
	if l == nil {
		return Stats{}
	}
	l.mu.Lock()
	stats := Stats{Open: len(l.conns), Refused: l.refused.Load()}
	l.mu.Unlock()
	if s.streams != nil {
		stats.Streams, stats.Events = s.streams.stats()
	}
	return stats
}
