package rows

import "math/bits"

// metTable is a hash table that maps assets to the words of a search that they contain, or to the filtered
// groups that they belong to. Its memory is reused.
type metTable struct {
	ids   []uint64 // 0 if the entry is free
	words []uint8  // one bit for each word
	shift int
}

// largeMet is the table size above which the memory is freed.
const largeMet = 1 << 15

// reset empties the table and makes room for n assets. If n is 0, the table is not in use.
func (t *metTable) reset(n int) {
	if n == 0 {
		t.ids = t.ids[:0]
		return
	}
	t.shift = 64 - bits.Len(uint(2*n-1))
	size := 1 << (64 - t.shift)
	if cap(t.ids) < size {
		t.ids, t.words = make([]uint64, size), make([]uint8, size)
	}
	t.ids, t.words = t.ids[:size], t.words[:size]
	clear(t.ids)
}

// find returns the index of the entry for id, or of the free entry where it belongs.
func (t *metTable) find(id uint64) int {
	mask := len(t.ids) - 1
	at := int(id * 0x9e3779b97f4a7c15 >> t.shift)
	for t.ids[at] != id && t.ids[at] != 0 {
		at = (at + 1) & mask
	}
	return at
}

// add adds an asset with a set of words.
func (t *metTable) add(id uint64, words uint8) {
	at := t.find(id)
	t.ids[at], t.words[at] = id, words
}

// raise adds a word to the set of an asset if that set equals expected. It returns the number of assets
// changed, 0 or 1.
func (t *metTable) raise(id uint64, expected, word uint8) int {
	if at := t.find(id); t.ids[at] == id && t.words[at] == expected {
		t.words[at] |= word
		return 1
	}
	return 0
}

// mark adds a word to the set of an asset if that set equals expected. An asset that is not in the table has
// the empty set.
func (t *metTable) mark(id uint64, expected, word uint8) {
	at := t.find(id)
	if t.ids[at] == 0 && expected == 0 {
		t.ids[at], t.words[at] = id, word
	} else if t.ids[at] == id && t.words[at] == expected {
		t.words[at] |= word
	}
}

// taken marks an asset for which firstMatch has already returned true.
const taken = 1 << 7

// firstMatch reports whether the set of an asset equals expected. It returns true only the first time.
func (t *metTable) firstMatch(id uint64, expected uint8) bool {
	at := t.find(id)
	if t.ids[at] == 0 && expected == 0 {
		t.ids[at], t.words[at] = id, taken
		return true
	}
	if t.ids[at] != id || t.words[at] != expected {
		return false
	}
	t.words[at] |= taken
	return true
}

// has reports whether the set of an asset equals expected. If the table is not in use, it returns true.
func (t *metTable) has(id uint64, expected uint8) bool {
	if len(t.ids) == 0 {
		return true
	}
	at := t.find(id)
	return t.ids[at] == id && t.words[at] == expected
}
