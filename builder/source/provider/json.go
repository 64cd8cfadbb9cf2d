package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/marketdata/builder/source"
)

// array returns the elements of a JSON array.
func array(body []byte) ([]json.RawMessage, error) {
	var rows []json.RawMessage
	if err := json.Unmarshal(body, &rows); err != nil {
		return nil, fmt.Errorf("want a JSON array: %w", short(err))
	}
	if rows == nil {
		return nil, errors.New("want a JSON array, not null")
	}
	return rows, nil
}

// bom is a byte order mark, which some servers put before JSON.
var bom = []byte("\ufeff")

// at returns the value at a path in a document. A path consists of names joined by dots. "" denotes
// the whole document.
func at(body []byte, path string) (json.RawMessage, error) {
	body = bytes.TrimPrefix(body, bom)
	if path == "" {
		return body, nil
	}
	name, rest, _ := strings.Cut(path, ".")
	o, ok := Object(body)
	if !ok || o[name] == nil {
		return nil, fmt.Errorf("want a JSON object with %s", name)
	}
	return at(o[name], rest)
}

// within returns a document that has the given value at the given path.
func within(path string, value []byte) []byte {
	if path == "" {
		return value
	}
	name, rest, _ := strings.Cut(path, ".")
	return appendObject(nil, []Field{{name, within(rest, value)}})
}

// Row is a row of a provider's list.
type Row struct {
	Raw json.RawMessage
	// Fields are the members of the row, or nil if it is not an object.
	Fields Fields
}

// Rows returns the rows of an array that Part.Check has accepted. It returns none if body is nil.
// If body is an object, its rows are those members that are objects, ordered by name. The members'
// names become the rows' ids.
func Rows(body []byte) (rows []Row) {
	if body == nil {
		return nil
	}
	if o, ok := Object(body); ok {
		for _, name := range slices.Sorted(maps.Keys(o)) {
			if fields, ok := Object(o[name]); ok {
				fields["id"] = quote(name)
				rows = append(rows, Row{o[name], fields})
			}
		}
		return rows
	}
	list, err := array(body)
	if err != nil {
		panic(fmt.Sprintf("BUG: rows that were not checked: %v", err))
	}
	rows = make([]Row, len(list))
	for i, raw := range list {
		rows[i].Raw = raw
		rows[i].Fields, _ = Object(raw)
	}
	return rows
}

