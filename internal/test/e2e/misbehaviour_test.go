package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// A misbehaviour is a way in which a provider violates its own documentation.
type misbehaviour struct {
	name string
	// These functions change the provider's market, the rows of a list, the page that begins at
	// index from, a body, or the whole answer.
	bend func(m *fakeMarket)
	rows func(rows []string) []string
	page func(from int, rows []string) []string
	body func(body string) string
	http responder
	// right changes the market to what a snapshot must contain. If it is nil, bend does so.
	right func(m *fakeMarket)
	// want is the expected outcome of a first build and, after a space, of a build after a good
	// one. A bar separates alternatives: the snapshot has the right content (right), the last good
	// quotes remain (kept), a guard rail stops the build (stop), or there is no feed (none). If the
	// first part is empty, there is no first build. The reason must contain said.
	want, said string
	// late says that the build after a good one is so much later that the builder requests all
	// lists.
	late bool
	// only names the providers that can behave so, or is "" for all of them. on is the affected
	// list, or "" for quotes.
	only, on string
}

// row20 returns a function that changes a coin that is not one of the ten largest.
func row20(bend func(c *fakeCoin)) func(m *fakeMarket) {
	return func(m *fakeMarket) { bend(&m.coins[20]) }
}

var (
	unquoted = row20(func(c *fakeCoin) { c.unquoted = true })
	unlisted = row20(func(c *fakeCoin) { c.unlisted = true })
)

// responder answers a request for a fake, whose own answer would have the given body.
type responder = func(w http.ResponseWriter, r *http.Request, body string)

func respond(status int, headers ...string) responder {
	return func(w http.ResponseWriter, _ *http.Request, body string) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		if status >= 200 && status != 204 && status != 304 {
			_, _ = io.WriteString(w, body)
		}
	}
}

// raw answers with bytes that need not be HTTP, and closes the connection.
func raw(text string) responder {
	return func(w http.ResponseWriter, _ *http.Request, body string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, strings.ReplaceAll(text, "BODY", body))
			_ = conn.Close()
		}
	}
}

// coded answers with a body in a content coding, and claims the coding claim, or none if claim is
// empty.
func coded(claim string, code func(body string) string) responder {
	return func(w http.ResponseWriter, _ *http.Request, body string) {
		if claim != "" {
			w.Header().Set("Content-Encoding", claim)
		}
		_, _ = io.WriteString(w, code(body))
	}
}

func gzipped(body string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, body)
	_ = w.Close()
	return b.String()
}

// slowly sends a body in pieces, which takes an hour in total.
func slowly(w http.ResponseWriter, r *http.Request, body string) {
	for i := range 60 {
		_, _ = io.WriteString(w, body[len(body)*i/60:len(body)*(i+1)/60])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(time.Minute):
		case <-r.Context().Done():
			return
		}
	}
}

var firstID = regexp.MustCompile(`^\{"id":("[^"]*"|[0-9]+)`)

// refused is the outcome if the client does not accept the answer.
const refused = "none kept"

// catalogue collects the misbehaviours of a provider.
type catalogue struct {
	*fakeAPI
	list []misbehaviour
}

func (l *catalogue) answers(want, said string, all map[string]responder) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l.list = append(l.list, misbehaviour{name: name, http: all[name], want: want, said: said})
	}
}

func (l *catalogue) bodies(want, said string, all map[string]func(string) string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l.list = append(l.list, misbehaviour{name: name, body: all[name], want: want, said: said})
	}
}

// misbehaviours returns the misbehaviours of a provider.
func misbehaviours(a *fakeAPI) []misbehaviour {
	l := &catalogue{fakeAPI: a}
	l.addAnswers()
	l.addBodies()
	l.addFields()
	l.addRows()
	l.addPages()
	l.addWhole()
	return l.list
}

