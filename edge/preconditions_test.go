package edge

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// TestPreconditions checks that conditional requests work on every path whose answers have a tag, in the
// order of RFC 9110, 13.2.2, from which the expected values are taken (ClickHouse 107934, duckdb-httpfs 111,
// minify 293, wget2 124).
func TestPreconditions(t *testing.T) {
	mem := memstore.New()
	at := teststore.Start
	teststore.Publish(t, mem, teststore.NewFeed(200, 1), at, teststore.Files())
	e, _ := start(t, mem, func(cfg *Config) { cfg.Coins = true })
	until(t, "files", func() bool { return listFiles(t, e).Time != "" })
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	ask := func(method, path string, headers ...string) (*http.Response, string) {
		t.Helper()
		req := must.Get(http.NewRequest(method, "http://"+e.Addr().String()+path, nil))(t)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Add(headers[i], headers[i+1])
		}
		res := must.Get(client.Do(req))(t)
		defer res.Body.Close()
		return res, string(must.Get(io.ReadAll(res.Body))(t))
	}
	old, later := at.Add(-time.Second), at.Add(time.Second)
	const rfc850 = "Monday, 02-Jan-06 15:04:05 GMT"
	const pin = "/at/20260304T051000Z"
	for path, file := range map[string]bool{
		"/openapi/v1/quotes?size=100": false, "/openapi/v1/global": false, "/openapi/v1/files": false,
		pin + "/openapi/v1/quotes": false, pin + "/openapi/v1/global": false, "/api/v3/coins/list": false,
		"/api/v3/global": false, "/openapi/v1/files/quotes.parquet": true,
		pin + "/openapi/v1/files/quotes.parquet": true, pin + "/openapi/v1/files/files.json": true,
	} {
		// Only a file, or a pinned answer other than /global, is final. A rollback may replace an answer
		// without a pin by an older one, and a new change record changes /global.
		final := file || strings.HasPrefix(path, pin) && !strings.HasSuffix(path, "global")
		first, _ := ask("GET", path)
		tag, modified := first.Header.Get("ETag"), first.Header.Get("Last-Modified")
		if modified != at.Format(http.TimeFormat) || tag == "" {
			t.Fatalf("%s: %v", path, first.Header)
		}
		have := map[bool]int{true: 304, false: 200}
		for _, c := range []struct {
			status  int
			headers []string
		}{
			{412, []string{"If-Match", `"x"`}}, {412, []string{"If-Match", "W/" + tag}},
			{412, []string{"If-Match", ""}},
			{412, []string{"If-Match", strings.Trim(tag, `"`)}}, {200, []string{"If-Match", tag}},
			{200, []string{"If-Match", `"x", ` + tag}}, {200, []string{"If-Match", `W/"x"`, "If-Match", tag}},
			{200, []string{"If-Match", "*"}},
			{412, []string{"If-Unmodified-Since", old.Format(http.TimeFormat)}},
			{412, []string{"If-Unmodified-Since", old.Format(rfc850)}},
			{412, []string{"If-Unmodified-Since", old.Format(time.ANSIC)}},
			{200, []string{"If-Unmodified-Since", modified}}, {200, []string{"If-Unmodified-Since", "yesterday"}},
			{200, []string{"If-Unmodified-Since", later.Format(time.ANSIC)}},
			{412, []string{"If-Match", `"x"`, "If-None-Match", tag}},
			{304, []string{"If-Match", tag, "If-None-Match", tag}},
			{200, []string{"If-Match", tag, "If-Unmodified-Since", old.Format(http.TimeFormat)}},
			{412, []string{"If-Unmodified-Since", old.Format(http.TimeFormat), "If-Modified-Since", modified}},
			{304, []string{"If-Modified-Since", at.Format(rfc850)}},
			{304, []string{"If-Modified-Since", at.Format(time.ANSIC)}},
			{have[final], []string{"If-Modified-Since", later.Format(http.TimeFormat)}},
			{have[final], []string{"If-Modified-Since", later.AddDate(20, 0, 0).Format(rfc850)}},
			{200, []string{"If-Modified-Since", old.Format(time.ANSIC)}},
			{200, []string{"If-Modified-Since", modified, "If-None-Match", `"x"`}},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				for _, ranged := range []bool{false, true} {
					headers, want := c.headers, c.status
					if ranged {
						headers = append([]string{"Range", "bytes=0-3"}, headers...)
						if file && want == 200 && method == "GET" {
							want = 206
						}
					}
					a, body := ask(method, path, headers...)
					if a.StatusCode != want || want == 412 && (method == "GET" && !strings.Contains(body, "412") ||
						a.Header.Get("Content-Range")+a.Header.Get("ETag") != "" ||
						a.Header.Get("Cache-Control") != "no-store") {
						t.Errorf("%s %s %q: %d %v %.200s, want %d", method, path, headers, a.StatusCode, a.Header, body,
							want)
					}
				}
			}
		}
		for value, same := range map[string]bool{modified: true, at.Format(rfc850): true, at.Format(time.ANSIC): true,
			later.Format(http.TimeFormat): false, old.Format(time.ANSIC): false, "W/" + tag: false} {
			want := 200
			if file && same {
				want = 206
			}
			if a, _ := ask("GET", path, "Range", "bytes=0-3", "If-Range", value); a.StatusCode != want {
				t.Errorf("%s, If-Range %s: %d, want %d", path, value, a.StatusCode, want)
			}
		}
	}
	if _, body := ask("GET", "/openapi/v1/quotes", "If-Match", `"x"`); !strings.Contains(body,
		`"code":41200,"message":"`) || !strings.Contains(body, `"message_key":"PRECONDITION_FAILED","result":{}}`) {
		t.Errorf("%s", body)
	}
}
