package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/gen"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

// accepted converts a feed to the form that internal/model returns.
func accepted(f *market.Feed) map[string]map[string]model.Accepted {
	units := func(u market.U128) string {
		return new(big.Int).Add(new(big.Int).Lsh(new(big.Int).SetUint64(u.Hi), 64),
			new(big.Int).SetUint64(u.Lo)).String()
	}
	count := func(n *uint64) string {
		if n == nil {
			return "none"
		}
		return fmt.Sprint(*n)
	}
	rows := map[string]map[string]model.Accepted{
		"assets": {}, "quotes": {}, "exchanges": {}, "categories": {}, "chains": {},
		"rates": {},
	}
	for _, a := range f.Assets {
		var platforms []string
		for _, p := range a.Platforms {
			platforms = append(platforms, p.ID, p.Name, p.Address)
		}
		rows["assets"][a.Key] = model.Accepted{
			ID: int64(a.ID),
			Row: fmt.Sprintf("%q %t %q", append([]string{a.Name, a.Symbol, a.Slug, a.Logo, a.Website, a.Whitepaper},
				a.Explorers...), a.Active, platforms),
		}
	}
	for _, q := range f.Quotes {
		row := fmt.Sprint(units(q.Price), units(q.MarketCap), units(q.Volume))
		for _, s := range q.Supplies {
			row += " " + units(s)
		}
		rows["quotes"][f.Assets[q.Asset].Key] = model.Accepted{Row: row}
	}
	for _, e := range f.Exchanges {
		row := fmt.Sprintf("%q %s %s", append([]string{e.Name, e.Slug, e.Logo}, e.Links[:]...), units(e.Maker),
			units(e.Taker))
		if m := e.Market; m != nil {
			volume := "none"
			if m.Volume != nil {
				volume = units(*m.Volume)
			}
			row += fmt.Sprintf(" %s %s %s %v", volume, count(m.MarketsCount), count(m.CoinsCount), m.DataTime)
		}
		rows["exchanges"][e.Key] = model.Accepted{ID: int64(e.ID), Row: row}
	}
	for _, r := range f.Rates {
		rows["rates"][r.Code] = model.Accepted{
			Row: fmt.Sprintf("%q %s", []string{r.Name, r.Unit, r.Type}, units(r.USD))}
	}
	for collection, groups := range map[string][]market.Group{"categories": f.Categories, "chains": f.Chains} {
		for _, g := range groups {
			var members []string
			for _, m := range g.Members {
				members = append(members, f.Assets[m].Key)
			}
			slices.Sort(members)
			native := ""
			if g.Native >= 0 {
				native = f.Assets[g.Native].Key
			}
			rows[collection][g.Key] = model.Accepted{
				ID: int64(g.ID),
				Row: fmt.Sprintf("%q %t %s %q", []string{g.Name, g.Slug, g.DisplayName, native}, g.Active,
					count(g.EVMChainID), members),
			}
		}
	}
	return rows
}

// compareWithModel reads files with Read and with the model, compares the results, and returns the
// model's.
func compareWithModel(t interface{ Fatalf(string, ...any) }, fsys fstest.MapFS,
	known map[string]map[string]int64) map[string]map[string]model.Accepted {
	files := model.Files{}
	for name, f := range fsys {
		files[name] = string(f.Data)
	}
	want, rejected, warned, err := model.Accept(files, known)
	if err != nil { // there are no ids left to assign
		return nil
	}
	feed, report, err := Read(context.Background(), FS(fsys), ReadOptions{
		Listed: 1 << 30, // lists all unknown fields, since the model does not count them
		Known: func(collection, key string) (uint64, bool) {
			id, ok := known[collection][key]
			return uint64(id), ok
		},
		Owner: func(collection string, id uint64) (string, bool) {
			for key, i := range known[collection] {
				if uint64(i) == id {
					return key, true
				}
			}
			return "", false
		},
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	got := accepted(feed)
	for collection, rows := range got {
		for key, row := range rows {
			if row.ID == 0 { // the ledger will assign one
				row.ID = want[collection][key].ID
				rows[key] = row
			}
		}
		if !reflect.DeepEqual(rows, want[collection]) {
			t.Fatalf("%s:\n got %+v\nwant %+v\n%+v", collection, rows, want[collection], report)
		}
		n := report.file(collection + ".ndjson")
		fields := 0
		for _, w := range n.Warnings {
			if strings.HasSuffix(w.Reason, "unknown field, ignored") {
				fields++
			}
		}
		if n.Rejected != rejected[collection] || n.Accepted != len(rows) || n.Warned-fields != warned[collection] {
			t.Fatalf("%s: %d accepted, %d set aside, %d warnings; want %d, %d, %d: %v", n.Name, n.Accepted, n.Rejected,
				n.Warned-fields, len(rows), rejected[collection], warned[collection], n.Warnings)
		}
	}
	return want
}

func TestReadAgainstModel(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		known := map[string]map[string]int64{}
		for _, m := range gen.Histories(3, 20, 0).Draw(t, "history") {
			files := fstest.MapFS{}
			for name, text := range m.Files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			for collection, rows := range compareWithModel(t, files, known) {
				ids := collection != "quotes" && collection != "rates"
				if known[collection] == nil && ids {
					known[collection] = map[string]int64{}
				}
				for key, row := range rows {
					seen[collection]++
					if ids {
						known[collection][key] = row.ID
					}
				}
			}
		}
	})
	if len(seen) != 6 {
		t.Errorf("accepted rows of %v alone", slices.Collect(maps.Keys(seen)))
	}
}

