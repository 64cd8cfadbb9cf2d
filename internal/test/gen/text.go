package gen

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// runes has plain characters first, and then characters that are easily mishandled when texts are
// folded, sorted or escaped.
var runes = []rune{
	'a', 'b', 'A', 'B', 'k', 'K', '\u212A', 's', 'S', 'ſ', 'i', 'I', 'İ', 'ı', 'ß', 'ẞ',
	'Σ', 'σ', 'ς', 'µ', 'μ', 'Μ', 'Ω', '\u2126', 'ω', 'Å', '\u212B', 'å', 'Ǆ', 'ǅ', 'ǆ', 'ϐ', 'β',
	'в', 'В', '\u1C80', 'Ꭰ', 'ꭰ', '\U00010400', '\U00010428', 'é', '\u0301', '日', '本', '😀',
	'0', '9', '-', '_', '.', '~', ' ', '&', '(', ')', '%', '+', '=', ',', ':', ';', '/', '?', '#', '<', '>', '[', ']',
	'{', '}', '@', '\'', '`', '|', '^',
	'"', '\\', '\b', '\f', '\n', '\r', '\t', '\x00', '\x01', '\x1f', '\x7f', '\u0080', '\u00ad', '\u2028', '\u2029',
	'\uFEFF', '\uFFFD', '\uE000', '\uFFFF', '\U0010FFFF',
}

var symbols = []string{
	"BTC", "btc", "Btc", "ETH", "SOL", "ſol", "K", "\u212A", "k", "DUP", "dup", "ß", "ẞ", "ss", "SS", "İ", "i", "ı",
	"I",
	"Σ", "ς", "σ", "Å", "å", "\u212B", "日本", "😀", "A&B", "$UP", "1", "007", "a,b", "%", "%41", "a+b", "é", "e\u0301",
	" x", "x ",
}

var slugs = []string{
	"bitcoin", "Bitcoin", "ethereum", "a&b", "a-(b)", "(c)", "50%", "50%25", "a+b", "a b", " a", "a ", "a,b", "kelvin",
	"\u212Aelvin",
	"straße", "strasse", "ſlug", "slug", "İstanbul", "istanbul", "a=b", "a#b", "a?b", "a/b", "日本", "[old]",
	"1move token", "σας", "ΣΑΣ", "-", "0", "5",
}

// text returns a non-empty string.
func (d draw) text(pool []string) string {
	switch {
	case d.chance(60):
		return pick(d, pool)
	case d.chance(3):
		return strings.Repeat(string(pick(d, runes)), d.between(1, 2000))
	}
	var b strings.Builder
	for range d.between(1, 8) {
		b.WriteRune(pick(d, runes))
	}
	return b.String()
}

// literal writes s as a JSON string in one of the many ways that JSON allows.
func (d draw) literal(s string) string {
	style := 0
	if d.chance(20) {
		style = d.between(1, 3)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
		switch {
		case style == 1 && r > 0x7e, style == 2, r < 0x20 && short[r] == "":
			format := `\u%04x`
			if style == 2 {
				format = `\u%04X`
			}
			if r > 0xffff {
				high, low := utf16.EncodeRune(r)
				fmt.Fprintf(&b, format+format, high, low)
			} else {
				fmt.Fprintf(&b, format, r)
			}
		case short[r] != "":
			b.WriteString(short[r])
		case style == 3 && r == '/':
			b.WriteString(`\/`)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
