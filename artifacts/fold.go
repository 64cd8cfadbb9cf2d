package artifacts

import (
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

// FoldUnicodeVersion is the version of the Unicode tables that Fold uses. The manifest names it, so
// that an edge built with other tables can detect the difference.
const FoldUnicodeVersion = unicode.Version

// Fold returns the form of s in which texts are compared: two texts match if their folded forms are
// equal, and text sort keys compare as the bytes of their folded forms (INTERFACE.md, "Text"). The
// builder and the edge must both use it, because strings.ToLower, strings.EqualFold and this
// function disagree on a few letters.
//
// Fold replaces each code point with the lowest one in its orbit (see unicode.SimpleFold), except
// that A to Z become a to z. It leaves bytes that are not valid UTF-8 unchanged. Fold(Fold(s))
// equals Fold(s), the result is never longer than s, and Fold returns s itself if nothing changes.
func Fold(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			dst := append(make([]byte, 0, len(s)), s[:i]...)
			return string(AppendFold(dst, []byte(s[i:])))
		}
	}
	return s
}

// AppendFold appends the folded form of s to dst; see [Fold]. It does not allocate if dst has room
// for len(s) more bytes. dst may be s[:0].
func AppendFold(dst, s []byte) []byte {
	dst = slices.Grow(dst, len(s))
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, c)
		} else {
			dst = utf8.AppendRune(dst, foldRune(r))
		}
		i += n
	}
	return dst
}

// foldPage maps 256 consecutive code points to their folded forms.
type foldPage [256]rune

// foldPages returns the pages that have at least one code point that folds to another one, indexed
// by code point / 256. The other pages are nil. Calling unicode.SimpleFold each time would be about
// ten times slower, and an edge folds text that any client may send.
var foldPages = sync.OnceValue(func() []*foldPage {
	var pages []*foldPage
	// A letter that folds to another letter has an upper, lower or title case, so CaseRanges
	// includes it.
	for _, cased := range unicode.CaseRanges {
		for r := rune(cased.Lo); r <= rune(cased.Hi); r++ {
			lowest := r
			for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
				lowest = min(lowest, o)
			}
			if 'A' <= lowest && lowest <= 'Z' {
				lowest += 'a' - 'A'
			}
			if lowest == r {
				continue
			}
			n := int(r >> 8)
			for len(pages) <= n {
				pages = append(pages, nil)
			}
			if pages[n] == nil {
				pages[n] = new(foldPage)
				for i := range pages[n] {
					pages[n][i] = r&^0xff | rune(i)
				}
			}
			pages[n][r&0xff] = lowest
		}
	}
	return pages
})

func foldRune(r rune) rune {
	pages := foldPages()
	if n := int(r >> 8); n < len(pages) && pages[n] != nil {
		return pages[n][r&0xff]
	}
	return r
}

// AppendString appends s, which must be valid UTF-8, as a JSON string. It escapes only ", \ and
// U+0000 to U+001F (INTERFACE.md, "Envelope").
func AppendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= '\b' && c <= '\r' && c != '\v':
			dst = append(dst, '\\', "btn fr"[c-'\b'])
		default:
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