func (l *catalogue) addAnswers() {
	host := l.base[:8+strings.IndexByte(l.base[8:]+"/", '/')]
	for _, status := range []int{201, 202, 203, 204, 206, 301, 304, 400, 401, 402, 403, 404, 405, 408, 410, 418, 425,
		429, 451, 500, 501, 502, 503, 504, 520, 599} {
		l.answers(refused, fmt.Sprint("status ", status),
			map[string]responder{fmt.Sprint(status): respond(status)})
	}
	for _, after := range []string{
		"", "0", "-1", "soon", "1.5", "99999999999999999999", "Thu, 01 Jan 1970 00:00:00 GMT", "31 Dec 9999", "30"} {
		l.answers(refused, "status 429", map[string]responder{
			"Retry-After: " + after: respond(429, "Retry-After", after)})
	}
	for _, after := range []string{"3600", "4294967295", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		l.answers(refused, "asks for a pause until", map[string]responder{
			"Retry-After: " + after: respond(503, "Retry-After", after)})
	}
	for _, to := range []string{"https://evil.test/v1/tickers", "//evil.test/", "http://" +
		strings.TrimPrefix(l.base, "https://"), host + ".evil.test/", host + ":444/", "?again=1", "ftp://evil.test/"} {
		for _, status := range []int{302, 308} {
			l.answers(refused, "redirected to another host, or too often", map[string]responder{
				fmt.Sprint(status, " ", to): respond(status, "Location", to)})
		}
	}
	l.answers(refused, "", map[string]responder{
		"closed at once":          raw(""),
		"no HTTP":                 raw("220 smtp.test ESMTP\r\n"),
		"a head of a megabyte":    raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\nBODY"),
		"a head that breaks off":  raw("HTTP/1.1 200 OK\r\nContent-Le"),
		"two lengths":             raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[]]"),
		"a longer body announced": raw("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nBODY"),
		"no end of chunks":        raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[1234\r\n"),
		"no chunks":               raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nBODY"),
		"half of it, then closed": func(w http.ResponseWriter, r *http.Request, body string) {
			raw("HTTP/1.1 200 OK\r\n\r\nBODY")(w, r, body[:len(body)/2])
		},
		"a body without end": slowly,
		"nothing, for ever":  func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() },
		"a body of 65 MiB":   says(strings.Repeat(" ", 65<<20)),
		"plain, said gzip":   coded("gzip", func(b string) string { return b }),
		"half of a gzip":     coded("gzip", func(b string) string { return gzipped(b)[:len(gzipped(b))/2] }),
		"gzip and more":      coded("gzip", func(b string) string { return gzipped(b) + "more" }),
		"gzip of 65 MiB":     coded("gzip", func(b string) string { return gzipped(strings.Repeat(" ", 65<<20) + b) }),
		"gzip of a gzip":     coded("gzip", func(b string) string { return gzipped(gzipped(b)) }),
		"gzip, unsaid":       coded("", gzipped),
		"gzip, said br":      coded("br", gzipped),
	})
	l.answers(" right", "", map[string]responder{
		"text/html":       respond(200, "Content-Type", "text/html"),
		"no type":         respond(200, "Content-Type", ""),
		"another charset": respond(200, "Content-Type", "application/json; charset=iso-8859-1"),
		"gzip":            coded("gzip", gzipped),
		"two gzips": coded(
			"gzip", func(b string) string { return gzipped(b[:len(b)/2]) + gzipped(b[len(b)/2:]) }),
		"plain, said br":      coded("br", func(b string) string { return b }),
		"HTTP/1.0":            raw("HTTP/1.0 200 OK\r\n\r\nBODY"),
		"another length":      raw("HTTP/1.1 200 OK\r\nETag: \"\r\nRetry-After: 99999\r\nLast-Modified: never\r\n\r\nBODY"),
		"hints, then the end": raw("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n\r\nBODY"),
		"a redirect": func(w http.ResponseWriter, r *http.Request, body string) {
			if r.URL.Query().Has("again") {
				respond(200)(w, r, body)
				return
			}
			q := r.URL.Query()
			q.Set("again", "1")
			respond(307, "Location", "?"+q.Encode())(w, r, "")
		},
	})
}

