package source

import "strings"

// arenaBlock is the largest size of an arena's blocks, in bytes or elements: some
// hundred rows share one allocation.
const arenaBlock = 1 << 14

// textArena makes strings that share blocks of memory.
type textArena struct{ block strings.Builder }

func (a *textArena) keep(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if a.block.Cap()-a.block.Len() < len(text) {
		if len(text) > arenaBlock/4 {
			return string(text)
		}
		a.block = strings.Builder{}
		a.block.Grow(arenaBlock)
	}
	// The builder never changes bytes that it has returned.
	from := a.block.Len()
	a.block.Write(text)
	return a.block.String()[from:]
}

// sliceArena makes slices that share blocks of memory, each twice as long as the one before.
type sliceArena[T any] struct {
	free []T
	size int
}

// slice returns a slice of n elements; nil if n is 0.
func (a *sliceArena[T]) slice(n int) []T {
	switch {
	case n == 0:
		return nil
	case n > arenaBlock/4:
		return make([]T, n)
	case n > len(a.free):
		a.size = min(max(2*a.size, 64, n), arenaBlock)
		a.free = make([]T, a.size)
	}
	s := a.free[:n:n]
	a.free = a.free[n:]
	return s
}
