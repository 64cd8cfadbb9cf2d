package server

import (
	"bufio"
	"bytes"
	"container/list"
	"errors"
	"io"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/edge/auth"
)

// state is the state of a connection.
type state uint32

const (
	// idle: the connection waits for the first byte of a request, without a buffer. It closes after
	// Config.IdleTimeout or, before its first request, after Config.ReadTimeout.
	idle state = iota
	// serving: the connection reads or answers a request.
	serving
	// streaming: the connection belongs to streams, without a goroutine or buffer. It ends when a write
	// fails, when its key becomes invalid, or when the server stops.
	streaming
)

// maxHead bounds the size of a request's head, including an empty line before it (INTERFACE.md,
// "Framing"). Most heads fit into smallHead, so a connection starts with a buffer of that size.
const (
	maxHead   = 32 << 10
	smallHead = 2 << 10
)

// errGone means that the connection ends without an answer.
var errGone = errors.New("the peer closed the connection or sent no request")

// inputs pools the buffers for reading requests, by size.
var (
	smallInputs = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, smallHead) }}
	largeInputs = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxHead) }}
)

// conn is a client's connection. It belongs to the goroutine that serves it, except for state and asked,
// which are atomic, and for owner and inOwner, which listener.mu guards.
type conn struct {
	socket   socket
	listener *listener
	number   uint64 // the number of the connection in this process
	peer     netip.Addr
	owner    *owner        // the owner that the connection counts against, or nil
	inOwner  *list.Element // the element in owner.conns

	state atomic.Uint32 // contains a state
	asked atomic.Int64  // when the last request was answered, in nanoseconds since listener.began; 0 if none was
	now   time.Time     // the latest known time, so that idle deadlines need no clock

	in     *bufio.Reader // nil while idle
	head   head          // the head of the current request
	memo   auth.Memo
	stream *stream // set if the connection becomes a stream after the answer
}

func (c *conn) enter(s state) { c.state.Store(uint32(s)) }

// is reports whether the connection is in state s.
func (c *conn) is(s state) bool { return state(c.state.Load()) == s }

// answered records that a request was answered.
func (c *conn) answered(now time.Time) {
	c.now = now
	c.asked.Store(int64(now.Sub(c.listener.began)))
}

// writeAll writes all parts. timeout bounds the time for each portion, so a slow client may take long in
// total.
func (c *conn) writeAll(timeout time.Duration, parts ...[]byte) error {
	err := c.socket.writeAll(timeout, parts...)
	c.answered(time.Now())
	return err
}

// Close closes the connection and removes it from the listener. It may be called several times.
func (c *conn) Close() error {
	c.giveInput()
	err := c.socket.Close()
	c.listener.leave(c)
	return err
}

// readHead waits for a request and reads its head into the input.
func (c *conn) readHead() error {
	c.head = head{turns: c.head.turns, looks: c.head.looks}
	if c.buffered() == 0 {
		if err := c.awaitFirst(); err != nil {
			return err
		}
	} else if c.asked.Load() != 0 {
		runtime.Gosched() // lets other connections run before the next request of a pipeline
	}
	if b, _ := c.in.Peek(c.buffered()); !c.head.scan(b) {
		if err := c.readSlowHead(); err != nil {
			return err
		}
	}
	if c.head.tooLarge() {
		return errHeadTooLarge
	}
	return nil
}

// awaitFirst waits for the first byte of a request. It holds no buffer while it waits, because a read that
// finds no data releases the buffer before it blocks.
func (c *conn) awaitFirst() error {
	timeout := c.listener.idleTimeout
	if c.asked.Load() == 0 {
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

// readUntil reads at least one byte into the input before cutoff. If an earlier deadline is already set,
// readUntil keeps that deadline and tries again when it expires. Otherwise, a busy connection would have to
// set a deadline for each request.
func (c *conn) readUntil(cutoff time.Time) error {
	for {
		if deadline := c.socket.deadline; cutoff.Before(deadline) || !deadline.After(c.now) {
			if err := c.socket.readBy(cutoff); err != nil {
				return err
			}
		}
		err := c.read()
		if !c.socket.deadline.Before(cutoff) || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		c.now = c.socket.deadline
	}
}

// read reads at least one byte into the input.
func (c *conn) read() error {
	if c.socket.raw == nil {
		_, err := c.takeInput().Peek(1)
		return err
	}
	if err := c.socket.raw.Read(c.socket.reading.try); err != nil {
		return err
	}
	return c.socket.reading.err
}

// tryRead reads into the input without waiting. It returns false if there is nothing to read yet.
func (c *conn) tryRead(fd uintptr) bool {
	reading := &c.socket.reading
	reading.fd = int(fd)
	_, reading.err = c.takeInput().Peek(1)
	reading.fd = -1
	if reading.err == errAgain {
		c.giveInput()
		return false
	}
	return true
}

// readHeadBy sets a deadline of Config.ReadTimeout from now. Since that costs a timer, it keeps a deadline
// that is only slightly earlier.
func (c *conn) readHeadBy() error {
	t, deadline := time.Now().Add(c.listener.readTimeout), c.socket.deadline
	if early := t.Sub(deadline); !deadline.IsZero() && 0 <= early && early < c.listener.slack {
		return nil
	}
	return c.socket.readBy(t)
}

// readSlowHead reads the rest of a head that arrives in several pieces, within Config.ReadTimeout.
func (c *conn) readSlowHead() error {
	c.enter(serving)
	if err := c.readHeadBy(); err != nil {
		return errGone
	}
	for {
		c.head.turns++
		n := c.buffered()
		switch n {
		case maxHead:
			return errHeadTooLarge
		case smallHead:
			if err := c.growInput(); err != nil {
				return err
			}
		}
		_, err := c.in.Peek(n + 1)
		b, _ := c.in.Peek(c.buffered())
		switch {
		case err == nil && c.head.scan(b):
			return nil
		case err == nil:
		case len(b) == c.head.skip:
			return errGone // only an empty line arrived, which ended the previous request
		case err == io.EOF, errors.Is(err, os.ErrDeadlineExceeded):
			return err
		default:
			return errGone
		}
	}
}

func (c *conn) takeInput() *bufio.Reader {
	if c.in == nil {
		c.in = smallInputs.Get().(*bufio.Reader)
		c.in.Reset(&c.socket)
	}
	return c.in
}

// growInput replaces the input buffer with one of size maxHead.
func (c *conn) growInput() error {
	small := c.in
	read, _ := small.Peek(small.Buffered())
	c.in = largeInputs.Get().(*bufio.Reader)
	c.in.Reset(io.MultiReader(bytes.NewReader(read), &c.socket))
	_, err := c.in.Peek(len(read))
	small.Reset(nil)
	smallInputs.Put(small)
	return err
}

// buffered returns the number of bytes that have arrived but are not parsed yet.
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
