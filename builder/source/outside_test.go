package source

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/gen"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

// The inputs of these tests come from public reports of bugs in programs that do the same work.
// Comments name the project and the number of the report. The correct values come from the reports
// and from FEED.md, "Bad input".

const tetherAddress = "0xdAC17F958D2ee523a2206206994597C13D831ec7"

// TestContestedAddress checks that a coin that is listed with another coin's address takes neither
// the row nor the price from that coin (Uniswap 1827, cryptoformat 39, token-lists 1491).
func TestContestedAddress(t *testing.T) {
	asset := func(key, id, platforms string) string {
		return fmt.Sprintf(`{"key":%q,%s"name":"n","symbol":"s","slug":%[1]q,"platforms":{%[3]s}}`+"\n", key, id, platforms)
	}
	on := `"ethereum":"` + tetherAddress + `"`
	shouted := `"Ethereum":"0x` + strings.ToUpper(tetherAddress[2:]) + `"`
	ids := map[string]uint64{"old": 7, "older": 5}
	for name, c := range map[string]struct{ assets, quotes, owner string }{
		"a junk coin in front": {
			asset("junk", "", shouted) + asset("tether", "", on),
			`{"key":"junk","price":1}` + "\n" + `{"key":"tether","price":1,"market_cap":"140e9"}`, "tether",
		},
		"a trailing blank": {
			asset("tether", "", `"ethereum":"`+tetherAddress+` "`) + asset("x", "", ""),
			`{"key":"tether","price":1}` + "\n" + `{"key":"x","price":1}`, "tether",
		},
		"a trailing blank, and junk with the clean address": {
			asset("junk", "", on) + asset("tether", "", `"ethereum":"\u200b`+tetherAddress+`\u00a0"`),
			`{"key":"junk","price":999,"market_cap":1}` + "\n" + `{"key":"tether","price":1,"market_cap":"180e9"}`,
			"tether",
		},
		"junk behind, three on two chains": {
			asset("tether", "", on+`,"tron":"TR7"`) + asset("junk", "", `"tron":"TR7"`) + asset("junk2", "", on),
			`{"key":"junk","price":1,"market_cap":5}` + "\n" + `{"key":"junk2","price":1,"market_cap":"1e9"}` + "\n" +
				`{"key":"tether","price":1,"market_cap":"140e9"}`, "tether",
		},
		"no caps: the lower id that was given out before": {
			asset("a", "", on) + asset("old", "", on) + asset("older", "", on), `{"key":"a","price":1}`, "older",
		},
		"no caps: the lower given id": {
			asset("a", `"id":9,`, on) + asset("b", `"id":8,`, on), `{"key":"a","price":1}`, "b",
		},
		"no caps: new ids are in the order of keys, above given ones": {
			asset("b", "", on) + asset("a", "", on), `{"key":"a","price":1}`, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			feed, report := mustRead(t, FS(testFeed(AssetsFile, c.assets, QuotesFile, c.quotes)), ReadOptions{
				Known: func(_, key string) (uint64, bool) { id, ok := ids[key]; return id, ok },
			})
			if len(feed.Assets) != strings.Count(c.assets, "\n") || len(feed.Quotes) != strings.Count(c.quotes, "{") {
				t.Errorf("%d assets, %d quotes", len(feed.Assets), len(feed.Quotes))
			}
			owners, losses := "", 0
			for _, a := range feed.Assets {
				for _, p := range a.Platforms {
					if p.Address == strings.ToLower(tetherAddress) {
						owners += a.Key
					}
				}
			}
			for _, w := range report.file(AssetsFile).Warnings {
				if w.Line > 0 && strings.Contains(strings.ToLower(w.Field), "platforms.") && w.Value != "" {
					losses++
				}
			}
			if owners != c.owner || losses == 0 || losses != report.file(AssetsFile).Warned {
				t.Errorf("%q has the address, %v", owners, report.file(AssetsFile).Warnings)
			}
		})
	}
}

