package edge

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// child is the environment variable that makes a copy of this test binary run TestKilledChild.
const child = "EDGE_TEST_FOLDER"

// killed runs an edge in another process, with the cache folder dir or with a temporary one, until it is
// killed.
func killed(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "-test.run=^TestKilledChild$")
	cmd.Env = append(os.Environ(), child+"=dir:"+dir)
	var exit *exec.ExitError
	if out, err := cmd.CombinedOutput(); !errors.As(err, &exit) ||
		exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestKilledChild is the edge in the other process. It kills itself.
func TestKilledChild(t *testing.T) {
	dir, is := strings.CutPrefix(os.Getenv(child), "dir:")
	if !is {
		t.Skip("of TestOneEdgeAFolder and TestDeadFolders")
	}
	start(t, memstore.New(), func(c *Config) { c.CacheDir = dir })
	must.OK(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}

// TestOneEdgeAFolder checks that only one edge can use a cache folder. A second edge, by whatever path it
// names the folder, fails to start until the first one has stopped or was killed.
func TestOneEdgeAFolder(t *testing.T) {
	parent := t.TempDir()
	dir, link := filepath.Join(parent, "cache"), filepath.Join(parent, "link")
	killed(t, dir)
	_, stop := start(t, memstore.New(), func(c *Config) { c.CacheDir = dir })
	must.OK(t, os.Symlink(dir, link))
	for _, name := range []string{dir, link, dir + "/../cache"} {
		_, err := New(t.Context(), Config{Reader: memstore.New(), CacheDir: name, Listen: "127.0.0.1:0",
			Admin: "127.0.0.1:0"})
		if err == nil || errors.Is(err, ErrUsage) ||
			!strings.Contains(err.Error(), "--cache-dir "+name+": another edge uses it") {
			t.Errorf("a second edge on %s: %v", name, err)
		}
	}
	must.OK(t, stop())
	e, _ := start(t, memstore.New(), func(c *Config) { c.CacheDir = dir })
	if p := e.floor.Problems(); len(p) > 0 {
		t.Errorf("problems %q", p)
	}
}

// TestCacheInAStore checks that an edge refuses a store or a backup as its cache folder, however the path is
// spelled. An edge that accepted one once evicted all but 17 of 136 files.
func TestCacheInAStore(t *testing.T) {
	dir := t.TempDir()
	teststore.Publish(t, must.Get(dirstore.Open(dir, dirstore.Options{}))(t), teststore.NewFeed(50, 1), teststore.Start)
	link := filepath.Join(t.TempDir(), "link")
	must.OK(t, os.Symlink(dir, link))
	for _, name := range []string{dir, link, dir + "/../" + filepath.Base(dir)} {
		_, err := New(t.Context(), Config{Reader: memstore.New(), CacheDir: name, CacheDirSize: 1,
			Listen: "127.0.0.1:0", Admin: "127.0.0.1:0"})
		if err == nil || !strings.Contains(err.Error(), "has a store or a backup in it") {
			t.Errorf("a cache in %s: %v", name, err)
		}
	}
}

// TestDeadFolders checks that a starting edge removes the temporary folders of killed edges, but no folder of
// a running edge, no file, and no other program's folder.
func TestDeadFolders(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for range 3 {
		killed(t, "")
	}
	if n := len(must.Get(os.ReadDir(temporary))(t)); n == 0 {
		t.Fatal("nothing was left behind")
	}
	alive, _ := start(t, memstore.New(), nil)
	file, other := filepath.Join(temporary, temporaryName+"file"), filepath.Join(temporary, "other")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	must.OK(t, os.Mkdir(other, 0o700))
	second, _ := start(t, memstore.New(), nil)
	want := map[string]bool{alive.folder.path: true, second.folder.path: true, file: true, other: true}
	for _, entry := range must.Get(os.ReadDir(temporary))(t) {
		path := filepath.Join(temporary, entry.Name())
		if !want[path] {
			t.Errorf("%s stays", path)
		}
		delete(want, path)
	}
	if len(want) > 0 {
		t.Errorf("removed: %v", want)
	}
}
