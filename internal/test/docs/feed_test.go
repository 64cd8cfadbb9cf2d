package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
)

const (
	feedDocument  = "builder/FEED.md"
	storeDocument = "builder/STORE.md"
)

// exampleFeed returns the example feed of FEED.md.
func exampleFeed(t *testing.T) fstest.MapFS {
	t.Helper()
	d, files := read(t, feedDocument), fstest.MapFS{}
	for _, name := range []string{source.InfoFile, source.AssetsFile, source.QuotesFile, source.ExchangesFile,
		source.CategoriesFile, source.ChainsFile, source.RatesFile} {
		files[name] = &fstest.MapFile{Data: []byte(d.blocksOf(t, "ndjson "+name)[0].text)}
	}
	return files
}

// with returns the feed with an additional row in a file.
func with(feed fstest.MapFS, name, row string) fstest.MapFS {
	more := fstest.MapFS{}
	for n, f := range feed {
		more[n] = f
	}
	more[name] = &fstest.MapFile{Data: []byte(string(feed[name].Data) + row + "\n")}
	return more
}

func readFeed(t *testing.T, feed fstest.MapFS) (*market.Feed, []source.Problem) {
	t.Helper()
	f, report, err := source.Read(t.Context(), source.FS(feed), source.ReadOptions{})
	must.OK(t, err)
	var rejected []source.Problem
	for _, file := range report.Files {
		rejected = append(rejected, file.Rejections...)
	}
	return f, rejected
}

func TestSetAside(t *testing.T) {
	feed := exampleFeed(t)
	if _, rejected := readFeed(t, feed); len(rejected) > 0 {
		t.Fatalf("of the example feed is set aside: %v", rejected)
	}
	for _, pair := range read(t, feedDocument).lines(t, "text set-aside", " => ") {
		file, row, _ := strings.Cut(pair[0], " ")
		_, rejected := readFeed(t, with(feed, file, row))
		if len(rejected) != 1 || rejected[0].File != file || !strings.Contains(rejected[0].Reason, pair[1]) {
			t.Errorf("%s: %v, want %q", pair[0], rejected, pair[1])
		}
	}
}

// TestTables: the CSV files on the page have the same contents as its feed.
func TestTables(t *testing.T) {
	d, dir := read(t, feedDocument), t.TempDir()
	example, _ := readFeed(t, exampleFeed(t))
	for _, name := range []string{"exchanges.csv", "categories.csv"} {
		must.OK(t, os.WriteFile(
			filepath.Join(dir, name), []byte(d.blocksOf(t, "csv "+name)[0].text), 0o600))
	}
	assets := "key,name,symbol,slug\n"
	for _, a := range example.Assets {
		assets += a.Key + "," + a.Name + "," + a.Symbol + "," + a.Slug + "\n"
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "assets.csv"), []byte(assets), 0o600))
	src := must.Get(source.Open(t.Context(), "csv:"+dir, nil))(t)
	files := must.Get(src.Files(t.Context(), time.Time{}))(t)
	feed, _, err := source.Read(t.Context(), files, source.ReadOptions{})
	if err != nil || !reflect.DeepEqual(feed.Exchanges, example.Exchanges) ||
		!reflect.DeepEqual(feed.Categories, example.Categories) {
		t.Errorf("%+v, %+v, %v", feed.Exchanges, feed.Categories, err)
	}
}

func TestNumbers(t *testing.T) {
	for _, pair := range read(t, feedDocument).lines(t, "text numbers", " => ") {
		field, value, _ := strings.Cut(pair[0], " ")
		row := `{"key":"btc","` + field + `":` + value
		if field != "price" {
			row += `,"price":1`
		}
		feed := exampleFeed(t)
		delete(feed, source.QuotesFile)
		feed[source.QuotesFile] = &fstest.MapFile{Data: []byte(row + "}\n")}
		f, _ := readFeed(t, feed)
		got := "set aside"
		if len(f.Quotes) == 1 {
			n, decimals := f.Quotes[0].Price, market.PriceDecimals
			if field == "market_cap" {
				n, decimals = f.Quotes[0].MarketCap, market.MoneyDecimals
			}
			got = string(market.AppendDecimal(nil, n, decimals))
		}
		if got != pair[1] {
			t.Errorf("%s: %s, want %s", pair[0], got, pair[1])
		}
	}
}

