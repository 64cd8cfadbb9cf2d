package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"example.com/marketdata/artifacts"
)

// Head is the published snapshot that a publisher starts from and means to
// replace.
type Head struct {
	version artifacts.Version
	// Pointer and Manifest are nil in a store that holds no snapshot yet.
	Pointer  *artifacts.Pointer
	Manifest *artifacts.Manifest

	naming sync.Mutex
	id     string // the store's, once it was asked for
}

// NewHead returns a head to replace by hand, whatever the store's pointer says:
// version is the pointer's as it was read, zero when there is none. The next
// pointer follows p, which must be of this store, in sequence.
func NewHead(version artifacts.Version, p *artifacts.Pointer) *Head {
	return &Head{version: version, Pointer: p}
}

// readHeadTries bounds how often ReadHead starts again because the pointer
// moved on and gc removed the manifest in between.
const readHeadTries = 3

// ReadHead reads the pointer and its manifest. A store that answers, holds no
// pointer and never had one gives a Head without a snapshot. A store that lost its
// pointer gives ErrLost.
func ReadHead(ctx context.Context, r artifacts.Reader) (*Head, error) {
	for try := 1; ; try++ {
		p, version, err := readPointer(ctx, r)
		if errors.Is(err, artifacts.ErrNotFound) {
			return &Head{}, CheckLost(ctx, r)
		}
		if err != nil {
			return nil, err
		}
		m, err := artifacts.ReadManifest(ctx, r, p.Manifest)
		if errors.Is(err, artifacts.ErrNotFound) && try < readHeadTries {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("published snapshot: %w", err)
		}
		if !m.Time.Equal(p.Time) {
			return nil, fmt.Errorf("%w: pointer is of %v, its manifest of %v", artifacts.ErrCorrupt, p.Time, m.Time)
		}
		return &Head{version: version, Pointer: p, Manifest: m}, nil
	}
}

func readPointer(ctx context.Context, r artifacts.Reader) (*artifacts.Pointer, artifacts.Version, error) {
	b, version, err := r.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if err != nil {
		return nil, "", fmt.Errorf("read pointer: %w", err)
	}
	p, err := artifacts.ParsePointer(b)
	return p, version, err
}
