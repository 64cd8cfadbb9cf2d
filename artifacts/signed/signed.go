// Package signed wraps a store so that its identity, pointer, change record, key set and checkpoint
// are signed when they are swapped and verified when they are read. Everything else is either named
// by its digest and reachable from the pointer, or hashed into the checkpoint, so these signatures
// cover it.
//
// Whether a store is signed depends only on its contents: while one of the first four of these
// cells is signed, nothing is written to the store without a key.
package signed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
)

// Cells are the cells whose signatures make a store signed. The identity is first: it is the first
// cell to be signed when signing begins, and the last one to lose its signature when signing ends.
var Cells = []artifacts.Key{artifacts.IdentityKey, artifacts.CurrentKey, artifacts.KeysKey, artifacts.ChangeKey}

// Renewed are the cells that Renew signs. They include the log's checkpoint, which stays signed
// even if the store no longer is.
var Renewed = append(slices.Clone(Cells), artifacts.CheckpointKey)

// ErrSigned means that the store is signed, and that the writer has no key.
var ErrSigned = errors.New("the store is signed")

// Unsigned returns ErrSigned if one of the cells of s is signed.
func Unsigned(ctx context.Context, s artifacts.ObjectReader) error {
	for _, o := range Cells {
		b, _, err := s.Get(ctx, o, o.Limit())
		if errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, artifacts.ErrTooLarge) {
			continue
		}
		if err != nil {
			return fmt.Errorf("check whether the store is signed: %w", err)
		}
		if by, is := artifacts.SignedBy(b); is {
			return fmt.Errorf("%w: %s by key %s; give --sign-key FILE, or end signing with builder sign --off",
				ErrSigned, o, strings.Join(by, ", "))
		}
	}
	return nil
}

type reader struct {
	artifacts.Reader
	trust artifacts.Trust
}

// Reader returns a reader that verifies the cells that it reads from r. Reading a cell that is not
// signed by a key in trustedKeys returns an error that wraps artifacts.ErrSignature. The data keeps
// its line of signatures, which the parsers of package artifacts ignore.
func Reader(r artifacts.Reader, trustedKeys artifacts.Trust) artifacts.Reader {
	return reader{r, trustedKeys}
}

func (r reader) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	b, v, err := r.Reader.Get(ctx, key, limit)
	return r.verified(key, b, v, err)
}

func (r reader) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	b, v, err := r.Reader.GetIf(ctx, key, known, limit)
	return r.verified(key, b, v, err)
}

func (r reader) verified(key artifacts.Key, b []byte, v artifacts.Version, err error,
) ([]byte, artifacts.Version, error) {
	if err == nil && key.Signed() {
		err = r.trust.Verify(key, b)
	}
	switch {
	case errors.Is(err, artifacts.ErrSignature):
		return nil, v, err // The version lets the caller replace the cell.
	case err != nil:
		return nil, "", err
	}
	return b, v, nil
}

type store struct {
	artifacts.Store
	reader reader
	sign   []artifacts.SignKey
	asked  *atomic.Bool // set once Put has found that the store is not signed
}

// Store returns a store that signs the cells with each key in signKeys when they are swapped, and
// verifies them against trustedKeys when they are read. If trustedKeys is empty, it does not verify
// them. A builder that signs must also verify, because it would otherwise sign what somebody else
// has published. If signKeys is empty, Put and Swap return ErrSigned while the store is signed.
func Store(s artifacts.Store, signKeys []artifacts.SignKey, trustedKeys artifacts.Trust) artifacts.Store {
	return store{s, reader{s, trustedKeys}, signKeys, new(atomic.Bool)}
}

// Signs reports whether s was returned by Store with keys to sign with.
func Signs(s artifacts.Store) bool {
	signs, ok := s.(store)
	return ok && len(signs.sign) > 0
}

func (s store) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	if s.reader.trust == nil {
		return s.Store.Get(ctx, key, limit)
	}
	return s.reader.Get(ctx, key, limit)
}

func (s store) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	if s.reader.trust == nil {
		return s.Store.GetIf(ctx, key, known, limit)
	}
	return s.reader.GetIf(ctx, key, known, limit)
}

// ClockSkew implements artifacts.Clock.
func (s store) ClockSkew() (time.Duration, bool) { return artifacts.SkewOf(s.Store) }

// Put checks, before it writes the first object, whether the store is signed, so that a build
// without a key fails before its work rather than after it.
func (s store) Put(ctx context.Context, key artifacts.Key, data []byte) error {
	if len(s.sign) == 0 && !s.asked.Load() {
		if err := Unsigned(ctx, s.Store); err != nil {
			return err
		}
		s.asked.Store(true)
	}
	return s.Store.Put(ctx, key, data)
}

func (s store) Swap(ctx context.Context, key artifacts.Key, old artifacts.Version, data []byte,
) (artifacts.Version, error) {
	if key.Signed() {
		if len(s.sign) == 0 {
			if err := Unsigned(ctx, s.Store); err != nil {
				return "", err
			}
		}
		plain := int64(len(data))
		data = artifacts.Sign(key, data, s.sign...)
		if plain <= key.Limit() && int64(len(data)) > key.Limit() {
			return "", fmt.Errorf("%s has %d bytes with its signatures; readers take %d", key, len(data), key.Limit())
		}
	}
	return s.Store.Swap(ctx, key, old, data)
}

// Renew signs each cell that is not yet signed by exactly the keys in signKeys. s must have been
// returned by Store with these keys. If the store does not trust a cell, Renew does not change it
// and returns an error, so that it never signs what somebody else wrote. With Renew a key can be
// replaced without a moment in which a cell has no trusted signature.
func Renew(ctx context.Context, s artifacts.Store, signKeys []artifacts.SignKey) (renewed []artifacts.Key, err error) {
	for _, o := range Renewed {
		b, version, e := s.Get(ctx, o, o.Limit())
		if errors.Is(e, artifacts.ErrNotFound) {
			continue
		}
		if e == nil && !signedBy(o, b, signKeys) {
			if _, e = s.Swap(ctx, o, version, artifacts.Unsigned(b)); e == nil {
				renewed = append(renewed, o)
			}
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("sign %s: %w", o, e))
		}
	}
	return renewed, err
}

func signedBy(key artifacts.Key, b []byte, signKeys []artifacts.SignKey) bool {
	if ids, _ := artifacts.SignedBy(b); len(ids) != len(signKeys) {
		return false
	}
	return !slices.ContainsFunc(signKeys,
		func(k artifacts.SignKey) bool { return artifacts.Trust{k.Trust()}.Verify(key, b) != nil })
}
