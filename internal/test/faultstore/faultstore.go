// Package faultstore makes a store fail on demand, and counts what is asked of
// it. It is for tests.
//
// The two questions about a fault are whether the call was applied and what the
// caller learned: a write that was applied and reported as failed is where
// publishers break.
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

// ErrFault is the error of a call that the hook made fail. To the caller it is
// an unknown outcome: none of artifacts' answers.
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
	// Key is the call's key, or zero; Prefix is List's.
	Key    artifacts.Key
	Prefix string
	// N is the number of the call among all, from 1, in the order in which
	// they were made.
	N int
}

// Decision is what becomes of a call.
type Decision int

// The decisions.
const (
	Pass     Decision = iota // it is let through
	Refuse                   // it is not applied, and fails with ErrFault
	Lose                     // it is applied, and fails with ErrFault
	Corrupt                  // Get, GetIf: one bit of the object is wrong, another one each time; else as Pass
	Truncate                 // Get, GetIf: the object's second half is missing; else as Pass
	Hide                     // Get, GetIf: artifacts.ErrNotFound; else as Pass
	Block                    // it is not applied, and hangs until its context is done
)

// Hook decides about a call before it is made. Calls at the same time call it
// at the same time. It may block.
type Hook func(Op) Decision

// Store wraps a store. It is safe for concurrent use.
type Store struct {
	inner artifacts.Store

	mu     sync.Mutex // guards what follows
	hook   Hook
	n      int
	counts map[Kind]int
}

var _ artifacts.Store = (*Store)(nil)

// New returns a store that asks hook about each call before inner gets it. A
// nil hook lets all pass.
func New(inner artifacts.Store, hook Hook) *Store {
	return &Store{inner: inner, hook: hook, counts: map[Kind]int{}}
}

// SetHook makes hook decide from now on.
func (s *Store) SetHook(hook Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Counts returns how many calls of each kind were made since the store was made, or Reset, with a context that
// was not done, whatever became of them. A kind that was not called is not in it.
func (s *Store) Counts() map[Kind]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Reset begins to count anew, Op.N too.
func (s *Store) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n = 0
	clear(s.counts)
}

func (o Op) error(err error) error { return fmt.Errorf("%s %s%s: %w", o.Kind, o.Key, o.Prefix, err) }

// call makes one call, which apply makes on the wrapped store.
func (s *Store) call(ctx context.Context, op Op, apply func() error) (Op, Decision, error) {
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
	err := apply()
	if d == Lose {
		err = fault
	}
	return op, d, err
}

// stride is how many bits lie between those that two calls in a row corrupt. It
// is a prime, so that all bits of an object get their turn.
const stride = 104729

// read is Get or GetIf.
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

// SelfTest implements artifacts.Store. The calls that the wrapped store's test
// makes are its own: they are not counted, and the hook is not asked.
func (s *Store) SelfTest(ctx context.Context) error {
	_, _, err := s.call(ctx, Op{Kind: SelfTest}, func() error { return s.inner.SelfTest(ctx) })
	return err
}
