package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
)

func headOf(t *testing.T, dir string) *publish.Head {
	t.Helper()
	store := must.Get(dirstore.Open(dir, dirstore.Options{}))(t)
	return must.Get(publish.ReadHead(t.Context(), store))(t)
}

// TestBackfill writes feeds of a simulated market and backfills a store with them. The resulting
// snapshot must equal the one from successive builds.
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
	// Changes begin with the first published snapshot, which is made from the last feed.
	earlier := slices.DeleteFunc(want.Views, func(v artifacts.View) bool {
		return strings.HasPrefix(v.Collection, "changes/")
	})
	if !reflect.DeepEqual(got.Views, earlier) || got.Ledger != want.Ledger || got.Global != want.Global {
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
	wants(t, cmdline.Failed, "builder import brings the prices of older feeds", append(args, "--store",
		"file:"+late)...)
	// The feed that precedes the first snapshot on the same day is not imported. The feeds of
	// earlier days are.
	imports := []string{"import", feeds, "--store", "file:" + late}
	wants(t, cmdline.Done, "of the 90 days before (one an hour): ", imports...)
	wants(t, cmdline.Done, "nothing to do", imports...)
	if r := object(t, done(t, append(imports, "--json")...)); r["published"] != false || r["same"] == 0.0 ||
		r["rows"] == 0.0 || r["zones"].([]any)[2].(map[string]any)["interval"] != "1d" {
		t.Errorf("report %v", r)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "rows.csv"), []byte("key,time,price\nnobody,2026-01-01,1\nx,now,1\n"),
		0o600))
	wants(t, cmdline.Failed, `no row can be used`, "import", filepath.Join(dir, "rows.csv"), "--store",
		"file:"+late)
	wants(t, cmdline.Failed, `rows.csv:3: time "now": want a time such as`, "import", filepath.Join(dir, "rows.csv"),
		"--store", "file:"+late)
	wants(t, cmdline.Failed, "want a .csv, .ndjson, .jsonl or .parquet file", "import",
		filepath.Join(feeds, "twice", "feed.json"), "--store", "file:"+late)
	done(t, "keys", "create", "--name", "n", "--store", "file:"+filepath.Join(dir, "new"))
	wants(t, cmdline.Failed, "the store has no snapshot: build one first", "import", feeds, "--store",
		"file:"+filepath.Join(dir, "new"))
	if v := object(t, done(t, "verify", "--store", "file:"+late, "--json")); len(v["problems"].([]any)) != 0 {
		t.Errorf("verify %v", v)
	}
	wants(t, cmdline.Failed, "--feeds: feed built: feed.json: missing", "backfill", "--feeds", dir, "--store",
		"file:"+filled)
	wants(t, cmdline.Usage, "--feeds", "backfill", "--store", "file:"+filled)
}
