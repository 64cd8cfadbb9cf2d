package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/internal/durable"
	"example.com/marketdata/internal/test/must"
)

// writeFeed writes the given files to the folder dir.
func writeFeed(t *testing.T, dir string, files Files) {
	t.Helper()
	ok(t, Write(t.Context(), dir, files, nil))
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	writeFeed(t, dir, FS(testFeed()))
	var asked string
	others := map[string]Opener{
		"sim": func(_ context.Context, rest string) (Source, error) {
			asked = rest
			return folder(dir), nil
		},
		"broken": func(context.Context, string) (Source, error) { return nil, errors.New("no luck") },
	}
	src := must.Get(Open(t.Context(), "feed:"+dir, others))(t)
	if src.String() != "feed:"+dir {
		t.Errorf("is named %s", src)
	}
	files := must.Get(src.Files(t.Context(), time.Time{}))(t)
	if feed, _ := mustRead(t, files, ReadOptions{}); len(feed.Assets) != 3 {
		t.Errorf("%d assets", len(feed.Assets))
	}
	if _, err := Open(t.Context(), "sim:?assets=5:6", others); err != nil || asked != "?assets=5:6" {
		t.Errorf("sim was asked for %q: %v", asked, err)
	}
	taken := "want one of feed:PATH, feed+s3://BUCKET/PREFIX?endpoint=URL&region=REGION, feed+https://HOST/PATH, " +
		"csv:PATH, broken:, sim:"
	tables := t.TempDir()
	table := filepath.Join(tables, "assets.csv")
	ok(t, os.WriteFile(table, nil, 0o600))
	for spec, want := range map[string]string{
		"":              `source "": ` + taken,
		dir:             "did you mean feed:" + dir + "? " + taken,
		tables:          "did you mean csv:" + tables + "? " + taken,
		table:           "did you mean csv:" + tables + "? " + taken,
		"/var/feed":     `feed": ` + taken,
		"Feed:x":        taken,
		"s3://bucket/x": taken,
		":x":            taken,
		"pg://u:pw@h":   `source "pg:": ` + taken,
		"feed:":         "want the path of a folder",
		"broken:":       "source broken: no luck",
		"feed+s3:///x":  "source feed+s3: ",
		"feed+s3:":      "source feed+s3: ",
	} {
		if _, err := Open(t.Context(), spec, others); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", spec, err, want)
		}
	}
}

func TestFolderIsMissing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{filepath.Join(dir, "none"), file} {
		if _, err := folder(path).Files(t.Context(), time.Time{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, _, err := Read(t.Context(), FS(os.DirFS(dir)), ReadOptions{}); err == nil ||
		!strings.HasPrefix(err.Error(), InfoFile+": missing") {
		t.Errorf("an empty folder: %v", err)
	}
	ok(t, os.Mkdir(filepath.Join(dir, InfoFile), 0o700))
	if _, _, err := Read(t.Context(), FS(os.DirFS(dir)), ReadOptions{}); err == nil ||
		!strings.HasPrefix(err.Error(), InfoFile+": ") || strings.Contains(err.Error(), "missing") {
		t.Errorf("a folder in place of a file: %v", err)
	}
}

// TestFolderBehindALink checks that Files stays with the folder to which the link pointed when it
// was opened.
func TestFolderBehindALink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "current")
	writeFeed(t, filepath.Join(dir, "1"), FS(testFeed()))
	writeFeed(t, filepath.Join(dir, "2"), FS(testFeed(AssetsFile, "")))
	ok(t, os.Symlink("1", link))
	files := must.Get(folder(link).Files(t.Context(), time.Time{}))(t)
	ok(t, os.Remove(link))
	ok(t, os.Symlink("2", link))
	if feed, _ := mustRead(t, files, ReadOptions{}); len(feed.Assets) != 3 {
		t.Errorf("%d assets: the link moved under the reader", len(feed.Assets))
	}
}

func content(t *testing.T, files Files) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{InfoFile, AssetsFile, QuotesFile, ExchangesFile, CategoriesFile, ChainsFile} {
		f, err := files.Open(t.Context(), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		ok(t, err)
		b := must.Get(io.ReadAll(f))(t)
		f.Close()
		all[name] = string(b)
	}
	return all
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, second := FS(testFeed(QuotesFile, "{}\n", ChainsFile, "\n")), FS(testFeed(ExchangesFile, "x"))
	for _, files := range []Files{first, second, first} {
		writeFeed(t, dir, files)
		got, want := content(t, FS(os.DirFS(dir))), content(t, files)
		if !maps.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(want) {
			t.Errorf("the folder holds %v, %v", entries, err)
		}
	}
}

// moving returns the nth state of a feed. Its time, asset and price all contain n.
func moving(n int) map[string]string {
	return map[string]string{
		InfoFile:   fmt.Sprintf(`{"format":1,"database":"db","time":"2026-01-31T12:%02d:00Z"}`, n),
		AssetsFile: fmt.Sprintf(`{"key":"a","id":%d,"name":"A","symbol":"A","slug":"a"}`, n),
		QuotesFile: fmt.Sprintf(`{"key":"a","price":%d}`, n),
	}
}

