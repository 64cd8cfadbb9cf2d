package server

import (
	"bytes"
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

const (
	// smallHead is what a connection holds while it waits for a request: most
	// heads fit.
	smallHead = 2 << 10
	// maxHead bounds request line and headers together (contract section 2).
	maxHead = 64 << 10

	// lingerTime and lingerBytes bound how long a connection is still read
	// after an answer that ends it. Closing with bytes unread would make the
	// kernel reset the connection, and the client might lose the answer.
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

var (
	errTooManySlow = errors.New("too many slow connections")
	errBareLF      = errors.New("lines of the head do not end in CR LF")
)

// conn is a client's connection. It makes idle and slow connections cheap:
// large buffers, 64 KiB to read and as much to write, are taken when the head
// of a request is complete, and given back after the answer.
//
// It belongs to the goroutine that serves it, but for stage and Conn.
type conn struct {
	net.Conn
	listener *listener
	number   uint64 // counts the connections of the process
	peer     netip.Addr
	proxied  bool // a PROXY protocol header is still to come
	counted  bool // under its peer's address; by the listener's lock

	// stage is odd while a request is being read and answered, even between
	// requests, and counts up.
	stage  atomic.Uint32
	closed atomic.Bool

	small [smallHead]byte
	ahead []byte // was read and the parser has not taken it yet
	large *[]byte
	err   error // of the last reading; every later one gives it too
	// linger: the answer that was written last ends the connection, and the
	// client may still be sending.
	linger bool
	memo   auth.Memo

	// now is the latest time that is known, so that deadlines need no clock of
	// their own: when the connection came, or the last answer was ready.
	now       time.Time
	late      time.Time // when the part of a request at hand must be here; zero: not set yet
	deadlines deadlines

	writer rawWriter
}

// largeHeads holds buffers for heads that do not fit into smallHead. One byte
// more than is taken tells what is too large.
var largeHeads = sync.Pool{New: func() any { b := make([]byte, 0, maxHead+1); return &b }}

// await waits for a request until its head is complete, or too large, or its
// time is up. It reports whether there is anything to be answered.
func (c *conn) await() bool {
	c.readHead()
	return len(c.ahead) > 0
}

// Read gives the parser the bytes of a request: first those that await has read.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
			c.giveBack()
		}
		return n, nil
	}
	if c.err != nil {
		return 0, c.err
	}
	// The body of a request, or a head that begins within a pipeline: large
	// buffers are taken already.
	if !c.listener.slow.acquire() {
		c.err = errTooManySlow
		return 0, c.err
	}
	defer c.listener.slow.release()
	if c.late.IsZero() {
		c.late = time.Now().Add(c.listener.readTimeout)
	}
	if c.err = c.readBy(c.late); c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(p)
	c.err = err
	return n, err
}

// readHead waits for a request, and then for the rest of its head.
func (c *conn) readHead() {
	wait := c.listener.idleTimeout
	if c.stage.Load() == 0 { // the first one
		wait = c.listener.readTimeout
	}
	if c.proxied {
		if c.readProxied(); c.err != nil {
			return
		}
		c.now = time.Now()
	}
	if len(c.ahead) == 0 {
		if c.err = c.readBy(c.now.Add(wait)); c.err != nil {
			return
		}
		n, err := c.Conn.Read(c.small[:])
		c.ahead, c.err = c.small[:n], err
	}
	if c.err == nil && !bytes.HasSuffix(c.ahead, crlfcrlf) && !c.headComplete(0) {
		c.readSlowHead()
	}
}

// readSlowHead reads the rest of a head that does not come in one piece, until
// the server's own deadline.
func (c *conn) readSlowHead() {
	if c.err = c.readBy(time.Now().Add(c.listener.readTimeout)); c.err != nil {
		return
	}
	defer func() {
		if c.large != nil {
			c.listener.slow.release()
		}
	}()
	if len(c.ahead) < len(c.small) {
		// What is left of an earlier reading may stand at the very end of a
		// buffer, where there is no room to read into.
		c.ahead = c.small[:copy(c.small[:], c.ahead)]
		c.giveBack()
	}
	for len(c.ahead) <= maxHead {
		if len(c.ahead) == len(c.small) {
			// Large buffers wait for their peer, as in Read.
			if !c.listener.slow.acquire() {
				c.err = errTooManySlow
				return
			}
			c.large = largeHeads.Get().(*[]byte)
			c.ahead = append((*c.large)[:0], c.ahead...)
		}
		seen := len(c.ahead)
		room := c.ahead[:cap(c.ahead)]
		var n int
		n, c.err = c.Conn.Read(room[seen:])
		if c.ahead = room[:seen+n]; c.err != nil || c.headComplete(seen) {
			return
		}
	}
}

// giveBack gives the buffer of a large head back, if there is one.
func (c *conn) giveBack() {
	if c.large != nil {
		largeHeads.Put(c.large)
		c.large = nil
	}
}

var crlfcrlf = []byte("\r\n\r\n")

// headComplete reports whether an empty line ends the head. What stands before
// seen was looked at before.
func (c *conn) headComplete(seen int) bool {
	// Empty lines before a request are skipped.
	head := bytes.TrimLeft(c.ahead, "\r\n")
	from := max(0, seen-len(crlfcrlf)-(len(c.ahead)-len(head)))
	if bytes.Contains(head[from:], crlfcrlf) {
		return true
	}
	if bytes.Contains(head[from:], []byte("\n\n")) || bytes.Contains(head[from:], []byte("\n\r\n")) {
		// The parser would wait for a line that ends as it should.
		c.ahead, c.err = head[:1], errBareLF
		return true
	}
	return false
}

// send writes b by the deadline of an answer.
func (c *conn) send(b []byte) error {
	if err := c.writeBy(c.now.Add(c.listener.writeTimeout)); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// Close closes the connection, once, and takes it off the listener's count.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if c.linger {
		lingerOn(c.Conn)
	}
	err := c.Conn.Close()
	c.listener.leave(c)
	return err
}

// lingerOn says that nothing more will be written and reads what the client
// still sends, for a while.
func lingerOn(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, lingerBytes)
}

// slots counts the connections that hold large buffers while they wait for
// their peer, so that many slow peers cannot take all memory.
type slots struct {
	taken atomic.Int64
	most  int64
}

func (s *slots) acquire() bool {
	if s.taken.Add(1) <= s.most {
		return true
	}
	s.taken.Add(-1)
	return false
}

func (s *slots) release() { s.taken.Add(-1) }

// rawWriter writes to a connection and notices when the peer is slow to take
// it.
type rawWriter struct {
	raw   syscall.RawConn // nil: the connection has none
	try   func(fd uintptr) bool
	out   []byte
	err   error
	holds bool
}
