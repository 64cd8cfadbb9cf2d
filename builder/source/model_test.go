package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"example.com/marketdata/builder/market"
)

// This file says FEED.md again, as plainly and slowly as possible: rows are
// maps, numbers are fractions, and nothing is shared with the reader.

// modelJSON reads a line as JSON, nil when it is none.
func modelJSON(line string) any {
	if len(line) > 1<<20 || !utf8.ValidString(line) || !json.Valid([]byte(line)) || modelUnpaired(line) {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// modelUnpaired looks for a surrogate without its other half in valid JSON.
func modelUnpaired(line string) bool {
	// A pair becomes an x, and an escaped backslash nothing.
	line = strings.ReplaceAll(line, `\\`, "")
	return modelHalf.MatchString(modelPair.ReplaceAllString(line, "x"))
}

var (
	modelPair   = regexp.MustCompile(`(?i)\\ud[89ab]..\\ud[c-f]..`)
	modelHalf   = regexp.MustCompile(`(?i)\\ud[89a-f]`)
	modelNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
)

// modelRow is one row under examination. A rule that it breaks sets bad.
type modelRow struct {
	fields map[string]any
	bad    bool
}

// modelLengths bounds texts, in bytes; those of an enumeration bound themselves.
var modelLengths = map[string]int{
	"key": 256, "name": 256, "symbol": 256, "slug": 256, "display_name": 256, "native": 1 << 20, "status": 1 << 20, "data_time": 1 << 20,
	"logo": 2048, "website": 2048, "whitepaper": 2048, "twitter": 2048, "telegram": 2048, "reddit": 2048, "facebook": 2048, "chat": 2048,
}

// get takes a field; null is the same as absent.
func (r *modelRow) get(name string) any { return r.fields[name] }

func (r *modelRow) text(name, absent string) string {
	v := r.get(name)
	if v == nil {
		return absent
	}
	s, ok := v.(string)
	r.bad = r.bad || !ok || len(s) > modelLengths[name]
	return s
}

func (r *modelRow) required(name string) string {
	s := r.text(name, "")
	r.bad = r.bad || s == ""
	return s
}

func (r *modelRow) texts(name string) (all []string) {
	v := r.get(name)
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	r.bad = r.bad || !ok
	for _, e := range list {
		s, ok := e.(string)
		r.bad = r.bad || !ok || name == "explorers" && (len(s) > 2048 || len(list) > 50)
		all = append(all, s)
	}
	return all
}

func (r *modelRow) integer(name string, least int64) *uint64 {
	v := r.get(name)
	if v == nil {
		return nil
	}
	literal, ok := v.(json.Number)
	n, err := strconv.ParseInt(string(literal), 10, 64)
	if !ok || err != nil || n < least || n > 1<<53-1 {
		r.bad = true
		return nil
	}
	u := uint64(n)
	return &u
}

func (r *modelRow) decimal(name string, decimals, intDigits int) *market.U128 {
	v := r.get(name)
	if v == nil {
		return nil
	}
	literal := ""
	switch v := v.(type) {
	case json.Number:
		literal = string(v)
	case string:
		literal = v
	}
	if !modelNumber.MatchString(literal) {
		r.bad = true
		return nil
	}
	value, ok := new(big.Rat).SetString(literal)
	if !ok || value.Sign() < 0 {
		r.bad = true
		return nil
	}
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(intDigits)), nil)
	if value.Cmp(new(big.Rat).SetInt(limit)) >= 0 {
		r.bad = true
		return nil
	}
	value.Mul(value, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil)))
	// Half to even.
	whole, rest := new(big.Int).QuoRem(value.Num(), value.Denom(), new(big.Int))
	if c := rest.Lsh(rest, 1).Cmp(value.Denom()); c > 0 || c == 0 && whole.Bit(0) == 1 {
		whole.Add(whole, big.NewInt(1))
	}
	return &market.U128{Hi: new(big.Int).Rsh(whole, 64).Uint64(), Lo: new(big.Int).And(whole, new(big.Int).SetUint64(1<<64-1)).Uint64()}
}

