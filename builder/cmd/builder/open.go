package main

import (
	"context"
	"fmt"
	"os"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/coingecko"
	"example.com/marketdata/builder/source/coinpaprika"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/builder/source/sim"
)

// storeFlag is the store that a command works on.
type storeFlag struct {
	Store    string   `required:"" placeholder:"STORE" help:"The object store: file:PATH or s3://bucket/prefix?endpoint=URL&region=REGION."`
	SignKey  []string `type:"existingfile" placeholder:"FILE" help:"Sign identity, pointer, change record and key set with the key in this file (see builder keygen), and trust only what is signed. Repeatable, for changing keys."`
	TrustKey []string `placeholder:"KEY" help:"Trust what is signed by this key, too: its text, as keygen prints it. Repeatable."`
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
			return nil, nil, usageError{fmt.Errorf("--sign-key %s: %w", file, err)}
		}
		sign, trust = append(sign, k), append(trust, k.Trust())
	}
	for _, text := range f.TrustKey {
		k, err := artifacts.ParseTrustKey(text)
		if err != nil {
			return nil, nil, usageError{fmt.Errorf("--trust-key: %w", err)}
		}
		trust = append(trust, k)
	}
	return sign, trust, nil
}

// openStore opens the store, with retries, and makes a folder that is missing.
func (f *storeFlag) openStore(e *env) (artifacts.Store, error) {
	// Opening a reader fails only for a wrong address.
	if _, err := stores.OpenReader(context.WithoutCancel(e.ctx), f.Store); err != nil {
		return nil, usageError{fmt.Errorf("--store: %w", err)}
	}
	store, err := stores.Open(e.ctx, f.Store, stores.Options{Create: true})
	if err != nil {
		return nil, err
	}
	sign, trust, err := f.keys()
	if err != nil {
		return nil, err
	}
	return signed.Store(retry.New(store, retry.Options{Log: e.log}), sign, trust), nil
}

// sources are the schemes beside the two of package source. Keys of providers
// come from the environment, never from a flag, which others could see.
func (e *env) sources() map[string]source.Opener {
	around := provider.Env{Log: e.log, Getenv: os.Getenv}
	return map[string]source.Opener{
		"sim": sim.Open, "coinpaprika": coinpaprika.Opener(around), "coingecko": coingecko.Opener(around),
	}
}

func (e *env) openSource(spec string) (source.Source, error) {
	src, err := source.Open(e.ctx, spec, e.sources())
	if err != nil {
		return nil, usageError{fmt.Errorf("--source: %w", err)}
	}
	return src, nil
}
