package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/stores"
)

// maxObject is the maximum size of a feed file in an object store, in bytes. It suffices for a few
// million assets.
const maxObject = 4 << 30

// objects is a feed whose files are the objects under a prefix in a store.
type objects struct {
	store artifacts.ObjectReader
	name  string
}

// openS3 opens feed+s3://BUCKET/PREFIX?endpoint=URL&region=REGION. Package stores describes the
// URL. Package s3store describes where credentials come from.
func openS3(ctx context.Context, rest string) (Source, error) {
	store, err := stores.OpenReader(ctx, "s3:"+rest)
	if err != nil {
		return nil, err
	}
	return &objects{store, "feed+s3:" + rest}, nil
}

func (o *objects) String() string { return o.name }

// Files returns the objects in their current state, without checking them. To replace a feed while
// a builder runs, remove feed.json first and write it last.
func (o *objects) Files(context.Context, time.Time) (Files, error) { return o, nil }

// Open fetches an object with one request, so that it cannot change while it is read.
func (o *objects) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	key, err := artifacts.ParseKey(name)
	if err != nil {
		return nil, fmt.Errorf("get %.100s: %w", name, err)
	}
	b, _, err := o.store.Get(ctx, key, maxObject)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	return sizedReader{bytes.NewReader(b)}, nil
}

// sizedReader is an in-memory file. Its Size method is used to report progress.
type sizedReader struct{ *bytes.Reader }

func (sizedReader) Close() error { return nil }