func (r *modelRow) decimalOr0(name string, decimals, intDigits int) market.U128 {
	if u := r.decimal(name, decimals, intDigits); u != nil {
		return *u
	}
	return market.U128{}
}

// sub is an object within the row; nil when absent.
func (r *modelRow) sub(name string) *modelRow {
	v := r.get(name)
	if v == nil {
		return nil
	}
	fields, ok := v.(map[string]any)
	r.bad = r.bad || !ok
	return &modelRow{fields: fields}
}

func modelFold(s string) string {
	return strings.Map(func(r rune) rune {
		lowest := r
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			lowest = min(lowest, o)
		}
		if 'A' <= lowest && lowest <= 'Z' {
			lowest += 'a' - 'A'
		}
		return lowest
	}, s)
}

func modelTime(s string) *time.Time {
	s = strings.ToUpper(s)
	if strings.Contains(s, ",") || len(s) < 20 || s[13] != ':' {
		return nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return nil
	}
	if _, offset := t.Zone(); offset <= -86400 || offset >= 86400 {
		return nil
	}
	t = time.Unix(t.Unix(), 0).UTC()
	if t.Unix() <= 0 || t.Year() > 9999 {
		return nil
	}
	return &t
}

type modelResult struct {
	feed            market.Feed
	rows, rejected  map[string]int
	members, native int
	times           int
}

// modelIdentity checks what rows of a collection must not share. Accepted
// rows call take.
type modelIdentity struct {
	keys, slugs map[string]bool
	ids         map[uint64]string
	known       map[string]uint64
}

func (m *modelIdentity) check(r *modelRow, key, slug string, id *uint64) {
	r.bad = r.bad || m.keys[key] || m.slugs != nil && m.slugs[modelFold(slug)]
	if id == nil {
		return
	}
	if owner, ok := m.ids[*id]; ok && owner != key {
		r.bad = true
	}
	if _, old := m.known[key]; !old && *id > 1<<53-1-1<<32 {
		r.bad = true
	}
	for k, i := range m.known {
		if (k == key) != (i == *id) {
			r.bad = true
		}
	}
}

func (m *modelIdentity) take(key, slug string, id *uint64) (given uint64) {
	m.keys[key] = true
	if m.slugs != nil {
		m.slugs[modelFold(slug)] = true
	}
	if id != nil {
		m.ids[*id] = key
		given = *id
	}
	return given
}

