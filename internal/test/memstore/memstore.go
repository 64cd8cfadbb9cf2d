// Package memstore implements an artifacts.Store in memory. It keeps every promise of the interface
// except that its objects do not outlive the process.
//
// Versions count the changes of the whole store, so each Swap yields a new version even for equal
// bytes. (Other stores may give equal bytes equal versions. Callers must not rely on either.)
package memstore

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
)

// Store is an artifacts.Store in memory. Use New to create one.
type Store struct {
	mu      sync.RWMutex // guards the fields below
	now     func() time.Time
	changes uint64
	objects map[artifacts.Key]object
}

type object struct {
	data     []byte // never modified
	version  artifacts.Version
	modified time.Time
}

var _ artifacts.Store = (*Store)(nil)

// New returns an empty store. Its clock is time.Now, in UTC.
func New() *Store {
	return &Store{
		now:     func() time.Time { return time.Now().UTC() },
		objects: map[artifacts.Key]object{},
	}
}

// SetClock replaces the clock. From then on, Now and the modification times of objects use the new
// one.
func (s *Store) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func ready(ctx context.Context, verb string, key artifacts.Key) error {
	err := ctx.Err()
	if err == nil {
		err = key.Check()
	}
	if err != nil {
		return fmt.Errorf("%s %.100s: %w", verb, key, err)
	}
	return nil
}

// write replaces key's object. The caller holds mu.
func (s *Store) write(key artifacts.Key, data []byte) artifacts.Version {
	s.changes++
	v := artifacts.Version("m" + strconv.FormatUint(s.changes, 10))
	s.objects[key] = object{data: data, version: v, modified: s.now()}
	return v
}

// Get implements artifacts.Reader. The bytes are the caller's own.
func (s *Store) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	return s.GetIf(ctx, key, "", limit)
}

// GetIf implements artifacts.Reader. The bytes are the caller's own.
func (s *Store) GetIf(ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	if err := ready(ctx, "get", key); err != nil {
		return nil, "", err
	}
	s.mu.RLock()
	o, ok := s.objects[key]
	s.mu.RUnlock()
	switch {
	case !ok:
		return nil, "", fmt.Errorf("get %s: %w", key, artifacts.ErrNotFound)
	case o.version == known:
		return nil, "", fmt.Errorf("get %s: %w", key, artifacts.ErrNotModified)
	case int64(len(o.data)) > limit:
		return nil, "",
			fmt.Errorf("get %s: %w: %d bytes, at most %d are taken", key, artifacts.ErrTooLarge, len(o.data), limit)
	}
	return append([]byte{}, o.data...), o.version, nil
}

// Put implements artifacts.Store. It copies data.
func (s *Store) Put(ctx context.Context, key artifacts.Key, data []byte) error {
	if err := ready(ctx, "put", key); err != nil {
		return err
	}
	data = bytes.Clone(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[key]
	same := ok && bytes.Equal(old.data, data)
	if ok && !same && !key.Names(data) {
		return fmt.Errorf("put %s: %w: the store holds other bytes under this key", key, artifacts.ErrConflict)
	}
	if same {
		old.modified = s.now()
		s.objects[key] = old
		return nil
	}
	s.write(key, data)
	return nil
}

// Sync implements artifacts.Store. It does nothing, because nothing outlives the process.
func (s *Store) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// Swap implements artifacts.Store. It copies data.
func (s *Store) Swap(ctx context.Context, key artifacts.Key, old artifacts.Version, data []byte,
) (artifacts.Version, error) {
	if err := ready(ctx, "swap", key); err != nil {
		return "", err
	}
	data = bytes.Clone(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.objects[key].version; have != old {
		return "", fmt.Errorf("swap %s: %w: version is %q, not %q", key, artifacts.ErrConflict, have, old)
	}
	return s.write(key, data), nil
}

// List implements artifacts.Store. It lists the state of the store at the time of the call. f may
// call the store.
func (s *Store) List(ctx context.Context, prefix string, f func(artifacts.Info) error) error {
	if err := artifacts.CheckPrefix(prefix); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	var infos []artifacts.Info
	s.mu.RLock()
	for key, o := range s.objects {
		if strings.HasPrefix(key.String(), prefix) {
			infos = append(infos, artifacts.Info{Key: key, Size: int64(len(o.data)), Modified: o.modified})
		}
	}
	s.mu.RUnlock()
	for _, i := range infos {
		if ctx.Err() != nil {
			break
		}
		if err := f(i); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	return nil
}

// Delete implements artifacts.Store.
func (s *Store) Delete(ctx context.Context, key artifacts.Key) error {
	if err := ready(ctx, "delete", key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	return nil
}

// Now implements artifacts.Store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, fmt.Errorf("clock: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.now(), nil
}

// SelfTest implements artifacts.Store. It does nothing, because TestStore already tests the same
// conditions.
func (s *Store) SelfTest(ctx context.Context) error { return ctx.Err() }
