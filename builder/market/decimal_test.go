package market

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/gen"
	"github.com/holiman/uint256"
	"pgregory.net/rapid"
)

func wide(u U128) *big.Int {
	b := new(big.Int).SetUint64(u.Hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(u.Lo))
}

func TestParseDecimalAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Trim(gen.Numbers().Draw(t, "number"), `"`)
		f := rapid.SampledFrom([][2]int{{PriceDecimals, PriceIntDigits}, {MoneyDecimals, MoneyIntDigits},
			{MoneyDecimals, FeeIntDigits}}).Draw(t, "field")
		want, refusal := model.Decimal(s, f[0], f[1])
		got, err := ParseDecimal([]byte(s), f[0], f[1])
		if (refusal != nil) != (err != nil) || err == nil && string(AppendDecimal(nil, got, f[0])) != want {
			t.Fatalf("%s: got %s, %v, want %s, %v", s, AppendDecimal(nil, got, f[0]), err, want, refusal)
		}
	})
}

func TestParseDecimalGrammar(t *testing.T) {
	for _, s := range []string{"", "-", ".5", "5.", "01", "+1", "1e", "1e+", "1.e3", "0x1", "1 ", " 1", "NaN",
		"Infinity", "1_0", "1,0", "--1", "1e1.5", "00"} {
		if _, err := ParseDecimal([]byte(s), 8, 28); !errors.Is(err, errNotDecimal) {
			t.Errorf("%q: %v, want ErrNotDecimal", s, err)
		}
	}
	for s, want := range map[string]string{
		"-0": "0", "-0.000e999999999999999999": "0", "0e5": "0", "1e-999999999999999999999": "0", "1E2": "100",
		"1e+2":        "100",
		"0.000000005": "0", "0.0000000050000000000000000000000000000001": "0.00000001", "0.000000015": "0.00000002",
		"0.000000025":                            "0.00000002",
		"9999999999999999999999999999.999999999": "10000000000000000000000000000",
		"0.00000000":                             "0", "2.3500": "2.35",
		"100000000000000000000000000000e-5": "1000000000000000000000000",
	} {
		u, err := ParseDecimal([]byte(s), 8, 28)
		if err != nil || string(AppendDecimal(nil, u, 8)) != want {
			t.Errorf("%s: %s, %v; want %s", s, AppendDecimal(nil, u, 8), err, want)
		}
	}
	if _, err := ParseDecimal([]byte("-1e-99"), 8, 28); !errors.Is(err, errNegative) {
		t.Errorf("-1e-99: %v, want ErrNegative", err)
	}
	for _, s := range []string{"1e999999999", "1e28", "10000000000000000000000000000"} {
		if _, err := ParseDecimal([]byte(s), 8, 28); err == nil || !strings.Contains(err.Error(), "28") {
			t.Errorf("%s: %v, want an error that names 28 digits", s, err)
		}
	}
}

var anyU128 = rapid.Custom(func(t *rapid.T) U128 {
	u := U128{Lo: rapid.Uint64().Draw(t, "lo")}
	if rapid.Bool().Draw(t, "wide") {
		u.Hi = rapid.Uint64Max(1e36>>64).Draw(t, "hi")
	}
	return u
})

func TestPercentChangeAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price, base := anyU128.Draw(t, "price"), anyU128.Draw(t, "base")
		if rapid.Bool().Draw(t, "near") {
			price = base
			price.Lo += rapid.Uint64Max(1000).Draw(t, "step") - 500
		}
		p := PercentChange(price, base)
		if got, want := string(p.Append(nil)), model.Percent(wide(base), wide(price)); got != want {
			t.Fatalf("(%v - %v) / %v: got %s, want %s", wide(price), wide(base), wide(base), got, want)
		}
	})
}

func TestPercentChangeHalves(t *testing.T) {
	// With the base 2e14, a unit in the price's last place is half a unit in the percentage's last
	// place.
	for _, c := range []struct {
		price uint64
		want  string
	}{{200000000000001, "0"}, {200000000000003, "0.000000000002"}, {199999999999999, "0"},
		{199999999999997, "-0.000000000002"}} {
		p := PercentChange(U128{Lo: c.price}, U128{Lo: 200000000000000})
		if got := string(p.Append(nil)); got != c.want {
			t.Errorf("%d: %s, want %s", c.price, got, c.want)
		}
	}
}

func TestAppendWide(t *testing.T) {
	plain := regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$`)
	rapid.Check(t, func(t *rapid.T) {
		u := uint256.Int{rapid.Uint64().Draw(t, "0"), rapid.Uint64().Draw(t, "1"), rapid.Uint64().Draw(t, "2"),
			rapid.Uint64().Draw(t, "3")}
		u.Rsh(&u, uint(rapid.IntRange(0, 255).Draw(t, "shift")))
		if rapid.Bool().Draw(t, "round") {
			u.Mul(&u, uint256.NewInt(1e19)).Mul(&u, uint256.NewInt(1e10))
		}
		decimals := rapid.SampledFrom([]int{0, 8, 12, 18}).Draw(t, "decimals")
		neg := rapid.Bool().Draw(t, "neg")
		got := string(AppendWide([]byte("x"), neg, &u, decimals))[1:]
		exact := new(big.Rat).SetFrac(u.ToBig(), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil))
		want := strings.TrimSuffix(strings.TrimRight(exact.FloatString(decimals+1), "0"), ".")
		if neg && want != "0" {
			want = "-" + want
		}
		if got != want || !plain.MatchString(got) {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func FuzzParseDecimal(f *testing.F) {
	for _, s := range []string{"1", "0.5e-8", "-0", "1e999999999", "12345678901234567890.123456789012345678905"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := ParseDecimal(b, PriceDecimals, PriceIntDigits)
		if err != nil {
			return
		}
		again, err := ParseDecimal(AppendDecimal(nil, u, PriceDecimals), PriceDecimals, PriceIntDigits+1)
		if err != nil || again != u {
			t.Fatalf("%q: %v, then %v (%v)", b, u, again, err)
		}
	})
}

// TestPrefix checks that prefixes have the order of the numbers, apart from ties.
func TestPrefix(t *testing.T) {
	u128 := rapid.Custom(func(t *rapid.T) U128 {
		shift := rapid.IntRange(0, 127).Draw(t, "shift") // for numbers of every length
		u := U128{rapid.Uint64().Draw(t, "high"), rapid.Uint64().Draw(t, "low")}
		for range shift {
			u.Hi, u.Lo = u.Hi>>1, u.Lo>>1|u.Hi<<63
		}
		return u
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := u128.Draw(t, "a"), u128.Draw(t, "b")
		if rapid.Bool().Draw(t, "near") {
			b = U128{a.Hi, a.Lo ^ 1<<rapid.IntRange(0, 63).Draw(t, "bit")}
		}
		if c := a.Cmp(b); c < 0 && a.Prefix() > b.Prefix() || c > 0 && a.Prefix() < b.Prefix() {
			t.Fatalf("%v and %v: prefixes %x and %x", a, b, a.Prefix(), b.Prefix())
		}
		base := u128.Draw(t, "base")
		p, q := PercentChange(a, base), PercentChange(b, base)
		if c := p.Cmp(q); c < 0 && p.Prefix() > q.Prefix() || c > 0 && p.Prefix() < q.Prefix() {
			t.Fatalf("%v and %v: prefixes %x and %x", p, q, p.Prefix(), q.Prefix())
		}
	})
}
