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
)

// maxHead bounds the head of a request, an empty line before it included (INTERFACE.md,
// "Framing"). Most heads fit into smallHead, so a connection begins with a buffer of that size.
const (
	maxHead   = 32 << 10
	smallHead = 2 << 10
)

// errGone ends a connection without an answer.
var errGone = errors.New("the peer has gone, or never came")

// inputs are the buffers that requests are read into, by size.
var (
	smallInputs = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, smallHead) }}
	largeInputs = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxHead) }}
)

// conn is a client's connection. It belongs to the goroutine that serves it, except for state and asked,
// which are atomic, and owner and inOwner, which listener.mu guards.
type conn struct {
	socket   socket
	listener *listener
	number   uint64 // counts the connections of the process
	peer     netip.Addr
	owner    *owner        // who it is counted for; nil: nobody any more
	inOwner  *list.Element // in owner.conns

	state atomic.Uint32 // a state
	asked atomic.Int64  // when its last request was answered, in nanoseconds since listener.began; 0: none was
	now   time.Time     // the latest time that is known, so that idle deadlines need no clock

	in     *bufio.Reader // nil while idle
	head   head          // of the request at hand
	memo   auth.Memo
	stream *stream // what the connection becomes when its request is answered
}

func (c *conn) enter(s state) { c.state.Store(uint32(s)) }

// is reports whether the connection is in a state.
func (c *conn) is(s state) bool { return state(c.state.Load()) == s }

// answered notes that a request was answered.
func (c *conn) answered(now time.Time) {
	c.now = now
	c.asked.Store(int64(now.Sub(c.listener.began)))
}

// writeAll writes all parts, however slowly the peer takes them.
func (c *conn) writeAll(timeout time.Duration, parts ...[]byte) error {
	err := c.socket.writeAll(timeout, parts...)
	c.answered(time.Now())
	return err
}

// Close closes the connection and takes it off the listener's count. It may be called again.
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
		runtime.Gosched() // a pipeline lets others go first
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

// awaitFirst waits for the first byte of a request. It holds no buffer meanwhile: a read that finds
// nothing gives the buffer back before it waits.
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

// readUntil reads at least one byte into an input before end. An earlier deadline stays, and may wake
// it up in vain: otherwise a busy connection would set one for each request.
func (c *conn) readUntil(end time.Time) error {
	for {
		if deadline := c.socket.deadline; end.Before(deadline) || !deadline.After(c.now) {
			if err := c.socket.readBy(end); err != nil {
				return err
			}
		}
		err := c.read()
		if !c.socket.deadline.Before(end) || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		c.now = c.socket.deadline
	}
}

// read reads at least one byte into an input.
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

// tryRead reads into an input without waiting, and reports whether it is done.
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

// readHeadBy sets the deadline of what must arrive within Config.ReadTimeout. Setting one costs a timer, so
// a deadline that is only a little earlier stays.
func (c *conn) readHeadBy() error {
	t, deadline := time.Now().Add(c.listener.readTimeout), c.socket.deadline
	if early := t.Sub(deadline); !deadline.IsZero() && 0 <= early && early < c.listener.slack {
		return nil
	}
	return c.socket.readBy(t)
}

// readSlowHead reads the rest of a head that does not come in one piece, within Config.ReadTimeout.
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
			return errGone // that empty line ended the request before
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

// growInput makes room for a head of maxHead.
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
