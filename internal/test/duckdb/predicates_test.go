package duckdb

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
)

// signs returns a market of 900 assets. The prices of the first 300 rise and fall, those of the
// next 300 stay the same, and those of the last 300 fall.
func signs(at time.Time, moved bool) teststore.Rows {
	rows := teststore.Rows{}
	for i := range 900 {
		key, price := fmt.Sprintf("a%d", i), 1000
		if moved {
			price += [...]int{i%21 - 10, 0, -1 - i%9}[i/300]
		}
		rows["assets"] = append(rows["assets"], map[string]any{"key": key, "id": i + 1,
			"name": fmt.Sprintf("Asset %c%d", 'A'+i%26, i), "symbol": fmt.Sprintf("S%d", i/3), "slug": key})
		quote := map[string]any{"key": key, "price": price, "volume": i * 1000}
		if i%5 > 0 {
			quote["market_cap"] = i * 1_000_000
		}
		rows["quotes"] = append(rows["quotes"], quote)
		if i%9 > 0 {
			continue
		}
		exchange := map[string]any{"key": key, "id": i + 1, "name": "Exchange " + key, "slug": key,
			"fees": map[string]any{"maker": fmt.Sprintf("%d.5", i-450), "taker": i}}
		if i%2 > 0 {
			exchange["market"] = map[string]any{"volume_24h": i, "markets_count": i, "coins_count": 1 << 50,
				"data_time": at.Add(-time.Duration(i) * time.Minute).Format(time.RFC3339)}
		}
		rows["exchanges"] = append(rows["exchanges"], exchange)
		group := map[string]any{"key": key, "id": i + 1, "name": "Group " + key, "slug": key,
			"members": []string{key, fmt.Sprintf("a%d", i/2)}}
		rows["categories"] = append(rows["categories"], group)
		chain := map[string]any{"display_name": "Chain " + key, "evm_chain_id": int64(i) << 40}
		for name, value := range group {
			chain[name] = value
		}
		rows["chains"] = append(rows["chains"], chain)
	}
	return rows
}

// question asks a reader for the number of rows in a file that satisfy a predicate.
type question struct {
	File, Where string // Where is the predicate in SQL
	Column      string // the path of the column, joined by dots
	Op          string // =, <>, <, <=, >, >=, null or between
	Values      []any  // as text; decimals, integers and times in the reader's form
	Type        string
	want        string
}

// questions returns predicates on each column of each file. Their constants come from the data,
// from below and above all data, and from between. The expected answers come from DuckDB with its
// own table, whose statistics differ from the file's.
func (r *reader) questions() (all []question) {
	r.Helper()
	for name := range r.files {
		if filepath.Ext(name) != ".parquet" {
			continue
		}
		_ = must.Get(r.db.Exec("CREATE OR REPLACE TABLE t AS FROM " + r.path(name)))(r.T)
		rows := must.Get(r.db.Query(`SELECT column_name, column_type FROM (DESCRIBE t)`))(r.T)
		var columns [][2]string
		for rows.Next() {
			var column, kind string
			must.OK(r.T, rows.Scan(&column, &kind))
			columns = append(columns, leaves(column, kind)...)
		}
		must.OK(r.T, rows.Err())
		for _, c := range columns {
			for _, q := range r.predicates(c[0], c[1]) {
				q.File, q.want = name, r.text("SELECT count(*) FROM t WHERE "+q.Where)
				all = append(all, q)
			}
		}
	}
	return all
}

// leaves returns the names and types of a column: its own, or those of its struct's fields. It
// leaves out lists.
func leaves(column, kind string) (all [][2]string) {
	if strings.HasSuffix(kind, "[]") {
		return nil
	}
	inner, isStruct := strings.CutPrefix(kind, "STRUCT(")
	if !isStruct {
		return [][2]string{{column, kind}}
	}
	depth, start := 0, 0
	inner = strings.TrimSuffix(inner, ")")
	for i := 0; i <= len(inner); i++ {
		switch {
		case i == len(inner), inner[i] == ',' && depth == 0:
			field, of, _ := strings.Cut(strings.TrimSpace(inner[start:i]), " ")
			all = append(all, leaves(column+"."+strings.Trim(field, `"`), of)...)
			start = i + 1
		case inner[i] == '(':
			depth++
		case inner[i] == ')':
			depth--
		}
	}
	return all
}

func quotedPath(column string) string { return `"` + strings.ReplaceAll(column, ".", `"."`) + `"` }

