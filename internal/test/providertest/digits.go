package providertest

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/gen"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

// Digits generates quotes with arbitrary or missing numbers, and checks that the feed's row has every
// digit that the provider sent. Package source tests how numbers are parsed. marketOf must return a
// market with only the given quote.
func Digits(t *testing.T, marketOf func(price, marketCap, volume string) provider.Market) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		numbers := gen.Numbers()
		values := map[string]string{}
		for _, field := range []string{"price", "market_cap", "volume"} {
			if values[field] = numbers.Draw(rt, field); values[field] == "null" || values[field] == `""` {
				values[field] = ""
			}
		}
		files := provider.NewFeed("test", time.Unix(1, 0), nil)
		marketOf(cmp.Or(values["price"], "null"), cmp.Or(values["market_cap"], `""`), cmp.Or(values["volume"], "null")).
			Write(files)
		CheckRead(t, files)
		written := Contents(t, files, source.QuotesFile)
		if values["price"] == "" {
			if written != "" {
				rt.Fatalf("a quote without a price: %s", written)
			}
			return
		}
		row, _ := provider.Object([]byte(written))
		for field, value := range values {
			if got := string(row.Get(field)); got != value {
				rt.Fatalf("%s of %s became %s", field, value, got)
			}
		}
	})
}

// FuzzRows calls checkAnswers with the answers of the sample, in which valid fuzz input replaces
// one answer. Valid input is a JSON array, or an object for the last file. files lists the names of
// the sample's files without .json.
func FuzzRows(f *testing.F, files, extraSeeds []string, checkAnswers func(t *testing.T, answers [][]byte)) {
	var sample [][]byte
	for i, name := range files {
		b := must.Get(os.ReadFile(filepath.Join("testdata/sample", name+".json")))(f)
		sample = append(sample, b)
		f.Add(i, b)
		for _, seed := range extraSeeds {
			f.Add(i, []byte(seed))
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
		if _, err := good(body); err == nil { // For an invalid answer the client would ask again.
			checkAnswers(t, answers)
		}
	})
}
