package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/loadtest"
	"example.com/marketdata/loadtest/pace"
)

// small is a feed that has the required files and a few others.
type small map[string]string

func (s small) String() string { return "small" }

func (s small) Files(context.Context, time.Time) (source.Files, error) {
	all := fstest.MapFS{}
	for name, text := range s {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return source.FS(all), nil
}

// TestLoadSmallStore: the load tester measures a service that has no categories or chains, and
// names what it leaves out. (Report O6: it used to end with a usage error for a store that has only
// assets and quotes. A store that also has categories, and a scenario of which nothing remains, are
// similar cases.)
func TestLoadSmallStore(t *testing.T) {
	feed := small{"feed.json": `{"format":1,"database":"t","time":"2026-11-21T10:10:00Z"}`,
		"assets.ndjson": `{"key":"btc","id":1,"name":"Bitcoin","symbol":"BTC","slug":"bitcoin"}
{"key":"eth","id":2,"name":"Ether","symbol":"ETH","slug":"ether"}`,
		"quotes.ndjson": `{"key":"btc","price":"100","market_cap":"1000"}
{"key":"eth","price":"100","market_cap":"900"}`}
	grouped := small{"categories.ndjson": `{"key":"c","name":"C","slug":"c","status":"active","members":["btc"]}`}
	for name, text := range feed {
		grouped[name] = text
	}
	file := filepath.Join(t.TempDir(), "chains.yaml")
	must.OK(t, os.WriteFile(file, []byte("mix: [{endpoint: chains, weight: 1, by: slug}]\n"), 0o600))
	for _, c := range []struct {
		feed     small
		scenario string
		left     string
	}{
		{feed, "mixed", "/markets by category, /chains by slug"},
		{feed, "lookups", "/categories by slug, /chains by id"},
		{grouped, "lookups", "/chains by id"},
		{grouped, file, "nothing is left"},
	} {
		store := memstore.New()
		b := must.Get(builder.New(builder.Config{Store: store, Source: c.feed, Log: buildtest.Discard,
			Guards: builder.DefaultGuards, Settings: buildtest.Settings, Files: files.Settings{Cadence: files.Off}}))(t)
		must.Get(b.Build(t.Context(), time.Time{}))(t)
		cfg := testedge.Config{Reader: artifacts.Reader(store), AuthOff: true}
		edge := testedge.Start(t, cfg)
		warned := ""
		tester, err := loadtest.New(t.Context(), loadtest.Options{URLs: []string{edge.URL}, Scenario: c.scenario,
			CheckShare: 1, Store: store, Seed: 1, Warn: func(text string) { warned += text }})
		if c.scenario == file {
			if !errors.Is(err, loadtest.ErrUsage) || !strings.Contains(err.Error(), c.left) {
				t.Errorf("%s: %v", c.scenario, err)
			}
			continue
		}
		must.OK(t, err)
		run := must.Get(tester.Run(t.Context(), loadtest.Load{Stages: pace.Constant(200, time.Second),
			Connections: 8, Timeout: 10 * time.Second}))(t)
		if !strings.HasSuffix(warned, ": "+c.left) || run.Requests.Failed > 0 || run.Checks.Wrong > 0 ||
			run.Checks.Compared == 0 {
			t.Errorf("%s: warned %q; requests %+v, checks %+v", c.scenario, warned, run.Requests, run.Checks)
		}
	}
}
