package server

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/reply"
	"golang.org/x/net/http/httpguts"
)

// The names of headers that are used in several places.
const (
	headerRetryAfter   = "Retry-After"
	headerCacheControl = "Cache-Control"
	headerAllowOrigin  = "Access-Control-Allow-Origin"
)

// Header lines that never change.
var (
	linesProblem = reply.AppendLine(reply.AppendLine(nil, "Content-Type", []byte("application/json")),
		headerCacheControl, []byte("no-store"))
	// Without this header nginx and its derivatives would hold events back until their buffer is full.
	linesStream = reply.AppendLine(reply.AppendLine(reply.AppendLine(nil, "Content-Type", []byte("text/event-stream")),
		headerCacheControl, []byte("no-store")), "X-Accel-Buffering", []byte("no"))
	linesNotice = reply.AppendLine(reply.AppendLine(nil, "Content-Type", []byte("application/json")),
		headerCacheControl, []byte("no-cache"))
	noNotice  = []byte("{}")
	lineAllow = reply.AppendLine(nil, "Allow", valueMethods)
	lineRealm = reply.AppendLine(nil, "WWW-Authenticate", []byte(`ApiKey realm="openapi", header="X-Api-Key"`))
	lineVary  = reply.AppendLine(nil, "Vary", []byte("Accept-Encoding"))
	// All headers listed in INTERFACE.md, "Headers", and the other headers that an answer may have.
	lineExposed = reply.AppendLine(nil, "Access-Control-Expose-Headers",
		[]byte("X-Snapshot-Time, ETag, Last-Modified, Cache-Control, Vary, Content-Encoding, Cache-Status, "+
			"X-Not-Found, X-Ignored, X-Total, Surrogate-Key, Cache-Tag, Accept-Ranges, Content-Range, Content-Length, "+
			"Access-Control-Allow-Origin, RateLimit-Policy, RateLimit, X-Request-Id, Retry-After, Date, Allow, "+
			"WWW-Authenticate"))
	linesPreflight = reply.AppendLine(reply.AppendLine(reply.AppendLine(bytes.Clone(lineAllow),
		"Access-Control-Allow-Methods", valueMethods), "Access-Control-Max-Age", []byte("86400")),
		"Vary", []byte("Access-Control-Request-Headers"))

	valueMethods = []byte("GET, HEAD, OPTIONS")
)

// headersRead returns a list of the request headers that an answer depends on.
func headersRead(keyHeaders []string) []byte {
	return []byte(strings.Join(append([]string{"X-Api-Key"}, keyHeaders...), ", ") +
		", X-Request-Id, X-Snapshot-Time, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, Range, " +
		"If-Range, Last-Event-ID, Traceparent, Tracestate, Content-Type")
}

// retryLater returns the Retry-After value for a 503, a random 1 to 5 seconds, so that clients do not all
// return at the same time.
func retryLater() int { return 1 + rand.N(5) }

// addCommon adds the headers that all answers have.
func (s *Server) addCommon(r *Request) {
	p := &r.Asked.Reply
	p.Add("X-Request-Id", r.ID)
	p.AddLines(s.allowOrigin)
	p.AddLines(lineExposed)
	// A shared cache may send the answer to other clients, which have different limits.
	if r.limited && !(s.cfg.SharedCaches && (p.Status == http.StatusOK || p.Status == http.StatusNotModified)) {
		p.Lines = appendPolicy(p.Lines, policyDefault, r.limit)
		p.Lines = appendRateLimit(p.Lines, policyDefault, r.left)
	}
}

// The names of the limits. The first applies to keys, and to the addresses of clients without a valid key.
// The second applies to addresses, for requests that need no key.
const (
	policyDefault = "default"
	policyOpen    = "open"
)

