package ledger

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// segmentBytes is the size at which a log segment is full. A full segment never changes again, so a
// build rewrites at most this much of a log.
const segmentBytes = 1 << 20

// collections are the collections whose rows have ids, in the order in which they are read and
// written.
var collections = []string{"assets", "exchanges", "categories", "chains"}

// idLog holds a collection's ids in the order in which they were assigned, and finds them by key
// and by id.
type idLog struct {
	byKey   map[string]uint64
	byID    map[uint64]string
	highest uint64          // new ids are higher
	fresh   map[uint64]bool // ids added since the log was loaded

	full    []artifacts.Ref // segments that will never change
	open    []byte          // the entries after the full segments
	openRef artifacts.Ref   // the stored object equal to open; valid until an entry is added
	written [][]byte        // segments filled since the log was loaded
	changed bool
}

func newIDLog(size int) *idLog {
	return &idLog{byKey: make(map[string]uint64, size), byID: make(map[uint64]string, size)}
}

// loadIDs reads a collection's log.
func loadIDs(ctx context.Context, r artifacts.ObjectReader, from idSegments) (*idLog, error) {
	segments, size := make([][]byte, len(from.Segments)), 0
	for i, ref := range from.Segments {
		b, err := artifacts.ReadObject(ctx, r, ref)
		if err != nil {
			return nil, err
		}
		segments[i], size = b, size+len(b)
	}
	// An entry takes at least two bytes, so a wrong count cannot make this allocate much.
	l := newIDLog(min(max(from.Count, 0), size/2))
	for i, b := range segments {
		ref := from.Segments[i]
		if err := l.load(b); err != nil {
			return nil, fmt.Errorf("object %s: %w", ref.Digest, err)
		}
		switch {
		case len(b) >= segmentBytes:
			l.full = append(l.full, ref)
		case i == len(segments)-1:
			l.open, l.openRef = slices.Clip(b), ref // clipped, so that appending does not write to b
		default:
			return nil, fmt.Errorf("object %s: %w: a segment of ids that is not full and not the last", ref.Digest,
				artifacts.ErrCorrupt)
		}
	}
	if len(l.byKey) != from.Count {
		return nil, fmt.Errorf("%w: %d ids, want %d", artifacts.ErrCorrupt, len(l.byKey), from.Count)
	}
	return l, nil
}

// load adds the entries of a segment.
func (l *idLog) load(b []byte) error {
	text := string(b) // one allocation; all keys are slices of it
	r := reader{b: b}
	for len(r.b) > 0 {
		id, size := r.uint(market.MaxID), r.uint(uint64(len(b)))
		at := len(b) - len(r.b)
		key := text[at : at+len(r.take(size))]
		if r.bad {
			return fmt.Errorf("%w: segment of ids ends too early", artifacts.ErrCorrupt)
		}
		if err := l.add(id, key); err != nil {
			return fmt.Errorf("%w: %w", artifacts.ErrCorrupt, err)
		}
	}
	return nil
}

var errNoIDs = errors.New("no id is left above the highest ever used")

func (l *idLog) add(id uint64, key string) error {
	if id < 1 || id > market.MaxID {
		return fmt.Errorf("id %d of key %q: out of range", id, key)
	}
	if owner, ok := l.byID[id]; ok {
		return fmt.Errorf("id %d of key %q belongs to key %q", id, key, owner)
	}
	if old, ok := l.byKey[key]; ok {
		return fmt.Errorf("key %q has id %d, not %d", key, old, id)
	}
	l.byKey[key], l.byID[id] = id, key
	if id <= market.MaxNewID { // a higher id may have been assigned before MaxNewID existed
		l.highest = max(l.highest, id)
	}
	return nil
}

