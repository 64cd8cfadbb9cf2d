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
	// All lets Put leave out nothing, for bytes that are not what their names say.
	All bool

	store artifacts.Store
	head  *Head

	mu sync.Mutex
	// there are the objects and manifests that the store holds: true of what was
	// put, false of what the list showed, whole as far as its size tells.
	there   map[artifacts.Digest]bool
	written int
	bytes   int64
}

// Objects lists the store's objects and manifests and returns a writer that
// leaves out those that the head reaches and that are there: what its views are
// made of, and named, what its ledger or that of a retained snapshot names. One
// that is missing or of another size is written again when it is put; what was
// not put, Missing tells. (Of bytes that were changed a list says nothing: verify
// reads them.)
//
// To leave them out is safe beside gc: the pointer's swap succeeds only if the
// head was the published snapshot all the while, and gc keeps what that one
// reaches, so what was listed is still there then. An object that merely happens
// to lie in the store gives no such promise, so it is put again, which counts as
// written now and so keeps gc away.
//
// The list costs a call for a thousand objects and grows with what is retained,
// not with the past; README.md, "Costs", has figures.
func (h *Head) Objects(ctx context.Context, s artifacts.Store, named []artifacts.Ref) (*Objects, error) {
	o := &Objects{store: s, head: h, there: map[artifacts.Digest]bool{}}
	if h.Manifest == nil {
		return o, nil
	}
	size := map[artifacts.Digest]int64{}
	for _, ref := range append(Reached(h.Manifest), named...) {
		size[ref.Digest] = ref.Size
	}
	for _, r := range h.retained() {
		size[r.Manifest.Digest] = r.Manifest.Size
	}
	for _, prefix := range []string{artifacts.ObjectPrefix, artifacts.ManifestPrefix} {
		err := s.List(ctx, prefix, func(info artifacts.Info) error {
			d, err := artifacts.ParseObjectKey(info.Key)
			if err != nil {
				d, err = artifacts.ParseManifestKey(info.Key)
			}
			if want, ok := size[d]; err == nil && ok && want == info.Size {
				o.there[d] = false
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
	}
	return o, nil
}

// Reached returns the objects that m names itself.
func Reached(m *artifacts.Manifest) []artifacts.Ref {
	refs := []artifacts.Ref{m.Ledger}
	for i := range m.Views {
		for _, o := range m.Views[i].Objects {
			refs = append(refs, o.Ref)
		}
	}
	return refs
}

// retained returns what a snapshot behind the head may retain.
func (h *Head) retained() []artifacts.Retained {
	return append([]artifacts.Retained{{Time: h.Manifest.Time, Manifest: h.Pointer.Manifest}}, h.Manifest.Retained...)
}

// Missing returns the keys of what m refers to, and of named, what its ledger
// names, that the store did not hold and that was not put: builder repair mends it.
func (o *Objects) Missing(m *artifacts.Manifest, named []artifacts.Ref) (keys []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ref := range append(Reached(m), named...) {
		if _, ok := o.there[ref.Digest]; !ok {
			keys = append(keys, artifacts.ObjectKey(ref.Digest))
		}
	}
	for _, r := range m.Retained {
		if _, ok := o.there[r.Manifest.Digest]; !ok {
			keys = append(keys, artifacts.ManifestKey(r.Manifest.Digest))
		}
	}
	return keys
}

// Has reports whether the list showed what ref names, or it was put since.
func (o *Objects) Has(ref artifacts.Ref) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.there[ref.Digest]
	return ok
}

// Put makes sure that the store holds data and returns its name. It is durable
// after the Sync of the Publish that follows.
func (o *Objects) Put(ctx context.Context, data []byte) (artifacts.Ref, error) {
	ref := artifacts.Ref{Digest: artifacts.Sum(data), Size: int64(len(data))}
	if ref.Size > artifacts.MaxObjectSize {
		return ref, fmt.Errorf("object %s has %d bytes; readers take %d", ref.Digest, ref.Size,
			int64(artifacts.MaxObjectSize))
	}
	o.mu.Lock()
	put, there := o.there[ref.Digest]
	o.there[ref.Digest] = true
	o.mu.Unlock()
	if put || there && !o.All {
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
// and their bytes. What was left out does not count.
func (o *Objects) Written() (objects int, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written, o.bytes
}
