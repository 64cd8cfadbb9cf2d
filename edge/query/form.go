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

// The parameters that any endpoint reads.
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

// paramNames are the names of the parameters, in the order of their numbers.
var paramNames = [paramCount][]byte{
	[]byte("id"), []byte("symbol"), []byte("slug"), []byte("category"), []byte("chain"),
	[]byte("page"), []byte("size"), []byte("limit"), []byte("offset"), []byte("sort"), []byte("fields"),
	[]byte("by"), []byte("window"), []byte("q"), []byte("interval"), []byte("from"), []byte("to"), []byte("time"),
	[]byte("key"),
	[]byte("since"), []byte("collection"), []byte("kind"),
}

// paramSet is a set of parameters: bit i stands for the one of number i.
type paramSet uint32

func setOf(params ...int) (set paramSet) {
	for _, i := range params {
		set |= 1 << i
	}
	return set
}

func (s paramSet) has(i int) bool { return s&(1<<i) != 0 }

// lists are the parameters that take a list. Repeated, they are one list (INTERFACE.md, "Parameters").
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

// params are the values of the parameters that the endpoint reads, still
// escaped: the first value of a scalar, and all values of a list, joined by
// commas. Empty means not sent, also for a scalar whose first value is empty and
// whose second is not.
type params struct {
	value    [paramCount][]byte
	seen     paramSet
	repeated paramSet // lists that were sent more than once
	ignored  paramSet // sent in vain, once more or in the other paging mode
}

// drop notes that parameters were not read, for the paging mode; those that were
// sent empty count as not sent.
func (p *params) drop(list ...int) {
	for _, i := range list {
		if len(p.value[i]) > 0 {
			p.ignored |= 1 << i
		}
	}
}

// Cut returns the first pair of an application/x-www-form-urlencoded query, and
// the query behind it. Pairs are separated by & alone, name and value by the
// first = of a pair.
func Cut(query []byte) (name, value, rest []byte) {
	pair, rest, _ := bytes.Cut(query, ampersand)
	name, value, _ = bytes.Cut(pair, equals)
	return name, value, rest
}

// ListName returns the list that a decoded name repeats in the manner of many
// HTTP libraries: name[] and name[n], n being digits, repeat the list name.
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

// param returns the number of the parameter that a decoded name stands for.
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

// split reads the pairs of a query. Names of parameters that the endpoint does
// not read go to q.Ignored.
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
		case lists.has(i) && len(value) == 0: // as if not sent
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
		q.buf = slices.Grow(q.buf, 2*len(query)) // joined here, then unescaped
		for i := range paramCount {
			if p.repeated.has(i) {
				p.value[i] = q.join(i, query)
			}
		}
	}
}

// join returns the values of a list that was sent more than once, in the order
// sent, still escaped.
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

// AppendUnescaped appends b with + as a space and valid %xx as their bytes; a %
// that starts no valid escape stands for itself. What it appends is not longer
// than b.
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

// plain tells which bytes AppendEscaped leaves as they are: the unreserved
// characters of RFC 3986.
var plain = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") {
		set[c] = true
	}
	return set
}()

// AppendEscaped appends b percent-encoded outside the unreserved set, with
// upper-case digits.
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

// escapedLen is how many bytes AppendEscaped appends.
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

// ParseTime reads an instant as in RFC 3339, in any zone, with a fraction of a second or without, and
// returns it in UTC. Java leaves out seconds that are zero; so may the text.
func ParseTime(text []byte) (t time.Time, ok bool) {
	const minute, second = "2006-01-02T15:04", "2006-01-02T15:04:05"
	var whole [48]byte
	if len(text) <= len(minute) || len(text) > len(whole)-len(":00") {
		return t, false
	}
	b := append(whole[:0], text[:len(minute)]...)
	if c := &b[len("2006-01-02")]; *c == 't' || *c == ' ' { // which the RFC lets stand for T
		*c = 'T'
	}
	if c := text[len(minute)]; c != ':' && c != '.' {
		b = append(b, ":00"...)
	}
	b = append(b, text[len(minute):]...)
	if c := &b[len(b)-1]; *c == 'z' {
		*c = 'Z'
	}
	// UnmarshalText takes more than RFC 3339 does, so the form is checked here.
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

// HasForm reports whether b has a digit where form has one, and is form elsewhere.
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

// ParseInt reads an optional - and decimal digits, within int64. It and ParseCount read all decimal
// integers that clients send.
func ParseInt(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	// Counted downwards, where int64 reaches one further.
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

// ParseCount reads decimal digits. A larger number counts as math.MaxInt64.
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
