// Package floor remembers the highest sequence and numbers that an edge has taken, so that it never takes
// older data or the data of another store (INTERFACE.md, "Keys"). The record is in the cache folder, so it
// survives restarts and periods in which an object is missing from the store.
package floor

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/durable"
)

// name is the record's file name in the cache folder.
const name = "floor"

// maxSize bounds that file, in bytes. It leaves room for hundreds of stores.
const maxSize = 64 << 10

// ReadFile returns the contents of a file in the cache folder, or nil if it does not exist.
func ReadFile(path string, limit int64) ([]byte, error) {
	b, err := durable.ReadFile(path, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// Floor is the record of an edge. It is safe for concurrent use.
type Floor struct {
	path   string // empty if the record is in memory only
	accept []string
	log    *slog.Logger

	mu       sync.Mutex
	seen     record
	problems map[string]string      // by the name of the file
	missing  map[artifacts.Key]bool // small objects that the store has lost

	writing   sync.Mutex              // must be locked before mu
	unwritten map[string]func() error // the writes that failed last, by the name of the file
}

// record is the contents of the file: JSON with a checksum, like the small objects of a store.
type record struct {
	Format int `json:"format"`
	// Store is the identity of the store that the edge follows, or "" if it is not known yet.
	Store string `json:"store"`
	// Highest is the highest sequence or number that the edge has taken, by store and object.
	Highest map[string]map[artifacts.Key]uint64 `json:"highest"`
}

// Open reads the record in the cache folder dir. If dir is empty, the record is in memory only. acceptStores
// lists the identities of other stores that the edge may follow. If the record is unreadable, Open reports
// this as a problem and starts with an empty one; the other files in dir then raise its numbers again.
func Open(dir string, acceptStores []string, log *slog.Logger) *Floor {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &Floor{accept: acceptStores, log: log, seen: record{Format: artifacts.Format}, problems: map[string]string{},
		missing: map[artifacts.Key]bool{}, unwritten: map[string]func() error{}}
	if dir != "" {
		f.path = filepath.Join(dir, name)
		kept, err := f.read()
		kept.Format = artifacts.Format
		f.seen = kept
		f.Report(name, err)
	}
	return f
}

func (f *Floor) read() (kept record, err error) {
	b, err := ReadFile(f.path, maxSize)
	if b == nil {
		return kept, err
	}
	err = artifacts.ParseSmall(name, b, &kept)
	if err != nil {
		kept = record{}
	}
	return kept, err
}

func (r *record) raise(store string, key artifacts.Key, n uint64) (changed bool) {
	if n <= r.Highest[store][key] {
		return false
	}
	if r.Highest == nil {
		r.Highest = map[string]map[artifacts.Key]uint64{}
	}
	if r.Highest[store] == nil {
		r.Highest[store] = map[artifacts.Key]uint64{}
	}
	r.Highest[store][key] = n
	return true
}

// Learn determines which store this is, if the edge does not know it yet. It reads the store's identity and
// then its pointer. identityIn returns the identity of the store that a verified cell names, "" if there is no
// such cell, or an error if the store does not answer.
func (f *Floor) Learn(identityIn func(key artifacts.Key) (store string, err error)) error {
	f.mu.Lock()
	known := f.seen.Store != ""
	f.mu.Unlock()
	if known {
		return nil
	}
	for _, key := range []artifacts.Key{artifacts.IdentityKey, artifacts.CurrentKey} {
		store, err := identityIn(key)
		if err != nil {
			return fmt.Errorf("identity of the store: %w", err)
		}
		if store != "" {
			f.Take(key, store, 0)
			return nil
		}
	}
	return nil
}

// Check returns an error if the edge must not take an object: it belongs to another store, or its sequence or
// number n is lower than the highest one taken or implausibly higher. An object that names no store belongs
// to the store that the edge follows.
func (f *Floor) Check(key artifacts.Key, store string, n uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := f.seen.Store
	store = cmp.Or(store, own)
	highest, what := f.seen.Highest[store][key], "number"
	if key == artifacts.CurrentKey {
		what = "sequence"
	}
	switch {
	case own != "" && store != own && !slices.Contains(f.accept, store):
		return fmt.Errorf("it is of store %s, this edge follows %s; to follow it, start with --accept-store %s", store,
			own, store)
	case n < highest:
		return fmt.Errorf("its %s moved back from %d to %d", what, highest, n)
	case highest > 0 && n > highest+artifacts.MaxJump:
		return fmt.Errorf("%w: its %s jumped from %d to %d", artifacts.ErrCorrupt, what, highest, n)
	}
	return nil
}

// CheckCopy is like Check for an object that comes from a copy of the store. The object must name the store
// that the edge follows. If the edge does not know its store yet, the object must name one that the operator
// accepts. alreadyTaken reports whether the edge has taken an object with this number before.
func (f *Floor) CheckCopy(key artifacts.Key, store string, n uint64) (alreadyTaken bool, err error) {
	f.mu.Lock()
	own, highest := f.seen.Store, f.seen.Highest[store][key]
	f.mu.Unlock()
	switch {
	case store == "":
		return false, errors.New("it does not say of which store it is")
	case own == "" && !slices.Contains(f.accept, store):
		return false, fmt.Errorf("it is of store %s, and the first store has not said yet that it is that one; to"+
			" start without it, start with --accept-store %s", store, store)
	case own != "" && store != own:
		return false, fmt.Errorf("it is of store %s, this edge follows %s", store, own)
	}
	return n == highest, f.Check(key, store, n)
}

// Higher reports whether n is higher than any number that the edge has taken for this object.
func (f *Floor) Higher(key artifacts.Key, store string, n uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n > f.seen.Highest[cmp.Or(store, f.seen.Store)][key]
}

// Seen reports whether the edge has taken this object from the store that it follows.
func (f *Floor) Seen(key artifacts.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen.Highest[f.seen.Store][key] > 0
}

// Moving lists the small objects that an edge polls.
var Moving = [...]artifacts.Key{artifacts.CurrentKey, artifacts.ChangeKey, artifacts.KeysKey}

// Missing records whether the store has lost a small object.
func (f *Floor) Missing(key artifacts.Key, missing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.missing[key] == missing {
		return
	}
	if f.missing[key] = missing; missing {
		f.log.Error("the store has lost a small object; copies of it are kept", "object", key.String())
	} else {
		f.log.Info("a small object is back in the store", "object", key.String())
	}
}

// IsMissing reports whether the store has lost a small object. On a nil Floor it returns false.
func (f *Floor) IsMissing(key artifacts.Key) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missing[key]
}

// Take records that the edge has taken an object. The object must have passed Check, and must already be
// saved if it is saved at all. If key is the pointer, the edge follows its store from now on.
func (f *Floor) Take(key artifacts.Key, store string, n uint64) {
	if f.raise(key, store, n) && f.path != "" {
		f.Keep("the floor, as it is written", f.write)
	}
}

func (f *Floor) raise(key artifacts.Key, store string, n uint64) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if store != "" && store != f.seen.Store && (f.seen.Store == "" || key == artifacts.CurrentKey) {
		f.seen.Store, changed = store, true
	}
	if store != "" && f.seen.raise(store, key, n) {
		changed = true
	}
	return changed
}

