package answer

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
)

// Errors of Answer, beside the four of package snapshot for pins.
var (
	// ErrNoSnapshot: /global before the first snapshot, nothing else.
	ErrNoSnapshot = errors.New("there is no snapshot yet")
	// ErrUnavailable: what the answer needs is neither on this machine nor
	// available from the store. The cause is logged.
	ErrUnavailable = errors.New("what the answer needs is unavailable")
	// ErrNoView: the snapshot's builder did not know the sort key, or search.
	ErrNoView = errors.New("the snapshot has no view for this")
	// ErrLimited: Memory.Visit said no.
	ErrLimited = errors.New("the answer costs more than may be spent now")
)

// Request is what an answer depends on. Everything in it is valid until Answer
// returns; its byte slices must not be changed.
type Request struct {
	// Context ends when the server is to end at once.
	Context context.Context
	// Memory gives the room for a body that is put together.
	Memory
	// Query is what is asked for, and RawQuery how it was sent.
	Query    query.Query
	RawQuery []byte
	// Now is the clock, read once for the request.
	Now time.Time
	// Pin is the time of the snapshot asked for, if Pinned: by a header, or in the
	// path.
	Pin               time.Time
	Pinned, PinInPath bool
	// The values of headers, nil when not sent; several of one name joined
	// with a comma.
	AcceptEncoding, IfNoneMatch, IfModifiedSince []byte

	// Snapshot is set by Answer: T of the snapshot that answered.
	Snapshot time.Time
	// Reply is the answer.
	Reply Reply
}

// Memory is where the body of one answer is put together, and who is told what that
// takes.
type Memory interface {
	// Room returns empty memory that stays the answer's until it is written, and
	// LargeRoom more of it.
	Room() []byte
	LargeRoom() []byte
	// Made is told how many bytes were put together for this request, and how many of
	// them will be coded now, both together. A finished answer that was cached is none.
	Made(bytes int)
	// Visit is told how many rows a search is about to visit, and reports whether it may.
	// Visited is told how many it did visit since it was told last, also when it failed.
	Visit(rows int) bool
	Visited(rows int)
	// Places bounds the places that are held for whoever asks; nil: there is no bound.
	Places() *limit.Places
}

// Reply is an answer as it is put together: a status, a body, and header lines.
type Reply struct {
	// Status is the HTTP status.
	Status int
	// Body must stay as it is until the answer is written: it is one that never
	// changes, or lies in the memory that Request.Room gives.
	Body []byte
	// Fixed are header lines that were made beforehand, with AppendLine. They
	// must never change.
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

// AppendLine appends a header line. Of a value that would end the line early
// only what stands before its end is sent; no value of ours does.
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
