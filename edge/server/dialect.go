package server

import (
	"bytes"

	"example.com/marketdata/edge/reply"
)

// Dialect is an additional API below its own prefix. It has its own paths, parameters and error format, and
// accepts the API key in additional places. Its static files are in Config.Static.
type Dialect struct {
	// Prefix is the prefix of the paths. It begins and ends with a slash.
	Prefix string
	// Endpoints contains the names of the endpoints in logs and metrics.
	Endpoints []string
	// EndpointAt finds the endpoint at a path, which is relative to Prefix, and returns its index in
	// Endpoints.
	EndpointAt func(path []byte) (endpoint int, ok bool)
	// IsKey reports whether a query parameter contains the API key. name is still escaped.
	IsKey func(name []byte) bool
	// Parse parses a request to an endpoint. previous is the result of an earlier call, whose memory Parse may
	// reuse, or nil.
	Parse func(previous reply.Composer, endpoint int, path, query []byte) (reply.Composer, *reply.Refusal)
	// AppendError appends the body of an error.
	AppendError func(dst []byte, status int, message string) []byte
	// NotServed is the message of the 404 for any other path below Prefix.
	NotServed string
	// Unauthorized is the message of the 401 below Prefix.
	Unauthorized string
}

// dialectAt returns the dialect that a path belongs to, or nil.
func (s *Server) dialectAt(path []byte) *Dialect {
	d := s.cfg.Dialect
	if d == nil || len(path) < len(d.Prefix) || string(path[:len(d.Prefix)]) != d.Prefix {
		return nil
	}
	return d
}

// dialectOf is like dialectAt, for a request that could not be parsed. If headRead is false, the
// request's head is still in the input.
func (s *Server) dialectOf(c *conn, target []byte, headRead bool) *Dialect {
	const longest = 512 // enough to find the prefix, even after a scheme and an authority
	if !headRead {
		if s.cfg.Dialect == nil || c.buffered() == 0 {
			return nil
		}
		head, _ := c.in.Peek(c.buffered())
		_, rest, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte{' '})
		target, _, _ = bytes.Cut(rest[:min(len(rest), longest)], []byte{' '})
	}
	path, _ := splitTarget(target)
	return s.dialectAt(path)
}

// presented contains the API keys that a request presents.
type presented struct {
	key   []byte // the value of X-Api-Key
	times int    // the number of X-Api-Key headers; key is valid only if there is exactly one
	// other is the first key found elsewhere in the request. Clients may send the same key in several places.
	other   []byte
	differs bool // a key found after other differs from it
}

func (p *presented) addOther(key []byte) {
	switch {
	case len(key) == 0:
	case p.other == nil:
		p.other = key
	case !bytes.Equal(p.other, key):
		p.differs = true
	}
}

// takeOthers also accepts the key in the other places that the dialect allows. All keys of a request must be
// equal.
func (p *presented) takeOthers(d *Dialect, rawQuery []byte) {
	for more := true; more; {
		var pair []byte
		pair, rawQuery, more = bytes.Cut(rawQuery, []byte{'&'})
		if name, value, _ := bytes.Cut(pair, []byte{'='}); d.IsKey(name) {
			p.addOther(value)
		}
	}
	switch {
	case p.other == nil:
	case p.differs || p.times > 1 || p.times == 1 && !bytes.Equal(p.key, p.other):
		p.times = 2
	default:
		p.key, p.times = p.other, 1
	}
}

// keyOf returns the value of a header line whose name is in names.
func keyOf(line []byte, names []string) ([]byte, bool) {
	for _, name := range names {
		if value, ok := valueOf(line, name); ok {
			return value, true
		}
	}
	return nil, false
}
