package snapshot

import (
	"fmt"
	"sync/atomic"
	"time"
	"weak"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/shards"
)

// hotShard remembers a shard that the cache holds, or held a moment ago, so
// that finding it again is one load instead of a look-up in ristretto, which
// costs more than the rest of finding a row. The reference is weak: what the
// cache drops, the garbage collector takes at its next cycle. One look-up in
// sample goes to the cache all the same, so that it learns what is hot.
type hotShard struct {
	p atomic.Pointer[weak.Pointer[artifacts.Shard]]
}

const sample = 16

func (h *hotShard) get() *artifacts.Shard {
	if p := h.p.Load(); p != nil {
		return p.Value()
	}
	return nil
}

func (h *hotShard) set(s *artifacts.Shard) {
	if h.get() != s {
		p := weak.Make(s)
		h.p.Store(&p)
	}
}

// Budget bounds how long one answer may wait for what is not in memory, all its
// waits together.
type Budget struct {
	Wait     time.Duration
	deadline time.Time // zero before the first wait
}

var errLate = fmt.Errorf("%w: its shards took too long", shards.ErrUnavailable)

func (b *Budget) late() bool {
	now := time.Now()
	if b.deadline.IsZero() {
		b.deadline = now.Add(b.Wait)
	}
	return now.After(b.deadline)
}
