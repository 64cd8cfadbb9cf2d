package server

import (
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/limit"
)

// handle answers one request that fasthttp has read.
func (s *Server) handle(ctx *fasthttp.RequestCtx) { s.handleAt(ctx, ctx.Time()) }

func (s *Server) handleAt(ctx *fasthttp.RequestCtx, now time.Time) {
	r := s.acquire(ctx, now)
	defer func() {
		if v := recover(); v != nil {
			s.recovered(r, v)
		}
		s.release(r)
	}()
	r.readHeaders()
	s.answer(r)
	s.finish(r)
}

// answer is the order of work of contract section 1, from the method on.
func (s *Server) answer(r *Request) {
	r.route = RouteUnknown
	header := &r.Ctx.Request.Header
	if header.IsOptions() {
		s.preflight(r)
		return
	}
	if !header.IsGet() && !header.IsHead() {
		s.problem(r, methodNotAllowed)
		return
	}
	path, rawQuery := splitTarget(header.RequestURI())
	endpoint, ok := endpointAt(path)
	if !ok {
		if file := s.static[string(path)]; file != nil {
			file.answer(r)
			return
		}
		s.problem(r, pathNotFound)
		return
	}
	r.route = Route(endpoint)
	if p := s.admit(r); p != nil {
		s.problem(r, p)
		return
	}
	if err := r.Query.Parse(endpoint, rawQuery); err != nil {
		s.badParameter(r, err)
		return
	}
	if !r.parsePin() {
		s.problem(r, badPin)
		return
	}
	if p := s.engine.Answer(r); p != nil {
		s.clear(r)
		s.problem(r, p)
	}
}

// admit checks key and rate, and returns what is wrong.
func (s *Server) admit(r *Request) *Problem {
	if s.keys == nil {
		return nil
	}
	var key *auth.Key
	verdict := auth.Refused
	if r.keys == 1 {
		key, verdict = s.keys.Lookup(r.key, r.Now, r.memo)
	}
	switch verdict {
	case auth.Undecided:
		return Unavailable
	case auth.Refused:
		r.limited, r.limit = true, s.addresses.Limit()
		if r.left = s.addresses.Take(s.client(r), limit.At(r.Now)); !r.left.OK {
			return tooManyRequests
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

// finish completes an answer, whatever it is.
func (s *Server) finish(r *Request) {
	if r.taken != nil && r.Ctx.Response.StatusCode() >= 500 {
		// The service's own faults are not the client's to pay for.
		r.left = r.taken.GiveBack(r.left, limit.At(r.Now))
		r.taken = nil
	}
	s.addCommon(r)
	s.observe(r, time.Since(r.Now))
}

// clear drops what was set on the response.
func (s *Server) clear(r *Request) {
	r.Ctx.Response.Reset()
	r.Ctx.Response.Header.SetNoDefaultContentType(true)
}

// recovered answers a request whose handling panicked.
func (s *Server) recovered(r *Request, v any) {
	s.log.panicked(r, v, debug.Stack())
	s.clear(r)
	// Whatever was half done with the connection ends with it.
	r.close = true
	s.problem(r, Internal)
	s.finish(r)
}

// acquire returns a Request for what arrived on ctx at time now.
func (s *Server) acquire(ctx *fasthttp.RequestCtx, now time.Time) *Request {
	r := s.requests.Get().(*Request)
	r.begin(ctx, now)
	return r
}

func (s *Server) release(r *Request) {
	r.Ctx = nil
	s.requests.Put(r)
}
