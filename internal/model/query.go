package model

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	maxElements = 100 // of a csv parameter
	defaultSize = 20
	maxSize     = 100
	maxOffset   = 100_000
)

// A listing says what an endpoint with pages reads and allows.
type listing struct {
	sorts       []string
	defaultSort string
	descending  bool   // direction of the default sort
	symbol      bool   // reads symbol
	groups      bool   // reads category and chain
	field       string // that fields may add, "" where it is not read
	strict      bool   // sizes as /exchanges has them
	history     bool   // as /history: does not read sort, needs a filter
	most        int64  // rows of a page, maxSize when 0
	usual       int64  // rows of a page that nobody asked for, defaultSize when 0
}

var listings = map[string]listing{
	assets: {
		sorts: []string{"id", "name", "symbol", "slug", "rank"}, defaultSort: "id", symbol: true, field: "links"},
	quotes:    {sorts: []string{"id", "name", "symbol", "slug"}, defaultSort: "id", symbol: true},
	exchanges: {sorts: []string{"id", "name", "slug", "volume"}, defaultSort: "id", strict: true},
	categories: {
		sorts: []string{"id", "name", "slug", "market_cap", "volume_24h"}, defaultSort: "market_cap", descending: true},
	chains: {
		sorts: []string{"id", "name", "slug", "market_cap", "volume_24h"}, defaultSort: "market_cap", descending: true},
	history: {defaultSort: "id", symbol: true, history: true, most: 20},
	candles: {defaultSort: "id", symbol: true, history: true, most: 20},
	prices:  {defaultSort: "id", symbol: true, history: true, usual: 100},
	changes: {defaultSort: "id"},
	markets: {
		sorts: []string{"rank", "market_cap", "volume", "price", "percent_change.1h", "percent_change.24h",
			"percent_change.7d", "percent_change.30d", "id", "name", "symbol", "slug"},
		defaultSort: "rank", symbol: true, groups: true, field: "groups"},
}

// SortKeys are the sort keys of an endpoint (INTERFACE.md, "Sorting").
func SortKeys(endpoint string) []string { return listings[endpoint].sorts }

// Prefix is the path of all endpoints.
const Prefix = "/openapi/v1/"

// A Query is what a request asks for.
type Query struct {
	// Endpoint is assets, quotes, exchanges, categories, chains, history, markets, changes, search,
	// trending or global. The fields below but Ignored and Text are of the first seven.
	Endpoint string
	CSV      bool     // the answer is a table
	Filters  []Filter // that were sent, in the order id, slug, symbol, category, chain
	Sort     string
	Desc     bool
	Page     int64 // the page that is answered: Size rows from Offset on
	Offset   int64 // at most the largest int64
	Size     int64
	Tails    bool   // fields=links, or fields=groups of markets
	Window   string // of history
	Interval string // of candles, as are From and To, in Unix seconds
	From, To int64
	HasFrom  bool    // From was sent
	HasTo    bool    // To was sent
	Times    []int64 // of prices, in Unix seconds
	Text     string  // of search: q, folded
	Since    int64   // of changes, in Unix seconds
	HasSince bool    // Since was sent
	// Collections and Kinds are those that changes may be of; nil: all.
	Collections, Kinds []string
	Ignored            string // value of X-Ignored, "" for none
}

// A Filter is what one parameter asks for: a row that has any of the values
// passes. They are folded, ids in their shortest form, each once, in the order
// of X-Not-Found.
type Filter struct {
	Name   string
	Values []string
}

type parameters map[string]string

// Parameters are those sent, decoded. A list that is sent several times, as
// name, name[] or name[1], is one list of all its values. Of another repeated
// parameter the first counts. An empty one is the same as none.
func Parameters(raw string, lists ...string) map[string]string {
	sent := map[string]string{}
	for name, values := range AllParameters(raw, lists) {
		if slices.Contains(lists, name) {
			values = []string{strings.Join(slices.DeleteFunc(values, func(v string) bool { return v == "" }), ",")}
		}
		if values[0] != "" {
			sent[name] = values[0]
		}
	}
	return sent
}

