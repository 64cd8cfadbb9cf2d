package providertest

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/must"
)

// Files returns the current files of a source.
func Files(t testing.TB, s *provider.Source) source.Files {
	t.Helper()
	return must.Get(s.Files(t.Context(), time.Time{}))(t)
}

// Contents returns the contents of a feed's file.
func Contents(t testing.TB, files source.Files, name string) string {
	t.Helper()
	r := must.Get(files.Open(t.Context(), name))(t)
	defer r.Close()
	return string(must.Get(io.ReadAll(r))(t))
}

// Read reads a feed.
func Read(t testing.TB, files source.Files) (*market.Feed, *source.Report) {
	t.Helper()
	feed, report, err := source.Read(t.Context(), files, source.ReadOptions{})
	must.OK(t, err)
	return feed, report
}

// All returns the contents of a feed's files that have rows, by name.
func All(t *testing.T, files source.Files) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, name := range []string{
		source.AssetsFile, source.QuotesFile, source.ExchangesFile, source.CategoriesFile, source.ChainsFile,
		source.RatesFile} {
		m[name] = Contents(t, files, name)
	}
	return m
}

// WantSample compares the feed made from testdata/sample with testdata/feed, which builder feed
// writes. It fails if any row is set aside.
func WantSample(t *testing.T, sample *provider.Source) {
	t.Helper()
	files := Files(t, sample)
	want := source.FS(os.DirFS("testdata/feed"))
	for name, rows := range All(t, files) {
		if wanted := Contents(t, want, name); rows != wanted {
			t.Errorf("%s:\n%s\nwant\n%s", name, rows, wanted)
		}
	}
	if got, wanted := Contents(t, files, source.InfoFile), Contents(t, want, source.InfoFile); got != wanted {
		t.Errorf("%s, want %s", got, wanted)
	}
	AllAccepted(t, files)
}

// LiveIsReplayed records a source and replays the recording. The source, the recording and the
// sample with which the provider answers must give the same feed, and the recording must contain
// every byte of the sample.
func LiveIsReplayed(t *testing.T, live *provider.Source, replay func(dir string) *provider.Source) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "recording")
	want := All(t, Files(t, replay("testdata/sample")))
	must.OK(t, live.Record(t.Context(), dir))
	if got := All(t, Files(t, live)); !maps.Equal(got, want) {
		t.Errorf("live:\n%v\nwant\n%v", got, want)
	}
	if got := All(t, Files(t, replay(dir))); !maps.Equal(got, want) {
		t.Errorf("replayed:\n%v\nwant\n%v", got, want)
	}
	sample := os.DirFS("testdata/sample")
	err := fs.WalkDir(sample, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		sent, err := fs.ReadFile(sample, path)
		kept, err2 := os.ReadFile(filepath.Join(dir, path))
		if err = errors.Join(err, err2); err == nil && string(sent) != string(kept) {
			t.Errorf("%s was not recorded as it was sent", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// NDJSON decodes a file of a feed. Numbers keep their original text.
func NDJSON(t testing.TB, files source.Files, name string) (rows []map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(Contents(t, files, name)))
	d.UseNumber()
	for {
		var row map[string]any
		switch err := d.Decode(&row); {
		case err == io.EOF:
			return rows
		case err != nil:
			t.Fatalf("%s: row %d: %v", name, len(rows)+1, err)
		}
		rows = append(rows, row)
	}
}

// States returns the state of each part of a feed.
func States(files source.Files) map[string]source.PartState {
	m := map[string]source.PartState{}
	for _, p := range files.(source.Provenance).Parts() {
		m[p.Name] = p.State
	}
	return m
}

// Answer returns an answer with the given pages.
func Answer(bodies ...[]byte) *provider.Answer {
	a := &provider.Answer{}
	for _, b := range bodies {
		a.Pages = append(a.Pages, provider.Page{Body: b})
	}
	return a
}

// RoundTrip is a function that implements http.RoundTripper.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// CheckRead reads a feed and checks that every row is either accepted or set aside.
func CheckRead(t testing.TB, feed *provider.Feed) {
	t.Helper()
	_, report, err := source.Read(t.Context(), feed, source.ReadOptions{})
	must.OK(t, err)
	for i, table := range []*provider.Table{
		&feed.Assets, &feed.Quotes, &feed.Exchanges, &feed.Categories, &feed.Chains, &feed.Rates} {
		if got := report.Files[i]; got.Rows != table.Rows() || got.Accepted+got.Rejected != got.Rows {
			t.Errorf("%s: %+v, want %d rows", got.Name, got, table.Rows())
		}
	}
}

// SameValues compares the rows of a feed's file with the provider's rows of the same id, digit by
// digit. fields maps each of our fields to the provider's field, which is a path such as
// market.volume_24h. If needed is not empty, it names a field of the provider, and the feed must not
// have a row for a provider's row without that field.
func SameValues(t *testing.T, files source.Files, file string, theirs []any, needed string, fields map[string]string) {
	t.Helper()
	ours := map[any]map[string]any{}
	for _, row := range NDJSON(t, files, file) {
		ours[row["key"]] = row
	}
	for _, row := range theirs {
		id := value(row, "id")
		if needed != "" && value(row, needed) == nil {
			if ours[id] != nil {
				t.Errorf("%s: %v has a row, and no %s", file, id, needed)
			}
			continue
		}
		for our, their := range fields {
			if got, want := value(ours[id], our), value(row, their); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s of %v is %v, want %v", file, our, id, got, want)
			}
		}
	}
}

// value returns the value at a path in an object, or nil if there is none.
func value(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// AllAccepted reads a feed and reports an error for each row that is set aside.
func AllAccepted(t *testing.T, files source.Files) {
	t.Helper()
	_, report := Read(t, files)
	for _, f := range report.Files {
		if f.Rejected > 0 {
			t.Errorf("set aside: %v", f.Rejections)
		}
	}
}

// Tree returns the contents of all files below a folder, by path.
func Tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must.OK(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(b)
		return err
	}))
	return files
}
