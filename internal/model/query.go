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
	maxElements = 100 // in a parameter whose value is a list
	defaultSize = 20
	maxSize     = 100
	maxOffset   = 100_000
)

// A listing describes which parameters a paginated endpoint reads, and which values it allows.
type listing struct {
	sorts       []string
	defaultSort string
	descending  bool   // whether the default sort is descending
	symbol      bool   // whether it reads the parameter "symbol"
	groups      bool   // whether it reads the parameters "category" and "chain"
	field       string // the value that the parameter "fields" accepts, or "" if the endpoint does not read it
	strict      bool   // whether sizes follow the rules of /exchanges
	history     bool   // whether it ignores the parameter "sort" and needs a filter, as /history does
	most        int64  // maximum number of rows on a page; 0 means maxSize
	usual       int64  // default number of rows on a page; 0 means defaultSize
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

// SortKeys returns the sort keys of an endpoint (INTERFACE.md, "Sorting").
func SortKeys(endpoint string) []string { return listings[endpoint].sorts }

// Prefix is the prefix of the paths of all endpoints.
const Prefix = "/openapi/v1/"

// A Query is a parsed request.
type Query struct {
	// Endpoint is assets, quotes, exchanges, categories, chains, history, markets, changes, search,
	// trending or global. Except for Ignored and Text, the following fields apply only to endpoints
	// with pages.
	Endpoint string
	CSV      bool     // whether the answer is a table
	Filters  []Filter // the filters in the request, in the order id, slug, symbol, category, chain
	Sort     string
	Desc     bool
	Page     int64 // the page of the answer: Size rows from Offset on
	Offset   int64 // at most the largest int64
	Size     int64
	Tails    bool   // whether fields=links, or for markets fields=groups, is set
	Window   string // for history
	Interval string // for candles, like From and To, which are Unix seconds
	From, To int64
	HasFrom  bool    // whether the parameter "from" was sent
	HasTo    bool    // whether the parameter "to" was sent
	Times    []int64 // for prices, in Unix seconds
	Text     string  // for search: the parameter "q", folded
	Since    int64   // for changes, in Unix seconds
	HasSince bool    // whether the parameter "since" was sent
	// Collections and Kinds restrict changes; nil means all.
	Collections, Kinds []string
	Ignored            string // the value of X-Ignored, or "" if the header is absent
}

// A Filter is the condition of one parameter. A row passes if it has any of the values. The values
// are folded, ids are in their shortest form, and each appears once, in the order of X-Not-Found.
type Filter struct {
	Name   string
	Values []string
}

type parameters map[string]string

// Parameters returns the decoded parameters of a query string. A list that is sent several times,
// as name, name[] or name[1], is one list with all of the values. For any other repeated parameter,
// the first one counts. An empty value counts as not sent.
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

// csv lists the parameters below Prefix whose values are lists.
var csv = []string{"id", "symbol", "slug", "category", "chain", "fields", "time", "collection", "kind"}

var indexed = regexp.MustCompile(`(?s)^(.*)\[[0-9]*\]$`)

// AllParameters returns the decoded values of every name in the query string, in order.
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

// reads reports whether an endpoint reads a parameter in at least one of its paging modes.
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

// maxIgnored is the maximum length of the X-Ignored header, in bytes.
const maxIgnored = 256

// ignored returns the value of X-Ignored: the names of the parameters that had no effect on the
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

// NameIgnored formats the value of X-Ignored. It leaves out names that may contain a key.
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

// Unescape decodes a form-encoded name or value. A percent sign that does not begin a valid escape
// is literal.
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

// Integer parses a whole number in the syntax of parameters.
func Integer(s string) (int64, bool) {
	if !integerGrammar.MatchString(s) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// parse parses the parameters of an endpoint with pages and returns the names of invalid ones.
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
		// INTERFACE.md, "Markets": figures are sorted in descending order by default.
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

// parser parses parameters and collects the names of invalid ones.
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

// parsePage parses the paging parameters. Unless the listing is strict, it checks the parameters
// of both paging modes, whichever mode applies.
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
