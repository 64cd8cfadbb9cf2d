package server

import (
	"bytes"
	"runtime/debug"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// handle answers one request that was read.
func (s *Server) handle(r *Request) {
	defer func() {
		if v := recover(); v != nil {
			s.recovered(r, v)
		}
	}()
	r.readHeaders()
	s.answer(r)
	s.finish(r)
}

// answer is the order of work of INTERFACE.md, "Order of work", from the method
// on.
func (s *Server) answer(r *Request) {
	r.route = RouteUnknown
	header := &r.http().Header
	if header.IsOptions() {
		r.route = RouteOptions
		if !s.overOpen(r) {
			s.preflight(r)
		}
		return
	}
	if !header.IsGet() && !header.IsHead() {
		if !s.overOpen(r) {
			s.problem(r, methodNotAllowed)
		}
		return
	}
	var path []byte
	path, r.RawQuery = splitTarget(header.RequestURI())
	if s.streams != nil && string(path) == eventsPath {
		r.route = RouteEvents
		s.openStream(r)
		return
	}
	endpoint, pathPin, ok := endpointAt(path)
	if !ok {
		file := s.static[string(path)]
		if file != nil {
			r.route = RouteStatic
		}
		switch {
		case s.overOpen(r):
		case file != nil:
			file.answer(r)
		default:
			s.problem(r, pathNotFound)
		}
		return
	}
	r.route = Route(endpoint)
	if p := s.admit(r); p != nil {
		s.problem(r, p)
		return
	}
	if err := r.Query.Parse(endpoint, r.RawQuery); err != nil {
		s.badParameter(r, err)
		return
	}
	if p := r.parsePin(pathPin); p != nil {
		s.problem(r, p)
		return
	}
	if err := s.find(r); err != nil {
		p := problemOf(err)
		if p == snapshotLater || p == noView {
			r.route = RouteFuturePin
		}
		r.Reply.Clear()
		s.problem(r, p)
	}
}

// openStream answers with the head of a stream, which begins once it is written. On
// HEAD there is none.
func (s *Server) openStream(r *Request) {
	header := &r.http().Header
	head := r.conn == nil || header.IsHead()
	p := s.admit(r)
	if p == nil {
		p = s.streams.admit(r.KeyID, head)
	}
	if p != nil {
		s.problem(r, p)
		return
	}
	r.Reply.Fixed = linesStream
	r.events = true
	if c := r.conn; !head {
		c.stream = &stream{conn: c, keyID: r.KeyID, auth: s.keys != nil, chunked: header.IsHTTP11()}
		if c.stream.auth {
			c.stream.key = artifacts.HashKey(r.key)
		}
		c.lastID = bytes.Clone(r.lastID)
		r.close = r.close || !header.IsHTTP11()
	}
}

// tokenBytes is how much of an answer of /history is put together and coded for one
// token (INTERFACE.md, "Rate limits"). A full page of a year, some 300 KB, takes 4 to 5 ms
// to be put together and coded: without it, one key with the default limit would
// keep half a core with them; with it, it gets four in three seconds, 0.6 % of a core, so
// that they are not what the p99 of others is made of. At 16 KiB it was 1.2 %.
const tokenBytes = 8 << 10

// Made implements answer.Memory. It takes the tokens before the body is coded, so that
// of a busy edge nobody has more coded than their bucket held: of a full one of the
// default limit three pages.
func (r *Request) Made(bytes int) {
	if n := bytes / tokenBytes; n > 0 && r.Query.Endpoint == query.History && r.taken != nil {
		r.left = r.taken.Charge(r.left, limit.At(r.Now), n)
	}
}

// tokenRows is how many rows a search visits for one token (INTERFACE.md, "Rate limits").
// Where each asset has to be looked up a row takes a good half of a microsecond, so that the
// default limit pays for 4 % of a core at most; mostly it is a tenth of that.
const tokenRows = 500

// Visit implements answer.Memory. It takes the tokens for the rows before they are visited,
// so that of a busy edge nobody has more visited than their bucket held, and one search.
func (r *Request) Visit(rows int) bool {
	r.ahead += rows
	n := r.ahead/tokenRows - r.rowTokens
	if r.taken == nil || n <= 0 {
		return true
	}
	left := r.taken.Spend(r.left, limit.At(r.Now), n)
	if left.OK {
		r.rowTokens += n
	}
	r.left = left
	return left.OK
}

// Visited implements answer.Memory.
func (r *Request) Visited(rows int) {
	r.visited += rows
	r.ahead = r.visited
	n := r.visited/tokenRows - r.rowTokens
	if r.taken == nil || n == 0 {
		return
	}
	r.rowTokens += n
	if left := r.taken.Settle(r.left, limit.At(r.Now), n); r.left.OK { // else it says what was refused
		r.left = left
	}
}

// Places implements answer.Memory.
func (r *Request) Places() *limit.Places {
	if r.taken == nil {
		return nil
	}
	return r.taken.Places
}

// find has the engine answer. Of a key's pinned requests, which may wait, only so
// many are under way at once.
func (s *Server) find(r *Request) error {
	if r.Pinned && r.taken != nil {
		key := r.taken
		defer key.EndPinned()
		if !key.BeginPinned() {
			return snapshot.ErrLater
		}
	}
	return s.engine.Answer(&r.Request)
}

// admit checks key and rate, and returns what is wrong.
func (s *Server) admit(r *Request) *problem {
	if s.keys == nil {
		return nil
	}
	var key *auth.Key
	verdict := auth.Refused
	if r.keys == 1 {
		key, verdict = s.keys.Lookup(r.key, r.Now, r.memo)
	}
	switch verdict {
	case auth.Undecided, auth.Refused:
		r.limited, r.limit = true, s.addresses.Limit()
		if r.left = s.addresses.Take(s.clientOf(r), limit.At(r.Now)); !r.left.OK {
			return tooManyRequests
		}
		if verdict == auth.Undecided {
			return unavailable
		}
		return s.unauthorized
	}
	r.KeyID = key.ID
	r.limited, r.limit = true, key.Limit
	if r.left = key.Take(limit.At(r.Now)); !r.left.OK {
		return tooManyRequests
	}
	r.taken = key
	return nil
}

// overOpen takes a token for a request that needs no key. It reports whether
// there was none, and has then answered. Only that 429 names the limit: the
// other answers may be in caches that many clients share. Without
// authentication there are no limits.
func (s *Server) overOpen(r *Request) bool {
	if s.keys == nil {
		return false
	}
	if r.left = s.open.Take(s.clientOf(r), limit.At(r.Now)); r.left.OK {
		return false
	}
	s.problem(r, tooManyRequests)
	r.Reply.Lines = appendPolicy(r.Reply.Lines, policyOpen, s.open.Limit())
	r.Reply.Lines = appendRateLimit(r.Reply.Lines, policyOpen, r.left)
	return true
}

// finish completes an answer, whatever it is.
func (s *Server) finish(r *Request) {
	if r.taken != nil && ownFault(r.route, r.Reply.Status) {
		// The service's own faults are not the client's to pay for. Rows that were visited are.
		r.taken.GiveBack(limit.At(r.Now))
		r.taken = nil
	}
	r.close = r.close || s.draining.Load()
	if r.conn != nil {
		h := &r.conn.head
		r.close = r.close || h.closes || !h.keeps && !r.http().Header.IsHTTP11()
	}
	s.addCommon(r)
	r.took = time.Since(r.Now)
	if r.conn != nil {
		r.conn.now = r.Now.Add(r.took)
	}
}

// recovered answers a request whose handling panicked.
func (s *Server) recovered(r *Request, v any) {
	s.log.panicked(r, v, debug.Stack())
	r.Reply.Clear()
	// Whatever was half done with the connection ends with it.
	r.close = true
	s.problem(r, internal)
	s.finish(r)
}
