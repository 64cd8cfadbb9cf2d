package server

import (
	"bytes"
	"net/netip"
	"net/url"
	"time"

	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/reqid"
	"github.com/valyala/fasthttp"
)

// Request is one request and its answer.
type Request struct {
	// Asked contains everything that the answer depends on, and the answer itself.
	Asked reply.Request

	// ID is the request id, of 1 to 128 characters.
	ID []byte
	// TraceID is the trace id of the header traceparent, or nil if that is absent or invalid.
	TraceID []byte
	// KeyID is the id of the API key, or "" if authentication is off.
	KeyID string

	route     Route
	conn      *conn // nil in tests
	peer      netip.Addr
	dialect   *Dialect // the dialect that the path belongs to, or nil
	presented presented
	pin       []byte
	pins      int
	lastID    []byte      // Last-Event-ID
	events    bool        // the answer is an event stream
	ranges    []byte      // Range
	asksFor   []byte      // Access-Control-Request-Headers
	detail    string      // the message of a 400; if it is empty, the problem's own is sent
	file      *sending    // the body; if it is nil, the body is Reply.Body
	sent      int         // the bytes of the file that were sent
	fault     error       // why a file could not be read, or nil
	close     bool        // close the connection after the answer
	payer     *auth.Key   // the key that pays for the answer, or nil
	limited   bool        // whether the next two fields are set
	limit     limit.Limit // the limit that applies to the request
	left      limit.Decision

	id     [reqid.Length]byte
	took   time.Duration // the time from Asked.Now until the answer was ready
	client netip.Addr    // see clientOf; invalid before its first call
	mem    *memory
}

// memory is the memory that requests reuse.
type memory struct {
	http    fasthttp.Request
	head    []byte
	lines   []byte         // the memory of Reply.Lines
	joined  [6][]byte      // joined values of headers that were sent in several lines
	key     []byte         // the key in the query
	foreign reply.Composer // the last result of Dialect.Parse, or nil
	once    bool           // do not reuse the Request
}

// maxPooledHead is the longest head for which a Request is reused. For each header line, the parser's memory
// grows to the longest line that it has seen in that position. So longer heads could make a Request retain a
// hundred times as much memory.
const maxPooledHead = 2 << 10

// begin prepares r for the next request.
func (r *Request) begin(c *conn) {
	m := r.mem
	if r.Asked.Reply.Lines != nil {
		m.lines = r.Asked.Reply.Lines
	}
	*r = Request{
		Asked: reply.Request{
			Context: r.Asked.Context, Buffers: r.Asked.Buffers, Query: r.Asked.Query,
			Reply: reply.Reply{Status: fasthttp.StatusOK, Lines: m.lines[:0]},
		},
		route: RouteUnread, conn: c, mem: m,
	}
	r.Asked.Buffers.Reset()
	if c != nil {
		r.peer = c.peer
	}
}

// acquire returns a Request for c, which may be nil.
func (s *Server) acquire(c *conn) *Request {
	var r *Request
	if c != nil && c.head.seen > maxPooledHead {
		r = &Request{mem: &memory{once: true}}
	} else {
		r = s.requests.Get().(*Request)
	}
	r.begin(c)
	r.Asked.Context = s.ctx
	return r
}

// release returns the memory of a Request to the pool.
func (s *Server) release(r *Request) {
	r.Asked.Buffers.Release()
	if r.mem.once {
		return
	}
	r.mem.lines = r.Asked.Reply.Lines[:0]
	r.conn, r.Asked.Reply = nil, reply.Reply{}
	s.requests.Put(r)
}

func (r *Request) http() *fasthttp.Request { return &r.mem.http }

var noTags = []byte{}

// orNoTags returns a non-nil slice, so that an empty header differs from an absent one.
func orNoTags(value []byte) []byte {
	if value == nil {
		return noTags
	}
	return value
}

