package dirstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/storetest"
)

// otherDisk returns a folder that is, if possible, on a different file system from that of
// temporary folders.
func otherDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "dirstore-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { must.OK(t, os.RemoveAll(dir)) })
	return dir
}

// link replaces the named folders of a store with links to another disk.
func link(t *testing.T, root string, names ...string) (disk string) {
	t.Helper()
	disk = otherDisk(t)
	for _, name := range names {
		must.OK(t, os.Mkdir(filepath.Join(disk, name), 0o755))
		must.OK(t, os.Symlink(filepath.Join(disk, name), filepath.Join(root, name)))
	}
	return disk
}

// TestStoreOnTwoDisks checks that a store whose folders are links keeps all promises of a store.
func TestStoreOnTwoDisks(t *testing.T) {
	storetest.TestStore(t, func(t *testing.T) artifacts.Store {
		root := t.TempDir()
		link(t, root, "objects", "manifests", "probe", "log")
		return open(t, root)
	})
}

// TestLinks checks that List finds every object that Get finds if a folder of the store is a link
// to a larger disk (bidbot 72, deja-vu 1744), and with links inside it to files and to nothing.
func TestLinks(t *testing.T) {
	ctx := t.Context()
	root := t.TempDir()
	disk := link(t, root, "objects", "manifests")
	whole := filepath.Join(disk, "whole") // the store itself is a link, too
	must.OK(t, os.Symlink(root, whole))
	s := open(t, whole)
	keys := []artifacts.Key{
		artifacts.CurrentKey, artifacts.MustKey("other/deep/link/a"), artifacts.MustKey("other/file")}
	for _, text := range []string{"a", "b", "c"} {
		d := artifacts.Sum([]byte(text))
		keys = append(keys, artifacts.ObjectKey(d), artifacts.ManifestKey(d))
		must.OK(t, s.Put(ctx, artifacts.ObjectKey(d), []byte(text)))
		must.OK(t, s.Put(ctx, artifacts.ManifestKey(d), []byte(text)))
	}
	must.OK(t, s.Sync(ctx))
	must.Get(s.Swap(ctx, artifacts.CurrentKey, "", []byte("x")))(t)
	must.OK(t, os.MkdirAll(filepath.Join(root, "other/deep"), 0o755))
	must.OK(t, os.MkdirAll(filepath.Join(disk, "elsewhere"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(disk, "elsewhere/a"), nil, 0o600))
	for from, to := range map[string]string{
		"other/deep/link": filepath.Join(disk, "elsewhere"), "other/file": filepath.Join(disk, "elsewhere/a"),
		"other/nothing": "not-there", "other/deep/up": "..", "other/self": "self",
	} {
		must.OK(t, os.Symlink(to, filepath.Join(root, from)))
	}
	list := func(prefix string) (got []string) {
		must.OK(t, s.List(ctx, prefix, func(i artifacts.Info) error {
			got = append(got, i.Key.String())
			if _, _, err := s.Get(ctx, i.Key, 10); err != nil || i.Modified.IsZero() {
				t.Errorf("%s is listed: %v", i.Key, err)
			}
			return nil
		}))
		slices.Sort(got)
		return got
	}
	object := keys[3].String()
	for _, prefix := range []string{"", "objects/", "manifests/", object[:11], "other/deep/li"} {
		var want []string
		for _, key := range keys {
			if strings.HasPrefix(key.String(), prefix) {
				want = append(want, key.String())
				must.Get(os.Stat(s.path(key)))(t)
			}
		}
		slices.Sort(want)
		if got := list(prefix); !slices.Equal(got, want) {
			t.Errorf("List(%q) gives %q, want %q", prefix, got, want)
		}
	}
	// SelfTest also removes the files that dead writers left on the other disk.
	stale := filepath.Join(disk, "objects", tempFolder, "stale")
	must.OK(t, os.WriteFile(stale, nil, 0o600))
	old := time.Now().Add(-2 * staleAfter)
	must.OK(t, os.Chtimes(stale, old, old))
	must.OK(t, s.SelfTest(ctx))
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a stale file: %v", err)
	}
	for _, key := range keys {
		must.OK(t, s.Delete(ctx, key))
	}
	if got := list("objects/"); len(got) > 0 {
		t.Errorf("left after Delete: %q", got)
	}
}

// TestUnfit checks the advice in errors of file systems that cannot hold a store. link(2): "EPERM
// The filesystem [...] does not support the creation of hard links"; flock(2) and NFS: ENOLCK;
// fsync(2): EINVAL, "fd is bound to a special file which does not support synchronization", here
// /dev/null.
func TestUnfit(t *testing.T) {
	null := must.Get(os.Open("/dev/null"))(t)
	defer null.Close()
	for _, c := range []struct {
		err  error
		want string
	}{
		{null.Sync(), "the file system has no fsync"},
		{&os.LinkError{Op: "link", Err: syscall.EPERM}, "the file system makes no hard links"},
		{&os.LinkError{Op: "link", Err: syscall.EOPNOTSUPP}, "the file system makes no hard links"},
		{&fs.PathError{Op: "flock", Err: syscall.ENOLCK}, "the file system has no locks"},
		{&fs.PathError{Op: "open", Err: syscall.EROFS}, "the file system is mounted read-only"},
	} {
		s := open(t, t.TempDir())
		calls := 0
		s.fsync = func(*os.File) error { calls++; return c.err }
		err := retry.New(s, retry.Options{Tries: 3, Wait: 1, MaxWait: 1}).SelfTest(t.Context())
		if !errors.Is(err, artifacts.ErrRefused) || !strings.Contains(err.Error(), c.want) || calls != 1 {
			t.Errorf("after %d calls %v, want %q", calls, err, c.want)
		}
	}
}
