// Package durable writes files that are whole or not there: readers, and
// whoever starts after a crash, see the old contents or the new ones.
package durable

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Prefix begins the names of files that are still being written. Such a file of a killed process is
// useless and can be removed.
const Prefix = ".tmp-"

// WriteFile makes the file at path hold all that from reads. When it returns nil
// the file survives a power cut: its contents are synced before it gets its
// name, and its folder after.
func WriteFile(path string, from io.Reader, mode fs.FileMode) error {
	if err := replace(path, from, mode, (*os.File).Sync); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// CreateFile is WriteFile for a path that must be free: anything there is an error that is
// fs.ErrExist, and stays.
func CreateFile(path string, from io.Reader, mode fs.FileMode) error {
	temp, err := Temp(filepath.Dir(path), from, mode, (*os.File).Sync)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Link(temp, path), os.Remove(temp)); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// ReplaceFile is WriteFile without the wait for the disk, for what can be made
// again and is checked when it is read: after a power cut the file may be empty,
// short or full of zeros.
func ReplaceFile(path string, from io.Reader, mode fs.FileMode) error {
	return replace(path, from, mode, nil)
}

func replace(path string, from io.Reader, mode fs.FileMode, sync func(*os.File) error) error {
	temp, err := Temp(filepath.Dir(path), from, mode, sync)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// Temp writes all that from reads to a new file in dir and returns its path, for
// callers that give it its name themselves. The file is synced by sync, if there
// is one, removed again after an error, and root's only in a folder of root; see Inherit.
func Temp(dir string, from io.Reader, mode fs.FileMode, sync func(*os.File) error) (string, error) {
	path := filepath.Join(dir, Prefix+rand.Text())
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", err
	}
	if err = Inherit(f); err == nil {
		_, err = io.Copy(f, from)
	}
	if err == nil && sync != nil {
		err = sync(f)
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return path, nil
}

// Sync makes a file's contents, or a folder's names, durable.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Open opens a regular file for reading. Anything else is an error that names it, at
// once: a pipe has no writer to wait for, and a device no end.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ErrNotRegular: a pipe, a device, a socket or a folder is where a file is wanted.
var ErrNotRegular = errors.New("not a regular file")

// DirFS is os.DirFS with Open in the place of os.Open.
func DirFS(dir string) fs.FS { return dirFS(dir) }

type dirFS string

func (d dirFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return Open(filepath.Join(string(d), filepath.FromSlash(name)))
}

// ReadDir implements fs.ReadDirFS.
func (d dirFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	return os.ReadDir(filepath.Join(string(d), filepath.FromSlash(name)))
}

// ReadFile reads a file of at most limit bytes. A longer one is an error, and nothing
// of it is returned.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}
