package server

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

const (
	// writeStep is the part of an answer that a client must receive within Config.WriteTimeout.
	writeStep = 64 << 10

	// lingerTime and lingerBytes bound how long and how much the server reads from a connection after its
	// last answer. If a connection were closed with unread bytes, the kernel would reset it, and the client
	// could lose the answer.
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// errAgain is the error that Read returns if it must not wait and there is nothing to read.
var errAgain = errors.New("nothing to read yet")

// socket is a client's TCP connection, which supports reading and writing with and without waiting. Reads
// and writes on other kinds of connections, which tests use, always wait.
type socket struct {
	net.Conn
	raw      syscall.RawConn // nil if it is not a TCP connection
	deadline time.Time       // the read deadline

	// reading is the state of Read while it must not wait.
	reading struct {
		try func(fd uintptr) bool // created once, since a new function for each read would need an allocation
		fd  int                   // the file descriptor, or -1 if Read may wait
		err error
	}
	// writing is the state of writeNow.
	writing struct {
		try  func(fd uintptr) bool // created once
		left []byte
		err  error
	}
}

// init sets the connection. tryRead calls Read without waiting, and reports whether it is done.
func (s *socket) init(nc net.Conn, tryRead func(fd uintptr) bool) {
	s.Conn = nc
	s.reading.try, s.reading.fd, s.writing.try = tryRead, -1, s.tryWrite
	if tcp, ok := nc.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
}

// Read implements io.Reader. It waits only if reading.fd is -1.
func (s *socket) Read(p []byte) (int, error) {
	if s.reading.fd < 0 {
		return s.Conn.Read(p)
	}
	for {
		n, err := syscall.Read(s.reading.fd, p)
		switch {
		case n > 0:
			return n, nil
		case err == syscall.EAGAIN:
			return 0, errAgain
		case err == nil:
			return 0, io.EOF
		case err != syscall.EINTR:
			return 0, err
		}
	}
}

// readBy sets the read deadline.
func (s *socket) readBy(t time.Time) error {
	s.deadline = t
	return s.SetReadDeadline(t)
}

// writeNow writes as much as the kernel accepts without waiting, and returns the rest. It needs no deadline.
func (s *socket) writeNow(p []byte) (left []byte, err error) {
	if s.raw == nil {
		_, err = s.Write(p)
		return nil, err
	}
	s.writing.left, s.writing.err = p, nil
	err = s.raw.Write(s.writing.try)
	left, s.writing.left = s.writing.left, nil
	if err == nil {
		err = s.writing.err
	}
	return left, err
}

func (s *socket) tryWrite(fd uintptr) bool {
	for len(s.writing.left) > 0 {
		n, err := syscall.Write(int(fd), s.writing.left)
		switch {
		case n > 0:
			s.writing.left = s.writing.left[n:]
		case err == syscall.EAGAIN:
			return true
		case err != syscall.EINTR:
			s.writing.err = err
			return true
		}
	}
	return true
}

// writeAll writes all parts. For every writeStep bytes, it waits for the peer for up to the given timeout. If
// the peer is too slow, writeAll drops the rest.
func (s *socket) writeAll(timeout time.Duration, parts ...[]byte) error {
	for _, p := range parts {
		for len(p) > 0 {
			step := p[:min(len(p), writeStep)]
			if err := s.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
				return err
			}
			if _, err := s.Write(step); err != nil {
				dropUnread(s.Conn)
				return err
			}
			p = p[len(step):]
		}
	}
	// writeNow writes the next answer without a deadline.
	return s.SetWriteDeadline(time.Time{})
}

// gone reports whether the peer is known to have closed its side. It does not wait. The first write to such a
// peer would still succeed.
func (s *socket) gone() bool {
	if s.raw == nil {
		return false
	}
	gone := false
	err := s.raw.Control(func(fd uintptr) { gone = hungUp(fd) })
	return gone || err != nil
}

// untilGone returns a context that is done when the peer closes its side or the connection is closed. Nothing
// may be read before stop is called. Use this context to wait for something other than the peer.
func (s *socket) untilGone(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	if s.raw == nil {
		return ctx, cancel
	}
	if s.readBy(time.Time{}) != nil {
		cancel()
		return ctx, cancel
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.raw.Read(hungUp)
		cancel()
	}()
	return ctx, func() {
		_ = s.readBy(time.Unix(1, 0))
		<-ended
	}
}

// dropUnread makes closing c discard the bytes that the peer has not received.
func dropUnread(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// lingerOn closes the sending side, and reads and discards what the peer still sends, within bounds.
func lingerOn(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, lingerBytes)
}
