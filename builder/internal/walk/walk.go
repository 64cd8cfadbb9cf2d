// Package walk reads objects in a store, and their rows, and processes several objects in parallel.
package walk

import (
	"context"

	"example.com/marketdata/artifacts"
	"golang.org/x/sync/errgroup"
)

// AtOnce is the maximum number of objects that are made, put, read or deleted concurrently. It
// also limits memory: making one object takes about ten MiB.
const AtOnce = 8

// Parallel calls f with each number less than n, with at most AtOnce calls running concurrently,
// until a call fails or ctx is done. It returns the first error.
func Parallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(AtOnce)
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

// Rows reads objects of a view in their order and calls f with each row, until f fails.
func Rows(
	ctx context.Context, r artifacts.ObjectReader, objects []artifacts.ViewObject, f func(id uint64, row []byte) error,
) error {
	for _, o := range objects {
		body, err := artifacts.ReadObject(ctx, r, o.Ref)
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
	}
	return nil
}
