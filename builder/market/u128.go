package market

import "math/bits"

// U128 is an unsigned 128-bit integer: a decimal of the feed in units of its
// field's last place. The widest field is a price, 18 integer digits and 18
// decimals, so 36 digits; 2^128 has 39.
type U128 struct{ Hi, Lo uint64 }

// IsZero reports whether u is 0.
func (u U128) IsZero() bool { return u.Hi == 0 && u.Lo == 0 }

// Cmp compares as integers: -1, 0 or +1.
func (u U128) Cmp(v U128) int {
	switch {
	case u.Hi < v.Hi || u.Hi == v.Hi && u.Lo < v.Lo:
		return -1
	case u == v:
		return 0
	}
	return 1
}

// mulAdd returns u*m + a, which must fit.
func (u U128) mulAdd(m, a uint64) U128 {
	hi, lo := bits.Mul64(u.Lo, m)
	lo, c := bits.Add64(lo, a, 0)
	return U128{hi + u.Hi*m + c, lo}
}
