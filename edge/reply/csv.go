package reply

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"example.com/marketdata/edge/query"
)

// A table describes how the items of an endpoint become rows (INTERFACE.md, "CSV"). A column has the name
// of a member of an item; a dot separates the names of nested members. Members without a column are left
// out.
type table struct {
	// columns contains the names of all columns. The columns for members of the item come first.
	columns []string
	// list names the member of an item that contains an array. Each array element, itself an array or
	// object, becomes a row, and its columns start at index "from". If list is empty, each item
	// becomes a row.
	list string
	from int
}

// tail is the number of columns that fields=groups adds to /markets.
const tail = 2

var tables = [query.Endpoints]table{
	query.Markets: {columns: []string{"id", "rank", "name", "symbol", "slug", "logo", "price", "market_cap", "volume",
		"percent_change.1h", "percent_change.6h", "percent_change.12h", "percent_change.24h", "percent_change.7d",
		"percent_change.30d", "percent_change.90d", "percent_change.1y", "since",
		"groups.categories", "groups.chains"}},
	query.History: {columns: []string{"id", "name", "symbol", "slug", "time", "price"}, list: "points", from: 4},
	query.Candles: {columns: []string{"id", "name", "symbol", "slug", "time", "open", "high", "low", "close",
		"market_cap", "volume"}, list: "candles", from: 4},
	query.Prices: {columns: []string{"id", "name", "symbol", "slug", "time", "snapshot_time", "price", "market_cap",
		"volume"}, list: "prices", from: 4},
}

// maxColumns is the largest number of columns of a table.
const maxColumns = 20

// cells contains the JSON values of a row, by column. A missing value is nil.
type cells [maxColumns][]byte

// tabulate replaces the items in the body with a table.
func (w *work) tabulate(q *query.Query) error {
	t := tables[q.Endpoint]
	if q.Endpoint == query.Markets && !q.Tails {
		t.columns = t.columns[:len(t.columns)-tail]
	}
	b := w.coded[:0]
	for i, name := range t.columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, name...)
	}
	b = append(b, "\r\n"...)
	for rest := w.finder.Body[len(listStart):]; len(rest) > 0; rest = rest[min(1, len(rest)):] { // skip the comma
		var row cells
		var list []byte
		list, rest = t.take(&row, nil, rest)
		if t.list == "" {
			b = w.appendRow(b, t.columns, &row)
		}
		for len(list) > len("[]") {
			clear(row[t.from:])
			if list[1] == '{' {
				_, list = t.take(&row, nil, list[1:])
			} else {
				list = t.takeArray(&row, list[1:])
			}
			b = w.appendRow(b, t.columns, &row)
		}
	}
	w.coded = b
	// Checksums of rows, if any, are checksums of their JSON and do not identify the table.
	w.finder.Unsummed = true
	w.finder.Body = w.finder.Body[:0]
	if err := w.finder.Grow(len(b)); err != nil {
		return err
	}
	w.finder.Body = append(w.finder.Body, b...)
	return nil
}

// take stores the members of the object at the beginning of b in their columns. It returns the member that
// contains a list of rows, and the rest of b after the object. parent is the name of the member that contains
// the object, or nil for an item or an element of its list.
func (t *table) take(row *cells, parent, b []byte) (list, rest []byte) {
	for b[0] != '}' {
		var name, value []byte
		name, b = cutJSON(b[1:])
		value, b = cutJSON(b[1:])
		name = name[1 : len(name)-1]
		switch {
		case value[0] == '{':
			t.take(row, name, value)
		case t.list != "" && string(name) == t.list:
			list = value
		default:
			is := func(column string) bool { return isNamed(column, parent, name) }
			if i := slices.IndexFunc(t.columns, is); i >= 0 {
				row[i] = value
			}
		}
	}
	return list, b[1:]
}

// isNamed reports whether a column is the column of the member called name. parent is the name of the member
// that contains it, or nil; see take.
func isNamed(column string, parent, name []byte) bool {
	if parent != nil {
		if len(column) <= len(parent) || column[:len(parent)] != string(parent) || column[len(parent)] != '.' {
			return false
		}
		column = column[len(parent)+1:]
	}
	return column == string(name)
}

