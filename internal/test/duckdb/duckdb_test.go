// Package duckdb reads the files of edges with DuckDB, as people who analyze them do. It is a
// separate module, because DuckDB comes as a C++ library.
package duckdb

import (
	"bufio"
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/testserver"
	"example.com/marketdata/internal/test/teststore"
	_ "github.com/duckdb/duckdb-go/v2"
	"github.com/klauspost/compress/zstd"
)

// recorded is the folder of the recorded market data, which is next to the project.
const recorded = "../../../../shared/data"

// assetsEnv is the environment variable with the number of assets of the simulated market, by
// default 20,000. With 1000000 the test takes ten minutes.
const assetsEnv = "DUCKDB_ASSETS"

// collections lists the names of the files whose rows are items of the interface.
var collections = []string{"assets", "quotes", "exchanges", "categories", "chains"}

// reader runs DuckDB on the files of an edge, whose store is on MinIO.
type reader struct {
	*testing.T
	db    *sql.DB
	url   string // of the edge
	key   string
	dir   string // where the edge's files are mounted
	files map[string]*remote
	minio *testserver.Server
}

type listed struct {
	Time  string
	Items []struct {
		Name, URL   string
		Bytes, Rows int64
	}
}

// open publishes a market to MinIO and runs an edge on it.
func open(t *testing.T, publish func(artifacts.Store)) *reader {
	t.Helper()
	server := testserver.MinIO(t)
	for _, kv := range server.Env() {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	store := must.Get(stores.Open(t.Context(), server.URL("files"), stores.Options{}))(t)
	publish(store)
	r := &reader{T: t, key: teststore.Key(t, store, 1_000_000, 1_000_000).Key, files: map[string]*remote{},
		minio: server}
	r.url = testedge.Start(t, testedge.Config{Store: server.URL("files")}).URL
	var list listed
	for deadline := time.Now().Add(time.Minute); list.Time == ""; time.Sleep(20 * time.Millisecond) {
		_ = r.get("/openapi/v1/files", &list)
		if time.Now().After(deadline) {
			t.Fatal("the edge lists no files")
		}
	}
	for _, it := range list.Items {
		r.files[it.Name] = &remote{url: r.url + it.URL, key: r.key, size: it.Bytes}
	}
	r.dir = mount(t, r.files)
	r.db = must.Get(sql.Open("duckdb", ""))(t)
	t.Cleanup(func() { r.db.Close() })
	_ = must.Get(r.db.Exec("SET TimeZone = 'UTC'"))(t)
	for _, it := range list.Items {
		if path := filepath.Join(r.dir, it.Name); filepath.Ext(path) == ".parquet" {
			if n := r.text("SELECT count(*) FROM '" + path + "'"); n != fmt.Sprint(it.Rows) {
				t.Errorf("%s has %s rows, the list says %d", it.Name, n, it.Rows)
			}
		}
	}
	return r
}

// get decodes the result of an answer.
func (r *reader) get(target string, result any) error {
	req := must.Get(http.NewRequest(http.MethodGet, r.url+target, nil))(r.T)
	req.Header.Set("X-Api-Key", r.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d, %s", target, res.StatusCode, b)
	}
	answer := struct{ Result any }{result}
	return cmp.Or(err, json.Unmarshal(b, &answer))
}

// path returns the path of a file as a SQL string.
func (r *reader) path(name string) string { return "'" + filepath.Join(r.dir, name) + "'" }

// text returns the single value of a query as text.
func (r *reader) text(query string) (s string) {
	r.Helper()
	if err := r.db.QueryRow("SELECT (" + query + ")::VARCHAR").Scan(&s); err != nil {
		r.Fatalf("%s: %v", query, err)
	}
	return s
}

// plain returns a decimal in the form that answers use.
func plain(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// global returns the totals of the market cap and of the volume.
func (r *reader) global() [2]string {
	r.Helper()
	var global struct {
		Cap    string `json:"total_market_cap"`
		Volume string `json:"total_volume_24h"`
	}
	if err := r.get("/openapi/v1/global", &global); err != nil {
		r.Fatal(err)
	}
	return [2]string{global.Cap, global.Volume}
}

// checkSums compares sums over the files with those in the interface.
func (r *reader) checkSums() {
	r.Helper()
	global := r.global()
	for column, want := range map[string]string{"market_cap": global[0], "volume": global[1]} {
		// The totals cover the active assets with a known market cap, which are those that have a
		// rank.
		got := plain(r.text("SELECT sum(" + column + ") FROM " + r.path("quotes.parquet") + " WHERE rank IS NOT NULL"))
		if got != want {
			r.Errorf("the sum of %s is %s, /global says %s", column, got, want)
		}
	}
	for _, collection := range []string{"categories", "chains"} {
		wrong := r.text(fmt.Sprintf(`SELECT count(*) FROM (
			SELECT g.id, any_value(g.market) AS market, count(*) AS coins, coalesce(sum(q.market_cap), 0) AS cap,
				coalesce(sum(q.volume), 0) AS volume
			FROM %s g JOIN %s m ON m.collection = '%s' AND m."group" = g.id LEFT JOIN %s q ON q.id = m.asset
			WHERE g.market.snapshot_time = (SELECT max(market.snapshot_time) FROM %s) GROUP BY g.id)
			WHERE coins <> market.coins_count OR cap <> market.market_cap OR volume <> market.volume_24h`,
			r.path(collection+".parquet"), r.path("members.parquet"), collection, r.path("quotes.parquet"),
			r.path(collection+".parquet")))
		if wrong != "0" {
			r.Errorf("%s of the %s are not the sums over their members", wrong, collection)
		}
	}
}

// checkRows compares the lines of each file with the interface, byte by byte. It also compares the
// rows of each Parquet file with the lines, which it reads with the types of the Parquet columns.
func (r *reader) checkRows() {
	r.Helper()
	local := r.TempDir()
	for _, collection := range append(collections, "members") {
		lines := r.download(collection+".ndjson.zst", local)
		if collection != "members" {
			r.checkItems(collection, lines)
		}
		var columns []string
		rows := must.Get(r.db.Query("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM " +
			r.path(collection+".parquet") + ")"))(r.T)
		for rows.Next() {
			var name, kind string
			if err := rows.Scan(&name, &kind); err != nil {
				r.Fatal(err)
			}
			columns = append(columns, fmt.Sprintf("'%s': '%s'", name, strings.ReplaceAll(kind, "'", "''")))
		}
		must.OK(r.T, rows.Err())
		read := fmt.Sprintf("read_json('%s', format = 'newline_delimited', columns = {%s})", lines,
			strings.Join(columns, ", "))
		for _, q := range [...]string{
			"SELECT count(*) FROM (FROM " + read + " EXCEPT FROM " + r.path(collection+".parquet") + ")",
			"SELECT count(*) FROM (FROM " + r.path(collection+".parquet") + " EXCEPT FROM " + read + ")",
			"SELECT (SELECT count(*) FROM " + read + ") - (SELECT count(*) FROM " + r.path(collection+".parquet") + ")",
		} {
			if n := r.text(q); n != "0" {
				r.Errorf("%s: %s rows differ: %s", collection, n, q)
			}
		}
	}
}

// download decompresses a file of lines into a folder.
func (r *reader) download(name, dir string) string {
	r.Helper()
	in := must.Get(os.Open(filepath.Join(r.dir, name)))(r.T)
	defer in.Close()
	z := must.Get(zstd.NewReader(bufio.NewReaderSize(in, 1<<20)))(r.T)
	defer z.Close()
	path := filepath.Join(dir, strings.TrimSuffix(name, ".zst"))
	out := must.Get(os.Create(path))(r.T)
	_ = must.Get(io.Copy(out, z))(r.T)
	must.OK(r.T, out.Close())
	return path
}

// checkItems compares lines with the items that the interface lists.
func (r *reader) checkItems(collection, path string) {
	r.Helper()
	target := map[string]string{"assets": "assets?fields=links&sort=id", "quotes": "markets?sort=id"}[collection]
	target = "/openapi/v1/" + cmp.Or(target, collection+"?sort=id") + "&size=100&page=%d"
	if collection == "assets" || collection == "quotes" {
		target = strings.Replace(target, "?&", "?", 1)
	}
	file := must.Get(os.Open(path))(r.T)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for page, more := 1, true; more; page++ {
		var list struct {
			Items []json.RawMessage
			Pages int `json:"total_page"`
		}
		if err := r.get(fmt.Sprintf(target, page), &list); err != nil {
			r.Fatal(err)
		}
		for _, item := range list.Items {
			if !lines.Scan() || !bytes.Equal(lines.Bytes(), item) {
				r.Fatalf("%s: %s, the interface has %s", path, lines.Bytes(), item)
			}
		}
		more = page < list.Pages
	}
	if lines.Scan() {
		r.Errorf("%s: %s is not in the interface", path, lines.Bytes())
	}
}

// checkBytes measures how much of a file a sum over one column reads.
func (r *reader) checkBytes() {
	r.Helper()
	quotes := r.files["quotes.parquet"]
	quotes.read.Store(0)
	quotes.requests.Store(0)
	r.text("SELECT sum(volume) FROM " + r.path("quotes.parquet"))
	share := 100 * float64(quotes.read.Load()) / float64(quotes.size)
	r.Logf("the sum of one column reads %.1f %% of %d bytes, in %d requests", share, quotes.size, quotes.requests.Load())
	if share > 15 {
		r.Errorf("the sum of one column reads %.1f %% of the file", share)
	}
}

// blocks returns the programs on the page about files: for DuckDB, ClickHouse and polars.
func (r *reader) blocks() (blocks []string) {
	r.Helper()
	page := string(must.Get(openapi.Pages())(r.T)["files.md"])
	for _, m := range regexp.MustCompile("(?s)```(?:sql|js)\n(.*?)```").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) != 3 {
		r.Fatalf("%d blocks", len(blocks))
	}
	return blocks
}

// checkPage runs the page's queries for DuckDB.
func (r *reader) checkPage() {
	r.Helper()
	for _, q := range strings.Split(strings.TrimSuffix(strings.TrimSpace(r.blocks()[0]), ";"), ";") {
		q = strings.NewReplacer("FROM '", "FROM '"+r.dir+"/", "JOIN '", "JOIN '"+r.dir+"/").Replace(q)
		if n := r.text("SELECT count(*) FROM (" + q + ")"); n != "1" && n != "10" {
			r.Errorf("%s: %s rows", q, n)
		}
	}
}

// TestFiles: the data that DuckDB reads from the files equal the data of the interface.
func TestFiles(t *testing.T) {
	for _, market := range []string{"coingecko-2025", "top1000-2026"} {
		t.Run(market, func(t *testing.T) {
			r := open(t, func(s artifacts.Store) {
				teststore.Recorded(t, s, teststore.RecordedFolder(t, recorded, market))
			})
			r.checkSums()
			r.checkRows()
			r.checkBytes()
		})
	}
	t.Run("simulated", func(t *testing.T) {
		n := cmp.Or(os.Getenv(assetsEnv), "20000")
		at := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
		r := open(t, func(s artifacts.Store) {
			teststore.Simulate(t, s, "?assets="+n, at.Add(-10*time.Minute), at)
		})
		r.checkSums()
		r.checkRows()
		r.checkBytes()
		r.checkPage()
		r.checkPrograms()
		prices := r.text("SELECT count(DISTINCT time) || ' ' || min(time) FROM " + r.path("prices/2026-11-21.parquet"))
		if prices != "1 2026-11-21 23:50:00+00" {
			t.Errorf("prices of %s", prices)
		}
	})
}
