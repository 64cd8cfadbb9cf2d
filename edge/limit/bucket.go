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
	full    atomic.Int64 // when all tokens will be there; past: they are
	refunds refunds
	// A cache line of its own, since a bucket is written on every request of its
	// key: small objects share one otherwise, and cores would take each other's.
	_ [32]byte
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
	b.refund(l, now)
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

// Charge takes n tokens whether there are as many or not, and returns what is left.
// It leaves no bucket short of more than twice what that holds.
func (b *Bucket) Charge(l Limit, now int64, n int) Decision {
	return b.add(l, now, n, 2*l.interval*l.burst)
}

// Spend takes n tokens, at least 1. It may overdraw the bucket, so that a request that costs
// more than a full bucket is still answered, but not while the bucket is overdrawn. The debt
// is at most the tokens of a minute, or a full bucket if that is more.
func (b *Bucket) Spend(l Limit, now int64, n int) Decision {
	b.refund(l, now)
	for {
		full := b.full.Load()
		missing := max(full, now) - now
		if missing > l.interval*l.burst {
			return l.refuse(missing)
		}
		next := now + min(missing+int64(n)*l.interval, l.mostMissing())
		if b.full.CompareAndSwap(full, next) {
			return l.after(next - now)
		}
	}
}

// Settle corrects what Spend took by n tokens, below 0: they were too many. It always
// takes them.
func (b *Bucket) Settle(l Limit, now int64, n int) Decision { return b.add(l, now, n, l.mostMissing()) }

// add takes n tokens as long as the bucket is short of no more than most nanoseconds.
func (b *Bucket) add(l Limit, now int64, n int, most int64) Decision {
	b.refund(l, now)
	for {
		full := b.full.Load()
		from := max(full, now)
		next := from + int64(n)*l.interval
		if n > 0 {
			next = max(from, min(next, now+most))
		}
		if b.full.CompareAndSwap(full, next) {
			return l.after(max(0, next-now))
		}
	}
}

// GiveBack returns a token that was taken, for use a second later at the earliest: see
// refunds.
func (b *Bucket) GiveBack(now int64) { b.refunds.add(now) }

// refund puts tokens into the bucket that were given back and are due, and returns how many.
func (b *Bucket) refund(l Limit, now int64) int64 {
	r := &b.refunds
	lately := r.settle(now, l.burst)
	ready := r.ready.Load()
	if ready == 0 {
		return 0
	}
	n := max(0, min(ready, max(0, b.full.Load()-now)/l.interval-lately))
	left := ready - n
	if lately == 0 {
		left = 0 // the bucket is full
	}
	if n == 0 && left == ready || !r.ready.CompareAndSwap(ready, left) {
		return 0
	}
	b.full.Add(-n * l.interval)
	return n
}

// longestDebt is how long, after Spend, there may be no token for what a full bucket does
// not hold.
const longestDebt = int64(time.Minute)

// mostMissing is what a bucket is short of at most, in nanoseconds.
func (l Limit) mostMissing() int64 { return l.interval*l.burst + max(l.interval*l.burst, longestDebt) }

// refuse describes a bucket without a token, which lacks missing nanoseconds to be full.
func (l Limit) refuse(missing int64) Decision {
	return Decision{Reset: int(seconds(missing)), RetryAfter: int(max(1, seconds(missing-l.interval*(l.burst-1))))}
}

// refunds are tokens that were given back, by requests that got nothing but a fault. They
// are put into the bucket as soon as those that are in it, and the faults of the last
// second or two, are together no more than it holds. So in no second are there more faults
// than rate and burst allow: up to the last refund in it there were as many as the bucket
// did not hold then, and after that there are as many as it held, and its rate.
type refunds struct {
	// Of the even and of the odd seconds: the number of the last one in which any token
	// was given back, shifted by refundBits, and how many. 0: none.
	slots [2]atomic.Int64
	// ready are those of earlier seconds, no more than a full bucket.
	ready atomic.Int64
}

const (
	refundBits = 21 // hold MaxBurst
	refundMask = 1<<refundBits - 1
)

// add gives a token back at time now.
func (r *refunds) add(now int64) {
	second := now / int64(time.Second)
	for slot := &r.slots[second%2]; ; {
		was := slot.Load()
		next := was + 1
		switch {
		case was>>refundBits != second:
			next = second<<refundBits | 1 // what was there is settled, or forgone
		case was&refundMask == refundMask:
			return
		}
		if slot.CompareAndSwap(was, next) {
			return
		}
	}
}

// settle makes ready what was given back before the last whole second, and returns how
// many were since.
func (r *refunds) settle(now, burst int64) (lately int64) {
	for i := range r.slots {
		slot := &r.slots[i]
		was := slot.Load()
		switch {
		case was == 0:
		case was>>refundBits+2 > now/int64(time.Second):
			lately += was & refundMask
		case slot.CompareAndSwap(was, 0):
			for {
				ready := r.ready.Load()
				if r.ready.CompareAndSwap(ready, min(burst, ready+was&refundMask)) {
					break
				}
			}
		}
	}
	return lately
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