func (l *catalogue) addBodies() {
	l.bodies(refused, "not what was asked for", map[string]func(string) string{
		"nothing":  func(string) string { return "" },
		"null":     func(string) string { return "null" },
		"a number": func(string) string { return "7" },
		"a text":   func(string) string { return `"[]"` },
		"true":     func(string) string { return "true" },
		"{}":       func(string) string { return "{}" },
		"an error": func(string) string { return l.denied },
		"an error and no rows": func(string) string {
			return `{"data":null,"status":{"error_code":500,"error_message":"oops"}}`
		},
		"rows in an object":  func(string) string { return `{"data":{"0":{"id":"x"}}}` },
		"a page of HTML":     func(string) string { return "<!doctype html><title>Just a moment...</title>" },
		"half":               func(b string) string { return b[:len(b)/2] },
		"all but a byte":     func(b string) string { return b[:len(b)-1] },
		"twice":              func(b string) string { return b + b },
		"and more":           func(b string) string { return b + "\n<!-- 12 ms -->" },
		"a callback":         func(b string) string { return "f(" + b + ")" },
		"a comma at the end": func(b string) string { return strings.Replace(b, "]", ",]", 1) },
		"single quotes":      func(b string) string { return strings.ReplaceAll(b, `"`, `'`) },
		"UTF-16": func(b string) string {
			text := "\xff\xfe"
			for _, u := range utf16.Encode([]rune(b)) {
				text += string([]byte{byte(u), byte(u >> 8)})
			}
			return text
		},
		"deep":         func(string) string { return strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) },
		"zero bytes":   func(b string) string { return "\x00" + b },
		"a bare field": func(b string) string { return strings.Replace(b, `"id":`, `id:`, 1) },
	})
	l.bodies(refused, "no rows at all", map[string]func(string) string{
		"no rows": func(b string) string { return b[:strings.IndexByte(b, '[')+1] + b[strings.LastIndexByte(b, ']'):] },
	})
	l.bodies(" right", "", map[string]func(string) string{
		"a byte order mark": func(b string) string { return "\ufeff" + b },
		"blanks":            func(b string) string { return "\r\n\t " + b + " \n" },
		"lines":             func(b string) string { return strings.ReplaceAll(b, `,"`, ",\r\n\t\"") },
		"escapes":           func(b string) string { return strings.ReplaceAll(b, "Coin ", `\u0043oin\u0020`) },
		"unknown fields": func(b string) string {
			return strings.ReplaceAll(b, `{"id"`, `{"new":[{"x":1e999}],"id"`)
		},
		"a field twice": func(b string) string { return strings.ReplaceAll(b, `{"id"`, `{"id":"other","id"`) },
	})
}

// addFields adds bad values of single fields of a coin.
func (l *catalogue) addFields() {
	for _, literal := range []string{"NaN", "Infinity", "-Infinity", "undefined", "nan", "0x10", "01", "1.", ".5", "+1",
		"1_000", "1e", "--1", "1,5", "tru"} {
		if l.scheme != "coincap" || strings.ContainsAny(literal[:1], "NIut") {
			l.list = append(l.list, misbehaviour{name: "price " + literal,
				bend: row20(func(c *fakeCoin) { c.price = literal }), want: refused, said: "not what was asked for"})
		}
	}
	field := func(name string, to func(c *fakeCoin) *string, value string, right func(m *fakeMarket)) {
		bend := row20(func(c *fakeCoin) { *to(c) = value })
		if right == nil {
			right = bend
		}
		l.list = append(l.list, misbehaviour{name: name + " " + fmt.Sprintf("%.40s", value), bend: bend, right: right,
			want: " right", late: name == "name" || name == "symbol"})
	}
	price := func(c *fakeCoin) *string { return &c.price }
	marketCap := func(c *fakeCoin) *string { return &c.cap }
	volume := func(c *fakeCoin) *string { return &c.volume }
	for _, v := range []string{
		"-1", "-1e-9", `"-1"`, "true", "{}", "[]", "[1]", `{"usd":1}`, `"x"`, `"1,5"`, `" 1"`, `"1 "`, `"0x10"`,
		`"NaN"`, `"Infinity"`, `"-"`, `"１２"`, "1e999", "1e999999999", "1234567890123456789", "null", `""`} {
		field("price", price, v, unquoted)
	}
	for _, v := range []string{
		"0", "-0", "0.0", "1e-999999999", "5e-324", "1E+2", "1.5e-7", `"612.25"`, "612.2500000000000000000000000000",
		"0.0000000000000000005", "0.0000000000000000015", "123456789012345678.123456789012345678"} {
		field("price", price, v, nil)
	}
	for _, to := range []func(c *fakeCoin) *string{marketCap, volume} {
		for _, v := range []string{"-1", "true", "{}", `"x"`, "1e28", "1e999", `"NaN"`} {
			field("amount", to, v, row20(func(c *fakeCoin) { *to(c) = "null" }))
		}
		for _, v := range []string{"null", "0", "1e3", `"7.123456785"`, "7.123456775", "0.000000001"} {
			field("amount", to, v, nil)
		}
		field("amount", to, `""`, row20(func(c *fakeCoin) { *to(c) = "null" }))
	}
	name := func(c *fakeCoin) *string { return &c.name }
	symbol := func(c *fakeCoin) *string { return &c.symbol }
	for _, v := range []string{"null", `""`, "5", "{}", "[]", "true", `"\ud800"`, "\"a\xff\"", "\"\xed\xa0\x80\"",
		`" "`, `"` + strings.Repeat("é", 129) + `"`} {
		field("name", name, v, unlisted)
		if !strings.Contains(v, "é") || l.scheme == "coingecko" {
			field("symbol", symbol, v, unlisted)
		}
	}
	for _, v := range []string{
		`"<b>&"`, `"a\u0000b"`, `"\ud83d\ude00 \u202e"`, `"` + strings.Repeat("é", 128) + `"`, `"\\\"/"`} {
		field("name", name, v, nil)
	}
}

