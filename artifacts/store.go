package artifacts

import (
	"context"
	"errors"
	"time"
)

// The answers of a store that callers act on. Stores wrap these errors, so test for them with
// errors.Is. Any other error means that the outcome is unknown. A store never reports an unknown
// outcome as one of these.
var (
	// ErrNotFound means that the store answered that the key does not exist. A store that cannot be
	// reached, or a missing folder or bucket, causes a different error.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that Put found different bytes under its key, or that Swap found a version
	// other than the one that it was to replace. Nothing was changed.
	ErrConflict = errors.New("conflict")
	// ErrNotModified means that the version is still the one that the caller knows.
	ErrNotModified = errors.New("not modified")
	// ErrTooLarge means that the object is longer than the caller's limit.
	ErrTooLarge = errors.New("too large")
)

// ErrNoAccess means that the folder or bucket does not exist, or that the credentials do not permit
// access to it. It says nothing about any object. An immediate retry does not help.
var ErrNoAccess = errors.New("no access to the store")

// ErrRefused means that the store lacks a required feature, or rejects the request as invalid. A
// retry does not help.
var ErrRefused = errors.New("the store cannot do this")

// BusyError means that the store asks for a later retry. If it wraps ErrConflict, a caller that
// does not retry its swap must treat the swap as lost.
type BusyError struct {
	// After is the pause that the store asks for, or 0 if it does not say.
	After time.Duration
	// Undone means that the store did nothing, so even a swap may be retried.
	Undone bool
	Err    error
}

func (e *BusyError) Error() string { return e.Err.Error() }
func (e *BusyError) Unwrap() error { return e.Err }

// Version is a store's opaque name for one state of a cell or object. The zero Version means that
// there is none.
type Version string

// Info describes one stored object in the results of List.
type Info struct {
	Key  Key
	Size int64
	// Modified is when the object was last written, by the store's clock.
	Modified time.Time
}

// All methods of a store are safe for concurrent use by several goroutines and processes, and
// return when ctx is done.

// ObjectReader reads by key, mainly immutable objects.
type ObjectReader interface {
	// Get returns the whole object and its version. If the object is longer than limit bytes, Get
	// returns ErrTooLarge and reads at most limit+1 bytes. If the key does not exist, Get returns
	// ErrNotFound.
	Get(ctx context.Context, key Key, limit int64) ([]byte, Version, error)
}

// CellReader reads cells.
type CellReader interface {
	// GetIf is Get for a caller that already knows a version. If knownVersion is still the object's
	// version, GetIf returns ErrNotModified without transferring the object. If knownVersion is
	// zero, GetIf behaves like Get.
	GetIf(ctx context.Context, key Key, knownVersion Version, limit int64) ([]byte, Version, error)
}

// Reader is the part of a store that an edge uses: reading by known key, and nothing else. Each
// method makes one attempt; package retry adds retries.
type Reader interface {
	ObjectReader
	CellReader
}

// Clock is implemented by readers that can compare this machine's clock with the store's.
type Clock interface {
	// ClockSkew returns how far this machine's clock is ahead of the store's, according to the last
	// answer; it is negative if this machine's clock is behind. The result is the smallest skew
	// that is consistent with the answer, so that a slow answer does not look like a skew. known is
	// false before the first answer.
	ClockSkew() (skew time.Duration, known bool)
}

// SkewOf returns the result of ClockSkew if r is a Clock. Otherwise known is false.
func SkewOf(r ObjectReader) (skew time.Duration, known bool) {
	if c, ok := r.(Clock); ok {
		return c.ClockSkew()
	}
	return 0, false
}

// Objects stores immutable objects.
type Objects interface {
	ObjectReader
	// Put writes an immutable object. Writing the same bytes again succeeds and renews
	// Info.Modified. If the key already has other bytes, Put returns ErrConflict and changes
	// nothing, unless the key contains the digest of data (see Key.Names): then the stored object
	// is damaged, and Put replaces it. Readers see either the whole object or none. The object is
	// durable once a later Sync has returned.
	Put(ctx context.Context, key Key, data []byte) error
	// Sync returns once every write that Put completed before the call is durable.
	Sync(ctx context.Context) error
	// List calls f for each key that begins with prefix, including cells, in no particular order.
	// It stops at the first error of f and returns it.
	List(ctx context.Context, prefix string, f func(Info) error) error
	// Delete removes an object or a cell. It is not an error if the key does not exist.
	Delete(ctx context.Context, key Key) error
}

// Cells stores small values that change by compare-and-swap.
type Cells interface {
	CellReader
	// Swap replaces the value of a cell if the cell's version still equals old. A zero old means
	// that the cell must not exist. Swap returns the new version, which is durable. If the version
	// differs, Swap returns ErrConflict and changes nothing. After any other error the swap may or
	// may not have happened, and the caller must read the cell again.
	Swap(ctx context.Context, key Key, old Version, data []byte) (Version, error)
}

// Store is a whole store, as builders use it.
type Store interface {
	Objects
	Cells
	// Now returns the time by the store's clock, which is also the clock of Info.Modified.
	Now(ctx context.Context) (time.Time, error)
	// SelfTest checks that the store honors the conditions of Put and Swap by trying them under
	// ProbePrefix. It returns the first fault.
	SelfTest(ctx context.Context) error
}