// takeArray stores the elements of the array at the beginning of b, in the columns from t.from on. It
// returns the rest of b after the array.
func (t *table) takeArray(row *cells, b []byte) (rest []byte) {
	for i := t.from; b[0] != ']'; i++ {
		row[i], b = cutJSON(b[1:])
	}
	return b[1:]
}

// cutJSON cuts off the value at the beginning of b. The JSON comes from the snapshot or from this program and
// contains no white space.
func cutJSON(b []byte) (value, rest []byte) {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case ',', ':', '}', ']':
			if depth == 0 {
				return b[:i], b[i:]
			}
			if b[i] == '}' || b[i] == ']' {
				depth--
			}
		}
	}
}

func (w *work) appendRow(dst []byte, columns []string, row *cells) []byte {
	for i := range columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = w.appendCell(dst, row[i])
	}
	return append(dst, "\r\n"...)
}

// appendCell appends a value as a cell. It appends nothing for null, and separates the strings of a list
// with commas.
func (w *work) appendCell(dst, value []byte) []byte {
	switch {
	case len(value) == 0 || value[0] == 'n':
		return dst
	case value[0] != '"' && value[0] != '[':
		return append(dst, value...)
	}
	w.cells = w.cells[:0]
	if value[0] == '"' {
		w.cells = appendText(w.cells, value)
	} else {
		for rest, n := value, 0; len(rest) > len("]"); n++ {
			if value, rest = cutJSON(rest[1:]); n > 0 {
				w.cells = append(w.cells, ',')
			}
			w.cells = appendText(w.cells, value)
		}
	}
	return AppendCell(dst, w.cells)
}

// appendText appends the text that a JSON string represents.
func appendText(dst, value []byte) []byte {
	if len(value) == 0 { // the element of an empty list
		return dst
	}
	text := value[1 : len(value)-1]
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		c := text[i+1]
		text = text[i+2:]
		if c == 'u' { // \u0000 to \u001f
			dst, _ = hex.AppendDecode(dst, text[2:4])
			text = text[4:]
			continue
		}
		if i = strings.IndexByte("bfnrt", c); i >= 0 {
			c = "\b\f\n\r\t"[i]
		}
		dst = append(dst, c)
	}
}

// AppendCell appends text as a cell in the format of RFC 4180. If a spreadsheet would take the text for a
// formula, and it is not a number, AppendCell puts an apostrophe before it. It quotes text that begins with
// white space, because some programs would trim the space. It also quotes the text \., which marks the end
// of the input for other programs.
func AppendCell(dst, text []byte) []byte {
	formula := len(text) > 0 && strings.IndexByte("=+-@\t\r", text[0]) >= 0 && !isNumber(text)
	first, _ := utf8.DecodeRune(text)
	quoted := bytes.ContainsAny(text, ",\"\r\n") || !formula && (unicode.IsSpace(first) || string(text) == `\.`)
	if quoted {
		dst = append(dst, '"')
	}
	if formula {
		dst = append(dst, '\'')
	}
	if !quoted {
		return append(dst, text...)
	}
	for {
		i := bytes.IndexByte(text, '"')
		if i < 0 {
			return append(append(dst, text...), '"')
		}
		dst, text = append(append(dst, text[:i+1]...), '"'), text[i+1:]
	}
}

// isNumber reports whether text is a decimal as the API writes it: digits, optionally after a minus sign,
// and optionally with a point between digits.
func isNumber(text []byte) bool {
	whole, fraction, pointed := bytes.Cut(bytes.TrimPrefix(text, []byte{'-'}), []byte{'.'})
	return isDigits(whole) && (!pointed || isDigits(fraction))
}

func isDigits(b []byte) bool {
	return len(b) > 0 && !bytes.ContainsFunc(b, func(r rune) bool { return r < '0' || r > '9' })
}
