// Package signed wraps a store so that its identity, pointer, change record, key set and checkpoint
// are signed when they are swapped and verified when they are read. Everything else is named by its
// digest and reached from the pointer, or hashed into the checkpoint, so these signatures cover it.
//
// Whether a store is signed is a state of the store: while one of the first four is,
// nothing is written to it without a key.
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

// Cells are those that are signed. The identity stands first: whoever begins to
// sign a store begins with it, and whoever ends ends with it.
var Cells = []artifacts.Key{artifacts.IdentityKey, artifacts.CurrentKey, artifacts.KeysKey, artifacts.ChangeKey}

// Renewed are those that Renew signs: also the log's checkpoint, which stays signed if the store no
// longer is.
var Renewed = append(slices.Clone(Cells), artifacts.CheckpointKey)

// ErrSigned: the store is signed, and whoever writes to it has no key.
var ErrSigned = errors.New("the store is signed")

// Unsigned returns ErrSigned if one of the objects in s is signed.
func Unsigned(ctx context.Context, s artifacts.ObjectReader) error {
	for _, o := range Cells {
		b, _, err := s.Get(ctx, o, o.Limit())
		if errors.Is(err, artifacts.ErrNotFound) || errors.Is(err, artifacts.ErrTooLarge) {
			continue
		}
		if err != nil {
			return fmt.Errorf("is the store signed: %w", err)
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

// Reader returns r with the objects that move verified: one that is not signed by a key of trust
// gives an error that wraps artifacts.ErrSignature. What is read keeps its line of signatures,
// which the parsers of package artifacts leave out.
func Reader(r artifacts.Reader, trust artifacts.Trust) artifacts.Reader { return reader{r, trust} }

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
		return nil, v, err // the version, for who has something better to put there
	case err != nil:
		return nil, "", err
	}
	return b, v, nil
}

type store struct {
	artifacts.Store
	reader reader
	sign   []artifacts.SignKey
	asked  *atomic.Bool // the store was not signed when it was first put to
}

// Store returns s with those objects signed by each of sign when they are swapped, and verified
// against trust when they are read; without trust they are read as they are. A builder that signs
// must also verify: it would otherwise put its name to what somebody else has published. Without
// sign, Put and Swap give ErrSigned while the store is signed.
func Store(s artifacts.Store, sign []artifacts.SignKey, trust artifacts.Trust) artifacts.Store {
	return store{s, reader{s, trust}, sign, new(atomic.Bool)}
}

// Signs reports whether s is a Store of this package that has keys to sign with.
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

// Put asks whether the store is signed before the first object, so that a build
// ends before its work and not behind it.
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

// Renew signs anew what is not signed by each of sign and by nobody else, in a
// Store of this package that has these keys. What the store does not trust it leaves alone and
// returns as an error: whoever else wrote it does not get its name. So a key is
// exchanged without a moment in which an object has no signature that counts.
func Renew(ctx context.Context, s artifacts.Store, sign []artifacts.SignKey) (renewed []artifacts.Key, err error) {
	for _, o := range Renewed {
		b, version, e := s.Get(ctx, o, o.Limit())
		if errors.Is(e, artifacts.ErrNotFound) {
			continue
		}
		if e == nil && !signedBy(o, b, sign) {
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

func signedBy(key artifacts.Key, b []byte, sign []artifacts.SignKey) bool {
	if ids, _ := artifacts.SignedBy(b); len(ids) != len(sign) {
		return false
	}
	return !slices.ContainsFunc(sign,
		func(k artifacts.SignKey) bool { return artifacts.Trust{k.Trust()}.Verify(key, b) != nil })
}
