package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Prefix is the path that all endpoints stand under.
const Prefix = "/openapi/v1/"

// Query is a request's parameters, read as INTERFACE.md, "Parameters" says.
type Query struct {
	// Endpoint is assets, quotes, trending, exchanges, global, categories or
	// chains.
	Endpoint string
	// Filters are the filters that were sent, by name (id, slug, symbol):
	// values folded, ids in their shortest decimal form. Empty values are left
	// out; a filter without any value matches nothing.
	Filters map[string][]string
	// EmptyValue: slug or symbol had an empty element.
	EmptyValue bool
	Sort       string
	Desc       bool
	// Page is the page that is answered; Offset and Size say which rows.
	// Offset is at most the largest int64.
	Page, Offset, Size int64
	Links              bool // fields=links
	// Ignored is the X-Ignored header (INTERFACE.md, "Ignored parameters"), ""
	// for none.
	Ignored string
}

// Refusal is an answer that is an error.
type Refusal struct {
	Status int
	Code   int
	Key    string // message_key
	Why    string // for people
}

func badRequest(format string, args ...any) *Refusal {
	return &Refusal{400, 40000, "BAD_REQUEST", fmt.Sprintf(format, args...)}
}

const (
	maxValues   = 100
	maxSize     = 100
	defaultSize = 20
	maxOffset   = 100000
)

// sortKeys are the sort keys of each list, the default first.
var sortKeys = map[string][]string{
	"assets":     {"id", "name", "symbol", "slug", "rank"},
	"quotes":     {"id", "name", "symbol", "slug"},
	"exchanges":  {"id", "name", "slug", "volume"},
	"categories": {"market_cap", "id", "name", "slug", "volume_24h"},
	"chains":     {"market_cap", "id", "name", "slug", "volume_24h"},
}

// Parse reads a request's path and query. The refusal is nil when the request
// gets an answer.
func Parse(path, rawQuery string) (*Query, *Refusal) {
	endpoint, ok := strings.CutPrefix(path, Prefix)
	if !ok || endpoint != "global" && endpoint != "trending" && sortKeys[endpoint] == nil {
		return nil, &Refusal{404, 40401, "PATH_NOT_FOUND", "unknown path"}
	}
	q := &Query{Endpoint: endpoint, Ignored: ignored(endpoint, rawQuery)}
	params := parseForm(rawQuery)
	switch endpoint {
	case "global":
		return q, nil
	case "trending":
		by := strings.Trim(params["by"], " \t\n\v\f\r")
		if by != "" && Fold(by) != "gainers" {
			return nil, badRequest("by is %q", by)
		}
		return q, nil
	}
	for _, read := range []func(map[string]string) *Refusal{q.filters, q.fields, q.paging, q.sorting} {
		if r := read(params); r != nil {
			return nil, r
		}
	}
	return q, nil
}

// parseForm reads application/x-www-form-urlencoded text. Of a repeated name
// the first value counts.
func parseForm(s string) map[string]string {
	form := map[string]string{}
	for pair := range strings.SplitSeq(s, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name = unescape(name)
		if _, ok := form[name]; !ok {
			form[name] = unescape(value)
		}
	}
	return form
}

// maxIgnored bounds the X-Ignored header.
const maxIgnored = 256

// reads are the parameters that each endpoint reads, in either paging mode.
var reads = func() map[string][]string {
	m := map[string][]string{"global": nil, "trending": {"by"}}
	for endpoint := range sortKeys {
		m[endpoint] = []string{"id", "slug", "page", "size", "limit", "offset", "sort"}
	}
	m["assets"] = append(m["assets"], "symbol", "fields")
	m["quotes"] = append(m["quotes"], "symbol")
	return m
}()

