package answer

import (
	"encoding/hex"
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
	"example.com/marketdata/loadtest/model"
)

func FuzzNegotiate(f *testing.F) {
	for _, header := range []string{
		"gzip, deflate, br, zstd", "gzip;q=1.0, *;q=0", "*", "identity;q=0.5, br;q=0.5", "br;q=0.001,gzip; Q=0.002", "gzip;q=1.001", "x-gzip", "x-gzip;q=0.", "gzip;q=0.1234",
		"zstd;q=0, *;q=0.3", "gzip;level=1", "gzip;q=1;a=b", " \t,;,;q=1,gz ip,\xff", "gzip,gzip;q=0", "identity", "\u212a",
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if strings.ContainsAny(header, "\r\n\x00") { // no header's value has them
			return
		}
		got, want := [...]string{"", "zstd", "gzip", "br"}[negotiate([]byte(header))], model.Coding([]string{header}, 1<<20)
		if got != want {
			t.Fatalf("%q: coding %q, want %q", header, got, want)
		}
	})
}

// modelTag is the next element of If-None-Match.
var modelTag = regexp.MustCompile(`^[ \t,]*(?:W/)?"([^"]*)"[ \t]*(,|$)`)

// modelMatches is INTERFACE.md, "Conditional requests", read once more.
func modelMatches(header, digits string) bool {
	if strings.Trim(header, " \t") == "*" {
		return true
	}
	ours := map[string]bool{digits: true, digits + "-gzip": true, digits + "-br": true, digits + "-zstd": true}
	for {
		m := modelTag.FindStringSubmatch(header)
		if m == nil {
			// A tag counts although what follows it is malformed.
			cut := regexp.MustCompile(`^[ \t,]*(?:W/)?"([^"]*)"`).FindStringSubmatch(header)
			return cut != nil && ours[cut[1]]
		}
		if ours[m[1]] {
			return true
		}
		header = header[len(m[0]):]
	}
}

func FuzzMatches(f *testing.F) {
	d := digest{0x12, 0xab}
	digits := hex.EncodeToString(d[:])
	for _, header := range []string{
		"*", " * ", `"` + digits + `"`, `W/"` + digits + `-gzip", "b"`, `"a",,W/"` + digits + `-zstd"`, `"a" "` + digits + `"`, `"` + digits + `-deflate"`, `"` + digits,
		`w/"` + digits + `"`, `"a";"` + digits + `"`, `"` + digits + `" x`, `"*"`, `*, "` + digits + `"`, "\t,\"\"",
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if strings.ContainsAny(header, "\r\n\x00") {
			return
		}
		for c := range coding(codings) {
			if got, want := Matches([]byte(header), appendETag(nil, d, c)), modelMatches(header, digits); got != want {
				t.Fatalf("%q: %v, want %v", header, got, want)
			}
		}
	})
}

// FuzzWords: the words in an asset's row are those that the model finds in its name.
func FuzzWords(f *testing.F) {
	for _, name := range []string{"Wrapped Bitcoin", "A.B\x00C", `The "Quoted" \ u0041`, "\u03b9\u1fbe \u2028x", "é\u0301t", "٣ 2Big4u", "", "日本😀K\u212a"} {
		for _, word := range []string{"b", "bi", "bitcoin", "u0041", "É", "\u0345", "k", "٣", "\xc3"} {
			f.Add(name, word)
		}
	}
	var w work
	f.Fuzz(func(t *testing.T, name, word string) {
		word = artifacts.Fold(word)
		// An asset that equals the word is found in another way.
		if !utf8.ValidString(name) || !utf8.ValidString(word) || word == "" || strings.Contains(word, " ") || word == artifacts.Fold(name) || strings.HasPrefix("\x01", word) {
			return
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		published := fmt.Appendf(nil, `{"id":1,"name":%s,"symbol":"\u0001","slug":"\u0001","logo":"","explorers":[]}`, quoted)
		row, _ := model.ReadRow("assets", published) // Go escapes more
		if w.text = w.text[:0]; w.splitName(published) != nil {
			t.Fatalf("no name in %s", published)
		}
		if got, want := hasWord(w.text, []byte(word)), len(model.Search(word, []*model.Row{&row})) > 0; got != want {
			t.Fatalf("%q has %q: %v, want %v", name, word, got, want)
		}
	})
}

// FuzzPoints: a row whose prices are as many as its block has times gives those from
// the first one on, whatever their lengths; another is an error, and so may be
// one that no builder makes.
func FuzzPoints(f *testing.F) {
	for _, prices := range []string{
		``, `"1"`, `null`, `"1.5",null,"0.00000000012345678901234567890","91000.25"`, `null,"1234567","12345678","123456789012345","1234567890123456",null,null`,
		`"1"x"2"`, `"1`, `"1"]}"2"`, `nul`, `""`, strings.Repeat(`"123456.789012",`, 40) + `"1"`, `"12345678901234567`, `"123456789012345"`,
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
		w := work{body: []byte("head")}
		const start = `{"id":7,"prices":[`
		switch err := w.appendPoints(b, []byte(start+prices+end), len(start)); {
		case err != nil && !errors.Is(err, shards.ErrUnavailable):
			t.Fatal(err)
		case !well.MatchString(prices) || end != "]}":
		case (err == nil) != (len(list) == times):
			t.Fatalf("%d prices, %d times: %v", len(list), times, err)
		case err == nil && string(w.body) != "head"+want:
			t.Fatalf("%s, want %s", w.body, want)
		}
	})
}