// csv are the parameters below Prefix that take lists.
var csv = []string{"id", "symbol", "slug", "category", "chain", "fields", "time", "collection", "kind"}

var indexed = regexp.MustCompile(`(?s)^(.*)\[[0-9]*\]$`)

// AllParameters are the values of every name that was sent, in order, decoded.
func AllParameters(raw string, lists []string) map[string][]string {
	all := map[string][]string{}
	for _, pair := range strings.Split(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name = Unescape(name)
		if m := indexed.FindStringSubmatch(name); m != nil && slices.Contains(lists, m[1]) {
			name = m[1]
		}
		all[name] = append(all[name], Unescape(value))
	}
	return all
}

// reads reports whether an endpoint reads a parameter, in one of its paging modes at least.
func reads(endpoint, name string) bool {
	l, isList := listings[endpoint]
	if !isList {
		return map[string]string{trending: "by", search: "q"}[endpoint] == name
	}
	switch name {
	case "symbol":
		return l.symbol
	case "fields":
		return l.field != ""
	case "category", "chain":
		return l.groups
	case "window":
		return endpoint == history
	case "interval", "from", "to":
		return endpoint == candles
	case "time":
		return endpoint == prices
	case "since", "collection", "kind":
		return endpoint == changes
	case "id", "slug":
		return endpoint != changes
	case "sort":
		return len(l.sorts) > 0
	}
	return slices.Contains([]string{"page", "size", "limit", "offset"}, name)
}

// maxIgnored is where X-Ignored is cut, in bytes.
const maxIgnored = 256

// ignored writes X-Ignored: the names of the parameters that had no part in the
// answer.
func ignored(endpoint, raw string, table bool) string {
	lists := slices.DeleteFunc(slices.Clone(csv), func(name string) bool { return !reads(endpoint, name) })
	sent := AllParameters(raw, lists)
	empty := func(name string) bool { return len(sent[name]) == 0 || sent[name][0] == "" }
	pageMode := !empty("page") || empty("limit") && empty("offset")
	var names []string
	for name, values := range sent {
		if name == "" || strings.Contains(name, "mdk_live_") {
			continue
		}
		unread := !reads(endpoint, name) && (!table || name != "key")
		switch {
		case unread:
		case name == "limit", name == "offset":
			unread = pageMode && values[0] != ""
		case name == "page", name == "size":
			unread = !pageMode && values[0] != ""
		}
		if unread || len(values) > 1 && !slices.Contains(lists, name) {
			names = append(names, name)
		}
	}
	return NameIgnored(names)
}

