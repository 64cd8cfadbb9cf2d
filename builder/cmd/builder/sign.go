package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/artifacts/stores"
)

type keygenCmd struct {
	Out string `arg:"" placeholder:"FILE" help:"New file for the private half."`
}

// Help is printed by keygen --help.
func (keygenCmd) Help() string {
	return `Makes an Ed25519 pair. The private half goes into FILE, for builder --sign-key; the public half is printed, for edge --trust-key. A builder that signs keeps those who can write to the bucket from forging a price or letting themselves in.

To begin on a store that has snapshots: sign it once with builder sign, then give builders --sign-key, then edges --trust-key. To change keys: give edges both --trust-key, builders both --sign-key, then take the old ones away, edges first.

Example:

    builder keygen /etc/market/sign.key`
}

// Run is called by kong.
func (c *keygenCmd) Run(e *env) error {
	k, err := artifacts.NewSignKey(rand.Reader)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err // names the file, and says when it is there already
	}
	if _, err := fmt.Fprintln(f, k.Text()); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	e.print("%s", k.Trust().Text())
	return nil
}

type signCmd struct {
	storeFlag
}

// Help is printed by sign --help.
func (signCmd) Help() string {
	return `Signs the pointer, the change record and the key set as they are in the store, whoever put them there. Do this once when a store begins to be signed, and look at what is published first: builder verify.

Example:

    builder sign --store file:/var/lib/market/store --sign-key /etc/market/sign.key`
}

// Run is called by kong.
func (c *signCmd) Run(e *env) error {
	sign, _, err := c.keys()
	if err != nil {
		return err
	}
	if len(sign) == 0 {
		return usageError{errors.New("--sign-key is needed")}
	}
	store, err := stores.Open(e.ctx, c.Store, stores.Options{})
	if err != nil {
		return err
	}
	plain := retry.New(signed.Store(store, sign, nil), retry.Options{Log: e.log})
	for _, o := range []struct {
		key   string
		limit int64
	}{{artifacts.CurrentKey, artifacts.MaxPointerSize}, {artifacts.ChangeKey, artifacts.MaxPointerSize}, {artifacts.KeysKey, artifacts.MaxKeySetSize}} {
		if err := signOne(e.ctx, plain, o.key, o.limit); err != nil {
			return fmt.Errorf("%s: %w", o.key, err)
		}
	}
	return nil
}

// signOne swaps an object for itself, signed. One that is not there is none to
// sign; one that somebody changes at the same moment is left to the next try.
func signOne(ctx context.Context, s artifacts.Store, key string, limit int64) error {
	b, version, err := s.Get(ctx, key, limit)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.Swap(ctx, key, version, artifacts.Unsigned(b))
	return err
}
