package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Rows are not decoded into structs, because a decoder matches names regardless of case and does
// not distinguish null from absent. If a name is repeated within an object, its last occurrence
// counts, as in encoding/json.

var errNotObject = errors.New("not a JSON object")

// notJSON returns an error for text that is not JSON (RFC 8259), or that contains an unpaired
// surrogate, which would be read as another character. text must be valid UTF-8.
func notJSON(text []byte) error {
	var at *json.SyntaxError // more informative than jsontext's error
	if errors.As(json.Unmarshal(text, new(json.RawMessage)), &at) {
		return fmt.Errorf("not JSON (byte %d): %w", at.Offset, at)
	}
	return errors.New("not JSON: an unpaired surrogate")
}

// scanner reads JSON text piece by piece.
type scanner struct {
	jsontext.Decoder
	text []byte
	from bytes.Buffer
}

// start makes the scanner read text.
func (s *scanner) start(text []byte) {
	s.text, s.from = text, *bytes.NewBuffer(text)
	s.Reset(&s.from, jsontext.AllowDuplicateNames(true))
}

// value returns the next value or member name exactly as the text contains it.
func (s *scanner) value() ([]byte, error) {
	v, err := s.ReadValue()
	end := int(s.InputOffset())
	return s.text[end-len(v) : end], err
}

// object receives the members of a JSON object that have known names.
type object struct {
	path   string   // prefix of names in messages, such as "market."
	needed int      // the number of required fields, which come first in names; see row
	names  []string // in the order in which rows usually have them
	values [][]byte // raw JSON by name; nil if absent or null
	// unknown are the members with other names, including those of nested objects. They remain
	// valid only as long as the elements of values do.
	unknown []member
	scanner scanner
}

// member is an object member whose name matches no field.
type member struct {
	of          *object
	name, value []byte
}

// clear forgets the values of the previous line.
func (o *object) clear() {
	clear(o.values)
	o.unknown = o.unknown[:0]
}

func newObject(path string, needed int, names ...string) *object {
	return &object{path: path, needed: needed, names: names, values: make([][]byte, len(names))}
}

// set records a member. The rows of a file usually have their fields in the same order, so the
// search begins where the previous one ended.
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

// read reads text, which must be one JSON object, possibly surrounded by white space. It returns
// errNotObject for any other JSON.
func (o *object) read(text []byte) error {
	o.clear()
	o.scanner.start(text)
	if o.scanner.PeekKind() != '{' {
		if _, err := o.scanner.ReadValue(); err != nil || !o.scanner.atEnd() {
			return notJSON(text)
		}
		return errNotObject
	}
	if err := o.members(); err != nil || !o.scanner.atEnd() {
		o.clear()
		return notJSON(text)
	}
	return nil
}

// atEnd reports whether only white space is left.
func (s *scanner) atEnd() bool {
	_, err := s.ReadToken()
	return err == io.EOF
}

// nested reads an object from text, which must be valid JSON.
func (o *object) nested(text []byte) {
	o.clear()
	o.scanner.start(text)
	if err := o.members(); err != nil {
		panic(fmt.Sprintf("BUG: a value that is not JSON: %v", err))
	}
}

// members reads the members of the next object.
func (o *object) members() error {
	s := &o.scanner
	if _, err := s.ReadToken(); err != nil {
		return err
	}
	for next := 0; s.PeekKind() != '}'; {
		quoted, err := s.value()
		if err != nil {
			return err
		}
		value, err := s.value()
		if err != nil {
			return err
		}
		name := quoted[1 : len(quoted)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = appendText(nil, quoted)
		}
		next = o.set(name, value, next)
	}
	_, err := s.ReadToken()
	return err
}

// appendText appends the text of the JSON string raw, which must be valid JSON.
func appendText(dst, raw []byte) []byte {
	dst, err := jsontext.AppendUnquote(dst, raw)
	if err != nil {
		panic(fmt.Sprintf("BUG: a string that is not JSON: %v", err))
	}
	return dst
}
