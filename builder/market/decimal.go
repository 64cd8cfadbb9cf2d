package market

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/cockroachdb/apd/v3"
	"github.com/holiman/uint256"
)

// The number of decimals of each kind of field (FEED.md, "Numbers").
const (
	PriceDecimals   = 18
	MoneyDecimals   = 8 // market caps, volumes, totals, fees
	PercentDecimals = 12
)

// The maximum number of integer digits of each kind of field in a feed (FEED.md, "Numbers").
const (
	PriceIntDigits = 18
	MoneyIntDigits = 28
	FeeIntDigits   = 10
)

// The errors of ParseDecimal for malformed and negative numbers.
var (
	errNotDecimal = errors.New("not a decimal, such as 12.5 or 1e-5")
	errNegative   = errors.New("negative")
)

// maxExponent is the value at which parseExponent stops counting. It far exceeds the number of
// digits that fit in a line.
const maxExponent = 1 << 27

// ParseDecimal parses a JSON number exactly and rounds it half to even to the given number of
// decimals. The result is in units of the last place. Exponents are not expanded, so 1e999999999
// costs nothing. ParseDecimal returns an error if the text is not a decimal, is negative (-0 counts
// as 0), or has more than intDigits integer digits (FEED.md, "Numbers"). The sum of decimals and
// intDigits must be at most 38, so that every result fits.
func ParseDecimal(s []byte, decimals, intDigits int) (U128, error) {
	neg := len(s) > 0 && s[0] == '-'
	if neg {
		s = s[1:]
	}
	whole := digitsAt(s)
	if whole == 0 || whole > 1 && s[0] == '0' {
		return U128{}, errNotDecimal
	}
	integer, rest := s[:whole], s[whole:]
	var fraction []byte
	if len(rest) > 0 && rest[0] == '.' {
		n := digitsAt(rest[1:])
		if n == 0 {
			return U128{}, errNotDecimal
		}
		fraction, rest = rest[1:1+n], rest[1+n:]
	}
	exponent, ok := parseExponent(rest)
	if !ok {
		return U128{}, errNotDecimal
	}
	// The value is 0.d1d2d3… × 10^point with d1 not 0.
	point := exponent + len(integer)
	for len(integer) > 0 && integer[0] == '0' {
		integer, point = integer[1:], point-1
	}
	if len(integer) == 0 {
		for len(fraction) > 0 && fraction[0] == '0' {
			fraction, point = fraction[1:], point-1
		}
		if len(fraction) == 0 {
			return U128{}, nil
		}
	}
	if neg {
		return U128{}, errNegative
	}
	if point > intDigits {
		return U128{}, fmt.Errorf("%d integer digits, at most %d are allowed", point, intDigits)
	}
	return roundDigits(integer, fraction, point+decimals), nil
}

// IsNumber reports whether s is a JSON number, of any size and sign.
func IsNumber(s []byte) bool {
	_, err := ParseDecimal(s, 0, 1)
	return err != errNotDecimal
}

// roundDigits returns the first n digits as an integer. It pads them with zeros, or rounds half to
// even based on the remaining digits. The first digit is not 0.
func roundDigits(integer, fraction []byte, n int) U128 {
	if n < 0 {
		return U128{}
	}
	digits := len(integer) + len(fraction)
	at := func(i int) byte {
		if i < len(integer) {
			return integer[i]
		}
		return fraction[i-len(integer)]
	}
	var u U128
	low, scale := uint64(0), uint64(1)
	for i := range n {
		if scale == 1e18 {
			u = u.mulAdd(scale, low)
			low, scale = 0, 1
		}
		low, scale = low*10, scale*10
		if i < digits {
			low += uint64(at(i) - '0')
		}
	}
	u = u.mulAdd(scale, low)
	if n >= digits {
		return u
	}
	up := at(n) > '5'
	if at(n) == '5' {
		up = u.Lo&1 == 1
		for i := n + 1; i < digits && !up; i++ {
			up = at(i) != '0'
		}
	}
	if up {
		u = u.mulAdd(1, 1)
	}
	return u
}

func digitsAt(s []byte) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

