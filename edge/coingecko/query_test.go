package coingecko

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// FuzzParse checks that a request is either rejected with a well-formed message or has a cache key, and
// that the key does not depend on API keys in the query.
func FuzzParse(f *testing.F) {
	for _, target := range []string{
		"simple/price?ids=bitcoin,ether&vs_currencies=usd,eur&precision=2&x_cg_demo_api_key=secret",
		"simple/token_price/ethereum?contract_addresses=0xA0b86991c6218b36c1d19d4a2e9eb0ce3606eb48&vs_currencies=usd",
		"coins/markets?vs_currency=usd&order=volume_asc&per_page=250&page=3&category=a%20b",
		"coins/solo-%28chain%29/market_chart?vs_currency=usd&days=max", "coins/a/history?date=29-02-2024",
		"coins/a/market_chart/range?vs_currency=usd&from=1&to=2", "search?query=a+b%2",
		"coins/e/contract/0x1?x%5Fcg_pro_api_key=secret",
		"simple/token_price/e?contract_addresses=0?&vs_currencies=usd",
		"simple/price?symbols=,,a&vs_currencies=usd&include_tokens=all", "global?&&=&a",
		"coins/a/ohlc?vs_currency=usd&days=30", "coins/a/ohlc/range?vs_currency=usd&from=1&to=2&interval=daily",
	} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		path, raw, _ := strings.Cut(target, "?")
		e, ok := EndpointAt([]byte(path))
		if !ok {
			return
		}
		var q Query
		if err := q.Parse(e, []byte(path), []byte(raw)); err != nil {
			odd := func(r rune) bool { return r < ' ' || r > '~' || r == '"' }
			if err.Status != 400 || strings.ContainsFunc(err.Message, odd) {
				t.Fatalf("%q: %d %q", target, err.Status, err.Message)
			}
			return
		}
		// The same parameters without the API keys must have the same cache key.
		var other Query
		kept := slices.DeleteFunc(strings.Split(raw, "&"), func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			return IsKey([]byte(name))
		})
		if err := other.Parse(e, []byte(path), []byte(strings.Join(kept, "&"))); err != nil ||
			!bytes.Equal(other.AppendKey(nil), q.AppendKey(nil)) {
			t.Fatalf("%q: without an API key it asks for something else, %v", target, err)
		}
	})
}

// TestKeys checks which requests share an answer.
func TestKeys(t *testing.T) {
	key := func(target string) string {
		path, raw, _ := strings.Cut(target, "?")
		e, ok := EndpointAt([]byte(path))
		var q Query
		if err := q.Parse(e, []byte(path), []byte(raw)); !ok || err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		return string(q.AppendKey(nil))
	}
	same := key("simple/price?ids=a,b&vs_currencies=usd,eur")
	for _, target := range []string{"simple/price?vs_currencies=EUR,usd,usd&ids=b,,a,b&unknown=1&x_cg_pro_api_key=k",
		"simple/price?ids=a%2Cb&symbols=c&vs_currencies=usd,eur&include_market_cap=false&precision=full",
		"simple/price/?ids=a,b&vs_currencies=usd,eur"} {
		if key(target) != same {
			t.Errorf("%s has another key", target)
		}
	}
	for target, same := range map[string]string{
		"coins/a/history?date=2024-02-29": "coins/a/history?date=29-02-2024",
		"coins/a/market_chart/range?vs_currency=usd&from=2026-11-20&to=2026-11-21T12:30": "coins/a/market_chart/range" +
			"?vs_currency=usd&from=1795132800&to=1795264200"} {
		if key(target) != key(same) {
			t.Errorf("%s has another key than %s", target, same)
		}
	}
	for _, target := range []string{"simple/price?ids=a&vs_currencies=usd,eur",
		"simple/price?names=a,b&vs_currencies=usd,eur",
		"simple/price?ids=a,b&vs_currencies=usd", "simple/price?ids=A,b&vs_currencies=usd,eur",
		"simple/price?ids=a,b&vs_currencies=usd,eur&precision=3",
		"simple/price?ids=a,b&vs_currencies=usd,eur&include_24hr_vol=1"} {
		if key(target) == same {
			t.Errorf("%s has the same key", target)
		}
	}
}

// TestNotServed checks that CoinGecko's unsupported endpoints are not taken for coins.
func TestNotServed(t *testing.T) {
	for _, path := range []string{"coins/top_gainers_losers", "coins/top_gainers_losers/", "coins/list/new",
		"coins/bitcoin/tickers", "coins", "nfts/list", "key", "simple"} {
		if e, ok := EndpointAt([]byte(path)); ok {
			t.Errorf("%s is %s", path, e.Name())
		}
	}
	if e, ok := EndpointAt([]byte("coins/top_gainers")); !ok || e != Coin {
		t.Errorf("another coin is no coin")
	}
}
