package server

import (
	"errors"
	"io"
	"os"
	"runtime"
	"time"
)

var (
	errFraming      = errors.New("two servers may read this as two different requests")
	errHeadTooLarge = errors.New("the head is too large")
	errBody         = errors.New("the request has a body")
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
	} else if c.already {
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

// readSlowHead reads the rest of a head that does not come in one piece, within Config.ReadTimeout.
func (c *conn) readSlowHead() error {
	c.enter(serving)
	if err := c.readBy(time.Now().Add(c.listener.readTimeout)); err != nil {
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

// parse has fasthttp parse the head. A request may have no body (INTERFACE.md, "Framing"); a method that
// is not served has a better answer than that.
func (c *conn) parse(r *Request) error {
	h := &r.http().Header
	if c.head.malformed {
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
	if c.head.chunked || h.ContentLength() > 0 {
		r.close = true // the body is not read
		if h.IsGet() || h.IsHead() || h.IsOptions() {
			return errBody
		}
	}
	return nil
}

// framingProblem is the answer to what could not be read as a request.
func framingProblem(err error) *problem {
	switch {
	case errors.Is(err, errHeadTooLarge):
		return headersTooLarge
	case errors.Is(err, errBody):
		return payloadTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return requestTimeout
	case errors.Is(err, errTooManyConns):
		return tooManyConns
	case errors.Is(err, errNoProxyHeader):
		return notProxied
	}
	return notHTTP
}
