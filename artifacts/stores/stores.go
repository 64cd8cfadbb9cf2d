// Package stores opens the store that an address names:
//
//	file:PATH                    a folder, see package dirstore
//	s3://bucket/prefix?...       a bucket, see package s3store
//
// The path after file: is taken literally, without decoding. It may be relative.
package stores

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/artifacts/s3store"
)

// Options are options for Open.
type Options struct {
	// Create creates the folder of a directory store if it does not exist. Buckets are never
	// created.
	Create bool
}

// Open opens a store for a builder. A folder must exist unless o.Create is set. Open does not
// access a bucket yet.
func Open(ctx context.Context, address string, o Options) (artifacts.Store, error) {
	bucket, path, err := resolve(ctx, address)
	switch {
	case err != nil:
		return nil, err
	case bucket != nil:
		return bucket, nil
	}
	s, err := dirstore.Open(path, dirstore.Options{Create: o.Create})
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", address, err)
	}
	return s, nil
}

// OpenReader opens a store for an edge. The folder or bucket need not exist yet: until it does,
// each read returns an error other than ErrNotFound.
func OpenReader(ctx context.Context, address string) (artifacts.Reader, error) {
	bucket, path, err := resolve(ctx, address)
	switch {
	case err != nil:
		return nil, err
	case bucket != nil:
		return bucket, nil
	}
	r, err := dirstore.NewReader(path)
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", address, err)
	}
	return r, nil
}

// resolve returns the bucket that address names or, if bucket is nil, the path of the folder.
func resolve(ctx context.Context, address string) (bucket *s3store.Store, path string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", fmt.Errorf("store %q: %w", address, err)
	}
	if isS3(address) {
		bucket, err = s3store.Open(address, s3store.Options{})
	} else {
		path, err = filePath(address)
	}
	return bucket, path, err
}

// Local reports whether the store at address is on this machine, where reading keeps the processor
// busy rather than the network.
func Local(address string) bool { return !isS3(address) }

func isS3(address string) bool { return strings.HasPrefix(address, "s3:") }

func filePath(address string) (string, error) {
	path, ok := strings.CutPrefix(address, "file:")
	var err error
	switch {
	case !ok:
		meant := ""
		if address != "" && !strings.Contains(address, ":") {
			meant = "did you mean file:" + address + "? "
		}
		err = errors.New(meant +
			"want file:PATH or s3://bucket/prefix?endpoint=http://host:port&region=name&path-style=true|false")
	case path == "":
		err = errors.New("want file:PATH: the path is empty")
	case strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		err = errors.New("want file:PATH or file:///PATH, without a host")
	case strings.ContainsRune(path, '?'):
		err = errors.New("want file:PATH, without parameters")
	}
	if err != nil {
		return "", fmt.Errorf("store %q: %w", address, err)
	}
	return path, nil
}
