package coingecko

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/apd/v3"
)

// randomDecimal returns a decimal in plain notation, which is often short or close to half a unit.
func randomDecimal(r *rand.Rand, whole, places int) string {
	var b strings.Builder
	digit := func() {
		if r.IntN(3) == 0 {
			b.WriteByte("0059"[r.IntN(4)])
		} else {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
	}
	b.WriteByte(byte('0' + r.IntN(10)))
	if b.String() != "0" {
		for range r.IntN(whole) {
			digit()
		}
	}
	if n := r.IntN(places + 1); n > 0 {
		b.WriteByte('.')
		for range n {
			digit()
		}
	}
	return b.String()
}

// TestQuotient compares quotients with those of a library that divides with 400 digits.
func TestQuotient(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	wide := apd.BaseContext.WithPrecision(400)
	wide.Rounding = apd.RoundHalfEven
	for range 200_000 {
		x, y, places := randomDecimal(r, 30, 18), randomDecimal(r, 18, 18), r.IntN(full+1)
		if r.IntN(4) == 0 {
			y = "1"
		}
		if r.IntN(4) == 0 {
			x = "-" + x
		}
		if strings.Trim(y, "0.") == "" {
			continue
		}
		var a, b number
		if !a.parse([]byte(x)) || !b.parse([]byte(y)) {
			t.Fatalf("%s / %s is not read", x, y)
		}
		got, ok := appendQuotient(nil, &a, &b, places)
		if !ok {
			t.Fatalf("%s / %s to %d does not fit", x, y, places)
		}
		var want apd.Decimal
		p, q := mustDecimal(t, x), mustDecimal(t, y)
		if _, err := wide.Quo(&want, p, q); err != nil {
			t.Fatal(err)
		}
		if _, err := wide.Quantize(&want, &want, int32(-places)); err != nil {
			t.Fatal(err)
		}
		want.Reduce(&want)
		text := want.Text('f')
		if want.IsZero() {
			text = "0"
		}
		if string(got) != text {
			t.Fatalf("%s / %s to %d decimals is %s, want %s", x, y, places, got, text)
		}
	}
}

func mustDecimal(t *testing.T, s string) *apd.Decimal {
	t.Helper()
	d, _, err := apd.NewFromString(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNoNumber(t *testing.T) {
	for _, s := range []string{"", "-", ".", ".5", "5.", "1..2", "1e5", "+1", " 1", strings.Repeat("9", 80)} {
		var n number
		if n.parse([]byte(s)) {
			t.Errorf("%q is read as a number", s)
		}
	}
	var wide number
	wide.parse([]byte(strings.Repeat("9", 70)))
	if b, ok := appendQuotient(nil, &wide, &one, full); ok {
		t.Errorf("70 digits with 18 decimals give %s", b)
	}
	wide.times(&wide, &wide)
	if b, ok := appendQuotient(nil, &wide, &one, 0); ok {
		t.Errorf("the square of 70 digits is %s", b)
	}
}
