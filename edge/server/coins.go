package server

import (
	"bytes"
	"net/http"
	"strconv"

	"example.com/marketdata/edge/coingecko"
	"example.com/marketdata/edge/reply"
)

// The headers in which programs for CoinGecko send their key, beside X-Api-Key.
const (
	demoKeyHeader = "x-cg-demo-api-key"
	proKeyHeader  = "x-cg-pro-api-key"
)

var coinsPrefix = []byte(coingecko.Prefix)

func coinKeyOf(line []byte) ([]byte, bool) {
	value, ok := valueOf(line, demoKeyHeader)
	if !ok {
		value, ok = valueOf(line, proKeyHeader)
	}
	return value, ok
}

// presentCoinKey notes a key that stands elsewhere than in X-Api-Key. Programs may send the same one
// in several places.
func (r *Request) presentCoinKey(key []byte) {
	switch {
	case len(key) == 0:
	case r.coinKey == nil:
		r.coinKey = key
	case !bytes.Equal(r.coinKey, key):
		r.others = true
	}
}

// takeCoinKeys makes the key of any place the request's, also one in the query.
func (r *Request) takeCoinKeys() {
	for raw, more := r.Asked.RawQuery, true; more; {
		var pair []byte
		pair, raw, more = bytes.Cut(raw, []byte{'&'})
		if name, value, _ := bytes.Cut(pair, []byte{'='}); coingecko.IsKey(name) {
			r.presentCoinKey(value)
		}
	}
	switch {
	case r.coinKey == nil:
	case r.others || r.keys > 1 || r.keys == 1 && !bytes.Equal(r.key, r.coinKey):
		r.keys = 2
	default:
		r.key, r.keys = r.coinKey, 1
	}
}

// answerCoins answers a request below coingecko.Prefix, and reports whether there is an endpoint.
func (s *Server) answerCoins(r *Request, path []byte) bool {
	endpoint, ok := coingecko.EndpointAt(path)
	if !ok {
		return false
	}
	r.route = RouteCoins + Route(endpoint)
	r.takeCoinKeys()
	if p := s.admit(r); p != nil {
		s.problem(r, p)
		return true
	}
	if r.mem.coins == nil {
		r.mem.coins = new(coingecko.Query)
	}
	q := r.mem.coins
	if refusal := q.Parse(endpoint, path, r.Asked.RawQuery); refusal != nil {
		s.problem(r, coinProblem(refusal))
		return true
	}
	r.Asked.RawQuery, r.Asked.Other = nil, q // the query may hold a key
	if p := r.parsePin(nil); p != nil {
		s.problem(r, p)
		return true
	}
	s.answerFound(r)
	return true
}

// asksCoins reports whether the target of what could not be read as a request is below coingecko.Prefix.
// What is left of its head is still in the input, unless it was read.
func (c *conn) asksCoins(r *Request, headRead bool) bool {
	target := r.http().Header.RequestURI()
	if !headRead && c.buffered() == 0 {
		return false
	}
	if !headRead {
		head, _ := c.in.Peek(c.buffered())
		_, rest, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte{' '})
		target, _, _ = bytes.Cut(rest[:min(len(rest), maxLookedAt)], []byte{' '})
	}
	path, _ := splitTarget(target)
	return bytes.HasPrefix(path, coinsPrefix)
}

// maxLookedAt is how much of a target is enough: scheme and authority may stand in front.
const maxLookedAt = 512

// coinProblem returns the problem of a refusal.
func coinProblem(r *reply.Refusal) *problem { return &problem{status: r.Status, message: r.Message} }

// appendCoinBody appends an error as CoinGecko words it.
func (p *problem) appendCoinBody(dst []byte) []byte {
	switch p.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusGone:
		return append(append(append(dst, `{"error":"`...), p.message...), `"}`...)
	}
	dst = strconv.AppendInt(append(dst, `{"status":{"error_code":`...), int64(p.status), 10)
	return append(append(append(dst, `,"error_message":"`...), p.message...), `"}}`...)
}
