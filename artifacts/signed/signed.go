// Package signed wraps a store so that the three objects that move (the
// pointer, the change record, the key set) are signed when they are swapped
// and verified when they are read. Everything else is named by its digest and
// reached from the pointer, so the pointer's signature covers it.
package signed

import (
	"context"

	"example.com/marketdata/artifacts"
)

// moves reports the objects that are signed.
func moves(key string) bool {
	return key == artifacts.CurrentKey || key == artifacts.ChangeKey || key == artifacts.KeysKey
}

type reader struct {
	artifacts.Reader
	trust artifacts.Trust
}

// Reader returns r with the objects that move verified: one that is not signed
// by a key of trust gives an error that wraps artifacts.ErrSignature. What is
// read keeps its line of signatures, which the parsers of package artifacts leave
// out.
func Reader(r artifacts.Reader, trust artifacts.Trust) artifacts.Reader { return reader{r, trust} }

func (r reader) Get(ctx context.Context, key string, limit int64) ([]byte, artifacts.Version, error) {
	b, v, err := r.Reader.Get(ctx, key, limit)
	return r.verified(key, b, v, err)
}

func (r reader) GetIf(ctx context.Context, key string, known artifacts.Version, limit int64) ([]byte, artifacts.Version, error) {
	b, v, err := r.Reader.GetIf(ctx, key, known, limit)
	return r.verified(key, b, v, err)
}

func (r reader) verified(key string, b []byte, v artifacts.Version, err error) ([]byte, artifacts.Version, error) {
	if err == nil && moves(key) {
		err = r.trust.Verify(key, b)
	}
	if err != nil {
		return nil, "", err
	}
	return b, v, nil
}

type store struct {
	artifacts.Store
	reader reader
	sign   []artifacts.SignKey
}

// Store returns s with the objects that move signed by each of sign when they
// are swapped, and verified against trust when they are read; without trust they
// are read as they are. A builder that signs must also verify: it would
// otherwise put its name to what somebody else has published.
func Store(s artifacts.Store, sign []artifacts.SignKey, trust artifacts.Trust) artifacts.Store {
	return store{s, reader{s, trust}, sign}
}

func (s store) Get(ctx context.Context, key string, limit int64) ([]byte, artifacts.Version, error) {
	if s.reader.trust == nil {
		return s.Store.Get(ctx, key, limit)
	}
	return s.reader.Get(ctx, key, limit)
}

func (s store) GetIf(ctx context.Context, key string, known artifacts.Version, limit int64) ([]byte, artifacts.Version, error) {
	if s.reader.trust == nil {
		return s.Store.GetIf(ctx, key, known, limit)
	}
	return s.reader.GetIf(ctx, key, known, limit)
}

func (s store) Swap(ctx context.Context, key string, old artifacts.Version, data []byte) (artifacts.Version, error) {
	if moves(key) {
		data = artifacts.Sign(key, data, s.sign...)
	}
	return s.Store.Swap(ctx, key, old, data)
}
