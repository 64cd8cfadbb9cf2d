package server

import (
	"bytes"
	"errors"
	"math"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

// refusedLength is the length that headerReceived gives to the body of a
// request that fasthttp would take and that is not to be taken. No client can:
// fasthttp takes lengths of 18 digits.
const refusedLength = math.MaxInt64

// headerReceived is asked when the head of a request was read, before its body
// is. What will be refused is not asked for: without Expect, fasthttp refuses a
// body that is too large at once.
func headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if ambiguous(h) || !h.IsHTTP11() && !bytes.HasPrefix(h.Protocol(), []byte("HTTP/1.")) {
		h.SetContentLength(refusedLength)
	}
	if h.ContentLength() > maxBody {
		h.Del(fasthttp.HeaderExpect)
	}
	return fasthttp.RequestConfig{}
}

// ambiguous reports a request that two servers may read as two different ones:
// it gives the length of its body in two ways, of which fasthttp goes by the
// chunks (RFC 9112 section 6.3), or its lines are not plain (sections 2.2 and
// 5.2).
func ambiguous(h *fasthttp.RequestHeader) bool {
	const chunked = -1
	lines := h.RawHeaders()
	if !plainLines(lines) {
		return true
	}
	if h.ContentLength() != chunked {
		return false
	}
	lines = bytes.ToLower(lines)
	return bytes.HasPrefix(lines, []byte("content-length:")) || bytes.Contains(lines, []byte("\ncontent-length:"))
}

// plainLines reports whether every line ends in CR LF and none goes on in the
// next.
func plainLines(lines []byte) bool {
	for {
		end := bytes.IndexByte(lines, '\n')
		if end < 0 {
			return true
		}
		if end == 0 || lines[end-1] != '\r' {
			return false
		}
		if lines = lines[end+1:]; len(lines) > 0 && (lines[0] == ' ' || lines[0] == '\t') {
			return false
		}
	}
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
	s.problem(r, framingProblem(ctx, c, err))
	s.finish(r)
	// fasthttp leaves the body out of the handler's answers only, and keeps the
	// deadline of an earlier answer.
	ctx.Response.SkipBody = ctx.IsHead()
	if c != nil {
		c.linger = true
		_ = c.SetWriteDeadline(time.Now().Add(s.writeTimeout))
	}
}

func framingProblem(ctx *fasthttp.RequestCtx, c *conn, err error) *Problem {
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		return headersTooLarge
	case ctx.Request.Header.ContentLength() == refusedLength:
		return notHTTP
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
	case errors.Is(err, errTooManySlow), errors.Is(err, errTooManyConns):
		return tooManyConns
	case errors.Is(err, errNoProxyHeader):
		return notProxied
	}
	return notHTTP
}
