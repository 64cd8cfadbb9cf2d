package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/providertest"
)

// TestTableKeepsValues checks that values are written as the provider wrote them.
func TestTableKeepsValues(t *testing.T) {
	f := provider.NewFeed("db \"1\"", time.Date(2026, 11, 21, 7, 20, 1, 5, time.FixedZone("", 3600)), nil)
	f.Assets.Add(provider.Raw("a", json.RawMessage("1.500E-007")), provider.Raw("b", nil),
		provider.Raw("c", json.RawMessage("[ 1 ,\n\t\"x\\u0041\" ]")), provider.String("d", "<&>\n\u2028"),
		provider.String("e", ""), provider.Strings("f", []string{"x", `"`}), provider.Strings("g", nil),
		provider.Struct("h", provider.Raw("i", json.RawMessage("123456789012345678901234567890.10")),
			provider.String("j", "")),
		provider.Struct("k"),
	)
	f.Assets.AddRaw(json.RawMessage(" null "))
	for name, want := range map[string]string{
		source.InfoFile: `{"format":1,"database":"db \"1\"","time":"2026-11-21T06:20:01Z"}` + "\n",
		source.AssetsFile: `{"a":1.500E-007,"c":[1,"x\u0041"],"d":"<&>\n\u2028","f":["x","\""],"h":{"i":123456789012345678901234567890.10},"k":{}}` +
			"\nnull\n",
		source.QuotesFile: "",
	} {
		if got := providertest.Contents(t, f, name); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	if f.Assets.Rows() != 2 {
		t.Errorf("%d rows", f.Assets.Rows())
	}
	if _, err := f.Open(context.Background(), "other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another file: %v", err)
	}
}

