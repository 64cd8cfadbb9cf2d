package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	gojson "github.com/goccy/go-json"
)

// Rows are not decoded into structs: a decoder matches names in any case, does not
// distinguish null from absent, and costs several times as much. Each line is checked to
// be JSON (RFC 8259), so finding the values of known fields in it is easy. If a name is
// repeated within an object, the last one counts, as in encoding/json.

var errNotObject = errors.New("not a JSON object")

// valid checks that text, which is valid UTF-8, is JSON. It also refuses half a surrogate
// pair, which would be read as another character.
func valid(text []byte) error {
	if !gojson.Valid(text) {
		var at *json.SyntaxError // go-json does not say where, and why
		if errors.As(json.Unmarshal(text, new(json.RawMessage)), &at) {
			return fmt.Errorf("not JSON (byte %d): %w", at.Offset, at)
		}
		return errors.New("not JSON")
	}
	for {
		_, r, after, found := cutEscape(text)
		switch {
		case !found:
			return nil
		case r < 0:
			return errors.New("not JSON: an unpaired surrogate")
		}
		text = after
	}
}

// cutEscape cuts s, a part of valid JSON, around its first escape. r is its character; -1
// for half a surrogate pair.
func cutEscape(s []byte) (before []byte, r rune, after []byte, found bool) {
	i := bytes.IndexByte(s, '\\')
	if i < 0 {
		return s, 0, nil, false
	}
	before, s = s[:i], s[i:]
	if r = escapedUnit(s); r < 0 {
		r = rune(s[1])
		if n := strings.IndexByte("bfnrt", s[1]); n >= 0 {
			r = rune("\b\f\n\r\t"[n])
		}
		return before, r, s[2:], true
	}
	if s = s[6:]; utf16.IsSurrogate(r) {
		if r = utf16.DecodeRune(r, escapedUnit(s)); r == utf8.RuneError {
			return before, -1, s, true
		}
		s = s[6:]
	}
	return before, r, s, true
}

// escapedUnit returns the UTF-16 unit of the \uHHHH at the beginning of s; -1 if there is none.
func escapedUnit(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// object receives the members of a JSON object that have known names.
type object struct {
	path   string   // precedes names in messages: "market."
	needed int      // as many of the first names: a bad value of one sets the row aside
	names  []string // in the order in which they are likely to come
	values [][]byte // raw JSON by name; nil when absent or null
	// unknown are the members of other names, those of objects within this one too; valid as
	// long as values.
	unknown []member
}

// member is a member of an object, which does not know its name.
type member struct {
	of          *object
	name, value []byte
}

// clear forgets the last line.
func (o *object) clear() {
	clear(o.values)
	o.unknown = o.unknown[:0]
}

func newObject(path string, needed int, names ...string) *object {
	return &object{path: path, needed: needed, names: names, values: make([][]byte, len(names))}
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
	o.unknown = append(o.unknown, member{o, name, value})
	return from
}

// read reads text, which must be one JSON object, with white space around it. The error
// is errNotObject for other JSON.
func (o *object) read(text []byte) error {
	o.clear()
	if err := valid(text); err != nil {
		return err
	}
	if text = text[gap(text):]; text[0] != '{' {
		return errNotObject
	}
	o.members(text)
	return nil
}

// members reads the object that text, valid JSON, begins with.
func (o *object) members(text []byte) {
	next := 0
	for i := 1; ; {
		i += gap(text[i:])
		if text[i] == '}' {
			return
		}
		quoted := text[i : i+stringLen(text[i:])]
		i += len(quoted)
		i += gap(text[i:])
		value := text[i : i+valueLen(text[i:])]
		i += len(value)
		name := quoted[1 : len(quoted)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = appendText(nil, quoted)
		}
		next = o.set(name, value, next)
	}
}

// The functions below expect the rest of valid JSON from the beginning of a token.

// gap returns the length of the white space and separators that b begins with.
func gap(b []byte) int {
	for i, c := range b {
		switch c {
		case ' ', '\t', '\n', '\r', ',', ':':
		default:
			return i
		}
	}
	return len(b)
}

// valueLen returns the length of the value that b begins with.
func valueLen(b []byte) int {
	switch b[0] {
	case '"':
		return stringLen(b)
	case '{', '[':
		depth := 0
		for i := 0; ; i++ {
			switch b[i] {
			case '"':
				i += stringLen(b[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i, c := range b {
		switch c {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
	}
	return len(b)
}

// stringLen returns the length of the string that b begins with, quotes included.
func stringLen(b []byte) int {
	for i := 1; ; {
		i += bytes.IndexByte(b[i:], '"') + 1
		escapes := 0
		for b[i-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}

// appendText appends the text of the string raw, which includes its quotes.
func appendText(dst, raw []byte) []byte {
	for s := raw[1 : len(raw)-1]; ; {
		before, r, after, found := cutEscape(s)
		if dst = append(dst, before...); !found {
			return dst
		}
		dst, s = utf8.AppendRune(dst, r), after
	}
}
