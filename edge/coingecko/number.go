package coingecko

import (
	"bytes"
	"math/bits"

	"github.com/holiman/uint256"
)

// full is the number of decimal places of computed values. No price has more.
const full = 18

// number is the decimal v / 10^places, negative if neg is set. It is unknown if places is negative.
type number struct {
	v      uint256.Int
	places int
	neg    bool
}

// maxDigits is the largest number of decimal digits that always fits into v.
const maxDigits = 77

// powers contains the powers of ten.
var powers = func() (p [maxDigits + 1]uint256.Int) {
	p[0].SetOne()
	for i := 1; i < len(p); i++ {
		p[i].Mul(&p[i-1], uint256.NewInt(10))
	}
	return p
}()

// parse reads a decimal in plain notation, as snapshots contain it. It reports whether b is a decimal that
// fits into a number.
func (n *number) parse(b []byte) bool {
	*n = number{places: -1}
	if len(b) > 0 && b[0] == '-' {
		n.neg, b = true, b[1:]
	}
	if len(b) == 0 || len(b) > maxDigits {
		return false
	}
	point := -1
	var part, unit uint64 = 0, 1
	for i, c := range b {
		if c == '.' && point < 0 && i > 0 {
			point = i
			continue
		}
		if c < '0' || c > '9' {
			return false
		}
		part, unit = part*10+uint64(c-'0'), unit*10
		if unit == chunk {
			n.add(part, unit)
			part, unit = 0, 1
		}
	}
	n.add(part, unit)
	if point == len(b)-1 {
		return false
	}
	n.places = 0
	if point >= 0 {
		n.places = len(b) - 1 - point
	}
	return true
}

// chunk is the highest power of ten that fits into a uint64.
const chunk = 1e19

// add appends a group of decimal digits to v. part is the value of the group, and unit is 10 to the power of
// the number of its digits.
func (n *number) add(part, unit uint64) {
	if n.v.IsZero() {
		n.v.SetUint64(part)
		return
	}
	var u uint256.Int
	n.v.Mul(&n.v, u.SetUint64(unit))
	n.v.AddUint64(&n.v, part)
}

// times sets n to x · y. The product is unknown if it does not fit.
func (n *number) times(x, y *number) {
	places := x.places + y.places
	if min(x.places, y.places) < 0 {
		places = -1
	}
	if _, over := n.v.MulOverflow(&x.v, &y.v); over {
		places = -1
	}
	n.places, n.neg = places, x.neg != y.neg
}

// one is the rate of the US dollar.
var one = number{v: *uint256.NewInt(1)}

// appendQuotient appends x / y in plain notation, rounded half to even to the given number of decimals,
// without trailing zeros. y must be positive. If it cannot compute the value, it returns dst unchanged and
// false.
func appendQuotient(dst []byte, x, y *number, places int) ([]byte, bool) {
	q, ok := quotient(x, y, places)
	if !ok {
		return dst, false
	}
	return appendPlain(dst, &q, places, x.neg), true
}

// quotient returns the absolute value of x / y in units of 10^-places, rounded half to even, and whether it
// fits.
func quotient(x, y *number, places int) (q uint256.Int, ok bool) {
	shift := places + y.places - x.places
	var r, d uint256.Int
	d.Set(&y.v)
	switch {
	case x.places < 0 || shift > maxDigits || -shift > maxDigits:
		return q, false
	case shift < 0:
		if _, over := d.MulOverflow(&d, &powers[-shift]); over {
			return q, false
		}
		q.DivMod(&x.v, &d, &r)
	case x.v.IsUint64() && shift <= full && d.IsUint64():
		hi, lo := bits.Mul64(x.v.Uint64(), powers[shift].Uint64())
		if by := d.Uint64(); hi < by {
			quotient, rest := bits.Div64(hi, lo, by)
			q.SetUint64(quotient)
			r.SetUint64(rest)
			break
		}
		fallthrough
	default:
		if _, over := q.MulDivOverflow(&x.v, &powers[shift], &d); over {
			return q, false
		}
		// The remainder is less than d, so overflowing bits do not matter.
		var back uint256.Int
		r.Mul(&x.v, &powers[shift])
		r.Sub(&r, back.Mul(&q, &d))
	}
	var rest uint256.Int
	rest.Sub(&d, &r)
	if c := r.Cmp(&rest); c > 0 || c == 0 && q.Uint64()&1 == 1 {
		q.AddUint64(&q, 1)
	}
	return q, true
}

// appendPlain appends v / 10^places in plain notation.
func appendPlain(dst []byte, v *uint256.Int, places int, neg bool) []byte {
	if neg && !v.IsZero() {
		dst = append(dst, '-')
	}
	var digits [maxDigits + 1]byte
	at := len(digits)
	rest := *v
	for !rest.IsUint64() {
		var part uint256.Int
		rest.DivMod(&rest, &powers[19], &part)
		for u, end := part.Uint64(), at-19; at > end; u /= 10 {
			at--
			digits[at] = byte('0' + u%10)
		}
	}
	point := len(digits) - places
	for u := rest.Uint64(); u > 0 || at >= point; u /= 10 { // at least one digit before the point
		at--
		digits[at] = byte('0' + u%10)
	}
	dst = append(dst, digits[at:point]...)
	if fraction := bytes.TrimRight(digits[point:], "0"); len(fraction) > 0 {
		dst = append(append(dst, '.'), fraction...)
	}
	return dst
}
