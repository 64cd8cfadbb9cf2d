package limit

import (
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/internal/lab/must"
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

// model is the token bucket of the textbooks: tokens that drip in, kept as an
// exact fraction.
type model struct {
	interval, burst, tokens *big.Rat
	last                    int64
	back                    map[int64]int64 // tokens that were given back, by second
	ready                   *big.Rat        // and those of earlier seconds
}

func newModel(l Limit) *model {
	return &model{interval: big.NewRat(l.interval, 1), burst: big.NewRat(l.burst, 1), tokens: big.NewRat(l.burst, 1),
		back: map[int64]int64{}, ready: new(big.Rat)}
}

func (m *model) drip(now int64) {
	if now > m.last {
		m.tokens.Add(m.tokens, new(big.Rat).Quo(big.NewRat(now-m.last, 1), m.interval))
		m.last = now
	}
	if m.tokens.Cmp(m.burst) > 0 {
		m.tokens.Set(m.burst)
	}
	m.refund(now)
}

// refund puts back what may be: with the faults of this second and the one before, the
// bucket then accounts for no more than it holds.
func (m *model) refund(now int64) {
	lately := int64(0)
	for second, n := range m.back {
		if second+2 > now/int64(time.Second) {
			lately += n
		} else {
			m.ready.Add(m.ready, big.NewRat(n, 1))
			delete(m.back, second)
		}
	}
	if m.ready.Cmp(m.burst) > 0 {
		m.ready.Set(m.burst)
	}
	missing := new(big.Rat).Sub(m.burst, m.tokens)
	room := big.NewRat(max(0, floor(missing)-lately), 1)
	if room.Cmp(m.ready) > 0 {
		room.Set(m.ready)
	}
	m.tokens.Add(m.tokens, room)
	if m.ready.Sub(m.ready, room); lately == 0 {
		m.ready.SetInt64(0)
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

func (m *model) giveBack(now int64) { m.back[now/int64(time.Second)]++ }

// charge takes n tokens, so that no more than most are owed. It takes none where more are.
func (m *model) charge(now int64, n int, most *big.Rat) Decision {
	m.drip(now)
	least := new(big.Rat).Neg(most)
	if n > 0 && m.tokens.Cmp(least) < 0 {
		least.Set(m.tokens)
	}
	if m.tokens.Sub(m.tokens, big.NewRat(int64(n), 1)); m.tokens.Cmp(least) < 0 {
		m.tokens.Set(least)
	}
	if m.tokens.Cmp(m.burst) > 0 {
		m.tokens.Set(m.burst)
	}
	return m.state(true)
}

// minute is how many tokens may be owed after Spend.
func (m *model) minute() *big.Rat {
	most := new(big.Rat).Quo(big.NewRat(int64(time.Minute), 1), m.interval)
	if most.Cmp(m.burst) < 0 {
		return m.burst
	}
	return most
}

func (m *model) spend(now int64, n int) Decision {
	if m.drip(now); m.tokens.Sign() < 0 {
		return m.state(false)
	}
	return m.charge(now, n, m.minute())
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

// seconds is how long so many tokens take, in whole seconds, rounded up.
func (m *model) seconds(tokens *big.Rat) int64 {
	r := new(big.Rat).Mul(tokens, m.interval)
	return -floor(r.Neg(r.Quo(r, big.NewRat(int64(time.Second), 1))))
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := must.Get(New(rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, MaxRate)).Draw(t, "rate"),
			rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(1, MaxBurst)).Draw(t, "burst")))(t)

		b, m := new(Bucket), newModel(l)
		now, taken := int64(0), 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2*l.interval),
				rapid.Int64Range(0, 10*int64(time.Second)), rapid.Just(l.interval)).Draw(t, "pause")
			var got, want Decision
			n := rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(1, 10_000)).Draw(t, "n")
			switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
			case kind == 0:
				got, want = b.Charge(l, now, n), m.charge(now, n, m.burst)
			case kind == 1:
				got, want = b.Spend(l, now, n), m.spend(now, n)
			case kind == 2:
				n *= 1 - 2*rapid.IntRange(0, 1).Draw(t, "sign")
				got, want = b.Settle(l, now, n), m.charge(now, n, m.minute())
			default:
				if got, want = b.Take(l, now), m.take(now); got.OK {
					taken++
				}
				if taken > 0 && kind < 5 {
					b.GiveBack(now)
					m.giveBack(now)
					taken--
				}
			}
			if got != want {
				t.Fatalf("%+v at %d: %+v, the model says %+v", l, now, got, want)
			}
		}
	})
}

// TestRefunds: who gets nothing but faults, each of which gives its token back, gets no
// more of them in any second than rate and burst allow, however the requests come; and of
// faults now and then every token comes back.
func TestRefunds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := must.Get(New(rapid.IntRange(1, 300).Draw(t, "rate"), rapid.IntRange(1, 300).Draw(t, "burst")))(t)
		b := new(Bucket)
		var faults []int64
		now := rapid.Int64Range(0, int64(time.Second)).Draw(t, "start")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Int64Range(0, int64(time.Second)/2), rapid.Int64Range(0, 3*int64(time.Second))).
				Draw(t, "pause")
			for range rapid.IntRange(1, 700).Draw(t, "requests") {
				if !b.Take(l, now).OK {
					break
				}
				b.GiveBack(now)
				faults = append(faults, now)
			}
		}
		first := 0
		for i, at := range faults {
			for faults[first] <= at-int64(time.Second) {
				first++
			}
			if n := int64(i - first + 1); n > l.rate+l.burst {
				t.Fatalf("%d faults in the second until %d, under %d a second and burst %d", n, at, l.rate, l.burst)
			}
		}
	})

	l, b := must.Get(New(1, 50))(t), new(Bucket)
	for now := int64(0); now < int64(time.Minute); now += int64(time.Second) / 5 { // five times the rate
		if !b.Take(l, now).OK {
			t.Fatalf("refused at %d", now)
		}
		b.GiveBack(now)
	}
}

// TestConcurrent: many goroutines get exactly the tokens that there are.
func TestConcurrent(t *testing.T) {
	const goroutines, steps = 64, 400
	l, b := must.Get(New(1000, 500))(t), new(Bucket)
	// Emptied first, so that no token runs over a full bucket and is lost.
	admitted := new(atomic.Int64)
	for b.Take(l, 0).OK {
		admitted.Add(1)
	}
	var clock atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range steps {
				now := clock.Add(10_000)
				switch {
				case !b.Take(l, now).OK:
				case i%10 == 0:
					b.Settle(l, now, -1)
				default:
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
		// One token goes with the asking; -1: there was none.
		d := b.Convert(slow, fast, now).Take(fast, now)
		if d.OK != (c.remaining >= 0) || d.OK && d.Remaining != c.remaining {
			t.Errorf("after %d: %+v, want %d left", c.take, d, c.remaining)
		}
		if !d.OK && d.RetryAfter != 1 {
			t.Errorf("after %d: retry after %d s", c.take, d.RetryAfter)
		}
	}
}
