package query

import (
	"bytes"
	"math"
)

var (
	comma = []byte{','}
	colon = []byte{':'}
)

// The parameters that any endpoint reads.
const (
	paramID = iota
	paramSymbol
	paramSlug
	paramPage
	paramSize
	paramLimit
	paramOffset
	paramSort
	paramFields
	paramBy
	paramCount
)

// maxName is the length of the longest name of a parameter.
const maxName = len("symbol")

func paramOf(name []byte) (int, bool) {
	switch string(name) {
	case "id":
		return paramID, true
	case "symbol":
		return paramSymbol, true
	case "slug":
		return paramSlug, true
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
	}
	return 0, false
}

// params are the first values of the known parameters, still escaped. Empty
// means not sent, also for one whose first value is empty and whose second is
// not.
type params struct {
	value [paramCount][]byte
	seen  [paramCount]bool
}

// split reads application/x-www-form-urlencoded: pairs separated by & alone,
// name and value by the first = of a pair.
func (p *params) split(query []byte) {
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
		var plain [3 * maxName]byte
		if escaped(name) {
			// Longer than any name even if every byte of it is escaped.
			if len(name) > len(plain) {
				continue
			}
			name = appendUnescaped(plain[:0], name)
		}
		if i, ok := paramOf(name); ok && !p.seen[i] {
			p.seen[i], p.value[i] = true, value
		}
	}
}

func escaped(b []byte) bool {
	return bytes.IndexByte(b, '%') >= 0 || bytes.IndexByte(b, '+') >= 0
}

// appendUnescaped appends b with + as a space and valid %xx as their bytes; a %
// that starts no valid escape stands for itself. What it appends is not longer
// than b.
func appendUnescaped(dst, b []byte) []byte {
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

// parseInt reads an optional - and decimal digits, within int64.
func parseInt(b []byte) (int64, bool) {
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
