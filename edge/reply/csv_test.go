package reply

import (
	"encoding/csv"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/model"
	"pgregory.net/rapid"
)

var numeral = regexp.MustCompile(`\A-?\d+(\.\d+)?\z`)

// checkCell checks that package encoding/csv reads text back from a cell between two others.
func checkCell(t interface{ Fatalf(string, ...any) }, text string) {
	line := string(append(AppendCell([]byte("first,"), []byte(text)), ",last\r\n"...))
	records, err := csv.NewReader(strings.NewReader(line)).ReadAll()
	if err != nil || len(records) != 1 || len(records[0]) != 3 || records[0][0] != "first" || records[0][2] != "last" {
		t.Fatalf("%q: %q, %v", text, records, err)
	}
	cell := records[0][1]
	want := text
	if strings.ContainsAny(text[:min(1, len(text))], "=+-@\t\r") && !numeral.MatchString(text) {
		want = "'" + text
	}
	// The reader converts CR LF to a line feed.
	if cell != strings.ReplaceAll(want, "\r\n", "\n") {
		t.Fatalf("%q is read as %q, want %q, from %q", text, cell, want, line)
	}
	// A reader that also ends lines at CR must not find a line end outside of quotes.
	outside := regexp.MustCompile(`"(?:[^"]|"")*"`).ReplaceAllString(strings.TrimSuffix(line, "\r\n"), "")
	if strings.ContainsAny(outside, "\r\n\"") {
		t.Fatalf("%q: a line end or a quote is not quoted in %q", text, line)
	}
}

func FuzzCell(f *testing.F) {
	for _, text := range []string{"", "=1+1", "+cmd|' /C calc'!A0", "-2", "-2.5", "-", "-2.", "-.5", "-1e5", "+2",
		"@SUM(1)", "\t=1", "\r=1", "\r\n=1", "\n=1", `"`, `""`, `a"b,c`, ",", "a\r\nb", "a\rb", " =1", "\u00a0x", `\.`,
		"'=1", "é,\"東京\"", "\x00", "-2\n", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkCell(t, text) })
}

func TestCells(t *testing.T) {
	part := rapid.SampledFrom([]string{"=", "+", "-", "@", "\t", "\r", "\n", "\"", ",", ";", "'", " ", "1", ".", "a",
		"é", "\\", "\u00a0", "\u2028"})
	rapid.Check(t, func(t *rapid.T) {
		checkCell(t, strings.Join(rapid.SliceOfN(part, 0, 6).Draw(t, "parts"), ""))
	})
}

// hostileText generates strings that a feed may contain.
var hostileText = rapid.Custom(func(t *rapid.T) string {
	return strings.ToValidUTF8(rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom(
		[]rune("=+-@\t\r\n\"',{}[]:\\ \x00\x1f\b\fa1é&<")))).Draw(t, "text"), "")
})

// itemOf generates an item of an endpoint, including members that have no column.
func itemOf(e query.Endpoint, groups bool) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		figure := func() any {
			figures := []any{nil, "0", "-0.5", "12345678901234567890.123456789012345678"}
			return rapid.SampledFrom(figures).Draw(t, "figure")
		}
		text := func() any { return hostileText.Draw(t, "text") }
		const time = "2026-11-21T10:10:00Z"
		item := map[string]any{"id": rapid.Uint64().Draw(t, "id"), "name": text(), "symbol": text(), "slug": text(),
			"more": map[string]any{"x": "y", "id": 3}}
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "n"))
		for i := range list {
			switch e {
			case query.History:
				list[i] = []any{time, figure()}
			case query.Candles:
				list[i] = []any{time, figure(), figure(), figure(), figure(), figure(), figure()}
			case query.Prices:
				list[i] = map[string]any{"time": time, "snapshot_time": figure(), "price": figure(),
					"market_cap": figure(), "volume": figure()}
			}
		}
		switch e {
		case query.History:
			item["points"] = list
		case query.Candles, query.Prices:
			item[e.Name()] = list
		case query.Markets:
			item["logo"], item["price"], item["market_cap"], item["volume"] = text(), figure(), figure(), figure()
			changes := map[string]any{}
			for _, window := range []string{"1h", "6h", "12h", "24h", "7d", "30d", "90d", "1y", "5y"} {
				changes[window] = figure()
			}
			item["percent_change"] = changes
			if rapid.Bool().Draw(t, "ranked") {
				item["rank"], item["since"] = 7, time
			}
			if groups {
				slugs := rapid.SliceOfN(hostileText, 0, 3)
				item["groups"] = map[string]any{"categories": slugs.Draw(t, "categories"),
					"chains": slugs.Draw(t, "chains")}
			}
		}
		return item
	})
}

// TestTables converts bodies with hostile strings to tables, and compares them with tables of the model,
// which uses the JSON reader and the CSV writer of the standard library.
func TestTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom([]query.Endpoint{query.Markets, query.History, query.Candles, query.Prices}).Draw(t, "e")
		groups := e == query.Markets && rapid.Bool().Draw(t, "groups")
		raw := "id=1&time=0"
		if groups {
			raw = "fields=groups"
		}
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(rapid.SliceOfN(itemOf(e, groups), 0, 4).Draw(t, "items")); err != nil {
			t.Fatal(err)
		}
		// encoding/json escapes two characters that the service does not.
		list := strings.NewReplacer("\\u2028", "\u2028", "\\u2029", "\u2029").Replace(strings.TrimSpace(b.String()))
		var q query.Query
		if err := q.ParseCSV(e, []byte(raw)); err != nil {
			t.Fatal(err)
		}
		asked, refusal := model.Parse(model.Prefix + e.Name() + ".csv?" + raw)
		if refusal != nil {
			t.Fatalf("%+v", refusal)
		}
		w := &work{csv: true}
		w.finder.Body = []byte(bodyStart + `{"items":` + strings.TrimSuffix(list, "]"))
		if err := w.tabulate(&q); err != nil {
			t.Fatal(err)
		}
		got := string(w.finder.Body)
		if want := model.Table(asked, bodyStart+`{"items":`+list+`}}`); got != want {
			t.Fatalf("%s\n got %q\nwant %q", list, got, want)
		}
	})
}
