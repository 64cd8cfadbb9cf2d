package sim

import (
	"math/bits"

	"example.com/marketdata/artifacts"
)

// hash is a well-mixed number that determines a thing and all random choices about it. A thing is a
// seed, an asset, or one trait of an asset, for example.
type hash uint64

// with returns the hash of thing n within the thing that h determines. It uses the mixer of
// splitmix64.
func (h hash) with(n uint64) hash {
	z := uint64(h) + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return hash(z ^ z>>31)
}

// below returns a number from 0 to n-1, each with the same probability.
func (h hash) below(n uint64) uint64 {
	hi, _ := bits.Mul64(uint64(h), n)
	return hi
}

// between returns a number from a to b, inclusive.
func (h hash) between(a, b uint64) uint64 { return a + h.below(b-a+1) }

// percent returns true for p percent of all hashes.
func (h hash) percent(p uint64) bool { return h.below(100) < p }

const (
	// unit is a factor of one. Factors are integers, in units of 1e-8, because integer arithmetic
	// gives the same result on every machine.
	unit = 100_000_000
	// scales is the number of time scales of a walk: 10 min, 40 min, … 455 days.
	scales = 9
	// swing is how far the shortest scale moves to either side, 0.2%. Each longer scale takes four
	// times as long and moves twice as far, as in a random walk, but not beyond maxSwing.
	swing    = unit / 500
	maxSwing = unit * 6 / 10
)

// walk returns the factor by which the random walk of h has moved at t, which is a Unix time.
// volatility is how far each scale moves, in percent of the usual distance.
//
// The factor is a product of value noises, one for each scale. On each scale, time is divided into
// periods, a hash determines a value at the start of each period, and the values in between are
// interpolated linearly. So the factor at any time can be computed without computing earlier ones.
// With a volatility of 100, the factor lies between 1/4 and 3, and with any other that the market
// uses, between 1/50 and 8. It moves little within ten minutes.
func (h hash) walk(t int64, volatility int64) int64 {
	factor := int64(unit)
	period, reach := int64(artifacts.Step.Seconds()), swing*volatility/100
	for k := range uint64(scales) {
		i, rest := t/period, t%period
		if rest < 0 {
			i, rest = i-1, rest+period
		}
		a, b := h.with(k).vertex(i), h.with(k).vertex(i+1)
		value := a + (b-a)*rest/period
		factor = factor * (unit + min(reach, maxSwing)*value>>24) / unit
		period, reach = period*4, reach*2
	}
	return factor
}

// vertex returns a number from -2^24 to 2^24-1.
func (h hash) vertex(i int64) int64 { return int64(h.with(uint64(i))) >> 39 }

// times returns n × factor, rounded down. The product must be below 2^64.
func times(n uint64, factor int64) uint64 {
	hi, lo := bits.Mul64(n, uint64(factor))
	n, _ = bits.Div64(hi, lo, unit)
	return n
}