// readHeaders reads the header lines that the answer depends on. It reads them as sent, because the parser's
// methods would also parse cookies.
func (r *Request) readHeaders(keyHeaders []string) {
	var id, trace []byte
	ids, traces := 0, 0
	lines := r.http().Header.RawHeaders()
	for len(lines) > len(crlf) {
		var line, value []byte
		line, lines, _ = bytes.Cut(lines, crlf)
		ok := false
		switch line[0] {
		case 'X', 'x':
			if value, ok = valueOf(line, "x-api-key"); ok {
				r.presented.key = value
				r.presented.times++
			} else if value, ok = keyOf(line, keyHeaders); ok {
				r.presented.addOther(value)
			} else if value, ok = valueOf(line, "x-request-id"); ok {
				id = value
				ids++
			} else if value, ok = valueOf(line, "x-snapshot-time"); ok {
				r.pin = value
				r.pins++
			}
		case 'A', 'a':
			if value, ok = valueOf(line, "accept-encoding"); ok {
				r.Asked.AcceptEncoding = join(&r.mem.joined[0], r.Asked.AcceptEncoding, value)
			} else if value, ok = valueOf(line, "access-control-request-headers"); ok {
				r.asksFor = join(&r.mem.joined[5], r.asksFor, value)
			}
		case 'I', 'i':
			if value, ok = valueOf(line, "if-none-match"); ok {
				r.Asked.IfNoneMatch = join(&r.mem.joined[1], r.Asked.IfNoneMatch, orNoTags(value))
			} else if value, ok = valueOf(line, "if-modified-since"); ok {
				r.Asked.IfModifiedSince = join(&r.mem.joined[2], r.Asked.IfModifiedSince, value)
			} else if value, ok = valueOf(line, "if-match"); ok {
				r.Asked.IfMatch = join(&r.mem.joined[3], r.Asked.IfMatch, orNoTags(value))
			} else if value, ok = valueOf(line, "if-unmodified-since"); ok {
				r.Asked.IfUnmodifiedSince = join(&r.mem.joined[4], r.Asked.IfUnmodifiedSince, value)
			} else if value, ok = valueOf(line, "if-range"); ok {
				r.Asked.IfRange = value
			}
		case 'L', 'l':
			if value, ok = valueOf(line, "last-event-id"); ok {
				r.lastID = value
			}
		case 'R', 'r':
			if value, ok = valueOf(line, "range"); ok {
				r.ranges = value
			}
		case 'T', 't':
			if value, ok = valueOf(line, "traceparent"); ok {
				trace = value
				traces++
			}
		}
	}
	if traces == 1 {
		r.TraceID = reqid.TraceID(trace)
	}
	if ids == 1 && reqid.Valid(id) {
		r.ID = id
	} else {
		r.ID = reqid.Append(r.id[:0])
	}
}

// join appends a value to a list that may be sent in several lines, and returns the list. It builds
// the list in *buf, where later calls append to it, so the bytes of a line are not copied again for each
// further line.
func join(buf *[]byte, list, more []byte) []byte {
	if list == nil {
		return more
	}
	if len(list) == 0 || len(*buf) == 0 || &list[0] != &(*buf)[0] {
		*buf = append((*buf)[:0], list...)
	}
	*buf = append(append(*buf, ", "...), more...)
	return *buf
}

// parseForeign parses the parameters of a request that belongs to the dialect.
func (r *Request) parseForeign(at target) *problem {
	query, refusal := r.dialect.Parse(r.mem.foreign, int(at.route-firstForeign), at.name, r.Asked.RawQuery)
	r.mem.foreign = query
	if refusal != nil {
		return problemOf(refusal)
	}
	r.Asked.RawQuery, r.Asked.Other = nil, query // the raw query may contain a key
	return nil
}

// takeQueryKey counts the keys in the query. A single key there is as valid as one in the header
// (INTERFACE.md, "CSV").
func (r *Request) takeQueryKey() {
	const longest = len("%6B%65%79")
	for rest := r.Asked.RawQuery; len(rest) > 0; {
		var name, value []byte
		if name, value, rest = query.Cut(rest); len(name) > longest || len(value) == 0 {
			continue
		}
		var b [longest]byte
		if string(query.AppendUnescaped(b[:0], name)) == "key" {
			r.mem.key = query.AppendUnescaped(r.mem.key[:0], value)
			r.presented.key, r.Asked.KeyInQuery = r.mem.key, true
			r.presented.times++
		}
	}
}

// parsePin parses the pin in the path or in X-Snapshot-Time, which may be sent at most once. An empty
// header counts as absent. parsePin returns a problem or nil.
func (r *Request) parsePin(inPath []byte) *problem {
	sent := r.pins > 1 || len(r.pin) > 0
	var ok bool
	switch {
	case inPath == nil && !sent:
		return nil
	case inPath != nil && sent:
		return twoPins
	case inPath != nil:
		if r.Asked.Pin, ok = parsePathTime(inPath); !ok {
			return badPathPin
		}
		r.Asked.PinInPath = true
	case r.pins == 1:
		r.Asked.Pin, ok = query.ParseTime(r.pin)
	}
	if !ok {
		return badPin
	}
	r.Asked.Pinned = true
	return nil
}

// parsePathTime parses the pin in a path. It has the form of pathTime, or the form of the header. Clients may
// percent-encode the latter.
func parsePathTime(b []byte) (t time.Time, ok bool) {
	if !query.HasForm(b, pathTime) {
		text, err := url.PathUnescape(string(b))
		if err != nil {
			return t, false
		}
		return query.ParseTime([]byte(text))
	}
	// Convert it to the form used in the header.
	var at [len(headerTime)]byte
	n := 0
	for i, c := range []byte(headerTime) {
		if at[i] = c; c != '-' && c != ':' {
			at[i] = b[n]
			n++
		}
	}
	return query.ParseTime(at[:])
}
