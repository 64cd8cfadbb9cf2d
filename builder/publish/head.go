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

// Head is the published snapshot that a publisher wants to replace.
type Head struct {
	version artifacts.Version
	// Pointer and Manifest are nil if the store has no snapshot.
	Pointer  *artifacts.Pointer
	Manifest *artifacts.Manifest
	// LogError says why Publish could not write the log after it had moved the pointer. It does not
	// make the publication fail, since the next publication writes the log.
	LogError error

	naming sync.Mutex
	id     string // the store's identity, once it has been read
}

// NewHead returns a head that can be replaced, whatever the store's pointer contains. version is
// the version of the pointer that was read, or zero if there is none. The next pointer's sequence
// follows the sequence of p, which must belong to this store.
func NewHead(version artifacts.Version, p *artifacts.Pointer) *Head {
	return &Head{version: version, Pointer: p}
}

// readHeadTries is the maximum number of attempts by ReadHead. It starts again if, between its
// reads, the pointer moved and gc removed the manifest, or the change record was written.
const readHeadTries = 3

// ReadHead is like ReadHeadSince for a store whose earlier state is unknown.
func ReadHead(ctx context.Context, r artifacts.ObjectReader) (*Head, error) {
	return ReadHeadSince(ctx, r, Seen{})
}

// ReadHeadSince reads the pointer and its manifest. For a store that never had a pointer, it
// returns a Head without a snapshot. If CheckPointer fails, ReadHeadSince returns its error
// together with the head that was read.
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

// ReadPointer reads and parses the pointer. It returns the pointer's version, too. An error comes
// from the store (artifacts.ErrNotFound if there is no pointer) or from artifacts.ParsePointer, and
// may be wrapped.
func ReadPointer(ctx context.Context, r artifacts.ObjectReader) (*artifacts.Pointer, artifacts.Version, error) {
	b, version, err := r.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if err != nil {
		return nil, "", fmt.Errorf("read pointer: %w", err)
	}
	p, err := artifacts.ParsePointer(b)
	return p, version, err
}

// Withdraw sets the withdrawn times of the manifest m from the given ones. It keeps only times that
// are later than the oldest snapshot to which a rollback of m can go. It omits times that m itself
// publishes.
func Withdraw(m *artifacts.Manifest, withdrawn []time.Time, through time.Time) {
	oldest := m.Oldest()
	m.Withdrawn = slices.DeleteFunc(slices.Clone(withdrawn), func(t time.Time) bool {
		return !t.After(oldest) || t.Equal(m.Time) || Retains(m, t)
	})
	slices.SortFunc(m.Withdrawn, time.Time.Compare)
	m.Withdrawn = slices.CompactFunc(m.Withdrawn, time.Time.Equal)
	if m.WithdrawnThrough = (time.Time{}); through.After(oldest) {
		m.WithdrawnThrough = through
	}
}

// Retains reports whether m retains a snapshot at time t.
func Retains(m *artifacts.Manifest, t time.Time) bool {
	return slices.ContainsFunc(m.Retained, func(ret artifacts.Retained) bool { return ret.Time.Equal(t) })
}

// Stamp returns a snapshot's time in the form that reports and messages use.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
