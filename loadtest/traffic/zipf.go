package traffic

import (
	"math"
	"math/rand/v2"
	"sort"
)

// zipf draws the numbers from 0 to n−1, number i with a weight of
// 1/(i+1)^exponent. Unlike the standard library's it takes any exponent from 0
// (all alike), and costs a table of n numbers for it.
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

// draw returns a number; n must be above 0.
func (z *zipf) draw(r *rand.Rand) int {
	n := len(z.sums)
	return min(sort.SearchFloat64s(z.sums, r.Float64()*z.sums[n-1]), n-1)
}
