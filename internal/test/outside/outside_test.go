package outside_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/outside"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

const (
	quotes  = "/openapi/v1/quotes"
	markets = "/api/v3/coins/markets?vs_currency=usd" // long enough for a coding
	file    = "/at/20261121T102000Z/openapi/v1/files/quotes.parquet"
	prices  = "/api/v3/simple/price?vs_currencies=usd&ids="
	tokens  = "/api/v3/simple/token_price/"
)

// requests lists requests that programs send. The first request for a report comes from it; the
// requests after it, without a report, are of the same kind. In want, "Name: value" is a header of
// the answer, "Name:" is a header that the answer must not have, "open" and "closed" tell what
// happens to the connection, and anything else must be in the body.
var requests = []struct {
	report, request string
	status          int
	want            []string
}{
	// RFC 9112, 3.2.2: a server accepts the absolute form, which clients send to proxies.
	{"honojs/node-server 228", "GET http://edge.test" + quotes + "?id=1 HTTP/1.1", 200, []string{`"id":1,`}},
	{"xrootd/xrootd 1675", "HEAD http://edge.test" + file + " HTTP/1.1", 200, []string{"Accept-Ranges: bytes"}},
	{"", "GET http://edge.test" + prices + "bitcoin HTTP/1.1", 200, []string{`{"bitcoin":{"usd":90}}`}},
	// An HTTP/1.0 client waits for the end of the connection, unless the answer says keep-alive.
	{"hyperium/hyper 1614", "GET " + quotes + " HTTP/1.0\nConnection: Keep-Alive", 200,
		[]string{"Connection: keep-alive", "open"}},
	{"Kludex/starlette 128", "GET " + quotes + " HTTP/1.0\nHost: edge.test", 200,
		[]string{"Connection: close", "closed"}},
	{"", "HEAD " + file + " HTTP/1.0", 200, []string{"Connection: close", "closed"}},
	// RFC 9110, 7.8: a server may ignore Upgrade.
	{"h2o/h2o 418", "GET " + quotes + "?id=1 HTTP/1.1\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\n" +
		"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA", 200, []string{`"id":1,`, "Upgrade:", "open"}},
	{"", "GET " + quotes + "?id=1 HTTP/1.1\nConnection: Upgrade\nUpgrade: TLS/1.0, websocket", 200,
		[]string{`"id":1,`, "open"}},
	{"", "GET " + quotes + "?id=1 HTTP/1.1\nConnection: TE\nTE: trailers", 200, []string{`"id":1,`, "open"}},
	// Java's client states explicitly that a GET has no body.
	{"CommunitySolidServer/CommunitySolidServer 498", "GET " + quotes + "?id=1 HTTP/1.1\nContent-Length: 0", 200,
		[]string{`"id":1,`, "open"}},
	{"", "GET " + prices + "bitcoin HTTP/1.1\nContent-Length: 0\nContent-Type: application/json", 200, nil},
	{"", "HEAD " + file + " HTTP/1.1\nContent-Length: 00", 200, []string{"open"}},
	// These have a zone of an IPv6 address in Host. (RFC 6874, 4, requires clients to remove it,
	// but they do not.)
	{"aio-libs/aiohttp 13492", "GET " + quotes + " HTTP/1.1\nHost: [fe80::1%25eth0]:8080", 200, nil},
	{"", "GET " + quotes + " HTTP/1.1\nHost: [fe80::1%eth0]", 200, nil},
	{"wg/wrk 34", "GET " + quotes + " HTTP/1.1\nHost: ::1", 200, nil},
	// RFC 9110, 8.4.1: names of codings ignore case, and x-gzip is gzip.
	{"jquery/codeorigin.jquery.com 43", "GET " + markets + " HTTP/1.1\nAccept-Encoding: GZIP", 200,
		[]string{"Content-Encoding: gzip"}},
	{"oven-sh/bun 31521", "GET " + markets + " HTTP/1.1\nAccept-Encoding: X-Gzip", 200,
		[]string{"Content-Encoding: gzip"}},
	{"", "GET " + markets + " HTTP/1.1\nAccept-Encoding: Br;Q=0.5, x-gzip;q=0", 200, []string{"Content-Encoding: br"}},
	// The length of a file is the length of its unencoded bytes, and the answer to HEAD says that
	// ranges are accepted (RFC 9110, 14.2 and 14.3).
	{"sundogbio/szi-tile-source 2", "HEAD " + file + " HTTP/1.1\nAccept-Encoding: gzip, deflate, br, zstd", 200,
		[]string{"Content-Encoding:", "Accept-Ranges: bytes"}},
	{"rustfs/rustfs 2786", "HEAD " + file + " HTTP/1.1", 200, []string{"Accept-Ranges: bytes"}},
	{"duckdb/duckdb-wasm 1189", "HEAD " + file + " HTTP/1.1\nRange: bytes=0-", 200,
		[]string{"Accept-Ranges: bytes", "Content-Range:"}},
	{"recallnet/ipc 47", "GET " + file + " HTTP/1.1", 200, []string{"Content-Range:", "PAR1"}},
	// RFC 9110, 14.1.2: a suffix range that is longer than the file selects the whole file.
	{"duckdb/duckdb-httpfs 376", "GET " + file + " HTTP/1.1\nRange: bytes=-262144", 206, []string{"PAR1"}},
	{"hyparam/hyparquet 106", "GET " + file + " HTTP/1.1\nRange: bytes=0-0", 206, []string{"Content-Length: 1"}},
	{"", "GET " + file + " HTTP/1.1\nRange: bytes=-8", 206, []string{"Content-Length: 8", "PAR1"}},
	// Currencies are accepted in any letter case, and parameters that an endpoint does not have are
	// ignored.
	{"yegor-pelykh/coingecko_api 2", "GET /api/v3/global?vs_currency=gbp HTTP/1.1", 200, []string{`"usd":2700`}},
	{"", "GET /api/v3/coins/markets?vs_currency=EUR&locale=xx HTTP/1.1", 200, []string{`"current_price":72,`}},
	{"", "GET " + prices + "bitcoin&dex_pair_format=symbol HTTP/1.1", 200, []string{`{"bitcoin":{"usd":90}}`}},
	// An unknown change is null, never text or 0. A coin without a price has no change.
	{"coral-xyz/backpack 729", "GET /api/v3/simple/price?ids=flat&vs_currencies=eur&include_24hr_change=true HTTP/1.1",
		200, []string{`"eur_24h_change":null`}},
	{"pradel/stackspulse 148", "GET " + prices + "quiet,bitcoin HTTP/1.1", 200, []string{`"bitcoin":{"usd":90}`,
		`"quiet":{}`}},
	{"JKorf/CoinGecko.Net 3", "GET /api/v3/coins/quiet HTTP/1.1", 200, []string{`"market_cap_rank":null`}},
	// Letter case matters in the addresses of Solana, but not in those of Ethereum, which are in
	// lower case as keys of the answer.
	{"dfinity/oisy-wallet 6251", "GET " + tokens + "solana?vs_currencies=usd&contract_addresses=" + outside.Mint +
		" HTTP/1.1", 200, []string{`{"` + outside.Mint + `":{"usd":100}}`}},
	{"MetaMask/metamask-extension 6526", "GET " + tokens + "ethereum?vs_currencies=usd&contract_addresses=" +
		outside.Tether + " HTTP/1.1", 200, []string{`{"` + strings.ToLower(outside.Tether) + `":{"usd":100}}`}},
	{"", "GET " + tokens + "solana?vs_currencies=usd&contract_addresses=" + strings.ToLower(outside.Mint) +
		" HTTP/1.1", 200, []string{"Content-Length: 2"}},
	// Python and C# write booleans with a capital letter.
	{"man-c/pycoingecko 35", "GET " + markets + "&sparkline=True HTTP/1.1", 200, nil},
	{"tosunthex/CoinGecko 6", "GET /api/v3/coins/list?include_platform=False HTTP/1.1", 200, nil},
	{"", "GET " + prices + "bitcoin&include_24hr_vol=TRUE HTTP/1.1", 200, []string{`{"usd":90`}},
}

