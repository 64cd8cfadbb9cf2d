package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"example.com/marketdata/edge/auth"
)

// state is what a connection waits for. These are all the states that there
// are, with what a connection in each takes beside its goroutine and its conn.
// A connection that waits for its peer has that charged to the account of its
// address (see conn.charge), or is closed.
type state uint32

const (
	// idle: waits for the first byte of a request, and takes nothing. Ends with
	// that byte, or after Config.IdleTimeout without a word; before the first
	// request, after Config.ReadTimeout.
	idle state = iota
	// serving: waits for no peer. Holds an input, a Request and an output.
	serving
	// readingHead: waits for the rest of a head and takes an input: chargeHead.
	// Ends with the head, or with a 408 after Config.ReadTimeout.
	readingHead
	// readingBody: waits for the rest of a body and takes an input and a Request
	// of its own: chargeBody. Ends like readingHead.
	readingBody
	// writing: waits for the peer to take its answer. Holds what is left of the
	// answer, unless its bytes belong to a cache, and the input if a pipeline
	// waits in it. Ends with the last byte, or after Config.WriteTimeout, when
	// the connection is closed.
	writing
	// lingering: the answer was the last one, and what the peer still sends is
	// read into nothing: chargeHead. Ends after lingerTime or lingerBytes.
	lingering
	// streaming: belongs to streams, without a goroutine or a buffer. Ends when a
	// writing fails, with its key, or with the server.
	streaming

	stateBits = 3
)

const (
	// maxHead bounds the head of a request, an empty line before it included
	// (INTERFACE.md, "Framing").
	maxHead = 16 << 10
	// chargeHead is an input, chargeBody an input and what the parser makes of a
	// head of maxHead: a copy of its lines, and one of each name and value.
	chargeHead = maxHead + 512
	chargeBody = 5 * maxHead
	// chargeWriting is what stays of a Request, for the log, beside the answer.
	chargeWriting = 1 << 10

	// lingerTime and lingerBytes bound how long a connection is still read after
	// its last answer. Closing with bytes unread would make the kernel reset the
	// connection, and the client might lose the answer.
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

var (
	errGone       = errors.New("the peer has gone, or never came")
	errOverCharge = errors.New("too much memory waits for this address")
	errAgain      = errors.New("nothing to read yet")
)

// inputs are the buffers that requests are read into.
var inputs = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxHead) }}

// conn is a client's connection. Only its state and its Conn are for others
// than the goroutine that serves it.
type conn struct {
	net.Conn
	listener *listener
	number   uint64 // counts the connections of the process
	peer     netip.Addr
	account  *account // of the peer's address; nil: not counted yet
	proxied  bool     // a PROXY protocol header is still to come
	memo     auth.Memo
	stream   *stream // what the connection becomes when its request is answered
	lastID   []byte  // and what its client knows

	// state is the state in its last stateBits bits. The others count changes, so
	// that who looks twice can tell whether anything happened in between.
	state   atomic.Uint32
	closed  atomic.Bool
	last    bool  // the last answer was written: linger before closing
	charged int64 // to the account

	in      *bufio.Reader // nil while idle
	head    head          // of the request at hand
	raw     syscall.RawConn
	try     func(fd uintptr) bool // c.tryRead, made once
	tryErr  error
	fd      int // of a reading that must not wait; -1: it may wait
	tryOut  func(fd uintptr) bool
	out     []byte
	outErr  error
	now     time.Time // the latest time that is known, so that idle deadlines need no clock
	readAt  time.Time // the read deadline that is set
	already bool      // a request was answered
}

// init readies a connection for serving.
func (c *conn) init() {
	c.fd, c.try, c.tryOut = -1, c.tryRead, c.tryWrite
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

// wait enters a state that takes n bytes while the peer is slow, and
// reports whether its address may have that many more. Every wait ends with
// resume.
func (c *conn) wait(s state, n int64) bool {
	c.enter(s)
	return c.charge(n)
}

func (c *conn) resume() {
	c.discharge()
	c.enter(serving)
}

// readBy sets the time by which the next reading must have come to an end.
// Setting one costs a timer, so that one that is set for a little earlier is
// left as it is.
func (c *conn) readBy(t time.Time) error {
	if early := t.Sub(c.readAt); !c.readAt.IsZero() && 0 <= early && early < c.listener.slack {
		return nil
	}
	c.readAt = t
	return c.SetReadDeadline(t)
}

// awaitFirst waits for the first byte of a request. Until it is there no buffer
// is kept: the reading that finds nothing gives it back before it waits.
func (c *conn) awaitFirst() error {
	timeout := c.listener.idleTimeout
	if !c.already {
		timeout = c.listener.readTimeout
	}
	c.enter(idle)
	err := c.readBy(c.now.Add(timeout))
	switch {
	case err != nil:
	case c.raw == nil: // a test's
		_, err = c.takeInput().Peek(1)
	default:
		if err = c.raw.Read(c.try); err == nil {
			err = c.tryErr
		}
	}
	if err != nil {
		c.giveInput()
		return errGone
	}
	c.enter(serving)
	return nil
}

// tryRead reads into an input without waiting, and reports whether it is done.
func (c *conn) tryRead(fd uintptr) bool {
	c.fd = int(fd)
	_, c.tryErr = c.takeInput().Peek(1)
	c.fd = -1
	if c.tryErr == errAgain {
		c.giveInput()
		return false
	}
	return true
}

// Read is for the input.
func (c *conn) Read(p []byte) (int, error) {
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
		c.in = inputs.Get().(*bufio.Reader)
		c.in.Reset(c)
	}
	return c.in
}

// buffered returns how many bytes have come that are not read yet.
func (c *conn) buffered() int {
	if c.in == nil {
		return 0
	}
	return c.in.Buffered()
}

func (c *conn) giveInput() {
	if c.in != nil {
		c.in.Reset(nil)
		inputs.Put(c.in)
		c.in = nil
	}
}

// writeNow writes what the socket takes at once, and returns what is left. It
// needs no deadline.
func (c *conn) writeNow(p []byte) (left []byte, err error) {
	if c.raw == nil { // a test's
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

// gone reports that the peer has closed its side, as far as is known without waiting:
// what is written to it first would still seem to arrive.
func (c *conn) gone() bool {
	if c.raw == nil { // a test's
		return false
	}
	gone := false
	err := c.raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return gone || err != nil
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

// Close closes the connection, once, and takes it off the listener's count.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.giveInput()
	if c.last && c.wait(lingering, chargeHead) {
		lingerOn(c.Conn)
	}
	c.discharge()
	err := c.Conn.Close()
	c.listener.leave(c)
	return err
}

// lingerOn says that nothing more will be written and reads what the peer still
// sends, for a while.
func lingerOn(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, lingerBytes)
}
