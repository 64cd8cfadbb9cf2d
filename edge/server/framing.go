package server

import (
	"bytes"
	"errors"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

// fasthttp's lengths of bodies that have none.
const (
	chunked = -1
	noBody  = -2
)

var errAmbiguous = errors.New("two servers may read this as two different requests")

// ambiguous reports a request that two servers may read as two different ones:
// it gives the length of its body in two ways, of which fasthttp goes by the
// chunks (RFC 9112 section 6.3), its lines are not plain (sections 2.2 and
// 5.2), or it is of no HTTP/1.
func ambiguous(h *fasthttp.RequestHeader) bool {
	lines := h.RawHeaders()
	if !plainLines(lines) || !h.IsHTTP11() && !bytes.HasPrefix(h.Protocol(), []byte("HTTP/1.")) {
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

// plainTarget reports a target that fasthttp's parser has nothing to say
// against: a path, without the control characters that it refuses.
func plainTarget(target []byte) bool {
	if len(target) == 0 || target[0] != '/' {
		return false
	}
	for i, b := range target {
		if b < ' ' || b == 0x7f || b == ':' && bytes.HasPrefix(target[i:], []byte("://")) {
			return false
		}
	}
	return true
}

// plainHost reports a Host that fasthttp's parser has nothing to say against: a
// name or an address of IPv4, and perhaps a port.
func plainHost(host []byte) bool {
	name, port, _ := bytes.Cut(host, []byte{':'})
	for _, b := range name {
		if !(b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.' || b == '-') {
			return false
		}
	}
	for _, b := range port {
		if b < '0' || b > '9' {
			return false
		}
	}
	return len(name) > 0
}

// unread answers what could not be read as a request: it is not HTTP, or late,
// or too large. The connection is closed afterwards.
func (s *Server) unread(c *conn, r *Request, err error) {
	r.Now = time.Now()
	r.Reply.Clear()
	// Of a head that could not be read nothing is left, so that the id is a
	// new one; before a body that is too large stands a head that was read.
	r.readHeaders()
	r.close, c.linger = true, true
	s.problem(r, framingProblem(c, err))
	s.finish(r)
}

func framingProblem(c *conn, err error) *Problem {
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		return headersTooLarge
	case errors.Is(err, errAmbiguous):
		return notHTTP
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return payloadTooLarge
	}
	// Not all of fasthttp's errors lead to their cause.
	if c.err != nil {
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
