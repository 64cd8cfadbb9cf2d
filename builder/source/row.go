package source

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/marketdata/builder/market"
)

// maxInteger is the maximum for ids, counts and EVM chain ids. It is 2^53 - 1 (FEED.md, "Files").
const maxInteger = market.MaxID

// row reads the fields of one line. Strings are slices of the line or of scratch, and are valid
// until the next line. A bad value in a needed field sets the row aside: err keeps the first error,
// and values that are read after it are meaningless. A bad value in any other field counts as
// absent (FEED.md, "Bad input").
type row struct {
	scratch []byte   // strings that had to be unescaped or cleaned
	texts   [][]byte // the strings of the last array
	list    scanner  // scans arrays
	table   *columns // nil if the file is not a table
	err     error
	dropped []fieldError // the first maxDropped bad values
	more    int          // number of further bad values
	cleaned fieldError   // the first string that was cleaned; err is nil if there is none
}

// maxDropped is the maximum number of a row's bad values that are kept. Further ones are only
// counted.
const maxDropped = 100

// start begins reading a line, which must be an object.
func (r *row) start(line []byte, o *object) {
	r.scratch, r.dropped, r.more, r.cleaned = r.scratch[:0], r.dropped[:0], 0, fieldError{}
	r.err = o.read(line)
}

// unquote returns the contents of a JSON string. raw includes the quotes.
func (r *row) unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	from := len(r.scratch)
	r.scratch = appendText(r.scratch, raw)
	return r.scratch[from:]
}

func (r *row) fail(o *object, field int, format string, args ...any) {
	switch {
	case field >= o.needed:
		r.drop(o.path+o.names[field], o.values[field], fmt.Errorf(format, args...))
	case r.err == nil:
		r.err = &fieldError{o.path + o.names[field], o.values[field], fmt.Errorf(format, args...)}
	}
}

// drop records a bad value that does not set its row aside.
func (r *row) drop(field string, value []byte, err error) {
	if len(r.dropped) == maxDropped {
		r.more++
		return
	}
	r.dropped = append(r.dropped, fieldError{field, value, err})
}

// fieldError is an error that concerns a field. value is the field's JSON, or nil if it is absent.
type fieldError struct {
	field string
	value []byte
	err   error
}

