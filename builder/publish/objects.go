package publish

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"example.com/marketdata/artifacts"
)

// Objects puts the immutable objects of one snapshot, each object once, and counts its writes. Its
// methods are safe for concurrent use.
type Objects struct {
	store artifacts.Store
	head  *Head

	mu sync.Mutex
	// wasPut has an entry for each object and manifest that the store holds. The value is true if
	// this Objects put the object, and false if the listing showed it with the right size.
	wasPut  map[artifacts.Digest]bool
	written int
	bytes   int64
}

// Objects lists the store's objects and manifests, and returns a writer. The writer skips objects
// that are reachable from the head and that the store holds. ledgerRefs must list the objects of
// the head's ledger. The writer writes an object again if the store lacks it or holds it with
// another size. Missing returns the lost objects that were not put again. A listing does not reveal
// damaged bytes; verify finds those.
//
// Skipping is safe while gc runs. The pointer's swap succeeds only if the head remained the
// published snapshot throughout, and gc keeps everything that is reachable from it. An unreachable
// object has no such protection. The writer puts it again, which makes it young, so gc leaves it
// alone.
//
// The listing costs one call per thousand objects. It grows with the number of retained snapshots,
// not with the length of the history; README.md, "Costs", has figures.
func (h *Head) Objects(ctx context.Context, s artifacts.Store, ledgerRefs []artifacts.Ref) (*Objects, error) {
	o := &Objects{store: s, head: h, wasPut: map[artifacts.Digest]bool{}}
	if h.Manifest == nil {
		return o, nil
	}
	size := map[artifacts.Digest]int64{}
	for _, ref := range append(Reached(h.Manifest), ledgerRefs...) {
		size[ref.Digest] = ref.Size
	}
	for _, r := range h.retained() {
		size[r.Manifest.Digest] = r.Manifest.Size
	}
	for _, prefix := range []string{artifacts.ObjectPrefix, artifacts.ManifestPrefix} {
		err := s.List(ctx, prefix, func(info artifacts.Info) error {
			d := info.Key.Digest()
			if want, ok := size[d]; info.Key.Immutable() && ok && want == info.Size {
				o.wasPut[d] = false
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
	}
	return o, nil
}

// Reached returns the objects that m names: its ledger root and the objects of its views.
func Reached(m *artifacts.Manifest) []artifacts.Ref {
	refs := []artifacts.Ref{m.Ledger}
	for i := range m.Views {
		for _, o := range m.Views[i].Objects {
			refs = append(refs, o.Ref)
		}
	}
	return refs
}

// retained returns the snapshots that the head's successor may retain.
func (h *Head) retained() []artifacts.Retained {
	return append([]artifacts.Retained{{Time: h.Manifest.Time, Manifest: h.Pointer.Manifest}}, h.Manifest.Retained...)
}

// Missing returns the keys of objects that m or its ledger names, that the store did not hold, and
// that have not been put. ledgerRefs must list the objects of the ledger. builder repair puts lost
// objects back.
func (o *Objects) Missing(m *artifacts.Manifest, ledgerRefs []artifacts.Ref) (keys []artifacts.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ref := range append(Reached(m), ledgerRefs...) {
		if _, ok := o.wasPut[ref.Digest]; !ok {
			keys = append(keys, artifacts.ObjectKey(ref.Digest))
		}
	}
	for _, r := range m.Retained {
		if _, ok := o.wasPut[r.Manifest.Digest]; !ok {
			keys = append(keys, artifacts.ManifestKey(r.Manifest.Digest))
		}
	}
	return keys
}

// Has reports whether the store holds the object, because the listing showed it or because it was
// put.
func (o *Objects) Has(ref artifacts.Ref) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.wasPut[ref.Digest]
	return ok
}

// HasAll reports whether the store holds all objects of the views.
func (o *Objects) HasAll(views []artifacts.View) bool {
	lost := func(of artifacts.ViewObject) bool { return !o.Has(of.Ref) }
	return !slices.ContainsFunc(views, func(v artifacts.View) bool { return slices.ContainsFunc(v.Objects, lost) })
}

// Put stores data, if necessary, and returns its reference. The object becomes durable with the
// Sync of the Publish call that follows.
func (o *Objects) Put(ctx context.Context, data []byte) (artifacts.Ref, error) {
	ref := artifacts.RefOf(data)
	if ref.Size > artifacts.MaxObjectSize {
		return ref, fmt.Errorf("object %s has %d bytes; readers take %d", ref.Digest, ref.Size,
			int64(artifacts.MaxObjectSize))
	}
	o.mu.Lock()
	put, there := o.wasPut[ref.Digest]
	o.wasPut[ref.Digest] = true
	o.mu.Unlock()
	if put || there {
		return ref, nil
	}
	return ref, o.put(ctx, artifacts.ObjectKey(ref.Digest), data)
}

// PutFile stores an object under artifacts.FilePrefix, whether or not it already exists, since
// nearly all objects of a file set are new.
func (o *Objects) PutFile(ctx context.Context, data []byte) (artifacts.Ref, error) {
	ref := artifacts.RefOf(data)
	if ref.Size > artifacts.MaxObjectSize {
		return ref, fmt.Errorf("object %s of files has %d bytes; readers take %d", ref.Digest, ref.Size,
			int64(artifacts.MaxObjectSize))
	}
	return ref, o.put(ctx, artifacts.FileKey(ref.Digest), data)
}

func (o *Objects) put(ctx context.Context, key artifacts.Key, data []byte) error {
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

// Written returns the number and the total size in bytes of the immutable objects that were put,
// including the manifest. Skipped objects do not count.
func (o *Objects) Written() (objects int, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written, o.bytes
}
