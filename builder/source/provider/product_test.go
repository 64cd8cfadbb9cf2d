package provider

import (
	"encoding/json"
	"math/big"
	"testing"

	"example.com/marketdata/builder/market"
	"pgregory.net/rapid"
)

// TestQuotient compares quotients with rational numbers. The error is at most half a unit of the
// last decimal, and if it is exactly half, the last digit is even.
func TestQuotient(t *testing.T) {
	for _, c := range [][3]string{
		{"91000", "84000", "1.083333333333333333"}, {"1", "2e18", "0"}, {"3", "2e18", "2e-18"}, {"1", "0", ""},
		{"", "1", ""},
		{`"6"`, "3", "2"}, {`"N/A"`, "1", ""}, {"1", `"NaN"`, ""},
		{"1e-999999999", "1e999999999", ""}, {"1e100", "1e-100", "1e200"},
	} {
		got := Quotient(raw(c[0]), raw(c[1]))
		if want := c[2]; want == "" && got != nil || want != "" && !equal(got, want) {
			t.Errorf("%s / %s is %s, want %s", c[0], c[1], got, want)
		}
	}
	unit := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(market.PriceDecimals), nil))
	half := new(big.Rat).Mul(unit, big.NewRat(1, 2))
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringMatching(`[1-9][0-9]{0,30}(\.[0-9]{1,20})?(e-?[0-9])?`)
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		got, ok := new(big.Rat).SetString(string(Quotient(raw(a), raw(b))))
		if !ok {
			t.Fatalf("%s / %s is no number", a, b)
		}
		units := new(big.Rat).Quo(got, unit)
		off := new(big.Rat).Sub(got, x.Quo(x, y))
		if c := off.Abs(off).Cmp(half); c > 0 || c == 0 && units.Num().Bit(0) == 1 || !units.IsInt() {
			t.Fatalf("%s / %s is %s", a, b, got.FloatString(20))
		}
	})
}

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func equal(got json.RawMessage, want string) bool {
	x, ok := new(big.Rat).SetString(string(got))
	y, _ := new(big.Rat).SetString(want)
	return ok && x.Cmp(y) == 0
}
