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
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/providertest"
)

// The recordings and the feed that come with the project.
const (
	paprikaSample = "../../source/coinpaprika/testdata/sample"
	geckoSample   = "../../source/coingecko/testdata/sample"
	cmcSample     = "../../source/coinmarketcap/testdata/sample"
	capSample     = "../../source/coincap/testdata/sample"
	feedSample    = "../../source/testdata/feed"
)

// entries names what is in a folder, hidden files too.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	ok(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// snapshotOf builds a source and returns the immutable objects of the store.
func snapshotOf(t *testing.T, src string, more ...string) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	// A feed folder does not keep the source's notice.
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

// TestFeed: what a source says and what is built from its feed folder is the
// same snapshot, to the last object.
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

// TestNewFolders: what is there is not touched, and what fails leaves nothing.
func TestNewFolders(t *testing.T) {
	broken := t.TempDir() // a feed without assets
	must.OK(t, os.WriteFile(filepath.Join(broken, source.InfoFile),
		[]byte(`{"format":1,"database":"d","time":"2026-11-21T07:20:00Z"}`), 0o644))
	for _, test := range []struct {
		name, src string
		prepare   func(dir string) error
		says      string // "": succeeds
	}{
		{name: "missing", src: simulated},
		{name: "empty", src: simulated, prepare: func(dir string) error { return os.Mkdir(dir, 0o755) }},
		{
			name: "not empty", src: simulated, says: "not empty",
			prepare: func(dir string) error { return os.MkdirAll(filepath.Join(dir, "x"), 0o755) },
		},
		{
			name: "a file", src: simulated, says: "is a file",
			prepare: func(dir string) error { return os.WriteFile(dir, nil, 0o644) },
		},
		{name: "no assets", src: "feed:" + broken, says: "feed:" + broken + ": write feed: assets.ndjson"},
		{name: "no source", src: "feed:" + filepath.Join(broken, "away"), says: "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			above := t.TempDir()
			dir := filepath.Join(above, "feed")
			if test.prepare != nil {
				ok(t, test.prepare(dir))
			}
			before := entries(t, above)
			r := command(t, "feed", "--source", test.src, "--out", dir)
			if test.says == "" {
				if r.status != cmdline.Done || !strings.Contains(r.stdout, "60 assets") ||
					len(providertest.Tree(t, dir)) != 7 {
					t.Errorf("%+v", r)
				}
				return
			}
			if r.status != cmdline.Failed || !strings.Contains(r.stderr, test.says) || r.stdout != "" {
				t.Errorf("%+v, want %q", r, test.says)
			}
			if after := entries(t, above); !slices.Equal(after, before) {
				t.Errorf("left behind: %q, was %q", after, before)
			}
		})
	}
	above := t.TempDir()
	if r := commandIn(stopped(), "feed", "--source", simulated, "--out",
		filepath.Join(above, "feed")); r.status != cmdline.Failed || len(entries(t, above)) > 0 {
		t.Errorf("interrupted: %+v, left behind %q", r, entries(t, above))
	}
}

// sampleProvider answers with the files of a recording; rename turns their paths
// into the provider's.
func sampleProvider(t *testing.T, dir string, rename ...string) *providertest.Provider {
	t.Helper()
	p := providertest.New()
	for path, body := range providertest.Tree(t, dir) {
		p.Set("/"+strings.NewReplacer(rename...).Replace(strings.TrimSuffix(path, ".json")), []byte(body))
	}
	return p
}

// TestRecord records from a provider on this machine that wants a key, and builds
// from the recording what the provider says itself.
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

			// From here on no provider is asked, and no key is needed.
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
			delete(want, source.InfoFile) // the two were asked for one after the other
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

// TestRecordOfAnySource: what is no provider is recorded as a feed.
func TestRecordOfAnySource(t *testing.T) {
	recorded, fed := filepath.Join(t.TempDir(), "recorded"), filepath.Join(t.TempDir(), "fed")
	done(t, "record", "--source", "feed:"+feedSample, "--out", recorded)
	done(t, "feed", "--source", "feed:"+feedSample, "--out", fed)
	if got := providertest.Tree(t, recorded); !maps.Equal(got, providertest.Tree(t, fed)) {
		t.Errorf("recorded %v", got)
	}
}

// TestRecordFails leaves nothing that could be taken for a recording.
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

// TestFeedUsage: what the commands without a store cannot do without.
func TestFeedUsage(t *testing.T) {
	for _, args := range [][]string{{"feed", "--source", simulated}, {"record", "--out", "x"}, {
		"feed", "--source", "fax:555", "--out", "x",
	}} {
		if r := command(t, args...); r.status != cmdline.Usage {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// TestSource: what a month costs is said without a key, a call, or a file.
func TestSource(t *testing.T) {
	cache := t.TempDir()
	for args, want := range map[string]string{
		"--source=coinmarketcap:?plan=startup": "plan startup: quota 450,000 calls a month, 0 of them used; " +
			"at most 120 calls a minute\nWITHOUT A CACHE FOLDER",
		"--source=coincap:?quota=none":               "no quota",
		"--source=coinpaprika: --state-dir=" + cache: "more rarely\n",
		"--source=coingecko: --json":                 `"plan":"free","quota":0,"used":0,"per_minute":5`,
		"--source=" + simulated:                      "no calls that cost anything",
	} {
		r := command(t, append([]string{"source"}, strings.Fields(args)...)...)
		if r.status != cmdline.Done || !strings.Contains(r.stdout, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if left := entries(t, cache); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	wants(t, cmdline.Usage, "want free", "source", "--source=coingecko:?plan=pro")
}
