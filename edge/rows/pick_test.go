package rows

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPick checks that pick returns the same range as sorting all entries.
func TestPick(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		entries := make([]entry, rng.IntN(3000))
		keys := rng.Uint64N(100) + 1
		for i := range entries {
			entries[i] = entry{key: rng.Uint64N(keys), id: uint64(i)}
		}
		if rng.IntN(3) > 0 {
			rng.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		}
		sorted := slices.Clone(entries)
		slices.SortFunc(sorted, compareEntries)
		first := rng.IntN(len(entries) + 1)
		n := rng.IntN(min(500, len(entries)-first) + 1)
		if got := pick(entries, first, n); !slices.Equal(got, sorted[first:first+n]) {
			t.Fatalf("%d from %d of %d entries are wrong", n, first, len(entries))
		}
	}
}
