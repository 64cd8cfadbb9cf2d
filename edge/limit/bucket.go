// Package limit limits the rate of requests (INTERFACE.md, "Rate limits"). It provides a token bucket for
// each API key, and a fixed-size table for client addresses.
//
// A bucket is a single number, the time at which the bucket will be full (the generic cell rate algorithm). A
// compare-and-swap changes it. So a bucket needs no lock, no allocation and no background refill, and it is
// exact for any number of goroutines.
//
// Shared shares the limits of keys with other edges through Redis or Valkey (package redisstore). Each edge
// limits client addresses by itself: that limit bounds what guessing keys costs this edge, and a flood of
// forged addresses must not become a flood of calls.
//
// Times are non-negative nanoseconds since an arbitrary moment. The caller reads them from a monotonic clock.
// All times for a bucket must come from the same clock.
package limit

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Limit is a rate of requests and the size of a burst.
type Limit struct {
	interval    int64 // between two tokens, in nanoseconds
	rate, burst int64
}

// MaxRate and MaxBurst are the upper bounds of a Limit.
const (
	MaxRate  = 1_000_000
	MaxBurst = 1_000_000
)

// New returns a Limit with the given rate, in requests per second, and the given bucket size, in tokens. rate
// must be between 1 and MaxRate, and burst between 1 and MaxBurst.
func New(rate, burst int) (Limit, error) {
	if rate < 1 || rate > MaxRate || burst < 1 || burst > MaxBurst {
		return Limit{},
			fmt.Errorf("limit of %d a second, burst %d: want 1 to %d, and 1 to %d", rate, burst, MaxRate, MaxBurst)
	}
	// Round the interval up, so that requests never pass faster than the given rate. At the highest rates, this
	// admits up to 0.1% fewer requests.
	return Limit{
		interval: (int64(time.Second) + int64(rate) - 1) / int64(rate), rate: int64(rate), burst: int64(burst)}, nil
}

// Burst returns the number of tokens in a full bucket.
func (l Limit) Burst() int { return int(l.burst) }

// Interval returns the time between two tokens.
func (l Limit) Interval() time.Duration { return time.Duration(l.interval) }

// Longest returns the longest time that a bucket may take to fill, including the largest debt.
func (l Limit) Longest() time.Duration { return time.Duration(l.mostMissing()) }

// Window returns the time that an empty bucket takes to fill, burst / rate, in seconds, rounded up.
func (l Limit) Window() int { return int((l.burst + l.rate - 1) / l.rate) }

// Bucket is a token bucket. The zero value is a full bucket. A Bucket must not be copied after first use. The
// caller must pass the same Limit to all calls; see Convert for changing it.
type Bucket struct {
	full atomic.Int64 // when the bucket will be full; a time in the past means that it is full now
	// Each bucket has its own cache line, because every request of its key writes to it. Otherwise, cores
	// that use different buckets would slow each other down.
	_ [56]byte
}

// Decision is the result of Take and Charge.
type Decision struct {
	// OK reports whether a token was available and was taken.
	OK bool
	// Remaining is the number of whole tokens that are left.
	Remaining int
	// Reset is the time until the bucket is full, in seconds, rounded up.
	Reset int
	// RetryAfter is the time until a token is available, in seconds, rounded up, at least 1. It is 0 if OK is
	// true.
	RetryAfter int

	leased bool // the token comes from a Lease
}

// Take takes a token if one is available. If now is earlier than the time of a previous call, the bucket
// gains no tokens.
func (b *Bucket) Take(l Limit, now int64) Decision {
	for {
		full := b.full.Load()
		from := max(full, now)
		next := from + l.interval
		// The bucket must not lack more tokens than it can hold.
		if over := next - now - l.interval*l.burst; over > 0 {
			return l.refuse(from - now)
		}
		if b.full.CompareAndSwap(full, next) {
			return l.after(next - now)
		}
	}
}

// Charge takes n tokens, n ≥ 0, even if fewer are left, and returns the new state. The debt is limited to one
// minute's worth of tokens.
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

// longestDebt is the longest time for which a bucket has no token after Charge.
const longestDebt = int64(time.Minute)

// mostMissing returns the most that a bucket may lack, as a refill time in nanoseconds.
func (l Limit) mostMissing() int64 { return l.interval*l.burst + longestDebt }

// refuse returns the Decision for a bucket without a token. untilFull is the time in nanoseconds until the
// bucket is full.
func (l Limit) refuse(untilFull int64) Decision {
	return Decision{Reset: int(seconds(untilFull)), RetryAfter: int(max(1, seconds(untilFull-l.interval*(l.burst-1))))}
}

// after returns the Decision for a bucket from which a token was taken. untilFull is the time in nanoseconds
// until the bucket is full.
func (l Limit) after(untilFull int64) Decision {
	return Decision{
		OK: true, Remaining: int(max(0, l.interval*l.burst-untilFull) / l.interval), Reset: int(seconds(untilFull))}
}

// Convert returns a bucket for the new limit. It lacks as many tokens as b lacks under the old limit, but at
// most the new limit's burst.
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

// epoch is time 0 of the numbers that At returns.
var epoch = time.Now()

// At converts a clock reading to this package's time scale. If t comes from time.Now, the result does not
// jump when the wall clock is set.
func At(t time.Time) int64 { return max(0, int64(t.Sub(epoch))) }