// modelRead reads a feed whose feed.json is in order.
func modelRead(files fstest.MapFS, known map[string]map[string]uint64) *modelResult {
	res := &modelResult{rows: map[string]int{}, rejected: map[string]int{}}
	f := &res.feed
	read := func(collection string, accept func(*modelRow, *modelIdentity)) {
		name := collection + ".ndjson"
		ids := &modelIdentity{map[string]bool{}, map[string]bool{}, map[uint64]string{}, known[collection]}
		if collection == "exchanges" {
			ids.slugs = nil
		}
		if files[name] == nil {
			return
		}
		for _, line := range strings.Split(strings.TrimPrefix(string(files[name].Data), "\ufeff"), "\n") {
			line = strings.TrimSuffix(line, "\r")
			if strings.Trim(line, " \t\r") == "" {
				continue
			}
			res.rows[name]++
			fields, ok := modelJSON(line).(map[string]any)
			r := &modelRow{fields, !ok}
			if !r.bad {
				accept(r, ids)
			}
			if r.bad {
				res.rejected[name]++
			}
		}
	}
	directory := map[string]int{}
	read("assets", func(r *modelRow, ids *modelIdentity) {
		a := market.Asset{
			Key: r.required("key"), Name: r.required("name"), Symbol: r.required("symbol"), Slug: r.required("slug"),
			Logo: r.text("logo", ""), Explorers: r.texts("explorers"),
			Website: r.text("website", ""), Whitepaper: r.text("whitepaper", ""), Active: true,
		}
		if v := r.get("active"); v != nil {
			b, ok := v.(bool)
			a.Active, r.bad = b, r.bad || !ok
		}
		id := r.integer("id", 1)
		if ids.check(r, a.Key, a.Slug, id); !r.bad {
			a.ID = ids.take(a.Key, a.Slug, id)
			directory[a.Key] = len(f.Assets)
			f.Assets = append(f.Assets, a)
		}
	})
	read("quotes", func(r *modelRow, ids *modelIdentity) {
		key := r.required("key")
		price := r.decimal("price", 18, 18)
		marketCap, volume := r.decimalOr0("market_cap", 8, 28), r.decimalOr0("volume", 8, 28)
		asset, ok := directory[key]
		r.bad = r.bad || price == nil || !ok || ids.keys[key]
		if !r.bad {
			ids.keys[key] = true
			f.Quotes = append(f.Quotes, market.Quote{Asset: asset, Price: *price, MarketCap: marketCap, Volume: volume})
		}
	})
	read("exchanges", func(r *modelRow, ids *modelIdentity) {
		e := market.Exchange{Key: r.required("key"), Name: r.required("name"), Slug: r.required("slug"), Logo: r.text("logo", "")}
		if links := r.sub("links"); links != nil {
			for i, name := range []string{"website", "twitter", "telegram", "reddit", "facebook", "chat"} {
				e.Links[i] = links.text(name, "")
			}
			r.bad = r.bad || links.bad
		}
		if fees := r.sub("fees"); fees != nil {
			e.Maker, e.Taker = fees.decimalOr0("maker", 8, 10), fees.decimalOr0("taker", 8, 10)
			r.bad = r.bad || fees.bad
		}
		times := 0
		if m := r.sub("market"); m != nil {
			e.Market = &market.ExchangeMarket{
				Volume: m.decimal("volume_24h", 8, 28), MarketsCount: m.integer("markets_count", 0), CoinsCount: m.integer("coins_count", 0),
			}
			if m.get("data_time") != nil {
				e.Market.DataTime = modelTime(m.text("data_time", ""))
				if e.Market.DataTime == nil {
					times = 1
				}
			}
			r.bad = r.bad || m.bad
		}
		id := r.integer("id", 1)
		if ids.check(r, e.Key, e.Slug, id); !r.bad {
			e.ID = ids.take(e.Key, e.Slug, id)
			res.times += times
			f.Exchanges = append(f.Exchanges, e)
		}
	})
	group := func(r *modelRow, ids *modelIdentity, into *[]market.Group, chain bool) {
		g := market.Group{Key: r.required("key"), Name: r.required("name"), Slug: r.required("slug"), Native: -1}
		status := r.text("status", "active")
		g.Active = status == "active"
		r.bad = r.bad || !slices.Contains([]string{"active", "disabled", "deleted"}, status)
		members, native := 0, 0
		for _, key := range r.texts("members") {
			if asset, ok := directory[key]; !ok {
				members++
			} else if !slices.Contains(g.Members, asset) {
				g.Members = append(g.Members, asset)
			}
		}
		slices.Sort(g.Members)
		if chain {
			g.DisplayName = r.text("display_name", g.Name)
			g.EVMChainID = r.integer("evm_chain_id", 0)
			if r.get("native") != nil {
				if asset, ok := directory[r.text("native", "")]; ok {
					g.Native = asset
				} else {
					native = 1
				}
			}
		}
		id := r.integer("id", 1)
		if ids.check(r, g.Key, g.Slug, id); !r.bad {
			g.ID = ids.take(g.Key, g.Slug, id)
			res.members += members
			res.native += native
			*into = append(*into, g)
		}
	}
	read("categories", func(r *modelRow, ids *modelIdentity) { group(r, ids, &f.Categories, false) })
	read("chains", func(r *modelRow, ids *modelIdentity) { group(r, ids, &f.Chains, true) })
	return res
}

