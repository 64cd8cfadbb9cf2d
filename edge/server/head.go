package server

import (
	"bytes"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxLines bounds the header lines of a request (INTERFACE.md, "Framing").
const maxLines = 100

var crlf = []byte("\r\n")

// tlsHandshake is the first byte of a TLS connection (RFC 8446, 5.1).
const tlsHandshake = 0x16

// head is what the lines of a head state about the framing of their request and about its
// connection. Each byte is scanned once, as it arrives, so the result does not depend on the pieces
// in which the head arrives.
type head struct {
	seen  int // bytes scanned
	begin int // of the current line
	lines int // without the empty ones
	skip  int // bytes of an empty line before the request line
	turns int // of the loop that waits for the rest, and
	looks int // bytes scanned, on this connection: for tests

	malformed     bool // a line that does not end in CR LF, or goes on in the next
	sized         bool // has a Content-Length
	chunked       bool // has a Transfer-Encoding
	closes, keeps bool // what Connection asks for
}

// scan scans newly completed lines of b, resuming where the last call stopped. It reports whether the
// head is complete: at an empty line, or at more lines than allowed.
func (h *head) scan(b []byte) bool {
	for {
		i := bytes.IndexByte(b[h.seen:], '\n')
		if i < 0 {
			h.looks += len(b) - h.seen
			h.seen = len(b)
			// A client that speaks TLS sends no line, and waits: it learns at once that this is HTTP.
			tls := h.lines == 0 && len(b) > h.begin && b[h.begin] == tlsHandshake
			h.malformed = h.malformed || tls
			return tls
		}
		h.looks += i + 1
		h.seen += i + 1
		line, ok := bytes.CutSuffix(b[h.begin:h.seen-1], crlf[:1])
		h.malformed = h.malformed || !ok
		h.begin = h.seen
		switch {
		case len(line) > 0:
			if h.lines++; h.lines == 1 {
				h.malformed = h.malformed || !validRequestLine(line)
			} else {
				h.field(line)
			}
			if h.tooLarge() {
				return true
			}
		case h.lines == 0 && h.skip == 0:
			h.skip = h.seen
		default:
			h.malformed = h.malformed || h.lines == 0
			return true
		}
	}
}

// tooLarge reports more lines than a request line and maxLines.
func (h *head) tooLarge() bool { return h.lines > 1+maxLines }

// field notes what a header line states about framing. The parser checks names and values more
// closely, and refuses fields that occur twice and must not.
func (h *head) field(line []byte) {
	if name, _, _ := bytes.Cut(line, []byte{':'}); bytes.IndexByte(name, ' ') >= 0 {
		h.malformed = true // fasthttp accepts a blank within a name
	}
	switch line[0] {
	case '\t':
		h.malformed = true // continues the previous line, as a blank does
	case 'C', 'c':
		if _, ok := valueOf(line, "content-length"); ok {
			h.malformed = h.malformed || h.sized
			h.sized = true
		} else if value, ok := valueOf(line, "connection"); ok {
			h.closes = h.closes || hasToken(value, "close")
			h.keeps = h.keeps || hasToken(value, "keep-alive")
		}
	case 'T', 't':
		if _, ok := valueOf(line, "transfer-encoding"); ok {
			h.chunked = true
			line[0] = 'X' // so that the parser judges the rest of the head: it refuses codings that it does not know
		}
	}
}

// valueOf returns the value of a header line of the given name.
func valueOf(line []byte, name string) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.Trim(line[len(name)+1:], " \t"), true
}

// hasToken reports whether a comma-separated list contains a token, ignoring case.
func hasToken(list []byte, token string) bool {
	for more := true; more; {
		var element []byte
		element, list, more = bytes.Cut(list, []byte{','})
		if bytes.EqualFold(bytes.Trim(element, " \t"), []byte(token)) {
			return true
		}
	}
	return false
}

// validRequestLine reports whether line is a method, a target and a version of HTTP/1, separated by
// spaces. The parser checks the same, but its error quotes its whole buffer.
func validRequestLine(line []byte) bool {
	method, rest, _ := bytes.Cut(line, []byte{' '})
	target, version, _ := bytes.Cut(rest, []byte{' '})
	for _, b := range target {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	minor, ok := bytes.CutPrefix(version, []byte("HTTP/1."))
	if !ok || len(minor) != 1 || minor[0] < '0' || minor[0] > '9' || len(target) == 0 ||
		!httpguts.ValidHeaderFieldName(string(method)) {
		return false
	}
	if target[0] == '/' || string(target) == "*" || string(method) == "CONNECT" {
		return true
	}
	scheme, _, absolute := bytes.Cut(target, []byte("://"))
	return absolute && httpguts.ValidHeaderFieldName(string(scheme))
}

// validHost reports whether host has only characters of a host and port (RFC 3986, section 3.2.2).
func validHost(host []byte) bool {
	for _, b := range host {
		if !(b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' ||
			strings.IndexByte("-._~:[]%!$&'()*+,;=", b) >= 0) {
			return false
		}
	}
	return true
}
