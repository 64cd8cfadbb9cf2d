package oracle

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fold returns the form of s in which texts are matched and ordered
// (INTERFACE.md, "Text"): for each code point the lowest one that simple case
// folding reaches, A to Z written as a to z. Bytes that are no UTF-8 stay.
func Fold(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteByte(s[i])
			i++
			continue
		}
		i += n
		lowest := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			lowest = min(lowest, f)
		}
		if 'A' <= lowest && lowest <= 'Z' {
			lowest += 'a' - 'A'
		}
		b.WriteRune(lowest)
	}
	return b.String()
}
