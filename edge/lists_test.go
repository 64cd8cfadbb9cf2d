package edge

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// TestListsOfClients sends lists in each form that HTTP libraries and generated clients write by
// default. Each request asks for the assets 3 and 9, so these must come back: the requests are from
// reports to axios (2510), kubb (1270), orval (1285), openapi-typescript (1388),
// swagger-typescript-api (1541) and hey-api (1255), and from the documentation of the others.
func TestListsOfClients(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(20, 1), teststore.Start)
	e, _ := start(t, mem, func(cfg *Config) { cfg.Coins = true })
	until(t, "a snapshot", func() bool { return e.current() != nil })
	for _, form := range []string{
		"L=3,9",                   // as documented
		"L=3%2C9",                 // URLSearchParams of one text
		"L[]=3&L[]=9",             // axios, openapi-client-axios
		"L%5B%5D=3&L%5B%5D=9",     // orval, kubb, Rails
		"L[0]=3&L[1]=9",           // qs
		"L%5B0%5D=3&L%5B1%5D=9",   // PHP's http_build_query
		"L=3&L=9",                 // requests, httpx, aiohttp, Go, Ruby, Perl, openapi-fetch
		"L=3&L[]=9",               // a program that adds to a fixed address
		"L=&L=3&L=9&",             // a form with an empty field
		"L[10]=9&x=1&L[2]=3&L[]=", // in whatever order
	} {
		query := strings.ReplaceAll(form, "L", "id")
		ignored := ""
		if strings.Contains(form, "x=1") {
			ignored = "x"
		}
		for _, endpoint := range []string{"quotes", "assets", "markets"} {
			answer, body := e.get(t, "/openapi/v1/"+endpoint+"?"+query)
			var list struct {
				Result struct{ Items []struct{ ID int64 } }
			}
			err := json.Unmarshal(body, &list)
			var ids []int64
			for _, item := range list.Result.Items {
				ids = append(ids, item.ID)
			}
			got := answer.Header.Get("X-Ignored")
			if err != nil || len(ids) != 2 || ids[0]+ids[1] != 12 || got != ignored {
				t.Errorf("%s?%s: ids %v, %v, X-Ignored %q, want 3 and 9, %q", endpoint, query, ids, err, got, ignored)
			}
		}
		query = strings.NewReplacer("L", "ids", "=3", "=asset-3", "9", "asset-9").Replace(form)
		answer, body := e.get(t, "/api/v3/simple/price?vs_currencies[]=usd&"+query)
		var prices map[string]map[string]json.Number
		err := json.Unmarshal(body, &prices)
		if err != nil || answer.StatusCode != http.StatusOK || len(prices) != 2 || prices["asset-3"]["usd"] == "" ||
			prices["asset-9"]["usd"] == "" {
			t.Errorf("simple/price?%s: %d %s, %v", query, answer.StatusCode, body, err)
		}
	}
}

// TestTimesOfClients pins a snapshot, in the header and in the path, with its time as libraries write
// it by default: from reports to weaviate/java-client (605), langfuse-java (11) and kiota (1680), and from
// the documentation of the others. It is RFC 3339 in all of them, and it is the same instant.
func TestTimesOfClients(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(20, 1), teststore.Start)
	e, _ := start(t, mem, nil)
	until(t, "a snapshot", func() bool { return e.current() != nil })
	want := teststore.Start.UTC().Format(time.RFC3339)
	east, west := time.FixedZone("", 2*3600), time.FixedZone("", -9000)
	for _, form := range []struct {
		layout string
		zone   *time.Location
	}{
		{"2006-01-02T15:04:05Z", time.UTC},                // Java's Instant, Ruby, Go
		{"2006-01-02T15:04Z", time.UTC},                   // Java's OffsetDateTime
		{"2006-01-02T15:04-07:00", east},                  // the same, elsewhere
		{"2006-01-02T15:04:05.000Z", time.UTC},            // JavaScript's toISOString
		{"2006-01-02T15:04:05+00:00", time.UTC},           // Python's isoformat, PHP's DATE_ATOM, Rust's chrono
		{"2006-01-02 15:04:05+00:00", time.UTC},           // Python's str
		{"2006-01-02T15:04:05.0000000Z", time.UTC},        // C#'s "o"
		{"2006-01-02T15:04:05.0000000-07:00", west},       // the same, elsewhere
		{"2006-01-02T15:04:05-07:00", east},               // Go's local time
		{"2006-01-02t15:04:05.000000000-00:00", time.UTC}, // RFC 3339, 4.3 and 5.6
	} {
		text := teststore.Start.In(form.zone).Format(form.layout)
		for path, headers := range map[string][]string{
			"/openapi/v1/global": {"X-Snapshot-Time", text},
			"/at/" + strings.ReplaceAll(text, " ", "%20") + quotes:                                  nil,
			"/at/" + url.PathEscape(text) + quotes:                                                  nil,
			"/at/" + strings.NewReplacer("+", "%2B", ":", "%3A", " ", "%20").Replace(text) + quotes: nil,
		} {
			status, body, h := Get(t, e.Addr(), path, headers...)
			if status != http.StatusOK || h.Get("X-Snapshot-Time") != want {
				t.Errorf("%s %v: %d %s", path, headers, status, body)
			}
		}
	}
	for _, text := range []string{"2026-11-21T10:10:00", "2026-11-21T10:10:00,0Z", "1795255800",
		"2026-11-21T1:10:00Z"} {
		status, body, _ := Get(t, e.Addr(), quotes, "X-Snapshot-Time", text)
		if status != http.StatusBadRequest || !strings.Contains(body, "RFC 3339") {
			t.Errorf("%s: %d %s", text, status, body)
		}
	}
}

const quotes = "/openapi/v1/quotes"

// TestEscapesOfClients sends the same question with the escapes of several libraries.
func TestEscapesOfClients(t *testing.T) {
	mem := memstore.New()
	feed := teststore.NewFeed(20, 1)
	feed.Assets[3].Name, feed.Assets[3].Slug = "Salt & Co", "salt-&-co"
	teststore.Publish(t, mem, feed, teststore.Start)
	e, _ := start(t, mem, nil)
	until(t, "a snapshot", func() bool { return e.current() != nil })
	want := map[string]string{}
	for _, query := range []string{
		"assets?sort=name:desc&slug=salt-%26-co,asset-9",           // as documented, axios
		"assets?sort=name%3Adesc&slug=salt-%26-co%2Casset-9",       // requests, Go, Java, URLSearchParams, C#
		"assets?sort=name%3adesc&slug=salt%2d%26%2dco%2casset%2d9", // lower case, and all that is no letter
		"search?q=salt%20%26%20co",                                 // encodeURIComponent, C#, Rust, PHP's rawurlencode
		"search?q=salt+%26+co",                                     // URLSearchParams, requests, Go, Java, PHP, Ruby
		"search?q=%73alt+%26+co&",                                  // a form
	} {
		status, body, _ := Get(t, e.Addr(), "/openapi/v1/"+query)
		endpoint, _, _ := strings.Cut(query, "?")
		if want[endpoint] == "" {
			want[endpoint] = body
		}
		if status != http.StatusOK || body != want[endpoint] || !strings.Contains(body, `"slug":"salt-&-co"`) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}

// get requests a path.
func (e *Edge) get(t *testing.T, path string) (*http.Response, []byte) {
	t.Helper()
	answer := must.Get(http.Get("http://" + e.Addr().String() + path))(t)
	defer answer.Body.Close()
	return answer, must.Get(io.ReadAll(answer.Body))(t)
}