// TestPrograms compares the documents with the programs.
func TestPrograms(t *testing.T) {
	bin := programs(t)
	t.Run("serve your own data", func(t *testing.T) { testOwnData(t, bin) })
	t.Run("page of commands", func(t *testing.T) { testCommandsPage(t, bin) })
	t.Run("flags", func(t *testing.T) { testFlags(t, bin) })
}

// testOwnData runs the commands of the page unchanged, except for the port.
func testOwnData(t *testing.T, bin string) {
	t.Helper()
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the page needs %s: %v", program, err)
		}
	}
	d := read(t, feedDocument)
	const address = "127.0.0.1:8080"
	script := d.blocksOf(t, "sh")[0].text
	if n := strings.Count(script, address); n != 2 {
		t.Fatalf("the page names %s %d times", address, n)
	}
	script = strings.ReplaceAll(script, address, local.Free("127.0.0.1:0"))
	// In any case, the edge must end before the folder is removed.
	script = "trap 'kill $! 2>/dev/null || true; wait' EXIT\n" + script
	cmd := exec.CommandContext(t.Context(), "bash", "-eu", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"EDGE_ADMIN=127.0.0.1:0", "EDGE_DRAIN_WAIT=0s")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if want := strings.TrimSpace(d.blocksOf(t, "json")[0].text); err != nil || !strings.HasSuffix(string(out), want) {
		t.Errorf("%v\n%s\nwant %s\n%s", err, out, want, stderr.String())
	}
}

// programs builds the project's programs into a folder.
func programs(t *testing.T) (bin string) {
	t.Helper()
	bin = t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "example.com/marketdata/builder/cmd/builder",
		"example.com/marketdata/edge/cmd/edge",
		"example.com/marketdata/loadtest/cmd/loadtest")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

var (
	span    = regexp.MustCompile("`([^`]+)`")
	flag    = regexp.MustCompile(`--[a-z][a-z-]*`)
	valued  = regexp.MustCompile("`(--[a-z-]+)` \\(([0-9]+%)\\)")
	command = regexp.MustCompile(`^builder (?:help all )?([a-z]+(?: [a-z]+)?)`)
	listed  = regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)?)  `)
)

// testFlags: every command and flag that a document names exists, and the default that follows it
// is right.
func testFlags(t *testing.T, bin string) {
	t.Helper()
	known := helpOf(t, bin, "edge")
	for _, program := range []string{"builder", "loadtest"} {
		for _, name := range commandsOf(t, bin, program) {
			known += helpOf(t, bin, program, strings.Fields(name)...)
		}
	}
	commands := commandsOf(t, bin, "builder")
	for _, path := range []string{feedDocument, commandsDocument, storeDocument} {
		d := read(t, path)
		for _, m := range span.FindAllStringSubmatch(d.prose, -1) {
			words := command.FindStringSubmatch(m[1])
			if words == nil {
				continue
			}
			name := words[1]
			if !slices.Contains(commands, name) {
				name, _, _ = strings.Cut(name, " ")
			}
			if name == "help" {
				continue
			}
			text := helpOf(t, bin, "builder", strings.Fields(name)...)
			for _, f := range flag.FindAllString(m[1], -1) {
				if !strings.Contains(text, f) {
					t.Errorf("%s: builder %s has no flag %s", path, name, f)
				}
			}
		}
		for _, m := range valued.FindAllStringSubmatch(d.prose, -1) {
			if !strings.Contains(known, m[1]+"="+m[2]) {
				t.Errorf("%s: %s has another default than %s", path, m[1], m[2])
			}
		}
	}
	is := map[string]bool{}
	for _, f := range flag.FindAllString(known, -1) {
		is[f] = true
	}
	for _, path := range files(t, ".md") {
		for _, m := range span.FindAllStringSubmatch(read(t, path).prose, -1) {
			if !strings.HasPrefix(m[1], "--") {
				continue
			}
			for _, f := range flag.FindAllString(m[1], -1) {
				if !is[f] {
					t.Errorf("%s: there is no flag %s", path, f)
				}
			}
		}
	}
}