// give adds an entry to the log. It encodes the entry as the id, the length of the key, and the
// key.
func (l *idLog) give(id uint64, key string) error {
	if err := l.add(id, key); err != nil {
		return err
	}
	l.changed = true
	if l.fresh == nil {
		l.fresh = map[uint64]bool{}
	}
	l.fresh[id] = true
	l.open = binary.AppendUvarint(l.open, id)
	l.open = binary.AppendUvarint(l.open, uint64(len(key)))
	l.open = append(l.open, key...)
	if len(l.open) >= segmentBytes {
		l.written, l.open = append(l.written, l.open), nil
	}
	return nil
}

// assign gives each of n rows its id: the id in the row, the existing id of its key, or a new id,
// which is higher than any ever used. It assigns new ids in byte order of keys (FEED.md, "Ids"),
// after it has added all ids given in rows. Ids above market.MaxNewID do not raise the highest id,
// but are never assigned twice.
func (l *idLog) assign(n int, row func(i int) (key string, id *uint64)) error {
	type newRow struct {
		key string
		id  *uint64
	}
	var fresh []newRow
	for i := range n {
		key, id := row(i)
		old, known := l.byKey[key]
		switch {
		case *id == 0 && known:
			*id = old
		case *id == 0:
			fresh = append(fresh, newRow{key, id})
		case known && old == *id:
		default:
			if err := l.give(*id, key); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(fresh, func(a, b newRow) int { return cmp.Compare(a.key, b.key) })
	for _, f := range fresh {
		for *f.id = l.highest + 1; l.byID[*f.id] != ""; *f.id++ {
		}
		if *f.id > market.MaxID {
			return fmt.Errorf("key %q: %w", f.key, errNoIDs)
		}
		l.highest = *f.id
		if err := l.give(*f.id, f.key); err != nil {
			return err
		}
	}
	return nil
}

// store returns the log's entry for the root and adds its new segments to objects.
func (l *idLog) store(objects *objects) idSegments {
	to := idSegments{Count: len(l.byKey), Segments: slices.Clone(l.full)}
	for _, b := range l.written {
		to.Segments = append(to.Segments, objects.add(b))
	}
	switch {
	case len(l.open) > 0 && l.changed:
		to.Segments = append(to.Segments, objects.add(l.open))
	case len(l.open) > 0:
		to.Segments = append(to.Segments, l.openRef)
	}
	return to
}

// Known returns the id of a key in a collection. ok is false if the key never had one.
func (l *Ledger) Known(collection, key string) (uint64, bool) {
	id, ok := l.ids[collection].byKey[key]
	return id, ok
}

// IsNew reports whether an id in a collection was assigned since the ledger was loaded.
func (l *Ledger) IsNew(collection string, id uint64) bool { return l.ids[collection].fresh[id] }

// Owner returns the key to which an id in a collection belongs. It returns false if the id was
// never assigned.
func (l *Ledger) Owner(collection string, id uint64) (string, bool) {
	key, ok := l.ids[collection].byID[id]
	return key, ok
}

// AssignIDs gives every row of the feed its id, which the ledger remembers forever (FEED.md,
// "Ids"). The caller must first set aside each row whose id belongs to another key or differs from
// its key's id (see Known and Owner). Otherwise AssignIDs returns an error, and the ledger must no
// longer be used.
func (l *Ledger) AssignIDs(f *market.Feed) error {
	groups := func(of []market.Group) func(i int) (string, *uint64) {
		return func(i int) (string, *uint64) { return of[i].Key, &of[i].ID }
	}
	for _, c := range []struct {
		name string
		n    int
		row  func(i int) (string, *uint64)
	}{
		{"assets", len(f.Assets), func(i int) (string, *uint64) { return f.Assets[i].Key, &f.Assets[i].ID }},
		{"exchanges", len(f.Exchanges), func(i int) (string, *uint64) {
			return f.Exchanges[i].Key, &f.Exchanges[i].ID
		}},
		{"categories", len(f.Categories), groups(f.Categories)},
		{"chains", len(f.Chains), groups(f.Chains)},
	} {
		if err := l.ids[c.name].assign(c.n, c.row); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}