// TestBadOptionalValue checks that a bad value in an optional field affects neither the row nor the
// price, and that a warning names the file, line, field and value (pgcopy 24, pandas 10742).
func TestBadOptionalValue(t *testing.T) {
	long, many := strings.Repeat("x", 3000), strings.TrimSuffix(strings.Repeat(`"x",`, 51), ",")
	for _, c := range []struct{ file, field, value string }{
		{AssetsFile, "logo", `"` + long + `"`}, {AssetsFile, "explorers", "[" + many + "]"},
		{AssetsFile, "website", "5"}, {QuotesFile, "max_supply", "-1"}, {QuotesFile, "market_cap", `"NaN"`},
		{QuotesFile, "market_cap", `"N/A"`}, {QuotesFile, "market_cap", `"null"`}, {QuotesFile, "market_cap", `"-"`},
		// More values of this kind, which are not from reports.
		{AssetsFile, "active", `"yes"`}, {AssetsFile, "platforms", "[]"}, {AssetsFile, "explorers", `["x",null]`},
		{QuotesFile, "volume", "1e999999999"}, {QuotesFile, "volume", `"Infinity"`}, {QuotesFile, "total_supply", "{}"},
	} {
		fsys := testFeed(QuotesFile, `{"key":"a","price":1}`)
		text := string(fsys[c.file].Data)
		fsys[c.file].Data = []byte(strings.Replace(text, "}", fmt.Sprintf(",%q:%s}", c.field, c.value), 1))
		feed, report := mustRead(t, FS(fsys), ReadOptions{})
		f := report.file(c.file)
		if len(feed.Assets) != 3 || len(feed.Quotes) != 1 || feed.Quotes[0].Price != (market.U128{Lo: 1e18}) ||
			len(f.Warnings) != 1 || f.Warnings[0].File != c.file || f.Warnings[0].Line != 1 ||
			f.Warnings[0].Field != c.field || f.Warnings[0].Value == "" {
			t.Errorf("%s %s %.20s: %d assets, %d quotes, %+v", c.file, c.field, c.value, len(feed.Assets),
				len(feed.Quotes), f)
		}
	}
}

