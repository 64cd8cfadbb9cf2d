package upkeep

import (
	"context"
	"fmt"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
)

// eachSnapshot calls f for the published snapshot and for each retained one, newest first, with
// either the manifest or the error from reading it. It stops at the first error that f returns.
func eachSnapshot(ctx context.Context, r artifacts.ObjectReader, p *artifacts.Pointer,
	f func(artifacts.Retained, *artifacts.Manifest, error) error,
) error {
	published := artifacts.Retained{Time: p.Time, Manifest: p.Manifest}
	newest, err := artifacts.ReadManifest(ctx, r, p.Manifest)
	if err := f(published, newest, err); err != nil || newest == nil {
		return err
	}
	for _, ret := range newest.Retained {
		m, err := artifacts.ReadManifest(ctx, r, ret.Manifest)
		if err := f(ret, m, err); err != nil {
			return err
		}
	}
	return nil
}

// needs returns the objects that a snapshot needs: the objects of its views, its ledger root, and
// the objects that the root names. If the root cannot be read, needs returns the other objects and
// the error.
func needs(ctx context.Context, r artifacts.ObjectReader, m *artifacts.Manifest) ([]artifacts.Ref, error) {
	refs := publish.Reached(m)
	root, err := artifacts.ReadObject(ctx, r, m.Ledger)
	if err != nil {
		return refs, err
	}
	named, err := ledger.Refs(root)
	return append(refs, named...), err
}

// listManifests lists the manifests in a store for which filter returns true. A nil filter selects
// all manifests.
func listManifests(ctx context.Context, s artifacts.Store, filter func(artifacts.Info) bool) ([]artifacts.Ref, error) {
	var refs []artifacts.Ref
	err := s.List(ctx, artifacts.ManifestPrefix, func(info artifacts.Info) error {
		if info.Key.Kind() == artifacts.ManifestKind && (filter == nil || filter(info)) {
			refs = append(refs, artifacts.Ref{Digest: info.Key.Digest(), Size: info.Size})
		}
		return nil
	})
	return refs, err
}

// putLedger puts a ledger and makes it durable, together with everything put before.
func putLedger(ctx context.Context, s artifacts.Store, book *ledger.Next) (root artifacts.Ref, err error) {
	for _, body := range append(book.Objects, book.Root) {
		root = artifacts.RefOf(body)
		if err := s.Put(ctx, artifacts.ObjectKey(root.Digest), body); err != nil {
			return root, fmt.Errorf("put ledger: %w", err)
		}
	}
	if err := s.Sync(ctx); err != nil {
		return root, fmt.Errorf("sync objects: %w", err)
	}
	return root, nil
}

// putFile returns a files.Put that puts file objects by calling put.
func putFile(put func(context.Context, artifacts.Key, []byte) error) files.Put {
	return func(ctx context.Context, b []byte) (artifacts.Ref, error) {
		ref := artifacts.RefOf(b)
		return ref, put(ctx, artifacts.FileKey(ref.Digest), b)
	}
}

// smallKeys are the keys of the small objects that an operator sees: all except the lease.
var smallKeys = []artifacts.Key{artifacts.IdentityKey, artifacts.CurrentKey, artifacts.ChangeKey, artifacts.KeysKey}
