package model

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fold replaces each code point of s with the lowest one that is reachable through Unicode simple
// case folding, except that A to Z become a to z (INTERFACE.md, "Text"). Bytes that are not valid
// UTF-8 stay unchanged.
func Fold(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		s = s[size:]
		lowest := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			lowest = min(lowest, next)
		}
		if lowest >= 'A' && lowest <= 'Z' {
			lowest += 'a' - 'A'
		}
		b.WriteRune(lowest)
	}
	return b.String()
}

// Quote formats s as a JSON string. It escapes only the quotation mark, the backslash and U+0000 to
// U+001F (INTERFACE.md, "Envelope").
func Quote(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			b.WriteString(`\"`)
		case c == '\\':
			b.WriteString(`\\`)
		case c == '\b':
			b.WriteString(`\b`)
		case c == '\f':
			b.WriteString(`\f`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < 0x20:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
