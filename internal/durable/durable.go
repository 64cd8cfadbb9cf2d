// Package durable writes files atomically: readers, and programs that start after a crash, see
// either the old contents or the new ones.
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

// Prefix is the beginning of the names of unfinished files. If a killed process leaves such a file,
// it can be removed.
const Prefix = ".tmp-"

// WriteFile copies everything from the given reader to the file at path. When it returns nil, the
// file survives a power cut: WriteFile syncs the contents before it renames the file, and the
// folder afterwards.
func WriteFile(path string, from io.Reader, mode fs.FileMode) error {
	if err := replace(path, from, mode, (*os.File).Sync); err != nil {
		return err
	}
	return Sync(filepath.Dir(path))
}

// CreateFile is like WriteFile, except that the path must not exist yet. If it exists, CreateFile
// leaves it unchanged and returns an error that is fs.ErrExist.
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

// ReplaceFile is like WriteFile, but does not wait for the disk. It is for files that can be
// recreated and that are checked when they are read: after a power cut the file may be empty,
// truncated or full of zeros.
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

// Temp copies everything from the given reader to a new file in dir and returns the file's path, for
// callers that rename or link the file themselves. It calls sync on the file unless sync is
// nil, and removes the file after an error. The file's owner is set by Inherit.
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

// Sync makes the contents of a file, or the entries of a folder, durable.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Open opens a regular file for reading. For anything else it immediately returns an error that
// names the file: reading a pipe might wait forever for a writer, and a device might never end.
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

// ErrNotRegular reports a pipe, a device, a socket or a folder where a file was expected.
var ErrNotRegular = errors.New("not a regular file")

// DirFS is like os.DirFS but uses Open instead of os.Open.
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

// ReadFile reads a file of at most limit bytes. For a longer file it returns an error and no data.
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