func (l *catalogue) addRows() {
	gone := row20(l.lose)
	rows := func(name string, f func(rows []string) []string, right func(m *fakeMarket)) {
		l.list = append(l.list, misbehaviour{name: name,
			rows: func(rows []string) []string { return f(slices.Clone(rows)) }, right: right, want: " right"})
	}
	for _, row := range []string{"null", "5", `"x"`, "[]", "{}", "[[]]"} {
		rows("a row that is "+row, func(r []string) []string { r[20] = row; return r }, gone)
	}
	for _, id := range []string{"null", `""`, "{}", "true", "1.5", `"\ud800"`} {
		rows("an id that is "+id,
			func(r []string) []string { r[20] = firstID.ReplaceAllString(r[20], `{"id":`+id); return r }, gone)
	}
	rows("a row that is gone", func(r []string) []string { return slices.Delete(r, 20, 21) }, gone)
	rows("a row twice", func(r []string) []string { return slices.Insert(r, 21, r[20]) }, nil)
	rows("a row again at the end", func(r []string) []string { return append(r, r[3]) }, nil)
	rows("a row again, with another price", func(r []string) []string {
		return slices.Insert(r, 21, strings.Replace(r[20], "600.", "1.", 1))
	}, nil)
	rows("another order", func(r []string) []string { slices.Reverse(r); return r }, nil)
	l.list = append(l.list, misbehaviour{
		name: "an id that is another one now", bend: row20(func(c *fakeCoin) { c.id, c.num = "phoenix", 9999 }),
		right: row20(func(c *fakeCoin) { c.id, c.num = "phoenix", 9999 }), want: " right", late: true,
	})
}

func (l *catalogue) addPages() {
	lost := func(places ...int) func(m *fakeMarket) {
		return func(m *fakeMarket) {
			for _, i := range places {
				l.lose(&m.coins[i])
			}
		}
	}
	window := func(rows []string, from int) []string {
		return rows[min(from, len(rows)):min(from+fakePage, len(rows))]
	}
	pages := func(name, want, said, only string, right func(m *fakeMarket), f func(from int, rows []string) []string) {
		l.list = append(l.list, misbehaviour{name: name, page: f, right: right, want: want, said: said, only: only})
	}
	const paged, held, byOffset = "coingecko coinmarketcap coincap", "coingecko coinmarketcap", "coinmarketcap coincap"
	pages("a page again", refused, "page 2 has the rows of page 1", paged, nil,
		func(from int, r []string) []string { return window(r, max(0, from-fakePage)) })
	pages("the first page always", refused, "page 2 has the rows of page 1", paged, nil,
		func(_ int, r []string) []string { return window(r, 0) })
	pages("a page is left out", refused, "", paged, nil, func(from int, r []string) []string {
		if from >= fakePage {
			from = max(from, 2*fakePage)
		}
		return window(r, from)
	})
	pages("an empty page", refused, "want 40", held, nil, func(from int, r []string) []string {
		if from == fakePage {
			return nil
		}
		return window(r, from)
	})
	pages("no last page", " kept", "30 rows", paged, nil,
		func(from int, r []string) []string { return window(r[:30], from) })
	pages("no end of pages", refused, "more pages than", paged, nil, func(from int, r []string) []string {
		row := slices.Clone(window(r, 0))
		for i := range row {
			row[i] = firstID.ReplaceAllString(row[i], fmt.Sprintf(`{"id":"%d"`, from+i))
		}
		return row
	})
	short := func(from int, r []string) []string {
		page := window(r, from)
		return page[:min(len(page), fakePage-1)]
	}
	pages("short pages", " right", "", byOffset, nil, short)
	pages("short pages", " right", "", "coingecko", lost(14, 29), short)
	pages("rows that move to the next page", " right", "", paged, lost(29),
		func(from int, r []string) []string { return window(r, max(0, from-from/fakePage%2)) })
	pages("an order that changes", " right", "", paged, lost(25, 26, 27, 28, 29), func(from int, r []string) []string {
		if r = slices.Clone(r); from == fakePage {
			slices.Reverse(r)
		}
		return window(r, from)
	})
}

