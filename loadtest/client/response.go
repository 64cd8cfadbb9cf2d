package client

import (
	"bytes"
	"fmt"
)

// Response is an answer. Its bytes are valid until the connection's next request.
type Response struct {
	Status int
	Fields []Field
	// Body is the body without chunking. Its content coding is not decoded.
	Body []byte
	// Size is the number of bytes that the answer had on the wire.
	Size int
	// Retried reports whether the answer is from the second attempt (see Conn.Do).
	Retried bool

	length  int // Content-Length, or -1 if there is none
	chunked bool
	close   bool
}

// Field is a header field. Names have the case in which they were sent.
type Field struct{ Name, Value []byte }

// Get returns the first value of a header field, or nil if there is none. The name is case-insensitive.
func (r *Response) Get(name string) []byte {
	for i := range r.Fields {
		if equalName(r.Fields[i].Name, name) {
			return r.Fields[i].Value
		}
	}
	return nil
}

// Count returns the number of header fields with the given name, which is case-insensitive.
func (r *Response) Count(name string) int {
	n := 0
	for i := range r.Fields {
		if equalName(r.Fields[i].Name, name) {
			n++
		}
	}
	return n
}

func equalName(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i := range b {
		if lower(b[i]) != lower(name[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// headEnd returns the end of the head in b, or 0 if it is incomplete. It searches from the given index.
func headEnd(b []byte, from int) int {
	for {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return 0
		}
		from += i + 1
		switch rest := b[from:]; {
		case len(rest) >= 1 && rest[0] == '\n':
			return from + 1
		case len(rest) >= 2 && rest[0] == '\r' && rest[1] == '\n':
			return from + 2
		}
	}
}

// parse parses a head, including the empty line at its end.
func (r *Response) parse(head []byte) error {
	*r = Response{Fields: r.Fields[:0], length: -1}
	line, rest := cutLine(head)
	// The reason phrase may be missing, and so may the space before it.
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || line[7] != '0' && line[7] != '1' || line[8] != ' ' ||
		len(line) > 12 && line[12] != ' ' {
		return fmt.Errorf("%w: status line %.80q", ErrMalformed, line)
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return fmt.Errorf("%w: status line %.80q", ErrMalformed, line)
		}
		r.Status = r.Status*10 + int(c-'0')
	}
	if r.Status < 100 {
		return fmt.Errorf("%w: status %d", ErrMalformed, r.Status)
	}
	old := line[7] == '0'
	r.close = old
	for {
		line, rest = cutLine(rest)
		if len(line) == 0 {
			break
		}
		i := bytes.IndexByte(line, ':')
		if i <= 0 || line[0] == ' ' || line[0] == '\t' || line[i-1] == ' ' || line[i-1] == '\t' {
			return fmt.Errorf("%w: header field %.80q", ErrMalformed, line)
		}
		f := Field{line[:i], trim(line[i+1:])}
		r.Fields = append(r.Fields, f)
		if err := r.framing(f); err != nil {
			return err
		}
	}
	r.chunked = r.chunked && !old // HTTP/1.0 has no chunked coding (RFC 9112, section 6.1)
	return nil
}

// framing records what a header field says about the end of the answer.
func (r *Response) framing(f Field) error {
	switch {
	case equalName(f.Name, "content-length"):
		n := 0
		for _, c := range f.Value {
			if c < '0' || c > '9' || n > 1<<50 {
				return fmt.Errorf("%w: Content-Length %.40q", ErrMalformed, f.Value)
			}
			n = n*10 + int(c-'0')
		}
		if len(f.Value) == 0 || r.length >= 0 && r.length != n {
			return fmt.Errorf("%w: Content-Length %.40q", ErrMalformed, f.Value)
		}
		r.length = n
	case equalName(f.Name, "transfer-encoding"):
		if !equalName(f.Value, "chunked") {
			return fmt.Errorf("%w: Transfer-Encoding %.40q", ErrMalformed, f.Value)
		}
		r.chunked = true
	case equalName(f.Name, "connection"):
		for token := range bytes.SplitSeq(f.Value, []byte(",")) {
			switch token = trim(token); {
			case equalName(token, "close"):
				r.close = true
			case equalName(token, "keep-alive") && r.Status != 0:
				r.close = false
			}
		}
	}
	return nil
}

// trim removes spaces and tabs at both ends. Unlike bytes.Trim, it never returns nil.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// cutLine returns the first line of head without its end, and the rest.
func cutLine(head []byte) (line, rest []byte) {
	i := bytes.IndexByte(head, '\n')
	if i < 0 {
		return head, nil
	}
	line, rest = head[:i], head[i+1:]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, rest
}

// chunkSize parses the size of a chunk. It ignores extensions, which follow a semicolon.
func chunkSize(line []byte) (int, bool) {
	line, _, _ = bytes.Cut(line, []byte(";"))
	n, digits := 0, 0
	for _, c := range trim(line) {
		var d byte
		switch {
		case '0' <= c && c <= '9':
			d = c - '0'
		case 'a' <= lower(c) && lower(c) <= 'f':
			d = lower(c) - 'a' + 10
		default:
			return 0, false
		}
		if digits++; digits > 12 {
			return 0, false
		}
		n = n<<4 | int(d)
	}
	return n, digits > 0
}
