package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/internal/refusal"
	"example.com/marketdata/artifacts/internal/selftest"
	"example.com/marketdata/internal/durable"
	"golang.org/x/sys/unix"
)

// The store's own files; no key's segment begins with a dot.
const (
	tempFolder = ".tmp"
	lockFile   = ".lock"
)

// staleAfter is the age at which a file in .tmp was left by a writer that died:
// a live one links its file within moments.
const staleAfter = time.Hour

// syncers is how many fsyncs run at a time; file systems join such in one commit of their journal.
const syncers = 16

// Store is an artifacts.Store in a folder; see the package's comment.
type Store struct {
	Reader
	fsync func(*os.File) error // os.File.Sync, but in tests

	swap    chan struct{} // semaphore: who has it may take the lock file
	syncing chan struct{} // semaphore of Sync

	mu sync.Mutex
	// dirty are the keys that were put and not made durable since.
	dirty map[artifacts.Key]bool
	// suspect are the keys that a failed Sync was to make durable. After a
	// failed fsync the kernel may keep what it could not write as if it had:
	// comparing with such a file, or another fsync of it, proves nothing.
	suspect map[artifacts.Key]bool
}

var _ artifacts.Store = (*Store)(nil)

// Options say how a store is opened.
type Options struct {
	// Create makes the folder, and those above it, when it is not there.
	Create bool
}

// Open opens the store in the folder path for reading and writing. But for
// making the folder it writes nothing.
func Open(path string, o Options) (*Store, error) {
	r, err := NewReader(path)
	if err != nil {
		return nil, err
	}
	s := &Store{
		Reader:  *r,
		fsync:   (*os.File).Sync,
		swap:    make(chan struct{}, 1),
		syncing: make(chan struct{}, 1),
		dirty:   map[artifacts.Key]bool{},
		suspect: map[artifacts.Key]bool{},
	}
	if o.Create {
		err = s.create()
	}
	if err == nil {
		err = s.present()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// create makes the store's folder, durably.
func (s *Store) create() error {
	var above []string // the folders that get a new entry
	for p := s.root; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		above = append(above, filepath.Dir(p))
	}
	if err := durable.MkdirAll(s.root, 0o755); err != nil {
		return fmt.Errorf("store folder: %w", err)
	}
	for _, p := range above {
		if err := s.syncPath(p); err != nil {
			return fmt.Errorf("store folder: %w", err)
		}
	}
	return nil
}

// clean removes what writers that died left in .tmp, also behind links (see tempFolder).
func (s *Store) clean() error {
	now, err := s.clock()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return fmt.Errorf("store folder: %w", err)
	}
	for _, e := range entries {
		temp := filepath.Join(s.root, e.Name(), tempFolder)
		switch {
		case e.Name() == tempFolder:
			temp = filepath.Join(s.root, tempFolder)
		case e.Type()&fs.ModeSymlink == 0:
			continue
		}
		if err := cleanFolder(temp, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("store folder: %w", err)
		}
	}
	return nil
}

func cleanFolder(temp string, now time.Time) error {
	entries, err := os.ReadDir(temp)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < staleAfter {
			continue // just removed by its writer, or still in use
		}
		if err := os.Remove(filepath.Join(temp, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Now implements artifacts.Store. It is the file system's clock, which on a
// network is not this machine's.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	err := ctx.Err()
	var now time.Time
	if err == nil {
		now, err = s.clock()
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("clock: %w", refusal.Folder(err))
	}
	return now, nil
}

func (s *Store) clock() (time.Time, error) {
	name, err := s.temp(tempFolder, nil, nil)
	if err != nil {
		return time.Time{}, err
	}
	defer os.Remove(name)
	info, err := os.Stat(name)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// SelfTest implements artifacts.Store. It also proves that the file system
// honours the lock that swaps rely on, and removes what writers that died an
// hour ago or more left unfinished: builders call it when they begin.
func (s *Store) SelfTest(ctx context.Context) error {
	err := s.locked(ctx, func() error {
		if err := s.clean(); err != nil {
			return err
		}
		lock, err := s.openLock()
		if err != nil {
			return err
		}
		defer lock.Close()
		switch err := tryLock(lock); {
		case err == nil:
			return fmt.Errorf("%w: the file system of %s ignores flock: two processes could both win a swap",
				artifacts.ErrRefused, s.root)
		case !errors.Is(err, unix.EWOULDBLOCK):
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("self-test: %w", refusal.Folder(err))
	}
	return selftest.Run(ctx, s, selftest.Names{
		Create: "links that do not replace", Match: "the version to replace", Changed: "the known version",
	})
}
