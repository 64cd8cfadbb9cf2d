// Package faultstore makes a store fail on demand and counts the calls to it. It is for tests.
//
// A fault has two aspects: whether the call was applied, and what the caller learned. Publishers
// tend to break when a write was applied but reported as failed.
//
//	s := faultstore.New(memstore.New(), func(op faultstore.Op) faultstore.Decision {
//		if op.Kind == faultstore.Swap && op.Key == artifacts.CurrentKey {
//			return faultstore.Lose
//		}
//		return faultstore.Pass
//	})
package faultstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
)

// ErrFault is the error from a call that the hook made fail. To the caller the outcome is
// unknown, because ErrFault is not an error that package artifacts defines.
var ErrFault = errors.New("injected fault")

// Kind is a method of artifacts.Store.
type Kind string

// The kinds.
const (
	Get      Kind = "get"
	GetIf    Kind = "getif"
	Put      Kind = "put"
	Sync     Kind = "sync"
	Swap     Kind = "swap"
	List     Kind = "list"
	Delete   Kind = "delete"
	Now      Kind = "now"
	SelfTest Kind = "selftest"
)

// Op is one call.
type Op struct {
	Kind Kind
	// Key is the key of the call; it is zero for calls without one. Prefix is the prefix of List.
	Key    artifacts.Key
	Prefix string
	// N is the number of the call among all calls, starting from 1, in the order in which they were
	// made.
	N int
}

// Decision is what happens to a call.
type Decision int

// The decisions.
const (
	Pass     Decision = iota // the call reaches the store
	Refuse                   // the call is not applied, and fails with ErrFault
	Lose                     // the call is applied, but fails with ErrFault
	Corrupt                  // for Get and GetIf: one bit is wrong, a different one each time; otherwise like Pass
	Truncate                 // for Get and GetIf: the second half of the object is missing; otherwise like Pass
	Hide                     // for Get and GetIf: artifacts.ErrNotFound; otherwise like Pass
	Block                    // the call is not applied, and blocks until its context is done
)

// Hook decides the outcome of a store operation before it is performed. It may be called concurrently,
// and it may block.
type Hook func(Op) Decision

// Store wraps a store. It is safe for concurrent use.
type Store struct {
	inner artifacts.Store

	mu     sync.Mutex // guards the fields below
	hook   Hook
	n      int
	counts map[Kind]int
}

var _ artifacts.Store = (*Store)(nil)

// New returns a store that asks hook about each call before it passes the call to inner. Without a
// hook, all calls pass.
func New(inner artifacts.Store, hook Hook) *Store {
	return &Store{inner: inner, hook: hook, counts: map[Kind]int{}}
}

// SetHook replaces the hook for all later calls.
func (s *Store) SetHook(hook Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Counts returns the number of calls of each kind since New or Reset, whatever their outcome. Calls
// whose context was already done do not count. Kinds without a call are missing.
func (s *Store) Counts() map[Kind]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Reset restarts all counts, including the count in Op.N.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n = 0
	clear(s.counts)
}

func (o Op) error(err error) error { return fmt.Errorf("%s %s%s: %w", o.Kind, o.Key, o.Prefix, err) }

// call makes one call. It uses callInner to make the call on the wrapped store.
func (s *Store) call(ctx context.Context, op Op, callInner func() error) (Op, Decision, error) {
	if err := ctx.Err(); err != nil {
		return op, Block, op.error(err)
	}
	s.mu.Lock()
	s.n++
	s.counts[op.Kind]++
	op.N = s.n
	hook := s.hook
	s.mu.Unlock()

	d := Pass
	if hook != nil {
		d = hook(op)
	}
	fault := op.error(ErrFault)
	switch d {
	case Refuse:
		return op, d, fault
	case Block:
		<-ctx.Done()
		return op, d, op.error(ctx.Err())
	}
	err := callInner()
	if d == Lose {
		err = fault
	}
	return op, d, err
}

