package source

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Table turns the rows of a CSV file or of a query into lines of a feed file (FEED.md, "Tables"). A
// column has the name of its field, such as market.volume_24h for a field in an object.
type Table struct {
	columns []column // sorted, so that columns of the same object are adjacent
}

type column struct {
	name, object, field string // object is "" if the field is not in an object
	index               int    // column index in the table
}

// maxColumns is the maximum number of columns. No feed file has so many fields.
const maxColumns = 1000

// NewTable returns a table for a feed file. names are the column names, in order. NewTable returns
// an error if there is no key column (code for rates), if two columns provide the same field, or if
// quotes have no price column, without which no row could be accepted. It ignores columns without a
// name.
func NewTable(file string, names []string) (*Table, error) {
	needed := []string{"key"}
	switch file {
	case QuotesFile:
		needed = []string{"key", "price"}
	case RatesFile:
		needed = []string{"code"}
	}
	t := &Table{}
	if len(names) > maxColumns {
		return nil, fmt.Errorf("%d columns: want at most %d", len(names), maxColumns)
	}
	for i, name := range names {
		object, field, dotted := strings.Cut(name, ".")
		if !dotted {
			object, field = "", name
		}
		if slices.Contains(names[:i], name) && name != "" || dotted && slices.Contains(names, object) {
			return nil, fmt.Errorf("the column %q gives a field for the second time", shorten([]byte(name)))
		}
		if name != "" {
			t.columns = append(t.columns, column{name, object, field, i})
		}
	}
	for _, name := range needed {
		if slices.Contains(names, name) {
			continue
		}
		hint := meantBy(name, names)
		if len(names) == 1 && strings.ContainsAny(names[0], ";\t") {
			hint = "want commas between them"
		}
		return nil, fmt.Errorf("no column is named %s; the columns are %q%s", name,
			shorten([]byte(strings.Join(names, ", "))), strings.TrimSuffix("; "+hint, "; "))
	}
	slices.SortFunc(t.columns, func(a, b column) int { return cmp.Compare(a.name, b.name) })
	return t, nil
}

// AppendLine appends a row as a line of the feed file. values are JSON, in the order of the names
// that NewTable received. A nil value omits the field.
func (t *Table) AppendLine(dst []byte, values [][]byte) []byte {
	dst = append(dst, '{')
	within := ""
	for _, c := range t.columns {
		if values[c.index] == nil {
			continue
		}
		if c.object != within {
			if within != "" {
				dst = append(dst, '}')
			}
			if within = c.object; within != "" {
				dst = append(appendName(dst, within), '{')
			}
		}
		dst = append(appendName(dst, c.field), values[c.index]...)
	}
	if within != "" {
		dst = append(dst, '}')
	}
	return append(dst, '}', '\n')
}

func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(dst, quoted(name)...), ':')
}

// quoted returns a string, or an array of strings, as JSON. Strings must be valid UTF-8.
func quoted[T string | []string](texts T) []byte {
	b, err := json.Marshal(texts)
	if err != nil {
		panic(fmt.Sprintf("BUG: a text that cannot be JSON: %v", err))
	}
	return b
}

// Results is an in-memory feed that consists of query results, one per file.
type Results struct {
	Memory
	// Columns has the column names of each file, and Names the name by which messages refer to it.
	// Others lists the files in the queries' folder.
	Columns map[string][]string
	Names   map[string]string
	Others  []string
}

func (r Results) list() []string { return r.Others }

// Shown returns the name by which messages refer to a file.
func (r Results) Shown(name string) string { return cmp.Or(r.Names[name], name) }

// Open implements Files.
func (r Results) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	f, err := r.Memory.Open(ctx, name)
	if err != nil || r.Columns[name] == nil {
		return f, err
	}
	return result{f.(sizedReader), r.Columns[name]}, nil
}

type result struct {
	sizedReader
	names []string
}

func (r result) Columns() (names []string, header int) { return r.names, 0 }

// integerForm matches the integers in a feed.
var integerForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// listSeparator separates the elements of a list in a cell.
const listSeparator = "|"

// Value converts the text of a cell to JSON of the field's type. If it cannot, it returns a JSON
// string, which the feed reader then judges. text must be valid UTF-8.
func Value(column string, text []byte) []byte {
	switch column {
	case "id", "evm_chain_id", "market.markets_count", "market.coins_count":
		if integerForm.Match(text) {
			return bytes.Clone(text)
		}
	case "active":
		if b, err := strconv.ParseBool(string(text)); err == nil {
			return strconv.AppendBool(nil, b)
		}
	case "explorers", "members":
		return List(strings.Split(string(text), listSeparator))
	}
	return quoted(string(text))
}

// List returns strings as a JSON array. texts must not be nil, and its strings must be valid UTF-8.
func List(texts []string) []byte { return quoted(texts) }
