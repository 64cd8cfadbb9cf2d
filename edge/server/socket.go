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
	// writeStep is how much of an answer a client must take within Config.WriteTimeout.
	writeStep = 64 << 10

	// lingerTime and lingerBytes bound how long a connection is still read after its last answer. If
	// it were closed with bytes unread, the kernel would reset it, and the client might lose the
	// answer.
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// errAgain is what Read returns if it must not wait and there is nothing to read yet.
var errAgain = errors.New("nothing to read yet")

// socket is a client's TCP connection, which can be read and written with and without waiting. Any
// other kind of connection, as tests have them, always waits.
type socket struct {
	net.Conn
	raw      syscall.RawConn // nil: it is not a TCP connection
	deadline time.Time       // of reading

	// reading is for Read while it must not wait.
	reading struct {
		try func(fd uintptr) bool // made once: a new one for each reading would be allocated
		fd  int                   // -1: Read waits
		err error
	}
	// writing is for writeNow.
	writing struct {
		try  func(fd uintptr) bool // made once
		left []byte
		err  error
	}
}

// init sets the connection; tryRead calls Read without waiting, and reports whether it is done.
func (s *socket) init(nc net.Conn, tryRead func(fd uintptr) bool) {
	s.Conn = nc
	s.reading.try, s.reading.fd, s.writing.try = tryRead, -1, s.tryWrite
	if tcp, ok := nc.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
}

// Read reads, and waits only where it may.
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

// readBy sets the deadline of reading.
func (s *socket) readBy(t time.Time) error {
	s.deadline = t
	return s.SetReadDeadline(t)
}

// writeNow writes what the kernel takes without waiting, and returns the rest. It needs no deadline.
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

// writeAll writes all parts, and waits for the peer: up to timeout for each writeStep. What a peer has not
// taken by then is dropped.
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
	// The next answer is first tried without a deadline.
	return s.SetWriteDeadline(time.Time{})
}

// gone reports that the peer has closed its side, as far as is known without waiting. The first
// write to such a peer would still succeed.
func (s *socket) gone() bool {
	if s.raw == nil {
		return false
	}
	gone := false
	err := s.raw.Control(func(fd uintptr) { gone = hungUp(fd) })
	return gone || err != nil
}

// untilGone returns a context that ends when the peer closes its side, or the connection is closed.
// Nothing may be read before stop was called. Whoever waits for anything but the peer waits with this
// context.
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

// dropUnread has the kernel drop what the peer has not taken when c is closed.
func dropUnread(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// lingerOn closes the writing side and discards what the peer still sends, for a while.
func lingerOn(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, lingerBytes)
}
