//go:build unix

package edge_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/edge"
)

// TestDiskFull: files cannot grow past a kilobyte, so that writes fail in the
// middle as on a full disk. The edge goes on without, and leaves no half files.
func TestDiskFull(t *testing.T) {
	mem, dir := memstore.New(), t.TempDir()
	w := newWorld(t, mem)
	first := w.publish()
	n := w.start(mem, func(c *edge.Config) { c.CacheDir = dir })
	n.complete(first)
	crowd := n.crowd()
	crowd.more()

	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := before
	limit.Cur = 1024
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
	})
	second := w.publish()
	n.complete(second)
	crowd.more()
	n.complete(w.publish())
	crowd.always()
	if s := n.status(); s.Caches.DiskErrors == 0 {
		t.Errorf("no trouble with the disk is reported: %+v", s)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "tmp-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
