package server

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/rows"
)

// appendNumberLine appends a header line whose value is a number.
func appendNumberLine(dst []byte, name string, value int) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = strconv.AppendInt(dst, int64(value), 10)
	return append(dst, crlf...)
}

// statusLines contains the status lines of answers, indexed by status.
var statusLines = func() (lines [600][]byte) {
	for status := range lines {
		if text := http.StatusText(status); text != "" {
			lines[status] = []byte("HTTP/1.1 " + strconv.Itoa(status) + " " + text + "\r\n")
		}
	}
	return lines
}()

// dateLine is the Date header for a second.
type dateLine struct {
	second int64
	line   []byte
}

// dates formats the Date header once per second.
type dates struct{ last atomic.Pointer[dateLine] }

func (d *dates) line(now time.Time) []byte {
	second := now.Unix()
	l := d.last.Load()
	if l == nil || l.second != second {
		l = &dateLine{second, reply.AppendLine(nil, "Date", now.UTC().AppendFormat(nil, http.TimeFormat))}
		d.last.Store(l) // another goroutine may store the same line
	}
	return l.line
}

// bodiless reports whether answers with this status have neither a body nor Content-Length.
func bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// keepAliveSlack is how much earlier than the server clients should close an idle connection.
const keepAliveSlack = 5 * time.Second

// newKeepAlive returns the header lines of an answer after which the connection stays open.
func newKeepAlive(idle time.Duration) []byte {
	lines := []byte("Connection: keep-alive\r\n")
	if seconds := int((idle - keepAliveSlack) / time.Second); seconds > 0 {
		lines = fmt.Appendf(lines, "Keep-Alive: timeout=%d\r\n", seconds)
	}
	return lines
}

// appendHead appends the head of the answer.
func (s *Server) appendHead(dst []byte, r *Request) []byte {
	p := &r.Asked.Reply
	dst = append(dst, statusLines[p.Status]...)
	dst = append(dst, s.dates.line(r.Asked.Now)...)
	dst = append(dst, p.Fixed...)
	dst = append(dst, p.Lines...)
	switch {
	case bodiless(p.Status):
	case r.events && r.http().Header.IsHTTP11():
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case r.file != nil:
		dst = appendNumberLine(dst, "Content-Length", int(r.file.to-r.file.at))
	case !r.events:
		dst = appendNumberLine(dst, "Content-Length", len(p.Body))
	}
	switch {
	case r.close:
		dst = append(dst, "Connection: close\r\n"...)
	case !r.events:
		dst = append(dst, s.keepAlive...)
	}
	return append(dst, crlf...)
}

// payload returns the body to send, which is empty for HEAD.
func (r *Request) payload() []byte {
	if r.http().Header.IsHead() || bodiless(r.Asked.Reply.Status) {
		return nil
	}
	return r.Asked.Reply.Body
}

// appendReply returns the bytes of the answer. rest is empty unless the body is large and is not in the output
// buffer.
func (s *Server) appendReply(r *Request) (first, rest []byte) {
	m, body, out := r.mem, r.payload(), r.Asked.Buffers.Output()
	if len(body) == 0 || &body[0] != &out[rows.HeadRoom] {
		first = s.appendHead(out[:0], r)
		if len(first)+len(body) > len(out) {
			return first, body
		}
		return append(first, body...), nil
	}
	if m.head = s.appendHead(m.head[:0], r); len(m.head) > rows.HeadRoom {
		return bytes.Clone(m.head), body
	}
	at := rows.HeadRoom - len(m.head)
	copy(out[at:], m.head)
	return out[at : rows.HeadRoom+len(body)], nil
}
