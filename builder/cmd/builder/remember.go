package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/durable"
)

// note returns the name of the file in the state folder that says which store is at f's address. It
// returns "" if there is no state folder.
func (f *storeFlag) note(e *env) string {
	if e.stateDir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(f.Store))
	return filepath.Join(e.stateDir, "stores", hex.EncodeToString(sum[:8]))
}

// remember notes the identity and the sequence of the store that the command has just published to
// or restored. Later commands therefore do not mistake the store for a new one if it is emptied or
// not mounted, nor an older pointer for the newest.
func (f *storeFlag) remember(e *env, store artifacts.Store) {
	file := f.note(e)
	if file == "" {
		return
	}
	p, _, err := publish.ReadPointer(e.ctx, store)
	if err == nil {
		err = durable.MkdirAll(filepath.Dir(file), 0o777)
	}
	if err == nil {
		err = durable.WriteFile(file, strings.NewReader(fmt.Sprintf("%s %d\n", p.Store, p.Sequence)), 0o644)
	}
	if err != nil && e.ctx.Err() == nil {
		e.log.Warn("could not note the store's identity in the state folder", "err", err)
	}
}

// noted returns the state that remember last noted for the store at f's address. It is zero if
// there is no note.
func (f *storeFlag) noted(e *env) (seen publish.Seen, err error) {
	file := f.note(e)
	if file == "" {
		return seen, nil
	}
	b, err := durable.ReadFile(file, 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	if err == nil {
		_, err = fmt.Sscan(string(b), &seen.Store, &seen.Sequence)
	}
	if err != nil {
		return publish.Seen{}, fmt.Errorf("note of the store in the state folder: %w; if the store is right, "+
			"remove %s", err, file)
	}
	return seen, nil
}

// checkKnown returns publish.ErrLost if nothing is left of a store that remember has noted. store
// is nil if its folder is missing.
func (f *storeFlag) checkKnown(e *env, store artifacts.ObjectReader) error {
	seen, err := f.noted(e)
	if err != nil || seen.Store == "" {
		return err
	}
	for _, key := range []artifacts.Key{artifacts.IdentityKey, artifacts.CurrentKey} {
		if store == nil {
			break
		}
		if _, _, err := store.Get(e.ctx, key, artifacts.MaxPointerSize); !errors.Is(err, artifacts.ErrNotFound) {
			return nil // the store is there, or another step reports what is wrong
		}
	}
	return fmt.Errorf("--store %s: %w: store %s was here and nothing is left of it: mount it, or put it back with "+
		"builder restore;"+" to begin a new store, remove %s", f.Store, publish.ErrLost, seen.Store, f.note(e))
}
