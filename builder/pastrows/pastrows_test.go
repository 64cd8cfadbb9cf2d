package pastrows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/must"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// drawn is a random row. Text is its price as written in the file.
type drawn struct {
	Key  int
	Unix int64
	Text string
}

// TestMoments checks that each asset gets, for each ten minutes, the row with the earliest time, or
// the first of several with that time, whatever the order of the rows, the kind of file, and the
// numbers of files and of sorted pieces.
func TestMoments(t *testing.T) {
	was := chunkRows
	defer func() { chunkRows = was }()
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) drawn {
			return drawn{rapid.IntRange(1, 5).Draw(t, "key"), int64(rapid.IntRange(0, 3000).Draw(t, "time")) - 1000,
				fmt.Sprint(rapid.IntRange(0, 1<<40).Draw(t, "price"))}
		}), 0, 60).Draw(rt, "rows")
		chunkRows = rapid.IntRange(1, 70).Draw(rt, "chunk")
		dir := must.Get(os.MkdirTemp("", "pastrows-*"))(rt)
		defer os.RemoveAll(dir)
		var names []string
		for i, some := range slices.Collect(slices.Chunk(rows, 25)) {
			kind := rapid.SampledFrom([]string{".csv", ".NDJSON", ".parquet"}).Draw(rt, "kind")
			name := filepath.Join(dir, fmt.Sprint(i, kind))
			names = append(names, name)
			must.OK(rt, os.WriteFile(name, fileOf(rt, name, some), 0o600))
		}
		want := map[string]string{}
		earliest := map[string]int64{}
		for _, r := range rows {
			mark := r.Unix - ((r.Unix%600)+600)%600
			at := fmt.Sprint(mark, " ", r.Key)
			if before, had := earliest[at]; !had || r.Unix < before {
				earliest[at], want[at] = r.Unix, r.Text
			}
		}
		got, last := map[string]string{}, int64(-1<<40)
		read := readAll(rt, dir, names)
		for m, err := range read.Moments(context.Background()) {
			must.OK(rt, err)
			if m.Time.Unix() <= last {
				rt.Fatalf("%v comes behind %v", m.Time, time.Unix(last, 0))
			}
			last = m.Time.Unix()
			for i, f := range m.Figures {
				if i > 0 && m.Figures[i-1].ID >= f.ID {
					rt.Fatalf("asset %d comes behind %d", f.ID, m.Figures[i-1].ID)
				}
				got[fmt.Sprint(last, " ", f.ID)] = string(market.AppendDecimal(nil, f.Price, market.PriceDecimals))
			}
		}
		r := &read.Report
		if !reflect.DeepEqual(got, want) || r.Rows != len(rows) || r.Repeated != len(rows)-len(want) {
			rt.Fatalf("%v, want %v; %+v", got, want, r)
		}
	})
}

func readAll(tb rapid.TB, dir string, names []string) *Rows {
	tb.Helper()
	return must.Get(Read(context.Background(), names, Options{Dir: dir, Newest: time.Now(),
		Known: func(key string) (id uint64, ok bool) {
			_, err := fmt.Sscanf(key, "k%d", &id)
			return id, err == nil
		}}))(tb)
}

func fileOf(tb rapid.TB, name string, rows []drawn) []byte {
	tb.Helper()
	var b bytes.Buffer
	switch filepath.Ext(name) {
	case ".csv":
		b.WriteString("\ufeffprice;note;KEY;time\r\n")
		for _, r := range rows {
			fmt.Fprintf(&b, "%s;\"a\"\"b;\";k%d; %d \r\n", r.Text, r.Key, r.Unix)
		}
	case ".NDJSON":
		for _, r := range rows {
			line := must.Get(json.Marshal(map[string]any{"key": fmt.Sprint("k", r.Key), "price": json.Number(r.Text),
				"time": time.Unix(r.Unix, 0).UTC().Format(time.RFC3339), "volume": nil, "x": []int{1}}))(tb)
			b.Write(append(line, "\n\n"...))
		}
	default:
		type row struct {
			Price float64   `parquet:"price"`
			Key   string    `parquet:"key,dict"`
			Time  time.Time `parquet:"time,timestamp(microsecond)"`
		}
		w := parquet.NewGenericWriter[row](&b)
		for _, r := range rows {
			var price float64
			fmt.Sscan(r.Text, &price)
			must.Get(w.Write([]row{{price, fmt.Sprint("k", r.Key), time.Unix(r.Unix, 0)}}))(tb)
		}
		must.OK(tb, w.Close())
	}
	return b.Bytes()
}