func (f *Floor) write() error {
	f.mu.Lock()
	b := artifacts.EncodeSmall(&f.seen)
	f.mu.Unlock()
	return durable.WriteFile(f.path, bytes.NewReader(b), 0o600)
}

// Keep writes a file in the cache folder. If that fails, Keep reports a problem, which ends when Retry or
// another Keep with the same name succeeds.
func (f *Floor) Keep(what string, write func() error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	err := write()
	if f.Report(what, err); err != nil {
		f.unwritten[what] = write
	} else {
		delete(f.unwritten, what)
	}
}

// Retry repeats the writes that failed, ordered by name. The floor's name comes last, since the floor must
// not be ahead of the saved objects.
func (f *Floor) Retry() {
	f.writing.Lock()
	defer f.writing.Unlock()
	for _, what := range slices.Sorted(maps.Keys(f.unwritten)) {
		if f.unwritten[what]() == nil {
			delete(f.unwritten, what)
			f.Report(what, nil)
			f.log.Info("the cache folder can be written again", "file", what)
		}
	}
}

// Report records what is wrong with a file in the cache folder. A nil error ends the problem.
func (f *Floor) Report(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.problems, what)
	} else if text := err.Error(); f.problems[what] != text {
		f.problems[what] = text
		f.log.Warn("a file in the cache folder cannot be used", "file", what, "err", err)
	}
}

// Problems describes the files that could not be read, written or trusted.
func (f *Floor) Problems() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	problems := make([]string, 0, len(f.problems))
	for _, what := range slices.Sorted(maps.Keys(f.problems)) {
		problems = append(problems, what+": "+f.problems[what])
	}
	return problems
}
