package query

import (
	"math"
	"time"
)

// Number is a decimal number.
type Number struct {
	// Whole is the number without its fraction; the nearest one, if that is no int64.
	Whole int64
	// Fraction is in units of 1 / FractionUnit; 0 of a negative number.
	Fraction uint64
	// Digits is how many stand before the point.
	Digits int
}

// FractionUnit is 1 as a Number.Fraction.
const FractionUnit = 1e18

// ParseNumber reads an optional -, decimal digits, and an optional point with more of them.
func ParseNumber(b []byte) (n Number, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	var unit uint64 // of the next digit of the fraction; 0: none is read any more
	point := false
	for i, c := range b {
		d := uint64(c) - '0'
		switch {
		case c == '.' && !point && i > 0:
			point, unit, ok = true, FractionUnit/10, false
			continue
		case d > 9:
			return Number{}, false
		case point:
			n.Fraction += d * unit
			unit /= 10
		default:
			n.Digits++
			if n.Whole > (math.MaxInt64-int64(d))/10 {
				n.Whole = math.MaxInt64
			} else {
				n.Whole = 10*n.Whole + int64(d)
			}
		}
		ok = true
	}
	if negative {
		n.Whole, n.Fraction = -n.Whole, 0
	}
	return n, ok
}

// ParseTime reads a time in RFC 3339, also without seconds or zone, which is UTC then, and with a blank
// in place of the T. The + of a zone may have become a blank, as it does in a query that is not escaped.
func ParseTime(b []byte) (t time.Time, ok bool) {
	const minutes, seconds = len("2006-01-02T15:04"), len("2006-01-02T15:04:05")
	var text [48]byte
	n := copy(text[:], b)
	if n < minutes || n < len(b) || text[13] != ':' || text[10] != 'T' && text[10] != 't' && text[10] != ' ' {
		return t, false
	}
	text[10] = 'T'
	layout := "2006-01-02T15:04"
	if n >= seconds && text[minutes] == ':' {
		layout = "2006-01-02T15:04:05"
	}
	zone := n - len("+07:00")
	switch {
	case text[n-1] == 'Z', text[n-1] == 'z':
		text[n-1] = 'Z'
	case zone >= minutes && text[n-3] == ':' && text[zone] == ' ':
		text[zone] = '+'
	case zone < minutes || text[n-3] != ':' || text[zone] != '+' && text[zone] != '-':
		zone = 0
	}
	if zone > 0 {
		layout = zoned[layout]
	}
	t, err := time.Parse(layout, string(text[:n]))
	return t, err == nil
}

var zoned = map[string]string{"2006-01-02T15:04": "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05": time.RFC3339}
