package source

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// Why encoding/json does not read the rows: it matches names in any case,
// replaces unpaired surrogates, does not report null, and costs several times
// as much. What stands here is RFC 8259 and nothing else, checked to the last
// byte of a line, and gives the values of known fields as raw JSON. Where a
// name is repeated within an object, the last one counts, as in encoding/json.

var errNotObject = errors.New("not a JSON object")

// syntaxError: not JSON, from this byte of the text on.
type syntaxError int

func (e syntaxError) Error() string { return fmt.Sprintf("not JSON (byte %d)", int(e)+1) }

// object takes the members of a JSON object that have known names.
type object struct {
	path   string   // stands before names in messages: "market."
	names  []string // in the order in which they are likely to come
	values [][]byte // raw JSON by name; nil when absent or null
}

func newObject(path string, names ...string) *object {
	return &object{path, names, make([][]byte, len(names))}
}

// set records a member. Rows of one file tend to have their fields in the same
// order, so the search begins where the last one ended.
func (o *object) set(name, value []byte, from int) (next int) {
	for range o.names {
		if from >= len(o.names) {
			from = 0
		}
		if string(name) == o.names[from] {
			if value[0] == 'n' {
				value = nil
			}
			o.values[from] = value
			return from + 1
		}
		from++
	}
	return from
}

// scanner walks through one JSON text of valid UTF-8.
type scanner struct {
	b     []byte
	i     int
	open  []byte // brackets that skip has open
	names []byte // names that had to be unescaped
}

// object reads text, which is to hold one JSON object and white space around
// it, into o. It gives a syntaxError, or errNotObject for other JSON.
func (s *scanner) object(text []byte, o *object) error {
	clear(o.values)
	s.b, s.i = text, 0
	s.space()
	if s.at() != '{' {
		if !s.skip() || !s.end() {
			return syntaxError(s.i)
		}
		return errNotObject
	}
	s.i++
	if s.space(); s.at() == '}' {
		s.i++
	} else if !s.members(o) {
		return syntaxError(s.i)
	}
	if !s.end() {
		return syntaxError(s.i)
	}
	return nil
}

// members reads from behind the opening brace to behind the closing one.
func (s *scanner) members(o *object) bool {
	for next := 0; ; {
		nameAt := s.i
		if !s.str() {
			return false
		}
		name := s.b[nameAt+1 : s.i-1]
		if !s.colon() {
			return false
		}
		if bytes.IndexByte(name, '\\') >= 0 {
			s.names = appendUnescaped(s.names[:0], name)
			name = s.names
		}
		valueAt := s.i
		if !s.skip() {
			return false
		}
		next = o.set(name, s.b[valueAt:s.i], next)
		s.space()
		switch s.at() {
		case ',':
			s.i++
			s.space()
		case '}':
			s.i++
			return true
		default:
			return false
		}
	}
}

// at returns the byte that comes next, 0 at the end: no JSON token begins so.
func (s *scanner) at() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) end() bool {
	s.space()
	return s.i == len(s.b)
}

// colon moves past the colon behind a name and the space around it.
func (s *scanner) colon() bool {
	s.space()
	if s.at() != ':' {
		return false
	}
	s.i++
	s.space()
	return true
}

func (s *scanner) name() bool { return s.str() && s.colon() }

// skip moves past one value of any kind. It keeps the open brackets itself
// instead of calling itself, so that a line of brackets costs no stack.
func (s *scanner) skip() bool {
	s.open = s.open[:0]
	for {
		// Here a value begins.
		switch c := s.at(); c {
		case '{', '[':
			s.i++
			s.space()
			if s.at() == c+2 { // '}' or ']'
				s.i++
				break
			}
			s.open = append(s.open, c+2)
			if c == '{' && !s.name() {
				return false
			}
			continue
		case '"':
			if !s.str() {
				return false
			}
		case 't':
			if !s.word("true") {
				return false
			}
		case 'f':
			if !s.word("false") {
				return false
			}
		case 'n':
			if !s.word("null") {
				return false
			}
		default:
			if !s.number() {
				return false
			}
		}
		// Here one has ended.
		for {
			if len(s.open) == 0 {
				return true
			}
			s.space()
			bracket := s.open[len(s.open)-1]
			if s.at() == bracket {
				s.i++
				s.open = s.open[:len(s.open)-1]
				continue
			}
			if s.at() != ',' {
				return false
			}
			s.i++
			s.space()
			if bracket == '}' && !s.name() {
				return false
			}
			break
		}
	}
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

func (s *scanner) number() bool {
	if s.at() == '-' {
		s.i++
	}
	if s.at() == '0' {
		s.i++
	} else if !s.digits() {
		return false
	}
	if s.at() == '.' {
		if s.i++; !s.digits() {
			return false
		}
	}
	if c := s.at(); c == 'e' || c == 'E' {
		s.i++
		if c := s.at(); c == '+' || c == '-' {
			s.i++
		}
		return s.digits()
	}
	return true
}

// plain are the bytes that stand for themselves within a string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 256; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// str moves past a string, every escape checked.
func (s *scanner) str() bool {
	if s.at() != '"' {
		return false
	}
	s.i++
	for {
		b, i := s.b, s.i
		for i < len(b) && plain[b[i]] {
			i++
		}
		s.i = i
		switch s.at() {
		case '"':
			s.i++
			return true
		case '\\':
			if !s.escape() {
				return false
			}
		default:
			return false
		}
	}
}

func (s *scanner) escape() bool {
	s.i++
	switch s.at() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return true
	case 'u':
		r, ok := hex4(s.b[s.i+1:])
		if !ok {
			return false
		}
		if utf16.IsSurrogate(r) {
			low, ok := escapedUnit(s.b[s.i+5:])
			if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
				return false
			}
			s.i += 6
		}
		s.i += 5
		return true
	}
	return false
}

// escapedUnit reads \uHHHH at the beginning of b.
func escapedUnit(b []byte) (rune, bool) {
	if len(b) < 2 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	return hex4(b[2:])
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// stringAt returns the string that b begins with, quotes included. b has been
// found to be JSON.
func stringAt(b []byte) []byte {
	for i := 1; ; i += 2 {
		for plain[b[i]] {
			i++
		}
		if b[i] == '"' {
			return b[:i+1]
		}
	}
}

// appendUnescaped appends what stands between a string's quotes, with its
// escapes resolved. The string has been found to be JSON.
func appendUnescaped(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hex4(s)
			s = s[4:]
			if utf16.IsSurrogate(r) {
				low, _ := escapedUnit(s)
				r = utf16.DecodeRune(r, low)
				s = s[6:]
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
}
