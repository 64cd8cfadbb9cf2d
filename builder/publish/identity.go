package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/marketdata/artifacts"
)

// Identity returns which store this is. A store that does not say so yet is
// given its identity: that of its pointer or else of its key set, from which
// edges know it, or else a new one. Whoever writes asks before the first write.
func Identity(ctx context.Context, s artifacts.Store) (string, error) {
	id, err := readIdentity(ctx, s)
	if !errors.Is(err, artifacts.ErrNotFound) {
		return id, err
	}
	id, err = knownIdentity(ctx, s)
	if err != nil {
		return "", err
	}
	made := artifacts.Identity{Format: artifacts.Format, Store: id}
	_, swapErr := s.Swap(ctx, artifacts.IdentityKey, "", made.Encode())
	if swapErr == nil {
		return id, nil
	}
	// Another writer was faster, or the answer was lost.
	if id, err = readIdentity(ctx, s); err != nil {
		return "", fmt.Errorf("write identity: %w", swapErr)
	}
	return id, nil
}

// Number returns what a key set or change record says that takes the place of
// one that said before; a zero one, and one of another store, counts as lost.
func Number(ctx context.Context, s artifacts.Store, before artifacts.Numbered, now time.Time) (artifacts.Numbered, error) {
	id, err := Identity(ctx, s)
	if err != nil {
		return artifacts.Numbered{}, err
	}
	var sequence uint64
	if before.Store != id {
		before = artifacts.Numbered{}
		p, _, err := readPointer(ctx, s)
		switch {
		case err == nil:
			sequence = p.Sequence
		case !errors.Is(err, artifacts.ErrNotFound):
			return before, err
		}
	}
	return before.Next(id, now, sequence), nil
}

// identity returns the store's Identity, which a head's writers ask for once.
func (h *Head) identity(ctx context.Context, s artifacts.Store) (string, error) {
	h.naming.Lock()
	defer h.naming.Unlock()
	if h.id != "" {
		return h.id, nil
	}
	id, err := Identity(ctx, s)
	if err != nil {
		return "", err
	}
	if h.Pointer != nil && h.Pointer.Store != id {
		return "", fmt.Errorf("%w: the pointer is of store %s, this is store %s", artifacts.ErrCorrupt, h.Pointer.Store, id)
	}
	h.id = id
	return id, nil
}

func readIdentity(ctx context.Context, r artifacts.Reader) (string, error) {
	b, _, err := r.Get(ctx, artifacts.IdentityKey, artifacts.MaxPointerSize)
	if err != nil {
		return "", fmt.Errorf("read identity: %w", err)
	}
	i, err := artifacts.ParseIdentity(b)
	if err != nil {
		return "", err
	}
	return i.Store, nil
}

// knownIdentity returns what a store without the object says of itself.
func knownIdentity(ctx context.Context, r artifacts.Reader) (string, error) {
	p, _, err := readPointer(ctx, r)
	if err == nil {
		return p.Store, nil
	}
	if !errors.Is(err, artifacts.ErrNotFound) {
		return "", err
	}
	b, _, err := r.Get(ctx, artifacts.KeysKey, artifacts.MaxKeySetSize)
	if errors.Is(err, artifacts.ErrNotFound) {
		return randomID(), nil
	}
	if err != nil {
		return "", fmt.Errorf("read key set: %w", err)
	}
	set, err := artifacts.ParseKeySet(b)
	if err != nil {
		return "", err
	}
	if set.Store == "" {
		return randomID(), nil
	}
	return set.Store, nil
}
