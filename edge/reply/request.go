package reply

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/rows"
)

// Errors of Answer, besides package snapshot's errors about pins.
var (
	// ErrNoSnapshot means that /global was requested before the first snapshot.
	ErrNoSnapshot = errors.New("there is no snapshot yet")
	// ErrUnavailable means that the edge cannot answer at present. Either it has not read the store yet,
	// the current snapshot is too old, or something that the answer needs was not available in time.
	ErrUnavailable = errors.New("what the answer needs is unavailable")
	// ErrPrecondition means that If-Match or If-Unmodified-Since does not hold.
	ErrPrecondition = errors.New("a precondition does not hold")
)

// Request is a request to an Engine. Its contents are valid until Answer returns. Answer does not change its
// byte slices.
type Request struct {
	// Context is done when the server must stop immediately.
	Context context.Context
	// Buffers provides the memory for a new body.
	Buffers rows.Buffers
	// Places bounds the slots that the key's requests occupy. It may be nil.
	Places *limit.Places
	// Query is the parsed query, and RawQuery is the query as sent.
	Query    query.Query
	RawQuery []byte
	// KeyInQuery reports whether the API key is in the query. A shared cache must not keep such an answer.
	KeyInQuery bool
	// Other, if not nil, composes the answer instead of Query.
	Other Composer
	// Now is the time of the request.
	Now time.Time
	// Pinned reports whether the request pins a snapshot. Pin is its time. PinInPath reports whether the pin
	// is in the path; otherwise it is in a header.
	Pin               time.Time
	Pinned, PinInPath bool
	// The values of headers, or nil if they were not sent. Several values of a header are joined with commas.
	AcceptEncoding, IfMatch, IfNoneMatch, IfModifiedSince, IfUnmodifiedSince, IfRange []byte

	// Snapshot is set by Answer to the time of the snapshot that the answer comes from.
	Snapshot time.Time
	// Length and Visited are set by Answer, because the price of the answer depends on them. Length is the
	// length of the plain body in bytes, even if it is not sent. Visited is the number of rows that a search
	// or a filter visited, even if it failed. A cached answer has the same values as a new one.
	Length, Visited int
	// Reply is the answer.
	Reply Reply
}

// asks reports whether the request is for endpoint e.
func (r *Request) asks(e query.Endpoint) bool { return r.Other == nil && r.Query.Endpoint == e }

// name returns the name of the endpoint.
func (r *Request) name() string {
	if r.Other != nil {
		return r.Other.Name()
	}
	return r.Query.Endpoint.Name()
}

// Reply is an answer: a status, a body, and header lines.
type Reply struct {
	// Status is the HTTP status.
	Status int
	// Body must not change until the answer is written. It is either immutable or in Request.Buffers.
	Body []byte
	// Fixed contains header lines that were prepared by AppendLine. They must never change.
	Fixed []byte
	// Lines contains the other header lines.
	Lines []byte
}

// Add adds a header line. The name must be in its canonical form.
func (p *Reply) Add(name string, value []byte) { p.Lines = AppendLine(p.Lines, name, value) }

// AddLines adds header lines that AppendLine has formatted.
func (p *Reply) AddLines(lines []byte) { p.Lines = append(p.Lines, lines...) }

// Clear resets the reply.
func (p *Reply) Clear() { *p = Reply{Status: http.StatusOK, Lines: p.Lines[:0]} }

// AppendLine appends a header line. As a precaution, it cuts value off at the first line break; no value
// should contain one.
func AppendLine(dst []byte, name string, value []byte) []byte {
	if i := bytes.IndexByte(value, '\n'); i >= 0 {
		value = value[:i]
	}
	if i := bytes.IndexByte(value, '\r'); i >= 0 {
		value = value[:i]
	}
	return appendLine(dst, name, value)
}

// appendLine is like AppendLine for values that are known to contain no line breaks.
func appendLine(dst []byte, name string, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}