// stride is the distance, in bits, between the bits that two successive calls corrupt. It is a
// prime, so that every bit of an object is eventually corrupted.
const stride = 104729

// read implements Get and GetIf.
func (s *Store) read(
	ctx context.Context, kind Kind, key artifacts.Key, get func() ([]byte, artifacts.Version, error),
) ([]byte, artifacts.Version, error) {
	var b []byte
	var v artifacts.Version
	op, d, err := s.call(ctx, Op{Kind: kind, Key: key}, func() (err error) {
		b, v, err = get()
		return err
	})
	switch {
	case err != nil:
		return nil, "", err
	case d == Hide:
		return nil, "", op.error(artifacts.ErrNotFound)
	case d == Truncate:
		b = b[:len(b)/2]
	case d == Corrupt && len(b) == 0:
		b = []byte{0}
	case d == Corrupt:
		b = append([]byte{}, b...) // the store's bytes may be shared
		bit := (len(b)/2*8 + (op.N-1)*stride) % (8 * len(b))
		b[bit/8] ^= 1 << (bit % 8)
	}
	return b, v, nil
}

// Get implements artifacts.Reader.
func (s *Store) Get(ctx context.Context, key artifacts.Key, limit int64) ([]byte, artifacts.Version, error) {
	return s.read(ctx, Get, key, func() ([]byte, artifacts.Version, error) { return s.inner.Get(ctx, key, limit) })
}

// GetIf implements artifacts.Reader.
func (s *Store) GetIf(
	ctx context.Context, key artifacts.Key, known artifacts.Version, limit int64,
) ([]byte, artifacts.Version, error) {
	return s.read(
		ctx, GetIf, key, func() ([]byte, artifacts.Version, error) { return s.inner.GetIf(ctx, key, known, limit) })
}

// Put implements artifacts.Store.
func (s *Store) Put(ctx context.Context, key artifacts.Key, data []byte) error {
	_, _, err := s.call(ctx, Op{Kind: Put, Key: key}, func() error { return s.inner.Put(ctx, key, data) })
	return err
}

// Sync implements artifacts.Store.
func (s *Store) Sync(ctx context.Context) error {
	_, _, err := s.call(ctx, Op{Kind: Sync}, func() error { return s.inner.Sync(ctx) })
	return err
}

// Swap implements artifacts.Store.
func (s *Store) Swap(
	ctx context.Context, key artifacts.Key, old artifacts.Version, data []byte,
) (artifacts.Version, error) {
	var v artifacts.Version
	_, _, err := s.call(ctx, Op{Kind: Swap, Key: key}, func() (err error) {
		v, err = s.inner.Swap(ctx, key, old, data)
		return err
	})
	if err != nil {
		return "", err
	}
	return v, nil
}

// List implements artifacts.Store.
func (s *Store) List(ctx context.Context, prefix string, f func(artifacts.Info) error) error {
	_, _, err := s.call(ctx, Op{Kind: List, Prefix: prefix}, func() error { return s.inner.List(ctx, prefix, f) })
	return err
}

// Delete implements artifacts.Store.
func (s *Store) Delete(ctx context.Context, key artifacts.Key) error {
	_, _, err := s.call(ctx, Op{Kind: Delete, Key: key}, func() error { return s.inner.Delete(ctx, key) })
	return err
}

// Now implements artifacts.Store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	_, _, err := s.call(ctx, Op{Kind: Now}, func() (err error) {
		now, err = s.inner.Now(ctx)
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	return now, nil
}

// SelfTest implements artifacts.Store. The self-test calls the wrapped store directly: these calls
// are not counted, and the hook does not see them.
func (s *Store) SelfTest(ctx context.Context) error {
	_, _, err := s.call(ctx, Op{Kind: SelfTest}, func() error { return s.inner.SelfTest(ctx) })
	return err
}