// compareWithModel reads files both ways.
func compareWithModel(t interface {
	Helper()
	Fatalf(string, ...any)
}, files fstest.MapFS, known map[string]map[string]uint64) {
	t.Helper()
	want := modelRead(files, known)
	feed, report, err := Read(context.Background(), FS(files), ReadOptions{
		Known: func(collection, key string) (uint64, bool) {
			id, ok := known[collection][key]
			return id, ok
		},
		Owner: func(collection string, id uint64) (string, bool) {
			for key, i := range known[collection] {
				if i == id {
					return key, true
				}
			}
			return "", false
		},
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	got := market.Feed{
		Assets: feed.Assets, Quotes: feed.Quotes, Exchanges: feed.Exchanges, Categories: feed.Categories, Chains: feed.Chains,
	}
	if d := diff(got, want.feed); d != "" {
		t.Fatalf("%s\n%+v", d, report)
	}
	for _, file := range report.Files {
		if file.Rows != want.rows[file.Name] || file.Rejected != want.rejected[file.Name] {
			t.Fatalf("%s: %d rows, %d set aside; want %d, %d", file.Name, file.Rows, file.Rejected, want.rows[file.Name], want.rejected[file.Name])
		}
	}
	if report.UnknownMembers != want.members || report.UnknownNatives != want.native || report.BadDataTimes != want.times {
		t.Fatalf("counted %+v, want %d members, %d natives, %d times", report, want.members, want.native, want.times)
	}
}

// The generator draws rows that are mostly in order and often contradict each
// other: few keys, slugs and ids, and now and then any value in any field.
var (
	genKey  = rapid.SampledFrom([]string{`"a"`, `"b"`, `"c"`, `"d"`, `"e"`, `"\u0061"`, `"ä"`, `"A"`, `"old"`, `"away"`})
	genSlug = rapid.SampledFrom([]string{`"s"`, `"S"`, `"ſ"`, `"t"`, `"u"`, `"v"`, `"w"`, `"\u00c4"`, `"ä"`, `"\ud83d\ude00"`, `"x&y (z)"`})
	genID   = rapid.SampledFrom([]string{`1`, `2`, `3`, `7`, `8`, `9007194959773695`, `9007194959773696`})
	genText = rapid.SampledFrom([]string{`"x"`, `""`, `"\"\\\/\b\f\n\r\t\u20ac"`, `"Ünïcode 柴犬"`, `"]}"`})
	genList = rapid.Custom(func(t *rapid.T) string {
		return "[" + strings.Join(rapid.SliceOfN(genKey, 0, 5).Draw(t, "list"), rapid.SampledFrom([]string{",", " , "}).Draw(t, "comma")) + "]"
	})
	genDecimal = rapid.Custom(func(t *rapid.T) string {
		n := rapid.StringMatching(`-?(0|[1-9][0-9]{0,12})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "decimal")
		if !rapid.Bool().Draw(t, "minus") {
			n = strings.TrimPrefix(n, "-")
		}
		if rapid.Bool().Draw(t, "quoted") {
			return `"` + n + `"`
		}
		return n
	})
	genCount = rapid.SampledFrom([]string{`0`, `5`, `9007199254740991`, `-0`})
	genTime  = rapid.SampledFrom([]string{`"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05.6+07:00"`, `"never"`, `"1970-01-01T00:00:00Z"`, `""`, `"2026-01-02t03:04:05,5z"`})
	genAny   = rapid.SampledFrom([]string{
		`null`, `true`, `false`, `0`, `-1`, `1.0`, `1e2`, `9007199254740992`, `1e300`, `"1e300"`, `""`, `"x"`, `"1"`, `" 1"`, `[]`, `[null]`, `["a",1]`, `{}`,
		`{"chat":1}`, `{"maker":"x"}`, `{"markets_count":1.5}`, `"active"`, `"Active"`, `nul`, `01`, `"\ud800"`, "\"\xff\"", `"\x"`, `[`, `"`, `1 2`, `{"a":}`,
	})
	genActive = rapid.SampledFrom([]string{`true`, `false`, `null`})
	genStatus = rapid.SampledFrom([]string{`"active"`, `"disabled"`, `"deleted"`, `null`})
)

type genField struct {
	name     string
	value    *rapid.Generator[string]
	required bool
}

func genObject(fields ...genField) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		odd := -1
		if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
			odd = rapid.IntRange(0, len(fields)+2).Draw(t, "which")
		}
		var members []string
		for i, f := range fields {
			value := f.value.Draw(t, f.name)
			switch {
			case i == odd:
				switch rapid.IntRange(0, 4).Draw(t, "how") {
				case 0:
					continue
				case 1: // twice
					members = append(members, fmt.Sprintf("%q:%s", f.name, genAny.Draw(t, "any")))
				case 2:
					members = append(members, fmt.Sprintf("%q:%s", strings.ToUpper(f.name), value))
				default:
					value = genAny.Draw(t, "any")
				}
			case !f.required && rapid.Bool().Draw(t, "absent"):
				continue
			}
			members = append(members, fmt.Sprintf("%q:%s", f.name, value))
		}
		if odd == len(fields) {
			members = append(members, `"more":`+genAny.Draw(t, "any"))
		}
		if rapid.Bool().Draw(t, "reverse") {
			slices.Reverse(members)
		}
		return "{" + strings.Join(members, rapid.SampledFrom([]string{",", " ,\t"}).Draw(t, "comma")) + "}"
	})
}

