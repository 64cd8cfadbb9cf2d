package clients

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

// TestDownload mirrors files through a network that breaks off every long answer. A download must resume
// from the data that a killed one has left, and must detect errors in it.
func TestDownload(t *testing.T) {
	have(t, python())
	have(t, "typescript/"+modules+"tsc")
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(2000, 1), teststore.Start, teststore.Files())
	base := openapitest.Start(t, edge.Config{Reader: store, AuthOff: true})
	openapitest.Await(t, base, "")
	set := must.Get(artifacts.ReadFileSets(t.Context(), store, teststore.Read(t, store).Manifest))(t)
	list, _, err := artifacts.ReadFileList(t.Context(), store, &set.Sets[0])
	must.OK(t, err)
	const most = 20_000
	ranges, asked := 0, 0
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		req := must.Get(http.NewRequestWithContext(r.Context(), r.Method, base+r.URL.RequestURI(), nil))(t)
		req.Header = r.Header.Clone()
		res := must.Get(http.DefaultClient.Do(req))(t)
		defer res.Body.Close()
		for name, values := range res.Header {
			w.Header()[name] = values
		}
		if res.StatusCode == http.StatusPartialContent {
			ranges++
			if len(r.Header.Get("If-Match")) != len(`""`)+64 {
				t.Errorf("a range with If-Match %q", r.Header.Get("If-Match"))
			}
		}
		w.WriteHeader(res.StatusCode)
		if n, _ := io.CopyN(w, res.Body, most); n == most {
			panic(http.ErrAbortHandler)
		}
	}))
	defer front.Close()
	built := filepath.Join(copied(t, "typescript"), "typescript")
	execute(t, built, nil, modules+"tsc", "--project", "tsconfig.dist.json")
	env := []string{"MARKETDATA_URL=" + front.URL, "MARKETDATA_KEY="}
	for client, command := range map[string][]string{
		"go": {"go", "run", "./examples/download"}, "python": {python(), "-m", "examples.download"},
		built: {"node", "examples/download.mjs"}} {
		folder := t.TempDir()
		mirror := func() { execute(t, client, env, append(command, folder)...) }
		ranges = 0
		mirror()
		if ranges < 5 {
			t.Errorf("%s: %d ranges were asked for", client, ranges)
		}
		for _, f := range list.Items {
			b := must.Get(os.ReadFile(filepath.Join(folder, f.Name)))(t)
			if artifacts.Sum(b) != f.SHA256 {
				t.Errorf("%s: %s is another file", client, f.Name)
			}
		}
		quotes := filepath.Join(folder, "quotes.parquet")
		whole := must.Get(os.ReadFile(quotes))(t)
		must.OK(t, os.WriteFile(quotes+".part", whole[:len(whole)-9], 0o600)) // as a killed download leaves it
		must.OK(t, os.Remove(quotes))
		asked = 0
		mirror()
		if asked != 2 { // the list, and the end of quotes.parquet
			t.Errorf("%s: %d requests", client, asked)
		}
		if left, err := os.Stat(quotes + ".part"); err == nil {
			t.Errorf("%s: %s stays", client, left.Name())
		}
	}
}
