package query

import (
	"bytes"
	"math"
	"slices"
	"time"
)

var (
	comma     = []byte{','}
	colon     = []byte{':'}
	blank     = []byte{' '}
	ampersand = []byte{'&'}
	equals    = []byte{'='}
)

// The parameters of all endpoints.
const (
	paramID = iota
	paramSymbol
	paramSlug
	paramCategory
	paramChain
	paramPage
	paramSize
	paramLimit
	paramOffset
	paramSort
	paramFields
	paramBy
	paramWindow
	paramQ
	paramInterval
	paramFrom
	paramTo
	paramTime
	paramKey
	paramSince
	paramCollection
	paramKind
	paramCount
)

// paramNames are the names of the parameters, in the order of the constants.
var paramNames = [paramCount][]byte{
	[]byte("id"), []byte("symbol"), []byte("slug"), []byte("category"), []byte("chain"),
	[]byte("page"), []byte("size"), []byte("limit"), []byte("offset"), []byte("sort"), []byte("fields"),
	[]byte("by"), []byte("window"), []byte("q"), []byte("interval"), []byte("from"), []byte("to"), []byte("time"),
	[]byte("key"),
	[]byte("since"), []byte("collection"), []byte("kind"),
}

// paramSet is a set of parameters, with bit i for parameter i.
type paramSet uint32

func setOf(params ...int) (set paramSet) {
	for _, i := range params {
		set |= 1 << i
	}
	return set
}

func (s paramSet) has(i int) bool { return s&(1<<i) != 0 }

// lists are the parameters that take a list. If such a parameter is repeated, its values form one list
// (INTERFACE.md, "Parameters").
var lists = setOf(paramID, paramSymbol, paramSlug, paramCategory, paramChain, paramFields, paramTime,
	paramCollection, paramKind)

func paramOf(name []byte) (int, bool) {
	switch string(name) {
	case "id":
		return paramID, true
	case "symbol":
		return paramSymbol, true
	case "slug":
		return paramSlug, true
	case "category":
		return paramCategory, true
	case "chain":
		return paramChain, true
	case "page":
		return paramPage, true
	case "size":
		return paramSize, true
	case "limit":
		return paramLimit, true
	case "offset":
		return paramOffset, true
	case "sort":
		return paramSort, true
	case "fields":
		return paramFields, true
	case "by":
		return paramBy, true
	case "window":
		return paramWindow, true
	case "q":
		return paramQ, true
	case "interval":
		return paramInterval, true
	case "from":
		return paramFrom, true
	case "to":
		return paramTo, true
	case "time":
		return paramTime, true
	case "key":
		return paramKey, true
	case "since":
		return paramSince, true
	case "collection":
		return paramCollection, true
	case "kind":
		return paramKind, true
	}
	return 0, false
}

// params contains the values of the parameters that the endpoint reads, still escaped. It contains the first
// value of a scalar, and all values of a list joined with commas. An empty value means that the parameter
// was not sent, even if a later value of a scalar is not empty.
type params struct {
	value    [paramCount][]byte
	seen     paramSet
	repeated paramSet // lists that were sent in several parts
	ignored  paramSet // parameters without effect: repeated scalars, and parameters of the other paging mode
}

// drop records that the paging mode ignores these parameters. Empty parameters count as not sent, so it skips
// them.
func (p *params) drop(list ...int) {
	for _, i := range list {
		if len(p.value[i]) > 0 {
			p.ignored |= 1 << i
		}
	}
}

// Cut returns the first pair of an application/x-www-form-urlencoded query, and the rest of the query. Only &
// separates pairs. The first = of a pair separates name and value.
func Cut(query []byte) (name, value, rest []byte) {
	pair, rest, _ := bytes.Cut(query, ampersand)
	name, value, _ = bytes.Cut(pair, equals)
	return name, value, rest
}

// ListName returns the list that a decoded name belongs to. Many HTTP libraries write the names of a list's
// parts as name[] or name[n], where n consists of digits.
func ListName(name []byte) (list []byte, ok bool) {
	open := bytes.IndexByte(name, '[')
	if open < 0 || name[len(name)-1] != ']' {
		return nil, false
	}
	for _, c := range name[open+1 : len(name)-1] {
		if c < '0' || c > '9' {
			return nil, false
		}
	}
	return name[:open], true
}

// param returns the number of the parameter with a decoded name, and whether the endpoint reads it.
func (q *Query) param(name []byte) (int, bool) {
	i, ok := paramOf(name)
	if !ok {
		if list, isList := ListName(name); isList {
			i, ok = paramOf(list)
			ok = ok && lists.has(i)
		}
	}
	return i, ok && (endpoints[q.Endpoint].reads.has(i) || q.CSV && i == paramKey)
}

