package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

func TestThin(t *testing.T) {
	at := time.Date(2025, 6, 30, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name       string
		kept, want []string // ages at the time above
	}{
		{"younger than 48 hours", []string{"47h50m", "47h40m", "0s"}, []string{"47h50m", "47h40m", "0s"}},
		// 11:30, 11:50, 12:00, 12:10
		{"48 hours to the minute", []string{"48h30m", "48h10m", "48h0m", "47h50m"},
			[]string{"48h30m", "48h0m", "47h50m"}},
		// 12:00, 12:10, 13:00
		{"hours across an hour's end", []string{"72h0m", "71h50m", "71h0m"}, []string{"72h0m", "71h0m"}},
		// 11:50 is the first time of its day; 12:00 and 12:10 are in the same hour.
		{"90 days to the minute", []string{"2160h10m", "2160h", "2159h50m"}, []string{"2160h10m", "2160h"}},
		// 12:00, 13:00, 23:50, 00:00, 01:00
		{"days", []string{"2400h", "2399h", "2388h10m", "2388h", "2387h"}, []string{"2400h", "2388h"}},
		// The first snapshot of the day is gone.
		{"366 days", []string{"8784h10m", "8784h"}, nil},
	} {
		var kept []moment
		for _, age := range tt.kept {
			kept = append(kept, moment{time: at.Add(-must.Get(time.ParseDuration(age))(t))})
		}
		var got []string
		for _, m := range thin(kept, at) {
			i := slices.IndexFunc(kept, func(h moment) bool { return h.time.Equal(m.time) })
			got = append(got, tt.kept[i])
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
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
	return must.Get(w.Build(f, time.Time{}))(t)
}

func get(w *World, target string, pins ...string) Answer {
	return w.Answer(Question{Method: "GET", Target: target, Pins: pins})
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
		f["categories.ndjson"] = rows(
			`{"key":"g","name":"G","slug":"g","members":["a"]}`, `{"key":"h","name":"H","slug":"h","members":["b"]}`)
		return f
	}
	build(t, w, at("2025-06-01T00:00:00Z", "100"))
	w.Change(time.Date(2025, 6, 1, 0, 5, 0, 0, time.UTC))
	build(t, w, at("2025-06-01T00:10:00Z", ""))
	build(t, w, at("2025-06-01T00:50:00Z", "110"))
	build(t, w, at("2025-06-01T01:10:00Z", "132"))
	// The base for 1h is at 00:50, because there was no price at 00:10. All others are at 00:00.
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
	// Among the pins, 00:10 is the oldest time that is retained, and 00:00 is before it.
	for pin, status := range map[string]int{"2025-06-01T00:10:00Z": 200, "2025-06-01T00:00:00Z": 410,
		"2025-06-01T00:20:00Z": 410, "2025-06-01T01:20:00Z": 503, "2025-06-01": 400,
		"2025-06-01T00:10Z": 200, "2025-06-01t02:10:00.000+02:00": 200, "2025-06-01T00:10:00": 400,
		"2025-06-01T00:10:00.5Z": 400,
		"2025-06-01T00:10:01Z":   400, "2025-06-01T00:05:00Z": 400, "2025-06-01T01:30:00Z": 400,
		"2026-06-01T00:00:00Z": 400} {
		if a := get(w, "/openapi/v1/quotes", pin); a.Status != status {
			t.Errorf("pin %s: %d, want %d", pin, a.Status, status)
		}
	}

	// A is deactivated. Its group is frozen: it is shown for another hour and then disappears.
	frozen := func(when string) Files {
		f := at(when, "")
		f["assets.ndjson"] = rows(strings.Replace(one, `"a"}`, `"a","active":false}`, 1), other)
		return f
	}
	build(t, w, frozen("2025-06-01T02:10:00Z"))
	if a := get(w, "/openapi/v1/categories?sort=id"); !strings.Contains(a.Body, `"market_cap":"132"`) ||
		!strings.Contains(a.Body, `"snapshot_time":"2025-06-01T01:10:00Z"`) || !strings.Contains(a.Body, `"total":2`) {
		t.Errorf("the frozen group: %s", a.Body)
	}
	build(t, w, frozen("2025-06-01T02:20:00Z"))
	if a := get(w, "/openapi/v1/categories"); strings.Contains(a.Body, `"slug":"g"`) ||
		!strings.Contains(a.Body, `"total":1`) {
		t.Errorf("the group an hour and ten minutes later: %s", a.Body)
	}

	// The same feed again changes nothing. Other rows at the same time are refused.
	if r := build(t, w, frozen("2025-06-01T02:20:00Z")); r.Published {
		t.Error("the same feed was published twice")
	}
	if _, err := w.Build(at("2025-06-01T02:20:00Z", "5"), time.Time{}); !errors.Is(err, ErrOlder) {
		t.Errorf("other rows at the same time: %v", err)
	}

	// A year later A is back with its id. The only old price that is kept is the first one of its
	// day, which is 366 days old and outside every window.
	build(t, w, at("2026-06-02T00:00:00Z", "66"))
	if a := get(w, "/openapi/v1/quotes"); !strings.Contains(a.Body, `"1y":"0"`) ||
		!strings.Contains(a.Body, `"id":1,`) {
		t.Errorf("a year and a day later: %s", a.Body)
	}
}

func TestCoding(t *testing.T) {
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "gzip, br": "gzip", "gzip, br, zstd": "zstd", "gzip;q=0.5, br;q=0.4": "gzip",
		"*": "gzip", "br;q=0.5, *": "gzip", "br, *;q=0.5": "br", "gzip;q=0, *": "", "*;q=0": "", "identity": "",
		"gzip;q=0": "", "GZIP;Q=0.1": "gzip", "deflate": "", "deflate, *;q=0.1": "gzip", "zstd;q=0, *;q=0.5": "gzip",
		"identity;q=0.5, gzip;q=0.4": "", "identity;q=0": "",
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

// TestHistory checks which snapshots provide points for a window, and which assets have points.
func TestHistory(t *testing.T) {
	settings := Defaults()
	settings.History = 2
	w := New(settings)
	assets := rows(`{"key":"a","name":"A","symbol":"A","slug":"a"}`, `{"key":"b","name":"B","symbol":"B","slug":"b"}`,
		`{"key":"c","name":"C","symbol":"C","slug":"c"}`)
	at := func(at string, quotes ...string) Files { return feedAt(at, assets, rows(quotes...)) }
	build(t, w, at("2025-06-01T10:10:00Z", `{"key":"a","price":1,"market_cap":9}`))
	// b has no rank, so it is the third of two assets that may have history
	build(t, w, at("2025-06-01T10:20:00Z", `{"key":"a","price":2,"market_cap":9}`, `{"key":"b","price":7}`,
		`{"key":"c","price":"3.50","market_cap":1}`))
	build(t, w, at("2025-06-01T11:00:00Z", `{"key":"c","price":4}`, `{"key":"b","price":8}`))
	build(t, w, at("2025-06-01T11:30:00Z", `{"key":"c","price":5,"market_cap":1}`))
	for query, want := range map[string]string{
		// The first snapshot of the hour, 10:10, has no price for b and c. 11:30 is the newest
		// snapshot's own point.
		"id=1,2,3": `{"items":[{"id":1,"name":"A","symbol":"A","slug":"a","window":"7d","interval":"1h","points":[["2025-06-01T10:10:00Z","1"]]},` +
			`{"id":2,"name":"B","symbol":"B","slug":"b","window":"7d","interval":"1h","points":[["2025-06-01T11:00:00Z","8"]]},` +
			`{"id":3,"name":"C","symbol":"C","slug":"c","window":"7d","interval":"1h","points":[["2025-06-01T11:00:00Z","4"],["2025-06-01T11:30:00Z","5"]]}],"page":1,"total":3,"total_page":1}`,
		"symbol=a,c&window=1Y&limit=1&offset=1": `{"items":[{"id":3,"name":"C","symbol":"C","slug":"c","window":"1y","interval":"1d","points":[["2025-06-01T11:30:00Z","5"]]}],"page":2,"total":2,"total_page":2}`,
		"slug=c&window=24h": `{"items":[{"id":3,"name":"C","symbol":"C","slug":"c","window":"24h","interval":"10m","points":[` +
			`["2025-06-01T10:20:00Z","3.5"],["2025-06-01T11:00:00Z","4"],["2025-06-01T11:30:00Z","5"]]}],"page":1,"total":1,"total_page":1}`,
		"id=,&size=-3": `{"items":[],"page":1,"total":0,"total_page":1}`,
	} {
		if a := get(w, "/openapi/v1/history?"+query); a.Body != envelope(want) {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	if a := get(w, "/openapi/v1/history?id=2,9&window=1y&sort=name&fields=x&page=1&page=2"); a.NotFound != "id=2,9" ||
		a.Ignored != "fields,page,sort" {
		t.Errorf("X-Not-Found %q, X-Ignored %q", a.NotFound, a.Ignored)
	}
	if a := get(w, "/openapi/v1/quotes?id=2&window=1y"); a.Ignored != "window" {
		t.Errorf("X-Ignored %q", a.Ignored)
	}
	for _, query := range []string{"", "id=", "window=7d", "id=1&window=1w", "id=1&size=21", "id=1&page=1&limit=21",
		"id=1&page=0", "id=1&offset=100001"} {
		if a := get(w, "/openapi/v1/history?"+query); a.Status != 400 {
			t.Errorf("%s: status %d", query, a.Status)
		}
	}

	// The first interval of the window is the one that begins exactly one window length before the
	// newest snapshot.
	build(t, w, at("2025-06-02T10:20:00Z", `{"key":"b","price":9}`))
	if a := get(w, "/openapi/v1/history?id=1,2&window=24h"); !strings.Contains(
		a.Body, `"points":[["2025-06-01T10:20:00Z","2"]]`) ||
		!strings.Contains(a.Body, `"points":[["2025-06-01T11:00:00Z","8"],["2025-06-02T10:20:00Z","9"]]`) {
		t.Errorf("a day later: %s", a.Body)
	}
	// An import shows in the next snapshot.
	rows, _, err := RowsOf(at("2025-05-31T10:00:00Z", `{"key":"b","price":6}`))
	must.OK(t, err)
	w.Import(rows, nil)
	for _, want := range []string{
		`[["2025-06-01T11:00:00Z","8"]`, `[["2025-05-31T10:00:00Z","6"],["2025-06-01T11:00:00Z","8"]`} {
		if a := get(w, "/openapi/v1/history?id=2"); !strings.Contains(a.Body, `"points":`+want) {
			t.Errorf("want %s: %s", want, a.Body)
		}
		build(t, w, at("2025-06-02T10:30:00Z", `{"key":"b","price":9}`))
	}
}

// TestSearch checks which assets match, and in which order.
func TestSearch(t *testing.T) {
	w := New(Defaults())
	asset := func(id int, name, symbol, slug string) string {
		return fmt.Sprintf(
			`{"key":"k%d","id":%d,"name":%s,"symbol":%s,"slug":%s}`, id, id, Quote(name), Quote(symbol), Quote(slug))
	}
	build(t, w, feedAt("2025-06-01T10:10:00Z", rows(
		asset(1, "Bitcoin", "BTC", "bitcoin"), asset(2, "Wrapped Bitcoin", "WBTC", "wrapped-bitcoin"),
		asset(3, "Bitcoin Cash", "BCH", "bitcoin-cash"), asset(4, "btc", "X", "btc-x"),
		asset(5, "Other", "btc", "other"), asset(6, "Doge & Co", "$D", "co"), asset(7, "A.B;C", "Q", "q q"),
		asset(8, "\u00e9t\u00e9 \u03b9\u1fbe", "\u0399", "ete"), asset(9, "Cash", "CASH", "x/btc"),
		asset(10, "2Big4u", "BIG", "big"),
	), rows(`{"key":"k3","price":1,"market_cap":9}`, `{"key":"k2","price":1,"market_cap":99}`,
		`{"key":"k5","price":1,"market_cap":1}`)))
	for q, want := range map[string][]int{
		"btc": {5, 1, 4}, // symbols that equal btc, by rank; then a name that does
		"BTC": {5, 1, 4}, "bit": {2, 3, 1}, "bitcoin": {1, 2, 3}, "cash+bitcoin": {3}, "bitcoin+cash": {3},
		"bit+w": nil, "bit+wr": {2}, "itcoin": nil, "bitcoin-c": {3}, "x%2Fbt": {9},
		// With the leading space, no symbol equals the text, but all begin with it.
		"+btc": {5, 1, 4},
		// "co" is a slug.
		"doge+%26+co": {6}, "doge+%26": nil, "doge+co": {6}, "%26": nil, "$d": {6}, "$": nil, "co": {6},
		"a": {7}, "b": {7}, "a.": nil, "a.b%3Bc": {7}, "q": {7}, "q+q": {7}, "%00": nil, "c": {7}, "ca": {3, 9},
		"%C3%89T": {8}, "%C3": nil, "%C3%A9": nil, "%C3%A9t%C3": nil, "%CE%B9": {8}, "%CE%B9%E1%BE%BE": {8}, "2": nil,
		"2b": {10}, "big": {10}, "4u": nil,
	} {
		a := get(w, "/openapi/v1/search?q="+q)
		var got struct {
			Result struct{ Items []struct{ ID int } }
		}
		if err := json.Unmarshal([]byte(a.Body), &got); err != nil {
			t.Fatalf("%s: %+v", q, a)
		}
		var ids []int
		for _, i := range got.Result.Items {
			ids = append(ids, i.ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%s: %v, want %v", q, ids, want)
		}
	}
	if a := get(w, "/openapi/v1/search?q=doge&q=x&size=0&id=x&fields=links"); a.Ignored != "fields,id,q,size" ||
		a.NotFound != "" ||
		a.Body != envelope(`{"items":[{"id":6,"name":"Doge & Co","symbol":"$D","slug":"co","logo":"","explorers":[]}]}`) {
		t.Errorf("%+v", a)
	}
	for _, q := range []string{"", "q", "q=", "q=+", "Q=btc", "q=" + strings.Repeat("x", 65), "q=1+2+3+4+5+6+7+8+9"} {
		if a := get(w, "/openapi/v1/search?"+q); a.Status != 400 || !slices.Equal(a.Blame, []string{"q"}) {
			t.Errorf("%s: %+v", q, a)
		}
	}
}
