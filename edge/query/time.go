package query

import (
	"math"
	"time"
)

// Number is a decimal number.
type Number struct {
	// Whole is the number without its fraction, limited to the range of int64.
	Whole int64
	// Fraction is the fraction in units of 1 / FractionUnit. It is 0 for negative numbers.
	Fraction uint64
	// Digits is the number of digits before the point.
	Digits int
}

// FractionUnit is the number of units of Number.Fraction in 1.
const FractionUnit = 1e18

// ParseNumber parses an optional minus sign, decimal digits, and an optional point with more digits.
func ParseNumber(b []byte) (n Number, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	var unit uint64 // the value of the fraction's next digit, or 0 if further digits are ignored
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

// ParseLooseTime is like ParseTime, but the time zone may be missing, which means UTC. The + of a time zone
// may have become a space, as happens if the client does not escape it.
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
