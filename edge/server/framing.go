package server

import (
	"errors"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

// headerReceived is asked when the head of a request was read, before its body
// is. A body that will be refused is not asked for: without Expect, fasthttp
// refuses it at once.
func headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if h.ContentLength() > maxBody {
		h.Del(fasthttp.HeaderExpect)
	}
	return fasthttp.RequestConfig{}
}

// unread answers what fasthttp could not read as a request: it is not HTTP, or
// late, or too large. fasthttp closes the connection afterwards.
func (s *Server) unread(ctx *fasthttp.RequestCtx, err error) {
	r := s.acquire(ctx, time.Now())
	defer s.release(r)
	s.clear(r)
	// Of a head that could not be read nothing is left, so that the id is a
	// new one; before a body that is too large stands a head that was read.
	r.readHeaders()
	c, _ := ctx.Conn().(*conn)
	s.problem(r, framingProblem(c, err))
	s.finish(r)
	// fasthttp leaves the body out of the handler's answers only, and keeps the
	// deadline of an earlier answer.
	ctx.Response.SkipBody = ctx.IsHead()
	if c != nil {
		c.linger = true
		_ = c.SetWriteDeadline(time.Now().Add(s.writeTimeout))
	}
}

func framingProblem(c *conn, err error) *Problem {
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		return headersTooLarge
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return payloadTooLarge
	}
	// Not all of fasthttp's errors lead to their cause.
	if c != nil && c.err != nil {
		err = c.err
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return requestTimeout
	case errors.Is(err, errTooManySlow):
		return tooManyConns
	}
	return notHTTP
}
