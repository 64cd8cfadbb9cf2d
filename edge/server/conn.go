package server

import (
	"bufio"
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"example.com/marketdata/edge/auth"
)

// state says what a connection is doing.
type state uint32

const (
	// idle: waits for the first byte of a request, and holds no buffer. It ends with that byte, or
	// with the connection after Config.IdleTimeout; before the first request, after
	// Config.ReadTimeout.
	idle state = iota
	// serving: reads a request, answers it or writes the answer.
	serving
	// streaming: belongs to streams, without a goroutine or a buffer. It ends when a write fails,
	// with its key, or with the server.
	streaming

	stateBits = 2
)

const (
	// maxHead bounds the head of a request, an empty line before it included (INTERFACE.md,
	// "Framing"). Most heads fit into smallHead, so a connection begins with a buffer of that size.
	maxHead   = 32 << 10
	smallHead = 2 << 10

	// writeStep is how much of an answer a client must take within Config.WriteTimeout.
	writeStep = 64 << 10

	// lingerTime and lingerBytes bound how long a connection is still read after its last answer. If
	// it were closed with bytes unread, the kernel would reset it, and the client might lose the
	// answer.
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

var (
	errGone  = errors.New("the peer has gone, or never came")
	errAgain = errors.New("nothing to read yet")
)

// inputs are the buffers that requests are read into, by size.
var (
	smallInputs = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, smallHead) }}
	largeInputs = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxHead) }}
)

// conn is a client's connection. It belongs to the goroutine that serves it, except for state, asked and
// closed, which are atomic, owner and place, which listener.mu guards, and its Conn.
type conn struct {
	net.Conn
	listener *listener
	number   uint64 // counts the connections of the process
	peer     netip.Addr
	owner    *owner        // who it is counted for; nil: nobody any more
	place    *list.Element // in owner.conns

	// state holds the state in its last stateBits bits. The others count changes, so that two
	// readings tell whether anything happened in between.
	state  atomic.Uint32
	asked  atomic.Int64 // when its last request was answered, in nanoseconds since listener.began; 0: none was
	closed atomic.Bool

	proxied  bool // a PROXY protocol header is still to come
	forwards bool // the peer says in X-Forwarded-For for whom each request is
	already  bool // a request was answered
	last     bool // the last answer was written: linger before closing
	broken   bool // what the peer has not taken is not worth keeping

	memo   auth.Memo
	head   head          // of the request at hand
	in     *bufio.Reader // nil while idle
	moved  []byte        // what a small input had read, for the large one
	stream *stream       // what the connection becomes when its request is answered, with
	lastID []byte        // its Last-Event-ID

	raw      syscall.RawConn       // nil: it is not a TCP connection
	tryIn    func(fd uintptr) bool // c.tryRead, made once
	tryOut   func(fd uintptr) bool // c.tryWrite
	fd       int                   // of a reading that must not wait; -1: it may wait
	out      []byte                // what tryWrite writes
	inErr    error                 // of tryRead
	outErr   error                 // of tryWrite
	now      time.Time             // the latest time that is known, so that idle deadlines need no clock
	deadline time.Time             // of reading
}

