package artifacts

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"example.com/marketdata/internal/model"
	"pgregory.net/rapid"
)

func TestFold(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"BitCoin-2[Z]@`{", "bitcoin-2[z]@`{"}, {" A ", " a "}, {"柴犬", "柴犬"},
		{"\u212a", "k"}, {"ſ", "s"}, {"ẞ", "ß"}, {"ς", "Σ"}, {"\u01c5", "\u01c4"}, {"ꭰ", "Ꭰ"}, {"𞤢", "𞤀"},
		{"\u212b", "\u00c5"}, {"\u00e5", "\u00c5"}, {"\u039c", "\u00b5"}, // the lowest, even if it is a capital
		{"İ", "İ"}, {"ı", "ı"}, // no simple folding
		{"ⱥ", "Ⱥ"},             // 3 bytes fold to 2
		{"e\u0301", "e\u0301"}, // Fold does not normalize
		{"A\xffB", "a\xffb"}, {"\xfe", "\xfe"}, {"\xed\xa0\x80", "\xed\xa0\x80"}, {"\ufffd", "\ufffd"},
	} {
		if got := Fold(c.in); got != c.want {
			t.Errorf("Fold(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestFoldEveryCodePoint(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		in := string(r)
		got := Fold(in)
		if want := model.Fold(in); got != want {
			t.Errorf("Fold(%U) = %q, want %q", r, got, want)
		}
		if len(got) > len(in) {
			t.Errorf("Fold(%U) is longer than its argument", r)
		}
		// Two code points have equal folds exactly if they are equal under simple case folding.
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			if Fold(string(o)) != got {
				t.Errorf("%U and %U fold apart", r, o)
			}
		}
	}
}

func checkFold(t interface{ Fatalf(string, ...any) }, s string) {
	want := model.Fold(s)
	got := Fold(s)
	if got != want {
		t.Fatalf("Fold(%q) = %q, want %q", s, got, want)
	}
	if again := Fold(got); again != got {
		t.Fatalf("Fold(Fold(%q)) = %q, want %q", s, again, got)
	}
	if b := AppendFold([]byte("x"), []byte(s)); string(b) != "x"+want {
		t.Fatalf("AppendFold(x, %q) = %q", s, b)
	}
	inPlace := []byte(s)
	if b := AppendFold(inPlace[:0], inPlace); string(b) != want {
		t.Fatalf("AppendFold in place of %q = %q", s, b)
	}
}

func TestFoldProperties(t *testing.T) {
	// Mostly letters with a case, and also bytes that are not valid UTF-8.
	letter := rapid.OneOf(rapid.StringOfN(rapid.RuneFrom(nil, unicode.Upper, unicode.Lower, unicode.Title), 0, 8, -1),
		rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 4), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		checkFold(t, strings.Join(rapid.SliceOfN(letter, 0, 5).Draw(t, "parts"), ""))
	})
}

func FuzzFold(f *testing.F) {
	for _, s := range []string{"", "Abc", "Kelvin", "ſtraße", "\xff\xfeA", "\xe2\x84", "柴犬 COIN", "𞤀𞤢"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkFold(t, s) })
}

func TestFoldAllocates(t *testing.T) {
	foldPages()
	in := []byte("Bitcoin ΣΑΤΟΣΗΙ ſ")
	dst := make([]byte, 0, len(in))
	if n := testing.AllocsPerRun(100, func() { dst = AppendFold(dst[:0], in) }); n != 0 {
		t.Errorf("AppendFold allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { Fold("bitcoin-2") }); n != 0 {
		t.Errorf("Fold of folded text allocates %v times", n)
	}
}

// TestFoldTables fails with a Go version whose Unicode tables differ from those of the last
// release. Edges of the last release would reject the snapshots of such a build, and vice versa.
func TestFoldTables(t *testing.T) {
	if released := "15.0.0"; FoldUnicodeVersion != released {
		t.Errorf("Unicode tables %s, those of the last release are %s: say so in CHANGELOG.md, in the words of deploy/runbook.md, \"Upgrade\", and set the version here", FoldUnicodeVersion, released)
	}
}
