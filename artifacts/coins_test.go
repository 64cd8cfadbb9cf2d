package artifacts

import (
	"strings"
	"testing"
)

func TestCoinItem(t *testing.T) {
	for _, id := range []uint64{1, 1<<53 - 1} {
		const item, tail = `{"id":"a,b","symbol":"{","name":"}"}`, `,"platforms":{"x":"y"}}`
		row := append(append(AppendCoin(nil, id), item...), '}')
		if got := CoinItem(row); string(got) != item {
			t.Errorf("item %s of %s", got, row)
		}
		if got := CoinPlatforms([]byte(tail)); string(got) != `{"x":"y"}` {
			t.Errorf("platforms %s", got)
		}
	}
}

func TestAppendAddress(t *testing.T) {
	const hex = "0123456789abcdefABCDEFabcdef0123456789AB"
	for address, want := range map[string]string{
		"0x" + hex: "0x" + strings.ToLower(hex), "0X" + hex: "0X" + hex, hex: hex, "0x" + hex[1:]: "0x" + hex[1:],
		"0x" + hex + "0": "0x" + hex + "0", "0x" + hex[1:] + "G": "0x" + hex[1:] + "G",
		"0x" + hex[1:] + "@": "0x" + hex[1:] + "@",
		"":                   "", "So1ANA": "So1ANA",
	} {
		if got := AppendAddress(nil, []byte(address)); string(got) != want {
			t.Errorf("%s becomes %s", address, got)
		}
	}
	if got := AppendContractKey([]byte("x"), "solana", []byte("So1")); string(got) != "xsolana\x00So1" {
		t.Errorf("key %q", got)
	}
}

func TestCheckFigures(t *testing.T) {
	for rest, want := range map[string]string{
		`"price_change_24h":"-1.5","total_supply":null}`: "", `"code":"eur","name":"x","usd":"1.08"}`: "",
		`"rank":1}`:                "",
		`"price_change_24h":null}`: "price_change_24h", `"price_change_24h":"0","max_supply":"1.0"}`: "max_supply",
		`"code":"eur","usd":"1e3"}`: "usd", `"code":"eur","usd":null}`: "usd", `"code":"eur","usd":1}`: "json",
	} {
		err := checkFigures([]byte(rest))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", rest, err)
		}
	}
}