// IDs returns the distinct ids of rows.
func IDs(rows []Row) (ids []string) {
	seen := map[string]bool{"": true}
	for _, row := range rows {
		if id := row.Fields.ID(); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// Missing returns the rows whose ids do not occur in any of the other lists. It returns each id
// once and omits rows without an id, because the feed reader sets these aside in the list from
// which they came.
func Missing(rows []Row, in ...[]Row) (missing []Row) {
	known := map[string]bool{"": true}
	for _, id := range IDs(slices.Concat(in...)) {
		known[id] = true
	}
	for _, row := range rows {
		if id := row.Fields.ID(); !known[id] {
			known[id] = true
			missing = append(missing, row)
		}
	}
	return missing
}

// short shortens an error from encoding/json, which may quote a large part of a body.
func short(err error) error {
	const most = 120
	if s := err.Error(); len(s) > most {
		return errors.New(strings.ToValidUTF8(s[:most], "") + "…")
	}
	return err
}

// CheckArray is a Part.Check for an array of rows.
func CheckArray(body []byte) (rows int, err error) {
	list, err := array(body)
	return len(list), err
}

// CheckObject is a Part.Check for an object.
func CheckObject(body []byte) (rows int, err error) {
	if _, ok := Object(body); !ok {
		return 0, errors.New("want a JSON object")
	}
	return 1, nil
}

// Keep returns a Part.Reduce that keeps only the named members of an object, or of each row in an
// array.
func Keep(names ...string) func(body []byte) []byte {
	keep := func(of Fields) Fields {
		kept := Fields{}
		for _, name := range names {
			if raw := of.Get(name); raw != nil {
				kept[name] = raw
			}
		}
		return kept
	}
	return func(body []byte) []byte {
		var kept any
		if o, ok := Object(body); ok {
			kept = keep(o)
		} else if list, err := array(body); err == nil {
			rows := make([]Fields, len(list))
			for i, raw := range list {
				o, _ := Object(raw)
				rows[i] = keep(o)
			}
			kept = rows
		}
		if b, err := json.Marshal(kept); err == nil && kept != nil {
			return b
		}
		return body
	}
}

// KeepOf returns a Part.Reduce that applies Keep to each member of an object.
func KeepOf(names ...string) func(body []byte) []byte {
	keep := Keep(names...)
	return func(body []byte) []byte {
		o, _ := Object(body)
		for name, raw := range o {
			o[name] = keep(raw)
		}
		if b, err := json.Marshal(o); err == nil && o != nil {
			return b
		}
		return body
	}
}

// Fields are the members of a JSON object by name, as raw JSON.
type Fields map[string]json.RawMessage

// Object returns the members of a JSON object. ok is false for anything else.
func Object(raw json.RawMessage) (f Fields, ok bool) {
	if b := bytes.TrimLeft(raw, " \t\r\n"); len(b) == 0 || b[0] != '{' {
		return nil, false
	}
	if json.Unmarshal(raw, (*map[string]json.RawMessage)(&f)) != nil {
		return nil, false
	}
	return f, true
}

// Get returns a member as raw JSON, or nil if it is absent, null or "". Some providers write ""
// instead of null.
func (f Fields) Get(name string) json.RawMessage {
	if raw := f[name]; len(raw) > 0 && raw[0] != 'n' && string(raw) != `""` {
		return raw
	}
	return nil
}

// ID returns the contents of the member "id", as the package function ID does.
func (f Fields) ID() string { return ID(f.Get("id")) }

// ID returns the contents of a string, or an integer as written, and "" for anything else.
func ID(raw json.RawMessage) string {
	if integer.Match(raw) {
		return string(raw)
	}
	return Text(raw)
}

// integer matches a non-negative integer.
var integer = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)

// Text returns a member that is a string, and "" for anything else.
func (f Fields) Text(name string) string { return Text(f.Get(name)) }

// Texts returns the strings in a member that is an array, each once.
func (f Fields) Texts(name string) (texts []string) {
	for _, raw := range f.List(name) {
		if s := Text(raw); s != "" && !slices.Contains(texts, s) {
			texts = append(texts, s)
		}
	}
	return texts
}

// Time parses a time. The value is a string in the format of RFC 3339, or the number of seconds or,
// from 10^11 on, milliseconds since 1970. Time returns the zero time for anything else.
func Time(raw json.RawMessage) time.Time {
	if at, err := source.ParseTime([]byte(Text(raw))); err == nil {
		return at
	}
	whole, _, _ := strings.Cut(string(raw), ".")
	switch n, err := strconv.ParseInt(whole, 10, 64); {
	case err != nil || n <= 0 || n >= 1e14:
		return time.Time{}
	case n >= 1e11:
		return time.UnixMilli(n).UTC()
	default:
		return time.Unix(n, 0).UTC()
	}
}

// Object returns a member that is an object. It returns no fields for anything else.
func (f Fields) Object(name string) Fields {
	o, _ := Object(f.Get(name))
	return o
}

// List returns the elements of a member that is an array, or none for anything else.
func (f Fields) List(name string) []json.RawMessage {
	raw := f.Get(name)
	if raw == nil {
		return nil
	}
	list, _ := array(raw)
	return list
}

// Text returns the value of a JSON string, and "" for anything else. It also returns "" for invalid
// UTF-8 and for an unpaired surrogate, since decoding would change these.
func Text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil || strings.ContainsRune(s, utf8.RuneError) {
		return ""
	}
	return s
}
