package providertest

import (
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	markets "example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"pgregory.net/rapid"
)

// Digits compares one quote of drawn values, any number in any spelling and no numbers
// at all, with what a feed makes of it: every digit is passed on, and read as
// the very number, or the row is set aside. quote is a market with that quote only.
func Digits(t *testing.T, quote func(price, marketCap, volume string) provider.Market) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		price, marketCap, volume := value(rt, "price"), value(rt, "market cap"), value(rt, "volume")
		absent := func(value string) bool { return value == "null" || value == `""` }
		files := provider.NewFeed("test", time.Unix(1, 0), nil)
		quote(price, marketCap, volume).Write(files)
		feed, _, err := source.Read(t.Context(), files, source.ReadOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		written := Contents(t, files, source.QuotesFile)
		if absent(price) {
			if written != "" || len(feed.Quotes) > 0 {
				rt.Fatalf("a quote without a price: %s", written)
			}
			return
		}
		row, _ := provider.Object([]byte(written))
		accepted, sure := true, true
		for field, value := range map[string]string{"price": price, "market_cap": marketCap, "volume": volume} {
			if got := string(row.Get(field)); got != value && !(absent(value) && got == "") {
				rt.Fatalf("%s of %s became %s", field, value, got)
			}
			decimals, intDigits := markets.MoneyDecimals, markets.MoneyIntDigits
			if field == "price" {
				decimals, intDigits = markets.PriceDecimals, markets.PriceIntDigits
			}
			want, fits, certain := unitsOf(value, decimals, intDigits)
			if absent(value) {
				want, fits = new(big.Int), true
			}
			accepted, sure = accepted && fits, sure && certain
			if len(feed.Quotes) == 0 || !fits {
				continue
			}
			q := feed.Quotes[0]
			got := map[string]markets.U128{"price": q.Price, "market_cap": q.MarketCap, "volume": q.Volume}[field]
			units := new(big.Int).SetUint64(got.Hi)
			if units.Lsh(units, 64).Or(units, new(big.Int).SetUint64(got.Lo)); units.Cmp(want) != 0 {
				rt.Fatalf("%s of %s is %s units, want %s", field, value, units, want)
			}
		}
		if sure && accepted != (len(feed.Quotes) == 1) {
			rt.Fatalf("%s: accepted %v, want %v", written, len(feed.Quotes) == 1, accepted)
		}
	})
}

// FuzzRows calls check with the answers in the sample, of which one is replaced by
// a drawn one that passes for an answer: an array, or for the last file an object.
// files are the sample's without .json; odd are answers to begin with.
func FuzzRows(f *testing.F, files, odd []string, check func(t *testing.T, answers [][]byte)) {
	var sample [][]byte
	for i, name := range files {
		b, err := os.ReadFile(filepath.Join("testdata/sample", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		sample = append(sample, b)
		f.Add(i, b)
		for _, odd := range odd {
			f.Add(i, []byte(odd))
		}
	}
	f.Fuzz(func(t *testing.T, which int, body []byte) {
		answers := slices.Clone(sample)
		which = int(uint(which) % uint(len(answers)))
		answers[which] = body
		good := provider.CheckArray
		if which == len(files)-1 {
			good = provider.CheckObject
		}
		if _, err := good(body); err == nil { // or else the client asks again
			check(t, answers)
		}
	})
}
