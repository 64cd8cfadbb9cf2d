package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
)

// Head is the published snapshot that a publisher is to replace.
type Head struct {
	version artifacts.Version
	// Pointer and Manifest are nil in a store without a snapshot.
	Pointer  *artifacts.Pointer
	Manifest *artifacts.Manifest
	// LogError is why the log could not be written behind the pointer that replaced the head: no
	// failure, since the next publication writes it.
	LogError error

	naming sync.Mutex
	id     string // the store's, once it was asked for
}

// NewHead returns a head that is replaced whatever the store's pointer says. version is that of
// the pointer as it was read, zero if there is none. The next pointer follows p in sequence; p
// must be of this store.
func NewHead(version artifacts.Version, p *artifacts.Pointer) *Head {
	return &Head{version: version, Pointer: p}
}

// readHeadTries bounds how often ReadHead starts again because the pointer
// moved on, and gc removed the manifest or the change record was written in between.
const readHeadTries = 3

// ReadHead is ReadHeadSince of a store of which nothing was seen before.
func ReadHead(ctx context.Context, r artifacts.ObjectReader) (*Head, error) {
	return ReadHeadSince(ctx, r, Seen{})
}

// ReadHeadSince reads the pointer and its manifest. It returns a Head without a snapshot for a store
// that never had a pointer, and the error of CheckPointer, with the head that is there.
func ReadHeadSince(ctx context.Context, r artifacts.ObjectReader, seen Seen) (*Head, error) {
	for try := 1; ; try++ {
		p, version, err := ReadPointer(ctx, r)
		if errors.Is(err, artifacts.ErrNotFound) {
			return &Head{}, CheckPointer(ctx, r, nil, seen)
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
		err = CheckPointer(ctx, r, p, seen)
		if errors.Is(err, ErrLost) && try < readHeadTries {
			continue
		}
		return &Head{version: version, Pointer: p, Manifest: m}, err
	}
}

// ReadPointer reads and parses the pointer, and returns its version, too. The error is or wraps the store's,
// artifacts.ErrNotFound if there is no pointer, or that of artifacts.ParsePointer.
func ReadPointer(ctx context.Context, r artifacts.ObjectReader) (*artifacts.Pointer, artifacts.Version, error) {
	b, version, err := r.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if err != nil {
		return nil, "", fmt.Errorf("read pointer: %w", err)
	}
	p, err := artifacts.ParsePointer(b)
	return p, version, err
}

// Withdraw sets the withdrawn times of next: those to which a rollback could still go, after
// next's oldest snapshot. It leaves out the times that next itself publishes.
func Withdraw(next *artifacts.Manifest, withdrawn []time.Time, through time.Time) {
	oldest := next.Oldest()
	next.Withdrawn = slices.DeleteFunc(slices.Clone(withdrawn), func(t time.Time) bool {
		return !t.After(oldest) || t.Equal(next.Time) || Retains(next, t)
	})
	slices.SortFunc(next.Withdrawn, time.Time.Compare)
	next.Withdrawn = slices.CompactFunc(next.Withdrawn, time.Time.Equal)
	if next.WithdrawnThrough = (time.Time{}); through.After(oldest) {
		next.WithdrawnThrough = through
	}
}

// Retains reports whether m retains a snapshot of time t.
func Retains(m *artifacts.Manifest, t time.Time) bool {
	return slices.ContainsFunc(m.Retained, func(ret artifacts.Retained) bool { return ret.Time.Equal(t) })
}

// Stamp is a snapshot's time as reports and messages write it.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
