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
	// Asked is what the answer depends on, and the answer.
	Asked reply.Request

	// ID is the request id, 1 to 128 characters.
	ID []byte
	// TraceID is the trace id of the request's traceparent; nil: it has no valid one.
	TraceID []byte
	// KeyID names the API key; "" without authentication.
	KeyID string

	route     Route
	conn      *conn // nil in tests
	peer      netip.Addr
	dialect   *Dialect // what the path belongs to; nil: the interface itself
	presented presented
	pin       []byte
	pins      int
	lastID    []byte      // Last-Event-ID
	events    bool        // the answer is a stream of /events
	ranges    []byte      // Range
	asksFor   []byte      // Access-Control-Request-Headers
	detail    string      // the message of a 400; "": that of the problem
	file      *sending    // the body; nil: it is Reply.Body
	sent      int         // of a file, in bytes
	fault     error       // why a file could not be read; nil: it could
	close     bool        // the connection is closed after the answer
	payer     *auth.Key   // nil: there is none
	limited   bool        // limit and left are set
	limit     limit.Limit // the limit that the request counts under
	left      limit.Decision

	id     [reqid.Length]byte
	took   time.Duration // from Now until the answer was ready
	client netip.Addr    // see clientOf; not valid: not asked for yet
	mem    *memory
}

// memory is what stays from request to request.
type memory struct {
	http    fasthttp.Request
	head    []byte
	lines   []byte         // of Reply
	joined  [6][]byte      // header values that were joined, by list
	key     []byte         // that stood in the query
	foreign reply.Composer // what Dialect.Parse returned last; nil: nothing yet
	once    bool           // the Request is not used again
}

// maxPooledHead is the longest head of a Request that is reused. For each header line the parser
// keeps room for the longest that it has seen there, so with longer heads a client could make a
// Request keep a hundred times that.
const maxPooledHead = 2 << 10

// begin readies r for the next request.
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

// acquire returns a Request for c; nil: there is no connection.
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

// release gives a Request's memory back.
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

// orNoTags makes an empty list differ from no header.
func orNoTags(value []byte) []byte {
	if value == nil {
		return noTags
	}
	return value
}

// readHeaders takes from the header lines what the answer depends on. It
// reads the lines as they were sent: what the parser makes of them would have it
// take cookies apart.
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

// join returns the value of a list that may be spread over several lines, joined in buf. Each byte is
// copied once, those of the first line twice.
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

// parseForeign reads the parameters of a request to the dialect.
func (r *Request) parseForeign(at target) *problem {
	query, refusal := r.dialect.Parse(r.mem.foreign, int(at.route-firstForeign), at.name, r.Asked.RawQuery)
	r.mem.foreign = query
	if refusal != nil {
		return problemOf(refusal)
	}
	r.Asked.RawQuery, r.Asked.Other = nil, query // the raw one may hold a key
	return nil
}

// takeQueryKey counts the keys in the query, one of which is as good as one in the header (INTERFACE.md,
// "CSV").
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

// parsePin reads the pin in the path, if there is one, and X-Snapshot-Time, sent once; empty is the
// same as not sent. It returns what is wrong with them.
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

// parsePathTime reads the pin of a path: in the form of pathTime, or as in the header and
// percent-encoded by clients that encode more than a path needs.
func parsePathTime(b []byte) (t time.Time, ok bool) {
	if !query.HasForm(b, pathTime) {
		text, err := url.PathUnescape(string(b))
		if err != nil {
			return t, false
		}
		return query.ParseTime([]byte(text))
	}
	// As the header has it.
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