// TestCleanTexts checks that invisible characters are removed from strings (Maskbook 1781; recorded
// exchanges have names such as "NEO\u00a0"). The last rows are not from reports: the joiners that
// Persian and emoji need stay.
func TestCleanTexts(t *testing.T) {
	for in, want := range map[string]string{
		"playcoin\n": "playcoin", " playcoin": "playcoin", "play\tcoin": "playcoin", "playcoin\u00a0": "playcoin",
		"\x00playcoin": "playcoin", "play\u200bcoin": "playcoin", "\u202eplaycoin\u202c": "playcoin",
		"\u200e\u2003playcoin\u3000": "playcoin", "\u2066play coin\u2069\u0085": "play coin",
		"\u0645\u06cc\u200c\u062e": "\u0645\u06cc\u200c\u062e", "\u200b \u00ad\ufeff": "",
	} {
		text := func(s string) string { return string(quoted(s)) }
		files := FS(testFeed(AssetsFile, fmt.Sprintf(`{"key":"k","name":"n","symbol":"s","slug":%s}`, text(in))+"\n"+
			fmt.Sprintf(`{"key":%s,"name":%[1]s,"symbol":%[1]s,"slug":"other"}`, text(in)),
			QuotesFile, fmt.Sprintf(`{"key":%s,"price":1}`, text(in)),
			CategoriesFile, fmt.Sprintf(`{"key":"g","name":"n","slug":"g","members":[%s]}`, text(in)),
			ChainsFile, fmt.Sprintf(`{"key":"g","name":"n","slug":"g","native":%s,"display_name":%[1]s}`, text(in)),
		))
		feed, report := mustRead(t, files, ReadOptions{})
		if want == "" {
			if len(feed.Assets) != 0 || report.Files[0].Rejected != 2 {
				t.Errorf("%q: %d assets", in, len(feed.Assets))
			}
			continue
		}
		if len(feed.Assets) != 2 || len(feed.Quotes) != 1 {
			t.Errorf("%q: %v", in, report.Files[0].Rejections)
			continue
		}
		got := []string{feed.Assets[0].Slug, feed.Assets[1].Key, feed.Assets[1].Name, feed.Assets[1].Symbol,
			feed.Chains[0].DisplayName}
		if !slices.Equal(got, []string{want, want, want, want, want}) ||
			len(feed.Categories[0].Members) != 1 || feed.Chains[0].Native != 1 {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		for _, f := range report.Files[:5] {
			if n := f.Rows; f.Name != ExchangesFile && (f.Warned == n) != (in != want) {
				t.Errorf("%q: %s: %d warnings", in, f.Name, f.Warned)
			}
		}
	}
}

// TestRecordedNames checks that the names of recorded exchanges are clean after reading.
func TestRecordedNames(t *testing.T) {
	feed, report := mustRead(t, FS(recordedFeed(t, "coingecko-2025")), ReadOptions{Listed: 1000})
	for _, e := range feed.Exchanges {
		if !isClean([]byte(e.Name)) || strings.TrimSpace(e.Name) != e.Name {
			t.Errorf("%q", e.Name)
		}
	}
	same(t, report.file(ExchangesFile).Warned, recordedUnclean)
}

// recordedUnclean is the number of exchanges whose recorded names end in white space, as
// jq -r .name exchanges.ndjson | grep -cP '[\s\x{a0}]$' counts them.
const recordedUnclean = 15

// TestLeapSecond checks that a leap second is read as the next second (golang 8728; the second time
// is from RFC 3339, 5.8).
func TestLeapSecond(t *testing.T) {
	for in, want := range map[string]string{
		"2016-12-31T23:59:60Z": "2017-01-01T00:00:00Z", "1990-12-31T15:59:60-08:00": "1991-01-01T00:00:00Z",
		"2015-07-01T02:59:60.25+03:00": "2015-07-01T00:00:00.25Z",
		"2016-12-31T23:58:60Z":         "", "2016-12-31T22:59:60Z": "", "2016-12-31T23:59:61Z": "",
	} {
		feed, _, err := Read(t.Context(), FS(testFeed(InfoFile, `{"format":1,"database":"d","time":"`+in+`"}`)),
			ReadOptions{})
		got := ""
		if err == nil {
			got = feed.Time.Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%s: %q, want %q: %v", in, got, want, err)
		}
	}
}

// optional lists the optional fields of each file.
var optional = map[string][]string{
	AssetsFile: {"logo", "explorers", "website", "whitepaper", "active", "platforms"},
	QuotesFile: {"market_cap", "volume", "circulating_supply", "total_supply", "max_supply"},
}

// TestOptionalValuesCostNoPrice spoils random optional values of a feed, which must affect neither
// rows nor prices.
func TestOptionalValuesCostNoPrice(t *testing.T) {
	needed := func(files fstest.MapFS) map[string]string {
		feed, _, err := Read(t.Context(), FS(files), ReadOptions{})
		ok(t, err)
		rows := map[string]string{}
		for _, a := range feed.Assets {
			rows["asset "+a.Key] = fmt.Sprintf("%d %q %q %q", a.ID, a.Name, a.Symbol, a.Slug)
		}
		for _, q := range feed.Quotes {
			rows["quote "+feed.Assets[q.Asset].Key] = fmt.Sprint(q.Price)
		}
		return rows
	}
	rapid.Check(t, func(t *rapid.T) {
		files, spoiled := fstest.MapFS{}, 0
		for name, text := range gen.Histories(1, 12, 0).Draw(t, "feed")[0].Files {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		want := needed(files)
		for name, fields := range optional {
			if files[name] == nil {
				continue
			}
			var lines []string
			for line := range strings.SplitSeq(string(files[name].Data), "\n") {
				var row map[string]json.RawMessage
				if json.Unmarshal([]byte(line), &row) == nil && row != nil && !strings.Contains(line, `\ud`) {
					for _, field := range rapid.SliceOfDistinct(rapid.SampledFrom(fields), rapid.ID).Draw(t, "fields") {
						row[field] = json.RawMessage(gen.Spoilt().Draw(t, field))
						spoiled++
					}
					b, err := json.Marshal(row)
					if err != nil {
						t.Fatalf("%v", err)
					}
					line = string(b)
				}
				lines = append(lines, line)
			}
			files[name].Data = []byte(strings.Join(lines, "\n"))
		}
		if got := needed(files); !maps.Equal(got, want) {
			t.Fatalf("%d values spoiled: %v, want %v", spoiled, got, want)
		}
	})
}

// TestUnknownFiles checks that a source that is read repeatedly names the unknown files each time.
// An operator's builder with a folder of queries once failed at its second mark.
func TestUnknownFiles(t *testing.T) {
	files := Results{
		Memory: Memory{InfoFile: Info("t", time.Unix(1e9, 0)),
			AssetsFile: []byte(`{"key":"a","name":"n","symbol":"s","slug":"u"}`)},
		Names:  map[string]string{AssetsFile: "assets.sql", QuotesFile: "quotes.sql"},
		Others: []string{"assets.sql", "README", "quotes.sql", ".hidden"},
	}
	for range 3 {
		_, report := mustRead(t, files, ReadOptions{})
		var named []string
		for _, f := range report.Files {
			for _, w := range f.Warnings {
				named = append(named, w.File)
			}
		}
		if fmt.Sprint(named) != "[README]" {
			t.Errorf("warnings of %v", named)
		}
	}
}

// TestCarriageReturns checks that a table whose lines end in CR alone, as in Excel's "CSV
// (Macintosh)" format, is refused. Otherwise all its rows would be read as columns, and it would
// have no rows (ddeboer/data-import 315, sqlitebrowser 212). In the last case, the last row ends in
// CR LF, which is valid.
func TestCarriageReturns(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"quotes.csv", "key,price\rbtc,90\r", "CR alone"},
		{"rates.csv", "code,usd,name\reur,1.25,Euro", "CR alone"},
		{"assets.csv", "key,name,symbol,slug\r\rbtc,Bitcoin,BTC,bitcoin\r\n", "CR alone"},
		{"quotes.csv", "key,price\r\nbtc,90\r\n", ""},
	} {
		files := map[string]string{"assets.csv": "key,name,symbol,slug\nbtc,Bitcoin,BTC,bitcoin\n",
			"quotes.csv": "key,price\nbtc,90\n", "rates.csv": "code,usd\n"}
		files[c.name] = c.text
		var flat []string
		for name, text := range files {
			flat = append(flat, name, text)
		}
		_, src := writeCSV(t, flat...)
		_, _, err := Read(t.Context(), must.Get(src.Files(t.Context(), time.Time{}))(t), ReadOptions{})
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) && err != nil ||
			err != nil && !strings.Contains(got, c.name) {
			t.Errorf("%s %q: %v", c.name, c.text, err)
		}
	}
}
