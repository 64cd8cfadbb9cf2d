package rows

import (
	"cmp"
	"slices"
)

// entry is a matched row, to be sorted into the requested order.
type entry struct {
	key uint64 // the position in the requested order
	id  uint64 // breaks ties
	row int    // the row in the driving view
}

func compareEntries(a, b entry) int {
	if c := cmp.Compare(a.key, b.key); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// pick returns the range [first, first+n) of the sorted entries. It reorders the slice, but sorts only
// this range.
func pick(entries []entry, first, n int) []entry {
	sortRange(entries, first, first+n, 64)
	return entries[first : first+n]
}

// sortRange moves the entries that belong to the range [first, end) of the sorted order to their positions,
// and sorts them. It is a quicksort that ignores parts outside the range. After the given number of rounds,
// it switches to an ordinary sort.
func sortRange(e []entry, first, end, rounds int) {
	for ; first < end && len(e) > 4*(end-first)+64 && rounds > 0; rounds-- {
		a, b := partition(e)
		if first < a {
			sortRange(e[:a], first, min(end, a), rounds-1)
		}
		e, first, end = e[b:], max(0, first-b), end-b
	}
	if first < end {
		slices.SortFunc(e, compareEntries)
	}
}

// partition separates the entries into those that are less than, equal to, and greater than a median of
// three. It returns the range of the entries that equal the median.
func partition(e []entry) (a, b int) {
	x, y, z := e[len(e)/4], e[len(e)/2], e[len(e)/4*3]
	if compareEntries(x, y) > 0 {
		x, y = y, x
	}
	if compareEntries(y, z) > 0 {
		y = z
		if compareEntries(x, y) > 0 {
			y = x
		}
	}
	lo, i, hi := 0, 0, len(e)
	for i < hi {
		switch c := compareEntries(e[i], y); {
		case c < 0:
			e[lo], e[i] = e[i], e[lo]
			lo, i = lo+1, i+1
		case c > 0:
			hi--
			e[i], e[hi] = e[hi], e[i]
		default:
			i++
		}
	}
	return lo, hi
}
