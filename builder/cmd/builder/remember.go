package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/durable"
)

// note returns the file in the source cache folder that says which store is at f's
// address; "": there is no such folder.
func (f *storeFlag) note(e *env) string {
	if e.sourceCache == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(f.Store))
	return filepath.Join(e.sourceCache, "stores", hex.EncodeToString(sum[:8]))
}

// remember notes the identity of a store that was just published to, so that it is not
// taken for a new store when it is emptied or not mounted.
func (f *storeFlag) remember(e *env, store artifacts.Store) {
	file := f.note(e)
	if file == "" {
		return
	}
	head, err := publish.ReadHead(e.ctx, store)
	if err == nil && head.Pointer != nil {
		known, _ := os.ReadFile(file)
		if string(known) == head.Pointer.Store {
			return
		}
		if err = os.MkdirAll(filepath.Dir(file), 0o777); err == nil {
			err = durable.WriteFile(file, strings.NewReader(head.Pointer.Store), 0o644)
		}
	}
	if err != nil && e.ctx.Err() == nil {
		e.log.Warn("the store's identity is not noted in the source cache folder", "err", err)
	}
}

// checkKnown returns publish.ErrLost when nothing is left of a store that remember has
// noted. store is nil for a folder that is missing.
func (f *storeFlag) checkKnown(e *env, store artifacts.Reader) error {
	file := f.note(e)
	if file == "" {
		return nil
	}
	id, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--source-cache: %w", err)
	}
	for _, key := range []string{artifacts.IdentityKey, artifacts.CurrentKey} {
		if store == nil {
			break
		}
		if _, _, err := store.Get(e.ctx, key, artifacts.MaxPointerSize); !errors.Is(err, artifacts.ErrNotFound) {
			return nil // it is there, or another step tells what is wrong
		}
	}
	return fmt.Errorf("--store %s: %w: store %s was here and nothing is left of it: mount it, or put it back with builder restore;"+
		" to begin a new store, remove %s", f.Store, publish.ErrLost, id, file)
}
