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

// List implements artifacts.Store. It follows symbolic links, as Get does. What no Put or Swap can
// have written, by its name, is left out.
func (s *Store) List(ctx context.Context, prefix string, f func(artifacts.Info) error) error {
	err := artifacts.CheckPrefix(prefix)
	var stop error // f's
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

// walk calls f for each object in the folder name, which is in those above. A link to one of these
// is left out. What is gone since its folder was read is no error, nor is a folder that never was.
func (s *Store) walk(ctx context.Context, name string, above []fs.FileInfo, f func(artifacts.Key, fs.FileInfo) error,
) error {
	info, err := os.Stat(s.folder(name))
	var entries []fs.DirEntry
	if err == nil {
		if slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) }) {
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
		if err := s.visit(ctx, path.Join(name, e.Name()), e, append(above, info), f); err != nil {
			return err
		}
	}
	return nil
}

// visit walks an entry of a folder, or calls f for it.
func (s *Store) visit(ctx context.Context, name string, e fs.DirEntry, above []fs.FileInfo,
	f func(artifacts.Key, fs.FileInfo) error,
) error {
	if e.IsDir() {
		return s.walk(ctx, name, above, f)
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
		return s.walk(ctx, name, above, f)
	case !info.Mode().IsRegular() || illegal != nil:
		return nil
	}
	return f(key, info)
}

// unlessGone returns the error of a file or folder, nil if it is only not there, or a link to itself.
func (s *Store) unlessGone(err error) error {
	if err = s.absence(err); errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	return err
}
