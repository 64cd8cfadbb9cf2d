package main

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/providertest"
)

// The recordings and the feed in the repository.
const (
	paprikaSample = "../../source/coinpaprika/testdata/sample"
	geckoSample   = "../../source/coingecko/testdata/sample"
	cmcSample     = "../../source/coinmarketcap/testdata/sample"
	capSample     = "../../source/coincap/testdata/sample"
	feedSample    = "../../source/testdata/feed"
)

// entries returns the names in a folder, including hidden ones.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	ok(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// snapshotOf builds a snapshot from a source and returns its immutable objects.
func snapshotOf(t *testing.T, src string, more ...string) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	// Give a notice, since a feed folder does not contain the source's notice.
	build := []string{"build", "--source", src, "--store", "file:" + dir, "--notice", "as the source wants"}
	done(t, append(build, more...)...)
	objects := providertest.Tree(t, dir)
	maps.DeleteFunc(objects, func(path, _ string) bool {
		return !strings.HasPrefix(path, "objects/") && !strings.HasPrefix(path, "manifests/")
	})
	if len(objects) < 10 {
		t.Fatalf("%s: a snapshot of %d objects", src, len(objects))
	}
	return objects
}

// TestFeed checks that a build from a source and a build from its feed folder yield exactly the
// same objects.
func TestFeed(t *testing.T) {
	for _, src := range []string{
		"feed:" + feedSample, "coinpaprika:?replay=" + paprikaSample, "coingecko:?replay=" + geckoSample,
		"coinmarketcap:?replay=" + cmcSample, "coincap:?replay=" + capSample, simulated,
	} {
		t.Run(src, func(t *testing.T) {
			var at []string
			if src == simulated {
				at = []string{"--time", "2026-11-21T07:20:00Z"}
			}
			dir := filepath.Join(t.TempDir(), "above", "feed")
			report := object(t, done(t, append([]string{"feed", "--source", src, "--out", dir, "--json"}, at...)...))
			if got := entries(t, filepath.Dir(dir)); !slices.Equal(got, []string{"feed"}) {
				t.Errorf("beside the feed there is %q", got)
			}
			if !maps.Equal(snapshotOf(t, "feed:"+dir), snapshotOf(t, src, at...)) {
				t.Error("the feed's snapshot is not the source's")
			}
			rows := bytes.Count([]byte(providertest.Tree(t, dir)[source.AssetsFile]), []byte("\n"))
			if counts := report["counts"].(map[string]any); report["folder"] != dir || report["time"] == "" ||
				counts["assets"] != float64(rows) {
				t.Errorf("%d assets, report %v", rows, report)
			}
			if _, live := report["parts"]; live != strings.Contains(src, "replay") {
				t.Errorf("parts %v", report["parts"])
			}
		})
	}
}

// TestFeedInterrupted checks that an interrupted command leaves nothing behind. Scripts check what
// other failures leave behind.
func TestFeedInterrupted(t *testing.T) {
	above := t.TempDir()
	if r := commandIn(stopped(), "feed", "--source", simulated, "--out",
		filepath.Join(above, "feed")); r.status != cmdline.Failed || len(entries(t, above)) > 0 {
		t.Errorf("interrupted: %+v, left behind %q", r, entries(t, above))
	}
}

// sampleProvider responds with the files of a recording. rename holds pairs of strings that turn
// the files' names into the provider's paths.
func sampleProvider(t *testing.T, dir string, rename ...string) *providertest.Provider {
	t.Helper()
	p := providertest.New()
	for path, body := range providertest.Tree(t, dir) {
		p.Set("/"+strings.NewReplacer(rename...).Replace(strings.TrimSuffix(path, ".json")), []byte(body))
	}
	return p
}

// TestRecord records from a local provider that requires a key. The feed from the recording must
// equal the feed from the provider.
func TestRecord(t *testing.T) {
	const key = "CG-0123456789secret"
	gecko := sampleProvider(t, geckoSample, "coins_markets", "coins/markets", "coins_list", "coins/list", "categories",
		"coins/categories")
	for _, list := range []string{"/coins/markets", "/exchanges"} {
		gecko.Set(list+"?page=2", []byte("[]"))
	}
	for _, test := range []struct {
		scheme, header, env, options string
		provider                     *providertest.Provider
	}{
		{"coinpaprika", "Authorization", "COINPAPRIKA_API_KEY", "slow=50", sampleProvider(t, paprikaSample)},
		{"coingecko", "x-cg-pro-api-key", "COINGECKO_PRO_API_KEY", "slow=50&details=on&rate=60000", gecko},
	} {
		t.Run(test.scheme, func(t *testing.T) {
			t.Setenv(test.env, key)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(test.header) != key {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				test.provider.ServeHTTP(w, r)
			}))
			defer server.Close()
			live := test.scheme + ":?" + test.options + "&base=" + url.QueryEscape(server.URL)
			above := t.TempDir()
			recording, feed := filepath.Join(above, "re cording&1"), filepath.Join(above, "feed")
			report := object(t, done(t, "record", "--source", live, "--out", recording, "--json"))
			done(t, "feed", "--source", live, "--out", feed)
			for name, body := range providertest.Tree(t, recording) {
				if strings.Contains(body, key) {
					t.Errorf("the key is in %s", name)
				}
			}

			// The recording requires neither the provider nor a key.
			server.Close()
			t.Setenv(test.env, "")
			replayed := make([]map[string]string, 2)
			for i := range replayed {
				dir := filepath.Join(t.TempDir(), "feed")
				done(t, "feed", "--source", test.scheme+":?replay="+url.QueryEscape(recording), "--out", dir)
				replayed[i] = providertest.Tree(t, dir)
			}
			if !maps.Equal(replayed[0], replayed[1]) {
				t.Error("replayed twice, two feeds")
			}
			want := providertest.Tree(t, feed)
			delete(want, source.InfoFile) // the two feeds have different times
			delete(replayed[0], source.InfoFile)
			if !maps.Equal(replayed[0], want) {
				t.Errorf("replayed:\n%v\nwant\n%v", replayed[0], want)
			}
			if report["database"] != test.scheme || report["counts"].(map[string]any)["quotes"] == 0.0 {
				t.Errorf("report %v", report)
			}
			if got := entries(t, above); !slices.Equal(got, []string{"feed", "re cording&1"}) {
				t.Errorf("left behind: %q", got)
			}
		})
	}
}

// TestRecordFails checks that a failed command leaves nothing that looks like a recording.
func TestRecordFails(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "recording")
	p := providertest.New()
	p.Set("/tickers", []byte(`[{"id":"a-a","name":"A","symbol":"A"}]`))
	p.Fault("/tickers", providertest.Status(http.StatusPaymentRequired))
	live := "coinpaprika:?base=" + url.QueryEscape(p.Serve(t))
	wants(t, cmdline.Failed, "402", "record", "--source", live, "--out", dir)
	if got := entries(t, above); len(got) > 0 {
		t.Errorf("left behind: %q", got)
	}
}
