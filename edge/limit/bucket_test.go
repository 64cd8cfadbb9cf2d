package limit

import (
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

func TestNew(t *testing.T) {
	for _, c := range []struct {
		rate, burst, window int
		ok                  bool
	}{
		{100, 200, 2, true}, {10, 50, 5, true}, {3, 10, 4, true}, {1, 1, 1, true}, {MaxRate, MaxBurst, 1, true},
		{7, 1, 1, true}, {3, 3, 1, true}, {7, 7, 1, true}, {3, 4, 2, true}, {1, MaxBurst, MaxBurst, true},
		{0, 1, 0, false}, {1, 0, 0, false}, {-1, 1, 0, false}, {MaxRate + 1, 1, 0, false}, {1, MaxBurst + 1, 0, false},
	} {
		l, err := New(c.rate, c.burst)
		if (err == nil) != c.ok || c.ok && (l.Window() != c.window || l.Burst() != c.burst) {
			t.Errorf("New(%d, %d): window %d, burst %d, error %v; want window %d, ok %v", c.rate, c.burst, l.Window(),
				l.Burst(), err, c.window, c.ok)
		}
	}
}

// model is a textbook token bucket. It stores the number of tokens as an exact fraction.
type model struct {
	interval, burst, tokens *big.Rat
	last                    int64
}

func newModel(l Limit) *model {
	return &model{interval: big.NewRat(l.interval, 1), burst: big.NewRat(l.burst, 1), tokens: big.NewRat(l.burst, 1)}
}

func (m *model) drip(now int64) {
	if now > m.last {
		m.tokens.Add(m.tokens, new(big.Rat).Quo(big.NewRat(now-m.last, 1), m.interval))
		m.last = now
	}
	if m.tokens.Cmp(m.burst) > 0 {
		m.tokens.Set(m.burst)
	}
}

func (m *model) state(ok bool) Decision {
	d := Decision{
		OK: ok, Remaining: max(0, int(floor(m.tokens))), Reset: int(m.seconds(new(big.Rat).Sub(m.burst, m.tokens)))}
	if !ok {
		d.RetryAfter = max(1, int(m.seconds(new(big.Rat).Sub(big.NewRat(1, 1), m.tokens))))
	}
	return d
}

func (m *model) take(now int64) Decision {
	m.drip(now)
	ok := m.tokens.Cmp(big.NewRat(1, 1)) >= 0
	if ok {
		m.tokens.Sub(m.tokens, big.NewRat(1, 1))
	}
	return m.state(ok)
}

// charge takes n tokens. The debt is limited to the tokens of one minute.
func (m *model) charge(now int64, n int) Decision {
	m.drip(now)
	least := new(big.Rat).Quo(big.NewRat(-int64(time.Minute), 1), m.interval)
	if m.tokens.Sub(m.tokens, big.NewRat(int64(n), 1)); m.tokens.Cmp(least) < 0 {
		m.tokens.Set(least)
	}
	return m.state(true)
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

// seconds returns the time in which this many tokens become available, in seconds, rounded up.
func (m *model) seconds(tokens *big.Rat) int64 {
	r := new(big.Rat).Mul(tokens, m.interval)
	return -floor(r.Neg(r.Quo(r, big.NewRat(int64(time.Second), 1))))
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := must.Get(New(rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, MaxRate)).Draw(t, "rate"),
			rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(1, MaxBurst)).Draw(t, "burst")))(t)

		b, m := new(Bucket), newModel(l)
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2*l.interval),
				rapid.Int64Range(0, 10*int64(time.Second)), rapid.Just(l.interval)).Draw(t, "pause")
			var got, want Decision
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				n := rapid.OneOf(rapid.IntRange(0, 10), rapid.IntRange(1, 10_000)).Draw(t, "n")
				got, want = b.Charge(l, now, n), m.charge(now, n)
			} else {
				got, want = b.Take(l, now), m.take(now)
			}
			if got != want {
				t.Fatalf("%+v at %d: %+v, the model says %+v", l, now, got, want)
			}
		}
	})
}

// TestConcurrent checks that many goroutines together get exactly the available tokens.
func TestConcurrent(t *testing.T) {
	const goroutines, steps = 64, 400
	l, b := must.Get(New(1000, 500))(t), new(Bucket)
	// Empty the bucket first, so that it never becomes full and loses tokens.
	admitted := new(atomic.Int64)
	for b.Take(l, 0).OK {
		admitted.Add(1)
	}
	var clock atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range steps {
				now := clock.Add(10_000)
				if b.Take(l, now).OK {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	now := clock.Load()
	left := int64(0)
	for b.Take(l, now).OK {
		left++
	}
	if total, want := admitted.Load()+left, now/l.interval+l.burst; total != want {
		t.Errorf("%d taken and %d left of %d", admitted.Load(), left, want)
	}
}

func TestConvert(t *testing.T) {
	slow, fast := must.Get(New(1, 50))(t), must.Get(New(1000, 5))(t)
	const now = int64(time.Hour)
	for _, c := range []struct{ take, remaining int }{{0, 4}, {3, 1}, {5, -1}, {50, -1}} {
		b := new(Bucket)
		for range c.take {
			b.Take(slow, now)
		}
		// Take itself takes one token. A remaining of -1 means that there was none.
		d := b.Convert(slow, fast, now).Take(fast, now)
		if d.OK != (c.remaining >= 0) || d.OK && d.Remaining != c.remaining {
			t.Errorf("after %d: %+v, want %d left", c.take, d, c.remaining)
		}
		if !d.OK && d.RetryAfter != 1 {
			t.Errorf("after %d: retry after %d s", c.take, d.RetryAfter)
		}
	}
}
