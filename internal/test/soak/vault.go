package main

import (
	"context"
	"errors"
	"sync"

	"example.com/marketdata/artifacts"
)

// vault is the store without proxy and faults. It remembers the original bytes of damaged objects
// and restores them.
type vault struct {
	artifacts.Store

	mu    sync.RWMutex
	right map[artifacts.Key][]byte // original bytes of the objects that are damaged now
}

// Get implements artifacts.Reader with the right bytes.
func (v *vault) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if b, ok := v.right[key]; ok {
		return b, "", nil
	}
	return v.Store.Get(ctx, key, limit)
}

// damage replaces an object's bytes by spoil's, or removes the object if these are nil.
func (v *vault) damage(ctx context.Context, key artifacts.Key, spoil func([]byte) []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.right[key]; ok {
		return nil // damaged already
	}
	b, version, err := v.Store.Get(ctx, key, artifacts.MaxObjectSize)
	if err != nil {
		return err
	}
	v.right[key] = b
	if bad := spoil(append([]byte{}, b...)); bad != nil {
		_, err = v.Store.Swap(ctx, key, version, bad)
	} else {
		err = v.Store.Delete(ctx, key)
	}
	return err
}

// repair restores everything.
func (v *vault) repair(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, b := range v.right {
		_, version, err := v.Store.Get(ctx, key, artifacts.MaxObjectSize)
		if err != nil && !errors.Is(err, artifacts.ErrNotFound) {
			return err
		}
		if _, err := v.Store.Swap(ctx, key, version, b); err != nil {
			return err
		}
		delete(v.right, key)
	}
	return nil
}
