package openapi_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

// TestChangesElsewhere checks that the file of a day contains the same changes as /changes, oldest first,
// and that the event of a snapshot states its number of changes.
func TestChangesElsewhere(t *testing.T) {
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	store := memstore.New()
	rows := teststore.Rows{"quotes": {}, "exchanges": {}, "categories": {}, "chains": {}}
	for i, name := range []string{"<A>", "B", "C", "D"} {
		rows["assets"] = append(rows["assets"], map[string]any{"key": name, "name": name, "symbol": "S", "slug": name})
		hours := []time.Duration{22, 23, 24, 25}[i] // the last two are on the next day
		teststore.Publish(t, store, rows, day.Add(hours*time.Hour), teststore.Files())
	}
	rows["assets"] = rows["assets"][2:]
	teststore.Publish(t, store, rows, day.Add(26*time.Hour), teststore.Files())
	base := openapitest.Start(t, edge.Config{Reader: store, AuthOff: true})
	openapitest.Await(t, base, "")
	get := func(path string) io.ReadCloser {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil))(t)
		req.Close = true
		res := must.Get(http.DefaultClient.Do(req))(t)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", path, res.Status)
		}
		return res.Body
	}
	read := func(path string, into any) {
		body := get(path)
		defer body.Close()
		must.OK(t, json.NewDecoder(body).Decode(into))
	}
	var changes struct {
		Result struct{ Items []json.RawMessage }
	}
	read("/openapi/v1/changes", &changes)
	var want []string
	for _, item := range slices.Backward(changes.Result.Items) {
		if strings.Contains(string(item), `"time":"2026-11-21T`) {
			want = append(want, string(item)+"\n")
		}
	}
	var files struct {
		Result struct {
			Items []struct {
				Name, URL string
				Rows      int
			}
		}
	}
	read("/openapi/v1/files", &files)
	found := 0
	for _, f := range files.Result.Items {
		if !strings.HasPrefix(f.Name, "changes/") {
			continue
		}
		found++
		body := get(f.URL)
		text := must.Get(artifacts.DecompressBounded(must.Get(io.ReadAll(body))(t), 1<<20))(t)
		must.OK(t, body.Close())
		if f.Name != "changes/2026-11-21.ndjson.zst" || f.Rows != 1 || string(text) != strings.Join(want, "") {
			t.Errorf("%s with %d rows:\n%s\nwant\n%s", f.Name, f.Rows, text, want)
		}
	}
	if len(want) != 1 || found != 1 {
		t.Errorf("%d changes of the day, %d files of changes", len(want), found)
	}

	events := get("/openapi/v1/events")
	defer events.Close()
	for lines := bufio.NewScanner(events); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if data != `{"snapshot_time":"2026-11-22T02:00:00Z","changes":2}` {
				t.Errorf("the event is %s", data)
			}
			return
		}
	}
	t.Error("no event")
}
