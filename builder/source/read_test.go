package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/test/must"
)

const testInfo = `{"format":1,"database":"db","time":"2026-01-31T12:00:00Z"}`

// testFeed returns a feed with three assets and the given files, which are pairs of a name and the
// file's contents.
func testFeed(files ...string) fstest.MapFS {
	fsys := fstest.MapFS{
		InfoFile: {Data: []byte(testInfo)},
		AssetsFile: {Data: []byte(`{"key":"a","name":"A","symbol":"AA","slug":"sa"}
{"key":"b","name":"B","symbol":"BB","slug":"sb"}
{"key":"c","name":"C","symbol":"CC","slug":"sc","active":false}
`)},
	}
	for i := 0; i < len(files); i += 2 {
		fsys[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return fsys
}

func mustRead(t testing.TB, files Files, opts ReadOptions) (*market.Feed, *Report) {
	t.Helper()
	feed, report, err := Read(context.Background(), files, opts)
	ok(t, err)
	for _, f := range report.Files {
		if f.Rows != f.Accepted+f.Rejected {
			t.Errorf("%s: %d rows are not %d and %d", f.Name, f.Rows, f.Accepted, f.Rejected)
		}
		if len(f.Rejections) != min(f.Rejected, maxRejections) {
			t.Errorf("%s: lists %d rejections of %d", f.Name, len(f.Rejections), f.Rejected)
		}
	}
	return feed, report
}

func (r *Report) file(name string) *FileReport {
	return &r.Files[slices.IndexFunc(r.Files, func(f FileReport) bool { return f.Name == name })]
}

func u(lo uint64) market.U128 { return market.U128{Lo: lo} }

// decimal returns digits × 10^decimals, the internal form of a whole number with this many
// decimals.
func decimal(t testing.TB, digits string, decimals int) market.U128 {
	t.Helper()
	n, ok := new(big.Int).SetString(digits+strings.Repeat("0", decimals), 10)
	if !ok || n.BitLen() > 128 {
		t.Fatalf("%s is too long", digits)
	}
	return market.U128{
		Hi: new(big.Int).Rsh(n, 64).Uint64(), Lo: new(big.Int).And(n, new(big.Int).SetUint64(1<<64-1)).Uint64(),
	}
}

// linesOf returns the lines of a file in testdata, except blank lines and comments.
func linesOf(t *testing.T, name string) (lines []string) {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	for line := range strings.SplitSeq(string(b), "\n") {
		if line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// checkRow reads a file that consists of one row, and checks the outcome. rows.txt describes
// outcomes.
func checkRow(t *testing.T, file, row, outcome string) {
	t.Helper()
	_, report := mustRead(t, FS(testFeed(file, row)), ReadOptions{})
	got := report.file(file)
	said := got.Rejections
	reason, dropped := strings.CutPrefix(outcome, "dropped: ")
	if dropped {
		said = got.Warnings
	}
	accepted := dropped || outcome == "accepted"
	if got.Rows != 1 || accepted != (got.Accepted == 1) ||
		outcome != "accepted" && (len(said) != 1 || !strings.HasPrefix(said[0].Reason, reason)) {
		t.Errorf("%s: %.100s: %+v, want %s", file, row, got, outcome)
	}
}

// TestRows reads each row of rows.txt as the only row of its file, and also rows that a text file
// cannot show. FuzzObject checks the JSON syntax against encoding/json.
func TestRows(t *testing.T) {
	file, base, reason := "", "", ""
	for _, line := range linesOf(t, "rows.txt") {
		switch text := strings.TrimLeft(line, " "); len(line) - len(text) {
		case 0:
			file, base, _ = strings.Cut(line, " ")
		case 2:
			reason = text
		default:
			row, whole := strings.CutPrefix(text, "=")
			if !whole {
				row = "{" + base + "," + row + "}"
			}
			checkRow(t, file, row, reason)
		}
	}
	const asset = `"key":"k","name":"n","symbol":"s","slug":"u"`
	for reason, rows := range map[string][]string{
		"not JSON": {
			"{" + asset + "}\x00", "\u00a0{" + asset + "}", "{" + asset + ",\"x\":\"\t\"}",
			"{" + asset + ",\"x\":\"\x00\"}",
			"{" + asset + `,"x":` + strings.Repeat(`[`, 400000) + strings.Repeat(`]`, 400000) + "}",
			"{" + asset + `,"x":` + strings.Repeat(`[{"":`, 100000) + "1}",
		},
		"not JSON: not valid UTF-8": {
			"{" + asset + ",\"x\":\"\xff\"}", "{" + asset + ",\"x\":\"\xed\xa0\x80\"}",
		},
		"id: want an integer from 1 to 9007199254740991": {"{" + asset + `,"id":` + strings.Repeat("9", 1000) + "}"},
		"accepted": {
			" { " + asset +
				"\t, \"x\" : [ 1 , -0.5e+10 , { } , [ ] , true , false , null , \"\\ud83d\\ude00\\u0000\\/\" ] } \r",
			"{" + asset + ",\"x\":\"\u2028\ufeff\ufffe\"}",
			"{" + asset + `,"x":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + "}",
		},
	} {
		for _, row := range rows {
			checkRow(t, AssetsFile, row, reason)
		}
	}
}

// TestClaims reads the files of claims.txt when some ids are already assigned.
func TestClaims(t *testing.T) {
	known := map[string]uint64{"old": 7, "away": 8, "high": 1<<53 - 1}
	opts := ReadOptions{
		Known: func(collection, key string) (uint64, bool) {
			id, ok := known[key]
			return id, ok && collection != "exchanges"
		},
		Owner: func(collection string, id uint64) (string, bool) {
			for key, i := range known {
				if i == id && collection != "exchanges" {
					return key, true
				}
			}
			return "", false
		},
	}
	lines := linesOf(t, "claims.txt")
	for len(lines) > 0 {
		file, reason, _ := strings.Cut(lines[1], " ")
		n := 2
		for n < len(lines) && strings.ContainsAny(lines[n][:1], "+-") {
			n++
		}
		t.Run(lines[0], func(t *testing.T) {
			text, want := "", ""
			for i, line := range lines[2:n] {
				text += line[2:] + "\n"
				if line[0] == '-' {
					want += fmt.Sprint(" ", i+1)
				}
			}
			_, report := mustRead(t, FS(testFeed(file, text)), opts)
			got := ""
			for i, r := range report.file(file).Rejections {
				if got += fmt.Sprint(" ", r.Line); i == 0 && !strings.HasPrefix(r.Reason, reason) {
					t.Errorf("reason %q, want %q", r.Reason, reason)
				}
			}
			if got != want {
				t.Errorf("set aside lines%s, want%s", got, want)
			}
		})
		lines = lines[n:]
	}
}

func TestQuoteOfAnAssetSetAside(t *testing.T) {
	feed, report := mustRead(t, FS(testFeed(AssetsFile, `{"key":"a","name":"n","symbol":"","slug":"s"}`, QuotesFile,
		`{"key":"a","price":1}`, ChainsFile, `{"key":"h","name":"n","slug":"s","members":["a"],"native":"a"}`,
	)), ReadOptions{})
	if len(feed.Assets) != 0 || len(feed.Quotes) != 0 || report.UnknownMembers != 1 || report.UnknownNatives != 1 {
		t.Errorf("%+v, %+v", feed, report)
	}
}

// TestRowSetAsideCountsNothing checks that unknown members and native coins and bad times are
// counted only for accepted rows.
func TestRowSetAsideCountsNothing(t *testing.T) {
	_, report := mustRead(t, FS(testFeed(
		ExchangesFile, `{"key":"","name":"n","slug":"s","market":{"data_time":"never"}}`,
		ChainsFile, `{"key":"","name":"n","slug":"s","members":["x"],"native":"x"}`,
	)), ReadOptions{})
	if report.UnknownMembers != 0 || report.UnknownNatives != 0 || report.BadDataTimes != 0 {
		t.Errorf("%+v", report)
	}
}

func TestDataTime(t *testing.T) {
	cases := []struct{ in, want string }{
		{"2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"},
		{"2026-01-02t03:04:05z", "2026-01-02T03:04:05Z"},
		{"2026-01-02T03:04:05.999999999999Z", "2026-01-02T03:04:05Z"},
		{"2026-01-02T03:04:05+05:30", "2026-01-01T21:34:05Z"},
		{"2026-01-02T03:04:05-00:00", "2026-01-02T03:04:05Z"},
		{"2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"1970-01-01T00:00:01Z", "1970-01-01T00:00:01Z"},
		{"9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"},
	}
	for _, bad := range []string{
		"9999-12-31T23:59:59-00:01", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.9Z", "1970-01-01T00:30:00+01:00",
		"0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z",
		"2026-02-29T00:00:00Z", "2026-01-02T24:00:00Z", "2026-01-02T3:04:05Z", "2026-01-02 03:04:05Z",
		"2026-01-02T03:04:05", "2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05.Z",
		"2026-01-02T03:04:05+0530", "2026-01-02T03:04:05+24:00", "2026-01-02", " 2026-01-02T03:04:05Z", "1767323045",
		"",
	} {
		cases = append(cases, struct{ in, want string }{bad, ""})
	}
	for _, c := range cases {
		feed, report := mustRead(t, FS(testFeed(ExchangesFile,
			`{"key":"k","name":"n","slug":"s","market":{"data_time":"`+c.in+`"}}`)), ReadOptions{})
		if len(feed.Exchanges) != 1 {
			t.Errorf("%q: %v", c.in, report.file(ExchangesFile).Rejections)
			continue
		}
		got, bad := "", 1
		if at := feed.Exchanges[0].Market.DataTime; at != nil {
			got, bad = at.Format(time.RFC3339Nano), 0
		}
		if got != c.want || report.BadDataTimes != bad {
			t.Errorf("%q: %q, counted %d, want %q", c.in, got, report.BadDataTimes, c.want)
		}
	}
}

func TestLines(t *testing.T) {
	row := func(key string) string { return `{"key":"` + key + `","name":"n","symbol":"s","slug":"` + key + `"}` }
	// long returns a row of n bytes.
	long := func(key string, n int) string {
		r := row(key)
		return r[:len(r)-1] + strings.Repeat(" ", n-len(r)) + "}"
	}
	for _, c := range []struct {
		name     string
		file     string
		accepted string // keys
		rejected string // lines
	}{
		{"nothing", "", "", ""},
		{"blank lines", "\n\r\n \t\r\n" + row("1") + "\n\n" + row("2") + "\n\r\n", "1 2", ""},
		{"no line ending", row("1") + "\n" + row("2"), "1 2", ""},
		{"CR", row("1") + "\r\n" + row("2") + "\r", "1 2", ""},
		{"byte order mark", "\xef\xbb\xbf" + row("1"), "1", ""},
		{"byte order mark and nothing else", "\xef\xbb\xbf", "", ""},
		{"byte order mark and a blank line", "\xef\xbb\xbf\r\n" + row("1"), "1", ""},
		{"byte order mark in the middle", row("1") + "\n\xef\xbb\xbf" + row("2"), "1", "2"},
		{"two byte order marks", "\xef\xbb\xbf\xef\xbb\xbf" + row("1"), "", "1"},
		{"half a byte order mark", "\xef\xbb", "", "1"},
		{"a line is one row", row("1") + row("2") + "\n" + row("3"), "3", "1"},
		{"a row is one line", "{\"key\":\n\"1\"}", "", "1 2"},
		{"1 MiB", long("1", MaxLine) + "\n" + row("2"), "1 2", ""},
		{"1 MiB and CR", long("1", MaxLine) + "\r\n" + row("2"), "1 2", ""},
		{"1 MiB at the end", row("1") + "\n" + long("2", MaxLine), "1 2", ""},
		{"1 MiB and CR at the end", row("1") + "\n" + long("2", MaxLine) + "\r", "1 2", ""},
		{"1 MiB behind a byte order mark", "\xef\xbb\xbf" + long("1", MaxLine) + "\r\n" + row("2"), "1 2", ""},
		{"1 MiB and 1", long("1", MaxLine+1) + "\n" + row("2"), "2", "1"},
		{"1 MiB and 1 and CR", long("1", MaxLine+1) + "\r\n" + row("2"), "2", "1"},
		{"1 MiB and 2", long("1", MaxLine+2) + "\n" + row("2"), "2", "1"},
		{"1 MiB and 2 CR", long("1", MaxLine) + "\r\r\n" + row("2"), "2", "1"},
		{"1 MiB and 1 at the end", row("1") + "\n" + long("2", MaxLine+1), "1", "2"},
		{"1 MiB and 2 at the end", row("1") + "\n" + long("2", MaxLine+2), "1", "2"},
		{"3 MiB", row("1") + "\n" + long("2", 3*MaxLine) + "\n" + row("3"), "1 3", "2"},
		{"3 MiB of blanks", strings.Repeat(" ", 3*MaxLine) + "\n" + row("1"), "1", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			feed, report := mustRead(t, FS(testFeed(AssetsFile, c.file)), ReadOptions{})
			var accepted, rejected []string
			for _, a := range feed.Assets {
				accepted = append(accepted, a.Key)
			}
			for _, r := range report.file(AssetsFile).Rejections {
				rejected = append(rejected, fmt.Sprint(r.Line))
			}
			if got := strings.Join(accepted, " "); got != c.accepted {
				t.Errorf("accepted %q, want %q", got, c.accepted)
			}
			if got := strings.Join(rejected, " "); got != c.rejected {
				t.Errorf("set aside lines %q, want %q", got, c.rejected)
			}
		})
	}
}

// repeat is a reader that repeats a piece until it has returned n bytes. It keeps only the piece in
// memory.
type repeat struct {
	piece []byte
	n     int
	at    int
}

func (r *repeat) Read(p []byte) (n int, err error) {
	if r.at == r.n {
		return 0, io.EOF
	}
	p = p[:min(len(p), r.n-r.at)]
	for n < len(p) {
		n += copy(p[n:], r.piece[(r.at+n)%len(r.piece):])
	}
	r.at += n
	return n, nil
}

type readerFiles map[string]func() io.Reader

func (f readerFiles) Open(_ context.Context, name string) (io.ReadCloser, error) {
	if open := f[name]; open != nil {
		return io.NopCloser(open()), nil
	}
	return FS(fstest.MapFS{}).Open(context.Background(), name)
}

// TestLongLineCostsNoMemory checks how much memory it takes to read a line of 100 MiB, and 100 MiB
// of rows that are set aside.
func TestLongLineCostsNoMemory(t *testing.T) {
	const size = 100 << 20
	bad := []byte(`{"key":"\u00e4` + strings.Repeat("k", 1<<19) + "\",\"name\":5}\n")
	for name, assets := range map[string]func() io.Reader{
		"one line": func() io.Reader {
			return io.MultiReader(
				strings.NewReader(`{"key":"`), &repeat{piece: bytes.Repeat([]byte("k"), 4096), n: size},
				strings.NewReader("\"}\n"+`{"key":"a","name":"n","symbol":"s","slug":"s"}`))
		},
		"bad rows": func() io.Reader {
			return io.MultiReader(&repeat{piece: bad, n: size / len(bad) * len(bad)},
				strings.NewReader(`{"key":"a","name":"n","symbol":"s","slug":"s"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := readerFiles{
				InfoFile:   func() io.Reader { return strings.NewReader(testInfo) },
				AssetsFile: assets,
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			feed, report := mustRead(t, files, ReadOptions{})
			runtime.ReadMemStats(&after)
			if len(feed.Assets) != 1 || report.file(AssetsFile).Rejected == 0 {
				t.Fatalf("%d assets, %+v", len(feed.Assets), report)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
				t.Errorf("allocated %d bytes", got)
			}
		})
	}
}

// TestLongTexts tests the longest strings and lists that are accepted, and ones that are longer by
// one byte or element. Only in a required field do they set the row aside.
func TestLongTexts(t *testing.T) {
	for field, most := range map[string]int{
		"key": 256, "name": 256, "symbol": 256, "slug": 256, "logo": 2048, "website": 2048, "whitepaper": 2048,
		"explorers": 2048, "many": 50, "platform": 256, "address": 256, "platforms": 100,
	} {
		for _, over := range []int{0, 1} {
			row := map[string]any{"key": "k", "name": "n", "symbol": "s", "slug": "s"}
			switch text := strings.Repeat("x", most+over); field {
			case "explorers":
				row[field] = []string{text}
			case "platform":
				row["platforms"] = map[string]string{text: "a"}
			case "address":
				row["platforms"] = map[string]string{"x": text}
			case "platforms":
				many := map[string]string{}
				for i := range text {
					many[fmt.Sprint(i)] = "a"
				}
				row[field] = many
			case "many":
				row["explorers"] = strings.Split(text, "")
			default:
				row[field] = text
			}
			b := must.Get(json.Marshal(row))(t)
			feed, report := mustRead(t, FS(testFeed(AssetsFile, string(b))), ReadOptions{})
			needed := slices.Contains([]string{"key", "name", "symbol", "slug"}, field)
			got := [2]int{len(feed.Assets), report.Files[0].Warned}
			if want := [2]int{1, over}; over == 0 || !needed {
				same(t, got, want)
			} else {
				same(t, got, [2]int{})
			}
		}
	}
}

func TestMissingFiles(t *testing.T) {
	for _, name := range []string{InfoFile, AssetsFile} {
		fsys := testFeed()
		delete(fsys, name)
		_, _, err := Read(context.Background(), FS(fsys), ReadOptions{})
		if err == nil || !strings.HasPrefix(err.Error(), name+": missing, and a feed must have it") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	// This feed has none of the optional files.
	feed, report := mustRead(t, FS(testFeed()), ReadOptions{})
	if len(feed.Assets) != 3 || len(report.Files) != 6 {
		t.Errorf("%d assets, %+v", len(feed.Assets), report)
	}
}

func TestInfoFile(t *testing.T) {
	for _, c := range []struct{ info, want string }{
		{testInfo, ""},
		{
			"\xef\xbb\xbf {\r\n\"time\": \"2026-01-31T13:00:00.25+01:00\",\n\"more\":{}, " +
				"\"database\":\"d\",\"format\":1}\n\n",
			"",
		},
		{``, "not JSON"},
		{`null`, "not a JSON object"},
		{`{"format":1,"database":"d","time":"2026-01-31T12:00:00Z"}}`, "not JSON"},
		{`{"database":"d","time":"2026-01-31T12:00:00Z"}`, "format: want 1"},
		{`{"Format":1,"database":"d","time":"2026-01-31T12:00:00Z"}`, "format: want 1"},
		{`{"format":2,"database":"d","time":"2026-01-31T12:00:00Z"}`, "format: want 1"},
		{`{"format":"1","database":"d","time":"2026-01-31T12:00:00Z"}`, "format: "},
		{`{"format":1.0,"database":"d","time":"2026-01-31T12:00:00Z"}`, "format: "},
		{`{"format":1,"time":"2026-01-31T12:00:00Z"}`, "database: missing"},
		{`{"format":1,"database":"","time":"2026-01-31T12:00:00Z"}`, "database: empty"},
		{`{"format":1,"database":5,"time":"2026-01-31T12:00:00Z"}`, "database: want a string"},
		{`{"format":1,"database":"d"}`, "time: missing"},
		{`{"format":1,"database":"d","time":null}`, "time: missing"},
		{`{"format":1,"database":"d","time":1769860800}`, "time: want a string"},
		{`{"format":1,"database":"d","time":"yesterday"}`, "time: want a time"},
		{`{"format":1,"database":"d","time":"2026-01-31T12:00:00"}`, "time: want a time"},
		{"{\"format\":1,\"database\":\"\xff\",\"time\":\"2026-01-31T12:00:00Z\"}", "not JSON: not valid UTF-8"},
		{testInfo + strings.Repeat(" ", MaxLine), "longer than"},
	} {
		feed, _, err := Read(context.Background(), FS(testFeed(InfoFile, c.info)), ReadOptions{})
		name := c.info[:min(len(c.info), 80)]
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == "" &&
			(feed.Time.Truncate(time.Second) != time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) || feed.Database == ""):
			t.Errorf("%s: %q, %v", name, feed.Database, feed.Time)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), InfoFile+": "+c.want)):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestUnreadable checks that an error while any file is read is returned, and that the file is
// never mistaken for a missing one.
func TestUnreadable(t *testing.T) {
	fsys := testFeed()
	whole := func(name string) io.Reader {
		f, err := FS(fsys).Open(context.Background(), name)
		if err != nil {
			return strings.NewReader(`{"key":"a","price":1,"name":"n","slug":"s"}`)
		}
		return f
	}
	broken := errors.New("broken disk")
	for _, name := range []string{InfoFile, AssetsFile, QuotesFile, ExchangesFile, CategoriesFile, ChainsFile} {
		for at, reader := range map[string]func() io.Reader{
			"at once": func() io.Reader { return iotest.ErrReader(broken) },
			"later":   func() io.Reader { return io.MultiReader(whole(name), iotest.ErrReader(broken)) },
			"in a long line": func() io.Reader {
				return io.MultiReader(&repeat{piece: []byte("x"), n: 2 * MaxLine}, iotest.ErrReader(broken))
			},
		} {
			files := readerFiles{}
			for _, n := range []string{InfoFile, AssetsFile, QuotesFile, ExchangesFile, CategoriesFile, ChainsFile} {
				files[n] = func() io.Reader { return whole(n) }
			}
			files[name] = reader
			if name == InfoFile && at == "in a long line" {
				continue // the file is too long before the error occurs
			}
			_, _, err := Read(context.Background(), files, ReadOptions{})
			if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("%s, %s: %v", name, at, err)
			}
		}
	}
}

func TestReadIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	files := readerFiles{
		InfoFile: func() io.Reader { return strings.NewReader(testInfo) },
		AssetsFile: func() io.Reader {
			return io.MultiReader(strings.NewReader("{}\n"), readerFunc(func(p []byte) (int, error) {
				cancel()
				return copy(p, "\n"), nil
			}))
		},
	}
	if _, _, err := Read(ctx, files, ReadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("an endless file ends with %v", err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestProgress(t *testing.T) {
	fsys := testFeed(QuotesFile, `{"key":"a","price":1}`)
	read, total := map[string]int64{}, map[string]int64{}
	mustRead(t, FS(fsys), ReadOptions{Progress: func(file string, r, all int64) {
		if r < read[file] {
			t.Errorf("%s: from %d to %d", file, read[file], r)
		}
		read[file], total[file] = r, all
	}})
	for _, name := range []string{AssetsFile, QuotesFile} {
		if size := int64(len(fsys[name].Data)); read[name] != size || total[name] != size {
			t.Errorf("%s: %d of %d, want %d", name, read[name], total[name], size)
		}
	}
	files := readerFiles{
		InfoFile:   func() io.Reader { return strings.NewReader(testInfo) },
		AssetsFile: func() io.Reader { return readerFunc(strings.NewReader("{}").Read) },
	}
	mustRead(t, files, ReadOptions{Progress: func(file string, _, all int64) {
		if all != -1 {
			t.Errorf("%s: a total of %d for a file of unknown size", file, all)
		}
	}})
}

func TestReportIsBounded(t *testing.T) {
	key := strings.Repeat("ä", 1000)
	row := `{"key":"` + key + `","name":"n","slug":"s","status":"` + key + `"}` + "\n"
	_, report := mustRead(t, FS(testFeed(CategoriesFile, strings.Repeat(row, 500))), ReadOptions{})
	f := report.file(CategoriesFile)
	if f.Rejected != 500 || len(f.Rejections) != maxRejections {
		t.Fatalf("%d set aside, %d listed", f.Rejected, len(f.Rejections))
	}
	for i, r := range f.Rejections {
		if r.File != CategoriesFile || r.Line != i+1 || r.Key != strings.Repeat("ä", maxQuoted/2)+"…" ||
			len(r.Reason) > 200 {
			t.Fatalf("rejection %d: %v", i, r)
		}
	}
	if got := f.Rejections[0].String(); !strings.HasPrefix(got, `categories.ndjson:1: key "ää`) {
		t.Errorf("is written as %s", got)
	}
}

// same compares two values by their JSON, in which nil and empty slices are the same.
func same(t testing.TB, got, want any) {
	t.Helper()
	text := func(v any) string {
		b := must.Get(json.Marshal(v))(t)
		return strings.ReplaceAll(string(b), "[]", "null")
	}
	if g, w := text(got), text(want); g != w {
		t.Errorf("%s\nwant\n%s", g, w)
	}
}
