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

// parse lets fasthttp parse the head. Requests have no body (INTERFACE.md, "Framing"). If the server does not
// support the method, it answers 405 instead.
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
		r.close = true // the body remains unread
		if h.IsGet() || h.IsHead() || h.IsOptions() {
			return errBody
		}
	}
	return nil
}

// framingProblem returns the problem for a request that could not be read.
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