// addWhole adds faults that are visible only in the answer as a whole.
func (l *catalogue) addWhole() {
	all := func(name, want, said string, late bool, f func(c *fakeCoin)) {
		l.list = append(l.list, misbehaviour{name: name, want: want, said: said, late: late, bend: func(m *fakeMarket) {
			for i := range m.coins {
				f(&m.coins[i])
			}
		}})
	}
	frozen := func(ago time.Duration) func(c *fakeCoin) {
		return func(c *fakeCoin) { c.updated = time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	}
	all("frozen", "stop stop", "--max-data-age", false, frozen(7*time.Hour))
	all("of 2019", "stop stop", "--max-data-age", false, frozen(7*365*24*time.Hour))
	all("an hour old", " right", "", false, frozen(time.Hour))
	all("of tomorrow", " right", "", false, frozen(-24*time.Hour))
	all("of no time", " right", "", false, func(c *fakeCoin) { c.updated = "now" })
	all("no prices", "stop stop", "no row of quotes", false, func(c *fakeCoin) { c.price = "null" })
	all("prices of no kind", "stop stop", "--max-bad-rows", false, func(c *fakeCoin) { c.price = `"?"` })
	all("prices in cents", " stop", "--max-median-move", false, func(c *fakeCoin) { c.price += "e2" })
	all("caps lost", " stop", "--max-cap-loss", false, func(c *fakeCoin) { c.cap = "null" })
	all("caps in thousands", " stop", "--max-cap-move", false, func(c *fakeCoin) {
		if c.cap != "null" {
			c.cap += "e-3"
		}
	})
	all("volumes in cents", " stop", "--max-volume-move", false, func(c *fakeCoin) {
		if c.volume != "null" && c.volume != "1.5e3" {
			c.volume += "e2"
		}
	})
	all("names lost", " stop", "--max-rename", true, func(c *fakeCoin) { c.name, c.symbol = `"TEST"`, `"TEST"` })
	l.list = append(l.list,
		misbehaviour{name: "half of the rows", rows: func(r []string) []string { return r[:20] }, want: " stop|kept"},
		misbehaviour{name: "prices that change places", want: " stop", said: "--max-move", bend: func(m *fakeMarket) {
			for i := range 20 {
				m.coins[i].price, m.coins[39-i].price = m.coins[39-i].price, m.coins[i].price
			}
		}},
	)
}

func says(body string) responder {
	return func(w http.ResponseWriter, r *http.Request, _ string) { respond(200)(w, r, body) }
}

// TestMisbehaviour: whatever a provider does, the published data are right, or nothing is published
// and the error says what was wrong.
func TestMisbehaviour(t *testing.T) {
	warm(t)
	const batch = 20 // number of misbehaviours that share one store and one edge
	for k, a := range fakeAPIs {
		var cases []misbehaviour
		for i, bad := range misbehaviours(a) {
			if bad.only != "" && !strings.Contains(bad.only, a.scheme) || !asked && (i+k)%(2*len(fakeAPIs)) > 0 {
				continue // each provider gets only some of them, unless a long run is requested
			}
			cases = append(cases, bad)
			if bad.http == nil && bad.body == nil || !strings.HasPrefix(bad.want, "none") || i%5 > 0 {
				continue
			}
			bad.late, bad.said = true, ""
			for _, bad.on = range []string{"assets", "exchanges", "groups"} {
				if bad.want = "none none|right"; bad.on != "assets" {
					bad.want = "right|stop right|stop"
				}
				if a.scheme != "coincap" || bad.on == "exchanges" {
					cases = append(cases, bad)
				}
			}
		}
		for cases := range slices.Chunk(cases, batch) {
			t.Run(a.scheme, func(t *testing.T) { follow(t, a, cases) })
		}
	}
}

// warm runs one build outside of any synctest bubble, because the channels that the compressor
// creates at its first use must not belong to a bubble.
func warm(t *testing.T) {
	p := newPair(t, model.Defaults(), poll)
	p.build(fakeAPIs[0].files(newFakeMarket(0), time.Unix(1e9, 0)), time.Time{})
}

// followed is a builder whose provider misbehaves, together with the model of what it publishes.
type followed struct {
	*testing.T
	fake    *fake
	builder *builder.Builder
	world   *model.World
	moment  int
	last    *fakeMarket // market of the last good quotes
}

// build makes the provider misbehave, unless bad is nil, during the build for the next mark. The
// outcome of the build must be in want.
func (f *followed) build(bad *misbehaviour, want string) {
	sleepTo(10 * time.Minute)
	f.moment++
	m := newFakeMarket(f.moment)
	f.fake.tell(m, bad)
	began := time.Now()
	report, err := f.builder.Build(f.Context(), time.Time{})
	states := map[string]source.Part{}
	for _, p := range report.Parts {
		states[p.Name] = p
	}
	got, reason, said := "right", "", ""
	switch a := f.fake.api; {
	case errors.Is(err, builder.ErrGuard):
		got, reason = "stop", err.Error()
	case err != nil:
		got, reason = "none", err.Error()
	case states[a.quotes].State == source.PartStale:
		got, reason, m = "kept", states[a.quotes].Reason, f.last
	case bad == nil:
		f.last = m
	case bad.right != nil:
		bad.right(m)
	case bad.bend != nil:
		bad.bend(m)
	}
	name := "good"
	if bad != nil {
		name, said = bad.on+" "+bad.name, bad.said
	}
	if !strings.Contains("|"+want+"|", "|"+got+"|") || got != "right" && (reason == "" ||
		!strings.Contains(reason, said)) || len(reason) > 2000 || strings.Contains(reason, "s3cret") {
		f.Fatalf("%s: %s, want %s; %.300s, want it to say %q; set aside %q", name, got, want, reason, said,
			report.Rejections)
	}
	if err != nil {
		return
	}
	files := f.fake.api.files(m, began)
	for part, file := range map[string]string{"exchanges": "exchanges", f.fake.api.groups: "categories"} {
		if states[part].State == source.PartMissing {
			files[file+".ndjson"] = ""
		}
	}
	must.Get(f.world.Build(files, time.Time{}))(f)
}

// notices are the texts that the providers' terms require.
var notices = map[string]*model.Notice{
	"coingecko":   {Text: "Data provided by CoinGecko", URL: "https://www.coingecko.com"},
	"coinpaprika": {Text: "Data provided by CoinPaprika", URL: "https://coinpaprika.com"},
}

// follow makes a provider misbehave in one way after another, each time both before and after a
// good build, and compares everything that was published with the model.
func follow(t *testing.T, a *fakeAPI, cases []misbehaviour) {
	store := buildtest.Signed(must.Get(dirstore.Open(t.TempDir(), dirstore.Options{Create: true}))(t))
	settings := model.Defaults()
	settings.Retain = builder.MaxRetain
	settings.Clock, settings.Notice = time.Now(), notices[a.scheme]
	world := model.New(settings)
	synctest.Test(t, func(t *testing.T) {
		f := &followed{T: t, fake: &fake{t: t, api: a}, world: world}
		transport, stop := f.fake.serve()
		defer stop()
		f.builder = must.Get(builder.New(builder.Config{
			Store: store, Retain: settings.Retain, Guards: builder.DefaultGuards, Log: buildtest.Discard,
			Settings: floors(t, settings),
		}))(t)
		open := func() { f.builder.Source = f.fake.open(t, transport, "?quota=none&rate=60000&slow=30"+a.options) }
		open()
		f.build(nil, "right")
		for _, bad := range cases {
			first, later, _ := strings.Cut(bad.want, " ")
			if first != "" {
				open()
				f.build(&bad, first)
				open()
			}
			if later != "right" {
				f.build(nil, "right")
			}
			if bad.late {
				time.Sleep(6 * time.Hour)
			}
			if f.build(&bad, later); bad.late {
				open()
			}
		}
	})
	if t.Failed() {
		return
	}
	p := &pair{t: t, world: world, store: store, poll: time.Hour, tags: map[string]string{},
		bodies: map[string]string{}}
	p.start()
	p.askWhole(1)
	for _, s := range world.Retained() {
		for _, list := range []string{"assets", "quotes", "exchanges", "categories", "chains"} {
			p.check(model.Question{Method: "GET", Target: "/openapi/v1/" + list + "?size=100",
				Pins: []string{s.Time.Format(time.RFC3339)}})
		}
	}
}

// TestRestFails: if everything except a provider's prices fails for a day, the prices of every mark
// are still published within two minutes. Everything else stays unchanged, which the report says
// for each part. The same holds for a builder that starts with only prices and the directory. After
// the failure, each part is new again.
func TestRestFails(t *testing.T) {
	warm(t)
	for i, fault := range []struct {
		name string
		http func(http.ResponseWriter, *http.Request, string)
	}{
		{"hangs", func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() }},
		{"500", respond(500)}, {"403", respond(403)}, {"nonsense", says("[7]")},
	} {
		for k, a := range fakeAPIs {
			if i != k%4 && !asked {
				continue // one way for each provider, unless a long run is requested
			}
			t.Run(a.scheme+" "+fault.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { restFails(t, a, memstore.New(), fault.http) })
			})
		}
	}
}

