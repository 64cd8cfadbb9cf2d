package sim

import (
	"math/big"
	"math/bits"
	"strconv"
)

// log2 is the binary logarithm of a positive number, in units of 2^-32. The
// market moves in it, because prices move by factors; it is an integer, because
// the same integers come out on every machine.
type log2 int64

const (
	one      log2 = 1 << 32
	log2of10      = 14267572527 // of 10, rounded
	log10of2      = 1292913986  // the decimal logarithm of 2, in units of 2^-32
)

// log2Int returns the logarithm of n, with straight lines between the powers
// of two. n is at least 1.
func log2Int(n uint64) log2 {
	whole := bits.Len64(n) - 1
	fraction := log2(n-1<<whole) << 32 >> whole // n < 2^31
	return log2(whole)*one + fraction
}

// exp2Table holds 2^(j/256), 2^(j/256^2) and so on, in units of 2^-63.
var exp2Table = makeExp2Table()

func makeExp2Table() (table [4][256]uint64) {
	// root is 2^(2^-i) in units of 2^-126, by one square root after the other.
	root := new(big.Int).Lsh(big.NewInt(2), 126)
	for level := range table {
		row := &table[level]
		row[0] = 1 << 63
		for bit := 128; bit > 0; bit >>= 1 {
			root.Sqrt(root.Lsh(root, 126))
			row[bit] = new(big.Int).Rsh(root, 63).Uint64()
		}
		for j := range row {
			if low := j & -j; low != j {
				row[j] = times(row[j-low], row[low])
			}
		}
	}
	return table
}

// times multiplies numbers in units of 2^-63 whose product is below 2.
func times(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi<<1 | lo>>63
}

// exp2 returns 2^(fraction/2^32) in units of 2^-63.
func exp2(fraction uint32) uint64 {
	v := exp2Table[0][fraction>>24]
	v = times(v, exp2Table[1][fraction>>16&0xff])
	v = times(v, exp2Table[2][fraction>>8&0xff])
	return times(v, exp2Table[3][fraction&0xff])
}

// decimal is digits × 10^exp.
type decimal struct {
	digits uint64
	exp    int
}

// decimal returns the number whose logarithm is l, rounded down to about n
// significant digits, 1 to 12, of which some nine are right.
func (l log2) decimal(n int) decimal {
	// Off by one at a power of ten, which gives a digit more or less.
	exp := int(l>>16*log10of2>>48) - n + 1
	l -= log2(exp) * log2of10
	d := decimal{exp2(uint32(l)) >> (63 - l>>32), exp}
	for d.digits != 0 && d.digits%10 == 0 {
		d.digits /= 10
		d.exp++
	}
	return d
}

// appendPlain writes the number without an exponent.
func (d decimal) appendPlain(b []byte) []byte {
	from := len(b)
	b = strconv.AppendUint(b, d.digits, 10)
	if d.exp >= 0 {
		for range d.exp {
			b = append(b, '0')
		}
		return b
	}
	n := len(b) - from
	point := n + d.exp // digits before the point
	if point > 0 {
		b = append(b, 0)
		copy(b[from+point+1:], b[from+point:])
		b[from+point] = '.'
		return b
	}
	b = append(b[:from], "0."...)
	for range -point {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, d.digits, 10)
}

// appendScientific writes the number with an exponent, as in 1.25e-09.
func (d decimal) appendScientific(b []byte) []byte {
	from := len(b)
	b = strconv.AppendUint(b, d.digits, 10)
	n := len(b) - from
	if n > 1 {
		b = append(b, 0)
		copy(b[from+2:], b[from+1:])
		b[from+1] = '.'
	}
	b = append(b, 'e')
	return strconv.AppendInt(b, int64(d.exp+n-1), 10)
}

// appendJSON writes the number in one of the ways that a feed may: as a JSON
// number or a string, with an exponent or without.
func (d decimal) appendJSON(b []byte, style hash) []byte {
	quoted, scientific := true, false
	switch style.below(16) {
	case 0:
		quoted = false
	case 1:
		quoted, scientific = false, true
	case 2:
		scientific = true
	}
	if quoted {
		b = append(b, '"')
	}
	if scientific {
		b = d.appendScientific(b)
	} else {
		b = d.appendPlain(b)
	}
	if quoted {
		b = append(b, '"')
	}
	return b
}
