// Package floor remembers how far an edge has seen its store move, in the cache
// folder, so that it never takes what is older or of another store
// (INTERFACE.md, "Keys"): not after a restart either, nor when the object was
// missing in between.
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

// name is the record's file in the cache folder.
const name = "floor"

// maxSize bounds that file, in bytes: some hundreds of stores.
const maxSize = 64 << 10

// ReadFile returns a file that was kept; nil when there is none.
func ReadFile(path string, limit int64) ([]byte, error) {
	b, err := durable.ReadFile(path, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// Floor is safe for concurrent use.
type Floor struct {
	path   string // "": it is kept in memory only
	accept []string
	log    *slog.Logger

	mu       sync.Mutex
	seen     record
	problems map[string]string      // by what is kept
	missing  map[artifacts.Key]bool // small objects that the store has lost

	writing   sync.Mutex              // is locked before mu
	unwritten map[string]func() error // the last write of each thing, if it failed
}

// record is the file: JSON with a checksum, as the small objects of a store.
type record struct {
	Format int `json:"format"`
	// Store is the one that this edge follows; "" before it is known.
	Store string `json:"store"`
	// Highest is what was taken: sequence or number, by store and object.
	Highest map[string]map[artifacts.Key]uint64 `json:"highest"`
}

// Open reads what is kept in dir; "": nothing is kept. accept are identities of
// other stores that may take over. A record that cannot be read is a problem, and
// what else is kept in dir then says how far the edge was.
func Open(dir string, accept []string, log *slog.Logger) *Floor {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &Floor{accept: accept, log: log, seen: record{Format: artifacts.Format}, problems: map[string]string{},
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

// Learn finds out which store this is, if that is not known yet: its identity says so, or else its
// pointer. get returns the store that a verified cell names, "" if there is no such cell, and an error if
// the store gives no answer.
func (f *Floor) Learn(get func(key artifacts.Key) (store string, err error)) error {
	f.mu.Lock()
	known := f.seen.Store != ""
	f.mu.Unlock()
	if known {
		return nil
	}
	for _, key := range []artifacts.Key{artifacts.IdentityKey, artifacts.CurrentKey} {
		store, err := get(key)
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

// Check returns why an object must not be taken: it is of another store, or its
// sequence or number n is lower than one that was taken, or beyond reason
// higher. An object that names no store is of the one that it lies in.
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

// CheckCopy is Check for an object of a copy of the store: it must say that it is of the store that this
// edge follows. Where that is not known yet, it must be one that the operator accepts. same means that an
// object of this number was taken.
func (f *Floor) CheckCopy(key artifacts.Key, store string, n uint64) (same bool, err error) {
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

// Higher reports whether n is higher than all numbers of such an object that were taken.
func (f *Floor) Higher(key artifacts.Key, store string, n uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n > f.seen.Highest[cmp.Or(store, f.seen.Store)][key]
}

// Seen reports whether such an object of the store that this edge follows was
// taken.
func (f *Floor) Seen(key artifacts.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen.Highest[f.seen.Store][key] > 0
}

// Moving are the small objects that an edge reads again and again.
var Moving = [...]artifacts.Key{artifacts.CurrentKey, artifacts.ChangeKey, artifacts.KeysKey}

// Missing notes whether the store holds a small object that it held before.
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

// IsMissing reports whether the store has lost a small object. Of a nil Floor it has not.
func (f *Floor) IsMissing(key artifacts.Key) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missing[key]
}

// Take notes that an object was taken; it must have passed Check, and be kept
// already where it is kept. The pointer decides which store is followed.
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

// Keep writes something that is kept in the folder. If that fails it is a problem until Retry, or
// another write of the same, succeeds.
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

// Retry writes what could not be written, in the order of names: the floor is the last, since it must
// not be ahead of what is kept.
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

// Report notes what is wrong with something that is kept in the folder; nil:
// nothing is any more.
func (f *Floor) Report(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.problems, what)
	} else if text := err.Error(); f.problems[what] != text {
		f.problems[what] = text
		f.log.Warn("what is kept in the cache folder cannot be used", "file", what, "err", err)
	}
}

// Problems says what in the folder could not be read, written or believed.
func (f *Floor) Problems() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	problems := make([]string, 0, len(f.problems))
	for _, what := range slices.Sorted(maps.Keys(f.problems)) {
		problems = append(problems, what+": "+f.problems[what])
	}
	return problems
}
