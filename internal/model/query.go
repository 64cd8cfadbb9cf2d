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
	for name, values := range allParameters(raw) {
		if values[0] != "" {
			first[name] = values[0]
		}
	}
	return first
}

// allParameters are the values of every name that was sent, in order, decoded.
func allParameters(raw string) map[string][]string {
	all := map[string][]string{}
	for _, pair := range strings.Split(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name = unescape(name)
		all[name] = append(all[name], unescape(value))
	}
	return all
}

// maxIgnored is where X-Ignored is cut, in bytes.
const maxIgnored = 256

// ignored writes X-Ignored: the names of the parameters that had no part in the
// answer.
func ignored(endpoint, raw string) string {
	sent := allParameters(raw)
	empty := func(name string) bool { return len(sent[name]) == 0 || sent[name][0] == "" }
	pageMode := !empty("page") || empty("limit") && empty("offset")
	var names []string
	for name, values := range sent {
		if name == "" || strings.Contains(name, "mdk_live_") {
			continue
		}
		l, isList := listings[endpoint]
		var unread bool
		switch {
		case !isList:
			unread = endpoint == "global" || name != "by"
		case name == "symbol":
			unread = !l.symbol
		case name == "fields":
			unread = !l.fields
		case name == "limit", name == "offset":
			unread = pageMode && values[0] != ""
		case name == "page", name == "size":
			unread = !pageMode && values[0] != ""
		default:
			unread = !slices.Contains([]string{"id", "slug", "sort"}, name)
		}
		if unread || len(values) > 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	header := ""
	for i, name := range names {
		next := percentEncode(name)
		if i > 0 {
			next = header + "," + next
		}
		if len(next) > maxIgnored {
			break
		}
		header = next
	}
	return header
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
		for i, e := range elements {
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
		for _, e := range elements {
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
