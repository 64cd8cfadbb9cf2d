package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/internal/refusal"
)

// List implements artifacts.Store. It follows symbolic links, as Get does. It skips files whose
// names cannot be keys.
func (s *Store) List(ctx context.Context, prefix string, f func(artifacts.Info) error) error {
	err := artifacts.CheckPrefix(prefix)
	var stop error // the error of f
	if err == nil {
		base := strings.TrimSuffix(prefix[:strings.LastIndexByte(prefix, '/')+1], "/")
		err = s.walk(ctx, base, nil, func(key artifacts.Key, info fs.FileInfo) error {
			if strings.HasPrefix(key.String(), prefix) {
				stop = f(artifacts.Info{Key: key, Size: info.Size(), Modified: info.ModTime()})
			}
			return stop
		})
	}
	if stop != nil {
		return stop
	}
	if err != nil {
		return fmt.Errorf("list %.100s: %w", prefix, refusal.Folder(err))
	}
	return nil
}

// walk calls f for each object in the folder with the given name. parents are the folders that
// contain it; a link to one of them is skipped. It is not an error if the folder does not exist, or
// if an entry disappears after the folder was read.
func (s *Store) walk(ctx context.Context, name string, parents []fs.FileInfo, f func(artifacts.Key, fs.FileInfo) error,
) error {
	info, err := os.Stat(s.folder(name))
	var entries []fs.DirEntry
	if err == nil {
		if slices.ContainsFunc(parents, func(a fs.FileInfo) bool { return os.SameFile(a, info) }) {
			return nil
		}
		entries, err = os.ReadDir(s.folder(name))
	}
	if err != nil {
		return s.unlessGone(err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := s.visit(ctx, path.Join(name, e.Name()), e, append(parents, info), f); err != nil {
			return err
		}
	}
	return nil
}

// visit walks an entry that is a folder, and calls f for an entry that is an object.
func (s *Store) visit(ctx context.Context, name string, e fs.DirEntry, parents []fs.FileInfo,
	f func(artifacts.Key, fs.FileInfo) error,
) error {
	if e.IsDir() {
		return s.walk(ctx, name, parents, f)
	}
	key, illegal := artifacts.ParseKey(name)
	if illegal != nil && e.Type()&fs.ModeSymlink == 0 {
		return nil
	}
	info, err := os.Stat(s.folder(name))
	switch {
	case err != nil:
		return s.unlessGone(err)
	case info.IsDir():
		return s.walk(ctx, name, parents, f)
	case !info.Mode().IsRegular() || illegal != nil:
		return nil
	}
	return f(key, info)
}

// unlessGone returns err, or nil if err only means that the file or folder does not exist, or is a
// link to itself.
func (s *Store) unlessGone(err error) error {
	if err = s.absence(err); errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	return err
}