func (e *fieldError) Error() string { return e.field + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// missing records that a required field is absent.
func (r *row) missing(o *object, field int) {
	switch {
	case r.table == nil:
		r.fail(o, field, "missing")
	case slices.Contains(r.table.names, o.path+o.names[field]):
		r.fail(o, field, "empty")
	default:
		r.fail(o, field, "missing: no column has this name")
	}
}

func (r *row) wrongType(o *object, field int, want string) {
	if r.table != nil { // table cells have no type
		r.fail(o, field, "want %s", want)
		return
	}
	kind := "a number"
	switch o.values[field][0] {
	case '"':
		kind = "a string"
	case '{':
		kind = "an object"
	case '[':
		kind = "an array"
	case 't', 'f':
		kind = "a boolean"
	}
	r.fail(o, field, "want %s, not %s", want, kind)
}

// text reads a string. ok is false if it is absent or has another type.
func (r *row) text(o *object, field int) (text []byte, ok bool) {
	raw := o.values[field]
	if raw == nil {
		return nil, false
	}
	if raw[0] != '"' {
		r.wrongType(o, field, "a string")
		return nil, false
	}
	return r.unquote(raw), true
}

// The maximum sizes of strings in a feed, in bytes, and the maximum length of the list of explorers
// (FEED.md, "Bad input").
const (
	maxName      = 256 // for keys, names, symbols and slugs
	maxURL       = 2048
	maxExplorers = 50
)

// bounded reads a string of at most the given number of bytes. ok is false if the string is absent
// or bad.
func (r *row) bounded(o *object, field, most int) (text []byte, ok bool) {
	text, ok = r.text(o, field)
	return r.bound(o, field, most, text, ok)
}

func (r *row) bound(o *object, field, most int, text []byte, ok bool) ([]byte, bool) {
	if len(text) > most {
		r.fail(o, field, "%d bytes: want at most %d", len(text), most)
		return nil, false
	}
	return text, ok
}

// url reads a URL. It returns "" if the URL is absent or bad.
func (r *row) url(o *object, field int) []byte {
	text, _ := r.bounded(o, field, maxURL)
	return text
}

// cleanText reads a string and cleans it. ok is false if it is absent or bad.
func (r *row) cleanText(o *object, field int) (text []byte, ok bool) {
	text, ok = r.text(o, field)
	return r.clean(o, field, text), ok
}

// shortName reads an optional name and cleans it. ok is false if it is absent or bad.
func (r *row) shortName(o *object, field int) (text []byte, ok bool) {
	text, ok = r.cleanText(o, field)
	return r.bound(o, field, maxName, text, ok)
}

// name reads a required key, name, symbol or slug, and cleans it.
func (r *row) name(o *object, field int) []byte {
	text, ok := r.shortName(o, field)
	return r.notEmpty(o, field, text, ok)
}

// required reads a string that must not be absent or empty.
func (r *row) required(o *object, field int) []byte {
	text, ok := r.text(o, field)
	return r.notEmpty(o, field, text, ok)
}

func (r *row) notEmpty(o *object, field int, text []byte, ok bool) []byte {
	switch {
	case o.values[field] == nil:
		r.missing(o, field)
	case ok && len(text) == 0:
		r.fail(o, field, "empty")
	}
	return text
}

// clean removes invisible characters from a field's string. It removes control and format
// characters, except the two joiners that some scripts need. Then it removes white space at both
// ends (FEED.md, "Bad input").
func (r *row) clean(o *object, field int, text []byte) []byte {
	if isClean(text) {
		return text
	}
	return r.cleanAs(o.path+o.names[field], text)
}

// cleanAs is the slow path of clean, for a string that needs cleaning. name is the field's name.
func (r *row) cleanAs(name string, text []byte) []byte {
	if r.cleaned.err == nil {
		r.cleaned = fieldError{name, strconv.AppendQuote(nil, shorten(text)), errCleaned}
	}
	from := len(r.scratch)
	for _, c := range string(text) {
		if !isUnseen(c) {
			r.scratch = utf8.AppendRune(r.scratch, c)
		}
	}
	return bytes.TrimSpace(r.scratch[from:])
}

var errCleaned = errors.New("control characters, format characters or white space at an end; removed")

func isClean(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c >= 0x7f {
			return !bytes.ContainsFunc(text, isUnseen) && len(bytes.TrimSpace(text)) == len(text)
		}
	}
	return len(text) == 0 || text[0] != ' ' && text[len(text)-1] != ' '
}

func isUnseen(c rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) && c != nonJoiner && c != joiner
}

// urls reads the explorers. The result is valid until the next call of array.
func (r *row) urls(o *object, field int) [][]byte {
	all := slices.DeleteFunc(r.array(o, field), func(text []byte) bool {
		if len(text) > maxURL {
			r.drop(o.names[field], quoted(shorten(text)), errURL)
		}
		return len(text) > maxURL
	})
	if len(all) > maxExplorers {
		r.fail(o, field, "%d beyond the first %d", len(all)-maxExplorers, maxExplorers)
		all = all[:maxExplorers]
	}
	return all
}

var (
	errURL     = fmt.Errorf("a URL over %d bytes", maxURL)
	errElement = errors.New("want strings in the array, and nothing else")
)