func genFile(row *rapid.Generator[string]) *rapid.Generator[string] {
	line := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 30).Draw(t, "line") {
		case 0:
			return rapid.SampledFrom([]string{"", " \r", "[]", "null", "x", "\ufeff", "{}"}).Draw(t, "odd")
		case 1:
			whole := row.Draw(t, "row")
			return whole[:rapid.IntRange(0, len(whole)).Draw(t, "cut")]
		}
		return row.Draw(t, "row")
	})
	return rapid.Custom(func(t *rapid.T) string {
		bom := rapid.SampledFrom([]string{"", "\ufeff"}).Draw(t, "bom")
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
		return bom + strings.Join(rapid.SliceOfN(line, 0, 12).Draw(t, "lines"), end)
	})
}

var genFiles = func() map[string]*rapid.Generator[string] {
	id, name := genField{"id", genID, false}, genField{"name", genText, true}
	key, slug := genField{"key", genKey, true}, genField{"slug", genSlug, true}
	links := genObject(genField{"website", genText, false}, genField{"twitter", genText, false}, genField{"telegram", genText, false},
		genField{"reddit", genText, false}, genField{"facebook", genText, false}, genField{"chat", genText, false})
	fees := genObject(genField{"maker", genDecimal, false}, genField{"taker", genDecimal, false})
	aggregate := genObject(genField{"volume_24h", genDecimal, false}, genField{"markets_count", genCount, false},
		genField{"coins_count", genCount, false}, genField{"data_time", genTime, false})
	status, members := genField{"status", genStatus, false}, genField{"members", genList, false}
	return map[string]*rapid.Generator[string]{
		AssetsFile: genFile(genObject(key, id, name, genField{"symbol", genText, true}, slug, genField{"logo", genText, false},
			genField{"explorers", genList, false}, genField{"website", genText, false}, genField{"whitepaper", genText, false},
			genField{"active", genActive, false})),
		QuotesFile: genFile(genObject(key, genField{"price", genDecimal, true}, genField{"market_cap", genDecimal, false},
			genField{"volume", genDecimal, false})),
		ExchangesFile: genFile(genObject(key, id, name, slug, genField{"logo", genText, false}, genField{"links", links, false},
			genField{"fees", fees, false}, genField{"market", aggregate, false})),
		CategoriesFile: genFile(genObject(key, id, name, slug, status, members)),
		ChainsFile: genFile(genObject(key, id, name, slug, status, members, genField{"display_name", genText, false},
			genField{"evm_chain_id", genCount, false}, genField{"native", genKey, false})),
	}
}()

