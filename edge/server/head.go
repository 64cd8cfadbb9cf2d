package server

import (
	"bytes"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxLines bounds the header lines of a request (INTERFACE.md, "Framing").
const maxLines = 100

var crlf = []byte("\r\n")

// tlsHandshake is the first byte that a TLS client sends (RFC 8446, 5.1).
const tlsHandshake = 0x16

// head contains what the header lines of a request state about its framing and its connection. Each byte is
// scanned once, as it arrives, so the result does not depend on how the head is split into packets.
type head struct {
	seen  int // bytes scanned
	begin int // the beginning of the current line
	lines int // number of lines, without empty ones
	skip  int // length of an empty line before the request line
	turns int // iterations of the loop that waits for the rest of the head, for tests
	looks int // bytes scanned on this connection, for tests

	malformed     bool // has a line that does not end in CR LF or that continues on the next line
	sized         bool // has a Content-Length
	chunked       bool // has a Transfer-Encoding
	closes, keeps bool // whether Connection contains close, keep-alive
}

// scan scans the lines of b that were completed since the last call. It reports whether the head is complete,
// which means that there was an empty line or that there are too many lines.
func (h *head) scan(b []byte) bool {
	for {
		i := bytes.IndexByte(b[h.seen:], '\n')
		if i < 0 {
			h.looks += len(b) - h.seen
			h.seen = len(b)
			// A TLS client sends no line end and waits, so answer immediately to tell it that this server speaks
			// HTTP.
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

// tooLarge reports whether there are more header lines than maxLines.
func (h *head) tooLarge() bool { return h.lines > 1+maxLines }

// field records what a header line states about framing. The parser checks names and values more closely, and
// rejects duplicates of fields that must occur only once.
func (h *head) field(line []byte) {
	if name, _, _ := bytes.Cut(line, []byte{':'}); bytes.IndexByte(name, ' ') >= 0 {
		h.malformed = true // the name contains a blank, which fasthttp would accept
	}
	switch line[0] {
	case '\t':
		h.malformed = true // the line continues the previous one; fasthttp rejects a line that begins with a blank
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
			line[0] = 'X' // hides the field from the parser, which would reject the head if it did not know the coding
		}
	}
}

// valueOf returns the value of a header line if it has the given name, which must be in lower case.
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

// validRequestLine reports whether line consists of a method, a target and a version of HTTP/1, separated by
// single spaces. The parser checks this too, but its error would quote its whole buffer.
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

// validHost reports whether host consists only of characters that a host and port may contain (RFC 3986,
// section 3.2.2).
func validHost(host []byte) bool {
	for _, b := range host {
		if !(b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' ||
			strings.IndexByte("-._~:[]%!$&'()*+,;=", b) >= 0) {
			return false
		}
	}
	return true
}