// replaced reads a feed. Between the assets and the quotes, write replaces the feed with its next
// state, as often as moves says. The assets of one state must never be combined with the quotes of
// another (report, D11).
func replaced(t *testing.T, src Source, write func(n int), moves ...int) {
	t.Helper()
	for _, moves := range moves {
		n, reads := 1, 0
		write(n)
		var feed *market.Feed
		err := Use(t.Context(), src, time.Time{}, func(files Files) (err error) {
			reads++
			feed, _, err = Read(t.Context(), files, ReadOptions{Progress: func(file string, _, _ int64) {
				if file == AssetsFile && n == reads && n <= moves {
					n++
					write(n)
				}
			}})
			return err
		})
		switch {
		case moves >= maxReads:
			if !errors.Is(err, ErrReplaced) || !strings.Contains(err.Error(), "read 3 times") || reads != maxReads {
				t.Errorf("always replaced: %d reads, %v", reads, err)
			}
		case err != nil || reads != moves+1 || feed.Time.Minute() != n || feed.Assets[0].ID != uint64(n) ||
			feed.Quotes[0].Price != decimal(t, strconv.Itoa(n), market.PriceDecimals):
			t.Errorf("replaced %d times: %d reads, %+v, %v", moves, reads, feed, err)
		}
	}
}

func TestReplaced(t *testing.T) {
	put := func(t *testing.T, path, text string, n int) {
		at := time.Date(2026, 1, 31, 12, n, 0, 0, time.UTC)
		ok(t, errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at)))
	}
	synctest.Test(t, func(t *testing.T) { // its clock makes the pauses take no time
		dir := t.TempDir()
		replaced(t, folder(dir), func(n int) {
			for name, text := range moving(n) {
				put(t, filepath.Join(dir, name), text, n)
			}
		}, 0, 1, 2, 1000)
	})
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		replaced(t, csvFolder{folder(dir)}, func(n int) {
			put(t, filepath.Join(dir, "assets.csv"), fmt.Sprintf("key,id,name,symbol,slug\na,%d,A,A,a\n", n), n)
			put(t, filepath.Join(dir, "quotes.csv"), fmt.Sprintf("key,price\na,%d\n", n), n)
		}, 0, 1, 2, 1000)
	})
	// The feed is written in the order of Write: feed.json is missing while the other files change.
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		writeFeed(t, dir, FS(testFeed()))
		reads := 0
		ok(t, Use(t.Context(), folder(dir), time.Time{}, func(files Files) error {
			reads++
			_, _, err := Read(t.Context(), files, ReadOptions{Progress: func(file string, _, _ int64) {
				if reads == 1 && file == AssetsFile {
					_ = os.Remove(filepath.Join(dir, InfoFile))
					time.AfterFunc(3*rereadGap/2, func() { put(t, filepath.Join(dir, InfoFile), testInfo, 0) })
				}
			}})
			return err
		}))
		if reads != 3 {
			t.Errorf("%d reads", reads)
		}
	})
}

// TestWriteThatFails checks that a failed Write leaves nothing that could be mistaken for a feed.
func TestWriteThatFails(t *testing.T) {
	dir := t.TempDir()
	writeFeed(t, dir, FS(testFeed()))
	broken := errors.New("broken line")
	good := FS(testFeed())
	files := readerFiles{
		InfoFile:   func() io.Reader { return strings.NewReader(testInfo) },
		AssetsFile: func() io.Reader { return must.Get(good.Open(t.Context(), AssetsFile))(t) },
		ChainsFile: func() io.Reader { return readerFunc(func([]byte) (int, error) { return 0, broken }) },
	}
	if err := Write(t.Context(), dir, files, nil); !errors.Is(err, broken) ||
		!strings.Contains(err.Error(), ChainsFile) {
		t.Errorf("%v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != AssetsFile {
		t.Errorf("leaves %v, %v", entries, err)
	}
	// A source that is not a feed changes nothing.
	writeFeed(t, dir, good)
	delete(files, InfoFile)
	if err := Write(t.Context(), dir, files, nil); err == nil || !strings.HasPrefix(err.Error(), InfoFile) {
		t.Errorf("%v", err)
	}
	if got := content(t, FS(os.DirFS(dir))); got[InfoFile] != testInfo {
		t.Errorf("leaves %q", got)
	}
}

// TestPipe checks that a feed that has a pipe instead of a file is refused without waiting for the
// pipe.
func TestPipe(t *testing.T) {
	for _, name := range []string{InfoFile, AssetsFile, QuotesFile} {
		dir := t.TempDir()
		writeFeed(t, dir, Memory{InfoFile: []byte(testInfo), AssetsFile: nil, QuotesFile: nil})
		path := filepath.Join(dir, name)
		ok(t, errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)))
		files := must.Get(folder(dir).Files(t.Context(), time.Time{}))(t)
		if _, _, err := Read(t.Context(), files, ReadOptions{}); !errors.Is(err, durable.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
