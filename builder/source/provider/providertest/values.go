package providertest

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// value draws JSON as it may stand where a provider has a number: one of any
// length and notation, the same as a text, or something that is no number.
func value(t *rapid.T, label string) string {
	number := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string {
			sign := rapid.SampledFrom([]string{"", "", "", "", "-"}).Draw(t, "sign")
			return sign + whole(t) + fraction(t)
		}),
		rapid.Custom(func(t *rapid.T) string {
			return whole(t) + fraction(t) + rapid.StringMatching(`[eE][+-]?[0-9]{1,2}`).Draw(t, "exponent")
		}),
		rapid.SampledFrom([]string{"1e999999999", "1e-999999999", "9007199254740993", "0.1", "5e-324", "1.7976931348623157e308"}),
	)
	return rapid.OneOf(
		number, number, number,
		rapid.Map(number, func(s string) string { return `"` + s + `"` }),
		rapid.SampledFrom([]string{"null", "true", "{}", "[]", "[1]", `{"usd":1}`, `""`, `"x"`, `"NaN"`, `"01"`, `"1."`, `"+1"`, `" 1"`, `"0x1p4"`, `"Infinity"`}),
	).Draw(t, label)
}

// digits draws decimal digits, least to most of them.
func digits(t *rapid.T, least, most int) string {
	n := rapid.IntRange(least, most).Draw(t, "digits")
	return rapid.StringOfN(rapid.RuneFrom([]rune("0123456789")), n, n, -1).Draw(t, "run")
}

func whole(t *rapid.T) string {
	if n := strings.TrimLeft(digits(t, 0, rapid.SampledFrom([]int{2, 16, 20, 45}).Draw(t, "most")), "0"); n != "" {
		return n
	}
	return "0"
}

func fraction(t *rapid.T) string {
	if rapid.Bool().Draw(t, "point") {
		return "." + digits(t, 1, 45)
	}
	return ""
}

var decimalGrammar = regexp.MustCompile(`^("?)(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?("?)$`)

// unitsOf works out, in the plainest way there is, what number a JSON value is, in
// units of the last of so many decimals and rounded half to even. fits says
// whether a feed takes it: it is one, is not negative, and has no more integer
// digits than the field may. sure is false at the borders of these rules, which
// are for other tests.
func unitsOf(value string, decimals, intDigits int) (units *big.Int, fits, sure bool) {
	m := decimalGrammar.FindStringSubmatch(value)
	if m == nil || m[1] != m[6] {
		return nil, false, true
	}
	digits, ok := new(big.Int).SetString(m[3]+m[4], 10)
	if !ok {
		return nil, false, true
	}
	exponent, err := strconv.Atoi("0" + strings.TrimLeft(m[5], "+-"))
	if err != nil {
		return nil, false, false
	}
	if strings.HasPrefix(m[5], "-") {
		exponent = -exponent
	}
	switch {
	case digits.Sign() == 0:
		return digits, true, exponent == 0 && m[2] == ""
	case exponent < -1000:
		return new(big.Int), true, m[2] == ""
	case exponent > 1000:
		return nil, false, true
	}
	exact := new(big.Rat).SetInt(digits)
	power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(abs(exponent-len(m[4])+decimals))), nil))
	if exponent-len(m[4])+decimals < 0 {
		power.Inv(power)
	}
	exact.Mul(exact, power)
	units, rest := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
	whole := len(units.String()) - decimals // integer digits
	if c := rest.Lsh(rest, 1).Cmp(exact.Denom()); c > 0 || c == 0 && units.Bit(0) == 1 {
		units.Add(units, big.NewInt(1))
	}
	if m[2] != "" {
		return nil, false, units.Sign() != 0
	}
	return units, whole <= intDigits, whole != intDigits || rest.Sign() == 0
}

func abs(n int) int { return max(n, -n) }
