package server

import (
	"errors"
	"os"
)

var (
	errFraming      = errors.New("two servers may read this as two different requests")
	errHeadTooLarge = errors.New("the head is too large")
	errBody         = errors.New("the request has a body")
)

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
