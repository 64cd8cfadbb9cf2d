package rows

import (
	"cmp"
	"slices"
)

// entry is a row that a filter matched, to be sorted in another order.
type entry struct {
	key uint64 // places it in the order asked for
	id  uint64 // and among equals
	row int    // where it stands in the driving view
}

func compareEntries(a, b entry) int {
	if c := cmp.Compare(a.key, b.key); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// pick returns entries first to first+n in sorted order. It reorders entries, and
// sorts no more of them than the page.
func pick(entries []entry, first, n int) []entry {
	sortRange(entries, first, first+n, 64)
	return entries[first : first+n]
}

// sortRange sorts e as far as puts those into their places that belong from first to
// end (exclusive): a quicksort of the parts that reach into the range, for so many
// rounds before it is an ordinary sort.
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

// partition moves entries before, equal to and behind a middling one apart, and
// returns where the equal ones stand.
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