func restFails(t *testing.T, a *fakeAPI, store artifacts.Store, fail func(http.ResponseWriter, *http.Request, string)) {
	f := &fake{t: t, api: a}
	transport, stop := f.serve()
	defer stop()
	b := must.Get(builder.New(builder.Config{
		Store: store, Guards: builder.DefaultGuards, Log: buildtest.Discard,
		Settings: floors(t, model.Defaults()),
	}))(t)
	options := "?quota=none&rate=60000&slow=30&cache=" + url.QueryEscape(t.TempDir()) + a.options
	build := func(moment int, on string) *builder.Report {
		t.Helper()
		sleepTo(10 * time.Minute)
		mark := time.Now()
		f.tell(newFakeMarket(moment), nil)
		if on != "" {
			f.tell(f.market, &misbehaviour{http: fail, on: on})
		}
		if moment%6 == 0 { // restart the builder
			b.Source = f.open(t, transport, options)
		}
		report, err := b.Build(t.Context(), time.Time{})
		if took := time.Since(mark); err != nil || !report.Published || took > 2*time.Minute {
			t.Fatalf("mark %d: published %v after %v: %v", moment, report.Published, took, err)
		}
		return report
	}
	build(0, "exchanges")
	var good *builder.Report
	for moment := range 6 {
		good = build(moment+1, "")
	}
	// failed says whether each part has failed. It leaves out the parts that are requested item by
	// item and those that the fake does not have.
	failed := map[string]bool{}
	for _, p := range good.Parts {
		if !p.Quotes && p.Failures == 0 && !strings.HasSuffix(p.Name, "/*") {
			failed[p.Name] = false
		}
	}
	for moment := range 144 {
		got := build(moment+7, "all but quotes")
		if !maps.Equal(got.Counts, good.Counts) {
			t.Fatalf("mark %d: %v, want %v", moment, got.Counts, good.Counts)
		}
		for _, p := range got.Parts {
			_, fails := failed[p.Name]
			if fails = fails && p.Failures > 0; fails {
				failed[p.Name] = true
			}
			if p.Quotes && p.State != source.PartNew ||
				fails && (p.State != source.PartStale || p.Reason == "" || p.Fetched.IsZero()) {
				t.Fatalf("mark %d: %+v", moment, p)
			}
		}
	}
	for moment := range 30 {
		good = build(moment+151, "")
	}
	for _, p := range good.Parts {
		if said, fails := failed[p.Name]; fails &&
			(!said || p.Failures > 0 || p.State != source.PartNew && p.State != source.PartKept) {
			t.Errorf("said to have failed: %v; when it is over: %+v", said, p)
		}
	}
}

