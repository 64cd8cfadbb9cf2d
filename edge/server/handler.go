package server

import (
	"bytes"
	"runtime/debug"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/snapshot"
)

// handle answers a request.
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

// answer follows INTERFACE.md, "Order of work", starting with the method.
func (s *Server) answer(r *Request) {
	r.route = RouteUnknown
	header := &r.http().Header
	var path []byte
	path, r.Asked.RawQuery = splitTarget(header.RequestURI())
	r.coins = s.cfg.Coins && bytes.HasPrefix(path, coinsPrefix)
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
	if r.coins && s.answerCoins(r, path[len(coinsPrefix):]) {
		return
	}
	if s.streams != nil && string(path) == eventsPath {
		r.route = RouteEvents
		s.openStream(r)
		return
	}
	endpoint, pathPin, ok := endpointAt(path)
	if !ok && s.cfg.Files != nil && s.answerFiles(r, path) {
		return
	}
	if !ok {
		file := s.static[string(path)]
		if file != nil {
			r.route = RouteStatic
		}
		switch {
		case s.overOpen(r):
		case file != nil:
			s.answerStatic(r, file.forOrigin(r))
		case s.cfg.Notice != nil && string(path) == noticePath:
			r.route = RouteStatic
			r.Asked.Reply.Fixed, r.Asked.Reply.Body = linesNotice, s.cfg.Notice()
			if r.Asked.Reply.Body == nil {
				r.Asked.Reply.Body = noNotice
			}
		case r.coins, s.cfg.Coins && bytes.Equal(path, coinsPrefix[:len(coinsPrefix)-1]):
			s.problem(r, notServed)
		default:
			s.problem(r, notFoundAt(path))
		}
		return
	}
	r.route = Route(endpoint)
	if p := s.admit(r); p != nil {
		s.problem(r, p)
		return
	}
	if err := r.Asked.Query.Parse(endpoint, r.Asked.RawQuery); err != nil {
		s.badParameter(r, err)
		return
	}
	if p := r.parsePin(pathPin); p != nil {
		s.problem(r, p)
		return
	}
	s.answerFound(r)
}

// answerFound finds the answer, or says why there is none.
func (s *Server) answerFound(r *Request) {
	err := s.find(r)
	r.pay()
	if err != nil {
		p := problemOf(err)
		if p == snapshotLater || p == noView {
			r.route = RouteFuturePin
		}
		r.Asked.Reply.Clear()
		s.problem(r, p)
	}
}

// openStream answers with the head of a stream. The stream begins when the head is written; HEAD
// begins none.
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
	r.Asked.Reply.Fixed = linesStream
	r.events = true
	if c := r.conn; !head {
		c.stream = &stream{conn: c, keyID: r.KeyID, auth: s.keys != nil, chunked: header.IsHTTP11()}
		if c.stream.auth {
			c.stream.key = artifacts.HashKey(r.key)
		}
		if len(r.lastID) <= len(time.RFC3339) { // a longer one names no snapshot
			c.stream.sent = bytes.Clone(r.lastID)
		}
		r.close = r.close || !header.IsHTTP11()
	}
}

// find finds the answer. Pinned requests may wait, so a key may have only so many of them
// at once.
func (s *Server) find(r *Request) error {
	if key := r.payer; r.Asked.Pinned && key != nil {
		defer key.EndPinned()
		if !key.BeginPinned() {
			return snapshot.ErrLater
		}
	}
	return s.cfg.Answer(r)
}

// admit checks key and rate, and returns what is wrong.
func (s *Server) admit(r *Request) *problem {
	if s.keys == nil {
		return nil
	}
	var key *auth.Key
	verdict := auth.Refused
	if r.keys == 1 {
		key, verdict = s.keys.Lookup(r.key, r.Asked.Now, r.memo)
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
	// bodyBytes is how much of the plain body one token pays for. A full page of a year's history, some
	// 300 KB, takes 4 to 5 ms to compose and encode: for 19 tokens a key with the default limit gets five
	// a second, 2.6 % of a core.
	bodyBytes = 16 << 10
	// visitedRows is how many rows of a search or of groups one token pays for. Where each asset has to
	// be looked up, a row takes a good half of a microsecond, so the default limit pays for 4 % of a core.
	visitedRows = 500
	// fileBytes is how much of a file is read for one token: to read, check and send a chunk of
	// 1 MiB takes as long as a few pages.
	fileBytes = 256 << 10
)

// pay charges the key for what the answer costs beside the token of the request (INTERFACE.md, "Rate
// limits"). A cached answer costs the same.
func (r *Request) pay() {
	if tokens := max(0, r.Asked.Length-1)/bodyBytes + r.Asked.Visited/visitedRows; tokens > 0 && !r.route.costsOne() {
		r.charge(tokens)
	}
}

// charge charges the key, if there is one, even into debt.
func (r *Request) charge(tokens int) {
	if r.payer != nil {
		r.left = r.payer.Charge(r.left, limit.At(r.Asked.Now), tokens)
	}
}

// readTokens is how many tokens reading bytes of a file costs beside the token of the request.
func readTokens(bytes int64) int { return int(max(0, bytes-1) / fileBytes) }

// overOpen takes a token for a request that needs no key. If there is none, it answers and returns
// true. Only this 429 names the limit: the other answers may be in caches that many clients share.
// Without authentication there are no limits.
func (s *Server) overOpen(r *Request) bool {
	if s.keys == nil {
		return false
	}
	if r.left = s.open.Take(s.clientOf(r), limit.At(r.Asked.Now)); r.left.OK {
		return false
	}
	s.problem(r, tooManyRequests)
	r.Asked.Reply.Lines = appendPolicy(r.Asked.Reply.Lines, policyOpen, s.open.Limit())
	r.Asked.Reply.Lines = appendRateLimit(r.Asked.Reply.Lines, policyOpen, r.left)
	return true
}

// finish completes every answer.
func (s *Server) finish(r *Request) {
	r.close = r.close || s.draining.Load()
	if r.conn != nil {
		h := &r.conn.head
		r.close = r.close || h.closes || !h.keeps && !r.http().Header.IsHTTP11()
	}
	s.addCommon(r)
	r.took = time.Since(r.Asked.Now)
	if r.conn != nil {
		r.conn.now = r.Asked.Now.Add(r.took)
		r.conn.asked.Store(int64(r.conn.now.Sub(r.conn.listener.began)))
	}
}

// recovered answers a request whose handling panicked.
func (s *Server) recovered(r *Request, v any) {
	s.log.panicked(r, v, debug.Stack())
	r.Asked.Reply.Clear()
	// The connection may be in any state.
	r.close = true
	if r.file != nil {
		r.file.end()
		r.file = nil
	}
	s.problem(r, internal)
	s.finish(r)
}
