package suggest

import (
	"cmp"
	"testing"
)

func TestLikely(t *testing.T) {
	known := []string{"key", "price", "market_cap", "volume"}
	for word, want := range map[string]string{
		"marketcap": "market_cap", "Price": "price", "marketCap": "market_cap", "volume_24h": "volume", "vol": "volume",
		"prise": "price", "keys": "key", "cap": "market_cap", "k": "", "": "", "supply": "", "é": "", "KEY ": "key",
		"pr": "", "price_usd": "price",
	} {
		if got := cmp.Or(Likely(word, known), Part(word, known)); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	for word, want := range map[string]string{"bitcion": "bitcoin", "usdc2": "usdc", "dog": ""} {
		if got := Likely(word, []string{"bitcoin", "usdc", "a-very-long-word"}); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"", "abc"}: 3, {"abc", ""}: 3, {"kitten", "sitting"}: 3, {"flaw", "lawn"}: 2, {"same", "same"}: 0,
	} {
		if got := Distance(pair[0], pair[1]); got != want {
			t.Errorf("%q: %d, want %d", pair, got, want)
		}
	}
}