// tell sets the market and the fault of the fake from now on.
func (f *fake) tell(m *fakeMarket, fault *misbehaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.market, f.fault = m, fault
}

func sleepTo(d time.Duration) { time.Sleep(d - time.Duration(time.Now().UnixNano())%d) }

// open opens the provider's source with the fake as its server.
func (f *fake) open(t testing.TB, transport http.RoundTripper, options string) *provider.Source {
	t.Helper()
	return must.Get(f.api.open(options, provider.Env{
		Log: buildtest.Discard, Transport: transport,
		Getenv: func(name string) string { return map[string]string{f.api.env: "s3cret"}[name] },
	}))(t)
}

// TestMonth follows a builder and a cron job that share one cache through 33 days. The builder is
// stopped at arbitrary moments and started again, guard rails stop its builds, and the provider
// fails for days. No month has more calls than the quota, no call is missing from the count, and
// the quota is used as far as possible.
func TestMonth(t *testing.T) {
	const quota = 500
	faults := []*misbehaviour{
		{http: respond(500)}, {http: respond(429, "Retry-After", "30")}, {http: respond(503, "Retry-After", "7200")},
		{http: respond(302, "Location", "?again=1")},
		{body: func(b string) string { return b[:len(b)/2] }}, {page: func(int, []string) []string { return nil }},
	}
	for i, a := range fakeAPIs {
		if i%2 > 0 && !asked {
			continue // every other provider, unless a long run is requested
		}
		t.Run(a.scheme, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(i), 0))
				f := &fake{t: t, api: a}
				transport := roundTrip(func(r *http.Request) (*http.Response, error) {
					w := httptest.NewRecorder()
					f.ServeHTTP(w, r)
					time.Sleep(time.Duration(rng.IntN(900)) * time.Millisecond)
					if err := r.Context().Err(); err != nil {
						return nil, err
					}
					return w.Result(), nil
				})
				options := fmt.Sprintf("?quota=%d&cache=%s%s", quota, url.QueryEscape(t.TempDir()), a.options)
				src := f.open(t, transport, options)
				for day := range 33 {
					for hour := range 12 {
						f.tell(newFakeMarket(day), nil)
						if day%4 == 3 {
							f.tell(f.market, faults[rng.IntN(len(faults))])
						}
						ctx, cancel := context.WithCancel(t.Context())
						loop := builder.Loop{
							Build: func(ctx context.Context, _ time.Time) error {
								_, err := src.Files(ctx, time.Time{})
								if err == nil && day%5 == 4 {
									err = builder.ErrGuard
								}
								return err
							},
							Published:   func(context.Context) (time.Time, error) { return time.Time{}, nil },
							Change:      func(context.Context) error { return nil },
							Collect:     func(context.Context) error { return nil },
							ChangeEvery: time.Hour, CollectEvery: time.Hour, Log: buildtest.Discard,
						}
						if rng.IntN(6) == 0 {
							time.AfterFunc(time.Duration(rng.IntN(3000))*time.Millisecond, cancel)
							loop.Run(ctx)
							src = f.open(t, transport, options)
							ctx, cancel = context.WithCancel(t.Context())
						}
						time.AfterFunc(5*time.Minute, cancel)
						loop.Run(ctx)
						if hour%2 == 0 { // the cron job
							_, _ = f.open(t, transport, options).Files(t.Context(), time.Time{})
						}
						sleepTo(2 * time.Hour)
					}
					want := 0
					for _, at := range f.calls {
						if !at.Before(time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -31)) {
							want++
						}
					}
					if q := src.Quota(); q.Used != want || *q.Left != quota-want {
						t.Fatalf("day %d: %+v (%d left) of %d calls", day, q, *q.Left, want)
					}
				}
				for i := range max(0, len(f.calls)-quota) {
					if took := f.calls[i+quota].Sub(f.calls[i]); took < 31*24*time.Hour {
						t.Fatalf("%d calls in %v, of a quota of %d a month", quota+1, took, quota)
					}
				}
				// CoinMarketCap is called less often, because each of its requests is assumed to
				// cost 25 calls until it has been answered.
				if len(f.calls) < quota*9/10 && a.scheme != "coinmarketcap" {
					t.Errorf("%d calls in 33 days, of %d a month", len(f.calls), quota)
				}
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
