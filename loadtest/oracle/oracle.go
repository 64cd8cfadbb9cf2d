// Package oracle computes the correct answers of the market-data service from the snapshots in the object
// store. For this it fills internal/model with the rows of the shards.
//
// It shares only the reading of artifacts (pointer, manifest, objects, shards) with the service, so that it
// does not repeat mistakes of the service. In particular it does not copy the bytes of rows: it decodes each
// row and encodes it again.
package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
)

// Snapshot is a snapshot of a store.
type Snapshot struct {
	*model.Snapshot

	mu     sync.Mutex
	faults []string
	faulty map[int64]bool // ids of quotes with faults, which are not reported again in markets
}

const maxFaults = 20

// Load reads and decodes the snapshot of a manifest. An error means that something could not be read. Faults
// describes rows that violate the interface.
func Load(ctx context.Context, store artifacts.Reader, m *artifacts.Manifest) (*Snapshot, error) {
	s := &Snapshot{Snapshot: &model.Snapshot{
		Time: m.Time, Database: m.Database, Lists: map[string][]model.Row{},
		TotalMarketCap: m.Global.TotalMarketCap, TotalVolume: m.Global.TotalVolume24h,
	}, faulty: map[int64]bool{}}
	if n := m.Notice; n != nil {
		s.Notice = &model.Notice{Text: n.Text, URL: n.URL}
	}
	for _, name := range model.Lists {
		sort := "id"
		if name == "trending" {
			sort = "board"
		}
		v := m.View(name, sort)
		if v == nil && name == artifacts.MarketsCollection {
			s.NoMarkets = true
			continue
		}
		if v == nil {
			return nil, fmt.Errorf("snapshot %s has no view %s/%s", m.Time.Format(model.TimeFormat), name, sort)
		}
		shards, err := read(ctx, store, v)
		if err != nil {
			return nil, fmt.Errorf("snapshot %s: %w", m.Time.Format(model.TimeFormat), err)
		}
		s.list(name, shards)
	}
	if err := errors.Join(s.history(ctx, store, m), s.past(ctx, store, m), s.changes(ctx, store, m)); err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", m.Time.Format(model.TimeFormat), err)
	}
	s.fault("global", s.CheckTotals())
	return s, nil
}

// Faults returns descriptions of rows that violate the interface, at most maxFaults. They include the faults
// that Load has found, and faults in prices that have been requested since.
func (s *Snapshot) Faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

func (s *Snapshot) fault(where string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && len(s.faults) < maxFaults {
		s.faults = append(s.faults, fmt.Sprintf("%s: %v", where, err))
	}
}

// read returns the shards of a view.
func read(ctx context.Context, store artifacts.Reader, v *artifacts.View) (all []*artifacts.Shard, err error) {
	for _, o := range v.Objects {
		b, err := artifacts.ReadObject(ctx, store, o.Ref)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Collection, err)
		}
		shards, err := artifacts.ParseObject(b)
		if err != nil {
			return nil, fmt.Errorf("%s: read %s: %w", v.Collection, artifacts.ObjectKey(o.Digest), err)
		}
		all = append(all, shards...)
	}
	return all, nil
}

// list adds the rows of a listing to s. It completes the rows of markets with the quotes, which must have
// been read before.
func (s *Snapshot) list(name string, shards []*artifacts.Shard) {
	at := 0
	for _, shard := range shards {
		for i := range shard.Len() {
			text, tail := shard.Row(i), shard.Tail(i)
			if name == artifacts.MarketsCollection {
				quote, start := "}", fmt.Sprintf(`{"id":%d,`, shard.ID(i))
				if quotes := s.Lists["quotes"]; at < len(quotes) && strings.HasPrefix(quotes[at].JSON, start) {
					quote = quotes[at].JSON[len(start)-1:]
				}
				text = append(text[:len(text)-1:len(text)-1], quote...)
				at++
			}
			if tail != nil {
				text = slices.Concat(text[:len(text)-1], tail)
			}
			r, err := model.ReadRow(name, text)
			if err == nil && (name == "assets" || name == artifacts.MarketsCollection) && tail == nil {
				err = fmt.Errorf("id %d has no links or groups", r.ID)
			}
			switch {
			case err != nil && name == "quotes":
				s.faulty[r.ID] = true
			case name == artifacts.MarketsCollection && s.faulty[r.ID]:
				err = nil
			}
			s.fault(name, err)
			if r.ID > 0 {
				s.Lists[name] = append(s.Lists[name], r)
			}
		}
	}
}

// ErrNoSnapshot means that the published manifest does not list the time.
var ErrNoSnapshot = errors.New("snapshot not listed")

// Published returns the pointer to the published snapshot.
func Published(ctx context.Context, store artifacts.Reader) (*artifacts.Pointer, error) {
	b, _, err := store.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if err != nil {
		return nil, fmt.Errorf("read pointer: %w", err)
	}
	return artifacts.ParsePointer(b)
}

// FindManifest returns the manifest of the snapshot of time t. The published manifest must be this manifest
// or list it.
func FindManifest(ctx context.Context, store artifacts.Reader, t time.Time) (*artifacts.Manifest, error) {
	p, err := Published(ctx, store)
	if err != nil {
		return nil, err
	}
	m, err := artifacts.ReadManifest(ctx, store, p.Manifest)
	if err != nil || m.Time.Equal(t) {
		return m, err
	}
	for _, r := range m.Retained {
		if r.Time.Equal(t) {
			return artifacts.ReadManifest(ctx, store, r.Manifest)
		}
	}
	return nil, fmt.Errorf(
		"%w: %s (newest is %s)", ErrNoSnapshot, t.Format(model.TimeFormat), m.Time.Format(model.TimeFormat))
}

// GetChange reads the change record. It returns nil if there is none or it is unreadable.
func GetChange(ctx context.Context, store artifacts.Reader) (*model.Change, error) {
	b, _, err := store.Get(ctx, artifacts.ChangeKey, artifacts.MaxPointerSize)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read change record: %w", err)
	}
	c, err := artifacts.ParseChange(b)
	if err != nil {
		return nil, nil // if the record is unreadable, /global contains null
	}
	return &model.Change{Time: c.Time, Database: c.Database, Value: c.Value}, nil
}
