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

// ParseLooseTime is ParseTime for times that may lack the zone, which is UTC then. The + of a zone may
// have become a blank, as it does in a query that is not escaped.
func ParseLooseTime(b []byte) (t time.Time, ok bool) {
	const minute, zone = len("2006-01-02T15:04"), len("+07:00")
	var text [48]byte
	if len(b) < minute || len(b) == len(text) || copy(text[:], b) < len(b) {
		return t, false
	}
	n := len(b)
	if n >= minute+zone && text[n-zone] == ' ' {
		text[n-zone] = '+'
	}
	if t, ok = ParseTime(text[:n]); !ok {
		text[n] = 'Z'
		t, ok = ParseTime(text[:n+1])
	}
	return t, ok
}
