package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/lab/must"
)

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

// TestHistory: which moments give points of a window, and which assets have some.
func TestHistory(t *testing.T) {
	settings := Defaults()
	settings.History = 2
	w := New(settings)
	assets := rows(`{"key":"a","name":"A","symbol":"A","slug":"a"}`, `{"key":"b","name":"B","symbol":"B","slug":"b"}`,
		`{"key":"c","name":"C","symbol":"C","slug":"c"}`)
	at := func(at string, quotes ...string) Files { return feedAt(at, assets, rows(quotes...)) }
	build(t, w, at("2025-06-01T10:10:00Z", `{"key":"a","price":1,"market_cap":9}`))
	// b is the third
	build(t, w, at("2025-06-01T10:20:00Z", `{"key":"a","price":2,"market_cap":9}`, `{"key":"b","price":7}`,
		`{"key":"c","price":"3.50","market_cap":1}`))
	build(t, w, at("2025-06-01T11:00:00Z", `{"key":"c","price":4}`, `{"key":"b","price":8}`))
	build(t, w, at("2025-06-01T11:30:00Z", `{"key":"c","price":5,"market_cap":1}`))
	for query, want := range map[string]string{
		// The hour's first is 10:10, which has no price of b and c; 11:30 is T's own.
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

	// The interval that begins a window's length before T is the first.
	build(t, w, at("2025-06-02T10:20:00Z", `{"key":"b","price":9}`))
	if a := get(w, "/openapi/v1/history?id=1,2&window=24h"); !strings.Contains(
		a.Body, `"points":[["2025-06-01T10:20:00Z","2"]]`) ||
		!strings.Contains(a.Body, `"points":[["2025-06-01T11:00:00Z","8"],["2025-06-02T10:20:00Z","9"]]`) {
		t.Errorf("a day later: %s", a.Body)
	}
	// A past that is put before shows in the next snapshot: of 10:00 to 11:00 it has the first.
	must.OK(t, w.Backfill([]Files{at("2025-06-01T10:00:00Z", `{"key":"b","price":6}`)}))
	for _, want := range []string{
		`[["2025-06-01T11:00:00Z","8"]`, `[["2025-06-01T10:00:00Z","6"],["2025-06-01T11:00:00Z","8"]`} {
		if a := get(w, "/openapi/v1/history?id=2"); !strings.Contains(a.Body, `"points":`+want) {
			t.Errorf("want %s: %s", want, a.Body)
		}
		build(t, w, at("2025-06-02T10:30:00Z", `{"key":"b","price":9}`))
	}
}

// TestSearch: what matches, and in which order.
func TestSearch(t *testing.T) {
	w := New(Defaults())
	asset := func(id int, name, symbol, slug string) string {
		return fmt.Sprintf(
			`{"key":"k%d","id":%d,"name":%s,"symbol":%s,"slug":%s}`, id, id, Quote(name), Quote(symbol), Quote(slug))
	}
	build(t, w, feedAt("2025-06-01T10:10:00Z", rows(
		asset(1, "Bitcoin", "BTC", "bitcoin"), asset(2, "Wrapped Bitcoin", "WBTC", "wrapped-bitcoin"),
		asset(3, "Bitcoin Cash", "BCH", "bitcoin-cash"), asset(4, "btc", "X", "btc-x"),
		asset(5, "Other", "btc", "other"), asset(6, "Doge & Co", "$D", "co"), asset(7, "A.B\u0000C", "Q", "q q"),
		asset(8, "\u00e9t\u00e9 \u03b9\u1fbe", "\u0399", "ete"), asset(9, "Cash", "CASH", "x/btc"),
		asset(10, "2Big4u", "BIG", "big"),
	), rows(`{"key":"k3","price":1,"market_cap":9}`, `{"key":"k2","price":1,"market_cap":99}`,
		`{"key":"k5","price":1,"market_cap":1}`)))
	for q, want := range map[string][]int{
		"btc": {5, 1, 4}, // both symbols, by rank; then the name
		"BTC": {5, 1, 4}, "bit": {2, 3, 1}, "bitcoin": {1, 2, 3}, "cash+bitcoin": {3}, "bitcoin+cash": {3},
		"bit+w": nil, "bit+wr": {2}, "itcoin": nil, "bitcoin-c": {3}, "x%2Fbt": {9},
		// no symbol equals it: all begin with it
		"+btc": {5, 1, 4},
		// "co" is a slug
		"doge+%26+co": {6}, "doge+%26": nil, "doge+co": {6}, "%26": nil, "$d": {6}, "$": nil, "co": {6},
		"a": {7}, "b": {7}, "a.": nil, "a.b%00c": {7}, "q": {7}, "q+q": {7}, "%00": nil, "c": {7}, "ca": {3, 9},
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
