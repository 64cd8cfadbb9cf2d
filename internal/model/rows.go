package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Files is a feed folder: the text of each file by name. A missing file is the same as an empty
// one.
type Files map[string]string

// maxLine is the maximum length of a line in a feed file, in bytes.
const maxLine = 1 << 20

// lines returns the rows of a file: its lines without line ends. It skips blank lines and a leading
// byte order mark.
func lines(file string) [][]byte {
	text := bytes.TrimPrefix([]byte(file), []byte("\uFEFF"))
	var rows [][]byte
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(bytes.Trim(line, " \t\r")) > 0 {
			rows = append(rows, line)
		}
	}
	return rows
}

// fields is a JSON object of the feed: the text of each value by name. Names are case-sensitive. A
// null counts as no value.
type fields map[string]json.RawMessage

// readObject parses one JSON object. It rejects anything after it.
func readObject(text []byte) (fields, error) {
	if !utf8.Valid(text) || !json.Valid(text) || hasLoneSurrogate(text) {
		return nil, errors.New("not JSON")
	}
	if text[bytes.IndexFunc(text, notSpace)] != '{' {
		return nil, errors.New("not an object")
	}
	f := fields{}
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	for name, value := range f {
		if f[name] = bytes.TrimSpace(value); string(f[name]) == "null" {
			delete(f, name)
		}
	}
	return f, nil
}

func notSpace(r rune) bool { return r != ' ' && r != '\t' && r != '\r' && r != '\n' }

// hasLoneSurrogate reports whether valid JSON has an escape for one half of a surrogate pair
// without the other half.
func hasLoneSurrogate(text []byte) bool {
	unit := func(at int) (uint64, bool) { // the value of the escape \uHHHH at a position
		if at+6 > len(text) || text[at] != '\\' || text[at+1] != 'u' {
			return 0, false
		}
		u, err := strconv.ParseUint(string(text[at+2:at+6]), 16, 16)
		return u, err == nil
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		u, ok := unit(i)
		switch {
		case !ok:
			i++ // any other escape: a backslash and one character
		case u >= 0xDC00 && u <= 0xDFFF:
			return true
		case u >= 0xD800 && u <= 0xDBFF:
			if low, ok := unit(i + 6); !ok || low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 11
		default:
			i += 5
		}
	}
	return false
}

// A reader takes the values of one row. err is the first fault in a field that the row needs. Such
// a fault sets the row aside. A bad value in any other field counts as a warning and is treated as
// missing.
type reader struct {
	fields   fields
	err      error
	warnings int
	cleaned  bool // whether a text was cleaned
}

func (r *reader) fail(name, what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s", name, what)
	}
}

// required returns a string that must be present and, after it is cleaned, neither empty nor too
// long.
func (r *reader) required(name string) string {
	raw, ok := r.fields[name]
	if !ok || raw[0] != '"' {
		r.fail(name, "missing or no string")
		return ""
	}
	s := r.clean(unquote(raw))
	if s == "" || len(s) > 256 {
		r.fail(name, "empty or too long")
	}
	return s
}

// clean removes control and format characters, except the zero-width joiner and
// non-joiner, and white space at both ends.
func (r *reader) clean(text string) string {
	var kept []rune
	for _, c := range text {
		unseen := unicode.In(c, unicode.Cc, unicode.Cf)
		if !unseen || c == 0x200C || c == 0x200D {
			kept = append(kept, c)
		}
	}
	for len(kept) > 0 && unicode.Is(unicode.White_Space, kept[0]) {
		kept = kept[1:]
	}
	for len(kept) > 0 && unicode.Is(unicode.White_Space, kept[len(kept)-1]) {
		kept = kept[:len(kept)-1]
	}
	r.cleaned = r.cleaned || string(kept) != text
	return string(kept)
}

// text returns an optional string.
func (r *reader) text(name, otherwise string) string {
	raw, ok := r.fields[name]
	if !ok {
		return otherwise
	}
	if raw[0] != '"' {
		r.warnings++
		return otherwise
	}
	s := unquote(raw)
	if slices.Contains(cleanTexts, name) {
		s = r.clean(s)
	}
	if most, ok := longest[name]; ok && len(s) > most {
		r.warnings++
		return otherwise
	}
	return s
}

// cleanTexts lists the optional fields whose strings are cleaned. Required strings always are.
var cleanTexts = []string{"display_name", "native", "name"}

