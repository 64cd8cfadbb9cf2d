package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// maxLines bounds the header lines of a request (INTERFACE.md, "Envelope").
	maxLines = 100
	// maxBody bounds the body of a request, which is read and ignored; maxTrailer
	// its trailer section, and its chunk extensions together
	// (INTERFACE.md, "Order of work").
	maxBody    = 4 << 10
	maxTrailer = 4 << 10
	// maxChunkDigits is more than any length of up to maxBody needs.
	maxChunkDigits = 16
)

var (
	errFraming      = errors.New("two servers may read this as two different requests")
	errHeadTooLarge = errors.New("the head is too large")
	errBodyTooLarge = errors.New("the body is too large")

	crlf = []byte("\r\n")
	goOn = []byte("HTTP/1.1 100 Continue\r\n\r\n")
)

// head is what the lines of a head say of the framing of their request and of
// its connection. It is read line by line as they come, each byte once, so that
// it is the same in whatever pieces they come.
type head struct {
	seen  int // bytes looked at
	begin int // of the line at hand
	lines int // without the empty ones
	skip  int // bytes of an empty line before the request line
	turns int // of the loop that waits for more of it, and
	looks int // bytes looked at, on this connection: for tests

	malformed      bool // a line that does not end in CR LF, or goes on in the next
	chunked, sized bool
	closes, keeps  bool // what Connection asks for
	expects        bool // 100-continue
}

// scan reads the lines of b that are complete, of which those of the call before
// are known. It reports whether the head is: with an empty line, or with more
// lines than may be.
func (h *head) scan(b []byte) bool {
	for {
		i := bytes.IndexByte(b[h.seen:], '\n')
		if i < 0 {
			h.looks += len(b) - h.seen
			h.seen = len(b)
			return false
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

// field notes what a header line says of framing. The parser looks at names and
// values more closely, and refuses what stands twice and must not.
func (h *head) field(line []byte) {
	if name, _, _ := bytes.Cut(line, []byte{':'}); bytes.IndexByte(name, ' ') >= 0 {
		h.malformed = true // fasthttp takes a blank within a name
	}
	switch line[0] {
	case '\t':
		h.malformed = true // the line before goes on, as with a blank
	case 'C', 'c':
		if _, ok := valueOf(line, "content-length"); ok {
			h.sized = true
		} else if value, ok := valueOf(line, "connection"); ok {
			h.closes = h.closes || hasToken(value, "close")
			h.keeps = h.keeps || hasToken(value, "keep-alive")
		}
	case 'T', 't':
		if value, ok := valueOf(line, "transfer-encoding"); ok {
			h.chunked = true
			h.malformed = h.malformed || !bytes.EqualFold(value, []byte("chunked"))
		}
	case 'E', 'e':
		if value, ok := valueOf(line, "expect"); ok {
			h.expects = h.expects || bytes.EqualFold(value, []byte("100-continue"))
		}
	}
}

// hasBody reports whether something may stand between this head and the next.
func (h *head) hasBody() bool { return h.chunked || h.sized }

// valueOf returns the value of a header line of the given name.
func valueOf(line []byte, name string) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.Trim(line[len(name)+1:], " \t"), true
}

// hasToken reports whether a comma-separated list has a token of lower case, in
// any case.
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

// readHead waits for a request and reads its head into the input.
func (c *conn) readHead() error {
	if c.proxied {
		if err := c.readProxied(); err != nil {
			return err
		}
	}
	c.head = head{turns: c.head.turns, looks: c.head.looks}
	if c.buffered() == 0 {
		if err := c.awaitFirst(); err != nil {
			return err
		}
	}
	if b, _ := c.in.Peek(c.buffered()); !c.head.scan(b) {
		if err := c.readSlowHead(); err != nil {
			return err
		}
	}
	if c.head.tooLarge() {
		return errHeadTooLarge
	}
	return nil
}

// readSlowHead reads the rest of a head that does not come in one piece.
func (c *conn) readSlowHead() error {
	if !c.wait(readingHead, chargeHead) {
		return errOverCharge
	}
	defer c.resume()
	if err := c.readBy(time.Now().Add(c.listener.readTimeout)); err != nil {
		return errGone
	}
	for {
		c.head.turns++
		n := c.buffered()
		if n == maxHead {
			return errHeadTooLarge
		}
		_, err := c.in.Peek(n + 1)
		b, _ := c.in.Peek(c.buffered())
		switch {
		case err == nil && c.head.scan(b):
			return nil
		case err == nil:
		case len(b) == c.head.skip:
			return errGone // that empty line ended the request before
		case err == io.EOF, errors.Is(err, os.ErrDeadlineExceeded):
			return err
		default:
			return errGone
		}
	}
}

// parse gives the head to fasthttp's parser, and says what it and the framing
// rules have against it.
func (c *conn) parse(r *Request) error {
	h := &r.http().Header
	if c.head.malformed || c.head.chunked && c.head.sized {
		return errFraming
	}
	if _, err := c.in.Discard(c.head.skip); err != nil {
		return err
	}
	if err := h.Read(c.in); err != nil {
		return errFraming
	}
	if !validHost(h.Host()) {
		return errFraming
	}
	return nil
}

// readBody reads past the body of a request, and its trailer section, of which
// nothing is ever merged into the head.
func (c *conn) readBody(r *Request) error {
	length := r.http().Header.ContentLength()
	if length > maxBody {
		return errBodyTooLarge
	}
	if !c.head.chunked && length <= 0 {
		return nil
	}
	if !c.wait(readingBody, chargeBody) {
		return errOverCharge
	}
	defer c.resume()
	if c.head.expects && r.http().Header.IsHTTP11() {
		if left, err := c.writeNow(goOn); err != nil || len(left) > 0 {
			return errGone
		}
	}
	if err := c.readBy(time.Now().Add(c.listener.readTimeout)); err != nil {
		return errGone
	}
	if c.head.chunked {
		return c.skipChunks()
	}
	_, err := c.in.Discard(length)
	return err
}

// skipChunks reads past a chunked body (RFC 9112, section 7.1).
func (c *conn) skipChunks() error {
	body, extensions := uint64(0), 0
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte{';'})
		extensions += len(line) - len(digits)
		size, err := strconv.ParseUint(string(digits), 16, 63)
		if err != nil || len(digits) > maxChunkDigits || extensions > maxTrailer {
			return errFraming
		}
		if size == 0 {
			return c.skipTrailer()
		}
		if body += size; body > maxBody {
			return errBodyTooLarge
		}
		if _, err := c.in.Discard(int(size)); err != nil {
			return err
		}
		if line, err = c.line(); err != nil {
			return err
		}
		if len(line) > 0 {
			return errFraming
		}
	}
}

