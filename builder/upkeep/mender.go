package upkeep

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"example.com/marketdata/artifacts"
)

// mender is a reader that repairs. If an immutable object is damaged or missing, mender replaces it
// with the bytes from a copy, and returns them. After artifacts.Check has read everything through
// it, the store is as complete as the copies allow.
type mender struct {
	store artifacts.Store
	from  []Copy
	// restoring, if set, is the pointer that the mender returns. The mender then returns no other
	// small object, and puts every object, even one that exists, so that gc sees the object as new
	// until it is reachable from the pointer.
	restoring []byte

	mu     sync.Mutex
	lost   map[artifacts.Key]bool // damaged or missing objects that no copy has
	whole  map[artifacts.Key]bool // objects that are intact or have been repaired
	mended []Mended
}

func newMender(s artifacts.Store, from []Copy) *mender {
	return &mender{store: s, from: from, lost: map[artifacts.Key]bool{}, whole: map[artifacts.Key]bool{},
		mended: []Mended{}}
}

// Get implements artifacts.ObjectReader.
func (m *mender) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	if !key.Immutable() {
		switch {
		case m.restoring == nil:
			return m.store.Get(ctx, key, limit)
		case key == artifacts.CurrentKey:
			return m.restoring, "", nil
		}
		return nil, "", artifacts.ErrNotFound
	}
	b, v, err := m.store.Get(ctx, key, limit)
	switch {
	case err == nil && key.Names(b):
		if m.restoring != nil {
			err = m.store.Put(ctx, key, b)
		}
		m.found(key)
		return b, v, err
	case err != nil && !artifacts.IsDamage(err):
		return nil, "", err
	}
	var unasked error
	for _, c := range m.from {
		have, _, cerr := c.Get(ctx, key, limit)
		if cerr == nil && key.Names(have) {
			return have, "", m.put(ctx, key, have, c.Name)
		}
		if cerr != nil && !artifacts.IsDamage(cerr) {
			unasked = cmp.Or(unasked, fmt.Errorf("%s: %w", c.Name, cerr))
		}
	}
	if unasked != nil { // the object may be in a copy that did not answer
		return nil, "", unasked
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost[key] = true
	return b, v, err
}

// put puts an object back into the store.
func (m *mender) put(ctx context.Context, key artifacts.Key, b []byte, from string) error {
	if err := m.store.Put(ctx, key, b); err != nil {
		return fmt.Errorf("put %s back: %w", key, err)
	}
	m.found(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mended = append(m.mended, Mended{key, from})
	return nil
}

func (m *mender) found(key artifacts.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.whole[key] = true
	delete(m.lost, key)
}

// lacks reports whether an object is damaged or missing and no copy has it.
func (m *mender) lacks(ref artifacts.Ref) bool { return m.lost[artifacts.ObjectKey(ref.Digest)] }

// lacksFile is like lacks, for a file object.
func (m *mender) lacksFile(ref artifacts.Ref) bool { return m.lost[artifacts.FileKey(ref.Digest)] }
