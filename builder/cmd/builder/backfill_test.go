package main

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
)

func headOf(t *testing.T, dir string) *publish.Head {
	t.Helper()
	store := must.Get(dirstore.Open(dir, dirstore.Options{}))(t)
	return must.Get(publish.ReadHead(t.Context(), store))(t)
}

// TestBackfill writes feeds of a simulated market and backfills a store with
// them: it is that of builds one after the other.
func TestBackfill(t *testing.T) {
	dir := t.TempDir()
	feeds, built, filled := filepath.Join(dir, "feeds"), filepath.Join(dir, "built"), filepath.Join(dir, "filled")
	times := []string{
		"2026-05-01T00:00:00Z", "2026-11-14T07:00:00Z", "2026-11-20T07:20:00Z", "2026-11-21T06:20:00Z",
		"2026-11-21T07:10:00Z",
	}
	for _, at := range times {
		done(t, "feed", "--source", simulated, "--time", at, "--out", filepath.Join(feeds, at[:16]))
		done(t, "build", "--source", simulated, "--time", at, "--store", "file:"+built, "--force")
	}
	done(t, "feed", "--source", simulated, "--time", times[4], "--out", filepath.Join(feeds, "twice"))
	args := []string{"backfill", "--feeds", feeds, "--store", "file:" + filled, "--force"}
	report := object(t, done(t, append(args, "--json")...))
	if report["published"] != true || report["past"] != 4.0 || report["snapshot_time"] != times[4] ||
		!reflect.DeepEqual(report["skipped"], []any{"twice"}) {
		t.Errorf("report %v", report)
	}
	want, got := headOf(t, built).Manifest, headOf(t, filled).Manifest
	if !reflect.DeepEqual(got.Views, want.Views) || got.Ledger != want.Ledger || got.Global != want.Global {
		t.Errorf("the snapshot is %+v, want %+v", got, want)
	}
	if v := object(t, done(t, "verify", "--store", "file:"+filled, "--json")); v["snapshots"] != 1.0 ||
		len(v["problems"].([]any)) != 0 {
		t.Errorf("verify %v", v)
	}
	wants(t, cmdline.Done, "from 2026-11-20T07:20:00Z to 2026-11-21T07:10:00Z", "change", "--store", "file:"+filled)
	wants(t, cmdline.Done, "nothing to do", args...)
	late := filepath.Join(dir, "late")
	done(t, "build", "--source", simulated, "--time", "2026-11-21T07:20:00Z", "--store", "file:"+late)
	wants(t, cmdline.Done, "keeps prices of 5 of 5 feeds, from 2026-05-01T00:00:00Z on", append(args,
		"--store", "file:"+late)...)
	wants(t, cmdline.Failed, "want all feeds older, or all newer", append(args, "--store", "file:"+late)...)
	wants(t, cmdline.Failed, "--feeds: feed built: feed.json: missing", "backfill", "--feeds", dir, "--store",
		"file:"+filled)
	wants(t, cmdline.Usage, "--feeds", "backfill", "--store", "file:"+filled)
}

// TestBackfillSimulated gives a store a simulated market's year: the points of every time kept are
// what the market's feed says then, and verify finds all in order. The next time does nothing.
func TestBackfillSimulated(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 20, 0, 0, time.UTC)
	dir := filepath.Join(t.TempDir(), "store")
	args := []string{"backfill", "--source", simulated, "--time", at.Add(time.Minute).Format(time.RFC3339),
		"--history-assets", "30", "--store", "file:" + dir}
	wants(t, cmdline.Done, "feeds, from 2025-11-21T00:00:00Z on", args...)
	wants(t, cmdline.Done, "nothing to do", args...)
	if v := object(t, done(t, "verify", "--store", "file:"+dir, "--json")); len(v["problems"].([]any)) != 0 {
		t.Errorf("verify %v", v)
	}
	store := must.Get(dirstore.Open(dir, dirstore.Options{}))(t)
	head := must.Get(publish.ReadHead(t.Context(), store))(t)
	root := must.Get(ledger.ReadRoot(t.Context(), store, head.Manifest.Ledger))(t)
	now := must.Get(ledger.Load(t.Context(), store, &head.Manifest.Ledger))(t)
	src := must.Get((&env{ctx: t.Context()}).openSource(simulated))(t)
	days := 0
	for i, mark := range ledger.Marks(at) {
		if mark.Equal(mark.Truncate(24 * time.Hour)) {
			days++
		}
		if i%29 != 0 && mark != at {
			continue
		}
		files := must.Get(src.Files(t.Context(), mark))(t)
		feed, _, err := source.Read(t.Context(), files, source.ReadOptions{})
		must.OK(t, err)
		prices := map[uint64]market.U128{}
		for _, q := range feed.Quotes {
			id, _ := now.Known("assets", feed.Assets[q.Asset].Key)
			prices[id] = q.Price
		}
		points := must.Get(root.Points(t.Context(), store, mark))(t)
		for _, p := range points {
			if price, ok := prices[p.ID]; !ok || price != p.Price {
				t.Errorf("%v: asset %d cost %v, want %v", mark, p.ID, p.Price, price)
			}
		}
		if len(points) != 30 {
			t.Errorf("%v: %d points", mark, len(points))
		}
	}
	if days != 366 {
		t.Errorf("%d days", days)
	}
	wants(t, cmdline.Usage, "no other source knows its past", "backfill", "--source", "feed:"+dir, "--store",
		"file:"+dir)
	wants(t, cmdline.Usage, "--time: only with --source", "backfill", "--feeds", dir, "--time", "2026-11-21T07:20:00Z",
		"--store", "file:"+dir)
}
