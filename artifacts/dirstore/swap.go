package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/internal/refusal"
	"example.com/marketdata/internal/durable"
	"golang.org/x/sys/unix"
)

// Swap implements artifacts.Store.
func (s *Store) Swap(ctx context.Context, key artifacts.Key, old artifacts.Version, data []byte,
) (artifacts.Version, error) {
	err := ready(ctx, key)
	if err == nil {
		err = s.locked(ctx, func() error { return s.replace(key, old, data) })
	}
	if err != nil {
		return "", fmt.Errorf("swap %.100s: %w", key, refusal.Folder(err))
	}
	return version(data), nil
}

// replace compares and swaps. The caller holds the lock.
func (s *Store) replace(key artifacts.Key, old artifacts.Version, data []byte) error {
	var have artifacts.Version
	b, err := s.read(key, 1<<62)
	switch {
	case err == nil:
		have = version(b)
	case !errors.Is(err, artifacts.ErrNotFound):
		return err
	}
	if have != old {
		return fmt.Errorf("%w: version is %q, not %q", artifacts.ErrConflict, have, old)
	}
	err = s.write(key, data, old != "", s.fsync)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: the object was created in the meantime", artifacts.ErrConflict)
	}
	if err != nil {
		return err
	}
	// If the machine stops before this is done, the old object may come back. That is allowed,
	// because Swap has not returned yet.
	for dir := key.String(); dir != "."; {
		dir = path.Dir(dir)
		if err := s.syncPath(s.folder(dir)); err != nil {
			return err
		}
	}
	return nil
}

// locked calls f while no other call, in this process or another, is swapping or deleting.
func (s *Store) locked(ctx context.Context, f func() error) error {
	if err := acquire(ctx, s.swap); err != nil {
		return err
	}
	defer func() { <-s.swap }()
	lock, err := s.openLock()
	if err != nil {
		return err
	}
	defer lock.Close() // releases the lock
	// flock(2) cannot be interrupted by a context, so poll. Other processes hold the lock only for
	// a few milliseconds.
	const least, most = time.Millisecond, 10 * time.Millisecond
	for wait := least; ; wait = min(2*wait, most) {
		switch err := tryLock(lock); {
		case err == nil:
			return f()
		case !errors.Is(err, unix.EWOULDBLOCK):
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the lock of another process: %w", ctx.Err())
		case <-time.After(wait):
		}
	}
}

func (s *Store) openLock() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.root, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := durable.Inherit(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func tryLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
		return nil
	}
}

// acquire acquires the semaphore c.
func acquire(ctx context.Context, c chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Delete implements artifacts.Store. After a power cut the object may come back.
func (s *Store) Delete(ctx context.Context, key artifacts.Key) error {
	err := ready(ctx, key)
	if err == nil {
		// The lock prevents a deletion between the comparison and the rename of a swap.
		err = s.locked(ctx, func() error { return s.remove(key) })
	}
	if err != nil {
		return fmt.Errorf("delete %.100s: %w", key, refusal.Folder(err))
	}
	return nil
}

func (s *Store) remove(key artifacts.Key) error {
	s.mu.Lock()
	delete(s.dirty, key)
	delete(s.suspect, key)
	s.mu.Unlock()
	// Unlike os.Remove, Unlink does not remove an empty folder.
	err := unix.Unlink(s.path(key))
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) && s.isFolder(key) {
		return nil // There is no such object. Linux returns EISDIR, POSIX says EPERM.
	}
	if err == nil || errors.Is(s.absence(err), artifacts.ErrNotFound) {
		return nil
	}
	return &fs.PathError{Op: "unlink", Path: s.path(key), Err: err}
}

func (s *Store) isFolder(key artifacts.Key) bool {
	info, err := os.Lstat(s.path(key))
	return err == nil && info.IsDir()
}
