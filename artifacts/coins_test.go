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
	lower := AppendContractKey(nil, "ethereum", []byte("0x"+strings.ToLower(hex)))
	if got := AppendContractKey([]byte("x"), "ethereum", []byte("0x"+hex)); string(got) != "x"+string(lower) {
		t.Errorf("key %q", got)
	}
	if got := AppendContractKey(nil, "base", []byte("0x"+hex)); string(got) == string(lower) {
		t.Errorf("key %q on two platforms", got)
	}
}

func TestFigures(t *testing.T) {
	for list, want := range map[string][FigureCount]string{
		`"-1.5","1",null,"21"`: {"-1.5", "1", "", "21"}, `"0",null,null,null`: {"0"}, ``: {}, `"1"`: {"1"},
	} {
		for i, got := range Figures(append(append(AppendFigures(nil, 7), list...), coveredField+"9}"...)) {
			if string(got) != want[i] {
				t.Errorf("%s: figure %d is %s", list, i, got)
			}
		}
	}
}

func TestCheckFigures(t *testing.T) {
	for rest, want := range map[string]string{
		`"figures":["-1.5",null,null,"1"]}`: "", `"code":"eur","name":"x","usd":"1.08"}`: "",
		`"rank":1}`:                        "",
		`"figures":[null,null,null,null]}`: "want 4 figures", `"figures":["0","1"]}`: "want 4 figures",
		`"figures":["0",null,"1.0",null]}`: "figure 3", `"figures":["0",null,1,null]}`: "json",
		`"code":"eur","usd":"1e3"}`: "figure 1", `"code":"eur","usd":null}`: "figure 1",
		`"code":"eur","usd":1}`: "json",
	} {
		err := checkFigures([]byte(rest))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", rest, err)
		}
	}
}
