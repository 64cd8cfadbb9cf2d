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
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/coincap"
	"example.com/marketdata/builder/source/coingecko"
	"example.com/marketdata/builder/source/coinmarketcap"
	"example.com/marketdata/builder/source/coinpaprika"
	"example.com/marketdata/builder/source/postgres"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/secret"
)

// storeFlag holds the flags of a command that uses a store.
type storeFlag struct {
	Store string `required:"" placeholder:"STORE" help:"The object store: file:PATH or s3://bucket/prefix?endpoint=URL&region=REGION."`
	keyFlags
}

// keyFlags holds the keys with which a command signs, and the keys that it trusts.
type keyFlags struct {
	SignKey  []string `protects:"" type:"existingfile" placeholder:"FILE" group:"Signing:" help:"Sign identity, pointer, change record and key set with the key in this file (see builder keygen), and trust only signed objects. Repeatable, for changing keys."`
	TrustKey []string `protects:"" placeholder:"KEY" group:"Signing:" help:"Also trust objects that are signed by this key. Give its text, as keygen prints it. Repeatable."`
}

// keys reads the signing keys and the trusted keys. Signing keys are trusted too.
func (f *keyFlags) keys() (sign []artifacts.SignKey, trust artifacts.Trust, err error) {
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

// openStore opens an existing store, with retries, and writes nothing. If the folder is missing,
// openStore returns an error. If the bucket is missing, the first call to the store does.
func (f *storeFlag) openStore(e *env) (artifacts.Store, error) { return f.open(e, false) }

// makeStore opens a store for a command that may create it: makeStore makes the store's folder if
// it is missing (STORE.md, "Addresses").
func (f *storeFlag) makeStore(e *env) (artifacts.Store, error) { return f.open(e, true) }

// open opens a store. It returns an error if the state folder has a note of the store, but nothing
// is left of the store (see checkKnown).
func (f *storeFlag) open(e *env, create bool) (artifacts.Store, error) {
	store, err := f.openAny(e, false)
	made := errors.Is(err, fs.ErrNotExist) && create
	if made {
		if err = f.checkKnown(e, nil); err == nil {
			store, err = f.openAny(e, true)
		}
	} else if err == nil {
		err = f.checkKnown(e, store)
	}
	if err != nil {
		return nil, err
	}
	if create {
		f.announce(e, store, made, "this begins a new store: nothing was there")
	}
	return store, nil
}

// announce tells the user if there is nothing yet where the store should be, since the path may be
// mistyped. It logs message or, if the command has just created the store's folder, another message
// that says so.
func (f *storeFlag) announce(e *env, store artifacts.Store, created bool, message string) {
	for _, key := range []artifacts.Key{artifacts.IdentityKey, artifacts.CurrentKey, artifacts.KeysKey} {
		if _, _, err := store.Get(e.ctx, key, key.Limit()); !errors.Is(err, artifacts.ErrNotFound) {
			return // the store is not new, or a later step reports what is wrong
		}
	}
	if publish.CheckPointer(e.ctx, store, nil, publish.Seen{}) != nil {
		return // a later step reports it
	}
	if created {
		message = "this makes a new store: there was no such folder"
	}
	e.log.Info(message, "store", f.Store)
}

// openAny opens a store without checking whether it is new or has lost its contents.
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

// mayWrite returns an error if the store is signed and no --sign-key was given. Commands call it
// before deletions, which would succeed without a signature, and before work that would be wasted.
func (f *storeFlag) mayWrite(e *env, store artifacts.ObjectReader) error {
	if len(f.SignKey) > 0 {
		return nil
	}
	return signed.Unsigned(e.ctx, store)
}

// openPlain opens the store, with retries, without signing or verifying.
func (f *storeFlag) openPlain(e *env, create bool) (artifacts.Store, error) {
	// Opening a reader fails only if the address is wrong.
	if _, err := stores.OpenReader(context.WithoutCancel(e.ctx), f.Store); err != nil {
		return nil, cmdline.Wrong("--store: %w", err)
	}
	store, err := stores.Open(e.ctx, f.Store, stores.Options{Create: create})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: is the path right? Only init, build, backfill, restore and keys create make it", err)
	}
	if err != nil {
		return nil, err
	}
	return retry.New(store, retry.Options{Log: e.log}), nil
}

// sources returns, by scheme, the openers of the sources that package source does not provide
// itself. Providers' API keys come from environment variables, never from flags, which other users
// of the machine could see.
func (e *env) sources() map[string]source.Opener {
	around := provider.Env{Log: e.log, Getenv: secret.Env, Cache: e.stateDir, Costs: e.costs}
	return map[string]source.Opener{
		"sim": sim.Open, "postgres": postgres.Open, "postgresql": postgres.Open,
		"coinpaprika": around.Opener(coinpaprika.Open), "coingecko": around.Opener(coingecko.Open),
		"coinmarketcap": around.Opener(coinmarketcap.Open), "coincap": around.Opener(coincap.Open),
	}
}

func (e *env) openSource(spec string) (source.Source, error) {
	src, err := source.Open(e.ctx, spec, e.sources())
	if err != nil {
		return nil, cmdline.Wrong("--source: %w", err)
	}
	return src, nil
}
