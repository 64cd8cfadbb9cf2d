package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"example.com/marketdata/internal/durable"
)

// newFolder makes the folder dir, completely or not at all: it lets fill write a hidden folder next
// to dir, and then renames that folder to dir. dir must be missing or empty. A command that is
// killed in the meantime leaves the hidden folder, .NAME.partial-…, behind.
func newFolder(dir string, fill func(hidden string) error) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := vacant(dir); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := durable.MkdirAll(parent, 0o777); err != nil {
		return err
	}
	hidden := filepath.Join(parent, "."+filepath.Base(dir)+".partial-"+rand.Text())
	if err := durable.Mkdir(hidden, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(hidden))
		}
	}()
	if err := fill(hidden); err != nil {
		return err
	}
	if err := os.Chmod(hidden, 0o755); err != nil {
		return err
	}
	// os.Rename does not replace a folder. Rmdir fails if dir has been filled in the meantime.
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the empty folder %s: %w", dir, err)
	}
	if err := os.Rename(hidden, dir); err != nil {
		return err
	}
	return durable.Sync(parent)
}

// vacant returns an error if dir is a file or is not empty.
func vacant(dir string) error {
	there, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s is a file; want a folder that is missing or empty", dir)
	case err != nil:
		return err
	case len(there) > 0:
		return fmt.Errorf("%s is not empty; want a folder that is missing or empty", dir)
	}
	return nil
}