// TestParquetTypes checks that a value of any supported type is read like the same value as text.
func TestParquetTypes(t *testing.T) {
	type row struct {
		Key    string   `parquet:"key"`
		Time   int32    `parquet:"time,date"`
		Price  [16]byte `parquet:"price,decimal(18:38)"`
		Cap    int64    `parquet:"market_cap,decimal(2:18)"`
		Volume *float64 `parquet:"volume,optional"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b)
	half := 0.1
	minus := [16]byte{}
	for i := range minus {
		minus[i] = 0xff
	}
	must.Get(w.Write([]row{{"k1", 20000, [16]byte{15: 7}, 12345, nil}, {"k2", 20000, [16]byte{14: 1}, 0, &half},
		{"k3", 20000, minus, 0, nil}}))(t)
	must.OK(t, w.Close())
	dir := t.TempDir()
	name := filepath.Join(dir, "a.parquet")
	must.OK(t, os.WriteFile(name, b.Bytes(), 0o600))
	rows := readAll(t, dir, []string{name})
	for m, err := range rows.Moments(t.Context()) {
		must.OK(t, err)
		f := m.Figures
		if m.Time != time.Date(2024, 10, 4, 0, 0, 0, 0, time.UTC) || len(f) != 2 || f[0].Price.Lo != 7 ||
			f[0].HasVolume || f[0].MarketCap.Lo != 12345_000000 || f[1].Price.Lo != 256 ||
			f[1].Volume.Lo != 10_000_000 || f[1].Line != 2 {
			t.Errorf("%v: %+v", m.Time, f)
		}
	}
	if p := rows.Report.Problems; len(p) != 1 || p[0].Line != 3 || p[0].Reason != `price "-1e-18": negative` {
		t.Errorf("problems %+v", p)
	}
}

// TestUnreadable checks that a file whose content does not match its extension is an error that
// names the file.
func TestUnreadable(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"empty.csv":     {"", "want a first line with the names of the columns"},
		"utf16.csv":     {"k\x00e\x00y\x00,\x00", "save it as UTF-8"},
		"columns.csv":   {"id,date,price\n", `no column "key": it has id, date, price`},
		"a.parquet":     {"PAR1 or not", "parquet"},
		"a.txt":         {"x", "want a .csv"},
		"long.ndjson":   {`{"key":"` + strings.Repeat("k", maxLine) + `"}`, "line 1 is longer"},
		"utf16.ndjson":  {"{\x00", "save it as UTF-8"},
		"semicolon.csv": {"key;time\n", `no column "price"`},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(file, []byte(c.text), 0o600))
		_, err := Read(t.Context(), []string{file}, Options{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	_, err := Read(t.Context(), []string{t.TempDir()}, Options{})
	if err == nil || !strings.Contains(err.Error(), "no feed") {
		t.Errorf("an empty folder: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "a.csv")
	must.OK(t, os.WriteFile(file, []byte("key,time,price\n"), 0o600))
	if _, err := Read(ended, []string{file}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestParseTime checks the forms that spreadsheets and programs write.
func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-31": "2026-01-31T00:00:00Z", "2026-01-31 12:30": "2026-01-31T12:30:00Z",
		"2026-01-31T12:30:15": "2026-01-31T12:30:15Z", "2026-01-31 12:30:15": "2026-01-31T12:30:15Z",
		"2026-01-31T12:30:15+02:00": "2026-01-31T10:30:15Z", "2026-01-31 12:30:15+00:00": "2026-01-31T12:30:15Z",
		"2026-01-31T12:30Z": "2026-01-31T12:30:00Z", "2026-01-31 12:30+02:00": "2026-01-31T10:30:00Z",
		"1767744000": "2026-01-07T00:00:00Z", "-1": "1969-12-31T23:59:59Z",
	} {
		if got, err := ParseTime([]byte(text)); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "31.01.2026", "1/31/2026", "2026-13-01", "20260131", "1767744000000",
		"9999-01-01", "12:30"} {
		if got, err := ParseTime([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// FuzzRead checks that no file makes Read crash, and that the report counts each row once.
func FuzzRead(f *testing.F) {
	f.Add("a.csv", []byte("key,time,price\nk1,2026-01-31,1\n\"k2,2026,\n"))
	f.Add("a.ndjson", []byte(`{"key":"k1","time":1767744000,"price":"1e-5","volume":[]}`+"\n{}\nnull\n"))
	f.Add("a.parquet", []byte("PAR1"))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		dir := t.TempDir()
		file := filepath.Join(dir, "rows"+filepath.Ext(filepath.Base(name)))
		if strings.ContainsAny(file, "\x00") || os.WriteFile(file, text, 0o600) != nil {
			t.Skip("no name of a file")
		}
		rows, err := Read(t.Context(), []string{file}, Options{Dir: dir, Newest: time.Now(),
			Known: func(key string) (uint64, bool) { return 1, key == "k1" }})
		if err != nil {
			return
		}
		n := 0
		for m, err := range rows.Moments(t.Context()) {
			must.OK(t, err)
			n += len(m.Figures)
		}
		if r := &rows.Report; n+r.Unusable+r.Unknown+r.Repeated+r.Newer != r.Rows {
			t.Errorf("%d rows are given, of %+v", n, r)
		}
	})
}