// split finds the values of the parameters in a query. It adds the names of unknown parameters to q.Ignored.
func (q *Query) split(p *params, query []byte) {
	for rest := query; len(rest) > 0; {
		var name, value []byte
		if name, value, rest = Cut(rest); len(name) == 0 {
			continue
		}
		start := len(q.buf)
		name = q.unescape(name)
		switch i, ok := q.param(name); {
		case !ok:
			if len(q.buf) == start {
				q.buf = append(q.buf, name...)
			}
			if q.Ignored.Add(q.buf[start:]) {
				continue
			}
		case lists.has(i) && len(value) == 0: // an empty value counts as not sent
		case lists.has(i) && p.seen.has(i):
			p.repeated |= 1 << i
		case p.seen.has(i):
			p.ignored |= 1 << i
		default:
			p.seen |= 1 << i
			p.value[i] = value
		}
		q.buf = q.buf[:start]
	}
	if p.repeated != 0 {
		q.buf = slices.Grow(q.buf, 2*len(query)) // room to join and unescape the lists
		for i := range paramCount {
			if p.repeated.has(i) {
				p.value[i] = q.join(i, query)
			}
		}
	}
}

// join returns all values of a list that was sent in parts, in the order sent, still escaped.
func (q *Query) join(list int, query []byte) []byte {
	start := len(q.buf)
	for len(query) > 0 {
		var name, value []byte
		if name, value, query = Cut(query); len(name) == 0 || len(value) == 0 {
			continue
		}
		end := len(q.buf)
		i, ok := q.param(q.unescape(name))
		if q.buf = q.buf[:end]; !ok || i != list {
			continue
		}
		if end > start {
			q.buf = append(q.buf, ',')
		}
		q.buf = append(q.buf, value...)
	}
	return q.buf[start:]
}

func escaped(b []byte) bool {
	return bytes.IndexByte(b, '%') >= 0 || bytes.IndexByte(b, '+') >= 0
}

// AppendUnescaped appends b, with each + replaced with a space and each valid %xx with the byte that it
// encodes. Any other % stands for itself. The result is not longer than b.
func AppendUnescaped(dst, b []byte) []byte {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '+':
			dst = append(dst, ' ')
		case '%':
			if i+2 < len(b) {
				if hi, lo := unhex(b[i+1]), unhex(b[i+2]); hi|lo < 16 {
					dst = append(dst, hi<<4|lo)
					i += 2
					continue
				}
			}
			dst = append(dst, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// plain contains the bytes that AppendEscaped does not escape: the unreserved characters of RFC 3986.
var plain = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") {
		set[c] = true
	}
	return set
}()

// AppendEscaped appends b, percent-encoding all bytes except unreserved characters. It uses upper-case
// hexadecimal digits.
func AppendEscaped(dst, b []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range b {
		if plain[c] {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

// escapedLen returns the number of bytes that AppendEscaped appends.
func escapedLen(b []byte) int {
	n := 3 * len(b)
	for _, c := range b {
		if plain[c] {
			n -= 2
		}
	}
	return n
}

// unhex returns the value of a hexadecimal digit, or 255.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

// ParseTime parses an RFC 3339 time, in any time zone and with or without fractional seconds, and returns
// it in UTC. The seconds may be missing, because Java omits them if they are zero.
func ParseTime(text []byte) (t time.Time, ok bool) {
	const minute, second = "2006-01-02T15:04", "2006-01-02T15:04:05"
	var whole [48]byte
	if len(text) <= len(minute) || len(text) > len(whole)-len(":00") {
		return t, false
	}
	b := append(whole[:0], text[:len(minute)]...)
	if c := &b[len("2006-01-02")]; *c == 't' || *c == ' ' { // the RFC permits both instead of T
		*c = 'T'
	}
	if c := text[len(minute)]; c != ':' && c != '.' {
		b = append(b, ":00"...)
	}
	b = append(b, text[len(minute):]...)
	if c := &b[len(b)-1]; *c == 'z' {
		*c = 'Z'
	}
	// UnmarshalText accepts more than RFC 3339, so check the form here.
	head, zone := b[:min(len(b), len(second))], b[min(len(b), len(second)):]
	if fraction, found := bytes.CutPrefix(zone, []byte{'.'}); found {
		if zone = bytes.TrimLeft(fraction, "0123456789"); len(zone) == len(fraction) {
			return t, false
		}
	}
	local := (HasForm(zone, "+07:00") || HasForm(zone, "-07:00")) && string(zone[1:]) < "24" && zone[4] < '6'
	ok = HasForm(head, second) && (local || string(zone) == "Z") && t.UnmarshalText(b) == nil
	return t.UTC(), ok
}

// HasForm reports whether b equals form, except that a digit in form stands for any digit.
func HasForm(b []byte, form string) bool {
	if len(b) != len(form) {
		return false
	}
	for i, c := range b {
		if f := form[i]; isDigit(f) != isDigit(c) || !isDigit(f) && c != f {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// ParseInt parses an optional minus sign and decimal digits. It fails if the number does not fit into an
// int64.
func ParseInt(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	// Count downwards, because the range of int64 is larger by one on the negative side.
	var n int64
	for _, c := range b {
		d := int64(c) - '0'
		if d < 0 || d > 9 || n < math.MinInt64/10 || n*10 < math.MinInt64+d {
			return 0, false
		}
		n = n*10 - d
	}
	if negative {
		return n, true
	}
	if n == math.MinInt64 {
		return 0, false
	}
	return -n, true
}

// ParseCount parses decimal digits. A number that is too large counts as math.MaxInt64.
func ParseCount(b []byte) (int64, bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, ok := ParseInt(b)
	if !ok {
		n = math.MaxInt64
	}
	return n, len(b) > 0
}