// init readies a connection for serving.
func (c *conn) init() {
	c.fd, c.tryIn, c.tryOut = -1, c.tryRead, c.tryWrite
	if sc, ok := c.Conn.(*net.TCPConn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
}

// enter changes the state.
func (c *conn) enter(s state) {
	c.state.Store(c.state.Load()&^(1<<stateBits-1) + 1<<stateBits | uint32(s))
}

func stateOf(word uint32) state { return state(word & (1<<stateBits - 1)) }

// readBy sets the deadline of reading. Setting one costs a timer, so a deadline that is only a little
// earlier stays.
func (c *conn) readBy(t time.Time) error {
	if early := t.Sub(c.deadline); !c.deadline.IsZero() && 0 <= early && early < c.listener.slack {
		return nil
	}
	return c.setReadDeadline(t)
}

func (c *conn) setReadDeadline(t time.Time) error {
	c.deadline = t
	return c.SetReadDeadline(t)
}

// awaitFirst waits for the first byte of a request. It holds no buffer meanwhile: a read that finds
// nothing gives the buffer back before it waits.
func (c *conn) awaitFirst() error {
	timeout := c.listener.idleTimeout
	if !c.already {
		timeout = c.listener.readTimeout
	}
	c.enter(idle)
	if err := c.readUntil(c.now.Add(timeout)); err != nil {
		c.giveInput()
		return errGone
	}
	c.enter(serving)
	return nil
}

// readUntil reads at least one byte into an input before end. An earlier deadline stays, and may wake
// it up in vain: otherwise a busy connection would set one for each request.
func (c *conn) readUntil(end time.Time) error {
	for {
		if end.Before(c.deadline) || !c.deadline.After(c.now) {
			if err := c.setReadDeadline(end); err != nil {
				return err
			}
		}
		err := c.read()
		if !c.deadline.Before(end) || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		c.now = c.deadline
	}
}

// read reads at least one byte into an input.
func (c *conn) read() error {
	if c.raw == nil {
		_, err := c.takeInput().Peek(1)
		return err
	}
	if err := c.raw.Read(c.tryIn); err != nil {
		return err
	}
	return c.inErr
}

// tryRead reads into an input without waiting, and reports whether it is done.
func (c *conn) tryRead(fd uintptr) bool {
	c.fd = int(fd)
	_, c.inErr = c.takeInput().Peek(1)
	c.fd = -1
	if c.inErr == errAgain {
		c.giveInput()
		return false
	}
	return true
}

// Read is for the input.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.moved) > 0 {
		n := copy(p, c.moved)
		c.moved = c.moved[n:]
		return n, nil
	}
	if c.fd < 0 {
		return c.Conn.Read(p)
	}
	for {
		n, err := syscall.Read(c.fd, p)
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

func (c *conn) takeInput() *bufio.Reader {
	if c.in == nil {
		c.in = smallInputs.Get().(*bufio.Reader)
		c.in.Reset(c)
	}
	return c.in
}

// growInput makes room for a head of maxHead.
func (c *conn) growInput() error {
	small := c.in
	c.moved, _ = small.Peek(small.Buffered())
	n := len(c.moved)
	c.in = largeInputs.Get().(*bufio.Reader)
	c.in.Reset(c)
	_, err := c.in.Peek(n)
	small.Reset(nil)
	smallInputs.Put(small)
	return err
}

// buffered returns how many bytes have come that are not read yet.
func (c *conn) buffered() int {
	if c.in == nil {
		return 0
	}
	return c.in.Buffered()
}

func (c *conn) giveInput() {
	if c.in == nil {
		return
	}
	c.in.Reset(nil)
	if c.in.Size() == smallHead {
		smallInputs.Put(c.in)
	} else {
		largeInputs.Put(c.in)
	}
	c.in = nil
}

// writeNow writes what the socket takes without waiting, and returns the rest. It needs no deadline.
func (c *conn) writeNow(p []byte) (left []byte, err error) {
	if c.raw == nil {
		_, err = c.Write(p)
		return nil, err
	}
	c.out, c.outErr = p, nil
	err = c.raw.Write(c.tryOut)
	left, c.out = c.out, nil
	if err == nil {
		err = c.outErr
	}
	return left, err
}

func (c *conn) tryWrite(fd uintptr) bool {
	for len(c.out) > 0 {
		n, err := syscall.Write(int(fd), c.out)
		switch {
		case n > 0:
			c.out = c.out[n:]
		case err == syscall.EAGAIN:
			return true
		case err != syscall.EINTR:
			c.outErr = err
			return true
		}
	}
	return true
}

// writeAll writes all parts, and waits for the peer: Config.WriteTimeout for each writeStep.
func (c *conn) writeAll(parts ...[]byte) error {
	for _, p := range parts {
		for len(p) > 0 {
			step := p[:min(len(p), writeStep)]
			if err := c.SetWriteDeadline(time.Now().Add(c.listener.writeTimeout)); err != nil {
				return err
			}
			if _, err := c.Write(step); err != nil {
				c.broken = true
				return err
			}
			p = p[len(step):]
		}
	}
	// The next answer is first tried without a deadline.
	return c.SetWriteDeadline(time.Time{})
}

// gone reports that the peer has closed its side, as far as is known without waiting. The first
// write to such a peer would still succeed.
func (c *conn) gone() bool {
	if c.raw == nil {
		return false
	}
	gone := false
	err := c.raw.Control(func(fd uintptr) { gone = hungUp(fd) })
	return gone || err != nil
}

// untilGone returns a context that ends when the peer closes its side, or the connection is closed.
// Nothing may be read before stop was called. Whoever waits for anything but the peer waits with this
// context.
func (c *conn) untilGone(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	if c.raw == nil {
		return ctx, cancel
	}
	if c.setReadDeadline(time.Time{}) != nil {
		cancel()
		return ctx, cancel
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.raw.Read(hungUp)
		cancel()
	}()
	return ctx, func() {
		_ = c.setReadDeadline(time.Unix(1, 0))
		<-ended
	}
}

// Close closes the connection, once, and takes it off the listener's count.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.giveInput()
	if c.last {
		lingerOn(c.Conn)
	}
	if c.broken {
		dropUnread(c.Conn)
	}
	err := c.Conn.Close()
	c.listener.leave(c)
	return err
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
