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

// Errors of Answer, beside the four of package snapshot for pins.
var (
	// ErrNoSnapshot: /global before the first snapshot, nothing else.
	ErrNoSnapshot = errors.New("there is no snapshot yet")
	// ErrUnavailable: something that the answer needs is neither on this machine nor available
	// from the store. The cause is logged.
	ErrUnavailable = errors.New("what the answer needs is unavailable")
	// ErrPrecondition: If-Match or If-Unmodified-Since does not hold.
	ErrPrecondition = errors.New("a precondition does not hold")
)

// Request is what an answer depends on. Everything in it is valid until Answer
// returns; its byte slices must not be changed.
type Request struct {
	// Context ends when the server must end at once.
	Context context.Context
	// Buffers are what a new body is composed in.
	Buffers rows.Buffers
	// Places bounds the places that the requests of the key hold; nil: nothing does.
	Places *limit.Places
	// Query is the parsed query, and RawQuery the query as it was sent.
	Query    query.Query
	RawQuery []byte
	// KeyInQuery: the key stands in the query, so a cache that shares answers must not keep this one.
	KeyInQuery bool
	// Other, unless nil, composes the answer in place of what Query asks for.
	Other Composer
	// Now is the clock, read once for the request.
	Now time.Time
	// Pin is the time of the requested snapshot if Pinned: by a header, or in the path if
	// PinInPath.
	Pin               time.Time
	Pinned, PinInPath bool
	// The values of headers; nil: not sent. Several of one name are joined with commas.
	AcceptEncoding, IfMatch, IfNoneMatch, IfModifiedSince, IfUnmodifiedSince, IfRange []byte

	// Snapshot is set by Answer: the time of the snapshot that answered.
	Snapshot time.Time
	// Length and Visited are set by Answer, since the answer has its price by them: the length of the
	// plain body in bytes, also where none is sent, and the rows of a search or of groups that were
	// visited, also where it failed. A cached answer has those of the new one.
	Length, Visited int
	// Reply is the answer.
	Reply Reply
}

// asks reports whether the request asks for a listing.
func (r *Request) asks(e query.Endpoint) bool { return r.Other == nil && r.Query.Endpoint == e }

// name names what is asked for.
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
	// Body must not change until the answer is written: it is immutable, or in Request.Buffers.
	Body []byte
	// Fixed are header lines that AppendLine made beforehand. They must never change.
	Fixed []byte
	// Lines are the other header lines.
	Lines []byte
}

// Add adds a header line. The name is in its canonical form.
func (p *Reply) Add(name string, value []byte) { p.Lines = AppendLine(p.Lines, name, value) }

// AddLines adds header lines that AppendLine made.
func (p *Reply) AddLines(lines []byte) { p.Lines = append(p.Lines, lines...) }

// Clear drops all that was set.
func (p *Reply) Clear() { *p = Reply{Status: http.StatusOK, Lines: p.Lines[:0]} }

// AppendLine appends a header line. A value with a line end is cut there; no value of ours has one.
func AppendLine(dst []byte, name string, value []byte) []byte {
	if i := bytes.IndexByte(value, '\n'); i >= 0 {
		value = value[:i]
	}
	if i := bytes.IndexByte(value, '\r'); i >= 0 {
		value = value[:i]
	}
	return appendLine(dst, name, value)
}

// appendLine is AppendLine for values that are known to have no line ends.
func appendLine(dst []byte, name string, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}
