package edge

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/durable"
	"golang.org/x/sys/unix"
)

// folder is the cache folder, which no other edge may use. The operating system releases the lock when the
// process ends, however it ends.
type folder struct {
	path      string
	lock      *os.File
	temporary bool
}

// errInUse means that another edge has the lock.
var errInUse = errors.New("another edge uses it, or still drains: each edge needs a folder of its own")

// openFolder opens and locks --cache-dir. If path is empty, it creates a temporary folder, which is removed
// at exit. unlocked is the reason why the folder could not be locked although no other edge uses it, for
// example because its file system has no locks.
func openFolder(path string, log *slog.Logger) (f *folder, unlocked, err error) {
	if path == "" {
		f, err = makeFolder(log)
		return f, nil, err
	}
	if err := durable.MkdirAll(path, 0o755); err != nil {
		return nil, nil, fmt.Errorf("cache folder: %w", err)
	}
	// A cache folder contains no identity. The edge must not evict objects from a store or a backup.
	if _, err := os.Lstat(filepath.Join(path, artifacts.IdentityKey.String())); err == nil {
		return nil, nil, fmt.Errorf("--cache-dir %s has a store or a backup in it, which an edge only reads: want a folder"+
			" of its own", path)
	}
	f = &folder{path: path}
	if f.lock, err = lockFolder(path); errors.Is(err, errInUse) {
		return nil, nil, fmt.Errorf("--cache-dir %s: %w", path, err)
	}
	return f, err, nil
}

// lockFolder locks the folder itself, because the edge may lack the permission to write files in it.
func lockFolder(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errInUse
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// temporaryName is the name prefix of temporary folders. Earlier versions used another prefix and no lock.
const temporaryName = "marketdata-edge-"

// makeFolder creates a temporary folder. It also removes the temporary folders of edges that were killed.
func makeFolder(log *slog.Logger) (*folder, error) {
	removeDead(log)
	for range 10 {
		path, err := os.MkdirTemp("", temporaryName)
		if err != nil {
			return nil, fmt.Errorf(
				"no folder for the disk copy: %w: give --cache-dir, or set TMPDIR to one that may be written", err)
		}
		f := &folder{path: path, temporary: true}
		if f.lock, err = lockFolder(path); err == nil {
			if _, err = os.Lstat(path); err == nil {
				return f, nil
			}
			f.close(log)
		} else if !errors.Is(err, errInUse) && !errors.Is(err, fs.ErrNotExist) {
			return f, nil // the file system has no locks, so no other edge removes the folder
		}
		// Another edge that is starting has locked it because it looked abandoned.
	}
	return nil, errors.New("no folder for the disk copy: other programs remove it: give --cache-dir")
}

// removeDead removes this user's temporary folders that no running edge has locked.
func removeDead(log *slog.Logger) {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), temporaryName+"*")) // the pattern is valid
	for _, path := range paths {
		var stat unix.Stat_t
		if unix.Lstat(path, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != os.Geteuid() {
			continue
		}
		if lock, err := lockFolder(path); err == nil {
			(&folder{path: path, lock: lock, temporary: true}).close(log)
		}
	}
}

// close removes a temporary folder, and releases the lock.
func (f *folder) close(log *slog.Logger) {
	if f.temporary {
		if err := os.RemoveAll(f.path); err != nil {
			log.Warn("temporary cache folder stays", "err", err)
		}
	}
	if f.lock != nil {
		_ = f.lock.Close() // nothing was written to it
	}
}