// longest contains the maximum lengths of strings, in bytes.
var longest = map[string]int{
	"name": 256, "display_name": 256, "unit": 256,
	"logo": 2048, "website": 2048, "whitepaper": 2048, "twitter": 2048, "telegram": 2048, "reddit": 2048,
	"facebook": 2048, "chat": 2048,
}

func (r *reader) texts(name string) []string {
	raw, ok := r.fields[name]
	if !ok {
		return nil
	}
	var elements []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &elements) != nil {
		r.warnings++
		return nil
	}
	var texts []string
	for _, e := range elements {
		if e = bytes.TrimSpace(e); e[0] != '"' || name == "explorers" && len(unquote(e)) > 2048 {
			r.warnings++
		} else {
			texts = append(texts, unquote(e))
		}
	}
	if name == "explorers" && len(texts) > 50 {
		r.warnings++
		texts = texts[:50]
	}
	return texts
}

func (r *reader) boolean(name string, otherwise bool) bool {
	switch raw, ok := r.fields[name]; {
	case !ok:
		return otherwise
	case string(raw) == "true":
		return true
	case string(raw) == "false":
		return false
	}
	r.warnings++
	return otherwise
}

// id returns the value of the field "id". An invalid id sets the row aside.
func (r *reader) id() *int64 {
	before := r.warnings
	id := r.integer("id", 1)
	if r.warnings > before {
		r.fail("id", "not a whole number in range")
	}
	return id
}

// integer returns a whole number from lowest to 2^53 − 1, or nil.
func (r *reader) integer(name string, lowest int64) *int64 {
	raw, ok := r.fields[name]
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < lowest || n > maxInteger {
		r.warnings++
		return nil
	}
	return &n
}

// decimal returns a decimal, rounded to the places of its field, or nil.
func (r *reader) decimal(name string, places, digits int) *big.Rat {
	raw, ok := r.fields[name]
	if !ok {
		return nil
	}
	text := string(raw)
	if text[0] == '"' {
		text = unquote(raw)
	}
	x, err := readDecimal(text, places, digits)
	if err != nil {
		r.warnings++
		return nil
	}
	return x
}

// needed is like decimal, for a field in which a bad value sets the row aside.
func (r *reader) needed(name string, places, digits int) *big.Rat {
	x := r.decimal(name, places, digits)
	if _, given := r.fields[name]; given && x == nil {
		r.fail(name, "not a decimal")
	}
	return x
}

// object returns a reader for the object with the given name, or nil.
func (r *reader) object(name string) *reader {
	raw, ok := r.fields[name]
	if !ok {
		return nil
	}
	inner, err := readObject(raw)
	if err != nil {
		r.warnings++
		return nil
	}
	return &reader{fields: inner}
}

func unquote(raw []byte) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		panic(err) // This cannot happen, because the row is valid JSON.
	}
	return s
}

// head is the content of feed.json.
type head struct {
	database string
	time     time.Time
}

func readHead(files Files) (head, error) {
	text, ok := files["feed.json"]
	if !ok {
		return head{}, errors.New("feed.json is missing")
	}
	if _, ok := files["assets.ndjson"]; !ok {
		return head{}, errors.New("assets.ndjson is missing")
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	var h struct {
		Format   int    `json:"format"`
		Database string `json:"database"`
		Time     string `json:"time"`
	}
	if err := decoder.Decode(&h); err != nil {
		return head{}, fmt.Errorf("feed.json: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return head{}, errors.New("feed.json: more than one value")
	}
	if h.Format != 1 {
		return head{}, fmt.Errorf("feed.json: format %d", h.Format)
	}
	at, err := readTime(h.Time)
	if err != nil {
		return head{}, fmt.Errorf("feed.json: %w", err)
	}
	return head{database: h.Database, time: at}, nil
}

// readTime parses a time in RFC 3339. It accepts the leap second 23:59:60 in UTC as the following
// second.
func readTime(text string) (time.Time, error) {
	text = strings.ToUpper(text)
	if len(text) < 20 || text[16:19] != ":60" {
		return time.Parse(time.RFC3339, text)
	}
	before, err := time.Parse(time.RFC3339, strings.Replace(text, ":60", ":59", 1))
	if err == nil && before.UTC().Format(time.TimeOnly) != "23:59:59" {
		err = errors.New("no leap second")
	}
	return before.Add(time.Second), err
}
