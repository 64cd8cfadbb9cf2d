package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/loadtest/oracle"
)

// vault is the store, directly and as it should be: it remembers the right bytes
// of what was damaged, and puts them back.
type vault struct {
	artifacts.Store

	mu    sync.RWMutex
	right map[string][]byte // by key of what is damaged now
}

// Get implements artifacts.Reader with the right bytes.
func (v *vault) Get(ctx context.Context, key string, limit int64) ([]byte, artifacts.Version, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if b, ok := v.right[key]; ok {
		return b, "", nil
	}
	return v.Store.Get(ctx, key, limit)
}

// damage writes spoil's bytes in place of an object, or removes it when they are
// nil.
func (v *vault) damage(ctx context.Context, key string, spoil func([]byte) []byte) error {
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

// repair puts everything back.
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

// truth knows what must be answered, from the vault by the load tester's oracle.
type truth struct {
	vault *vault

	known sync.Map // answers that are right: snapshot, target and digest

	mu        sync.Mutex
	snapshots map[string]*oracle.Snapshot
	order     []string // of snapshots, oldest first
	changes   []*artifacts.Change
}

// maxSnapshots bounds the snapshots that are held decoded.
const maxSnapshots = 12

// check returns what is wrong with the body of an answer. Equal answers are
// checked once.
func (t *truth) check(ctx context.Context, snapshot, target string, body []byte) error {
	key := snapshot + " " + target + " " + fmt.Sprintf("%x", sha256.Sum256(body))
	if _, ok := t.known.Load(key); ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.snapshot(ctx, snapshot)
	if err != nil {
		return err
	}
	path, raw, _ := strings.Cut(target, "?")
	q, refusal := oracle.Parse(path, raw)
	if refusal != nil {
		return fmt.Errorf("%s was asked, which is a %d", target, refusal.Status)
	}
	changes := []*artifacts.Change{nil}
	if q.Endpoint == "global" {
		c, err := oracle.GetChange(ctx, t.vault)
		if err != nil {
			return err
		}
		t.changes = append(t.changes, c)
		changes = append(changes, t.changes...)
	}
	for _, c := range changes {
		if string(s.Answer(q, s.Change(c)).Body) == string(body) {
			t.known.Store(key, true)
			return nil
		}
	}
	return fmt.Errorf("%d bytes that are not those of snapshot %s: %.300s", len(body), snapshot, body)
}

// snapshot returns a decoded snapshot. t.mu is held.
func (t *truth) snapshot(ctx context.Context, name string) (*oracle.Snapshot, error) {
	if s := t.snapshots[name]; s != nil {
		return s, nil
	}
	at, err := time.Parse(oracle.TimeFormat, name)
	if err != nil {
		return nil, err
	}
	m, err := oracle.FindManifest(ctx, t.vault, at)
	if err != nil {
		return nil, err
	}
	s, err := oracle.Load(ctx, t.vault, m)
	if err != nil {
		return nil, err
	}
	if len(s.Faults) > 0 {
		return nil, fmt.Errorf("snapshot %s breaks the contract: %s", name, s.Faults[0])
	}
	if len(t.order) == maxSnapshots {
		delete(t.snapshots, t.order[0])
		t.order = t.order[1:]
	}
	t.snapshots[name], t.order = s, append(t.order, name)
	return s, nil
}
