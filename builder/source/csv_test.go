package source

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

// writeCSV creates a folder with the given files, which are pairs of a name and the file's
// contents, and opens it as a source.
func writeCSV(t *testing.T, files ...string) (dir string, src Source) {
	t.Helper()
	dir = t.TempDir()
	for i := 0; i < len(files); i += 2 {
		ok(t, os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600))
	}
	src = must.Get(Open(t.Context(), "csv:"+dir, nil))(t)
	return dir, src
}

// TestCSV checks that a folder of CSV files and a folder of NDJSON files give the same feed.
func TestCSV(t *testing.T) {
	dir, src := writeCSV(t, "assets.csv", "\ufeffname,key,id,symbol,slug,explorers,active,,other,,platforms.solana,platforms.Two Words\r\n"+
		`"A ""n"", <&>\",a,7,S,s,x|https://y.example/?a=b,FALSE,,,,So1,x1`+"\r\n\r\n  \r\n"+
		`Ä,b,,B,t,,t,1,2,3,,`,
		"quotes.csv", "key,price,market_cap,volume,max_supply\nb,1.50,2e3,,21\na,0.000000000000000001,,0.1,\n",
		"exchanges.csv", "key,name,slug,market.volume_24h,links.website,fees.taker,market.markets_count,links.chat,market.data_time\n"+
			"e,E,s,12345678901234567890.12345678,w,0.2,4,c,2026-01-02T03:04:05Z\nf,F,s,,,,,,\n",
		"categories.csv", "key,name,slug,status,members\nk,K,s,disabled,b|a|nobody\n",
		"chains.csv", "key,name,slug,evm_chain_id,native\nh,H,s,1,a\n",
		"rates.csv", "code,usd,asset,unit\neur,1.08,,€\nbtc,,b,\n",
	)
	moment := time.Date(2026, 1, 31, 12, 0, 0, 5, time.UTC)
	for name, at := range map[string]time.Time{
		"assets": moment.Add(-time.Hour), "quotes": moment, "exchanges": moment.Add(-2 * time.Hour), "categories": {},
		"chains": {}, "rates": {},
	} {
		if at.IsZero() {
			at = time.Unix(0, 0)
		}
		ok(t, os.Chtimes(filepath.Join(dir, name+".csv"), at, at))
	}
	files := must.Get(src.Files(t.Context(), time.Time{}))(t)
	got, report := mustRead(t, files, ReadOptions{})
	want, wantReport := mustRead(t, FS(testFeed(InfoFile, `{"format":1,"database":"csv","time":"2026-01-31T12:00:00Z"}`,
		AssetsFile, `{"key":"a","id":7,"name":"A \"n\", <&>\\","symbol":"S","slug":"s","explorers":["x","https://y.example/?a=b"],"active":false,"platforms":{"solana":"So1","Two Words":"x1"}}
{"key":"b","name":"Ä","symbol":"B","slug":"t"}`,
		QuotesFile, `{"key":"b","price":"1.50","market_cap":"2e3","max_supply":"21"}
{"key":"a","price":"0.000000000000000001","volume":"0.1"}`,
		ExchangesFile, `{"key":"e","name":"E","slug":"s","links":{"website":"w","chat":"c"},"fees":{"taker":"0.2"},"market":{"volume_24h":"12345678901234567890.12345678","markets_count":4,"data_time":"2026-01-02T03:04:05Z"}}
{"key":"f","name":"F","slug":"s"}`,
		CategoriesFile, `{"key":"k","name":"K","slug":"s","status":"disabled","members":["b","a","nobody"]}`,
		ChainsFile, `{"key":"h","name":"H","slug":"s","evm_chain_id":1,"native":"a"}`,
		RatesFile, `{"code":"eur","usd":"1.08","unit":"€"}
{"code":"btc","asset":"b"}`,
	)), ReadOptions{})
	if len(want.Rates) != 2 {
		t.Errorf("rates %+v", want.Rates)
	}
	same(t, *got, *want)
	for i, f := range wantReport.Files {
		csv := report.Files[i]
		if csv.Rows != f.Rows || csv.Accepted != f.Accepted || csv.Shown != csvName(f.Name) {
			t.Errorf("%+v, want %+v", csv, f)
		}
	}
	if w := report.file(CategoriesFile).Warnings; report.UnknownMembers != 1 || len(w) != 1 || w[0].String() !=
		`categories.csv:2: key "k": members: no asset has the key "nobody"` {
		t.Errorf("%d unknown members, %v", report.UnknownMembers, w)
	}
	if w := report.file(AssetsFile).Warnings; len(w) != 2 || w[0].String() !=
		"assets.csv:1: other: unknown column, ignored" || !strings.HasPrefix(w[1].String(),
		"assets.csv:5: the last line has no line ending: ") {
		t.Errorf("columns: %v", w)
	}

	// If there is a feed.json, it is used instead of the files' modification times.
	ok(t, os.WriteFile(filepath.Join(dir, InfoFile), []byte(testInfo), 0o600))
	if got, _ := mustRead(t, files, ReadOptions{}); got.Database != "db" {
		t.Errorf("database %s", got.Database)
	}
}

