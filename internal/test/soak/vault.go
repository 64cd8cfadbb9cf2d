package main

import (
	"context"
	"errors"
	"sync"

	"example.com/marketdata/artifacts"
)

// vault is the undamaged view of the store, which it accesses without the proxy. It keeps the
// original bytes of damaged objects and can restore them.
type vault struct {
	artifacts.Store

	mu    sync.RWMutex
	right map[artifacts.Key][]byte // original bytes of the objects that are damaged at present
}

// Get implements artifacts.Reader. It returns the original bytes of damaged objects.
func (v *vault) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if b, ok := v.right[key]; ok {
		return b, "", nil
	}
	return v.Store.Get(ctx, key, limit)
}

// damage replaces the bytes of an object with the result of transform, or removes the object if the
// result is nil.
func (v *vault) damage(ctx context.Context, key artifacts.Key, transform func([]byte) []byte) error {
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
	if bad := transform(append([]byte{}, b...)); bad != nil {
		_, err = v.Store.Swap(ctx, key, version, bad)
	} else {
		err = v.Store.Delete(ctx, key)
	}
	return err
}

// repair restores all damaged objects.
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
