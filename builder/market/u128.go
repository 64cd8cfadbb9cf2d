package market

import "math/bits"

// U128 is an unsigned 128-bit integer. It holds a decimal from the feed in units of the last place
// of its field. The widest field is a price, with 18 integer digits and 18 decimals. These are 36
// digits; 2^128 has 39.
type U128 struct{ Hi, Lo uint64 }

// IsZero reports whether u is 0.
func (u U128) IsZero() bool { return u.Hi == 0 && u.Lo == 0 }

// Cmp compares u and v as integers and returns -1, 0 or +1.
func (u U128) Cmp(v U128) int {
	switch {
	case u.Hi < v.Hi || u.Hi == v.Hi && u.Lo < v.Lo:
		return -1
	case u == v:
		return 0
	}
	return 1
}

// Prefix returns a number that is consistent with the order of u: a lower integer never has a
// higher number, though different integers may have the same number.
func (u U128) Prefix() uint64 {
	n := bits.Len64(u.Hi) + 64
	if u.Hi == 0 {
		n = bits.Len64(u.Lo)
	}
	var top uint64 // the 64 bits from the highest set bit
	switch {
	case n > 64:
		top = u.Hi<<(128-n) | u.Lo>>(n-64)
	case n > 0:
		top = u.Lo << (64 - n)
	}
	return uint64(n)<<56 | top>>8
}

// mulAdd returns u*m + a. The result must fit in 128 bits.
func (u U128) mulAdd(m, a uint64) U128 {
	hi, lo := bits.Mul64(u.Lo, m)
	lo, c := bits.Add64(lo, a, 0)
	return U128{hi + u.Hi*m + c, lo}
}
