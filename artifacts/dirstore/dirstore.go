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

// The store's own files. Segments of keys never begin with a dot.
const (
	tempFolder = ".tmp"
	lockFile   = ".lock"
)

// staleAfter is the age from which a file in .tmp counts as left behind by a writer that died. A
// live writer links its file within moments.
const staleAfter = time.Hour

// syncers is the number of concurrent fsyncs. File systems combine concurrent fsyncs into one
// commit of their journal.
const syncers = 16

// Store is an artifacts.Store in a folder; see the package documentation.
type Store struct {
	Reader
	fsync func(*os.File) error // os.File.Sync, except in tests

	swap    chan struct{} // semaphore: its holder may take the lock on the lock file
	syncing chan struct{} // semaphore: held during Sync

	mu sync.Mutex
	// dirty are the keys that were put but not yet made durable.
	dirty map[artifacts.Key]bool
	// suspect are the keys that a failed Sync did not make durable. After a failed fsync the kernel
	// may keep unwritten data in memory as if it had been written, so neither comparing with such a
	// file nor another fsync of it proves anything.
	suspect map[artifacts.Key]bool
}

var _ artifacts.Store = (*Store)(nil)

// Options are options for Open.
type Options struct {
	// Create creates the folder, and missing folders above it, if it does not exist.
	Create bool
}

// Open opens the store in the folder at the given path for reading and writing. Apart from creating
// the folder it writes nothing.
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

// create creates the store's folder durably.
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

// cleanTemp removes the files that dead writers left in .tmp, including the .tmp folders behind
// links (see tempFolder).
func (s *Store) cleanTemp() error {
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
			continue // Its writer has just removed it, or is still using it.
		}
		if err := os.Remove(filepath.Join(temp, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Now implements artifacts.Store. It returns the time by the file system's clock. On a network file
// system this is not the clock of this machine.
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

// SelfTest implements artifacts.Store. It also checks that the file system honors the lock that
// swaps rely on, and removes the unfinished files of writers that died at least an hour ago.
// Builders call it when they start.
func (s *Store) SelfTest(ctx context.Context) error {
	err := s.locked(ctx, func() error {
		if err := s.cleanTemp(); err != nil {
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
