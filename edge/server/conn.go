package server

import (
	"bufio"
	"cmp"
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

// state is what a connection waits for. The comments list the memory that a connection in each state
// takes beside its goroutine and its conn. While a connection waits for its peer, this memory is
// charged to the account of its address (see conn.charge), or the connection is closed.
type state uint32

const (
	// idle: waits for the first byte of a request. It takes only what the kernel still holds of
	// answers, up to freeUnread without charge. Ends with that byte, or with the connection
	// after Config.IdleTimeout; before the first request, after Config.ReadTimeout.
	idle state = iota
	// serving: does not wait for the peer. Holds an input, a Request and an output.
	serving
	// readingHead: waits for the rest of a head and takes an input: chargeHead.
	// Ends with the head, or with a 408 after Config.ReadTimeout.
	// A head of up to shortHead takes chargeShort.
	readingHead
	// readingBody: waits for the rest of a body and takes an input and a Request
	// of its own: chargeBody. Ends like readingHead.
	readingBody
	// writing: waits for the peer to take its answer. Holds the rest of the answer unless its
	// bytes belong to a cache, the kernel's part of it, and the input if a pipeline waits in it.
	// Ends with the last byte, or with the connection after Config.WriteTimeout.
	writing
	// lingering: the last answer was sent, and what the peer still sends is discarded:
	// chargeHead. Ends after lingerTime or lingerBytes.
	lingering
	// streaming: belongs to streams, without a goroutine or a buffer. Ends when a write fails,
	// with its key, or with the server.
	streaming
	// queued: waits for its turn among pipelines, and takes an input: chargeHead.
	queued

	stateBits = 3
)

const (
	// maxHead bounds the head of a request, an empty line before it included
	// (INTERFACE.md, "Framing").
	maxHead = 32 << 10
	// chargeShort is what a head takes of which at most shortHead bytes have arrived.
	shortHead   = 1 << 10
	chargeShort = shortHead + 512
	// chargeHead is an input, chargeBody an input and what the parser makes of a
	// head of maxHead: a copy of its lines, and one of each name and value.
	chargeHead = maxHead + 512
	chargeBody = 5 * maxHead
	// chargeWriting is what stays of a Request, for the log, beside the answer.
	chargeWriting = 1 << 10
	// freeUnread is how much the kernel may hold for an idle connection without charge, so that
	// the kernel need not be asked at each request.
	freeUnread = 16 << 10
	// lookPause is how often the kernel is asked what it holds of small answers: each time costs
	// a system call.
	lookPause = time.Second

	// lingerTime and lingerBytes bound how long a connection is still read after
	// its last answer. Closing with bytes unread would make the kernel reset the
	// connection, and the client might lose the answer.
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

var (
	errGone       = errors.New("the peer has gone, or never came")
	errOverCharge = errors.New("too much memory waits for this address")
	errUnread     = errors.New("the kernel keeps much that the peer has not taken")
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
	proxied  bool       // a PROXY protocol header is still to come
	forwards bool       // the peer says in X-Forwarded-For for whom each request is
	client   netip.Addr // of the current request, if forwards and the request may have to wait
	memo     auth.Memo
	stream   *stream // what the connection becomes when its request is answered, with
	lastID   []byte  // its Last-Event-ID

	// state holds the state in its last stateBits bits. The others count changes, so that two
	// readings tell whether anything happened in between.
	state   atomic.Uint32
	asked   atomic.Int64 // when its last request was answered, in nanoseconds since listener.began; 0: none was
	closed  atomic.Bool
	last    bool // the last answer was written: linger before closing
	broken  bool // what the peer has not taken is not worth keeping
	charged bool // something was charged, and not discharged yet

	// Guarded by listener.mu; cut may be read without.
	account  *account                 // that holds held
	lent     bool                     // account is the client's, not the peer's
	held     [resources]int64         // by it
	elements [resources]*list.Element // of account.conns
	cut      atomic.Bool              // see listener.cut

	in     *bufio.Reader // nil while idle
	part   []byte        // of a short head, while there is no input
	taken  int           // bytes of part that the input has
	head   head          // of the request at hand
	raw    syscall.RawConn
	try    func(fd uintptr) bool // c.tryRead, made once
	tryErr error
	fd     int // of a reading that must not wait; -1: it may wait
	tryOut func(fd uintptr) bool
	out    []byte
	unread int       // bytes written since it was last asked how many the kernel keeps, and those
	looked time.Time // when that was; zero: ask as soon as it may be many
	outErr error
	// patience is the time for the peer to take some more of an answer, rather than all
	// of it; 0: the deadline stays.
	patience time.Duration
	now      time.Time // the latest time that is known, so that idle deadlines need no clock
	readAt   time.Time // the read deadline that is set
	already  bool      // a request was answered
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

// readBy sets the deadline of the next read. Setting one costs a timer, so a deadline that is only a
// little earlier stays.
func (c *conn) readBy(t time.Time) error {
	if early := t.Sub(c.readAt); !c.readAt.IsZero() && 0 <= early && early < c.listener.slack {
		return nil
	}
	return c.setReadDeadline(t)
}

func (c *conn) setReadDeadline(t time.Time) error {
	c.readAt = t
	return c.orCut(c.SetReadDeadline(t))
}

// orCut returns the error of setting a deadline, or errOverCharge if listener.cut has set one.
func (c *conn) orCut(err error) error {
	if err == nil && c.cut.Load() {
		return errOverCharge
	}
	return err
}

// awaitFirst waits for the first byte of a request. It holds no buffer meanwhile: a read that finds
// nothing gives the buffer back before it waits.
func (c *conn) awaitFirst() error {
	timeout := c.listener.idleTimeout
	if !c.already {
		timeout = c.listener.readTimeout
	}
	c.enter(idle)
	end := c.now.Add(timeout)
	var err error
	if c.raw == nil { // a test's
		if err = c.readBy(end); err == nil {
			_, err = c.takeInput().Peek(1)
		}
	} else if err = c.readUntil(end); err == errUnread {
		err = c.awaitUnread(end)
	}
	if err != nil {
		c.giveInput()
		c.broken = c.broken || err == errOverCharge
		return errGone
	}
	c.enter(serving)
	return nil
}

// readUntil reads until end. An earlier deadline stays, and may wake it up in vain: otherwise a busy
// connection would set one for each request.
func (c *conn) readUntil(end time.Time) error {
	for {
		by := end
		if c.unread > freeUnread && !c.mayLook() {
			by = c.looked.Add(lookPause)
		}
		if by.Before(c.readAt) || !c.readAt.After(c.now) {
			if err := c.setReadDeadline(by); err != nil {
				return err
			}
		}
		err := c.read()
		if !c.readAt.Before(end) || !errors.Is(err, os.ErrDeadlineExceeded) || c.cut.Load() {
			return err
		}
		c.now = c.readAt
	}
}

// mayLook reports that it is time to ask what the kernel holds.
func (c *conn) mayLook() bool { return c.now.Sub(c.looked) >= lookPause }

// awaitUnread is awaitFirst while the kernel holds much of what was written. That is charged until the
// peer has taken it. Nothing reports that, so it polls.
func (c *conn) awaitUnread(end time.Time) error {
	defer c.discharge()
	err := errUnread
	for pause := time.Second; err == errUnread; pause *= 2 {
		if !c.charge(int64(c.unread)) {
			return errOverCharge
		}
		c.unread = 0 // until the next look
		look := time.Now().Add(pause)
		if look.After(end) {
			look = end
		}
		if err = c.readBy(look); err != nil {
			return err
		}
		err = c.read()
		c.unread = freeUnread + 1
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.cut.Load() {
			continue
		}
		if c.broken = look == end; c.broken {
			continue
		}
		c.discharge()
		if err = c.readBy(end); err != nil {
			return err
		}
		err = c.read()
	}
	return err
}

// read reads at least one byte into an input.
func (c *conn) read() error {
	if err := c.raw.Read(c.try); err != nil {
		return err
	}
	return c.tryErr
}

// awaitMore waits for more than the n bytes of a head that have arrived. Meanwhile it keeps only
// these bytes if they are few.
func (c *conn) awaitMore(n int) error {
	if c.raw == nil || n > shortHead {
		_, err := c.in.Peek(n + 1)
		return err
	}
	b, _ := c.in.Peek(n)
	c.part = append(make([]byte, 0, n), b...)
	c.giveInput()
	err := c.read()
	if c.in == nil { // nothing arrived: the answer needs the bytes that did before
		c.taken = 0
		_, _ = c.takeInput().Peek(n)
	}
	c.part, c.taken = nil, 0
	return err
}

// tryRead reads into an input without waiting, and reports whether it is done.
func (c *conn) tryRead(fd uintptr) bool {
	c.fd, c.taken = int(fd), 0
	_, c.tryErr = c.takeInput().Peek(len(c.part) + 1)
	c.fd = -1
	if c.tryErr == errAgain {
		c.giveInput()
		if len(c.part) > 0 || c.unread <= freeUnread || !c.mayLook() {
			return false
		}
		if c.unread = int(unreadBytes(fd)); c.unread <= freeUnread {
			c.looked = c.now
			return false
		}
		c.looked, c.tryErr = time.Time{}, errUnread // and again after the next answer
	}
	return true
}

// Read is for the input.
func (c *conn) Read(p []byte) (int, error) {
	if c.taken < len(c.part) {
		n := copy(p, c.part[c.taken:])
		c.taken += n
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

// writeNow writes what the socket takes without waiting, and returns the rest. It needs no deadline.
func (c *conn) writeNow(p []byte) (left []byte, err error) {
	if c.raw == nil { // a test's
		_, err = c.Write(p)
		return nil, err
	}
	c.out, c.outErr = p, nil
	err = c.raw.Write(c.tryOut)
	left, c.out = c.out, nil
	if c.unread += len(p) - len(left); len(p) > freeUnread {
		c.looked = time.Time{}
	}
	if err == nil {
		err = c.outErr
	}
	return left, err
}

// writeAll writes all parts. Whenever it has to wait for the peer, it charges cost and what the
// kernel holds.
func (c *conn) writeAll(cost int64, parts ...[]byte) error {
	if c.raw == nil { // a test's
		if !c.charge(cost) {
			return errOverCharge
		}
		_, err := (*net.Buffers)(&parts).WriteTo(c.Conn)
		return err
	}
	for _, p := range parts {
		c.out, c.outErr = p, nil
		err := c.raw.Write(func(fd uintptr) bool {
			before := len(c.out)
			c.tryWrite(fd)
			if c.patience > 0 && c.outErr == nil && len(c.out) < before {
				c.outErr = c.orCut(c.SetWriteDeadline(time.Now().Add(c.patience)))
			}
			if c.outErr == nil && len(c.out) > 0 && !c.charge(cost+unreadBytes(fd)) {
				c.outErr = errOverCharge
			}
			return c.outErr != nil || len(c.out) == 0
		})
		c.out = nil
		if err = cmp.Or(err, c.outErr); err != nil {
			return err
		}
	}
	c.unread = freeUnread + 1 // whatever it is
	return nil
}

// gone reports that the peer has closed its side, as far as is known without waiting. The first
// write to such a peer would still succeed.
func (c *conn) gone() bool {
	if c.raw == nil { // a test's
		return false
	}
	gone := false
	err := c.raw.Control(func(fd uintptr) { gone = hungUp(fd) })
	return gone || err != nil
}

// untilGone returns a context that ends when the peer closes its side, or the connection is cut off or
// closed. Nothing may be read before stop was called. Whoever waits for anything but the peer waits
// with this context.
func (c *conn) untilGone(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	if c.raw == nil { // a test's
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
	if tcp, ok := c.Conn.(*net.TCPConn); ok && (c.broken || c.cut.Load()) {
		// Otherwise the kernel would go on holding what the peer has not taken.
		_ = tcp.SetLinger(0)
	}
	err := c.Conn.Close()
	c.listener.leave(c)
	return err
}

// lingerOn closes the writing side and discards what the peer still sends, for a while.
func lingerOn(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, lingerBytes)
}