// appendPolicy and appendRateLimit append the header lines of draft-ietf-httpapi-ratelimit-headers-10.
func appendPolicy(dst []byte, name string, l limit.Limit) []byte {
	dst = append(dst, `RateLimit-Policy: "`...)
	dst = append(dst, name...)
	dst = append(dst, `";q=`...)
	dst = strconv.AppendInt(dst, int64(l.Burst()), 10)
	dst = append(dst, ";w="...)
	dst = strconv.AppendInt(dst, int64(l.Window()), 10)
	return append(dst, crlf...)
}

func appendRateLimit(dst []byte, name string, d limit.Decision) []byte {
	dst = append(dst, `RateLimit: "`...)
	dst = append(dst, name...)
	dst = append(dst, `";r=`...)
	dst = strconv.AppendInt(dst, int64(d.Remaining), 10)
	dst = append(dst, ";t="...)
	dst = strconv.AppendInt(dst, int64(d.Reset), 10)
	return append(dst, crlf...)
}

// problem answers with p. The reply must be empty.
func (s *Server) problem(r *Request, p *problem) {
	r.Asked.Reply.Status, r.Asked.Reply.Fixed, r.Asked.Reply.Body = p.status, linesProblem, p.body
	switch {
	case r.dialect != nil:
		r.Asked.Reply.Body = r.dialect.AppendError(r.Asked.Buffers.Body(), p.status, p.message)
	case r.detail != "":
		r.Asked.Reply.Body = p.appendBody(r.Asked.Buffers.Body(), r.detail)
	}
	switch p.status {
	case http.StatusUnauthorized:
		r.Asked.Reply.AddLines(lineRealm)
	case http.StatusMethodNotAllowed:
		r.Asked.Reply.AddLines(lineAllow)
	case http.StatusTooManyRequests:
		after := r.left.RetryAfter
		switch p {
		case tooManyStreamsOfKey:
			after = commentEvery // by then the streams of clients that disappeared have ended
		case tooManyDownloads:
			after = laterFile
		}
		r.Asked.Reply.Lines = appendNumberLine(r.Asked.Reply.Lines, headerRetryAfter, after)
		if p == tooManyOpen {
			r.Asked.Reply.Lines = appendPolicy(r.Asked.Reply.Lines, policyOpen, s.open.Limit())
			r.Asked.Reply.Lines = appendRateLimit(r.Asked.Reply.Lines, policyOpen, r.left)
		}
	case http.StatusServiceUnavailable:
		after := retryLater()
		if p == snapshotLater {
			after = 1 // the snapshot is expected soon
		}
		r.Asked.Reply.Lines = appendNumberLine(r.Asked.Reply.Lines, headerRetryAfter, after)
	}
}

// The bounds of a list of requested headers that preflight returns unchanged.
const (
	maxAskedNames = 32
	maxAskedBytes = 1 << 10
)

// preflight answers OPTIONS. It allows every header that the script wants to send, because tracing tools
// and SDKs add their own headers, and only the headers in s.headersRead affect an answer.
func (s *Server) preflight(r *Request) {
	allowed := s.headersRead
	if askedNames(r.asksFor) {
		allowed = r.asksFor
	}
	r.Asked.Reply.Status, r.Asked.Reply.Fixed = http.StatusNoContent, linesPreflight
	r.Asked.Reply.Add("Access-Control-Allow-Headers", allowed)
}

// askedNames reports whether the value of Access-Control-Request-Headers is a list of names within the
// bounds.
func askedNames(list []byte) bool {
	if len(list) == 0 || len(list) > maxAskedBytes {
		return false
	}
	n := 0
	for more := true; more; n++ {
		var name []byte
		if name, list, more = bytes.Cut(list, []byte{','}); !isToken(bytes.Trim(name, " \t")) {
			return false
		}
	}
	return n <= maxAskedNames
}

// isToken reports whether b is a valid header name, like httpguts.ValidHeaderFieldName.
func isToken(b []byte) bool {
	for _, c := range b {
		if !httpguts.IsTokenRune(rune(c)) {
			return false
		}
	}
	return len(b) > 0
}
