package shards

import (
	"sync"

	"github.com/dgraph-io/ristretto/v2"
)

// memory is a ristretto cache that may be closed during calls of Get and Set. Ristretto's own Close would
// free memory that such calls still use. The lock costs little, since most shards are found through their
// Handle.
type memory struct {
	*ristretto.Cache[uint64, *entry]
	mu     sync.RWMutex
	closed bool
}

func newMemory(bytes int64) (*ristretto.Cache[uint64, *entry], error) {
	return ristretto.NewCache(&ristretto.Config[uint64, *entry]{
		// Ristretto recommends ten counters per item. An item is at least 32 KiB, and a counter takes
		// three bytes.
		NumCounters:        min(max(bytes/(32<<10)*10, 1<<10), 1<<20),
		MaxCost:            bytes,
		BufferItems:        64,
		IgnoreInternalCost: true,
		OnExit:             (*entry).left,
	})
}

func (m *memory) get(key uint64) (*entry, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, false
	}
	return m.Get(key)
}

// set reports whether the memory may have accepted e.
func (m *memory) set(key uint64, e *entry, cost int64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return !m.closed && m.Set(key, e, cost)
}

func (m *memory) drop(key uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.closed {
		m.Del(key)
	}
}

func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		m.Close()
	}
}