// TestRequests sends each request of the table to an edge with the small world.
func TestRequests(t *testing.T) {
	e := outside.Start(t)
	for _, c := range requests {
		a := outside.Send(t, e, c.request)
		if a.StatusCode != c.status {
			t.Errorf("%s: %q: %d %.300q, want %d", c.report, c.request, a.StatusCode, a.Body, c.status)
			continue
		}
		for _, want := range c.want {
			name, value, header := strings.Cut(want, ":")
			value = strings.TrimSpace(value)
			switch header = header && regexp.MustCompile(`^[A-Z][A-Za-z-]+$`).MatchString(name); {
			case want == "open" || want == "closed":
				if a.Closed != (want == "closed") {
					t.Errorf("%s: %q: the connection is not %s", c.report, c.request, want)
				}
			case header && a.Header.Get(name) != value && (name != "Connection" || a.Close != (value == "close")):
				t.Errorf("%s: %q: %s: %q, want %q", c.report, c.request, name, a.Header.Get(name), value)
			case !header && !strings.Contains(a.Body, want):
				t.Errorf("%s: %q: %.300q, want %q", c.report, c.request, a.Body, want)
			}
		}
	}
	whole := outside.Send(t, e, "GET "+file+" HTTP/1.1")
	for _, coding := range []string{"identity", "gzip", "br, zstd"} { // sundogbio/szi-tile-source 2
		if a := outside.Send(t, e, "HEAD "+file+" HTTP/1.1\nAccept-Encoding: "+coding); a.ContentLength !=
			int64(len(whole.Body)) {
			t.Errorf("HEAD with %s: %d bytes, and GET has %d", coding, a.ContentLength, len(whole.Body))
		}
	}
}