// ignored returns the names of the parameters that have no part in the answer.
func ignored(endpoint, rawQuery string) string {
	first := parseForm(rawQuery)
	byPage := first["page"] != "" || first["limit"] == "" && first["offset"] == ""
	otherMode := map[string]bool{"limit": byPage, "offset": byPage, "page": !byPage, "size": !byPage}
	known, seen := reads[endpoint], map[string]bool{}
	var names []string
	for pair := range strings.SplitSeq(rawQuery, "&") {
		name, _, _ := strings.Cut(pair, "=")
		name = unescape(name)
		if seen[name] || !slices.Contains(known, name) || otherMode[name] && first[name] != "" {
			names = append(names, name)
		}
		seen[name] = true
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range slices.Compact(names) {
		if name == "" || strings.Contains(name, "mdk_live_") {
			continue
		}
		piece := percentEncode(name)
		if b.Len() > 0 {
			piece = "," + piece
		}
		if b.Len()+len(piece) > maxIgnored {
			break
		}
		b.WriteString(piece)
	}
	return b.String()
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b.WriteByte(' ')
		case s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				panic("BUG: " + err.Error())
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// integer reads a parameter that is an integer; sent is false when it is
// missing or empty.
func integer(params map[string]string, name string) (n int64, sent bool, r *Refusal) {
	s := params[name]
	if s == "" {
		return 0, false, nil
	}
	n, ok := parseInt(s)
	if !ok {
		return 0, true, badRequest("%s is %q, no integer", name, s)
	}
	return n, true, nil
}

func parseInt(s string) (int64, bool) {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func (q *Query) filters(params map[string]string) *Refusal {
	q.Filters = map[string][]string{}
	for _, name := range []string{"id", "slug", "symbol"} {
		s := params[name]
		if s == "" || name == "symbol" && q.Endpoint != "assets" && q.Endpoint != "quotes" {
			continue
		}
		parts := strings.Split(s, ",")
		if len(parts) > maxValues {
			return badRequest("%s has %d values", name, len(parts))
		}
		values := []string{}
		for _, v := range parts {
			switch {
			case v == "":
				q.EmptyValue = q.EmptyValue || name != "id"
				continue
			case name == "id":
				n, ok := parseInt(v)
				if !ok {
					return badRequest("id has %q, no integer", v)
				}
				v = strconv.FormatInt(n, 10)
			default:
				v = Fold(v)
			}
			if !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		q.Filters[name] = values
	}
	return nil
}

func (q *Query) fields(params map[string]string) *Refusal {
	s := params["fields"]
	if q.Endpoint != "assets" || s == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	if len(parts) > maxValues {
		return badRequest("fields has %d values", len(parts))
	}
	for _, v := range parts {
		q.Links = q.Links || Fold(v) == "links"
	}
	return nil
}

func (q *Query) paging(params map[string]string) *Refusal {
	strict := q.Endpoint == "exchanges" // reads only the mode in force, and bounds sizes from below
	byPage := params["page"] != "" || params["limit"] == "" && params["offset"] == ""
	size := func(name string) (int64, *Refusal) {
		n, sent, r := integer(params, name)
		switch {
		case r != nil:
			return 0, r
		case !sent:
			return defaultSize, nil
		case n > maxSize, strict && n < 1:
			return 0, badRequest("%s is %d", name, n)
		case n < 1:
			return defaultSize, nil
		}
		return n, nil
	}
	var r *Refusal
	var limit, offset, page int64 = 0, 0, 1
	if byPage || !strict {
		if q.Size, r = size("size"); r != nil {
			return r
		}
	}
	if !byPage || !strict {
		if limit, r = size("limit"); r != nil {
			return r
		}
		if offset, _, r = integer(params, "offset"); r != nil {
			return r
		}
		if offset < 0 || offset > maxOffset {
			return badRequest("offset is %d", offset)
		}
	}
	if !byPage {
		q.Size, q.Offset, q.Page = limit, offset, offset/limit+1
		return nil
	}
	if n, sent, r := integer(params, "page"); r != nil {
		return r
	} else if sent {
		page = n
	}
	if page < 1 {
		return badRequest("page is %d", page)
	}
	q.Page = page
	// No listing has so many rows; beyond, the product would overflow.
	q.Offset = min(page-1, 1<<53) * q.Size
	return nil
}

func (q *Query) sorting(params map[string]string) *Refusal {
	keys := sortKeys[q.Endpoint]
	s := params["sort"]
	if s == "" {
		q.Sort, q.Desc = keys[0], keys[0] == "market_cap"
		return nil
	}
	key, direction, directed := strings.Cut(Fold(s), ":")
	if !slices.Contains(keys, key) || directed && direction != "asc" && direction != "desc" {
		return badRequest("sort is %q", s)
	}
	q.Sort, q.Desc = key, direction == "desc"
	return nil
}