func parseExponent(s []byte) (e int, ok bool) {
	if len(s) == 0 {
		return 0, true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	s = s[1:]
	neg := len(s) > 0 && s[0] == '-'
	if neg || len(s) > 0 && s[0] == '+' {
		s = s[1:]
	}
	if len(s) == 0 || digitsAt(s) != len(s) {
		return 0, false
	}
	for _, c := range s {
		e = min(e*10+int(c-'0'), maxExponent)
	}
	if neg {
		e = -e
	}
	return e, true
}

// AppendDecimal appends u / 10^decimals in plain notation (FEED.md, "Numbers"). The result has no
// exponent, no trailing zeros after the decimal point, and no decimal point without digits after
// it.
func AppendDecimal(dst []byte, u U128, decimals int) []byte {
	if u.Hi == 0 {
		return appendPoint(dst, strconv.AppendUint(make([]byte, 0, 20), u.Lo, 10), decimals)
	}
	return AppendWide(dst, false, &uint256.Int{u.Lo, u.Hi}, decimals)
}

// AppendWide is like AppendDecimal, with 256 bits and a sign. It omits the sign of zero.
func AppendWide(dst []byte, neg bool, u *uint256.Int, decimals int) []byte {
	if neg && !u.IsZero() {
		dst = append(dst, '-')
	}
	if u.IsUint64() {
		return appendPoint(dst, strconv.AppendUint(make([]byte, 0, 20), u[0], 10), decimals)
	}
	return appendPoint(dst, []byte(u.Dec()), decimals)
}

// appendPoint appends an integer's digits and inserts a decimal point. decimals is the number of
// digits after the point.
func appendPoint(dst, digits []byte, decimals int) []byte {
	end, whole := len(digits), len(digits)-decimals
	for end > max(whole, 0) && digits[end-1] == '0' {
		end--
	}
	if whole > 0 {
		dst = append(dst, digits[:whole]...)
	} else {
		dst = append(dst, '0')
	}
	if end <= max(whole, 0) {
		return dst
	}
	dst = append(dst, '.')
	for range -whole {
		dst = append(dst, '0')
	}
	return append(dst, digits[max(whole, 0):end]...)
}

// Percent is a percentage in units of 1e-12 (FEED.md, "Numbers").
type Percent struct {
	Neg bool // false for zero
	V   uint256.Int
}

// Cmp compares p and q as numbers and returns -1, 0 or +1.
func (p Percent) Cmp(q Percent) int {
	switch {
	case p.Neg != q.Neg:
		if p.Neg {
			return -1
		}
		return 1
	case p.Neg:
		return q.V.Cmp(&p.V)
	}
	return p.V.Cmp(&q.V)
}

// Prefix returns a number that is consistent with the order of p: a lower percentage never has a
// higher number, though different percentages may have the same number.
func (p Percent) Prefix() uint64 {
	const bits = 54 // the remaining bits hold the sign and the bit length
	n := p.V.BitLen()
	var v uint256.Int
	if n > bits {
		v.Rsh(&p.V, uint(n-bits))
	} else {
		v.Lsh(&p.V, uint(bits-n))
	}
	u := uint64(n)<<bits | v.Uint64()&(1<<bits-1)
	if p.Neg {
		return 1<<63 - 1 - u
	}
	return 1<<63 | u
}

// Append appends the percentage as a decimal.
func (p *Percent) Append(dst []byte) []byte { return AppendWide(dst, p.Neg, &p.V, PercentDecimals) }

// distance returns |u − v|.
func (u U128) distance(v U128) (d U128) {
	if u.Cmp(v) < 0 {
		u, v = v, u
	}
	var borrow uint64
	d.Lo, borrow = bits.Sub64(u.Lo, v.Lo, 0)
	d.Hi, _ = bits.Sub64(u.Hi, v.Hi, borrow)
	return d
}

// percentScale converts a ratio to a percentage in units of 1e-12.
var percentScale = uint256.NewInt(1e14)

// PercentChange returns (price − base) / base × 100, computed exactly and then rounded half to even
// to 12 decimals. If base is zero, it returns 0 (FEED.md, "Figures").
func PercentChange(price, base U128) (p Percent) {
	if base.IsZero() || price == base {
		return p
	}
	diff := price.distance(base)
	n, d, rest := uint256.Int{diff.Lo, diff.Hi}, uint256.Int{base.Lo, base.Hi}, uint256.Int{}
	n.Mul(&n, percentScale) // 128 bits by 47
	p.V.DivMod(&n, &d, &rest)
	if c := rest.Lsh(&rest, 1).Cmp(&d); c > 0 || c == 0 && p.V[0]&1 == 1 {
		p.V.AddUint64(&p.V, 1)
	}
	p.Neg = price.Cmp(base) < 0 && !p.V.IsZero()
	return p
}

// MaxDigits is the maximum length of a number that is computed exactly. No provider sends a longer
// one.
const MaxDigits = 200

// Quotient returns a / b, computed exactly and then rounded half to even to the given number of
// decimals. It returns nil if b is 0 or if the quotient is too long. a and b must have at most
// MaxDigits digits.
func Quotient(a, b *apd.Decimal, decimals int32) *apd.Decimal {
	c := apd.BaseContext.WithPrecision(3 * MaxDigits) // enough digits to decide on which side of a half the quotient is
	c.Rounding = apd.RoundDown
	q := new(apd.Decimal)
	if _, err := c.Quo(q, a, b); err != nil {
		return nil
	}
	c.Rounding = apd.RoundHalfEven
	if _, err := c.Quantize(q, q, -decimals); err != nil {
		return nil
	}
	q.Negative = q.Negative && !q.IsZero()
	return q
}
