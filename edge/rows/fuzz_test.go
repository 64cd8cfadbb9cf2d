package rows

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/shards"
	"example.com/marketdata/edge/snapshot"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/must"
)

// FuzzWords checks that splitName and hasWord find the same words in an asset's name as the model.
func FuzzWords(f *testing.F) {
	for _, name := range []string{"Wrapped Bitcoin", "A.B\x00C", `The "Quoted" \ u0041`, "\u03b9\u1fbe \u2028x",
		"é\u0301t", "٣ 2Big4u", "", "日本😀K\u212a"} {
		for _, word := range []string{"b", "bi", "bitcoin", "u0041", "É", "\u0345", "k", "٣", "\xc3"} {
			f.Add(name, word)
		}
	}
	var w Finder
	f.Fuzz(func(t *testing.T, name, word string) {
		word = artifacts.Fold(word)
		// A search finds an asset that equals the text in another way.
		if !utf8.ValidString(name) || !utf8.ValidString(word) || word == "" || strings.Contains(word, " ") ||
			word == artifacts.Fold(name) || strings.HasPrefix("\x01", word) {
			return
		}
		quoted := must.Get(json.Marshal(name))(t)
		published := fmt.Appendf(nil, `{"id":1,"name":%s,"symbol":"\u0001","slug":"\u0001","logo":"","explorers":[]}`,
			quoted)
		if w.words.text = w.words.text[:0]; w.splitName(published) != nil {
			t.Fatalf("no name in %s", published)
		}
		row, _ := model.ReadRow("assets", published) // whether the name is valid does not matter here
		want := len(model.Search(word, []*model.Row{&row})) > 0
		if got := hasWord(w.words.text, []byte(word)); got != want {
			t.Fatalf("%q has %q: %v, want %v", name, word, got, want)
		}
	})
}

// FuzzPoints checks that a row with as many prices as its block has times yields the prices from the
// block's first point on, whatever their lengths. A row with another number of prices must be an error. A
// row that no builder writes may be an error.
func FuzzPoints(f *testing.F) {
	for _, prices := range []string{
		``, `"1"`, `null`, `"1.5",null,"0.00000000012345678901234567890","91000.25"`,
		`null,"1234567","12345678","123456789012345","1234567890123456",null,null`,
		`"1"x"2"`, `"1`, `"1"]}"2"`, `nul`, `""`, strings.Repeat(`"123456.789012",`, 40) + `"1"`, `"12345678901234567`,
		`"123456789012345"`,
	} {
		f.Add(prices, 2, 1, "]}")
		f.Add(prices, 1+strings.Count(prices, ","), 0, "]}")
		f.Add(prices, 1+strings.Count(prices, ","), 1, "")
	}
	well := regexp.MustCompile(`^(?:"[^"]*"|null)(?:,(?:"[^"]*"|null))*$`)
	price := regexp.MustCompile(`"[^"]*"|null`)
	f.Fuzz(func(t *testing.T, prices string, times, first int, end string) {
		if times < 1 || times > 100 || first < 0 || first >= times {
			return
		}
		b := &snapshot.Block{First: first}
		for i := range times {
			b.Points = time.Unix(int64(i), 0).UTC().AppendFormat(b.Points, `,["2006-01-02T15:04:05Z","`)
		}
		var want string
		list := price.FindAllString(prices, -1)
		for i, p := range list {
			if p != "null" && i >= first && i < times {
				want += string(b.Points[i*snapshot.PointLength:][:snapshot.PointLength]) + p[1:] + "]"
			}
		}
		w := Finder{Body: []byte("head")}
		const start = `{"id":7,"prices":[`
		switch err := w.appendPoints(b, []byte(start+prices+end), len(start)); {
		case err != nil && !errors.Is(err, shards.ErrUnavailable):
			t.Fatal(err)
		case !well.MatchString(prices) || end != "]}":
		case (err == nil) != (len(list) == times):
			t.Fatalf("%d prices, %d times: %v", len(list), times, err)
		case err == nil && string(w.Body) != "head"+want:
			t.Fatalf("%s, want %s", w.Body, want)
		}
	})
}
