package model

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
)

// Decimals at most of each kind of field (FEED.md, "Numbers").
const (
	pricePlaces   = 18
	amountPlaces  = 8
	percentPlaces = 12
	sharePlaces   = 12
	feePlaces     = 8
)

// Integer digits at most of a feed value of each kind (FEED.md, "Numbers").
const (
	priceDigits  = 18
	amountDigits = 28
	feeDigits    = 10
)

// maxInteger is the largest id and the largest count, 2^53 - 1.
const maxInteger = 1<<53 - 1

var (
	hundred = big.NewRat(100, 1)

	jsonNumber = regexp.MustCompile(`^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$`)

	errNoDecimal = errors.New("not a decimal")
	errNegative  = errors.New("negative")
	errTooLong   = errors.New("too many integer digits")
)

// readDecimal reads text in the grammar of JSON numbers and rounds it to the
// places of its field. It refuses negative values and those with more integer
// digits than the field takes, both as written, before any rounding.
func readDecimal(text string, places, integerDigits int) (*big.Rat, error) {
	m := jsonNumber.FindStringSubmatch(text)
	if m == nil {
		return nil, errNoDecimal
	}
	sign, whole, fraction, exponent := m[1], m[2], m[3], m[4]
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return new(big.Rat), nil // zero, whatever its sign and exponent
	}
	if sign == "-" {
		return nil, errNegative
	}

	// The value is 0.<digits> times ten to the power of point.
	leadingZeros := len(whole) + len(fraction) - len(digits)
	point := big.NewInt(int64(len(whole) - leadingZeros))
	if exponent != "" {
		e, _ := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
		point.Add(point, e)
	}
	if point.Cmp(big.NewInt(int64(integerDigits))) > 0 {
		return nil, errTooLong
	}
	if point.Cmp(big.NewInt(int64(-places-1))) < 0 {
		return new(big.Rat), nil // below a tenth of half a unit of the last place
	}
	n, _ := new(big.Int).SetString(digits, 10)
	value := new(big.Rat).SetInt(n)
	shift := int(point.Int64()) - len(digits)
	if shift >= 0 {
		value.Mul(value, new(big.Rat).SetInt(tenTo(shift)))
	} else {
		value.Quo(value, new(big.Rat).SetInt(tenTo(-shift)))
	}
	return round(value, places), nil
}

// round rounds x to the given decimals, half to even.
func round(x *big.Rat, places int) *big.Rat {
	scale := tenTo(places)
	scaled := new(big.Int).Mul(x.Num(), scale)
	units, rest := new(big.Int).DivMod(scaled, x.Denom(), new(big.Int)) // 0 <= rest < denominator
	switch twice := new(big.Int).Lsh(rest, 1); twice.Cmp(x.Denom()) {
	case 1:
		units.Add(units, big.NewInt(1))
	case 0:
		if units.Bit(0) == 1 {
			units.Add(units, big.NewInt(1))
		}
	}
	return new(big.Rat).SetFrac(units, scale)
}

// decimal writes x, which has at most the given decimals, in plain notation
// without trailing zeros.
func decimal(x *big.Rat, places int) string {
	text := x.FloatString(places) // exact: x has no more decimals than that
	if strings.Contains(text, ".") {
		text = strings.TrimRight(text, "0")
		text = strings.TrimSuffix(text, ".")
	}
	return text
}

// Plain writes x, rounded half to even to the given decimals, in plain notation.
func Plain(x *big.Rat, places int) string { return decimal(round(x, places), places) }

// percent is the change from base to value in percent, rounded; zero when the
// base is.
func percent(base, value *big.Rat) *big.Rat {
	if base.Sign() == 0 {
		return new(big.Rat)
	}
	change := new(big.Rat).Sub(value, base)
	change.Quo(change, base)
	change.Mul(change, hundred)
	return round(change, percentPlaces)
}

// Decimal is the value that the feed reads from a number, in plain notation.
func Decimal(text string, places, integerDigits int) (string, error) {
	x, err := readDecimal(text, places, integerDigits)
	if err != nil {
		return "", err
	}
	return decimal(x, places), nil
}

// Percent is the change from base to value, in plain notation.
func Percent(base, value *big.Int) string {
	return decimal(percent(new(big.Rat).SetInt(base), new(big.Rat).SetInt(value)), percentPlaces)
}

func tenTo(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}
