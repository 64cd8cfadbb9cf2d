package sim

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestLog2Int(t *testing.T) {
	for n := uint64(1); n <= 1<<31; n = n*17/16 + 1 {
		got, want := float64(log2Int(n))/float64(one), math.Log2(float64(n))
		if n&(n-1) == 0 && got != want || math.Abs(got-want) > 0.087 {
			t.Errorf("log2Int(%d) = %v, want about %v", n, got, want)
		}
	}
}

func TestExp2(t *testing.T) {
	// The roots of two that the table is made of, from OEIS A002193 and A010767.
	if got, want := exp2(1<<31), uint64(0xb504f333f9de6484); got != want {
		t.Errorf("2^(1/2) = %#x, want %#x", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Uint32().Draw(t, "x")
		got := float64(exp2(x)) / (1 << 63)
		if want := math.Exp2(float64(x) / (1 << 32)); math.Abs(got/want-1) > 1e-14 {
			t.Errorf("exp2(%d) = %v, want %v", x, got, want)
		}
		if x > 0 && exp2(x-1) >= exp2(x) {
			t.Errorf("exp2(%d) is no more than exp2(%d)", x, x-1)
		}
	})
}

// TestDecimal holds the written forms of numbers against the number, as the
// standard library reads and computes it.
func TestDecimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := log2(rapid.Int64Range(-52<<32, 50<<32).Draw(t, "l"))
		n := rapid.IntRange(1, 12).Draw(t, "n")
		d := l.decimal(n)
		plain, scientific := string(d.appendPlain([]byte("x"))[1:]), string(d.appendScientific([]byte("x"))[1:])
		p, ok1 := new(big.Rat).SetString(plain)
		s, ok2 := new(big.Rat).SetString(scientific)
		if !ok1 || !ok2 || p.Cmp(s) != 0 {
			t.Fatalf("%+v is written %s and %s", d, plain, scientific)
		}
		got, _ := p.Float64()
		want := math.Exp2(float64(l) / (1 << 32))
		if low := want * (1 - math.Pow10(1-n) - 2e-8); got < low || got > want*(1+2e-8) {
			t.Errorf("%d significant digits of %v: got %s", n, want, plain)
		}
		if d.digits == 0 || d.digits%10 == 0 || d.digits >= uint64(math.Pow10(n+1)) {
			t.Errorf("%d digits of %v: %d", n, want, d.digits)
		}
	})
}

func TestDecimalForms(t *testing.T) {
	for _, c := range []struct {
		d                 decimal
		plain, scientific string
	}{
		{decimal{1, 0}, "1", "1e0"},
		{decimal{1, -15}, "0.000000000000001", "1e-15"},
		{decimal{125, -17}, "0.00000000000000125", "1.25e-15"},
		{decimal{125, -3}, "0.125", "1.25e-1"},
		{decimal{125, -2}, "1.25", "1.25e0"},
		{decimal{125, -1}, "12.5", "1.25e1"},
		{decimal{125, 0}, "125", "1.25e2"},
		{decimal{125, 3}, "125000", "1.25e5"},
	} {
		if got := string(c.d.appendPlain(nil)); got != c.plain {
			t.Errorf("%+v plain: %s, want %s", c.d, got, c.plain)
		}
		if got := string(c.d.appendScientific(nil)); got != c.scientific {
			t.Errorf("%+v with an exponent: %s, want %s", c.d, got, c.scientific)
		}
	}
}

// slowWalk is walk as its comment has it, in floating point.
func slowWalk(h hash, t int64) float64 {
	sum := 0.0
	for k := range 17 {
		period := 600 * math.Pow(2, float64(k))
		i := math.Floor(float64(t) / period)
		part := float64(t)/period - i
		a := float64(h.with(uint64(k)).vertex(int64(i))) / (1 << 24)
		b := float64(h.with(uint64(k)).vertex(int64(i)+1)) / (1 << 24)
		sum += 0.006 * math.Pow(math.Sqrt2, float64(k)) * (a*(1-part) + b*part)
	}
	return sum
}

func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := hash(rapid.Uint64().Draw(t, "h"))
		at := rapid.Int64Range(yearOne, 253402300799).Draw(t, "t")
		got := float64(h.walk(at)) / float64(one)
		if want := slowWalk(h, at); math.Abs(got-want) > 1e-5 {
			t.Errorf("at %d: %v, want %v", at, got, want)
		}
		if got < -5.3 || got > 5.3 {
			t.Errorf("at %d: strayed to %v", at, got)
		}
		later := at + rapid.Int64Range(0, tick).Draw(t, "later")
		if step := h.walk(later) - h.walk(at); step < -walkStep || step > walkStep {
			t.Errorf("from %d to %d: moved by %v", at, later, float64(step)/float64(one))
		}
	})
}

// TestHash: a trait chosen by a hash is as likely as it says, and tells nothing
// of another one.
func TestHash(t *testing.T) {
	const n = 100_000
	var first, second, both int
	for i := range uint64(n) {
		h := hash(7).with(i)
		a, b := h.with(1).percent(20), h.with(2).percent(50)
		if a {
			first++
		}
		if b {
			second++
		}
		if a && b {
			both++
		}
	}
	for _, c := range []struct {
		name      string
		got, want int
	}{{"20 %", first, n / 5}, {"50 %", second, n / 2}, {"both", both, n / 10}} {
		if c.got < c.want*97/100 || c.got > c.want*103/100 {
			t.Errorf("%s: %d of %d, want about %d", c.name, c.got, n, c.want)
		}
	}
}
