//go:build unix

package edge_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/durable"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// TestDiskFull limits the size of files to a kilobyte, so that writes fail midway as on a full disk. It
// checks that the edge continues without the disk copy and leaves no partial files. Once there is space, the
// edge writes the missing files, even if nothing new is published.
//
// The limit applies to the whole process, so the test runs in a process of its own.
func TestDiskFull(t *testing.T) {
	const child = "EDGE_TEST_DISK_FULL"
	if os.Getenv(child) == "" {
		self := must.Get(os.Executable())(t)
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestDiskFull$", "-test.count=1")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	mem, dir := memstore.New(), t.TempDir()
	w := newWorld(t, mem)
	first := w.publish()
	n := w.start(mem, func(c *edge.Config) { c.CacheDir = dir })
	n.complete(first)
	crowd := n.crowd()
	crowd.more()

	var before syscall.Rlimit
	must.OK(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	limit := before
	limit.Cur = 1024
	must.OK(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
	})
	second := w.publish()
	n.complete(second)
	crowd.more()
	last := w.publish()
	n.complete(last)
	crowd.always()
	n.eventually("trouble with the disk", func(s status) bool {
		return s.Status == "degraded" && s.Caches.DiskErrors > 0 && s.Caches.OffDisk > 0 &&
			strings.Contains(fmt.Sprint(s.Reasons), "the cache folder cannot be written: ") &&
			strings.Contains(fmt.Sprint(s.Reasons), "the cache folder contains an unusable file: a manifest of a snapshot")
	})
	must.OK(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
	n.eventually("the manifest kept", func(s status) bool {
		return !strings.Contains(fmt.Sprint(s.Reasons), "the cache folder contains an unusable file: ")
	})
	for _, key := range []artifacts.Key{artifacts.CurrentKey, artifacts.ManifestKey(last.Pointer.Manifest.Digest)} {
		stored, _, err := mem.Get(t.Context(), key, artifacts.MaxManifestSize)
		must.OK(t, err)
		if kept, err := os.ReadFile(filepath.Join(dir, key.String())); err != nil || !bytes.Equal(kept, stored) {
			t.Errorf("%s: kept %d bytes, error %v; the store has %d", key, len(kept), err, len(stored))
		}
	}
	limit.Cur = 1024
	must.OK(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	n.complete(w.publish())
	n.stop() // a write that is in progress must leave no file behind
	must.OK(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), durable.Prefix) {
			t.Errorf("left behind: %s", path)
		}
		return err
	}))
}
