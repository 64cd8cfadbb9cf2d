package sim

import "math/bits"

// hash is a well-mixed number that stands for a thing and everything chosen
// about it: a seed, an asset, one trait of an asset.
type hash uint64

// with returns the hash of a thing within the thing of h (the mixer of
// splitmix64).
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
func (h hash) between(a, b log2) log2 { return a + log2(h.below(uint64(b-a+1))) }

// percent is true for p of a hundred hashes.
func (h hash) percent(p uint64) bool { return h.below(100) < p }

const (
	tick = 600 // seconds: how often the market moves
	// scales are the time scales of a walk: 10 min, 20 min, … 455 days.
	scales = 17
	// swing is how far the scale of one tick reaches to either side: some
	// 0.4 %. Each longer scale reaches √2 times as far, as a random walk does.
	swing = one * 6 / 1000
	sqrt2 = 92682 // in units of 2^-16
)

// walk returns where the random walk of h stands at t, a Unix time.
//
// It is a sum of value noises: on each scale the time is cut into periods, a
// hash gives a value to each period's beginning, and between them the value
// moves in a straight line. So the walk is known at any time without walking
// there. It strays by a factor of two either way, most of the time, never by
// more than 2^5.3, and within a tick by at most walkStep.
func (h hash) walk(t int64) log2 {
	var sum log2
	period, reach := int64(tick), swing
	for k := range uint64(scales) {
		i, rest := t/period, t%period
		if rest < 0 {
			i, rest = i-1, rest+period
		}
		scale := h.with(k)
		a, b := scale.vertex(i), scale.vertex(i+1)
		value := a + (b-a)*(rest<<20/period)>>20
		if k%2 == 0 {
			sum += reach * log2(value) >> 24
		} else {
			sum += reach * sqrt2 >> 16 * log2(value) >> 24
			reach *= 2
		}
		period *= 2
	}
	return sum
}

// walkStep bounds what a walk moves in one tick: twice the swing for the first
// scale, and for each longer one √2 times less.
const walkStep = swing * 7

// vertex returns a number from -2^24 to 2^24-1.
func (h hash) vertex(i int64) int64 { return int64(h.with(uint64(i))) >> 39 }
