package sim

import (
	"math/bits"

	"example.com/marketdata/artifacts"
)

// hash is a well-mixed number that stands for a thing and everything chosen
// about it: a seed, an asset, one trait of an asset.
type hash uint64

// with returns the hash of a thing within the thing of h (the mixer of splitmix64).
func (h hash) with(n uint64) hash {
	z := uint64(h) + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return hash(z ^ z>>31)
}

// below returns a number from 0 to n-1, each as likely as the others.
func (h hash) below(n uint64) uint64 {
	hi, _ := bits.Mul64(uint64(h), n)
	return hi
}

// between returns a number from a to b.
func (h hash) between(a, b uint64) uint64 { return a + h.below(b-a+1) }

// percent is true for p of a hundred hashes.
func (h hash) percent(p uint64) bool { return h.below(100) < p }

const (
	// unit is a factor of one: factors are integers, in 1e-8, because the same
	// integers come out on every machine.
	unit = 100_000_000
	// scales are the time scales of a walk: 10 min, 40 min, … 455 days.
	scales = 9
	// swing is how far the shortest scale reaches to either side: 0.2 %. Each longer one takes four
	// times as long and reaches twice as far, as a random walk does, but not beyond maxSwing.
	swing    = unit / 500
	maxSwing = unit * 6 / 10
)

// walk returns the factor by which the random walk of h has moved at t, a Unix
// time. volatility is how far each scale reaches, in percent of the usual.
//
// It is a product of value noises: on each scale the time is cut into periods, a hash gives a value
// to each period's beginning, and between them the value moves in a straight line. So the walk is
// known at any time without walking there. At the usual volatility the factor lies between 1/4 and
// 3, at any between 1/50 and 8, and moves little within a tick.
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

// times returns n × factor, rounded down. The product is below 2^64.
func times(n uint64, factor int64) uint64 {
	hi, lo := bits.Mul64(n, uint64(factor))
	n, _ = bits.Div64(hi, lo, unit)
	return n
}
