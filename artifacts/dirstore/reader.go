package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/durable"
	"github.com/zeebo/xxh3"
)

// Reader is an artifacts.Reader of a folder. It needs only read permission for the folder.
type Reader struct {
	root string
}

var _ artifacts.Reader = (*Reader)(nil)

// NewReader returns a reader of the store in the folder at the given path. The folder need not
// exist yet: until it does, every call returns an error.
func NewReader(path string) (*Reader, error) {
	if path == "" {
		return nil, errors.New("store folder: the path is empty")
	}
	root, err := filepath.Abs(path) // because the process may change its working directory
	if err != nil {
		return nil, fmt.Errorf("store folder: %w", err)
	}
	return &Reader{root: root}, nil
}

// Get implements artifacts.Reader.
func (r *Reader) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	return r.GetIf(ctx, key, "", limit)
}

// GetIf implements artifacts.Reader.
func (r *Reader) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	if err := ready(ctx, key); err != nil {
		return nil, "", fmt.Errorf("get %.100s: %w", key, err)
	}
	b, err := r.read(key, limit)
	if err != nil {
		return nil, "", fmt.Errorf("get %s: %w", key, err)
	}
	v := version(b)
	if v == known {
		return nil, "", fmt.Errorf("get %s: %w", key, artifacts.ErrNotModified)
	}
	return b, v, nil
}

func ready(ctx context.Context, key artifacts.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return key.Check()
}

func version(b []byte) artifacts.Version {
	h := xxh3.Hash128(b)
	return artifacts.Version(fmt.Sprintf("%016x%016x", h.Hi, h.Lo))
}

// path returns the path of the file of a key.
func (r *Reader) path(key artifacts.Key) string { return r.folder(key.String()) }

// folder returns the path of a folder or file inside the store's folder.
func (r *Reader) folder(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }

// read returns the object of a key. The caller has checked the key.
func (r *Reader) read(key artifacts.Key, limit int64) ([]byte, error) {
	f, size, err := r.open(key)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are taken", artifacts.ErrTooLarge, size, limit)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	return b, nil
}

// open opens the object of a key, which the caller has checked. Files in a store never change, so
// the size of the file is the size of the object.
func (r *Reader) open(key artifacts.Key) (*os.File, int64, error) {
	f, err := durable.Open(r.path(key))
	if errors.Is(err, durable.ErrNotRegular) { // It is a folder: there are keys under this one.
		return nil, 0, artifacts.ErrNotFound
	}
	if err != nil {
		return nil, 0, r.absence(err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// absence turns the error for a missing file into ErrNotFound, provided that the store's folder
// exists.
func (r *Reader) absence(err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	if err := r.present(); err != nil {
		return err
	}
	return artifacts.ErrNotFound
}

// present returns an error unless the store's folder exists.
func (r *Reader) present() error {
	info, err := os.Stat(r.root)
	if err != nil {
		return fmt.Errorf("%w: store folder: %w", artifacts.ErrNoAccess, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: store folder: %s is not a folder", artifacts.ErrNoAccess, r.root)
	}
	return nil
}