// TestVary: all answers for a URL, including 304s and answers to HEAD, have the same Vary header. A
// cache that refreshes a stored answer with a 304 would lose a header (npm/cli 3656), and nginx
// keeps only one variant for a URL whose Vary changes (http-tests/cache-tests 54).
func TestVary(t *testing.T) {
	e := outside.Start(t)
	for _, path := range []string{quotes, markets, quotes + "?id=9", "/openapi/v1/global"} {
		first := outside.Send(t, e, "GET "+path+" HTTP/1.1")
		want := strings.Join(first.Header.Values("Vary"), ", ")
		for _, request := range []string{"HEAD " + path + " HTTP/1.1",
			"GET " + path + " HTTP/1.1\nAccept-Encoding: gzip", "GET " + path + " HTTP/1.1\nOrigin: https://a.example",
			"GET " + path + " HTTP/1.1\nX-Snapshot-Time: 2026-11-21T10:10:00Z",
			"GET " + path + " HTTP/1.1\nIf-None-Match: " + first.Header.Get("ETag"),
			"GET " + path + " HTTP/1.1\nAccept-Encoding: br\nIf-None-Match: *"} {
			a := outside.Send(t, e, request)
			got := strings.Join(a.Header.Values("Vary"), ", ")
			if got != want || !strings.Contains(got, "Accept-Encoding") {
				t.Errorf("%q: %d, Vary: %s, want %s", request, a.StatusCode, got, want)
			}
		}
	}
}

// TestRateLimit: programs distinguish a 429 from other refusals by words of its message, which
// public logs show (btc-ticker/btc-ticker 8, Gituser143/cryptgo 30; Blockbook waits and retries
// only if it finds them). They read Retry-After as whole seconds (urllib3/urllib3 2861).
func TestRateLimit(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, outside.World, outside.First)
	key := teststore.Key(t, store, 1, 1).Key
	e := testedge.Start(t, testedge.Config{Reader: store, Coins: true, CacheDir: t.TempDir()})
	outside.Await(t, e)
	for _, path := range []string{quotes, prices + "bitcoin", markets} {
		request := "GET " + path + " HTTP/1.1\nX-Api-Key: " + key
		outside.Send(t, e, request)
		a := outside.Send(t, e, request)
		if a.StatusCode != http.StatusTooManyRequests || !strings.Contains(a.Body, "exceeded the rate limit") ||
			!regexp.MustCompile(`^[1-9]\d*$`).MatchString(a.Header.Get("Retry-After")) {
			t.Errorf("%s: %d %s, Retry-After: %q", path, a.StatusCode, a.Body, a.Header.Get("Retry-After"))
		}
	}
}