// TestCSVBadRows checks that each bad row is set aside with its line number, and that no other row
// is.
func TestCSVBadRows(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	_, src := writeCSV(t, "assets.csv", "key,id,name,symbol,slug,active\n"+"a,,A,A,a,\n"+
		"b,,B,B,b\n"+ // 3
		`c,,"C,C,c,`+"\n"+ // 4
		"d,,D,D,d,\n"+
		`e,,E"E,E,e,`+"\n"+ // 6
		"\n"+
		"f,,F\xff,F,f,\n"+ // 8
		"g,,"+long+",G,g,\n"+ // 9
		"h,07,H,H,h,\n"+ // 10
		"i,0,I,I,i,\n"+ // 11
		"j,,J,,j,\n"+ // 12
		"k,,K,K,k,\n"+
		"l,,L,L,l,,")
	files := must.Get(src.Files(t.Context(), time.Time{}))(t)
	feed, report := mustRead(t, files, ReadOptions{})
	var keys []string
	for _, a := range feed.Assets {
		keys = append(keys, a.Key)
	}
	if strings.Join(keys, "") != "adk" {
		t.Errorf("accepts %q", keys)
	}
	wants := []string{
		`assets.csv:3: the row has 5 cells, and the first line names 6 columns`,
		`assets.csv:4: byte 11: a quoted cell has no end`,
		`assets.csv:6: byte 5: a quote in a cell`,
		`assets.csv:8: the line is not valid UTF-8`,
		`assets.csv:9: the line is longer than 1048576 bytes`,
		`assets.csv:10: key "h": id: want an integer`,
		`assets.csv:11: key "i": id: want an integer`,
		`assets.csv:12: key "j": symbol: empty`,
		`assets.csv:14: the row has 7 cells`,
	}
	for i, r := range report.file(AssetsFile).Rejections {
		if i >= len(wants) || !strings.HasPrefix(r.String(), wants[i]) {
			t.Errorf("%s", r)
		}
	}
	if n := report.file(AssetsFile).Rejected; n != len(wants) {
		t.Errorf("%d rows set aside", n)
	}
}

// TestCSVUnended checks that the last row is used, with a warning, if the file has no line ending
// after it. There is no warning if that row cannot be used anyway.
func TestCSVUnended(t *testing.T) {
	for quotes, warned := range map[string]int{
		"key,price\na,12.5\n": 0, "key,price\na,12.5\r\n": 0, "key,price\na,1": 1, "key,price\na,1\n\n ": 0,
		"key,price\na,1\nb": 0, "key,price": 0, "key,price\na,1\na,12": 0,
	} {
		_, src := writeCSV(t, "assets.csv", "key,name,symbol,slug\na,A,A,a\n", "quotes.csv", quotes)
		_, report := mustRead(t, must.Get(src.Files(t.Context(), time.Time{}))(t), ReadOptions{})
		w := report.file(QuotesFile)
		if w.Warned != warned || warned > 0 && w.Warnings[0].Line != 2 {
			t.Errorf("%q: %+v", quotes, w)
		}
	}
}

// TestCSVWithoutAFeed checks that invalid tables and paths are errors.
func TestCSVWithoutAFeed(t *testing.T) {
	for header, want := range map[string]string{
		"":                              "assets.csv: empty",
		"id;key;name":                   `no column is named key; the columns are "id;key;name"`,
		"a,b,x,1":                       "no column is named key",
		"key,name,name":                 `"name" gives a field for the second time`,
		"key,links.chat,links":          `"links.chat" gives a field for the second time`,
		`key,"name`:                     "line 1, the names of the columns: byte 10",
		strings.Repeat("key,", 1001):    "1002 columns",
		strings.Repeat("k", MaxLine+1):  "longer",
		"key,\xff":                      "not valid UTF-8",
		"key,name,slug\n\x00\x00,\xff,": "",
		"k\x00e\x00y\x00":               "it looks like UTF-16; save it as UTF-8",
	} {
		_, src := writeCSV(t, "assets.csv", header)
		files := must.Get(src.Files(t.Context(), time.Time{}))(t)
		_, _, err := Read(t.Context(), files, ReadOptions{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: %v, want %s", header, err, want)
		}
	}
	_, src := writeCSV(t, AssetsFile, "{}")
	if _, err := src.Files(t.Context(), time.Time{}); err == nil ||
		!strings.Contains(err.Error(), "there is no assets.csv (a folder of NDJSON files is feed:PATH)") {
		t.Errorf("without assets.csv: %v", err)
	}

	// A path must lead to a folder of CSV files. The errors mention CSV.
	file := filepath.Join(t.TempDir(), "assets.csv")
	for _, path := range []string{file, filepath.Dir(file) + "/none", "/dev/null"} {
		if path == file {
			ok(t, os.WriteFile(path, []byte("key\n"), 0o600))
		}
		src := must.Get(Open(t.Context(), "csv:"+path, nil))(t)
		if _, err := src.Files(t.Context(), time.Time{}); err == nil ||
			!strings.HasPrefix(err.Error(), "csv:"+path) || strings.Contains(err.Error(), "feed") ||
			path == file && !strings.HasSuffix(err.Error(), filepath.Dir(file)) {
			t.Errorf("%s: %v", path, err)
		}
	}

	// A file that is changed while it is read is an error, too.
	dir, src := writeCSV(t, "assets.csv", "key\na\n")
	files := must.Get(src.Files(t.Context(), time.Time{}))(t)
	f := must.Get(files.Open(t.Context(), AssetsFile))(t)
	defer f.Close()
	ok(t, os.WriteFile(filepath.Join(dir, "assets.csv"), []byte("key\na\nb"), 0o600))
	if _, err := io.ReadAll(f); !errors.Is(err, ErrReplaced) {
		t.Errorf("written to: %v", err)
	}
	if _, err := files.Open(t.Context(), ChainsFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("chains: %v", err)
	}
}

// TestCSVWithoutPrices checks that one error names the missing column, instead of one error for
// each row.
func TestCSVWithoutPrices(t *testing.T) {
	_, err := NewTable(QuotesFile, []string{"key", "preis"})
	if err == nil || !strings.HasPrefix(err.Error(), `no column is named price; the columns are "key, preis"`) {
		t.Errorf("%v", err)
	}
}