// NameIgnored writes the value of X-Ignored, without what may be a key.
func NameIgnored(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	header := ""
	for i, name := range names {
		next := PercentEncode(name)
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
func Unescape(s string) string {
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

// Integer reads a whole number as parameters write it.
func Integer(s string) (int64, bool) {
	if !integerGrammar.MatchString(s) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// parse reads the parameters of an endpoint with pages, and returns the names of
// those at fault.
func (q *Query) parse(l listing, p parameters) (bad []string) {
	r := &parser{parameters: p}
	if q.Endpoint == changes {
		q.Sort = l.defaultSort
		q.parseChanges(r)
		q.parsePage(l, r)
		return r.bad
	}
	q.parseFilters(l, r)
	if l.history {
		if len(q.Filters) == 0 {
			r.bad = append(r.bad, "id", "slug", "symbol")
		}
	}
	if q.Endpoint == history {
		if q.Window = Fold(p["window"]); q.Window == "" {
			q.Window = defaultWindow
		}
		if FindWindow(q.Window) == nil && q.Window != windowMax {
			r.blame("window")
		}
	}
	q.parsePage(l, r)
	if q.Endpoint == candles || q.Endpoint == prices {
		q.parsePast(r)
	}

	q.Sort, q.Desc = l.defaultSort, l.descending
	if text, sent := p["sort"]; sent && !l.history {
		key, direction, directed := strings.Cut(text, ":")
		q.Sort, q.Desc = Fold(key), Fold(direction) == "desc"
		// INTERFACE.md, "Markets": figures descend by themselves.
		texts := []string{"rank", "id", "name", "symbol", "slug"}
		if !directed && q.Endpoint == markets && !slices.Contains(texts, q.Sort) {
			q.Desc = true
		}
		if !slices.Contains(l.sorts, q.Sort) || directed && !slices.Contains([]string{"asc", "desc"}, Fold(direction)) {
			r.blame("sort")
		}
	}
	return r.bad
}

// parser reads parameters and collects the names of the bad ones.
type parser struct {
	parameters
	bad []string
}

func (r *parser) blame(name string) { r.bad = append(r.bad, name) }

func (r *parser) sent(name string) bool {
	_, sent := r.parameters[name]
	return sent
}

func (r *parser) number(name string, missing int64) int64 {
	if !r.sent(name) {
		return missing
	}
	n, ok := Integer(r.parameters[name])
	if !ok {
		r.blame(name)
	}
	return n
}

func (r *parser) elements(name string) []string {
	all := strings.Split(r.parameters[name], ",")
	if len(all) > maxElements {
		r.blame(name)
	}
	return all
}

func (q *Query) parseFilters(l listing, r *parser) {
	if r.sent("id") {
		var ids []int64
		for i, e := range r.elements("id") {
			n, ok := Integer(e)
			switch {
			case ok:
				ids = append(ids, n)
			case e != "":
				r.blame("id: element " + strconv.Itoa(i+1) + " ")
			}
		}
		slices.Sort(ids)
		f := Filter{Name: "id"}
		for _, id := range slices.Compact(ids) {
			f.Values = append(f.Values, integer(id))
		}
		q.Filters = append(q.Filters, f)
	}
	for _, name := range []string{"slug", "symbol", "category", "chain"} {
		if !r.sent(name) || name == "symbol" && !l.symbol || (name == "category" || name == "chain") && !l.groups {
			continue
		}
		values := r.elements(name)
		for i, e := range values {
			values[i] = Fold(e)
		}
		slices.Sort(values)
		q.Filters = append(q.Filters, Filter{name, slices.Compact(values)})
	}
	if r.sent("fields") && l.field != "" {
		q.Tails = slices.ContainsFunc(r.elements("fields"), func(e string) bool { return Fold(e) == l.field })
	}
}

// parsePage checks every parameter of paging, whatever the mode, where sizes are not strict.
func (q *Query) parsePage(l listing, r *parser) {
	offsetMode := !r.sent("page") && (r.sent("limit") || r.sent("offset"))
	size := func(name string) int64 {
		usual := cmp.Or(l.usual, defaultSize)
		n := r.number(name, usual)
		switch {
		case n > cmp.Or(l.most, maxSize), l.strict && n < 1:
			r.blame(name)
		case n < 1:
			return usual
		}
		return n
	}
	if !offsetMode || !l.strict {
		q.Size = size("size")
		if q.Page = r.number("page", 1); q.Page < 1 {
			r.blame("page")
		}
		if q.Offset = math.MaxInt64; len(r.bad) == 0 && q.Page-1 <= math.MaxInt64/q.Size {
			q.Offset = (q.Page - 1) * q.Size
		}
	}
	if offsetMode || !l.strict {
		limit, offset := size("limit"), r.number("offset", 0)
		if offset < 0 || offset > maxOffset {
			r.blame("offset")
		}
		if offsetMode && len(r.bad) == 0 {
			q.Size, q.Offset, q.Page = limit, offset, offset/limit+1
		}
	}
}