// TestOddSpellings tests the forms in which some providers write numbers, ids and times.
func TestOddSpellings(t *testing.T) {
	f := provider.NewFeed("db", time.Unix(1, 0), nil)
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, v := range []string{`"137"`, `137`, `"x"`, `-1`} {
		f.Assets.Add(provider.Integer("n", raw(v)), provider.Key("k", raw(v)))
	}
	for _, v := range []string{
		`1767312000`, `1767312000123`, `1767312000.5`, `"2026-01-02T00:00:00Z"`, `"1767312000"`, `-5`, `1e99`, `"x"`,
	} {
		f.Quotes.Add(provider.DataTime("t", raw(v)))
	}
	f.Chains.Add(provider.Integer("n", nil), provider.Key("k", nil), provider.DataTime("t", nil))
	for name, want := range map[string]string{
		source.AssetsFile: `{"n":137,"k":"137"} {"n":137,"k":"137"} {"n":"x","k":"x"} {"n":-1,"k":-1}`,
		source.QuotesFile: strings.Repeat(`{"t":"2026-01-02T00:00:00Z"} `, 5) + `{"t":-5} {"t":1e99} {"t":"x"}`,
		source.ChainsFile: `{}`,
	} {
		if got := strings.Join(strings.Fields(providertest.Contents(t, f, name)), " "); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestProduct(t *testing.T) {
	sevens := strings.Repeat("7", 200)
	square, _ := new(big.Int).SetString(sevens, 10)
	square.Mul(square, square)
	for _, test := range []struct{ a, b, want string }{
		{"51075.6271283852", "66600", "3401636766.7504543200"},
		{"1e-8", "2E+3", "0.00002"},
		{"0.1", "0.3", "0.03"},
		{"0", "5", "0"},
		{"-1", "2", "-2"},
		{"1e400", "1e400", "1E+800"},
		{sevens, sevens, square.String()},
		// Factors that are strings, since some providers write numbers as strings: l2beat 2804,
		// eliza 20504.
		{`"2.5"`, "90000", "225000.0"}, {"2.5", `"90000"`, "225000.0"}, {`"1e-3"`, `"0.5"`, "0.0005"},
		// If a factor cannot be parsed, the result is a string that the reader drops with a
		// warning, never the other factor.
		{sevens + "7", "2", `"` + sevens[:40] + ` * 2"`},
		{"1e999999999", "2", `"1e999999999 * 2"`},
		{`"N/A"`, "2", `"N/A * 2"`}, {"true", "2", `"true * 2"`}, {"[1]", "2", `"[1] * 2"`},
		{"2", `"x"`, `"2 * x"`}, {"2", "{}", `"2 * {}"`}, {"2", `" 3"`, `"2 *  3"`},
		{`"-Infinity"`, "1", `"-Infinity * 1"`},
		{"", "2", ""}, {"2", "", `"2 * null"`},
	} {
		raw := func(s string) (r json.RawMessage) { return append(r, s...) }
		if got := string(provider.Product(raw(test.a), raw(test.b))); got != test.want {
			t.Errorf("%.30s × %.30s: %.60q, want %.60q", test.a, test.b, got, test.want)
		}
	}
}

func TestText(t *testing.T) {
	for raw, want := range map[string]string{
		`"a"`: "a", `"\u00e9"`: "é", `""`: "", `"\ud800"`: "", `"\ufffd"`: "", "\"\xff\"": "", `5`: "", `null`: "",
		`["a"]`: "", ``: "",
		`"\ud83d\ude00"`: "😀",
	} {
		if got := provider.Text(json.RawMessage(raw)); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestFields(t *testing.T) {
	f, ok := provider.Object(json.RawMessage(`{"n":null,"N":1,"s":"x","o":{"k":2},"l":[1,null],"s":"y"}`))
	if !ok {
		t.Fatal("no object")
	}
	if f.Get("n") != nil || f.Get("absent") != nil || string(f.Get("N")) != "1" || f.Text("s") != "y" ||
		string(f.Object("o").Get("k")) != "2" || len(f.List("l")) != 2 || f.List("o") != nil || f.Object("l") != nil ||
		f.Object("absent").Get("k") != nil {
		t.Errorf("got %v", f)
	}
	for _, raw := range []string{"", "null", "[]", `"{}"`, "1", "{", `{"a":1}x`} {
		if f, ok := provider.Object(json.RawMessage(raw)); ok || f != nil {
			t.Errorf("%s is an object: %v", raw, f)
		}
	}
}

func TestCheck(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, test := range []struct {
		body   string
		rows   int // -1 if the body is not an array
		object bool
	}{
		{"[]", 0, false}, {"[1]", 1, false}, {" [null,{}] ", 2, false}, {"{}", -1, true}, {" {\"a\":1}\n", -1, true},
		{"null", -1, false}, {"", -1, false}, {"[1", -1, false}, {"[1]]", -1, false},
		{`"[]"`, -1, false}, {deep, -1, false}, {"<html>", -1, false}, {"[1]\x00", -1, false},
	} {
		rows, array := provider.CheckArray([]byte(test.body))
		if array != nil {
			rows = -1
		}
		_, object := provider.CheckObject([]byte(test.body))
		if rows != test.rows || (object == nil) != test.object {
			t.Errorf("%.20q: %d rows, %v, %v", test.body, rows, array, object)
		}
		if array != nil && len(array.Error()) > 200 {
			t.Errorf("%.20q: an error of %d bytes", test.body, len(array.Error()))
		}
	}
}

// FuzzEscape checks that no two ids have the same file name, and that no name leads out of its
// folder.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "..", "a/b", "boringdao-[old]", "1move token", "%2E", "é\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		e := provider.Escape(id)
		if !utf8.ValidString(e) || strings.ContainsAny(e, "./\\: ") || id != "" && !filepath.IsLocal(e) {
			t.Errorf("%q: %q", id, e)
		}
		var back []byte
		for i := 0; i < len(e); i++ {
			if e[i] == '%' {
				back = append(back, unhex(e[i+1])<<4|unhex(e[i+2]))
				i += 2
			} else {
				back = append(back, e[i])
			}
		}
		if string(back) != id {
			t.Errorf("%q: %q reads %q", id, e, back)
		}
	})
}

func unhex(c byte) byte { return byte(strings.IndexByte("0123456789ABCDEF", c)) }
