package server

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"runtime"
	"time"
)

var (
	errFraming      = errors.New("two servers may read this as two different requests")
	errHeadTooLarge = errors.New("the head is too large")
	errBodyTooLarge = errors.New("the body is too large")

	goOn = []byte("HTTP/1.1 100 Continue\r\n\r\n")
)

// readHead waits for a request and reads its head into the input.
func (c *conn) readHead() error {
	if c.proxied {
		if err := c.readProxied(); err != nil {
			return err
		}
	}
	c.head = head{turns: c.head.turns, looks: c.head.looks}
	if c.buffered() == 0 {
		if err := c.awaitFirst(); err != nil {
			return err
		}
	} else if c.already && !c.yield() {
		return errOverCharge
	}
	c.client = netip.Addr{}
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

// yield lets others go first before the next request of a pipeline is answered, and reports
// whether its address may have the connection wait. Only as many pipelines as there are
// processors stand in the scheduler's queue at a time, so that a request that has just
// come has few of them before it, however many there are.
func (c *conn) yield() bool {
	turns := c.listener.turns
	select {
	case turns <- struct{}{}:
	default:
		if !c.wait(queued, chargeHead) {
			c.resume()
			return false
		}
		turns <- struct{}{}
		c.resume()
	}
	runtime.Gosched()
	<-turns
	return true
}

// readSlowHead reads the rest of a head that does not come in one piece.
func (c *conn) readSlowHead() error {
	defer c.resume()
	c.enter(readingHead)
	if err := c.readBy(time.Now().Add(c.listener.readTimeout)); err != nil {
		return errGone
	}
	charged := int64(0)
	for {
		c.head.turns++
		n := c.buffered()
		if n == maxHead {
			return errHeadTooLarge
		}
		if cost := headCost(n); cost > charged {
			if !c.charge(cost) {
				return errOverCharge
			}
			charged = cost
		}
		err := c.awaitMore(n)
		b, _ := c.in.Peek(c.buffered())
		switch {
		case err == nil && c.head.scan(b):
			return nil
		case err == nil:
		case c.cut.Load(), len(b) == c.head.skip:
			return errGone // that empty line ended the request before
		case err == io.EOF, errors.Is(err, os.ErrDeadlineExceeded):
			return err
		default:
			return errGone
		}
	}
}

// headCost returns what is kept of a head while more than n bytes of it are waited for.
func headCost(n int) int64 {
	if n <= shortHead {
		return chargeShort
	}
	return chargeHead
}

// parse gives the head to fasthttp's parser, and says what it and the framing
// rules have against it.
func (c *conn) parse(r *Request) error {
	h := &r.http().Header
	if c.head.malformed || c.head.chunked && c.head.sized {
		return errFraming
	}
	if _, err := c.in.Discard(c.head.skip); err != nil {
		return err
	}
	if err := h.Read(c.in); err != nil {
		return errFraming
	}
	if !validHost(h.Host()) {
		return errFraming
	}
	return nil
}

// readBody reads past the body of a request, and its trailer section, of which
// nothing is ever merged into the head.
func (c *conn) readBody(r *Request) error {
	length := r.http().Header.ContentLength()
	if length > maxBody {
		return errBodyTooLarge
	}
	if !c.head.chunked && length <= 0 {
		return nil
	}
	if !c.wait(readingBody, chargeBody) {
		return errOverCharge
	}
	defer c.resume()
	if c.head.expects && r.http().Header.IsHTTP11() {
		if left, err := c.writeNow(goOn); err != nil || len(left) > 0 {
			return errGone
		}
	}
	if err := c.readBy(time.Now().Add(c.listener.readTimeout)); err != nil {
		return errGone
	}
	if c.head.chunked {
		return skipChunks(c.in)
	}
	_, err := c.in.Discard(length)
	return err
}

// framingProblem is the answer to what could not be read as a request.
func framingProblem(err error) *problem {
	switch {
	case errors.Is(err, errHeadTooLarge):
		return headersTooLarge
	case errors.Is(err, errBodyTooLarge):
		return payloadTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return requestTimeout
	case errors.Is(err, errOverCharge), errors.Is(err, errTooManyConns):
		return tooManyConns
	case errors.Is(err, errNoProxyHeader):
		return notProxied
	}
	return notHTTP
}
