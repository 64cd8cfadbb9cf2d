package main

import (
	"context"
	"fmt"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/sim"
)

// storeFlag is the store that a command works on.
type storeFlag struct {
	Store string `required:"" placeholder:"STORE" help:"The object store: file:PATH or s3://bucket/prefix?endpoint=URL&region=REGION."`
}

// openStore opens the store, and makes a folder that is missing. Calls that
// fail are made again where that is safe.
func (f *storeFlag) openStore(e *env) (artifacts.Store, error) {
	// A reader needs nothing but an address that can be understood.
	if _, err := stores.OpenReader(context.WithoutCancel(e.ctx), f.Store); err != nil {
		return nil, usageError{fmt.Errorf("--store: %w", err)}
	}
	store, err := stores.Open(e.ctx, f.Store, stores.Options{Create: true})
	if err != nil {
		return nil, err
	}
	return retry.New(store, retry.Options{Log: e.log}), nil
}

// sources are the schemes beside the two of package source.
var sources = map[string]source.Opener{"sim": sim.Open}

func openSource(ctx context.Context, spec string) (source.Source, error) {
	src, err := source.Open(ctx, spec, sources)
	if err != nil {
		return nil, usageError{fmt.Errorf("--source: %w", err)}
	}
	return src, nil
}
