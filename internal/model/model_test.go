package model

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// The examples in this file were worked out by hand from the documents.

func TestFold(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"Bitcoin", "bitcoin"},
		{"\u212A", "k"}, // Kelvin sign: reaches K, which is written k
		{"ſ", "s"},
		{"ß", "ß"}, {"ẞ", "ß"}, {"SS", "ss"},
		{"İ", "İ"}, {"ı", "ı"}, // no simple folding
		{"σ", "Σ"}, {"ς", "Σ"}, {"Σ", "Σ"}, // U+03A3 is the lowest of the three
		{"å", "Å"}, {"\u212B", "Å"},
		{"μ", "µ"}, // U+00B5 is the lowest
		{"ꭰ", "Ꭰ"},
		{"\xff\xfeA", "\xff\xfea"},
		{"日本", "日本"},
	} {
		if got := Fold(tt.in); got != tt.want {
			t.Errorf("Fold(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestReadDecimal(t *testing.T) {
	for _, tt := range []struct {
		in     string
		places int
		digits int
		want   string // "" for an error
	}{
		{"0", 18, 18, "0"}, {"-0", 18, 18, "0"}, {"-0.0e5", 8, 28, "0"}, {"0e999999999999", 8, 28, "0"},
		{"2.3500", 8, 28, "2.35"}, {"1e3", 8, 28, "1000"}, {"1E+2", 8, 28, "100"}, {"12e-1", 8, 28, "1.2"},
		{"0.000000005", 8, 28, "0"}, {"0.000000015", 8, 28, "0.00000002"}, {"0.0000000050000000001", 8, 28, "0.00000001"},
		{"0.000000025", 8, 28, "0.00000002"}, {"1e-30", 18, 18, "0"}, {"1e-999999999999", 18, 18, "0"},
		{"999999999999999999.9999999999999999995", 18, 18, "1000000000000000000"},
		{"999999999999999999", 18, 18, "999999999999999999"}, {"1e17", 18, 18, "100000000000000000"},
		{"1e18", 18, 18, ""}, {"1000000000000000000", 18, 18, ""}, {"1e999999999999", 18, 18, ""},
		{"0.00001e22", 18, 18, "100000000000000000"}, {"0.00001e23", 18, 18, ""},
		{"-1", 8, 28, ""}, {"-1e-30", 8, 28, ""}, {"01", 8, 28, ""}, {"1.", 8, 28, ""}, {".5", 8, 28, ""}, {"+1", 8, 28, ""}, {"", 8, 28, ""}, {" 1", 8, 28, ""}, {"1\n", 8, 28, ""},
	} {
		x, err := readDecimal(tt.in, tt.places, tt.digits)
		switch {
		case (err != nil) != (tt.want == ""):
			t.Errorf("readDecimal(%q, %d, %d): error %v", tt.in, tt.places, tt.digits, err)
		case err == nil && decimal(x, tt.places) != tt.want:
			t.Errorf("readDecimal(%q, %d, %d) = %s, want %s", tt.in, tt.places, tt.digits, decimal(x, tt.places), tt.want)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		base, value *big.Rat
		want        string
	}{
		{big.NewRat(3, 1), big.NewRat(4, 1), "33.333333333333"},
		{big.NewRat(3, 1), big.NewRat(2, 1), "-33.333333333333"},
		{big.NewRat(3, 1), big.NewRat(5, 1), "66.666666666667"},
		{big.NewRat(0, 1), big.NewRat(5, 1), "0"},
		{big.NewRat(5, 1), big.NewRat(0, 1), "-100"},
		{big.NewRat(1, 1), big.NewRat(200000000000001, 200000000000000), "0"},              // half a unit: to even
		{big.NewRat(1, 1), big.NewRat(200000000000003, 200000000000000), "0.000000000002"}, // 1.5 units: to even
		{big.NewRat(1, 1), big.NewRat(199999999999999, 200000000000000), "0"},              // never -0
	} {
		if got := decimal(percent(tt.base, tt.value), percentPlaces); got != tt.want {
			t.Errorf("percent(%s, %s) = %s, want %s", tt.base, tt.value, got, tt.want)
		}
	}
}

func TestShares(t *testing.T) {
	for _, tt := range []struct {
		amounts []int64
		want    []string
	}{
		{[]int64{1, 1, 1}, []string{"0.333333333334", "0.333333333333", "0.333333333333"}},
		{[]int64{1, 2}, []string{"0.333333333333", "0.666666666667"}},
		{[]int64{0, 5}, []string{"0", "1"}},
		{[]int64{0, 0}, []string{"0", "0"}},
		// Sevenths: 1/7 = 0.142857142857 14…, 2/7 = 0.285714285714 28…, 4/7 = 0.571428571428 57…
		{[]int64{1, 2, 4}, []string{"0.142857142857", "0.285714285714", "0.571428571429"}},
	} {
		var amounts []*big.Rat
		for _, a := range tt.amounts {
			amounts = append(amounts, big.NewRat(a, 1))
		}
		var got []string
		for _, s := range shares(amounts) {
			got = append(got, decimal(s, sharePlaces))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("shares(%v) = %v, want %v", tt.amounts, got, tt.want)
		}
	}
}

func TestThin(t *testing.T) {
	at := time.Date(2025, 6, 30, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name       string
		held, want []string // before the time above
	}{
		{"younger than 48 hours", []string{"47h50m", "47h40m", "0s"}, []string{"47h50m", "47h40m", "0s"}},
		{"48 hours to the minute", []string{"48h30m", "48h10m", "48h0m", "47h50m"}, []string{"48h30m", "48h0m", "47h50m"}}, // 11:30, 11:50, 12:00, 12:10
		{"hours across an hour's end", []string{"72h0m", "71h50m", "71h0m"}, []string{"72h0m", "71h0m"}},                   // 12:00, 12:10, 13:00
		{"90 days to the minute", []string{"2160h10m", "2160h", "2159h50m"}, []string{"2160h10m", "2160h"}},                // 11:50 stands for its day, 12:00 and 12:10 share an hour
		{"days", []string{"2400h", "2399h", "2388h10m", "2388h", "2387h"}, []string{"2400h", "2388h"}},                     // 12:00, 13:00, 23:50, 00:00, 01:00
		{"366 days", []string{"8784h10m", "8784h"}, nil},                                                                   // the first of the day has gone
	} {
		var held []moment
		for _, age := range tt.held {
			d, err := time.ParseDuration(age)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, moment{time: at.Add(-d)})
		}
		var got []string
		for _, m := range thin(held, at) {
			i := slices.IndexFunc(held, func(h moment) bool { return h.time.Equal(m.time) })
			got = append(got, tt.held[i])
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestLoneSurrogates(t *testing.T) {
	for text, want := range map[string]bool{
		`"\ud83d\ude00"`: false, `"\ud83d"`: true, `"\ude00"`: true, `"\ud83dx"`: true, `"\ud83d\u0041"`: true, `"\\ud83d"`: false, `"\\\ud83d"`: true, `"\u0041\n"`: false,
	} {
		if got := hasLoneSurrogate([]byte(text)); got != want {
			t.Errorf("hasLoneSurrogate(%s) = %t", text, got)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"a+b": "a b", "a%2Bb": "a+b", "%": "%", "%4": "%4", "%zz": "%zz", "%%41": "%A", "%41%": "A%", "%c3%A9": "é", "%2": "%2", "\xff": "\xff", "%FF": "\xff",
	} {
		if got := unescape(in); got != want {
			t.Errorf("unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

func rows(lines ...string) string { return strings.Join(lines, "\n") }

func feedAt(at, assets, quotes string) Files {
	return Files{
		"feed.json":     fmt.Sprintf(`{"format":1,"database":"d","time":"%s"}`, at),
		"assets.ndjson": assets, "quotes.ndjson": quotes,
	}
}

func build(t *testing.T, w *World, f Files) Report {
	t.Helper()
	r, err := w.Build(f, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func get(w *World, target string, pins ...string) Answer {
	return w.Answer(Question{Method: "GET", Target: target, Pins: pins})
}

func result(body string) string {
	return strings.TrimSuffix(strings.TrimPrefix(body, `{"code":0,"message":"OK","message_key":"OK","result":`), "}")
}

func TestOneSnapshot(t *testing.T) {
	w := New(Defaults())
	f := feedAt("2025-06-01T12:09:59Z",
		rows(
			`{"key":"b","name":"Bee","symbol":"B","slug":"bee","logo":"l","explorers":["e1","e2"],"website":"w"}`,
			`{"key":"a","name":"A\u0001\"","symbol":"b","slug":"a&b"}`,
			`{"key":"c","name":"Given","symbol":"\u212A","slug":"given","id":7,"active":false}`,
			`{"key":"d","name":"Late","symbol":"x","slug":"BEE"}`,
		), rows(
			`{"key":"a","price":1.50,"market_cap":"2e7","volume":1000000}`,
			`{"key":"b","price":"3","market_cap":30000000,"volume":"999999.99"}`,
			`{"key":"c","price":0,"market_cap":1}`,
			`{"key":"d","price":1}`,
		))
	f["exchanges.ndjson"] = rows(
		`{"key":"x","name":"X","slug":"x","fees":{"maker":0.00000000},"market":{"data_time":"2025-06-01T14:00:00.9+02:00","coins_count":3}}`,
		`{"key":"y","name":"Y","slug":"x"}`,
	)
	f["categories.ndjson"] = rows(
		`{"key":"g","name":"G","slug":"g","members":["a","b","b","c","nobody"]}`,
		`{"key":"h","name":"H","slug":"h","members":["c"]}`,
		`{"key":"i","name":"I","slug":"i","members":["a"],"status":"disabled"}`,
	)
	f["chains.ndjson"] = `{"key":"g","name":"G","slug":"g","members":["a"],"native":"b","evm_chain_id":1}`
	r := build(t, w, f)
	if got := timestamp(r.Time); got != "2025-06-01T12:00:00Z" || r.Rejected[assets] != 1 || r.Rejected[quotes] != 1 {
		t.Errorf("report %v of %s", r, got)
	}

	const changes = `"percent_change":{"1h":"0","6h":"0","12h":"0","24h":"0","7d":"0","30d":"0","90d":"0","1y":"0"}`
	const quoteA = `{"id":8,"name":"A\u0001\"","symbol":"b","slug":"a&b","logo":"","price":"1.5","market_cap":"20000000","volume":"1000000",` + changes + `}`
	const quoteB = `{"id":9,"name":"Bee","symbol":"B","slug":"bee","logo":"l","price":"3","market_cap":"30000000","volume":"999999.99",` + changes + `}`
	const quoteC = `{"id":7,"name":"Given","symbol":"K","slug":"given","logo":"","price":"0","market_cap":"1","volume":"0",` + changes + `}`
	const groupG = `"market":{"market_cap":"50000000","volume_24h":"1999999.99","coins_count":2,"market_cap_share":"1","snapshot_time":"2025-06-01T12:00:00Z",` +
		`"top_gainers":[{"id":8,"symbol":"b","name":"A\u0001\"","slug":"a&b","logo":""},{"id":9,"symbol":"B","name":"Bee","slug":"bee","logo":"l"}]}`
	for target, want := range map[string]string{
		"quotes": `{"items":[` + strings.ReplaceAll(quoteC, `"K"`, "\"\u212A\"") + `,` + quoteA + `,` + quoteB + `],"page":1,"total":3,"total_page":1}`,
		// Equal symbols stay in the order of their ids in both directions.
		"quotes?sort=symbol:desc&size=1":           `{"items":[` + strings.ReplaceAll(quoteC, `"K"`, "\"\u212A\"") + `],"page":1,"total":3,"total_page":3}`,
		"quotes?sort=symbol:desc&limit=2&offset=1": `{"items":[` + quoteA + `,` + quoteB + `],"page":1,"total":3,"total_page":2}`,
		"quotes?slug=a&b":                          `{"items":[],"page":1,"total":0,"total_page":1}`,
		"quotes?slug=A%26B":                        `{"items":[` + quoteA + `],"page":1,"total":1,"total_page":1}`,
		"quotes?symbol=k&id=,8":                    `{"items":[],"page":1,"total":0,"total_page":1}`,
		"quotes?page=9223372036854775807&size=100": `{"items":[],"page":9223372036854775807,"total":3,"total_page":1}`,
		"assets?sort=rank:desc&fields=LIN\u212As": `{"items":[` +
			`{"id":8,"rank":2,"name":"A\u0001\"","symbol":"b","slug":"a&b","logo":"","explorers":[],"links":{"website":"","whitepaper":""}},` +
			`{"id":9,"rank":1,"name":"Bee","symbol":"B","slug":"bee","logo":"l","explorers":["e1","e2"],"links":{"website":"w","whitepaper":""}},` +
			"{\"id\":7,\"name\":\"Given\",\"symbol\":\"\u212A\",\"slug\":\"given\",\"logo\":\"\",\"explorers\":[],\"links\":{\"website\":\"\",\"whitepaper\":\"\"}}" +
			`],"page":1,"total":3,"total_page":1}`,
		"trending": `{"items":[` + quoteA + `]}`,
		"exchanges?sort=volume": `{"items":[` +
			`{"id":1,"name":"X","slug":"x","logo":"","links":{"website":"","twitter":"","telegram":"","reddit":"","facebook":"","chat":""},"fees":{"maker":"0","taker":"0"},` +
			`"market":{"volume_24h":null,"markets_count":null,"coins_count":3,"data_time":"2025-06-01T12:00:00Z"}},` +
			`{"id":2,"name":"Y","slug":"x","logo":"","links":{"website":"","twitter":"","telegram":"","reddit":"","facebook":"","chat":""},"fees":{"maker":"0","taker":"0"},"market":null}` +
			`],"page":1,"total":2,"total_page":1}`,
		"global":     `{"total_market_cap":"50000000","total_volume_24h":"1999999.99","total_market_cap_change_percentage_24h":null,"data_time":"2025-06-01T12:00:00Z"}`,
		"categories": `{"items":[{"id":1,"name":"G","slug":"g",` + groupG + `}],"page":1,"total":1,"total_page":1}`,
		"chains": `{"items":[{"id":1,"name":"G","display_name":"G","slug":"g","evm_chain_id":1,"logo":"l",` +
			`"market":{"market_cap":"20000000","volume_24h":"1000000","coins_count":1,"market_cap_share":"1","snapshot_time":"2025-06-01T12:00:00Z",` +
			`"top_gainers":[{"id":8,"symbol":"b","name":"A\u0001\"","slug":"a&b","logo":""}]}}],"page":1,"total":1,"total_page":1}`,
	} {
		a := get(w, "/openapi/v1/"+target)
		if a.Status != 200 || result(a.Body) != want || a.SnapshotTime != "2025-06-01T12:00:00Z" {
			t.Errorf("%s: %d %s\n got %s\nwant %s", target, a.Status, a.SnapshotTime, result(a.Body), want)
		}
	}
}

func TestNotFoundHeader(t *testing.T) {
	w := New(Defaults())
	build(t, w, feedAt("2025-06-01T12:00:00Z", `{"key":"a","name":"A","symbol":"K","slug":"a b"}`, ""))
	long := strings.Repeat("x", 600)
	for target, want := range map[string]string{
		"assets?id=1&slug=A%20B&symbol=\u212A":            "",
		"assets?id=9,5,05,-1,1&slug=foo":                  "id=-1,5,9&slug=foo",
		"assets?symbol=NO,%C3%89,no,~&slug=b%26":          "slug=b%26&symbol=no,~,%C3%89",
		"assets?slug=%FF":                                 "slug=%FF",
		"assets?id=,":                                     "",
		"assets?slug=" + long + "," + long + "y&symbol=z": "slug=" + long,
		"exchanges?symbol=none&slug=none":                 "slug=none",
		"trending?id=5":                                   "",
	} {
		if a := get(w, "/openapi/v1/"+target); a.Status != 200 || a.NotFound != want {
			t.Errorf("%s: %d %q, want %q", target, a.Status, a.NotFound, want)
		}
	}
}

func TestIgnoredHeader(t *testing.T) {
	w := New(Defaults())
	build(t, w, feedAt("2025-06-01T12:00:00Z", `{"key":"a","name":"A","symbol":"K","slug":"a b"}`, ""))
	long := strings.Repeat("x", 255)
	for target, want := range map[string]string{
		"quotes?id=1&slug=a&symbol=k&sort=id&page=1&size=2": "",
		"quotes?id=1&i%64=2&fields=links&%C3%A4+=1&Z":       "Z,fields,id,%C3%A4%20",
		"quotes?page=1&limit=5&offset=&size=":               "limit",
		"quotes?limit=5&size=7&page=":                       "size",
		"quotes?page=&page=2&limit=5":                       "page",
		"exchanges?symbol=&fields":                          "fields,symbol",
		"quotes?=1&mdk_live_1=1&amdk%5Flive_=1&mdk_live=1":  "mdk_live",
		"quotes?b&" + long + "b&a":                          "a,b",
		"quotes?" + long + "&y":                             long,
		"quotes?" + long + "xx&y":                           "",
		"trending?by=&page=1":                               "page",
		"trending?by=&by=":                                  "by",
		"global?by=&id=":                                    "by,id",
	} {
		if a := get(w, "/openapi/v1/"+target); a.Status != 200 || a.Ignored != want {
			t.Errorf("%s: %d %q, want %q", target, a.Status, a.Ignored, want)
		}
	}
}

func TestRefusedQuestions(t *testing.T) {
	w := New(Defaults())
	hundred := strings.Repeat("1,", 99) + "1"
	for target, want := range map[string]string{ // the parameter at fault, "" when it is none
		"quotes?size=101": "size", "quotes?size=0": "", "quotes?size=-5": "", "quotes?limit=10&size=500": "size", "exchanges?limit=10&size=500": "",
		"exchanges?size=0": "size", "exchanges?limit=0": "limit", "exchanges?page=1&limit=0&offset=-1": "",
		"quotes?page=0": "page", "quotes?page=": "", "quotes?page=-1": "page", "quotes?page=1.5": "page", "quotes?page=1&page=0": "", "quotes?page=&page=0": "",
		"quotes?offset=100001": "offset", "quotes?offset=100000": "", "quotes?page=1&offset=100001": "offset", "quotes?limit=abc": "limit", "quotes?Limit=abc": "",
		"quotes?page=9223372036854775808": "page", "quotes?page=007": "", "quotes?page=+1": "page", "quotes?page=%2B1": "page",
		"quotes?sort=rank": "sort", "assets?sort=RANK:Desc": "", "assets?sort=name:": "sort", "assets?sort=:asc": "sort", "assets?sort=id:asc:asc": "sort", "assets?sort=+id": "sort",
		"categories?sort=volume": "sort", "chains?sort=display_name": "sort", "exchanges?sort=symbol": "sort", "exchanges?sort=volume:desc": "", "chains?sort=market_cap": "",
		"quotes?id=" + hundred: "", "quotes?id=" + hundred + ",": "id", "quotes?id=1,,2": "", "quotes?id=a": "id: element 1 ", "quotes?id=1,,x": "id: element 3 ", "exchanges?symbol=" + hundred + ",": "", "assets?symbol=" + hundred + ",": "symbol",
		"assets?fields=" + hundred + ",": "fields", "quotes?fields=" + hundred + ",": "",
		"trending?by=searched": "by", "trending?by=%20GAINERS%09": "", "trending?by=": "", "trending?by=+": "", "trending?by=%C2%A0gainers": "by", "trending?page=x": "", "global?page=x": "",
	} {
		a := get(w, "/openapi/v1/"+target)
		bad := want != ""
		if (a.Status == 400) != bad || bad && !slices.Contains(a.Blame, want) {
			t.Errorf("%s: %d %v, want %q", target, a.Status, a.Blame, want)
		}
	}
	for _, tt := range []struct {
		method, target string
		status, code   int
	}{
		{"GET", "/openapi/v1/global", 404, 40400}, {"GET", "/openapi/v1/", 404, 40401}, {"GET", "/openapi/v1/quotes/", 404, 40401},
		{"POST", "/nowhere", 405, 40500}, {"OPTIONS", "/nowhere", 204, 0}, {"HEAD", "/openapi/v1/quotes", 200, 0},
	} {
		if a := w.Answer(Question{Method: tt.method, Target: tt.target}); a.Status != tt.status || a.Code != tt.code {
			t.Errorf("%s %s: %d %d", tt.method, tt.target, a.Status, a.Code)
		}
	}
}

// TestPast follows one asset, one group and the total over time.
func TestPast(t *testing.T) {
	w := New(Defaults())
	const one = `{"key":"a","name":"A","symbol":"A","slug":"a"}`
	const other = `{"key":"b","name":"B","symbol":"B","slug":"b"}`
	at := func(at, price string) Files {
		f := feedAt(at, rows(one, other), "")
		if price != "" {
			f["quotes.ndjson"] = `{"key":"a","price":` + price + `,"market_cap":` + price + `}`
		}
		f["categories.ndjson"] = rows(`{"key":"g","name":"G","slug":"g","members":["a"]}`, `{"key":"h","name":"H","slug":"h","members":["b"]}`)
		return f
	}
	build(t, w, at("2025-06-01T00:00:00Z", "100"))
	w.Change(time.Date(2025, 6, 1, 0, 5, 0, 0, time.UTC))
	build(t, w, at("2025-06-01T00:10:00Z", ""))
	build(t, w, at("2025-06-01T00:50:00Z", "110"))
	build(t, w, at("2025-06-01T01:10:00Z", "132"))
	// 1h: from 00:50 on (00:10 had no price); the others from 00:00.
	want := `"percent_change":{"1h":"20","6h":"32","12h":"32","24h":"32","7d":"32","30d":"32","90d":"32","1y":"32"}`
	if a := get(w, "/openapi/v1/quotes"); !strings.Contains(a.Body, want) {
		t.Errorf("changes: %s", a.Body)
	}
	if a := get(w, "/openapi/v1/global"); !strings.Contains(a.Body, `"total_market_cap_change_percentage_24h":"0"`) {
		t.Errorf("the change record of the first snapshot: %s", a.Body)
	}
	w.Change(time.Date(2025, 6, 1, 1, 15, 0, 0, time.UTC))
	if a := get(w, "/openapi/v1/global"); !strings.Contains(a.Body, `"total_market_cap_change_percentage_24h":"32"`) {
		t.Errorf("the change record of now: %s", a.Body)
	}
	// Pins: 00:10 is the time of retention, 00:00 lies before it.
	for pin, status := range map[string]int{"2025-06-01T00:10:00Z": 200, "2025-06-01T00:00:00Z": 410, "2025-06-01T00:20:00Z": 410, "2025-06-01T01:20:00Z": 503, "2025-06-01": 400,
		"2025-06-01T00:10:01Z": 400, "2025-06-01T00:05:00Z": 400, "2025-06-01T01:30:00Z": 400, "2026-06-01T00:00:00Z": 400} {
		if a := get(w, "/openapi/v1/quotes", pin); a.Status != status {
			t.Errorf("pin %s: %d, want %d", pin, a.Status, status)
		}
	}

	// A is deactivated: its group is frozen, shown for an hour and then gone.
	frozen := func(when string) Files {
		f := at(when, "")
		f["assets.ndjson"] = rows(strings.Replace(one, `"a"}`, `"a","active":false}`, 1), other)
		return f
	}
	build(t, w, frozen("2025-06-01T02:10:00Z"))
	if a := get(w, "/openapi/v1/categories?sort=id"); !strings.Contains(a.Body, `"market_cap":"132"`) || !strings.Contains(a.Body, `"snapshot_time":"2025-06-01T01:10:00Z"`) || !strings.Contains(a.Body, `"total":2`) {
		t.Errorf("the frozen group: %s", a.Body)
	}
	build(t, w, frozen("2025-06-01T02:20:00Z"))
	if a := get(w, "/openapi/v1/categories"); strings.Contains(a.Body, `"slug":"g"`) || !strings.Contains(a.Body, `"total":1`) {
		t.Errorf("the group an hour and ten minutes later: %s", a.Body)
	}

	// The same again changes nothing; other rows at the same time are refused.
	if r := build(t, w, frozen("2025-06-01T02:20:00Z")); r.Published {
		t.Error("the same feed was published twice")
	}
	if _, err := w.Build(at("2025-06-01T02:20:00Z", "5"), time.Time{}); !errors.Is(err, ErrOlder) {
		t.Errorf("other rows at the same time: %v", err)
	}

	// A year later A is back: it has its id, and no price of the past is held
	// but the first of that day, 366 days ago and out of every window.
	build(t, w, at("2026-06-02T00:00:00Z", "66"))
	if a := get(w, "/openapi/v1/quotes"); !strings.Contains(a.Body, `"1y":"0"`) || !strings.Contains(a.Body, `"id":1,`) {
		t.Errorf("a year and a day later: %s", a.Body)
	}
}

// TestRowsSetAside: a row set aside claims nothing, and ids are for ever.
func TestRowsSetAside(t *testing.T) {
	w := New(Defaults())
	build(t, w, feedAt("2025-06-01T00:00:00Z", rows(
		`{"key":"a","name":"A","symbol":"A","slug":"a","id":5}`,
		`{"key":"b","name":"B","symbol":"B","slug":"b"}`, // 6
	), ""))
	r := build(t, w, feedAt("2025-06-01T00:10:00Z", rows(
		`{"key":"c","name":"C","symbol":"C","slug":"x","id":6}`, // b's, though b is not in the feed
		`{"key":"c","name":"C","symbol":"C","slug":"X"}`,        // neither key nor slug was claimed
		`{"key":"a","name":"A","symbol":"A","slug":"a","id":9}`, // a has 5
		`{"key":"d","name":"D","symbol":"D","slug":"a"}`,
		`{"key":"e","name":"E","symbol":"E","slug":"ẞ","id":20}`,
		`{"key":"f","name":"F","symbol":"F","slug":"ß"}`,
	), rows(`{"key":"a","price":1}`, `{"key":"d","price":"1"}`, `{"key":"d","price":2}`)))
	if r.Rejected[assets] != 3 || r.Rejected[quotes] != 2 {
		t.Errorf("set aside: %v", r.Rejected)
	}
	ids, slugs, _ := w.Newest().Known(assets)
	if want := []int64{20, 21, 22}; !slices.Equal(ids, want) || !slices.Equal(slugs, []string{"ẞ", "X", "a"}) {
		t.Errorf("ids %v of %q, want %v", ids, slugs, want)
	}
	build(t, w, feedAt("2025-06-01T00:20:00Z", `{"key":"b","name":"B","symbol":"B","slug":"b"}`, ""))
	if ids, _, _ := w.Newest().Known(assets); !slices.Equal(ids, []int64{6}) {
		t.Errorf("b came back as %v", ids)
	}
}

func TestCoding(t *testing.T) {
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "gzip, br": "gzip", "gzip, br, zstd": "zstd", "gzip;q=0.5, br;q=0.4": "gzip", "*": "zstd", "*;q=0": "", "identity": "",
		"gzip;q=0": "", "GZIP;Q=0.1": "gzip", "deflate": "", "deflate, *;q=0.1": "zstd", "zstd;q=0, *;q=0.5": "gzip", "identity;q=0.5, gzip;q=0.4": "", "identity;q=0": "",
		"gzip;q=0.001": "gzip", "identity, gzip": "gzip",
	} {
		if got := Coding([]string{accept}, 1025); got != want {
			t.Errorf("Coding(%q) = %q, want %q", accept, got, want)
		}
		if got := Coding([]string{accept}, 1024); got != "" {
			t.Errorf("Coding(%q) of a short body = %q", accept, got)
		}
	}
}

// FuzzParse: whatever is sent, the model decides, and within bounds.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"page=1&size=20", "id=1,2&sort=name:desc", "slug=%zz+%41&&=&", "page=9223372036854775807&size=100", "limit=1&offset=100000"} {
		f.Add("assets?" + s)
		f.Add("exchanges?" + s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		q, refusal := Parse(Prefix + target)
		switch {
		case refusal != nil && q == nil && (refusal.Status == 400 || refusal.Status == 404):
		case refusal != nil || q == nil:
			t.Fatalf("query %v and refusal %v", q, refusal)
		case q.Endpoint != "global" && q.Endpoint != trending && (q.Size < 1 || q.Size > 100 || q.Offset < 0 || q.Page < 1):
			t.Fatalf("query %+v", q)
		}
	})
}
