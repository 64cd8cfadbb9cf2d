package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/cmdline"
)

func headOf(t *testing.T, dir string) *publish.Head {
	t.Helper()
	store, err := dirstore.Open(dir, dirstore.Options{})
	ok(t, err)
	head, err := publish.ReadHead(t.Context(), store)
	ok(t, err)
	return head
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
	if out := done(t, "change", "--store", "file:"+filled); !strings.Contains(out,
		"from 2026-11-20T07:20:00Z to 2026-11-21T07:10:00Z") {
		t.Errorf("change prints %q", out)
	}
	if out := done(t, args...); !strings.Contains(out, "nothing to do") {
		t.Errorf("once more: %q", out)
	}
	late := filepath.Join(dir, "late")
	done(t, "build", "--source", simulated, "--time", "2026-11-21T07:20:00Z", "--store", "file:"+late)
	if out := done(t, append(args, "--store", "file:"+late)...); !strings.Contains(out,
		"5 feeds of the past are remembered, from 2026-05-01T00:00:00Z on") {
		t.Errorf("behind a snapshot: %q", out)
	}
	if r := command(t, append(args, "--store", "file:"+late)...); r.status != cmdline.Failed ||
		!strings.Contains(r.stderr, "want all feeds older, or all newer") {
		t.Errorf("behind a snapshot, once more: %+v", r)
	}
	if r := command(t, "backfill", "--feeds", dir, "--store", "file:"+filled); r.status != cmdline.Failed ||
		!strings.Contains(r.stderr, "--feeds: feed built: feed.json: missing") {
		t.Errorf("a folder of other things: %+v", r)
	}
	if r := command(t, "backfill", "--store", "file:"+filled); r.status != cmdline.Usage ||
		!strings.Contains(r.stderr, "--feeds") {
		t.Errorf("no feeds: %+v", r)
	}
}
