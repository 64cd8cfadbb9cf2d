package traffic

import (
	"math"
	"math/rand/v2"
	"sort"
)

// zipf draws numbers from 0 to n−1. Number i has the weight 1/(i+1)^exponent. Unlike rand.Zipf of the
// standard library, it supports every exponent from 0 (equal weights) upward, but it needs a table of n
// numbers.
type zipf struct{ sums []float64 }

func newZipf(n int, exponent float64) *zipf {
	z := &zipf{sums: make([]float64, n)}
	sum := 0.0
	for i := range z.sums {
		sum += math.Pow(float64(i+1), -exponent)
		z.sums[i] = sum
	}
	return z
}

// draw returns a random number. The table must not be empty.
func (z *zipf) draw(r *rand.Rand) int {
	n := len(z.sums)
	return min(sort.SearchFloat64s(z.sums, r.Float64()*z.sums[n-1]), n-1)
}
