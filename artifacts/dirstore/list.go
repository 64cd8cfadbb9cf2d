package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"example.com/marketdata/artifacts"
)

// List implements artifacts.Store. What no Put or Swap can have written, by its name, is left out.
func (s *Store) List(ctx context.Context, prefix string, f func(artifacts.Info) error) error {
	err := artifacts.CheckPrefix(prefix)
	if err == nil {
		err = ctx.Err()
	}
	var stop error // f's
	if err == nil {
		base := prefix[:strings.LastIndexByte(prefix, '/')+1]
		err = filepath.WalkDir(s.folder(base), func(p string, d fs.DirEntry, err error) error {
			info, key, err := s.visit(ctx, p, d, err)
			if err != nil || info == nil || !strings.HasPrefix(key.String(), prefix) {
				return err
			}
			if stop = f(artifacts.Info{Key: key, Size: info.Size(), Modified: info.ModTime()}); stop != nil {
				return fs.SkipAll
			}
			return nil
		})
	}
	if stop != nil {
		return stop
	}
	if err != nil {
		return fmt.Errorf("list %.100s: %w", prefix, err)
	}
	return nil
}

// visit looks at one file or folder of a walk; info is nil when it is not an object.
func (s *Store) visit(ctx context.Context, p string, d fs.DirEntry, err error,
) (info fs.FileInfo, key artifacts.Key, _ error) {
	if err == nil {
		err = ctx.Err()
	}
	var rel string
	if err == nil {
		rel, err = filepath.Rel(s.root, p)
	}
	if err == nil && rel != "." && strings.HasPrefix(d.Name(), ".") && d.IsDir() {
		return nil, key, fs.SkipDir
	}
	if err == nil && d.Type().IsRegular() {
		var illegal error
		if key, illegal = artifacts.ParseKey(filepath.ToSlash(rel)); illegal == nil {
			info, err = d.Info()
		}
	}
	if err != nil {
		// Gone since its folder was read, or there never was such a folder.
		if err = s.absence(err); errors.Is(err, artifacts.ErrNotFound) {
			err = nil
		}
		return nil, key, err
	}
	return info, key, nil
}
