package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
)

// Identity returns the identity of the store. If the store has none, Identity gives it the identity
// named by its pointer or, failing that, by its key set, since edges know the store by that
// identity. If neither names one, the identity is new. Writers call Identity before their first
// write.
func Identity(ctx context.Context, s artifacts.Store) (string, error) {
	i, err := identify(ctx, s)
	return i.Store, err
}

func identify(ctx context.Context, s artifacts.Store) (artifacts.Identity, error) {
	i, _, err := readIdentity(ctx, s)
	if !errors.Is(err, artifacts.ErrNotFound) {
		return i, err
	}
	made, err := KnownIdentity(ctx, s)
	if err != nil {
		return i, err
	}
	_, swapErr := s.Swap(ctx, artifacts.IdentityKey, "", made.Encode())
	if swapErr == nil {
		return *made, nil
	}
	// Another writer was faster, or the store's response was lost.
	if i, _, err = readIdentity(ctx, s); err != nil {
		return i, fmt.Errorf("write identity: %w", swapErr)
	}
	return i, nil
}

// Number returns the number that follows the given one, which belongs to a key set or a change
// record. If the given number is zero or belongs to another store, the last number counts as lost.
func Number(ctx context.Context, s artifacts.Store, before artifacts.Numbered, now time.Time,
) (artifacts.Numbered, error) {
	id, err := Identity(ctx, s)
	if err != nil {
		return artifacts.Numbered{}, err
	}
	var sequence uint64
	if before.Store != id {
		before = artifacts.Numbered{}
		p, _, err := ReadPointer(ctx, s)
		switch {
		case err == nil:
			sequence = p.Sequence
		case !errors.Is(err, artifacts.ErrNotFound):
			return before, err
		}
	}
	return before.Next(id, now, sequence), nil
}

// identity returns the store's Identity, which it reads only the first time.
func (h *Head) identity(ctx context.Context, s artifacts.Store) (string, error) {
	h.naming.Lock()
	defer h.naming.Unlock()
	if h.id != "" {
		return h.id, nil
	}
	i, err := identify(ctx, s)
	if err != nil {
		return "", err
	}
	id := i.Store
	if h.Pointer != nil && h.Pointer.Store != id {
		return "", fmt.Errorf("%w: the pointer is of store %s, this is store %s", artifacts.ErrCorrupt,
			h.Pointer.Store, id)
	}
	// The pointer's publisher may have died before it could mark the pointer in the identity.
	if h.Pointer != nil && !slices.Contains(i.Had, artifacts.CurrentKey) {
		if err := Mark(ctx, s, artifacts.CurrentKey); err != nil {
			return "", err
		}
	}
	h.id = id
	return id, nil
}

// readIdentity returns the store's identity and its version. If there is an error, the identity is
// empty.
func readIdentity(ctx context.Context, r artifacts.ObjectReader) (artifacts.Identity, artifacts.Version, error) {
	b, version, err := r.Get(ctx, artifacts.IdentityKey, artifacts.MaxPointerSize)
	if err != nil {
		return artifacts.Identity{}, "", fmt.Errorf("read identity: %w", err)
	}
	i, err := artifacts.ParseIdentity(b)
	if err != nil {
		return artifacts.Identity{}, "", err
	}
	return *i, version, nil
}

// KnownIdentity returns an identity for a store without one: the identity that the other small
// objects name, or else a new one. The identity records that the store had a key set if there is
// one, or if the change record shows that an identity was lost. In the latter case it is unknown
// whether there was a key set, and the loss of a key set must not go unnoticed.
func KnownIdentity(ctx context.Context, s artifacts.Store) (*artifacts.Identity, error) {
	made := &artifacts.Identity{Format: artifacts.Format, Had: []artifacts.Key{}}
	p, _, err := ReadPointer(ctx, s)
	switch {
	case err == nil:
		made.Store, made.Had = p.Store, append(made.Had, artifacts.CurrentKey)
	case !errors.Is(err, artifacts.ErrNotFound):
		return nil, err
	default:
		if err := CheckPointer(ctx, s, nil, Seen{}); err != nil {
			return nil, err
		}
	}
	b, _, err := s.Get(ctx, artifacts.KeysKey, artifacts.MaxKeySetSize)
	switch {
	case err == nil:
		set, err := artifacts.ParseKeySet(b)
		if err != nil && made.Store == "" {
			return nil, err
		}
		if err == nil && made.Store == "" {
			made.Store = set.Store
		}
		made.Had = append(made.Had, artifacts.KeysKey)
	case !errors.Is(err, artifacts.ErrNotFound) && made.Store == "":
		return nil, fmt.Errorf("read key set: %w", err)
	case made.Store != "":
		b, _, err := s.Get(ctx, artifacts.ChangeKey, artifacts.MaxPointerSize)
		if c, perr := artifacts.ParseChange(b); err == nil && perr == nil && c.Store != "" {
			made.Had = append(made.Had, artifacts.KeysKey)
		}
	}
	if made.Store == "" {
		made.Store = randomID()
	}
	return made, nil
}
