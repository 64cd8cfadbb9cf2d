package query

import (
	"bytes"
	"math"
)

var (
	comma = []byte{','}
	colon = []byte{':'}
	blank = []byte{' '}
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
	paramCount
)

// paramNames are the names of the parameters, in the order of their numbers.
var paramNames = [paramCount][]byte{
	[]byte("id"), []byte("symbol"), []byte("slug"), []byte("category"), []byte("chain"),
	[]byte("page"), []byte("size"), []byte("limit"), []byte("offset"), []byte("sort"), []byte("fields"),
	[]byte("by"), []byte("window"), []byte("q"),
}

// paramSet is a set of parameters: bit i stands for the one of number i.
type paramSet uint16

func setOf(params ...int) (set paramSet) {
	for _, i := range params {
		set |= 1 << i
	}
	return set
}

func (s paramSet) has(i int) bool { return s&(1<<i) != 0 }

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
	}
	return 0, false
}

// params are the first values of the parameters that the endpoint reads, still
// escaped. Empty means not sent, also for one whose first value is empty and
// whose second is not.
type params struct {
	value   [paramCount][]byte
	seen    paramSet
	ignored paramSet // sent in vain, once more or in the other paging mode
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

// split reads application/x-www-form-urlencoded: pairs separated by & alone,
// name and value by the first = of a pair. Names of parameters that the
// endpoint does not read go to q.Ignored.
func (q *Query) split(p *params, query []byte) {
	reads := endpoints[q.Endpoint].reads
	for len(query) > 0 {
		pair := query
		if i := bytes.IndexByte(query, '&'); i >= 0 {
			pair, query = query[:i], query[i+1:]
		} else {
			query = nil
		}
		name, value := pair, []byte(nil)
		if i := bytes.IndexByte(pair, '='); i >= 0 {
			name, value = pair[:i], pair[i+1:]
		}
		if len(name) == 0 {
			continue
		}
		start := len(q.buf)
		name = q.unescape(name)
		switch i, ok := paramOf(name); {
		case !ok || !reads.has(i):
			if len(q.buf) == start {
				q.buf = append(q.buf, name...)
			}
			if q.ignore(q.buf[start:]) {
				continue
			}
		case p.seen.has(i):
			p.ignored |= 1 << i
		default:
			p.seen |= 1 << i
			p.value[i] = value
		}
		q.buf = q.buf[:start]
	}
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

// ParseInt reads an optional - and decimal digits, within int64.
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
