package server

import (
	"bytes"
	"net/http"
	"strconv"

	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
)

// The names of headers that are sent in more than one place.
const (
	headerRetryAfter   = "Retry-After"
	headerCacheControl = "Cache-Control"
	headerAllowOrigin  = "Access-Control-Allow-Origin"
)

// Header lines that never change.
var (
	linesProblem = reply.AppendLine(reply.AppendLine(nil, "Content-Type", []byte("application/json")),
		headerCacheControl, []byte("no-store"))
	// nginx, and what is built on it, would keep events until its buffer is full.
	linesStream = reply.AppendLine(reply.AppendLine(reply.AppendLine(nil, "Content-Type", []byte("text/event-stream")),
		headerCacheControl, []byte("no-store")), "X-Accel-Buffering", []byte("no"))
	lineAllow = reply.AppendLine(nil, "Allow", valueMethods)
	lineSoon  = reply.AppendLine(nil, headerRetryAfter, []byte("1"))
	lineRealm = reply.AppendLine(nil, "WWW-Authenticate", []byte(`ApiKey realm="openapi", header="X-Api-Key"`))
	lineVary  = reply.AppendLine(nil, "Vary", []byte("Accept-Encoding"))
	// Every header of INTERFACE.md, "Headers", and four more.
	lineExposed = reply.AppendLine(nil, "Access-Control-Expose-Headers",
		[]byte("X-Snapshot-Time, ETag, Last-Modified, Cache-Control, Vary, Content-Encoding, Cache-Status, "+
			"X-Not-Found, X-Ignored, Surrogate-Key, Cache-Tag, Accept-Ranges, Content-Range, "+
			"Access-Control-Allow-Origin, RateLimit-Policy, "+
			"RateLimit, X-Request-Id, Retry-After"))
	linesPreflight     = newPreflight("")
	linesCoinPreflight = newPreflight(", " + demoKeyHeader + ", " + proKeyHeader)

	valueMethods = []byte("GET, HEAD, OPTIONS")
)

func newPreflight(more string) []byte {
	b := bytes.Clone(lineAllow)
	b = reply.AppendLine(b, "Access-Control-Allow-Methods", valueMethods)
	b = reply.AppendLine(b, "Access-Control-Allow-Headers",
		[]byte("X-Api-Key, X-Request-Id, X-Snapshot-Time, If-None-Match, If-Modified-Since, Last-Event-ID, "+
			"Range, If-Range, Traceparent, Tracestate"+more))
	return reply.AppendLine(b, "Access-Control-Max-Age", []byte("86400"))
}

// addCommon adds the headers of every answer.
func (s *Server) addCommon(r *Request) {
	p := &r.Reply
	p.Add("X-Request-Id", r.ID)
	p.AddLines(s.allowOrigin)
	// A shared cache sends the answer to other clients, which may be browsers and do not share
	// this client's limit.
	shared := s.cfg.SharedCaches
	if r.Origin || shared {
		p.AddLines(lineExposed)
	}
	if r.limited && !(shared && (p.Status == http.StatusOK || p.Status == http.StatusNotModified)) {
		p.Lines = appendPolicy(p.Lines, policyDefault, r.limit)
		p.Lines = appendRateLimit(p.Lines, policyDefault, r.Bill.Left)
	}
}

// The names of the limits: of keys and of addresses without a valid key, and of
// addresses for what needs no key.
const (
	policyDefault = "default"
	policyOpen    = "open"
)

// appendPolicy and appendRateLimit append the header lines of
// draft-ietf-httpapi-ratelimit-headers, version 10.
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

// problem answers with p. The reply must be clear.
func (s *Server) problem(r *Request, p *problem) {
	r.Reply.Status, r.Reply.Fixed, r.Reply.Body = p.status, linesProblem, p.body
	if r.coins {
		r.Reply.Body = p.appendCoinBody(r.Buffers.Body())
	}
	switch p.status {
	case http.StatusUnauthorized:
		r.Reply.AddLines(lineRealm)
	case http.StatusMethodNotAllowed:
		r.Reply.AddLines(lineAllow)
	case http.StatusTooManyRequests:
		after := r.Bill.Left.RetryAfter
		switch p {
		case tooManyStreamsOfKey:
			after = commentEvery // by then streams whose peers are gone have ended
		case tooManyDownloads:
			after = laterFile
		}
		r.Reply.Lines = appendNumberLine(r.Reply.Lines, headerRetryAfter, after)
	case http.StatusServiceUnavailable:
		r.Reply.AddLines(lineSoon)
	}
}

// badParameter answers with a 400 that says what is wrong.
func (s *Server) badParameter(r *Request, err *query.ParamError) {
	s.problem(r, badRequest)
	r.Reply.Body = badRequest.appendBody(r.Buffers.Body(), err.Message)
}

// preflight answers OPTIONS.
func (s *Server) preflight(r *Request) {
	r.Reply.Status, r.Reply.Fixed = http.StatusNoContent, linesPreflight
	if r.coins {
		r.Reply.Fixed = linesCoinPreflight
	}
}
