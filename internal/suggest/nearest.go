// Package suggest finds the word that a user probably meant.
package suggest

import (
	"slices"
	"strings"
)

// Distance returns the Levenshtein distance: the number of bytes that must be inserted, deleted or
// replaced to turn a into b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := last
			if a[i] != b[j] {
				replaced++
			}
			last = row[j+1]
			row[j+1] = min(replaced, last+1, row[j]+1)
		}
	}
	return row[len(b)]
}

var plain = strings.NewReplacer("_", "", "-", "", " ", "", ".", "")

func fold(word string) string { return plain.Replace(strings.ToLower(word)) }

// Likely returns the known word that is nearest to word, or "" if more than a third of word differs
// from every known word. Likely ignores case and separators.
func Likely(word string, known []string) (found string) {
	word = fold(word)
	for best, i := len(word)/3+1, 0; i < len(known); i++ {
		if far := len(word) - len(known[i]); far >= best { // Folding never makes a word longer.
			continue
		}
		k := fold(known[i])
		if len(k)-len(word) >= best {
			continue
		}
		if d := Distance(word, k); d < best {
			best, found = d, known[i]
		}
	}
	return found
}

// minPart is the minimum length of an abbreviation that Part recognizes, such as vol for volume.
const minPart = 3

// Part returns the first known word that contains word or is contained in it, or "" if there is
// none.
func Part(word string, known []string) string {
	word = fold(word)
	i := slices.IndexFunc(known, func(k string) bool {
		k = fold(k)
		return min(len(k), len(word)) >= minPart && (strings.Contains(word, k) || strings.Contains(k, word))
	})
	if i < 0 {
		return ""
	}
	return known[i]
}
