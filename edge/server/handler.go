package server

import (
	"bytes"
	"errors"
	"runtime/debug"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/files"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// handle answers a request.
func (s *Server) handle(r *Request) {
	defer func() {
		if v := recover(); v != nil {
			s.recovered(r, v)
		}
	}()
	var path []byte
	path, r.Asked.RawQuery = splitTarget(r.http().Header.RequestURI())
	r.dialect = s.dialectAt(path)
	r.readHeaders(s.cfg.KeyHeaders)
	r.route = RouteUnknown
	if p := s.answer(r, path); p != nil {
		s.problem(r, p)
	}
	s.finish(r)
}

// answer follows INTERFACE.md, "Order of work", from the method on. It returns the first problem that it finds, or
// nil.
func (s *Server) answer(r *Request, path []byte) *problem {
	// Method.
	header := &r.http().Header
	if header.IsOptions() {
		r.route = RouteOptions
		if p := s.payOpen(r); p != nil {
			return p
		}
		s.preflight(r)
		return nil
	}
	if !header.IsGet() && !header.IsHead() {
		if p := s.payOpen(r); p != nil {
			return p
		}
		return methodNotAllowed
	}

	// Path.
	at := s.find(path)
	r.route = at.route
	if !at.kind.needsKey() {
		if p := s.payOpen(r); p != nil {
			return p
		}
		return s.answerOpen(r, at, path)
	}

	// Key and rate limit.
	switch {
	case at.kind == foreign:
		r.presented.takeOthers(r.dialect, r.Asked.RawQuery)
	case at.csv:
		r.takeQueryKey()
	}
	if p := s.admit(r); p != nil {
		return p
	}

	// Parameters.
	switch at.kind {
	case listing:
		parse := r.Asked.Query.Parse
		if at.csv {
			parse = r.Asked.Query.ParseCSV
		}
		err := parse(at.endpoint, r.Asked.RawQuery)
		if r.Asked.RawQuery = nil; err != nil { // it may contain a key
			r.detail = err.Message
			return badRequest
		}
	case foreign:
		if p := r.parseForeign(at); p != nil {
			return p
		}
	case eventStream:
		return s.openStream(r) // it reads neither parameters nor a pin
	}

	// Pinned snapshot.
	if p := r.parsePin(at.pin); p != nil {
		return p
	}
	if r.Asked.Pinned && r.payer != nil {
		// A pinned request may wait, so the number of a key's concurrent pinned requests is limited.
		defer r.payer.EndPinned()
		if !r.payer.BeginPinned() {
			return r.failed(snapshot.ErrLater)
		}
	}

	// Answer.
	switch at.kind {
	case file:
		return s.sendFile(r, at.name)
	case fileList:
		r.Asked.Other = files.Listing{Files: s.cfg.Files}
	}
	return s.compose(r)
}

// answerOpen answers a request that needs no key, or reports that there is nothing at the path.
func (s *Server) answerOpen(r *Request, at target, path []byte) *problem {
	switch {
	case at.kind == static:
		return s.sendStatic(r, at.page.forOrigin(r))
	case at.kind == notice:
		r.Asked.Reply.Fixed, r.Asked.Reply.Body = linesNotice, s.cfg.Notice()
		if r.Asked.Reply.Body == nil {
			r.Asked.Reply.Body = noNotice
		}
		return nil
	case at.kind == feed:
		return s.sendFeed(r)
	case r.dialect != nil, s.cfg.Dialect != nil && string(path)+"/" == s.cfg.Dialect.Prefix:
		return s.notServed
	}
	for prefix, message := range s.cfg.Off {
		if bytes.HasPrefix(path, []byte(prefix)) {
			return pathNotFoundFor(message)
		}
	}
	return notFoundAt(path)
}

// compose composes the answer with Config.Answer, and charges the key for it. It returns a problem if there
// is no answer.
func (s *Server) compose(r *Request) *problem {
	err := s.cfg.Answer(r)
	r.pay()
	if err != nil {
		return r.failed(err)
	}
	return nil
}

// failed converts an error of Config.Answer to a problem.
func (r *Request) failed(err error) *problem {
	p := problemOf(err)
	if wrong := (*query.ParamError)(nil); errors.As(err, &wrong) {
		p, r.detail = badRequest, wrong.Message
	}
	if p == snapshotLater || p == noView {
		r.route = RouteNotYet
	}
	r.Asked.Reply.Clear()
	return p
}

// openStream answers with the head of an event stream. The stream begins after the head is written. HEAD
// begins no stream.
func (s *Server) openStream(r *Request) *problem {
	header := &r.http().Header
	head := r.conn == nil || header.IsHead()
	if p := s.streams.admit(r.KeyID, head); p != nil {
		return p
	}
	r.Asked.Reply.Fixed = linesStream
	r.events = true
	if c := r.conn; !head {
		c.stream = &stream{conn: c, keyID: r.KeyID, auth: s.keys != nil, chunked: header.IsHTTP11()}
		if c.stream.auth {
			c.stream.key = artifacts.HashKey(r.presented.key)
		}
		if len(r.lastID) <= len(time.RFC3339) { // a longer value cannot be a snapshot's time
			c.stream.sent = bytes.Clone(r.lastID)
		}
		r.close = r.close || !header.IsHTTP11()
	}
	return nil
}

// admit checks the key and the rate limit, and returns a problem or nil.
func (s *Server) admit(r *Request) *problem {
	if s.keys == nil {
		return nil
	}
	var key *auth.Key
	verdict := auth.Refused
	if r.presented.times == 1 {
		var memo *auth.Memo
		if r.conn != nil {
			memo = &r.conn.memo
		}
		key, verdict = s.keys.Lookup(r.presented.key, r.Asked.Now, memo)
		if verdict == auth.Allowed && r.Asked.KeyInQuery && !key.Query {
			verdict = auth.Refused
		}
	}
	switch verdict {
	case auth.Undecided, auth.Refused:
		r.limited, r.limit = true, s.addresses.Limit()
		if r.left = s.addresses.Take(s.clientOf(r), limit.At(r.Asked.Now)); !r.left.OK {
			return tooManyRequests
		}
		if verdict == auth.Undecided {
			return unavailable
		}
		switch {
		case r.dialect != nil:
			return s.foreignUnauthorized
		case r.Asked.KeyInQuery:
			return s.queryUnauthorized
		}
		return s.unauthorized
	}
	r.KeyID = key.ID
	r.limited, r.limit = true, key.Limit
	if r.left = key.Take(limit.At(r.Asked.Now)); !r.left.OK {
		return tooManyRequests
	}
	r.payer, r.Asked.Places = key, key.Places
	return nil
}

const (
	// bodyBytes is the number of bytes of the plain body that one token pays for. Composing and compressing a
	// full page of a year's history, about 300 KB, takes 4 to 5 ms and costs 19 tokens. So a key with the
	// default limit gets five such pages per second, which use 2.6% of a core.
	bodyBytes = 16 << 10
	// visitedRows is the number of rows that a search or a filter may visit for one token. If each asset must
	// be looked up, a row takes 0.5 to 0.8 µs, so the default limit pays for at most 4% of a core.
	visitedRows = 500
	// fileBytes is the number of bytes of a file that one token pays for. Reading, verifying and sending a
	// chunk of 1 MiB takes as long as a few pages.
	fileBytes = 256 << 10
)

// pay charges the key the part of the answer's price that exceeds the request's own token (INTERFACE.md,
// "Rate limits"). A cached answer costs the same as a new one.
func (r *Request) pay() {
	if tokens := max(0, r.Asked.Length-1)/bodyBytes + r.Asked.Visited/visitedRows; tokens > 0 && !r.route.costsOne() {
		r.charge(tokens)
	}
}

// charge charges the key, if there is one. The key may go into debt.
func (r *Request) charge(tokens int) {
	if r.payer != nil {
		r.left = r.payer.Charge(r.left, limit.At(r.Asked.Now), tokens)
	}
}

// readTokens returns the price, in tokens, of reading a file's bytes, beyond the request's own token.
func readTokens(bytes int64) int { return int(max(0, bytes-1) / fileBytes) }

// payOpen takes a token for a request that needs no key. Only a 429 states this limit, since shared caches
// may keep the other answers. If authentication is off, there are no limits.
func (s *Server) payOpen(r *Request) *problem {
	if s.keys == nil {
		return nil
	}
	if r.left = s.open.Take(s.clientOf(r), limit.At(r.Asked.Now)); !r.left.OK {
		return tooManyOpen
	}
	return nil
}

// finish completes an answer of any kind.
func (s *Server) finish(r *Request) {
	r.close = r.close || s.draining.Load()
	if r.conn != nil {
		h := &r.conn.head
		r.close = r.close || h.closes || !h.keeps && !r.http().Header.IsHTTP11()
	}
	s.addCommon(r)
	r.took = time.Since(r.Asked.Now)
	if r.conn != nil {
		r.conn.answered(r.Asked.Now.Add(r.took))
	}
}

// recovered answers a request whose handler panicked.
func (s *Server) recovered(r *Request, v any) {
	s.log.panicked(r, v, debug.Stack())
	r.Asked.Reply.Clear()
	// The state of the connection is unknown.
	r.close = true
	if r.file != nil {
		r.file.end()
		r.file = nil
	}
	s.problem(r, internal)
	s.finish(r)
}
