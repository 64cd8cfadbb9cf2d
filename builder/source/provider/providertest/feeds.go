package providertest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
)

// Files returns the present files of a source.
func Files(t testing.TB, s *provider.Source) source.Files {
	t.Helper()
	files, err := s.Files(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Contents returns a file of a feed.
func Contents(t testing.TB, files source.Files, name string) string {
	t.Helper()
	r, err := files.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Read reads a feed.
func Read(t testing.TB, files source.Files) (*market.Feed, *source.Report) {
	t.Helper()
	feed, report, err := source.Read(t.Context(), files, source.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return feed, report
}

// All returns the files of a feed with rows, by name.
func All(t *testing.T, files source.Files) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, name := range []string{source.AssetsFile, source.QuotesFile, source.ExchangesFile, source.CategoriesFile, source.ChainsFile} {
		m[name] = Contents(t, files, name)
	}
	return m
}

// NDJSON decodes a file of a feed, numbers as they are written.
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

// States says where each part of a feed came from.
func States(files source.Files) map[string]source.PartState {
	m := map[string]source.PartState{}
	for _, p := range files.(source.Provenance).Parts() {
		m[p.Name] = p.State
	}
	return m
}

// Answer is an answer of these pages.
func Answer(bodies ...[]byte) *provider.Answer {
	a := &provider.Answer{}
	for _, b := range bodies {
		a.Pages = append(a.Pages, provider.Page{Body: b})
	}
	return a
}

// RoundTrip answers with a function.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// CheckRead reads a feed: each of its rows must be accepted or set aside.
func CheckRead(t testing.TB, feed *provider.Feed) {
	t.Helper()
	_, report, err := source.Read(t.Context(), feed, source.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, table := range []*provider.Table{&feed.Assets, &feed.Quotes, &feed.Exchanges, &feed.Categories, &feed.Chains} {
		if got := report.Files[i]; got.Rows != table.Rows() || got.Accepted+got.Rejected != got.Rows {
			t.Errorf("%s: %+v, want %d rows", got.Name, got, table.Rows())
		}
	}
}
