package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
)

// TestVerifyFile checks the verification of downloaded files without a store, with and without the
// keys that signed their list.
func TestVerifyFile(t *testing.T) {
	dir := t.TempDir()
	store, key, other := "file:"+filepath.Join(dir, "store"), filepath.Join(dir, "key"), filepath.Join(dir, "other")
	trust := regexp.MustCompile(`mdtrust_\S+`)
	own, strange := trust.FindString(done(t, "keygen", key)), trust.FindString(done(t, "keygen", other))
	for _, at := range []string{"2026-11-21T23:50:00Z", "2026-11-22T00:00:00Z"} {
		done(t, "build", "--source", simulated, "--store", store, "--time", at, "--files", "hourly",
			"--sign-key", key)
	}
	opened := must.Get(stores.Open(t.Context(), store, stores.Options{}))(t)
	pointer := must.Get(artifacts.ParsePointer(must.Get(os.ReadFile(filepath.Join(dir, "store", "current")))(t)))(t)
	m := must.Get(artifacts.ReadManifest(t.Context(), opened, pointer.Manifest))(t)
	sets := must.Get(artifacts.ReadFileSets(t.Context(), opened, m))(t).Sets
	l, list, err := artifacts.ReadFileList(t.Context(), opened, &sets[len(sets)-1])
	must.OK(t, err)
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, "copy", name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, b, 0o600))
		return path
	}
	write(artifacts.FilesJSON, list)
	for _, name := range []string{"quotes.parquet", "members.ndjson.zst", "prices/2026-11-21.parquet"} {
		var b []byte
		for i := range l.Find(name).Chunks {
			b = append(b, must.Get(artifacts.ReadFile(t.Context(), opened, l.Find(name).Chunk(i)))(t)...)
		}
		path := write(name, b)
		wants(t, cmdline.Done, "is the file that the signed files.json of 2026-11-22T00:00:00Z lists", "verify", "--file", path,
			"--trust-key", own)
		wants(t, cmdline.Done, "who signed that", "verify", "--file", path)
		wants(t, cmdline.Failed, "not signed by a trusted key", "verify", "--file", path, "--trust-key", strange)
		b[len(b)/2] ^= 1
		wants(t, cmdline.Failed, "has digest", "verify", "--file", write(name, b), "--trust-key", own)
	}
}
