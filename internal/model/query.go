package model

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxElements is how many elements a csv parameter takes.
const maxElements = 100

// A listing says what an endpoint with pages reads and allows.
type listing struct {
	sorts       []string
	defaultSort string
	descending  bool // direction of the default sort
	symbol      bool // reads symbol
	fields      bool // reads fields
	strict      bool // sizes as /exchanges has them
}

var listings = map[string]listing{
	assets:     {sorts: []string{"id", "name", "symbol", "slug", "rank"}, defaultSort: "id", symbol: true, fields: true},
	quotes:     {sorts: []string{"id", "name", "symbol", "slug"}, defaultSort: "id", symbol: true},
	exchanges:  {sorts: []string{"id", "name", "slug", "volume"}, defaultSort: "id", strict: true},
	categories: {sorts: []string{"id", "name", "slug", "market_cap", "volume_24h"}, defaultSort: "market_cap", descending: true},
	chains:     {sorts: []string{"id", "name", "slug", "market_cap", "volume_24h"}, defaultSort: "market_cap", descending: true},
}

// A query is what was asked of an endpoint with pages.
type query struct {
	filters    []filter
	offsetMode bool
	page, size int64 // page mode
	offset     int64 // offset mode, its limit being size
	sort       string
	descending bool
	links      bool
}

// A filter that was sent: what it asks for, folded, or as numbers.
type filter struct {
	name   string
	ids    map[int64]bool
	values map[string]bool
}

// parameters are those sent, decoded; of a repeated one the first counts, and
// an empty one is the same as none.
type parameters map[string]string

func parseParameters(raw string) parameters {
	first := parameters{}
	for _, pair := range strings.Split(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, value = unescape(name), unescape(value)
		if _, sent := first[name]; !sent {
			first[name] = value
		}
	}
	for name, value := range first {
		if value == "" {
			delete(first, name)
		}
	}
	return first
}

var escape = regexp.MustCompile(`^%[0-9A-Fa-f]{2}`)

// unescape decodes a form-encoded name or value. A percent sign that starts no
// valid escape stands for itself.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b.WriteByte(' ')
		case escape.MatchString(s[i:]):
			c, _ := strconv.ParseUint(s[i+1:i+3], 16, 8)
			b.WriteByte(byte(c))
			i += 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

var integerGrammar = regexp.MustCompile(`^-?[0-9]+$`)

func parseInteger(s string) (int64, bool) {
	if !integerGrammar.MatchString(s) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// parseQuery reads the parameters of an endpoint with pages. The names of the
// parameters at fault are in bad.
func parseQuery(l listing, p parameters) (q query, bad []string) {
	blame := func(name string) { bad = append(bad, name) }
	number := func(name string) (int64, bool) {
		text, sent := p[name]
		if !sent {
			return 0, false
		}
		n, ok := parseInteger(text)
		if !ok {
			blame(name)
		}
		return n, ok
	}

	// Filters.
	if text, sent := p["id"]; sent {
		f := filter{name: "id", ids: map[int64]bool{}}
		elements := strings.Split(text, ",")
		if len(elements) > maxElements {
			blame("id")
		}
		for _, e := range elements {
			if e == "" {
				continue
			}
			n, ok := parseInteger(e)
			if !ok {
				blame("id: element " + strconv.Itoa(i+1) + " ")
				continue
			}
			f.ids[n] = true
		}
		q.filters = append(q.filters, f)
	}
	for _, name := range []string{"slug", "symbol"} {
		text, sent := p[name]
		if !sent || name == "symbol" && !l.symbol {
			continue
		}
		f := filter{name: name, values: map[string]bool{}}
		elements := strings.Split(text, ",")
		if len(elements) > maxElements {
			blame(name)
		}
		for _, e := range elements {
			f.values[Fold(e)] = true
		}
		q.filters = append(q.filters, f)
	}
	if text, sent := p["fields"]; sent && l.fields {
		elements := strings.Split(text, ",")
		if len(elements) > maxElements {
			blame("fields")
		}
		for i, e := range elements {
			if Fold(e) == Fold("links") {
				q.links = true
			}
		}
	}

	// Pages.
	_, page := p["page"]
	_, limit := p["limit"]
	_, offset := p["offset"]
	q.offsetMode = !page && (limit || offset)
	q.page, q.size = 1, 20
	sizeOf := func(name string) int64 {
		n, sent := number(name)
		switch {
		case !sent:
			return 20
		case n > 100, l.strict && n < 1:
			blame(name)
		case n < 1:
			return 20
		}
		return n
	}
	readPage := func() {
		if n, sent := number("page"); sent {
			if q.page = n; n < 1 {
				blame("page")
			}
		}
	}
	readOffset := func() {
		if n, sent := number("offset"); sent {
			if q.offset = n; n < 0 || n > 100000 {
				blame("offset")
			}
		}
	}
	switch {
	case l.strict && q.offsetMode:
		q.size = sizeOf("limit")
		readOffset()
	case l.strict:
		q.size = sizeOf("size")
		readPage()
	default: // everything is checked whatever the mode
		size, limit := sizeOf("size"), sizeOf("limit")
		if q.size = size; q.offsetMode {
			q.size = limit
		}
		readPage()
		readOffset()
	}

	// Order.
	q.sort, q.descending = l.defaultSort, l.descending
	if text, sent := p["sort"]; sent {
		key, direction, directed := strings.Cut(text, ":")
		q.sort, q.descending = Fold(key), Fold(direction) == "desc"
		if !slices.Contains(l.sorts, q.sort) || directed && !slices.Contains([]string{"asc", "desc"}, Fold(direction)) {
			blame("sort")
		}
	}
	return q, bad
}