func TestReadAgainstModel(t *testing.T) {
	accepted := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		files := fstest.MapFS{InfoFile: {Data: []byte(testInfo)}}
		for _, name := range slices.Sorted(maps.Keys(genFiles)) {
			files[name] = &fstest.MapFile{Data: []byte(genFiles[name].Draw(t, name))}
		}
		known := map[string]map[string]uint64{}
		for _, collection := range []string{"assets", "exchanges", "categories", "chains"} {
			if rapid.Bool().Draw(t, "known "+collection) {
				known[collection] = map[string]uint64{"old": 7, "away": 8, "b": 2}
			}
		}
		compareWithModel(t, files, known)
		want := modelRead(files, known)
		for name, rows := range want.rows {
			accepted[name] += rows - want.rejected[name]
		}
	})
	for name := range genFiles {
		if accepted[name] == 0 {
			t.Errorf("%s: the generator made no row that is accepted", name)
		}
	}
}

// FuzzFiles reads any bytes both ways, as each of the files.
func FuzzFiles(f *testing.F) {
	for _, row := range []string{
		`{"key":"a","id":5,"name":"n","symbol":"s","slug":"s\u0041","explorers":["x"],"active":true}`,
		`{"key":"a","price":"1e-5","market_cap":null,"volume":3}`,
		`{"key":"e","name":"n","slug":"s","links":{"chat":"c"},"fees":{"maker":0.1},"market":{"data_time":"2026-01-02T03:04:05Z","coins_count":3}}`,
		`{"key":"g","name":"n","slug":"s","status":"active","members":["a","b"],"evm_chain_id":1,"native":"a","display_name":"d"}`,
		"\xef\xbb\xbf{}\r\n\r\n[{\"x\":[1,{}]}]\n\"\\ud83d\\ude00\"\n{\"k\\u0065y\":1e5}",
	} {
		f.Add([]byte(row))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		// The model takes exponents at their word, and knows nesting as
		// encoding/json does.
		if regexp.MustCompile(`[eE][+-]?0*[0-9]{4}`).Match(file) || bytes.Count(file, []byte("[")) > 9000 || bytes.Count(file, []byte("{")) > 9000 {
			return
		}
		for name := range genFiles {
			files := testFeed(name, string(file))
			compareWithModel(t, files, map[string]map[string]uint64{"assets": {"b": 5}, "chains": {"a": 7}})
		}
	})
}

// FuzzObject compares object with encoding/json on single texts.
func FuzzObject(f *testing.F) {
	for _, text := range []string{`{}`, `{"a":1,"a":[{"b":"\n"}]}`, `{"a":"\ud83d\ude00","\u0062":null}`, `[1e5,-0.1]`, `{"a":"\ud800"}`, ` { "a" : { } } `, `{"":0}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) || bytes.Count(text, []byte("[")) > 9000 || bytes.Count(text, []byte("{")) > 9000 {
			return
		}
		o := newObject("", "a", "b", "c")
		err := o.read(text)
		if (modelJSON(string(text)) == nil) != (err != nil && err != errNotObject) && strings.TrimSpace(string(text)) != "null" {
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
				if err := json.Unmarshal([]byte(raw), &want); err != nil {
					t.Fatal(err)
				}
				if got := new(row).unquote(o.values[i]); string(got) != want {
					t.Fatalf("%q: %s is %q, want %q", text, name, got, want)
				}
			}
		}
	})
}