func (r *reader) predicates(column, kind string) (all []question) {
	r.Helper()
	name := quotedPath(column)
	rows := must.Get(r.db.Query(fmt.Sprintf(`SELECT DISTINCT v::VARCHAR FROM (
		SELECT unnest([min(c), max(c), quantile_disc(c, 0.2), quantile_disc(c, 0.5), quantile_disc(c, 0.8)]) v
		FROM (SELECT %s c FROM t)) WHERE v IS NOT NULL`, name)))(r.T)
	var values []string
	for rows.Next() {
		var v string
		must.OK(r.T, rows.Scan(&v))
		values = append(values, v)
	}
	must.OK(r.T, rows.Err())
	switch {
	case kind == "VARCHAR":
		values = append(values, "", "~~")
	case strings.HasPrefix(kind, "TIMESTAMP"):
		values = append(values, "1999-01-01 00:00:00+00", "2099-01-01 00:00:00+00")
	default:
		values = append(values, "-99999999999", "0", "99999999999")
	}
	literal := func(v string) string { return "CAST('" + strings.ReplaceAll(v, "'", "''") + "' AS " + kind + ")" }
	add := func(op, where string, values ...any) {
		all = append(all, question{Column: column, Op: op, Where: where, Values: values, Type: kind})
	}
	for i, v := range values {
		for _, op := range []string{"<", "<=", "=", "<>", ">=", ">"} {
			add(op, name+" "+op+" "+literal(v), v)
		}
		low, high := v, values[(i+1)%len(values)]
		add("between", name+" BETWEEN "+literal(low)+" AND "+literal(high), low, high)
	}
	add("null", name+" IS NULL")
	return all
}

// TestPredicates: three readers that skip row groups by their statistics find the same rows as a
// full scan (parquet-go 592, arrow 42906). The files have one row group, or three with different
// signs.
func TestPredicates(t *testing.T) {
	node := t.TempDir()
	(&reader{T: t}).execute(node, nil, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund",
		"chdb@3.4.0", "hyparquet@1.33.0", "hyparquet-compressors@1.1.2")
	for _, rows := range []int{1 << 18, 300} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			folder := "file:" + t.TempDir()
			store := must.Get(stores.Open(t.Context(), folder, stores.Options{}))(t)
			at := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
			for i, at := range []time.Time{at.Add(-10 * time.Minute), at} {
				teststore.Publish(t, store, signs(at, i > 0), at, teststore.FilesOf(rows))
			}
			r := download(t, testedge.Start(t, testedge.Config{Store: folder, AuthOff: true}).URL)
			questions := r.questions()
			for _, q := range questions {
				if got := r.text("SELECT count(*) FROM " + r.path(q.File) + " WHERE " + q.Where); got != q.want {
					t.Errorf("DuckDB, %s: %s: %s rows, want %s", q.File, q.Where, got, q.want)
				}
			}
			r.askNode(node, questions)
			t.Logf("%d questions", len(questions))
			if len(questions) < 1000 {
				t.Errorf("%d questions", len(questions))
			}
		})
	}
}

// askNode sends the questions to ClickHouse and hyparquet.
func (r *reader) askNode(dir string, questions []question) {
	r.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		r.Logf("skipped: %v", err)
		return
	}
	program := must.Get(os.ReadFile("testdata/predicates.mjs"))(r.T)
	must.OK(r.T, os.WriteFile(filepath.Join(dir, "predicates.mjs"), program, 0o600))
	cmd := exec.CommandContext(r.Context(), "node", "predicates.mjs", r.dir)
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(must.Get(json.Marshal(questions))(r.T)), r.Output()
	out := must.Get(cmd.Output())(r.T)
	var answers map[string][][2]int
	if err := json.Unmarshal(out, &answers); err != nil {
		r.Fatalf("%v: %s", err, out)
	}
	for _, program := range []string{"ClickHouse", "hyparquet"} {
		if len(answers[program]) != len(questions) {
			r.Fatalf("%s answered %d of %d questions", program, len(answers[program]), len(questions))
		}
		for i, q := range questions {
			if got := answers[program][i]; got[0] != got[1] {
				r.Errorf("%s, %s: %s: %d rows, a scan finds %d", program, q.File, q.Where, got[0], got[1])
			}
		}
	}
}

// download copies the files of an edge that requires no API key to a folder.
func download(t *testing.T, url string) *reader {
	t.Helper()
	r := &reader{T: t, url: url, dir: t.TempDir(), files: map[string]*remote{}}
	var list listed
	for deadline := time.Now().Add(time.Minute); list.Time == ""; time.Sleep(20 * time.Millisecond) {
		_ = r.get("/openapi/v1/files", &list)
		if time.Now().After(deadline) {
			t.Fatal("the edge lists no files")
		}
	}
	for _, it := range list.Items {
		answer := must.Get(http.Get(url + it.URL))(t)
		path := filepath.Join(r.dir, it.Name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.OK(t, os.WriteFile(path, must.Get(io.ReadAll(answer.Body))(t), 0o600))
		answer.Body.Close()
		r.files[it.Name] = nil
	}
	r.db = must.Get(sql.Open("duckdb", ""))(t)
	t.Cleanup(func() { r.db.Close() })
	_ = must.Get(r.db.Exec("SET TimeZone = 'UTC'"))(t)
	return r
}
