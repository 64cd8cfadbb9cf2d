package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/transparency"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/durable"
)

type keygenCmd struct {
	Out string `arg:"" placeholder:"FILE" help:"New file for the private key."`
}

func (c *keygenCmd) Run(e *env) error {
	k, err := artifacts.NewSignKey(rand.Reader)
	if err != nil {
		return err
	}
	err = durable.CreateFile(c.Out, strings.NewReader(k.Text()+"\n"), 0o600)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s: %w; a key is never overwritten: name a new file", c.Out, fs.ErrExist)
	}
	if err != nil {
		return err
	}
	if err := e.print("%s", k.Trust().Text()); err != nil {
		return errors.Join(err, os.Remove(c.Out))
	}
	return nil
}

type signCmd struct {
	storeFlag
	Off bool `help:"Remove the signatures instead."`
}

func (c *signCmd) Run(e *env) error {
	sign, trust, err := c.keys()
	if err != nil {
		return err
	}
	if len(sign) == 0 {
		return cmdline.Wrong("--sign-key is needed")
	}
	opened, err := stores.Open(e.ctx, c.Store, stores.Options{})
	if err != nil {
		return err
	}
	store := retry.New(opened, retry.Options{Log: e.log})
	cells := signed.Renewed
	if c.Off {
		if err := c.settle(e.ctx, signed.Store(store, sign, trust)); err != nil {
			return err
		}
		sign, cells = nil, slices.Clone(signed.Cells)
		slices.Reverse(cells)
	} else if _, err := publish.Identity(e.ctx, signed.Store(store, sign, nil)); err != nil {
		return err
	}
	for _, key := range cells {
		if err := signOne(e.ctx, store, key, sign, trust); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// settle writes the log's last leaf while there is still a key to sign it with.
func (c *signCmd) settle(ctx context.Context, s artifacts.Store) error {
	p, _, err := publish.ReadPointer(ctx, s)
	if errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, artifacts.ErrSignature) {
		return nil // there is no pointer, or signOne reports what is wrong
	}
	if err == nil && p.Log != nil {
		_, err = transparency.Settle(ctx, s, p.Store, p)
	}
	return publish.UnlessDamage(err) // signing can end even if the log is damaged
}

// signOne signs an object with the given keys and removes all other signatures. It skips a missing
// object. If another writer changes the object at the same time, signOne fails, and the user can
// try again.
func signOne(ctx context.Context, s artifacts.Store, key artifacts.Key, sign []artifacts.SignKey,
	trust artifacts.Trust) error {
	b, version, err := s.Get(ctx, key, key.Limit())
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if by, is := artifacts.SignedBy(b); is && trust.Verify(key, b) != nil {
		return fmt.Errorf("%w by key %s; give that one as --sign-key, or as --trust-key", signed.ErrSigned,
			strings.Join(by, ", "))
	}
	b = artifacts.Unsigned(b)
	if key == artifacts.CurrentKey && len(sign) == 0 {
		p, err := artifacts.ParsePointer(b)
		if err != nil {
			return err
		}
		p.Log = nil // if the store is signed again later, the log continues from its end
		b = p.Encode()
	}
	_, err = s.Swap(ctx, key, version, artifacts.Sign(key, b, sign...))
	return err
}
