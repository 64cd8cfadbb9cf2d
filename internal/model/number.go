package model

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
)

// Maximum numbers of decimals by kind of field (FEED.md, "Numbers").
const (
	pricePlaces   = 18
	amountPlaces  = 8
	percentPlaces = 12
	sharePlaces   = 12
	feePlaces     = 8
)

// Maximum numbers of integer digits of the feed's values by kind of field (FEED.md, "Numbers").
const (
	priceDigits  = 18
	amountDigits = 28
	feeDigits    = 10
)

// maxInteger is the largest id and the largest count, 2^53 − 1.
const maxInteger = 1<<53 - 1

var (
	hundred = big.NewRat(100, 1)

	jsonNumber = regexp.MustCompile(`^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$`)

	errNoDecimal = errors.New("not a decimal")
	errNegative  = errors.New("negative")
	errTooLong   = errors.New("too many integer digits")
)

// readDecimal parses text in the grammar of JSON numbers and rounds the value to the places of its
// field. It rejects values that are negative or have too many integer digits. Both checks apply to
// the value as written, before rounding.
func readDecimal(text string, places, integerDigits int) (*big.Rat, error) {
	m := jsonNumber.FindStringSubmatch(text)
	if m == nil {
		return nil, errNoDecimal
	}
	sign, whole, fraction, exponent := m[1], m[2], m[3], m[4]
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return new(big.Rat), nil // The value is zero, whatever its sign and exponent.
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
		return new(big.Rat), nil // The value is too small to be rounded to anything but zero.
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

// round rounds x to the given number of decimals, half to even.
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

// decimal formats x in plain notation without trailing zeros. x must not have more than the given
// number of decimals.
func decimal(x *big.Rat, places int) string {
	text := x.FloatString(places) // FloatString is exact here, because x has no more decimals than that.
	if strings.Contains(text, ".") {
		text = strings.TrimRight(text, "0")
		text = strings.TrimSuffix(text, ".")
	}
	return text
}

// Plain formats x in plain notation, rounded half to even to the given number of decimals.
func Plain(x *big.Rat, places int) string { return decimal(round(x, places), places) }

// percent returns the rounded change from base to value in percent. It is zero if base is zero.
func percent(base, value *big.Rat) *big.Rat {
	if base.Sign() == 0 {
		return new(big.Rat)
	}
	change := new(big.Rat).Sub(value, base)
	change.Quo(change, base)
	change.Mul(change, hundred)
	return round(change, percentPlaces)
}

// Decimal parses a number by the rules for numbers in feeds, and returns it in plain notation.
func Decimal(text string, places, integerDigits int) (string, error) {
	x, err := readDecimal(text, places, integerDigits)
	if err != nil {
		return "", err
	}
	return decimal(x, places), nil
}

// Percent returns the change from base to value in percent, in plain notation.
func Percent(base, value *big.Int) string {
	return decimal(percent(new(big.Rat).SetInt(base), new(big.Rat).SetInt(value)), percentPlaces)
}

func tenTo(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}
