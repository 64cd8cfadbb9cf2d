package builder

import (
	"context"

	"golang.org/x/sync/errgroup"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
)

// eachSnapshot calls f with the published snapshot, and with those that it retains,
// newest first: with the manifest, or with why it cannot be read. It ends with the
// first error of f.
func eachSnapshot(ctx context.Context, r artifacts.Reader, p *artifacts.Pointer, f func(artifacts.Retained, *artifacts.Manifest, error) error) error {
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

// needs returns the objects that a snapshot needs: those of its views and its
// ledger's. When the ledger cannot be read, it returns what it knows, and why.
func needs(ctx context.Context, r artifacts.Reader, m *artifacts.Manifest) (refs []artifacts.Ref, err error) {
	refs = publish.Reached(m)
	root, err := artifacts.ReadObject(ctx, r, m.Ledger)
	if err != nil {
		return refs, err
	}
	named, err := ledger.Refs(root)
	return append(refs, named...), err
}

// eachObjectRow calls f for each row of an object of a view.
func eachObjectRow(ctx context.Context, r artifacts.Reader, ref artifacts.Ref, f func(id uint64, row []byte) error) error {
	body, err := artifacts.ReadObject(ctx, r, ref)
	if err != nil {
		return err
	}
	shards, err := artifacts.ParseObject(body)
	if err != nil {
		return err
	}
	for _, s := range shards {
		for i := range s.Len() {
			if err := f(s.ID(i), s.Row(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// atOnce bounds the objects that are made, put, read or deleted at the same time,
// and with it memory: one takes some ten MiB while it is made.
const atOnce = 8

// parallel calls f with each number below n, atOnce at the same time, until one fails
// or ctx is done.
func parallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(ctx, i)
		})
	}
	return g.Wait()
}
