package server

import (
	"bytes"

	"example.com/marketdata/edge/reply"
)

// Dialect is another interface below a prefix of its own: it has its own paths, parameters and form of
// errors, and further places for the key. Its static files are in Config.Static.
type Dialect struct {
	// Prefix begins the paths, with a / at both ends.
	Prefix string
	// Endpoints are the names of its endpoints in logs.
	Endpoints []string
	// EndpointAt finds a path behind Prefix, and returns its place in Endpoints.
	EndpointAt func(path []byte) (endpoint int, ok bool)
	// IsKey reports whether a parameter of the query, its name as sent, is the key.
	IsKey func(name []byte) bool
	// Parse reads a request for what is at an endpoint. used is what an earlier call returned, which
	// may be used again; nil: there is none.
	Parse func(used reply.Composer, endpoint int, path, query []byte) (reply.Composer, *reply.Refusal)
	// AppendError appends the body of an error.
	AppendError func(dst []byte, status int, message string) []byte
	// NotServed is the message of the 404 for another path below Prefix.
	NotServed string
	// Unauthorized is the message of the 401 below Prefix.
	Unauthorized string
}

// dialectAt returns the dialect that a path belongs to; nil: to none.
func (s *Server) dialectAt(path []byte) *Dialect {
	d := s.cfg.Dialect
	if d == nil || len(path) < len(d.Prefix) || string(path[:len(d.Prefix)]) != d.Prefix {
		return nil
	}
	return d
}

// dialectOf is dialectAt for what could not be read as a request, whose head may still be in the input.
func (s *Server) dialectOf(c *conn, target []byte, headRead bool) *Dialect {
	const longest = 512 // that is enough to tell: scheme and authority may stand in front
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

// presented is the key of a request, by where it stands.
type presented struct {
	key   []byte // of X-Api-Key
	times int    // that X-Api-Key was sent; 1: key may be in force
	// other is the first one that stands elsewhere. Programs may send the same one in several places.
	other   []byte
	differs bool // a third one is another
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

// takeOthers makes the key of any place that the dialect has the request's.
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

// keyOf returns the value of a line that is one of Config.KeyHeaders.
func keyOf(line []byte, names []string) ([]byte, bool) {
	for _, name := range names {
		if value, ok := valueOf(line, name); ok {
			return value, true
		}
	}
	return nil, false
}