// array reads the strings of an array. The result is valid until the next call.
func (r *row) array(o *object, field int) [][]byte {
	raw := o.values[field]
	r.texts = r.texts[:0]
	if raw == nil {
		return nil
	}
	if raw[0] != '[' {
		r.wrongType(o, field, "an array of strings")
		return nil
	}
	r.list.start(raw)
	_, _ = r.list.ReadToken() // raw is a valid array
	for r.list.PeekKind() != ']' {
		if element, _ := r.list.value(); element[0] == '"' {
			r.texts = append(r.texts, r.unquote(element))
		} else {
			r.drop(o.names[field], element, errElement)
		}
	}
	return r.texts
}

// decimal reads a JSON number, or a string that contains one. ok is false if it is absent or bad.
func (r *row) decimal(o *object, field int, decimals, intDigits int) (u market.U128, ok bool) {
	raw := o.values[field]
	if raw == nil {
		return u, false
	}
	switch c := raw[0]; {
	case c == '"':
		raw = r.unquote(raw)
	case c != '-' && (c < '0' || '9' < c):
		r.wrongType(o, field, "a decimal")
		return u, false
	}
	u, err := market.ParseDecimal(raw, decimals, intDigits)
	if err != nil {
		r.fail(o, field, "%w", err)
	}
	return u, err == nil
}

// count reads an integer from minimum to maxInteger. ok is false if it is absent or bad. A number
// with a decimal point or an exponent is not an integer, whatever its value is.
func (r *row) count(o *object, field int, minimum uint64) (n uint64, ok bool) {
	raw := o.values[field]
	if raw == nil {
		return 0, false
	}
	digits := bytes.TrimPrefix(raw, []byte("-"))
	for _, c := range digits {
		if c < '0' || '9' < c {
			r.fail(o, field, "want an integer from %d to %d", minimum, uint64(maxInteger))
			return 0, false
		}
		if n = n*10 + uint64(c-'0'); n > maxInteger {
			break
		}
	}
	if negative := len(digits) < len(raw) && n > 0; negative || n < minimum || n > maxInteger {
		r.fail(o, field, "want an integer from %d to %d", minimum, uint64(maxInteger))
		return 0, false
	}
	return n, true
}

func (r *row) boolean(o *object, field int, absent bool) bool {
	raw := o.values[field]
	switch {
	case raw == nil:
		return absent
	case raw[0] != 't' && raw[0] != 'f':
		r.wrongType(o, field, "true or false")
		return absent
	}
	return raw[0] == 't'
}

// sub reads an object within the row. ok is false if the object is absent or the value has another
// type.
func (r *row) sub(o *object, field int, into *object) (ok bool) {
	raw := o.values[field]
	into.clear()
	if raw == nil {
		return false
	}
	if raw[0] != '{' {
		r.wrongType(o, field, "an object")
		return false
	}
	into.nested(raw)
	o.unknown = append(o.unknown, into.unknown...)
	return true
}

var errTime = errors.New("want a time as in RFC 3339, such as 2026-01-31T12:00:00Z")

// timeForm matches RFC 3339 times. time.Parse also accepts one-digit hours, a comma before the
// fraction, and any offset.
var timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseTime parses an RFC 3339 time and returns it in UTC. A leap second, which is the last second
// of a UTC day, counts as the first second of the next day. ParseTime returns an error for times
// that are in the year 10000 in UTC.
func ParseTime(text []byte) (time.Time, error) {
	if !timeForm.Match(text) {
		return time.Time{}, errTime
	}
	upper, leap := []byte(strings.ToUpper(string(text))), time.Duration(0)
	const seconds = len("2006-01-02T15:04:")
	if string(upper[seconds:seconds+2]) == "60" { // time.Parse refuses leap seconds
		copy(upper[seconds:], "59")
		leap = time.Second
	}
	t, err := time.Parse(time.RFC3339, string(upper))
	t = t.UTC().Add(leap)
	midnight := t.Truncate(24*time.Hour) == t.Truncate(time.Second)
	if err != nil || t.Year() > 9999 || leap > 0 && !midnight {
		return time.Time{}, errTime
	}
	return t, nil
}
