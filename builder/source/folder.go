package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"example.com/marketdata/internal/durable"
)

// folder is the source feed:PATH.
type folder string

func openFolder(_ context.Context, path string) (Source, error) {
	if path == "" {
		return nil, errors.New("want the path of a folder: feed:PATH")
	}
	return folder(path), nil
}

func (f folder) String() string { return "feed:" + string(f) }

// Files follows symbolic links once. To replace a feed while a builder runs, write a new folder and
// point the link to it, or use Write.
func (f folder) Files(context.Context, time.Time) (Files, error) {
	path, err := filepath.EvalSymlinks(string(f))
	if err != nil {
		return nil, fmt.Errorf("feed folder: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("feed folder: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("feed folder: %s is not a folder", f)
	}
	return FS(durable.DirFS(path)), nil
}

// FS returns the files at the root of fsys.
func FS(fsys fs.FS) Files { return fsFiles{fsys} }

type fsFiles struct{ fsys fs.FS }

func (f fsFiles) Open(_ context.Context, name string) (io.ReadCloser, error) {
	file, err := f.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return sizedFile{file, info.Size()}, nil
}

func (f fsFiles) list() (names []string) {
	entries, _ := fs.ReadDir(f.fsys, ".") // only for suggestions
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

type sizedFile struct {
	fs.File
	size int64
}

func (f sizedFile) Size() int64 { return f.size }

// Memory is a feed in memory. It maps file names to contents.
type Memory map[string][]byte

// Open implements Files.
func (m Memory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	b, ok := m[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return sizedReader{bytes.NewReader(b)}, nil
}

// Write copies a feed's files into the folder dir, which it creates if necessary. It removes
// feed.json first and writes it last, when all other files are on disk, so nobody mistakes a
// half-written folder for a feed. It leaves other files in dir alone. progress, if not nil, is
// called with the number of bytes written and the size of the file, which is -1 if unknown.
func Write(ctx context.Context, dir string, files Files, progress func(file string, written, total int64)) error {
	// Read feed.json before changing anything, so that dir stays unchanged if the source is not a
	// feed.
	info, err := readInfoFile(ctx, files)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("write feed: %w", err)
	}
	if err := remove(filepath.Join(dir, InfoFile)); err != nil {
		return fmt.Errorf("write feed: %w", err)
	}
	for _, name := range rowFiles {
		if err := copyFile(ctx, dir, name, files, progress); err != nil {
			return fmt.Errorf("write feed: %s: %w", shownName(files, name), err)
		}
	}
	if err := checkInfo(ctx, files, info); err != nil {
		return fmt.Errorf("write feed: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, InfoFile), bytes.NewReader(info), 0o644); err != nil {
		return fmt.Errorf("write feed: %w", err)
	}
	return nil
}

// copyFile copies a file to dir. If the file is not in files, copyFile removes it from dir.
func copyFile(ctx context.Context, dir, name string, files Files, progress func(string, int64, int64)) error {
	in, err := files.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) && name != AssetsFile {
		return remove(filepath.Join(dir, name))
	}
	if err != nil {
		return err
	}
	defer in.Close()
	return durable.WriteFile(filepath.Join(dir, name), watch(ctx, in, name, progress), 0o644)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
