package dirstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/internal/refusal"
	"example.com/marketdata/internal/durable"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Put implements artifacts.Store.
func (s *Store) Put(ctx context.Context, key artifacts.Key, data []byte) error {
	err := ready(ctx, key)
	if err == nil {
		err = s.put(key, data)
	}
	if err != nil {
		return fmt.Errorf("put %.100s: %w", key, refusal.Folder(err))
	}
	return nil
}

func (s *Store) put(key artifacts.Key, data []byte) error {
	s.mu.Lock()
	rewrite := s.suspect[key]
	s.mu.Unlock()
	// Another process may write or delete the object between the check and the write. If so, check
	// again. In practice this does not happen three times in a row.
	var err error
	for range 3 {
		replace := false
		var same bool
		same, err = s.holds(key, data)
		switch {
		case errors.Is(err, artifacts.ErrNotFound):
		case err != nil:
			return err
		case same && !rewrite:
			// Another process may have put the file without syncing it yet.
			if err = unix.Utimes(s.path(key), nil); err == nil {
				s.wrote(key)
				return nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		case same, key.Names(data):
			replace = true
		default:
			return fmt.Errorf("%w: the store holds other bytes under this key", artifacts.ErrConflict)
		}
		if err = s.write(key, data, replace, nil); err == nil {
			s.wrote(key)
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// wrote records that key must be made durable.
func (s *Store) wrote(key artifacts.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.suspect, key)
	s.dirty[key] = true
}

// holds reports whether the object with the given key contains exactly the given data.
func (s *Store) holds(key artifacts.Key, data []byte) (bool, error) {
	f, size, err := s.open(key)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if size != int64(len(data)) {
		return false, nil
	}
	buf := make([]byte, min(len(data), 64<<10))
	for len(data) > 0 {
		n := min(len(buf), len(data))
		if _, err := io.ReadFull(f, buf[:n]); err != nil {
			return false, err
		}
		if !bytes.Equal(buf[:n], data[:n]) {
			return false, nil
		}
		data = data[n:]
	}
	return true, nil
}

// write stores data as the object with the given key. If replace is true, it replaces an existing
// object; otherwise it returns fs.ErrExist if there is one. syncFile, if not nil, is called first
// to make the data durable.
func (s *Store) write(key artifacts.Key, data []byte, replace bool, syncFile func(*os.File) error) error {
	temp, err := s.temp(s.tempFolder(key), data, syncFile)
	if err != nil {
		return err
	}
	place := os.Link
	if replace {
		place = os.Rename
	}
	target := s.path(key)
	err = place(temp, target)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.makeFolders(path.Dir(key.String())); err == nil {
			err = place(temp, target)
		}
	}
	if err != nil || !replace {
		os.Remove(temp) // If this fails, cleanTemp removes the file later.
	}
	return err
}

// tempFolder returns the folder in which the file of a key is first written: .tmp or, if the key's
// first folder is a link, which may lead to another disk, a .tmp in that folder.
func (s *Store) tempFolder(key artifacts.Key) string {
	if top, _, below := strings.Cut(key.String(), "/"); below {
		if info, err := os.Lstat(s.folder(top)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return path.Join(top, tempFolder)
		}
	}
	return tempFolder
}

// temp writes a file in dir, which is one of the .tmp folders, and returns its path.
func (s *Store) temp(dir string, data []byte, syncFile func(*os.File) error) (string, error) {
	write := func() (string, error) {
		return durable.Temp(s.folder(dir), bytes.NewReader(data), 0o644, syncFile)
	}
	temp, err := write()
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.makeFolders(dir); err == nil {
			temp, err = write()
		}
	}
	return temp, err
}

// makeFolders creates the folder dir inside the store's folder, and any missing folders in between.
// It never creates the store's folder itself, because a store that disappeared is an error.
func (s *Store) makeFolders(dir string) error {
	if dir == "." {
		return s.present()
	}
	for i := range len(dir) + 1 {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		if err := durable.Mkdir(s.folder(dir[:i]), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Sync implements artifacts.Store. After an error that does not come from the context, everything
// that was put since the last successful Sync must be put again. A second Sync cannot repair that,
// and does not try.
func (s *Store) Sync(ctx context.Context) error {
	// Another Sync may be writing the objects of this caller. Wait until it has finished, even if
	// nothing else is left to do.
	if err := acquire(ctx, s.syncing); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	defer func() { <-s.syncing }()

	s.mu.Lock()
	keys := s.dirty
	s.dirty = map[artifacts.Key]bool{}
	s.mu.Unlock()
	err := s.syncKeys(ctx, keys)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.suspect
	if ctx.Err() != nil {
		again = s.dirty
	}
	for key := range keys {
		again[key] = true
	}
	return fmt.Errorf("sync: %w", refusal.Folder(err))
}

// syncKeys makes the files of keys and the folders above them durable.
func (s *Store) syncKeys(ctx context.Context, keys map[artifacts.Key]bool) error {
	folders := map[string]bool{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(syncers)
	flush := func(p string) {
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			return s.syncPath(p)
		})
	}
	for key := range keys {
		for dir := key.String(); dir != "."; {
			dir = path.Dir(dir)
			folders[dir] = true
		}
		flush(s.path(key))
	}
	for dir := range folders {
		flush(s.folder(dir))
	}
	return g.Wait()
}

func (s *Store) syncPath(p string) error {
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.fsync(f)
}