// skipTrailer reads past a trailer section.
func (c *conn) skipTrailer() error {
	for n := 0; ; {
		line, err := c.line()
		if err != nil {
			return err
		}
		if n += len(line) + len(crlf); n > maxTrailer {
			return errFraming
		}
		if len(line) == 0 {
			return nil
		}
		name, _, ok := bytes.Cut(line, []byte{':'})
		if !ok || !httpguts.ValidHeaderFieldName(string(name)) {
			return errFraming
		}
	}
}

// line reads a line that ends in CR LF, without control characters but the tab,
// and returns it without its end.
func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errFraming
	}
	if err != nil {
		return nil, err
	}
	line = bytes.TrimSuffix(line, crlf)
	if !httpguts.ValidHeaderFieldValue(string(line)) { // nor is a lone LF
		return nil, errFraming
	}
	return line, nil
}

// validRequestLine reports a method, a target and a version of HTTP/1, with a
// space between them. The parser would say the same, in an error that quotes all
// that is in its buffer.
func validRequestLine(line []byte) bool {
	method, rest, _ := bytes.Cut(line, []byte{' '})
	target, version, _ := bytes.Cut(rest, []byte{' '})
	for _, b := range target {
		if b <= ' ' || b == 0x7f {
			return false
		}
	}
	minor, ok := bytes.CutPrefix(version, []byte("HTTP/1."))
	scheme, _, absolute := bytes.Cut(target, []byte("://"))
	return ok && len(minor) == 1 && '0' <= minor[0] && minor[0] <= '9' && httpguts.ValidHeaderFieldName(string(method)) && len(target) > 0 &&
		(target[0] == '/' || string(target) == "*" || string(method) == "CONNECT" || absolute && httpguts.ValidHeaderFieldName(string(scheme)))
}

// validHost reports the characters of a host and port (RFC 3986, section 3.2.2).
func validHost(host []byte) bool {
	for _, b := range host {
		if !(b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("-._~:[]%!$&'()*+,;=", b) >= 0) {
			return false
		}
	}
	return true
}

// framingProblem is the answer to what could not be read as a request.
func framingProblem(err error) *problem {
	switch {
	case errors.Is(err, errHeadTooLarge):
		return headersTooLarge
	case errors.Is(err, errBodyTooLarge):
		return payloadTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return requestTimeout
	case errors.Is(err, errOverCharge), errors.Is(err, errTooManyConns):
		return tooManyConns
	case errors.Is(err, errNoProxyHeader):
		return notProxied
	}
	return notHTTP
}