// FuzzFiles compares Read with the model on arbitrary bytes, used as each of the files.
func FuzzFiles(f *testing.F) {
	for _, row := range []string{
		`{"key":"a","id":5,"name":"n","symbol":"s","slug":"s\u0041","explorers":["x"],"active":true}`,
		`{"key":"a","price":"1e-5","market_cap":null,"volume":3,"total_supply":"1e3","max_supply":0}`,
		`{"key":"p","name":"n","symbol":"s","slug":"p","platforms":{"Ab c":"0xABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD","x":""}}`,
		`{"code":"eur","usd":1.08,"unit":"e","type":"fiat"}` + "\n" + `{"code":"btc","asset":"a"}`,
		`{"key":"e","name":"n","slug":"s","links":{"chat":"c"},"fees":{"maker":0.1},"market":{"data_time":"2026-01-02T03:04:05Z","coins_count":3}}`,
		`{"key":"e","name":"n","slug":"s","market":{"data_time":"2026-01-02t03:04:05,5z"}}` + "\n\v\n" +
			`{"key":"f","name":"n","slug":"s","market":{"data_time":"2026-01-02t03:04:05z"}}`,
		`{"key":"g","name":"n","slug":"s","status":"active","members":["a","b"],"evm_chain_id":1,"native":"a","display_name":"d"}`,
		"\xef\xbb\xbf{}\r\n\r\n[{\"x\":[1,{}]}]\n\"\\ud83d\\ude00\"\n{\"k\\u0065y\":1e5}",
	} {
		f.Add([]byte(row))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		// The model limits nesting as encoding/json does.
		if bytes.Count(file, []byte("[")) > 9000 || bytes.Count(file, []byte("{")) > 9000 {
			return
		}
		for _, name := range rowFiles {
			compareWithModel(t, testFeed(name, string(file)),
				map[string]map[string]int64{"assets": {"b": 5}, "chains": {"a": 7}})
		}
	})
}

// FuzzObject compares the type object with encoding/json on single values.
func FuzzObject(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"a":1,"a":[{"b":"\n"}]}`, `{"a":"\ud83d\ude00","\u0062":null}`, `[1e5,-0.1]`, `{"a":"\ud800"}`,
		` { "a" : { } } `, `{"":0}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) || bytes.Count(text, []byte("[")) > 9000 || bytes.Count(text, []byte("{")) > 9000 {
			return
		}
		o := newObject("", 3, "a", "b", "c")
		err := o.read(text)
		half := bytes.Contains(bytes.ToLower(text), []byte(`\ud`)) // perhaps an unpaired surrogate
		if json.Valid(text) != (err == nil || err == errNotObject) && !half {
			t.Fatalf("%q: %v", text, err)
		}
		var fields map[string]json.RawMessage
		if err != nil {
			return
		}
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for i, name := range o.names {
			raw := string(fields[name])
			if raw == "null" {
				raw = ""
			}
			if string(o.values[i]) != raw {
				t.Fatalf("%q: %s is %q, want %q", text, name, o.values[i], raw)
			}
			if len(raw) > 0 && raw[0] == '"' {
				var want string
				ok(t, json.Unmarshal([]byte(raw), &want))
				if got := new(row).unquote(o.values[i]); string(got) != want {
					t.Fatalf("%q: %s is %q, want %q", text, name, got, want)
				}
			}
		}
	})
}

var ok = must.OK
