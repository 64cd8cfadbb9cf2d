// Package limit bounds how often a client may ask
// (INTERFACE.md, "Rate limits"): a token bucket for each API key, and a table
// of fixed size for client addresses.
//
// A bucket is kept as one number, the moment at which it will be full (the
// generic cell rate algorithm), and changed by compare-and-swap: no lock, no
// allocation, no clean-up of old buckets, exact however many goroutines ask.
//
// Shared holds the limits of keys together with other edges, through Redis or
// Valkey (package redisstore). Client addresses are each edge's own: their
// limit bounds what guessing keys costs this edge, and a flood of made-up
// addresses is not to become a flood of calls.
//
// Time is a number of nanoseconds since some moment, not negative, that the
// caller reads from a clock that does not jump. All times given to one bucket
// are of one such clock.
package limit

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Limit is a number of requests a second and how many more at once.
type Limit struct {
	interval    int64 // between two tokens, in nanoseconds
	rate, burst int64
}

// MaxRate and MaxBurst bound a Limit.
const (
	MaxRate  = 1_000_000
	MaxBurst = 1_000_000
)

// New returns the limit of rate requests a second, 1 to MaxRate, with a bucket
// of burst tokens, 1 to MaxBurst.
func New(rate, burst int) (Limit, error) {
	if rate < 1 || rate > MaxRate || burst < 1 || burst > MaxBurst {
		return Limit{},
			fmt.Errorf("limit of %d a second, burst %d: want 1 to %d, and 1 to %d", rate, burst, MaxRate, MaxBurst)
	}
	// Rounded up, so that no more than rate a second get through; at the
	// highest rates that is a thousandth fewer.
	return Limit{
		interval: (int64(time.Second) + int64(rate) - 1) / int64(rate), rate: int64(rate), burst: int64(burst)}, nil
}

// Burst returns how many tokens the full bucket holds.
func (l Limit) Burst() int { return int(l.burst) }

// Interval returns the time between two tokens.
func (l Limit) Interval() time.Duration { return time.Duration(l.interval) }

// Longest returns the most time that a bucket may take to be full, with all that is owed.
func (l Limit) Longest() time.Duration { return time.Duration(l.mostMissing()) }

// Window returns how long an empty bucket takes to fill, burst / rate, in
// seconds, rounded up.
func (l Limit) Window() int { return int((l.burst + l.rate - 1) / l.rate) }

// Bucket holds the tokens under a Limit. The zero value is a full bucket. It
// must not be copied after first use. The caller gives the same Limit each
// time; see Convert for a Limit that changes.
type Bucket struct {
	full atomic.Int64 // when all tokens will be there; past: they are
	// A cache line of its own, since a bucket is written on every request of its
	// key: small objects share one otherwise, and cores would take each other's.
	_ [56]byte
}

// Decision is the answer of Take.
type Decision struct {
	// OK: a token was there and was taken.
	OK bool
	// Remaining is how many whole tokens are left.
	Remaining int
	// Reset is the time until the bucket is full, in seconds, rounded up.
	Reset int
	// RetryAfter is the time until there is a token, in seconds, rounded up,
	// at least 1. 0 when OK.
	RetryAfter int

	leased bool // the token is from a Lease
}

// Take takes a token if there is one. A time before that of an earlier call
// counts as no time passed.
func (b *Bucket) Take(l Limit, now int64) Decision {
	for {
		full := b.full.Load()
		from := max(full, now)
		next := from + l.interval
		// What is missing to a full bucket must not be more than it holds.
		if over := next - now - l.interval*l.burst; over > 0 {
			return l.refuse(from - now)
		}
		if b.full.CompareAndSwap(full, next) {
			return l.after(next - now)
		}
	}
}

// Charge takes n tokens, 0 or more, whether there are as many or not, and returns what is left. The
// debt is at most the tokens of a minute.
func (b *Bucket) Charge(l Limit, now int64, n int) Decision {
	for {
		full := b.full.Load()
		from := max(full, now)
		next := max(from, min(from+int64(n)*l.interval, now+l.mostMissing()))
		if b.full.CompareAndSwap(full, next) {
			return l.after(next - now)
		}
	}
}

// longestDebt is how long, after Charge, there may be no token.
const longestDebt = int64(time.Minute)

// mostMissing is what a bucket is short of at most, in nanoseconds.
func (l Limit) mostMissing() int64 { return l.interval*l.burst + longestDebt }

// refuse describes a bucket without a token, which lacks missing nanoseconds to be full.
func (l Limit) refuse(missing int64) Decision {
	return Decision{Reset: int(seconds(missing)), RetryAfter: int(max(1, seconds(missing-l.interval*(l.burst-1))))}
}

// after describes a bucket that lacks missing nanoseconds to be full.
func (l Limit) after(missing int64) Decision {
	return Decision{
		OK: true, Remaining: int(max(0, l.interval*l.burst-missing) / l.interval), Reset: int(seconds(missing))}
}

// Convert returns a bucket under the limit to with as many tokens missing as b
// has under the limit from, or all of them if to holds fewer.
func (b *Bucket) Convert(from, to Limit, now int64) *Bucket {
	missing := (max(0, b.full.Load()-now) + from.interval - 1) / from.interval
	c := new(Bucket)
	c.full.Store(now + min(missing, to.burst)*to.interval)
	return c
}

// seconds returns a duration in nanoseconds as whole seconds, rounded up.
func seconds(d int64) int64 {
	return (d + int64(time.Second) - 1) / int64(time.Second)
}

// epoch is where the numbers of At begin.
var epoch = time.Now()

// At returns a reading of the clock as the number that this package counts in.
// Readings of time.Now do not jump when the wall clock is set.
func At(t time.Time) int64 { return max(0, int64(t.Sub(epoch))) }
