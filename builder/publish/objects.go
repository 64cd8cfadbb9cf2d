package publish

import (
	"context"
	"fmt"
	"sync"

	"example.com/marketdata/artifacts"
)

// Objects puts the immutable objects of one snapshot, each once, and counts
// what it wrote. Its methods are safe for concurrent use.
type Objects struct {
	store artifacts.Store
	head  *Head

	mu      sync.Mutex
	known   map[artifacts.Digest]bool
	written int
	bytes   int64
}

// Objects returns a writer that leaves out what the head's own views are made
// of. That is safe beside gc: the pointer's swap succeeds only if the head was
// the published snapshot all the while, and gc keeps what that one reaches.
// An object that merely happens to lie in the store gives no such promise, so
// it is put again, which counts as written now and so keeps gc away.
func (h *Head) Objects(s artifacts.Store) *Objects {
	o := &Objects{store: s, head: h, known: map[artifacts.Digest]bool{}}
	if h.Manifest != nil {
		for i := range h.Manifest.Views {
			for _, obj := range h.Manifest.Views[i].Objects {
				o.known[obj.Digest] = true
			}
		}
	}
	return o
}

// Put makes sure that the store holds data and returns its name. It is durable
// after the Sync of the Publish that follows.
func (o *Objects) Put(ctx context.Context, data []byte) (artifacts.Ref, error) {
	ref := artifacts.Ref{Digest: artifacts.Sum(data), Size: int64(len(data))}
	if ref.Size > artifacts.MaxObjectSize {
		return ref, fmt.Errorf("object %s has %d bytes; readers take %d", ref.Digest, ref.Size, int64(artifacts.MaxObjectSize))
	}
	o.mu.Lock()
	known := o.known[ref.Digest]
	o.known[ref.Digest] = true
	o.mu.Unlock()
	if known {
		return ref, nil
	}
	return ref, o.put(ctx, artifacts.ObjectKey(ref.Digest), data)
}

func (o *Objects) put(ctx context.Context, key string, data []byte) error {
	if _, err := o.head.identity(ctx, o.store); err != nil {
		return err
	}
	if err := o.store.Put(ctx, key, data); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written++
	o.bytes += int64(len(data))
	return nil
}

// Written returns how many immutable objects, the manifest included, were put,
// and their bytes. What was left out because the head has it does not count.
func (o *Objects) Written() (objects int, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written, o.bytes
}
