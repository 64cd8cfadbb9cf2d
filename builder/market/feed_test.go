package market

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestPlatformID(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "-_ ": "", "ethereum": "ethereum", " Binance  Smart-Chain!": "binance-smart-chain", "a__1": "a-1",
		"ΣΑΣ 日本": "σασ-日本",
	} {
		if got := PlatformID(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	names := rapid.StringOf(rapid.RuneFrom(nil, unicode.L, unicode.Nd, unicode.M, unicode.P))
	rapid.Check(t, func(t *rapid.T) {
		id := PlatformID(names.Draw(t, "name"))
		if again := PlatformID(id); again != id || strings.ContainsAny(id, "\x00/ ") {
			t.Fatalf("%q is %q", id, again)
		}
	})
	for r := range rune(unicode.MaxRune + 1) {
		lower := unicode.ToLower(r)
		if unicode.IsLetter(r) && (!unicode.IsLetter(lower) || unicode.ToLower(lower) != lower) {
			t.Errorf("%U is %U in lower case", r, lower)
		}
	}
}
