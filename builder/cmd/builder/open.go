package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/coincap"
	"example.com/marketdata/builder/source/coingecko"
	"example.com/marketdata/builder/source/coinmarketcap"
	"example.com/marketdata/builder/source/coinpaprika"
	"example.com/marketdata/builder/source/postgres"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/internal/cmdline"
)

// storeFlag is the store that a command works on.
type storeFlag struct {
	Store    string   `required:"" placeholder:"STORE" help:"The object store: file:PATH or s3://bucket/prefix?endpoint=URL&region=REGION."`
	SignKey  []string `type:"existingfile" placeholder:"FILE" group:"Signing:" help:"Sign identity, pointer, change record and key set with the key in this file (see builder keygen), and trust only what is signed. Repeatable, for changing keys."`
	TrustKey []string `placeholder:"KEY" group:"Signing:" help:"Trust what is signed by this key, too: its text, as keygen prints it. Repeatable."`
}

// keys reads the keys that sign and those that are trusted: the given ones and
// those that sign.
func (f *storeFlag) keys() (sign []artifacts.SignKey, trust artifacts.Trust, err error) {
	for _, file := range f.SignKey {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, fmt.Errorf("--sign-key: %w", err)
		}
		k, err := artifacts.ParseSignKey(string(b))
		if err != nil {
			return nil, nil, cmdline.Wrong("--sign-key %s: %w", file, err)
		}
		sign, trust = append(sign, k), append(trust, k.Trust())
	}
	for _, text := range f.TrustKey {
		k, err := artifacts.ParseTrustKey(text)
		if err != nil {
			return nil, nil, cmdline.Wrong("--trust-key: %w", err)
		}
		trust = append(trust, k)
	}
	return sign, trust, nil
}

// openStore opens the store as it is, with retries: a folder that is missing is
// an error, a bucket that is missing shows in the first call. Nothing is written.
func (f *storeFlag) openStore(e *env) (artifacts.Store, error) { return f.open(e, false) }

// makeStore is openStore for the commands that may be a store's first: it makes
// a folder that is missing (FEED.md, "Stores").
func (f *storeFlag) makeStore(e *env) (artifacts.Store, error) { return f.open(e, true) }

// open refuses a store that was here and has nothing left of it; see checkKnown.
func (f *storeFlag) open(e *env, create bool) (artifacts.Store, error) {
	store, err := f.openAny(e, false)
	if errors.Is(err, fs.ErrNotExist) && create {
		if err = f.checkKnown(e, nil); err == nil {
			return f.openAny(e, true)
		}
	}
	if err == nil {
		err = f.checkKnown(e, store)
	}
	if err != nil {
		return nil, err
	}
	return store, nil
}

// openAny opens a store that may be empty, or new, or have lost everything.
func (f *storeFlag) openAny(e *env, create bool) (artifacts.Store, error) {
	store, err := f.openPlain(e, create)
	if err != nil {
		return nil, err
	}
	sign, trust, err := f.keys()
	if err != nil {
		return nil, err
	}
	return signed.Store(store, sign, trust), nil
}

// mayWrite returns an error when the store is signed and no key was given. Commands
// ask it whose writes do not: deletions, or work that would be for nothing.
func (f *storeFlag) mayWrite(e *env, store artifacts.Reader) error {
	if len(f.SignKey) > 0 {
		return nil
	}
	return signed.Unsigned(e.ctx, store)
}

// openPlain opens the store, with retries, and neither signs nor verifies.
func (f *storeFlag) openPlain(e *env, create bool) (artifacts.Store, error) {
	// Opening a reader fails only for a wrong address.
	if _, err := stores.OpenReader(context.WithoutCancel(e.ctx), f.Store); err != nil {
		return nil, cmdline.Wrong("--store: %w", err)
	}
	store, err := stores.Open(e.ctx, f.Store, stores.Options{Create: create})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: is the path right? Only build, backfill, restore and keys create make it", err)
	}
	if err != nil {
		return nil, err
	}
	return retry.New(store, retry.Options{Log: e.log}), nil
}

// sources are the schemes beside those of package source. Keys of providers
// come from the environment, never from a flag, which others could see.
func (e *env) sources() map[string]source.Opener {
	around := provider.Env{Log: e.log, Getenv: os.Getenv, Cache: e.sourceCache, Costs: e.costs}
	return map[string]source.Opener{
		"sim": sim.Open, "postgres": postgres.Open, "postgresql": postgres.Open,
		"coinpaprika": coinpaprika.Opener(around), "coingecko": coingecko.Opener(around),
		"coinmarketcap": coinmarketcap.Opener(around), "coincap": coincap.Opener(around),
	}
}

func (e *env) openSource(spec string) (source.Source, error) {
	src, err := source.Open(e.ctx, spec, e.sources())
	if err != nil {
		return nil, cmdline.Wrong("--source: %w", err)
	}
	return src, nil
}
