package server

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/reqid"
)

// maxRefusing bounds the connections that are being refused with an answer. Further connections are closed
// without an answer.
const maxRefusing = 64

// listener admits a bounded number of connections in total and from one address.
type listener struct {
	lns                      []net.Listener
	readTimeout, idleTimeout time.Duration
	slack                    time.Duration // a deadline that is too early by less than this is kept
	allowOrigin              []byte
	proxies                  []netip.Prefix // proxies that send a PROXY protocol header
	trusted                  []netip.Prefix // proxies whose X-Forwarded-For is trusted
	number                   atomic.Uint64
	refused                  atomic.Int64
	refusing                 sync.WaitGroup
	refusals                 chan struct{} // a semaphore for maxRefusing refusals
	began                    time.Time

	mu     sync.Mutex
	conns  map[*conn]struct{} // all connections that are not closed yet
	owners owners             // without the connections that another address has displaced
	asked  int64              // the latest conn.asked of all closed connections
	empty  chan struct{}      // closed when no connection is left; nil unless a drain waits for that
	stop   chan struct{}      // closed with the listener
}

func newListener(lns []net.Listener, cfg *Config) *listener {
	return &listener{
		lns:         lns,
		readTimeout: cfg.ReadTimeout, idleTimeout: cfg.IdleTimeout,
		slack:       min(time.Second, min(cfg.ReadTimeout, cfg.WriteTimeout, cfg.IdleTimeout)/8),
		allowOrigin: []byte(cfg.AllowOrigin),
		proxies:     cfg.ProxyProtocol, trusted: cfg.TrustedProxies,
		refusals: make(chan struct{}, maxRefusing), began: time.Now(),
		conns:  map[*conn]struct{}{},
		owners: owners{maxAll: cfg.MaxConns, maxOne: cfg.MaxConnsPerAddress, named: map[netip.Prefix]*owner{}},
		stop:   make(chan struct{}),
	}
}

// accept returns the next admitted connection of ln. If the process or the machine lacks resources for
// connections, it waits and tries again.
func (l *listener) accept(ln net.Listener) (*conn, error) {
	const shortest, longest = 5 * time.Millisecond, 500 * time.Millisecond
	pause := shortest
	for {
		nc, err := ln.Accept()
		if err != nil {
			if !passing(err) {
				return nil, err
			}
			select {
			case <-l.stop:
				return nil, net.ErrClosed
			case <-time.After(pause):
			}
			pause = min(2*pause, longest)
			continue
		}
		pause = shortest
		if c := l.admit(nc); c != nil {
			return c, nil
		}
	}
}

// passing reports whether an error of Accept is temporary or concerns only one connection.
func passing(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Close stops accepting connections. Open connections continue.
func (l *listener) Close() (err error) {
	l.mu.Lock()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.mu.Unlock()
	for _, ln := range l.lns {
		err = errors.Join(err, ln.Close())
	}
	return err
}

// admit counts a connection, or refuses it and returns nil. A proxy's connection counts against the proxy
// until a PROXY protocol header names the client.
func (l *listener) admit(nc net.Conn) *conn {
	c := &conn{listener: l, number: l.number.Add(1), peer: addrOf(nc.RemoteAddr()), now: time.Now()}
	c.socket.init(nc, c.tryRead)
	if !l.assign(c, c.peer) {
		l.refuse(nc)
		return nil
	}
	return c
}

// assign counts a connection against peer, instead of its previous address. It reports whether peer may have
// the connection. To make room, it may close another address's connection.
func (l *listener) assign(c *conn, peer netip.Addr) bool {
	exempt := contains(l.proxies, peer) || contains(l.trusted, peer)
	l.mu.Lock()
	l.owners.leave(c)
	loser, ok := l.owners.take(c, peer, exempt)
	if ok {
		l.conns[c] = struct{}{}
	}
	l.mu.Unlock()
	if !ok || loser != nil {
		l.refused.Add(1)
	}
	if loser != nil {
		// The goroutine of the connection, if any, removes it from conns, since its next operation fails.
		dropUnread(loser.socket.Conn)
		_ = loser.socket.Close()
	}
	return ok
}

// leave removes a connection.
func (l *listener) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.owners.leave(c)
	l.asked = max(l.asked, c.asked.Load())
	if len(l.conns) == 0 && l.empty != nil {
		close(l.empty)
		l.empty = nil
	}
}

// refuse answers that there are too many connections, and closes the connection.
func (l *listener) refuse(nc net.Conn) {
	select {
	case l.refusals <- struct{}{}:
	default:
		_ = nc.Close()
		return
	}
	l.refusing.Go(func() {
		defer func() { <-l.refusals }()
		defer nc.Close()
		if nc.SetDeadline(time.Now().Add(lingerTime)) != nil {
			return
		}
		if _, err := nc.Write(l.refusal()); err == nil {
			lingerOn(nc)
		}
	})
}

// refusal returns a complete answer for a connection whose request was not read.
func (l *listener) refusal() []byte {
	b := append([]byte(nil), statusLines[tooManyConns.status]...)
	b = append(b, (&dates{}).line(time.Now())...)
	b = append(b, linesProblem...)
	b = appendNumberLine(b, headerRetryAfter, retryLater())
	b = reply.AppendLine(b, "X-Request-Id", reqid.Append(nil))
	b = append(reply.AppendLine(b, headerAllowOrigin, l.allowOrigin), lineExposed...)
	b = appendNumberLine(b, "Content-Length", len(tooManyConns.body))
	b = append(b, "Connection: close\r\n\r\n"...)
	return append(b, tooManyConns.body...)
}

// eachConn calls f for each open connection.
func (l *listener) eachConn(f func(*conn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		f(c)
	}
}

// noneLeft returns a channel that is closed when no connection remains open.
func (l *listener) noneLeft() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	empty := l.empty
	if empty == nil {
		empty = make(chan struct{})
	}
	if len(l.conns) == 0 {
		close(empty)
		return empty
	}
	l.empty = empty
	return empty
}

// addrOf returns the address of a TCP peer, or the zero Addr for any other peer.
func addrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