// TestZstdWindow: browsers refuse a frame whose window is over 8 MiB (RFC 9659; tower-rs/tower-http
// 488, nonzzz/vite-plugin-compression 93). A frame with a single segment has a window as large as
// its content.
func TestZstdWindow(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(4000, 1), outside.First)
	e := testedge.Start(t, testedge.Config{Reader: store, Coins: true, AuthOff: true, CacheDir: t.TempDir()})
	outside.Await(t, e)
	for _, path := range []string{"/api/v3/coins/list", quotes + "?size=100", "/api/v3/coins/markets?vs_currency=usd"} {
		a := outside.Send(t, e, "GET "+path+" HTTP/1.1\nAccept-Encoding: zstd")
		var h zstd.Header
		if err := h.Decode([]byte(a.Body)); err != nil || !h.HasFCS || h.SingleSegment && h.FrameContentSize > 1<<20 ||
			h.WindowSize > 1<<20 {
			t.Errorf("%s: %s, %v, %+v", path, a.Header.Get("Content-Encoding"), err, h)
		}
	}
}

// TestParquet reads the footers of all files. Decimals have the plain encoding, because DuckDB,
// Velox and ClickHouse cannot read a FIXED_LEN_BYTE_ARRAY in DELTA_BYTE_ARRAY
// (apache/parquet-testing 89). Times are adjusted to UTC, because readers refuse or shift other
// times (deephaven/deephaven-core 976, StarRocks/starrocks 73672). No row group is empty, even in a
// file without rows (ClickHouse/ClickHouse 107746). Either all columns have a column index or none
// has, because readers panic otherwise (apache/arrow-rs 8818; parquet-go in OpenFile). No column
// name contains a dot, which Spark would treat as a path (databricks/koalas 217).
func TestParquet(t *testing.T) {
	e := outside.Start(t)
	var list struct {
		Result struct{ Items []struct{ Name, URL string } }
	}
	must.OK(t, json.Unmarshal([]byte(outside.Send(t, e, "GET /openapi/v1/files HTTP/1.1").Body), &list))
	decimals, times, empty := 0, 0, 0
	for _, item := range list.Result.Items {
		if !strings.HasSuffix(item.Name, ".parquet") {
			continue
		}
		body := outside.Send(t, e, "GET "+item.URL+" HTTP/1.1").Body
		f := must.Get(parquet.OpenFile(strings.NewReader(body), int64(len(body))))(t)
		if f.NumRows() == 0 {
			empty++
		}
		for _, group := range f.Metadata().RowGroups {
			if group.NumRows == 0 {
				t.Errorf("%s: a row group without rows", item.Name)
			}
			for _, c := range group.Columns {
				if (c.ColumnIndexOffset == 0) != (group.Columns[0].ColumnIndexOffset == 0) {
					t.Errorf("%s: %v differs from the first column in having a column index", item.Name,
						c.MetaData.PathInSchema)
				}
				for _, encoding := range c.MetaData.Encoding {
					if c.MetaData.Type == format.FixedLenByteArray && encoding == format.DeltaByteArray {
						t.Errorf("%s: %v in %v", item.Name, c.MetaData.PathInSchema, encoding)
					}
				}
			}
		}
		for _, s := range f.Metadata().Schema {
			if strings.ContainsAny(s.Name, ". ") {
				t.Errorf("%s: a column is named %q", item.Name, s.Name)
			}
			switch logical := s.LogicalType.Value.(type) {
			case *format.DecimalType:
				decimals++
			case *format.TimestampType:
				times++
				if !logical.IsAdjustedToUTC {
					t.Errorf("%s: %s is not adjusted to UTC", item.Name, s.Name)
				}
			}
		}
	}
	if decimals == 0 || times == 0 || empty == 0 {
		t.Errorf("%d decimals, %d times, %d files without rows", decimals, times, empty)
	}
}
