package server

import (
	"strconv"

	"github.com/valyala/fasthttp"

	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
)

// The names and fixed values of headers, as they are sent.
var (
	headerRequestID     = []byte("X-Request-Id")
	headerCacheControl  = []byte("Cache-Control")
	headerAllow         = []byte("Allow")
	headerRetryAfter    = []byte("Retry-After")
	headerAuthenticate  = []byte("WWW-Authenticate")
	headerPolicy        = []byte("RateLimit-Policy")
	headerRateLimit     = []byte("RateLimit")
	headerAllowOrigin   = []byte("Access-Control-Allow-Origin")
	headerAllowMethods  = []byte("Access-Control-Allow-Methods")
	headerAllowHeaders  = []byte("Access-Control-Allow-Headers")
	headerMaxAge        = []byte("Access-Control-Max-Age")
	headerExposeHeaders = []byte("Access-Control-Expose-Headers")
	headerETag          = []byte("ETag")
	headerVary          = []byte("Vary")

	valueJSON           = []byte("application/json")
	valueNoStore        = []byte("no-store")
	valueMethods        = []byte("GET, HEAD, OPTIONS")
	valueHeaders        = []byte("X-Api-Key, X-Request-Id, X-Snapshot-Time, If-None-Match, If-Modified-Since")
	valueDay            = []byte("86400")
	valueAcceptEncoding = []byte("Accept-Encoding")
	valueAuthenticate   = []byte(`ApiKey realm="openapi", header="X-Api-Key"`)
	// Every header of contract section 8, and the two more.
	valueExposed = []byte("X-Snapshot-Time, ETag, Last-Modified, Cache-Control, Vary, Content-Encoding, Cache-Status, X-Not-Found, " +
		"Access-Control-Allow-Origin, RateLimit-Policy, RateLimit, X-Request-Id, Retry-After")
)

// addCommon adds what every answer carries.
func (s *Server) addCommon(r *Request) {
	h := &r.Ctx.Response.Header
	h.SetCanonical(headerRequestID, r.ID)
	h.SetCanonical(headerAllowOrigin, s.allowOrigin)
	if r.Origin {
		h.SetCanonical(headerExposeHeaders, valueExposed)
	}
	if r.limited {
		r.scratch = appendPolicy(r.scratch[:0], r.limit)
		h.SetCanonical(headerPolicy, r.scratch)
		r.scratch = appendRateLimit(r.scratch[:0], r.left)
		h.SetCanonical(headerRateLimit, r.scratch)
	}
	if r.close || s.draining.Load() {
		h.SetConnectionClose()
	}
}

// appendPolicy and appendRateLimit write the fields of
// draft-ietf-httpapi-ratelimit-headers, version 10.
func appendPolicy(dst []byte, l limit.Limit) []byte {
	dst = append(dst, `"default";q=`...)
	dst = strconv.AppendInt(dst, int64(l.Burst()), 10)
	dst = append(dst, ";w="...)
	return strconv.AppendInt(dst, int64(l.Window()), 10)
}

func appendRateLimit(dst []byte, d limit.Decision) []byte {
	dst = append(dst, `"default";r=`...)
	dst = strconv.AppendInt(dst, int64(d.Remaining), 10)
	dst = append(dst, ";t="...)
	return strconv.AppendInt(dst, int64(d.Reset), 10)
}

// problem answers with p. What was set on the response before must be gone.
func (s *Server) problem(r *Request, p *Problem) {
	s.problemBody(r, p)
	r.Ctx.Response.SetBodyRaw(p.body)
}

// badParameter answers with a 400 that says what is wrong.
func (s *Server) badParameter(r *Request, err *query.ParamError) {
	s.problemBody(r, badRequest)
	r.scratch = badRequest.appendBody(r.scratch[:0], err.Message)
	r.Ctx.Response.SetBody(r.scratch)
}

// problemBody sets all of an answer with p but its body.
func (s *Server) problemBody(r *Request, p *Problem) {
	response := &r.Ctx.Response
	response.SetStatusCode(p.Status)
	h := &response.Header
	h.SetContentTypeBytes(valueJSON)
	h.SetCanonical(headerCacheControl, valueNoStore)
	switch p.Status {
	case fasthttp.StatusUnauthorized:
		h.SetCanonical(headerAuthenticate, valueAuthenticate)
	case fasthttp.StatusMethodNotAllowed:
		h.SetCanonical(headerAllow, valueMethods)
	case fasthttp.StatusTooManyRequests:
		r.scratch = strconv.AppendInt(r.scratch[:0], int64(r.left.RetryAfter), 10)
		h.SetCanonical(headerRetryAfter, r.scratch)
	case fasthttp.StatusServiceUnavailable:
		h.SetCanonical(headerRetryAfter, []byte("1"))
	}
}

// preflight answers OPTIONS.
func (s *Server) preflight(r *Request) {
	r.route = RouteOptions
	r.Ctx.Response.SetStatusCode(fasthttp.StatusNoContent)
	h := &r.Ctx.Response.Header
	h.SetCanonical(headerAllow, valueMethods)
	h.SetCanonical(headerAllowMethods, valueMethods)
	h.SetCanonical(headerAllowHeaders, valueHeaders)
	h.SetCanonical(headerMaxAge, valueDay)
}
